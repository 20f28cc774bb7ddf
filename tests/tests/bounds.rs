//! Bounds against all schedules of tiny traces, against an independent solver, and their theorems.

use tiersim_tests::exhaustive::{Tiny, policies, search};

/// How many tiny worlds are searched.
const WORLDS: u64 = 10_000;

fn judge(seed: u64) -> (f64, usize) {
    let tiny = Tiny::new(seed);
    let mut quickest = u32::MAX / 2;
    let mut ends = Vec::new();
    for (name, policy) in policies(&tiny, seed) {
        if let Some((end, _)) = tiny.run(policy, 1) {
            ends.push((name, end));
            quickest = quickest.min(end);
        }
    }
    let best = search(&tiny.machine, &tiny.workload, quickest + 1, false);
    if let Some(replay) = &best.schedule {
        let ran = tiny.run(Box::new(replay.clone()), 1).expect("it fits").0;
        assert!(ran >= best.ps, "seed {seed}: {ran} {} {replay:?}", best.ps);
        if ran > best.ps { println!("seed {seed}: {ran} {}", best.ps); }
    }
    let bound = tiny.bound(false).ps;
    assert!(bound <= u128::from(best.ps), "seed {seed}: {bound} {}", best.ps);
    for (name, end) in ends {
        assert!(end >= best.ps, "seed {seed}: {name} ends at {end}, the best at {}", best.ps);
    }
    (bound as f64 / f64::from(best.ps.max(1)), best.states)
}

#[test]
fn no_policy_beats_the_best_schedule_and_no_schedule_the_bound() {
    let mut ratios = Vec::new();
    let mut states = 0;
    for seed in 0..WORLDS {
        let (ratio, looked) = judge(seed);
        ratios.push(ratio);
        if looked > 100_000 { println!("{seed} {looked}"); }
        states += looked;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * (ratios.len() - 1) as f64) as usize];
    println!("{states} states; {:?}", [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0].map(at));
}
