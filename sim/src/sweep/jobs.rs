//! What a sweep runs: every case of every point once, and a case that an axis does not touch once
//! for all of that axis's values.
//!
//! An axis touches a case if its machine, its workload or the case itself differ between two points
//! that differ in nothing but that axis. A case that it does not touch is the same run whatever the
//! value: it would only be repeated under other names.
//! Invariant: two points whose runs differ are never one job.

use rayon::prelude::*;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::{Hardware, Link};
use tiersim_policies::scenario::sweep::{Params, Sweep};
use tiersim_policies::scenario::{AxisValue, Case, Scenario, Terms};

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
    /// The first run of the same bench and case, but for where these stand in the sweep.
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

/// The runs that are the first of their bench and case, by a hash of these.
#[derive(Default)]
struct Cases(BTreeMap<u64, SmallVec<[usize; 1]>>);

impl Cases {
    /// The first run that is this one, which comes next.
    fn of(&mut self, runs: &[Run<'_>], (bench, case): (usize, &Case)) -> usize {
        // As text a case takes more memory than all else that is known of a point.
        let mut text = Hashed(DefaultHasher::new());
        write!(text, "{bench} {}", Itself(case)).expect("a hash takes everything");
        let alike = self.0.entry(text.0.finish()).or_default();
        let same = |&run: &usize| {
            let run = &runs[run];
            run.bench == bench && Itself(run.case).to_string() == Itself(case).to_string()
        };
        if let Some(first) = alike.iter().copied().find(same) {
            return first;
        }
        alike.push(runs.len());
        runs.len()
    }
}

/// A hash of what is written.
struct Hashed(DefaultHasher);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The benches of scenarios, by a hash of what they depend on: as text that takes more memory than
/// all else that is known of a point.
struct Benches<'s> {
    keys: BTreeMap<u64, SmallVec<[usize; 1]>>,
    all: Vec<&'s Scenario>,
    last: usize,
}

impl<'s> Benches<'s> {
    fn new(base: &'s Scenario) -> Benches<'s> {
        let first = (hash(base), SmallVec::from_slice(&[0]));
        Benches { keys: BTreeMap::from([first]), all: vec![base], last: 0 }
    }

    /// The bench of a scenario with this hash; of one that is alike to the scenario before it none
    /// is needed.
    fn of(&mut self, scenario: &'s Scenario, hash: Option<u64>) -> usize {
        let Some(hash) = hash else { return self.last };
        let all = &mut self.all;
        let known = self.keys.entry(hash).or_default();
        let same = |&&bench: &&usize| {
            let bench = all[bench];
            let drawn = draws(scenario) && bench.seed != scenario.seed;
            bench.hardware == scenario.hardware && bench.workload == scenario.workload && !drawn
        };
        self.last = known.iter().find(same).copied().unwrap_or_else(|| {
            all.push(scenario);
            known.push(all.len() - 1);
            all.len() - 1
        });
        self.last
    }
}

/// Whether two scenarios surely have one bench.
fn alike(one: &Scenario, other: &Scenario) -> bool {
    let machine = Arc::ptr_eq(&one.hardware, &other.hardware) || one.hardware == other.hardware;
    machine && one.workload == other.workload && one.seed == other.seed
}

/// A hash of some of what a bench depends on: of machines that differ, nearly always the name or the
/// laws do.
fn hash(scenario: &Scenario) -> u64 {
    let mut text = Hashed(DefaultHasher::new());
    let Hardware { name, tiers, links, .. } = &*scenario.hardware;
    let seed = draws(scenario).then_some(scenario.seed);
    write!(text, "{name} {tiers:?} {links:?} {:?} {seed:?}", scenario.workload)
        .expect("a hash takes everything");
    text.0.finish()
}

pub(super) fn jobs(sweep: &Sweep) -> Jobs<'_> {
    let mut benches = Benches::new(&sweep.base);
    let (mut names, mut cases) = (Numbers::default(), Cases::default());
    let mut runs: Vec<Run<'_>> = Vec::new();
    // The axis that turns fastest is seldom one of the machine.
    let before = [&sweep.base].into_iter().chain(sweep.points.iter().map(|point| &point.scenario));
    let pairs: Vec<(&Scenario, &Scenario)> =
        before.zip(sweep.points.iter().map(|point| &point.scenario)).collect();
    let hashes = pairs.into_par_iter().map(|(last, own)| (!alike(last, own)).then(|| hash(own)));
    let hashes: Vec<Option<u64>> = hashes.collect();
    for (point, hash) in sweep.points.iter().zip(hashes) {
        let bench = benches.of(&point.scenario, hash);
        for case in &point.scenario.cases {
            let (name, params) = (names.of(case.name().to_owned()), &point.params);
            let is = cases.of(&runs, (bench, case));
            runs.push(Run { bench, case, params, name, is });
        }
    }
    drop(cases);
    let places = places(sweep, &runs);
    let idle = idle_axes(sweep, &runs, &places);
    let mut known: BTreeMap<(usize, Place), usize> = BTreeMap::new();
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (run, place) in runs.iter().zip(&places) {
        let Run { bench, case, .. } = *run;
        let is_idle = |axis: usize| idle.get(&run.name).is_some_and(|axes| axes.contains(&axis));
        let touching = || (0..place.len()).filter(|&axis| !is_idle(axis));
        // Nearly always all of them do, and are shared.
        let params = || match touching().count() == place.len() {
            true => run.params.clone(),
            false => touching().map(|axis| run.params[axis].clone()).collect(),
        };
        match known.entry((run.name, touching().map(|axis| place[axis]).collect())) {
            Entry::Occupied(known) if *known.get() == run.is => {}
            Entry::Occupied(_) => jobs.push(Job { bench, case, params: run.params.clone() }),
            Entry::Vacant(new) => {
                new.insert(run.is);
                jobs.push(Job { bench, case, params: params() });
            }
        }
    }
    let warnings = warnings(sweep, &names, &idle);
    Jobs { benches: benches.all, jobs, warnings }
}

/// Values of axes as numbers, in the axes' order.
type Place = SmallVec<[u32; 4]>;

/// By run, where it stands.
fn places(sweep: &Sweep, runs: &[Run<'_>]) -> Vec<Place> {
    let mut values: Vec<Numbers> = Vec::new();
    values.resize_with(sweep.axes.len(), Numbers::default);
    let numbered = |run: &Run<'_>| -> Place {
        let each = run.params.iter().zip(&mut values);
        let number = |value: &AxisValue, numbers: &mut Numbers| numbers.of(format!("{value:?}"));
        each.map(|((_, value), numbers)| number(value, numbers) as u32).collect()
    };
    runs.iter().map(numbered).collect()
}

/// The axes, by index, that do not touch a case, by the case's number.
fn idle_axes(sweep: &Sweep, runs: &[Run<'_>], places: &[Place]) -> BTreeMap<usize, Vec<usize>> {
    let mut idle: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for axis in 0..sweep.axes.len() {
        // The first run of each line along the axis, and of each case whether two were compared and
        // differ.
        let mut lines: BTreeMap<(usize, Place), usize> = BTreeMap::new();
        let mut differ: BTreeMap<usize, bool> = BTreeMap::new();
        for (run, place) in runs.iter().zip(places) {
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

/// All of a case but where it stands in the sweep: equal for equal runs on one bench.
struct Itself<'c>(&'c Case);

impl fmt::Display for Itself<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { policy, terms, label: _, params: _ } = self.0;
        let Terms { hbm, allocators, numa, hidden, chunk, micro_batch, .. } = &**terms;
        let Terms { pressure, runtime, compress, .. } = &**terms;
        let memory = (hbm, allocators, numa, hidden, compress);
        let rest = (policy, memory, chunk, micro_batch, pressure, runtime);
        write!(f, "{} {rest:?}", self.0.name())
    }
}

/// What a bench depends on: the seed only where something is drawn.
struct Key<'s>(&'s Scenario);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = draws(self.0).then_some(self.0.seed);
        write!(f, "{:?} {:?} {seed:?}", self.0.hardware, self.0.workload)
    }
}

/// The same in words.
pub(crate) fn key(scenario: &Scenario) -> String {
    Key(scenario).to_string()
}

/// Whether anything follows from the seed: times of ops, or of copies over links with a tail.
pub(crate) fn draws(scenario: &Scenario) -> bool {
    let details = |link: &Link| link.service.clone().map(|service| [service.read, service.write]);
    let tails = scenario.hardware.links.iter().filter_map(details).flatten();
    scenario.workload.jitter > 0.0 || { tails }.any(|detail| detail.tail.is_some())
}
