//! The plan that is found by trying: against all schedules of tiny traces, and on a real one.

use tiersim_policies::cpu_ops;
use tiersim_policies::zoo::optimal;
use tiersim_policies::zoo::planned_migration::PlannedMigrationConfig;
use tiersim_tests::exhaustive::{Tiny, search};
use tiersim_tests::files;
use tiersim_tests::prelude::*;

/// Tiny worlds that are searched, and runs for each.
const WORLDS: u64 = 1_000;
const RUNS: u32 = 600;

/// When a world ends under a configuration.
fn ends(tiny: &Tiny, config: &PolicyConfig, setting: &Setting<'_>) -> Option<u32> {
    let policy = cpu_ops::build(setting, |setting| config.build(setting)).expect("it is built");
    Some(tiny.run(policy, setting.repeat)?.0)
}

/// A run that is begun again has its plan from the policy before: it decides the same.
#[test]
fn a_plan_is_carried_out_again_as_it_was() {
    let mut moved = 0;
    for seed in 0..300 {
        let tiny = Tiny::new(seed);
        let spill: Vec<TierId> = tiny.hardware.tier_ids().filter(|&tier| tier != HBM).collect();
        with_setting(&tiny.workload, &tiny.hardware, 2, |setting| {
            let config = PolicyConfig::from(PlannedMigrationConfig { spill: spill.clone() });
            let policy = cpu_ops::build(setting, |setting| config.build(setting));
            let policy = policy.expect("it is built");
            // Ops on the CPU are served by another policy around it, which is built anew.
            let Some(again) = policy.anew() else { return };
            let third = again.anew().expect("it was there before");
            let ran = [policy, again, third].map(|policy| tiny.run(policy, setting.repeat));
            assert!(ran[0] == ran[1] && ran[0] == ran[2], "seed {seed}: {ran:?}");
            moved += usize::from(ran[0].is_some());
        });
    }
    assert!(moved > 100, "{moved}");
}

/// Whatever is tried is a legal run; the best of it is no quicker than the best of all schedules,
/// and no slower than G10's plan, with which the search begins.
#[test]
fn tiny_plans_are_between_g10_and_the_best_schedule() {
    let (mut judged, mut best, mut g10s) = (0, 0, 0);
    let (mut on_device, mut best_on_device) = (0, 0);
    for seed in 0..WORLDS {
        let tiny = Tiny::new(seed);
        let spill: Vec<TierId> = tiny.hardware.tier_ids().filter(|&tier| tier != HBM).collect();
        let spans: Vec<Span> =
            (0..tiny.workload.trace.ops.len() as u64).map(|op| tiny.durations.of(op)).collect();
        let found = with_setting(&tiny.workload, &tiny.hardware, 1, |setting| {
            let setting = &Setting { spans: &spans, ..*setting };
            let asked = optimal::OptimalConfig::new(spill.clone(), RUNS);
            let asked = PolicyConfig::from(asked);
            let mut judge = |tried: &PolicyConfig| {
                ends(&tiny, tried, setting).map(|end| Span::from_ps(end.into()))
            };
            let config = asked.searched(setting, &mut judge).unwrap_or(asked);
            let g10 = PolicyConfig::from(PlannedMigrationConfig { spill: spill.clone() });
            Some((ends(&tiny, &config, setting)?, ends(&tiny, &g10, setting)))
        });
        let Some((end, g10)) = found else { continue };
        let least = search(&tiny.machine, &tiny.workload, end + 1, false).ps;
        assert!(end >= least, "seed {seed}: {end} ps, and the best schedule takes {least}");
        assert!(g10.is_none_or(|g10| end <= g10), "seed {seed}: {end} ps, G10 {g10:?}");
        judged += 1;
        best += u64::from(end == least);
        g10s += u64::from(g10 == Some(least));
        // Copies for ops on the host are no part of a plan.
        if tiny.workload.trace.ops.iter().all(|op| !matches!(op.unit, Unit::Cpu)) {
            on_device += 1;
            best_on_device += u64::from(end == least);
        }
    }
    println!(
        "of {judged} tiny worlds {best} plans are the best schedule's, {g10s} of G10; of \
         {on_device} without ops on the host {best_on_device}"
    );
    assert!(judged == WORLDS && best > 900 && best > g10s, "{judged} {best} {g10s}");
    assert!(100 * best_on_device >= 95 * on_device, "{best_on_device} of {on_device}");
}

/// GPT-2 training with 70 % of the memory that it wants, audited: the same plan each time, later
/// than the bound and earlier than any policy that does not try.
#[test]
fn the_plan_of_a_training_step_is_quicker_than_every_other() {
    let set = [
        ("policies.clairvoyant 70 %.policy", "Optimal(spill: [\"dram\"], runs: 60)"),
        ("expect", "[]"),
    ];
    let mut scenario = files::shipped_scenario("policy-contest", &set);
    scenario.cases.retain(|case| case.label.ends_with("70 %"));
    let options = Options { bound_curve: false, audit: true, ..Options::default() };
    let record = files::record(&scenario, options);
    let step = |label: &str| {
        let case = record.results.iter().find(|case| case.label == label).expect("it is there");
        (case.outcome.figures().expect("it fits").mean_step(), case.bound_step)
    };
    let (optimal, bound) = step("clairvoyant 70 %");
    for case in record.results.iter().filter(|case| case.label != "clairvoyant 70 %") {
        let other = step(&case.label).0;
        assert!(bound <= optimal && optimal < other, "{}: {optimal:?} {other:?}", case.label);
    }
    scenario.cases.retain(|case| case.label == "clairvoyant 70 %");
    let again = files::record(&scenario, options);
    assert_eq!(again.results[0].outcome.figures().expect("it fits").mean_step(), optimal);
}
