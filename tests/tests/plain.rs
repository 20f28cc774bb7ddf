//! A plain machine is the whole machine where nothing goes beyond its laws: the same ends in the
//! same order, and the same sums at any moment, to the picosecond.

use crate::recorded::told;
use std::sync::Arc;
use tiersim_policies::planner::again::Recording;
use tiersim_policies::recipe::{PolicyConfig, Setting};
use tiersim_policies::recorded::Replays;
use tiersim_policies::zoo::Registry;
use tiersim_sim::machine::meters::Meters;
use tiersim_sim::machine::plain::Digests;
use tiersim_sim::machine::watched::Watched;
use tiersim_tests::prelude::*;
use tiersim_tests::soak::drawn;

const WORLDS: u64 = 60;
/// Machines of each world, which differ in their rates.
const MACHINES: u64 = 3;

/// A drawn machine, faster here and slower there by what `number` says, without anything beside its
/// laws.
fn machine(hardware: &Hardware, number: u64) -> Hardware {
    let mut machine = hardware.clone();
    let mut turn = number;
    let mut other = |law: Law| {
        turn = turn.wrapping_mul(5).wrapping_add(number);
        let rate = law.rate.get().saturating_mul(turn % 7 + 1) / (turn % 3 + 1);
        let setup = Span::from_ps(law.setup.ps() * (turn % 4) / 2);
        Law { setup, rate: Bandwidth::new(rate.max(1)).expect("above zero") }
    };
    for link in &mut machine.links {
        (link.read, link.write, link.service) = (other(link.read), other(link.write), None);
    }
    for tier in &mut machine.tiers {
        (tier.access, tier.loaded, tier.requests) = (other(tier.access), None, Default::default());
    }
    machine
}

/// A drawn workload, free to start and all of it on the device, which waits now and then.
fn workload(trial: &Trial) -> Workload {
    let mut trace = trial.workload.trace.clone();
    for (at, op) in trace.ops.iter_mut().enumerate() {
        let unit = if at % 5 == 3 { Unit::Idle } else { Unit::Device };
        (op.unit, op.release) = (unit, None);
    }
    trace.uses.iter_mut().for_each(|used| used.part = None);
    Workload::new(trace)
}

/// Every end of an op with what was measured by then, what was measured in the end, and what ran when.
fn carried<M: Machine + Watched>(
    mut planner: Planner<'_>,
    machine: &mut M,
    window: u64,
    workload: &Workload,
) -> String {
    let ops = workload.trace.ops.len() as u64;
    let mut seen: Vec<(u64, Time, Meters)> = Vec::new();
    machine.record_timeline();
    let driven = drive(&mut planner, machine, window, |occurrence, at, machine: &mut M| {
        let op = OpId::at((occurrence % ops) as usize);
        if workload.step_ends().contains(&op) {
            machine.step_ended();
        }
        seen.push((occurrence, at, machine.so_far()));
    });
    let driven = driven.map_err(|error| error.to_string());
    let (timeline, counts) = (machine.take_timeline(), planner.counts());
    let (now, events, meters) = (machine.now(), machine.events(), machine.meters());
    format!("{driven:?} {now:?} {events} {meters:?} {counts:?} {seen:?} {timeline:?}")
}

/// A policy on some machines of a world; how often these were plain.
fn compared(trial: &Trial, workload: &Workload, policy: &PolicyConfig) -> u64 {
    let hardware = machine(&trial.hardware, 0);
    let memory = hardware.memory();
    let routes = hardware.routes().expect("every drawn machine is joined");
    let copies = CopyTimes::new(&hardware, &routes);
    let spans: Vec<Span> =
        workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
    let durations = Durations::fixed(spans.clone());
    let (spans, repeat) = (&spans[..], trial.repeat);
    let setting =
        Setting { workload, hardware: &hardware, memory: &memory, spans, copies: &copies, repeat };
    let build = || policy.build(&setting);
    let Ok(own) = build() else { return 0 };
    let Ok(planner) = Planner::new(workload, own, &memory, repeat) else { return 0 };
    let recording: Arc<dyn Replays + '_> = Arc::new(Recording::new(planner));
    let again = || {
        let policy = build().expect("it was built before");
        Planner::again(recording.clone(), workload, policy, &memory, repeat)
    };
    let (digests, mut plain) = (Arc::new(Digests::default()), 0);
    for number in 0..MACHINES {
        let hardware = machine(&trial.hardware, number);
        let routes = hardware.routes().expect("every drawn machine is joined");
        let start = again().start();
        let made = || SimMachine::new(&hardware, routes.clone(), workload, &durations, &start);
        // A plan that others carry out too, and one that nobody else has.
        let alone = || {
            let policy = build().expect("it was built before");
            Planner::new(workload, policy, &memory, repeat).expect("it was placed before")
        };
        for is_shared in [true, false] {
            let planner = || if is_shared { again() } else { alone() };
            let Some(mut other) = made().plain(0, (&routes, digests.clone())) else { continue };
            let other = carried(planner(), &mut other, trial.window, workload);
            if other.contains("more than a plain machine") {
                continue;
            }
            plain += 1;
            let whole = carried(planner(), &mut made(), trial.window, workload);
            assert!(whole == other, "{policy:?}, seed {}\n{whole}\n{other}", trial.seed);
        }
    }
    plain
}

#[test]
fn a_plain_machine_is_the_whole_one_to_the_picosecond() {
    let mut plain = BTreeMap::new();
    for index in 0..WORLDS {
        let trial = Trial::new(seed_of(19, index), usize::MAX);
        if trial.hardware.tiers.len() < 2 {
            continue;
        }
        let workload = workload(&trial);
        for entry in Registry::default().entries() {
            let (trace, hardware) = (&workload.trace, &trial.hardware);
            let Some(policy) = drawn(entry, trial.seed, trace, hardware) else { continue };
            *plain.entry(entry.spelling).or_insert(0) += compared(&trial, &workload, &policy);
        }
    }
    let runs: u64 = plain.values().sum();
    assert!(runs > 500, "{runs} runs on plain machines: {plain:?}");
    let policies = plain.values().filter(|runs| **runs > 0).count();
    assert!(policies > 20, "policies with plain machines: {plain:?}");
}

/// Runs that share a plan are carried out on plain machines where nobody audits them.
#[test]
fn a_sweep_over_plain_machines_has_the_figures_of_runs_that_plan_for_themselves() {
    let mut fits = 0;
    for index in 0..WORLDS / 4 {
        let mut trial = Trial::new(seed_of(20, index), usize::MAX);
        if trial.hardware.tiers.len() < 2 {
            continue;
        }
        trial.workload = workload(&trial);
        trial.hardware = machine(&trial.hardware, 0);
        (trial.spec.ranks, trial.compress) = (1, Default::default());
        for entry in Registry::default().entries() {
            let (trace, hardware) = (&trial.workload.trace, &trial.hardware);
            let Some(policy) = drawn(entry, trial.seed, trace, hardware) else { continue };
            // With a plan that others carry out too, with one of its own, and on the whole machine.
            let (shared, alone) =
                (told(&trial, &policy, [true, false]), told(&trial, &policy, [false, false]));
            let whole = told(&trial, &policy, [false, true]);
            assert!(shared == whole, "{policy:?}, seed {}\n{shared}\n{whole}", trial.seed);
            assert!(alone == whole, "{policy:?}, seed {}\n{alone}\n{whole}", trial.seed);
            fits += usize::from(whole.contains("Done"));
        }
    }
    assert!(fits > 200, "{fits} cases fit");
}
