//! Runs on machines that differ in rates alone share a plan where the policy knows no times, and
//! durations, bounds and the baseline: no figure may tell.

use tiersim_policies::policy::Policy;
use tiersim_policies::recipe::{PolicyConfig, Setting};
use tiersim_policies::scenario::AxisValue;
use tiersim_policies::scenario::sweep::{Axis, Point, Sweep};
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::zoo::Registry;
use tiersim_sim::sweep::run_sweep;
use tiersim_tests::prelude::*;
use tiersim_tests::setting::scenario;
use tiersim_tests::soak::drawn;

const WORLDS: u64 = 20;
/// Machines of each world: the first run plans for itself, the second one keeps its plan.
const MACHINES: u64 = 5;

/// The world's machine, faster here and slower there by what `number` says.
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
        (link.read, link.write) = (other(link.read), other(link.write));
    }
    for tier in &mut machine.tiers {
        tier.access = other(tier.access);
    }
    machine
}

/// A case of the world on several machines.
fn sweep(trial: &Trial, policy: &PolicyConfig) -> (Sweep, Traces) {
    let mut spec = trial.spec.clone();
    // One measured replay of one stream may go on where it stood.
    spec.warmup = if trial.seed.is_multiple_of(2) { spec.repeat - 1 } else { 0 };
    let at = |number: u64| {
        let terms = Terms { compress: trial.compress.clone(), ..Terms::default() };
        let case = Case { terms: terms.into(), ..case("case", policy.clone()) };
        let hardware = machine(&trial.hardware, number);
        Scenario { seed: trial.seed, ..scenario(hardware, spec.clone(), vec![case]) }
    };
    let point = |number: u64| {
        let params = [("number".to_owned(), AxisValue::Number(number as f64))];
        Point { params: params.into_iter().collect(), scenario: at(number) }
    };
    let (name, path) = ("number".to_owned(), "hardware".to_owned());
    let axes = vec![Axis { name, path, values: Vec::new() }];
    let points = (0..MACHINES).map(point).collect();
    let mut traces = Traces::default();
    traces.keep(&at(0), trial.workload.clone(), String::new());
    (Sweep { base: at(0), axes, points, skipped: Vec::new() }, traces)
}

/// What comes of it, under audit or not, every run for itself or not.
pub(crate) fn told(trial: &Trial, policy: &PolicyConfig, [share, audit]: [bool; 2]) -> String {
    let (sweep, traces) = sweep(trial, policy);
    let window = trial.window;
    let options = Options { audit, window, share, log: true, ..Options::default() };
    format!("{:?}", run_sweep(&sweep, &traces, String::new(), options, &()))
}

#[test]
fn runs_that_share_their_plan_are_those_that_plan_for_themselves() {
    let (mut same, mut fits) = (BTreeMap::new(), 0);
    for index in 0..WORLDS {
        let trial = Trial::new(seed_of(3, index), usize::MAX);
        if trial.hardware.tiers.len() < 2 {
            continue;
        }
        for entry in Registry::default().entries() {
            let (trace, hardware) = (&trial.workload.trace, &trial.hardware);
            let Some(policy) = drawn(entry, trial.seed, trace, hardware) else { continue };
            let told = |share| told(&trial, &policy, [share, true]);
            let (shared, alone) = (told(true), told(false));
            assert!(shared == alone, "{policy:?}, seed {}\n{shared}\n{alone}", trial.seed);
            fits += usize::from(alone.contains("Done"));
            if !policy.knows_times() {
                *same.entry(entry.spelling).or_insert(0) += 1;
            }
        }
    }
    assert!(fits > 200, "{fits} cases fit");
    assert!(same.len() > 20, "policies that know no times: {same:?}");
}

/// A policy that says that it knows no times.
#[derive(Debug)]
struct Liar(PolicyConfig);

impl Recipe for Liar {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn details(&self) -> String {
        self.0.details()
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        self.0.build(setting)
    }

    fn knows_times(&self) -> bool {
        false
    }
}

#[test]
fn a_policy_that_knows_times_and_does_not_say_so_is_noticed() {
    let (mut told_apart, registry) = (0, Registry::default());
    let planned = registry.entries().iter().find(|entry| entry.spelling == "PlannedMigration");
    let planned = planned.expect("it is in the zoo");
    for index in 0..WORLDS {
        let trial = Trial::new(seed_of(3, index), usize::MAX);
        if trial.hardware.tiers.len() < 2 {
            continue;
        }
        let (trace, hardware) = (&trial.workload.trace, &trial.hardware);
        let Some(policy) = drawn(planned, trial.seed, trace, hardware) else { continue };
        let liar = Liar(policy).into();
        let told = |share| told(&trial, &liar, [share, true]);
        told_apart += usize::from(told(true) != told(false));
    }
    assert!(told_apart > 0, "another plan is another result");
}
