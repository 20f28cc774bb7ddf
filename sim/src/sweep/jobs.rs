//! What a sweep runs: every case of every point once, and a case that an axis does not touch once
//! for all of that axis's values.
//!
//! An axis touches a case if its machine, its workload or the case itself differ between two points
//! that differ in nothing but that axis. A case that it does not touch is the same run whatever the
//! value: it would only be repeated under other names.
//! Invariant: two points whose runs differ are never one job.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
    /// Which case of the file it is.
    name: usize,
    /// Equal for two runs if bench and case are, but for where these stand in the sweep.
    is: usize,
}

/// Numbers for values, in the order in which they come.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, value: String) -> usize {
        let next = self.0.len();
        *self.0.entry(value).or_insert(next)
    }
}

/// The benches of scenarios.
struct Benches<'s> {
    keys: BTreeMap<String, usize>,
    all: Vec<&'s Scenario>,
    last: usize,
}

impl<'s> Benches<'s> {
    fn new(base: &'s Scenario) -> Benches<'s> {
        Benches { keys: BTreeMap::from([(key(base), 0)]), all: vec![base], last: 0 }
    }

    fn of(&mut self, scenario: &'s Scenario) -> usize {
        // The axis that turns fastest is seldom one of the machine.
        let last = self.all[self.last];
        let alike = last.hardware == scenario.hardware && last.workload == scenario.workload;
        if alike && last.seed == scenario.seed {
            return self.last;
        }
        let all = &mut self.all;
        self.last = *self.keys.entry(key(scenario)).or_insert_with(|| {
            all.push(scenario);
            all.len() - 1
        });
        self.last
    }
}

pub(super) fn jobs(sweep: &Sweep) -> Jobs<'_> {
    let mut benches = Benches::new(&sweep.base);
    let (mut names, mut cases) = (Numbers::default(), Numbers::default());
    let mut runs: Vec<Run<'_>> = Vec::new();
    for point in &sweep.points {
        let bench = benches.of(&point.scenario);
        for case in &point.scenario.cases {
            let (name, params) = (names.of(case.name().to_owned()), &point.params);
            runs.push(Run { bench, case, params, name, is: cases.of(itself(bench, case)) });
        }
    }
    drop(cases);
    let idle = idle_axes(sweep, &runs);
    let mut known: BTreeMap<(usize, String), usize> = BTreeMap::new();
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for run in &runs {
        let is_idle = |axis: &usize| idle.get(&run.name).is_some_and(|axes| axes.contains(axis));
        let touching = run.params.iter().enumerate().filter(|(axis, _)| !is_idle(axis));
        let params: Params = touching.map(|(_, value)| value.clone()).collect();
        let Run { bench, case, .. } = *run;
        match known.get(&(run.name, format!("{params:?}"))) {
            Some(&is) if is == run.is => {}
            Some(_) => jobs.push(Job { bench, case, params: run.params.clone() }),
            None => {
                known.insert((run.name, format!("{params:?}")), run.is);
                jobs.push(Job { bench, case, params });
            }
        }
    }
    let warnings = warnings(sweep, &names, &idle);
    Jobs { benches: benches.all, jobs, warnings }
}

/// The axes, by index, that do not touch a case, by the case's number.
fn idle_axes(sweep: &Sweep, runs: &[Run<'_>]) -> BTreeMap<usize, Vec<usize>> {
    let mut idle: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    // By run, its values as numbers.
    let mut values: Vec<Numbers> = Vec::new();
    values.resize_with(sweep.axes.len(), Numbers::default);
    let numbered = |run: &Run<'_>| -> Vec<usize> {
        let each = run.params.iter().zip(&mut values);
        each.map(|((_, value), numbers)| numbers.of(format!("{value:?}"))).collect()
    };
    let places: Vec<Vec<usize>> = runs.iter().map(numbered).collect();
    for axis in 0..sweep.axes.len() {
        // The first run of each line along the axis, and of each case whether two were compared and
        // differ.
        let mut lines: BTreeMap<(usize, Vec<usize>), usize> = BTreeMap::new();
        let mut differ: BTreeMap<usize, bool> = BTreeMap::new();
        for (run, place) in runs.iter().zip(&places) {
            // It cannot become one that does not touch the case.
            if differ.get(&run.name) == Some(&true) {
                continue;
            }
            let mut line = place.clone();
            line[axis] = 0;
            match lines.entry((run.name, line)) {
                Entry::Vacant(first) => {
                    first.insert(run.is);
                }
                Entry::Occupied(first) => {
                    *differ.entry(run.name).or_insert(false) |= *first.get() != run.is;
                }
            }
        }
        for (name, _) in differ.into_iter().filter(|(_, differ)| !differ) {
            idle.entry(name).or_default().push(axis);
        }
    }
    idle
}

fn warnings(sweep: &Sweep, names: &Numbers, idle: &BTreeMap<usize, Vec<usize>>) -> Vec<Warning> {
    let warning = |(index, axis): (usize, &tiersim_policies::scenario::sweep::Axis)| {
        let untouched = |name| idle.get(name).is_some_and(|axes| axes.contains(&index));
        let cases = names.0.iter().filter(|(_, name)| untouched(name));
        let cases: Vec<String> = cases.map(|(label, _)| format!("{label:?}")).collect();
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

/// All of a case but where it stands in the sweep, and its bench: equal for equal runs.
fn itself(bench: usize, case: &Case) -> String {
    let Case { policy, hbm, allocators, numa, hidden, chunk, micro_batch, .. } = case;
    let Case { label: _, params: _, pressure, runtime, compress, .. } = case;
    let memory = (hbm, allocators, numa, hidden, compress);
    format!("{bench} {} {:?}", case.name(), (policy, memory, chunk, micro_batch, pressure, runtime))
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
