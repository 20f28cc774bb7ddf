//! A run that repeats itself is extended, and nobody can tell from its figures.

use std::collections::BTreeMap;
use tiersim_policies::zoo;
use tiersim_sim::record::RunRecord;
use tiersim_sim::run::{Options, RunError, run};
use tiersim_tests::soak::{Chosen, Trial, drawn, seed_of};

const WORLDS: u64 = 400;

/// A record that does not say how many steps were left out, and how many were.
fn record(trial: &Trial, extend: bool, timeline: bool) -> Result<(RunRecord, u64), RunError> {
    let scenario = trial.scenario().expect("a policy with a name");
    let options = Options { audit: true, timeline, window: trial.window, extend };
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
    trial.spec.repeat = [12, 20, 33, 60][a as usize % 4];
    trial.spec.warmup = [0, 1, 3, 9][b as usize % 4];
    trial.spec.jitter = 0.0;
    if !c.is_multiple_of(8) {
        trial.allocators.clear();
        trial.pressure = None;
        for service in trial.hardware.links.iter_mut().filter_map(|link| link.service.as_mut()) {
            (service.fetch.tail, service.evict.tail) = (None, None);
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
    // By policy: worlds that ran, and those of them that were extended.
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
                let counts = seen.entry(extended.results[0].policy.clone()).or_default();
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
