//! What a sweep runs: every case of every point once, and a case that an axis does not touch once
//! for all of that axis's values.
//!
//! An axis touches a case if its machine, its workload or the case itself differ between two points
//! that differ in nothing but that axis. A case that it does not touch is the same run whatever the
//! value: it would only be repeated under other names.
//! Invariant: two points whose runs differ are never one job.

use std::collections::BTreeMap;
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::Link;
use tiersim_policies::scenario::sweep::{Params, Sweep};
use tiersim_policies::scenario::{Case, Scenario};

/// One run of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Job<'s> {
    /// Index into [`Jobs::benches`].
    pub(super) bench: usize,
    pub(super) case: &'s Case,
    /// Values of the axes that touch it.
    pub(super) params: Params,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Jobs<'s> {
    /// One scenario for each machine, workload and seed; the first is that of the file as it
    /// stands.
    pub(super) benches: Vec<&'s Scenario>,
    /// In the order of the points.
    pub(super) jobs: Vec<Job<'s>>,
    /// One for each axis that does not touch some case.
    pub(super) warnings: Vec<Warning>,
}

/// A case at a point.
struct Run<'s> {
    bench: usize,
    case: &'s Case,
    params: &'s Params,
}

pub(super) fn jobs(sweep: &Sweep) -> Jobs<'_> {
    let mut keys: BTreeMap<String, usize> = BTreeMap::new();
    let mut benches: Vec<&Scenario> = Vec::new();
    let mut bench_of = |scenario| {
        *keys.entry(key(scenario)).or_insert_with(|| {
            benches.push(scenario);
            benches.len() - 1
        })
    };
    bench_of(&sweep.base);
    let mut runs: Vec<Run<'_>> = Vec::new();
    for point in &sweep.points {
        let bench = bench_of(&point.scenario);
        let cases = point.scenario.cases.iter();
        runs.extend(cases.map(|case| Run { bench, case, params: &point.params }));
    }
    let idle = idle_axes(sweep, &runs);
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for run in &runs {
        let untouched = idle.get(run.case.name());
        let is_idle = |axis: &usize| untouched.is_some_and(|axes| axes.contains(axis));
        let touching = run.params.iter().enumerate().filter(|(axis, _)| !is_idle(axis));
        let params: Params = touching.map(|(_, value)| value.clone()).collect();
        let name = format!("{:?} {params:?}", run.case.name());
        match known.get(&name).map(|&index| &jobs[index]) {
            Some(job) if job.bench == run.bench && same(job.case, run.case) => {}
            Some(_) => jobs.push(Job { params: run.params.clone(), ..run.job() }),
            None => {
                known.insert(name, jobs.len());
                jobs.push(Job { params, ..run.job() });
            }
        }
    }
    let warnings = warnings(sweep, &idle);
    Jobs { benches, jobs, warnings }
}

impl<'s> Run<'s> {
    fn job(&self) -> Job<'s> {
        Job { bench: self.bench, case: self.case, params: Params::new() }
    }
}

/// The axes, by index, that do not touch a case, by its label.
fn idle_axes<'s>(sweep: &Sweep, runs: &[Run<'s>]) -> BTreeMap<&'s str, Vec<usize>> {
    let mut idle: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for axis in 0..sweep.axes.len() {
        // The first run of each line along the axis, and of each case whether two were compared and
        // differ.
        let mut lines: BTreeMap<String, &Run<'_>> = BTreeMap::new();
        let mut differ: BTreeMap<&str, bool> = BTreeMap::new();
        for run in runs {
            let label = run.case.name();
            let others = run.params.iter().enumerate().filter(|(other, _)| *other != axis);
            let line = format!("{label:?} {:?}", others.collect::<Vec<_>>());
            let first = *lines.entry(line).or_insert(run);
            if !std::ptr::eq(first, run) {
                let equal = first.bench == run.bench && same(first.case, run.case);
                *differ.entry(label).or_insert(false) |= !equal;
            }
        }
        for (label, _) in differ.into_iter().filter(|(_, differ)| !differ) {
            idle.entry(label).or_default().push(axis);
        }
    }
    idle
}

fn warnings(sweep: &Sweep, idle: &BTreeMap<&str, Vec<usize>>) -> Vec<Warning> {
    let warning = |(index, axis): (usize, &tiersim_policies::scenario::sweep::Axis)| {
        let cases: Vec<String> = idle
            .iter()
            .filter(|(_, axes)| axes.contains(&index))
            .map(|(label, _)| format!("{label:?}"))
            .collect();
        (!cases.is_empty()).then(|| Warning {
            rule: "axis-without-effect",
            place: format!("sweep.axes.{}", axis.name),
            found: cases.join(", "),
            reason: format!("`{}` is nothing that these cases depend on", axis.path),
            remedy:
                "they ran once and stand without a value of it; sweep something that they read, or \
                     leave them out of the sweep"
                    .to_owned(),
        })
    };
    sweep.axes.iter().enumerate().filter_map(warning).collect()
}

/// Are two cases the same but for where they stand in the sweep?
fn same(one: &Case, other: &Case) -> bool {
    let at = |case: &Case| (case.label.clone(), case.params.clone());
    let (label, params) = at(one);
    one.name() == other.name() && *one == Case { label, params, ..other.clone() }
}

/// What a bench depends on: the seed only where something is drawn.
pub(crate) fn key(scenario: &Scenario) -> String {
    let seed = draws(scenario).then_some(scenario.seed);
    format!("{:?} {:?} {seed:?}", scenario.hardware, scenario.workload)
}

/// Whether anything follows from the seed: times of ops, or of copies over links with a tail.
pub(crate) fn draws(scenario: &Scenario) -> bool {
    let details = |link: &Link| link.service.clone().map(|service| [service.read, service.write]);
    let tails = scenario.hardware.links.iter().filter_map(details).flatten();
    scenario.workload.jitter > 0.0 || { tails }.any(|detail| detail.tail.is_some())
}
