//! A run that repeats itself is extended, and nobody can tell from its figures.

use tiersim_models::results::{Outcome, Settled};
use tiersim_policies::state::State;
use tiersim_sim::run::RunError;
use tiersim_tests::files::{self, shipped_scenario};
use tiersim_tests::prelude::*;
use tiersim_tests::soak::drawn;

const WORLDS: u64 = 400;

/// A record that does not say how many steps were left out, and how many were.
fn record(trial: &Trial, extend: bool, timeline: bool) -> Result<(RunRecord, u64), RunError> {
    let scenario = trial.scenario().expect("a policy with a name");
    let options =
        Options { audit: true, timeline, window: trial.window, extend, ..Options::default() };
    let mut record = run(&scenario, &trial.workload, String::new(), options, || ())?;
    let left_out = record.results.iter_mut().map(|case| std::mem::take(&mut case.left_out)).sum();
    Ok((record, left_out))
}

/// A random world that replays its trace often, mostly one that may repeat itself, under one policy
/// of the registry after the other.
fn world(index: u64) -> Trial {
    let seed = seed_of(77, index);
    let mut trial = Trial::new(seed, usize::MAX);
    let [a, b, c] = [0, 1, 2].map(|n| seed_of(seed, n));
    // Long enough that more is to come when as many ops are under way as may be.
    let filled = 2 * trial.window / trial.workload.trace.ops.len() as u64;
    trial.spec.repeat = [12, 20, 33, 60][a as usize % 4] + filled as u32;
    trial.spec.warmup = [0, 1, 3, 9][b as usize % 4];
    trial.spec.jitter = 0.0;
    if !c.is_multiple_of(8) {
        trial.allocators.clear();
        trial.pressure = None;
        for service in trial.hardware.links.iter_mut().filter_map(|link| link.service.as_mut()) {
            (service.read.tail, service.write.tail) = (None, None);
        }
    }
    if trial.hardware.tiers.len() > 1 {
        let entry = &zoo::ALL[index as usize % zoo::ALL.len()];
        let policy = drawn(entry, seed, &trial.workload.trace, &trial.hardware);
        trial.policy = policy.map_or(trial.policy, Chosen::Config);
    }
    trial
}

#[test]
fn extended_runs_have_the_figures_of_whole_ones() {
    // By policy: worlds that fitted, and those of them that were extended.
    let mut seen: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for index in 0..WORLDS {
        let trial = world(index);
        if trial.scenario().is_none() {
            continue;
        }
        let timeline = index % 3 == 0;
        match (record(&trial, false, timeline), record(&trial, true, timeline)) {
            (Ok((whole, none)), Ok((extended, left_out))) => {
                assert_eq!(none, 0);
                let same = format!("{whole:?}") == format!("{extended:?}");
                assert!(same, "world {index}: {trial}\n{whole:?}\n{extended:?}");
                let case = &extended.results[0];
                let counts = seen.entry(case.policy.clone()).or_default();
                counts[0] += u64::from(case.outcome.figures().is_some());
                counts[1] += u64::from(left_out > 0);
            }
            (whole, extended) => assert_eq!(whole.err(), extended.err(), "world {index}"),
        }
    }
    let sum = |at: usize| seen.values().map(|counts| counts[at]).sum::<u64>();
    assert_eq!([sum(0), sum(1)], [354, 239], "fitted, and were extended: {seen:?}");
    // Uses are counted over the whole run.
    let never: Vec<&str> =
        seen.iter().filter(|(_, counts)| counts[1] == 0).map(|(name, _)| name.as_str()).collect();
    assert_eq!(never, ["lfu"], "{seen:?}");
}

#[test]
fn runs_that_go_on_have_the_figures_of_those_begun_anew() {
    // Worlds that fitted, and those of them that went on at least once, and at least twice.
    let mut seen = [0u64; 3];
    for index in 0..4 * WORLDS {
        let mut trial = world(index);
        trial.spec.warmup = 1 + index as u32 % 2;
        trial.spec.repeat = trial.spec.warmup + 1;
        let mut streams = trial.workload.trace.ops.iter().map(|op| op.stream);
        if trial.scenario().is_none() || streams.any(|stream| stream > 0) {
            continue;
        }
        match (record(&trial, false, false), record(&trial, true, false)) {
            (Ok((anew, _)), Ok((on, _))) => {
                let same = format!("{anew:?}") == format!("{on:?}");
                assert!(same, "world {index}: {trial}\n{anew:?}\n{on:?}");
                let figures = on.results[0].outcome.figures();
                let added =
                    figures.map(|figures| figures.steady.warmup - u64::from(trial.spec.warmup));
                for (least, count) in seen.iter_mut().enumerate() {
                    *count += u64::from(added.is_some_and(|added| added >= [0, 1, 3][least]));
                }
            }
            (anew, on) => assert_eq!(anew.err(), on.err(), "world {index}"),
        }
    }
    assert_eq!(seen, [504, 80, 3], "fitted, went on, and went on twice or more");
}

/// Everything in HBM, with a delay at the start of each replay that depends on its number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moody {
    /// One of three, in turn.
    Turns,
    /// Another one from replay 37 on, which it says.
    Changes,
    /// The same, which it does not say.
    Hides,
    /// The same, and it says that it cannot tell.
    Silent,
}

impl Recipe for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn details(&self) -> String {
        String::new()
    }

    fn build(&self, _: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(*self))
    }
}

impl Policy for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn lookahead(&self) -> Lookahead {
        Lookahead::Past
    }

    fn initial_tier(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn allocate_in(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let replay = step.view().replay();
        let delay = match self {
            Moody::Turns => replay % 3,
            _ => u64::from(replay >= 37),
        };
        step.delay(Span::from_us(1 + delay));
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        match self {
            Moody::Turns => out.word(view.replay() % 3),
            Moody::Changes => out.word(view.replay().min(37)),
            Moody::Hides | Moody::Silent => {}
        }
        *self != Moody::Silent
    }
}

/// A world in which everything fits and nothing is drawn.
fn roomy(policy: Moody) -> Trial {
    let mut trial = world(3).under(Chosen::Config(policy.into()));
    trial.hardware.tiers[HBM.index()].capacity = Bytes::gib(1 << 20).into();
    trial.allocators.clear();
    (trial.pressure, trial.window, trial.spec.repeat) = (None, 16, 200);
    trial
}

#[test]
fn a_run_of_several_moods_repeats_all_of_them() {
    let trial = roomy(Moody::Turns);
    let (whole, _) = record(&trial, false, true).expect("it runs");
    let (extended, left_out) = record(&trial, true, true).expect("it runs");
    assert_eq!(format!("{whole:?}"), format!("{extended:?}"));
    assert_eq!(left_out, 192);
}

#[test]
fn a_policy_that_counts_is_extended_only_behind_its_change() {
    let runs = |policy, extend| record(&roomy(policy), extend, false).expect("it runs");
    let (whole, _) = runs(Moody::Changes, false);
    for (policy, extends) in [(Moody::Changes, true), (Moody::Silent, false)] {
        let (extended, left_out) = runs(policy, true);
        assert_eq!(format!("{whole:?}"), format!("{extended:?}"), "{policy:?}");
        assert_eq!(left_out > 0, extends, "{policy:?}");
    }
    // What is not told is missed: nothing else in the run says it.
    let (wrong, left_out) = runs(Moody::Hides, true);
    assert!(left_out > 0 && format!("{whole:?}") != format!("{wrong:?}"));
}

#[test]
fn a_thousand_hours_of_training_are_as_many_times_a_replay() {
    let of = |repeat: u32, extend: bool| {
        let repeat = repeat.to_string();
        let set = [("workload.repeat", repeat.as_str())];
        let scenario = shipped_scenario("validation/host-smoke", &set);
        files::record(&scenario, Options { extend, ..Options::default() })
    };
    // 21.6 ms of compute per replay.
    let many = 170_000_000;
    let (few, more, long) = (of(60, false), of(61, false), of(many, true));
    for ((few, more), long) in few.results.iter().zip(&more.results).zip(&long.results) {
        assert!(long.left_out > 2 * u64::from(many) - 400, "{}", long.label);
        let all = [few, more, long].map(|case| case.outcome.figures().expect("it fits"));
        let grown = |of: &dyn Fn(usize) -> u128| {
            let one = of(1) - of(0);
            assert_eq!(of(2) - of(0), one * u128::from(many - 60));
        };
        grown(&|at| all[at].steps.len() as u128);
        grown(&|at| all[at].steps.total());
        grown(&|at| all[at].events.into());
        grown(&|at| all[at].hits.into());
        grown(&|at| all[at].compute.ps().into());
        for channel in 0..all[0].moved.len() {
            grown(&|at| all[at].moved[channel].get().into());
            grown(&|at| all[at].busy[channel].ps().into());
            grown(&|at| all[at].stall[channel].ps().into());
        }
        assert!(all[2].steps.total() >= 1000 * 3600 * u128::from(PS_PER_S), "a thousand hours");
    }
    assert!(!long.results.is_empty());
}

/// A model larger than its memory with other values, and its record.
fn large(set: &[(&str, &str)]) -> (Scenario, RunRecord) {
    let scenario = shipped_scenario("llama-2-7b-24gb", set);
    let record = files::record(&scenario, Options::default());
    (scenario, record)
}

#[test]
fn all_that_measured_steps_move_is_paid_in_their_time() {
    let mut means = Vec::new();
    for (repeat, warmup) in [("2", "0"), ("4", "2"), ("6", "4"), ("8", "6"), ("1", "0")] {
        let set = [("workload.repeat", repeat), ("workload.warmup", warmup)];
        let (scenario, record) = large(&set);
        for case in &record.results {
            let Some(figures) = case.outcome.figures() else { continue };
            for channel in scenario.hardware.channels() {
                let (name, rate) = (
                    scenario.hardware.channel_name(channel),
                    scenario.hardware.channel_law(channel).rate,
                );
                let needed = rate.span_of(figures.moved[channel.index()].get());
                let time = figures.steps.total();
                assert!(u128::from(needed.ps()) <= time + 1000, "{}: {name}", case.label);
                assert!(figures.busy_fraction(channel.index()) <= 1.0, "{}: {name}", case.label);
            }
            assert_ne!(figures.steady.settled, Settled::Drifts, "{}", case.label);
        }
        let figures = record.results[3].outcome.figures().expect("it fits");
        means.push(figures.mean_step());
        let once = repeat == "1";
        assert_eq!(figures.steady.settled == Settled::Once, once);
        assert_eq!(figures.steady.left_over > Span::ZERO, once, "writes are left over");
    }
    // 75.31 GiB over a bus of 1.4 GB/s.
    assert!(means.iter().all(|mean| mean.as_ms() >= 57_757.0), "{means:?}");
    assert!(means[..4].iter().all(|mean| mean == &means[0]), "{means:?}");
}

#[test]
fn the_baseline_of_updates_on_the_host_has_them_on_the_device() {
    let (_, record) = large(&[]);
    let set = [("workload.mode.zero.host_update", "0.0")];
    let (_, device) = large(&set);
    assert_eq!(record.base().baseline.mean_step(), device.base().baseline.mean_step());
    for case in &record.results {
        let Some(figures) = case.outcome.figures() else { continue };
        assert!(figures.mean_step() >= record.base().baseline.mean_step(), "{}", case.label);
    }
}

#[test]
fn zero_offload_spills_only_where_it_is_told_to() {
    // Optimizer state and gradients of 7B parameters are more than this memory.
    let less = ("capacity.dram", "gib(64)");
    let case = |set: &[(&str, &str)]| large(set).1.results[1].clone();
    let Outcome::OutOfMemory(oom) = &case(&[less]).outcome else { panic!("it has nowhere to go") };
    assert_eq!(oom.tier, "dram");
    assert!(oom.remedy.as_ref().is_some_and(|remedy| remedy.contains("`spill: [\"nvme\"]`")));
    let policy = "ZeroOffload(optimizer: \"dram\", spill: [\"nvme\"])";
    let figures = case(&[less, ("policies.1.policy", policy)]);
    let figures = figures.outcome.figures().expect("it spills").clone();
    let nvme = figures.peak.last().expect("the last tier is flash");
    assert!(*nvme > Bytes::gib(20), "{nvme}");
}
