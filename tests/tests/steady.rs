//! A run that repeats itself is extended, and nobody can tell from its figures.

use std::collections::BTreeMap;
use tiersim_sim::record::{CaseRecord, RunRecord};
use tiersim_sim::run::{Options, RunError, run};
use tiersim_tests::soak::{Trial, drawn, seed_of};

/// A record with the steps that were left out, and without saying so.
fn record(trial: &Trial, extend: bool, timeline: bool) -> Result<(RunRecord, u64), RunError> {
    let scenario = trial.scenario().expect("a policy with a name");
    let options = Options { audit: true, timeline, window: trial.window, extend };
    let mut record = run(&scenario, &trial.workload, String::new(), options, || ())?;
    let left_out: u64 = record.results.iter().map(|case| case.left_out).sum();
    record.results.iter_mut().for_each(|case: &mut CaseRecord| case.left_out = 0);
    Ok((record, left_out))
}

/// A random world that replays its trace often and draws nothing.
fn world(seed: u64) -> Trial {
    let mut trial = Trial::new(seed, usize::MAX);
    let [a, b, c] = [0, 1, 2].map(|n| seed_of(seed, n));
    trial.spec.repeat = [12, 20, 33, 60][a as usize % 4];
    trial.spec.warmup = [0, 1, 3, 9][b as usize % 4];
    trial.spec.jitter = 0.0;
    trial.repeat = trial.spec.repeat;
    if !c.is_multiple_of(8) {
        trial.allocators.clear();
        trial.pressure = None;
        for link in &mut trial.hardware.links {
            if let Some(service) = &mut link.service {
                (service.fetch.tail, service.evict.tail) = (None, None);
            }
        }
    }
    trial
}

#[test]
fn extended_runs_have_the_figures_of_whole_ones() {
    let mut seen: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for index in 0..400 {
        let seed = seed_of(77, index);
        let mut trial = world(seed);
        if let Some(policy) = drawn(
            &tiersim_policies::zoo::ALL[index as usize % tiersim_policies::zoo::ALL.len()],
            seed,
            &trial.workload.trace,
            &trial.hardware,
        )
        .filter(|_| trial.hardware.tiers.len() > 1)
        {
            trial.policy = tiersim_tests::soak::Chosen::Config(policy);
        }
        if trial.scenario().is_none() {
            continue;
        }
        let timeline = index % 3 == 0;
        let whole = record(&trial, false, timeline);
        let extended = record(&trial, true, timeline);
        match (whole, extended) {
            (Ok((whole, none)), Ok((extended, left_out))) => {
                assert_eq!(none, 0);
                let name = zoo_name(&extended);
                let same = format!("{whole:?}") == format!("{extended:?}");
                assert!(same, "world {index} (seed {seed}): {trial}\n{whole:?}\n{extended:?}");
                let counts = seen.entry(name).or_default();
                counts[0] += 1;
                counts[1] += u64::from(left_out > 0);
            }
            (whole, extended) => assert_eq!(whole.err(), extended.err(), "world {index}"),
        }
    }
    eprintln!("{seen:?}");
    let sum = |at: usize| seen.values().map(|counts| counts[at]).sum::<u64>();
    assert!(sum(1) * 2 > sum(0), "{} of {} were extended: {seen:?}", sum(1), sum(0));
}

fn zoo_name(record: &RunRecord) -> &'static str {
    let name = &record.results[0].policy;
    tiersim_policies::zoo::ALL
        .iter()
        .map(|entry| entry.spelling)
        .find(|spelling| {
            let plain = |text: &str| text.replace('-', "").to_lowercase();
            plain(spelling) == plain(name)
        })
        .unwrap_or("other")
}
