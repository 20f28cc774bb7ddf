//! Memory pressure over whole runs, every one of them audited: what each action does, what a
//! micro-batch that changes conserves, and when it is out of memory after all.

use std::fmt::Write;
use tiersim_models::results::{Outcome, PressureRecord};
use tiersim_policies::pressure::{HYSTERESIS, Level, PressureConfig, Response, Thresholds, What};
use tiersim_sim::run::RunError;
use tiersim_tests::files;
use tiersim_tests::prelude::*;

/// Steps that are alike, and then short ones.
const LONG_THEN_SHORT: &str = "[96, 96, 96, 96, 16, 16, 16, 16]";
/// The same length all along.
const ALIKE: &str = "[96, 96, 96, 96, 96, 96]";

/// A scenario of its own project: a small GPT-2 over 8 samples per step.
fn scenario(test: &str, sequences: &str, cases: &[impl AsRef<str>]) -> PathBuf {
    let root = files::own_project(concat!(env!("CARGO_TARGET_TMPDIR"), "/pressure"), test);
    let mut text = format!(
        "Scenario(schema: 2, about: \"a small model\", hardware: \"h100-sxm-pcie5\", \
         workload: Model(card: (family: gpt2, layers: 3, hidden: 128, ffn: 512, heads: 4, vocab: 500, \
         positions: 128), precision: bf16, mode: train(batch: 8, sequences: {sequences}), \
         time: roofline(precision: \"bf16\"), repeat: 1, warmup: 0), policies: ["
    );
    for (index, case) in cases.iter().map(AsRef::as_ref).enumerate() {
        let _ = write!(text, "(name: \"{index}\", {case}),");
    }
    text.push_str("])");
    fs::write(root.join("case.ron"), text).expect("it can be written");
    root.join("case.ron")
}

fn try_record(path: &Path, set: &[(&str, &str)]) -> Result<RunRecord, RunError> {
    let scenario = files::scenario(path, set);
    let traces = files::traces(&scenario);
    let options = Options { audit: true, timeline: true, ..Options::default() };
    run(&scenario, traces.of(&scenario), String::new(), options, || ())
}

fn record(test: &str, sequences: &str, cases: &[impl AsRef<str>]) -> RunRecord {
    try_record(&scenario(test, sequences, cases), &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn pressure(case: &CaseRecord) -> &PressureRecord {
    case.pressure.as_ref().expect("the case watches a tier")
}

fn fits(case: &CaseRecord) -> bool {
    matches!(case.outcome, Outcome::Done(_))
}

fn count(case: &CaseRecord, what: What) -> usize {
    pressure(case).log.events.iter().filter(|event| event.what == what).count()
}

#[test]
fn watching_with_no_action_changes_nothing() {
    let nothing = "pressure: (tier: \"hbm\", actions: (warning: [], critical: [], emergency: []))";
    let warn = "pressure: (tier: \"hbm\", actions: (critical: [], emergency: []))";
    let cases = ["policy: AllHbm, hbm: share_of_peak(1.0)"; 3];
    let cases =
        [cases[0].to_owned(), format!("{}, {nothing}", cases[1]), format!("{}, {warn}", cases[2])];
    let record = record("nothing", ALIKE, &cases);
    let figures: Vec<_> = record.results.iter().map(|case| case.outcome.figures()).collect();
    assert!(figures[0].is_some());
    assert_eq!((figures[0], figures[0]), (figures[1], figures[2]));
    assert_eq!(pressure(&record.results[1]).log.highest, Level::Emergency);
    assert_eq!(pressure(&record.results[1]).log.warnings, 0);
    // Memory rises to its most once in each of six steps.
    assert_eq!(pressure(&record.results[2]).log.warnings, 6);
}

#[test]
fn evicting_makes_a_run_fit_and_costs_copies() {
    let record = record(
        "evicting",
        ALIKE,
        &[
            "policy: AllHbm, hbm: share_of_peak(0.9)",
            "policy: AllHbm, hbm: share_of_peak(0.9), pressure: (tier: \"hbm\")",
            "policy: AllHbm, hbm: share_of_peak(0.9), pressure: (tier: \"hbm\", actions: (emergency: []))",
        ],
    );
    let [plain, evicting, idle] = &record.results[..] else { panic!("three cases") };
    assert!(!fits(plain) && fits(evicting) && !fits(idle));
    let log = &pressure(evicting).log;
    assert!(log.evictions > 0 && log.highest == Level::Emergency);
    let figures = evicting.outcome.figures().expect("it fits");
    assert!(evicting.hbm_budget.holds(figures.peak[0]));
    // All that left was changed by the optimizer before, so all of it was copied, and came back.
    let channel = |ends: &str| {
        let channel = record
            .base()
            .channels
            .iter()
            .position(|channel| channel.ends == ends)
            .expect("a channel");
        figures.moved[channel]
    };
    assert_eq!(channel("hbm->dram"), log.evicted);
    assert!(channel("dram->hbm") > Bytes::ZERO);
    assert!(channel("dram->hbm") <= log.evicted);
    assert!(figures.mean_step() > evicting.baseline_step);
    // Who ran out has a log too: the allocation did not fit, and nothing was done.
    assert_eq!((pressure(idle).log.forced, pressure(idle).log.evictions), (1, 0));
}

#[test]
fn evictions_end_below_the_target() {
    let record = record(
        "target",
        ALIKE,
        &[
            "policy: AllHbm, hbm: share_of_peak(0.95), pressure: (tier: \"hbm\", profile: conservative)",
        ],
    );
    let pressure = pressure(&record.results[0]);
    let target = pressure.capacity.get() * 85 / 100;
    let evictions = pressure.log.events.iter().filter(|event| event.what == What::Evict);
    let ends: Vec<u64> = evictions.map(|event| event.used.get()).collect();
    assert!(!ends.is_empty());
    assert!(ends.iter().all(|&used| used < target), "{ends:?}, target {target}");
    // Not further than needed: one object of the largest size at most.
    let trace = "a table of 500 x 128 numbers with 4 bytes each is the largest persistent object";
    assert!(ends.iter().all(|&used| used + 500 * 128 * 4 >= target), "{trace}: {ends:?}");
}

#[test]
fn cleaning_gives_back_what_the_allocator_keeps() {
    // Segments of the shorter sequences do not serve the longer ones, and stay.
    let sequences = "[32, 48, 64, 80, 96, 112, 128]";
    let large = [
        ("workload.card.hidden", "1024"),
        ("workload.card.ffn", "1024"),
        ("workload.mode.batch", "64"),
    ];
    let run = |cases: &[String]| {
        let path = scenario("cleaning", sequences, cases);
        try_record(&path, &large).unwrap_or_else(|error| panic!("{error}"))
    };
    let caching = "policy: AllHbm, allocators: [(tier: \"hbm\", model: caching())], hbm: gib(4)";
    let reserved = |case: &CaseRecord| {
        let figures = case.outcome.figures().expect("it fits");
        figures.memory_of(0).expect("an allocator").peak_reserved.get()
    };
    let plain = run(&[caching.to_owned()]);
    let kept = reserved(&plain.results[0]);
    let critical = kept as f64 * 0.9 / f64::from(1 << 30) / 4.0;
    let below = [0.7, 0.8, 1.0].map(|part| critical * part);
    let watched = |more: &str| {
        format!(
            "pressure: (tier: \"hbm\", thresholds: (target: {}, warning: {}, critical: {}, \
             emergency: 1.0){more})",
            below[0], below[1], below[2]
        )
    };
    let [clean, warn] = ["", ", actions: (critical: [warn])"].map(watched);
    let cases = [
        format!("{caching}, {clean}"),
        format!("{caching}, {warn}"),
        format!("policy: AllHbm, hbm: gib(4), {clean}"),
    ];
    let record = run(&cases);
    let [cleaned, warned, exact] = &record.results[..] else { panic!("three cases") };
    let log = &pressure(cleaned).log;
    assert!(log.cleans > 0 && log.cleaned > Bytes::ZERO, "{log:?}");
    // Less is kept, and never less than what objects need.
    let needed = exact.outcome.figures().expect("it fits").peak[0].get();
    let less = reserved(cleaned);
    assert!(needed <= less && less < kept, "{needed} <= {less} < {kept}");
    assert_eq!((reserved(warned), pressure(warned).log.cleans), (kept, 0));
    // An exact tier keeps nothing, so there is nothing to give back.
    assert_eq!(pressure(exact).log.cleans, 0);
}

#[test]
fn a_micro_batch_shrinks_under_pressure_and_is_restored_behind_it() {
    let dynamic = "pressure: (tier: \"hbm\", micro_batch: (min: 1))";
    let cases = [
        "policy: AllHbm, hbm: share_of_peak(0.8)".to_owned(),
        format!("policy: AllHbm, hbm: share_of_peak(0.8), {dynamic}"),
        "policy: AllHbm, hbm: share_of_peak(0.8), micro_batch: 1".to_owned(),
    ];
    let record = record("dynamic", LONG_THEN_SHORT, &cases);
    let [fixed, dynamic, least] = &record.results[..] else { panic!("three cases") };
    assert!(!fits(fixed) && fits(dynamic) && fits(least));
    let pressure = pressure(dynamic);
    let batches = &pressure.log.micro_batches;
    assert_eq!((batches[0], batches[7]), (8, 8), "{batches:?}");
    assert!(batches[1] < 8 && batches.windows(2).all(|pair| pair[1] != 0), "{batches:?}");
    // Once found, it stays while steps are alike.
    let changes = batches[..5].windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert_eq!(changes, 0, "{batches:?}");
    let told: Vec<(u32, (u32, u32))> =
        pressure.log.events.iter().filter_map(|event| Some((event.step, event.batch?))).collect();
    let changed = (1..).zip(batches.windows(2)).filter(|(_, pair)| pair[0] != pair[1]);
    let changed: Vec<(u32, (u32, u32))> =
        changed.map(|(step, pair)| (step, (pair[0], pair[1]))).collect();
    assert_eq!(told, changed, "every change is an event at its step");
    assert_eq!(pressure.log.shrinks + pressure.log.restores, changed.len() as u64);
    // The same tokens in every case, so step times compare.
    let [dynamic, least] = [dynamic, least].map(|case| case.outcome.figures().expect("it fits"));
    assert_eq!(dynamic.steps.len(), 8);
    assert!(least.mean_step() > record.base().baseline.mean_step(), "many small batches cost time");
    assert_eq!(record.base().tokens_per_step, 8 * (4 * 96 + 4 * 16) / 8);
}

#[test]
fn a_micro_batch_changes_only_when_it_is_due() {
    let lengths = "[96, 96, 96, 96, 96, 96, 16, 16, 16, 16, 16, 16]";
    let case = |more: &str| {
        format!(
            "policy: AllHbm, hbm: share_of_peak(0.95), pressure: (tier: \"hbm\", \
             micro_batch: (min: 1, target_utilisation: 0.72{more}))"
        )
    };
    let cases = ["", ", adjustment_frequency: 4", ", smooth: false"].map(case);
    let record = record("due", lengths, &cases);
    let batches = |case: usize| pressure(&record.results[case]).log.micro_batches.clone();
    let [always, fourth, jump] = [0, 1, 2].map(batches);
    let changed = |batches: &[u32]| -> Vec<usize> {
        (1..batches.len()).filter(|&step| batches[step - 1] != batches[step]).collect()
    };
    assert!(changed(&always).len() >= 4 && changed(&always).contains(&2), "{always:?}");
    assert!(always.windows(2).all(|pair| pair[0] <= 2 * pair[1] && pair[1] <= 2 * pair[0]));
    assert!(!changed(&fourth).is_empty(), "{fourth:?}");
    assert!(changed(&fourth).iter().all(|step| step % 4 == 0), "{fourth:?}");
    // At once where the others go by notches, and so to the same sizes sooner.
    assert!(jump.windows(2).any(|pair| pair[0] > 2 * pair[1]), "{jump:?}");
    assert_eq!((jump[1], jump[11]), (always[5], always[11]), "{jump:?} {always:?}");
}

#[test]
fn the_cache_is_cleared_after_every_so_many_steps() {
    let caching = "policy: AllHbm, allocators: [(tier: \"hbm\", model: caching())], hbm: gib(4)";
    let quiet = "actions: (warning: [], critical: [], emergency: [])";
    let case = |more: &str| format!("{caching}, pressure: (tier: \"hbm\", {quiet}{more})");
    let cases = [case(""), case(", clear_cache_frequency: 3"), case(", clear_cache_frequency: 1")];
    let record = record("cleared", "[32, 48, 64, 80, 96, 112, 128]", &cases);
    let cleans = |case: usize| -> Vec<u32> {
        let events = &pressure(&record.results[case]).log.events;
        events.iter().filter(|event| event.what == What::Clean).map(|event| event.step).collect()
    };
    assert!(cleans(0).is_empty());
    assert_eq!(cleans(1), [3, 6]);
    assert_eq!(cleans(2), [1, 2, 3, 4, 5, 6, 7]);
    for case in [1, 2] {
        let log = &pressure(&record.results[case]).log;
        assert!(log.cleaned > Bytes::ZERO && log.cleans == cleans(case).len() as u64, "{log:?}");
    }
}

#[test]
fn the_least_micro_batch_is_respected_then_objects_leave_then_it_is_out_of_memory() {
    let case = |share: f64, min: u32| {
        format!(
            "policy: AllHbm, hbm: share_of_peak({share}), \
             pressure: (tier: \"hbm\", micro_batch: (min: {min}))"
        )
    };
    let cases = [case(0.55, 4), case(0.05, 4)];
    let refused = read(&scenario("least", ALIKE, &[&cases[1]]));
    // What persists does not fit: nothing ran, so nothing was watched.
    assert!(!fits(&refused.results[0]) && refused.results[0].pressure.is_none());
    let record = record("least-fits", ALIKE, &[&cases[0], &case(0.75, 4)]);
    for case in &record.results {
        let log = &pressure(case).log;
        assert!(log.micro_batches.iter().all(|&most| most >= 4), "{:?}", log.micro_batches);
        assert!(log.evictions > 0);
    }
    let [small, large] = &record.results[..] else { panic!("two cases") };
    assert!(fits(large) && pressure(large).log.micro_batches.contains(&4));
    let Outcome::OutOfMemory(full) = &small.outcome else { panic!("half of it is not enough") };
    assert!(full.at.starts_with("step 0"), "{}", full.at);
    assert!(pressure(small).log.forced > 0);
}

fn read(path: &Path) -> RunRecord {
    try_record(path, &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn events_have_their_moments_in_order() {
    let dynamic =
        "policy: AllHbm, hbm: share_of_peak(0.8), pressure: (tier: \"hbm\", micro_batch: (min: 1))";
    let record = record("moments", LONG_THEN_SHORT, &[dynamic]);
    let case = &record.results[0];
    let pressure = pressure(case);
    assert_eq!(pressure.at.len(), pressure.log.events.len());
    assert!(pressure.at.windows(2).all(|pair| pair[0] <= pair[1]));
    let occurrences = pressure.log.events.iter().map(|event| event.occurrence);
    assert!(occurrences.is_sorted());
    let steps: Vec<_> = case.outcome.figures().expect("it fits").steps.iter().collect();
    assert_eq!(pressure.steps.iter().map(|&(_, span)| span).collect::<Vec<_>>(), steps);
    for (event, at) in pressure.timed() {
        let (start, span) = pressure.steps[event.step as usize];
        assert!(start <= at && at <= start + span, "{event:?} at {at}");
    }
    assert!(count(case, What::Shrink) > 0 && count(case, What::Restore) > 0);
}

/// Every policy, access, allocator and profile together: nothing breaks a rule of the auditor, and
/// nobody's plan is refused.
#[test]
fn any_policy_can_be_watched() {
    let policies = [
        "AllHbm",
        "Lru()",
        "Lru(spill: [\"nvme\"])",
        "AdamState(cut: shares(hbm: 0.5, cpu: 0.5), access: migrate(prefetch_ops: 0))",
        "AdamState(cut: shares(hbm: 0.5, cpu: 0.3), access: migrate(prefetch_ops: 24))",
        "AdamState(cut: shares(hbm: 0.4, cpu: 0.6), access: in_place(charge: every_use))",
    ];
    let allocators = ["exact", "pool", "caching()", "buckets()", "buddy()"];
    let ways = [
        "pressure: (tier: \"hbm\", profile: conservative)",
        "pressure: (tier: \"hbm\", micro_batch: (min: 1))",
        "pressure: (tier: \"hbm\", thresholds: (target: 0.3, warning: 0.35, critical: 0.4, \
         emergency: 0.45), actions: (target: [warn, evict], critical: [shrink, clean]), \
         micro_batch: (min: 2, max: 6))",
    ];
    let mut cases = Vec::new();
    for policy in policies {
        for allocator in allocators {
            for way in ways {
                for share in [0.45, 0.7, 0.95] {
                    cases.push(format!(
                        "policy: {policy}, hbm: share_of_peak({share}), \
                         allocators: [(tier: \"hbm\", model: {allocator})], {way}"
                    ));
                }
            }
        }
    }
    let record = record("any", "[48, 96, 16, 128, 64]", &cases);
    let fit = record.results.iter().filter(|case| fits(case)).count();
    let evicted = record
        .results
        .iter()
        .filter(|case| case.pressure.as_ref().is_some_and(|pressure| pressure.log.evictions > 0));
    assert_eq!((fit, evicted.count()), (177, 175), "of {} cases", cases.len());
    for case in &record.results {
        let Outcome::Done(figures) = &case.outcome else { continue };
        assert!(case.hbm_budget.holds(figures.peak[0]), "{}", case.label);
    }
}

/// A policy drops a far copy because there is one in HBM; before it comes to that, pressure has
/// moved the one in HBM out.
#[test]
fn a_drop_of_what_has_become_the_only_copy_is_left_out() {
    let mut traced = Traced::new();
    let [a, b] = [60, 50].map(|bytes| traced.object(bytes, true));
    for object in [a, b, a] {
        traced.op(0, 0, Span::ZERO, &[(object, Mode::Read)]);
    }
    let (workload, far) = (Workload::new(traced.0), TierId(1));
    let script = vec![vec![fetch(a)], vec![fetch(b), Action::Drop { object: a, tier: far }]];
    let policy = Scripted::of(vec![far; 2], script);
    let capacities = Memory::of([Bytes::new(100).into(), Capacity::Unlimited]);
    let mut planner = Planner::new(&workload, policy, &capacities, 1).expect("all is far");
    let responses = [vec![], vec![], vec![], vec![Response::Evict]];
    planner.watch(
        PressureConfig {
            tier: HBM,
            thresholds: Thresholds::BALANCED,
            hysteresis: HYSTERESIS,
            responses,
            spill: vec![far],
            micro_batch: None,
            clear_cache_frequency: None,
        },
        Vec::new(),
    );
    let mut commands = Vec::new();
    while planner.plan_next(&mut commands).expect("nothing is refused") {}
    // It is there for the last op, for which the other one left.
    assert!(planner.ledger().holds(a, HBM) && planner.ledger().holds(a, far));
    assert_eq!(planner.pressure().map(|log| log.evictions), Some(2));
}
