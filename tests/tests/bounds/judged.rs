//! Bounds and policies, judged by all schedules of tiny traces.
//!
//! For every world: bound <= best schedule <= every policy of the registry. The best schedule is
//! run by planner and simulator, which must not be quicker than the search says.

use std::thread;
use tiersim_tests::exhaustive::{Tiny, policies, search};

/// How many tiny worlds are searched.
const WORLDS: u64 = 10_000;

/// What the search of one world came to.
#[derive(Clone, Copy, Debug, Default)]
struct Judged {
    /// Bound over best.
    ratio: f64,
    /// Whether planner and simulator took as long as the search says.
    exact: bool,
    policies: usize,
    /// Policies that were as quick as the best schedule.
    best: usize,
}

/// The longest that a search without a policy that fits looks for.
pub(super) const ENDLESS: u32 = 1 << 30;

fn judge(seed: u64) -> Judged {
    let tiny = Tiny::new(seed);
    let mut ends = Vec::new();
    for (name, policy) in policies(&tiny, seed, 1) {
        ends.extend(tiny.run(policy, 1).map(|(end, _)| (name, end)));
    }
    let quickest = ends.iter().map(|end| end.1).min().unwrap_or(ENDLESS);
    let best = search(&tiny.machine, &tiny.workload, quickest + 1, false);
    let replay = best.schedule.expect("what a policy does is a schedule, or all in place is one");
    let ran = tiny.run(Box::new(replay.clone()), 1).expect("a schedule fits").0;
    assert!(ran >= best.ps, "seed {seed}: {ran} ps, found {}: {replay:?}", best.ps);
    let bound = tiny.bound(false).ps;
    assert!(bound <= u128::from(best.ps), "seed {seed}: bound {bound} ps, best {}", best.ps);
    for (name, end) in &ends {
        assert!(*end >= best.ps, "seed {seed}: {name} ends at {end}, the best at {}", best.ps);
    }
    Judged {
        ratio: if best.ps == 0 { 1.0 } else { bound as f64 / f64::from(best.ps) },
        exact: ran == best.ps,
        policies: ends.len(),
        best: ends.iter().filter(|end| end.1 == best.ps).count(),
    }
}

/// The worlds of this many seeds, on two threads.
pub(super) fn all<T: Send>(judge: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let half = |odd: u64| (0..WORLDS / 2).map(|half| judge(2 * half + odd)).collect::<Vec<T>>();
    thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut own = half(0);
        own.extend(other.join().expect("no world of the other half fails"));
        own
    })
}

/// What is at a percentile.
pub(super) fn at(ratios: &[f64], percent: usize) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[percent * (sorted.len() - 1) / 100]
}

#[test]
fn no_policy_beats_the_best_schedule_and_no_schedule_beats_the_bound() {
    let judged = all(judge);
    let ratios: Vec<f64> = judged.iter().map(|one| one.ratio).collect();
    let at = |percent: usize| at(&ratios, percent);
    println!("bound / best by percentile: {:?}", [0, 5, 10, 25, 50].map(|p| (p, at(p))));
    let tight = ratios.iter().filter(|&&ratio| ratio > 0.999).count();
    let exact = judged.iter().filter(|one| one.exact).count();
    let sum = |of: fn(&Judged) -> usize| judged.iter().map(of).sum::<usize>();
    // Neither side may become trivial: a bound of nothing, a search that finds nothing.
    assert!(at(50) > 0.99 && at(5) > 0.4, "half the bounds are tight");
    let runs = [sum(|one| one.policies), sum(|one| one.best)];
    assert_eq!(
        (tight, exact, runs),
        (4974, 9969, [209675, 79406]),
        "and runs of policies, those that are best"
    );
}

#[test]
fn no_policy_beats_the_best_schedule_of_a_measured_replay() {
    all(|seed| {
        let tiny = Tiny::new(seed);
        let mut ends = Vec::new();
        for (name, policy) in policies(&tiny, seed, 2) {
            ends.extend(tiny.run(policy, 2).map(|(_, measured)| (name, measured)));
        }
        let quickest = ends.iter().map(|end| end.1).min().unwrap_or(ENDLESS);
        // As the warm-up may leave it: in HBM, outside, or both.
        let best = search(&tiny.machine, &tiny.workload, quickest + 1, true).ps;
        let bound = tiny.bound(true).ps;
        assert!(bound <= u128::from(best), "seed {seed}: bound {bound} ps, best {best}");
        for (name, end) in ends {
            assert!(end >= best, "seed {seed}: {name} takes {end} ps, the best {best}");
        }
    });
}
