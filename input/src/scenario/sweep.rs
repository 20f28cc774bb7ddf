//! The points of a sweep: one scenario per combination of its axes' values.
//!
//! An axis substitutes the text of one value, so anything that a file can say can be swept, and
//! every number of its machine. The last axis turns fastest. A point that is well formed and breaks
//! a rule (shares above 1, say) may be skipped with its reason; one that is not even well formed is
//! an error of the axis.
//! Invariant: points + skipped = product of the lengths of groups of axes <= [`MAX_POINTS`].

use crate::file_kind::{FileKind, refused};
use crate::held;
use crate::scenario::axes::{self, Axes};
use crate::scenario::document::{name_of, open, with};
use crate::scenario::files::{Files, Lookup};
use crate::scenario::machines::{self, Listed};
use crate::scenario::places::{excluded, params, places};
use crate::scenario::raw::RawScenario;
use crate::scenario::resolve::{Failure, Resolved, Standing, resolve};
use crate::scenario::resolver::reason;
use crate::scenario::{Case, Scenario};
use crate::text::check::Check;
use crate::text::condition::Condition;
use crate::text::ron_text::Document;
use crate::text::value::AXIS;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics};
use tiersim_policies::scenario::expectation::Expectation;
use tiersim_policies::scenario::sweep::{Axis, MACHINE, Params, Point, Sweep};
use tiersim_policies::zoo::Registry;
use tiersim_policies::zoo::hints::HintsConfig;

pub use crate::scenario::axes::MAX_POINTS;

/// Most cases and hints of all points together: what a sweep holds in memory.
const MAX_WEIGHT: usize = 5_000_000;
/// Points that are read in parallel, and how many of them by one thread at least: what one finds in
/// files the others read again.
const TOGETHER: usize = 512;
const AT_ONCE: usize = 32;
/// Most different problems reported of a sweep.
const MAX_PROBLEMS: usize = 20;

/// Reads a scenario with a sweep and resolves every point of it, on each of its machines.
pub fn read_sweep(path: &Path, overrides: &[(String, String)]) -> Result<Sweep, Diagnostics> {
    read_sweep_with(path, overrides, &Registry::default())
}

/// The same, where the scenario can name the policies of `registry`.
pub fn read_sweep_with(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Sweep, Diagnostics> {
    let read = read_document(path, overrides, registry, Asked::Sweep);
    read.map_err(|said| refused(path, &[FileKind::Scenario], said))
}

/// Reads a scenario as it is run, without its own sweep: one that names several machines has a
/// point for each, and its expectations are of the cases of all points one after the other. One
/// that names one machine has no axes and no points.
pub fn read_run_with(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Sweep, Diagnostics> {
    let read = read_document(path, overrides, registry, Asked::Run);
    read.map_err(|said| refused(path, &[FileKind::Scenario], said))
}

/// Reads a scenario at points along axes that turn together, which have equally many values each,
/// without its own sweep: points that break a rule are skipped with their reason, be it all.
pub fn read_along_with(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
    axes: Vec<Axis>,
) -> Result<Sweep, Diagnostics> {
    let read = read_document(path, overrides, registry, Asked::Along(axes));
    read.map_err(|said| refused(path, &[FileKind::Scenario], said))
}

/// The text of the number at `at`, in the scenario or in its machine, without its source; `None` if
/// nothing is written there.
pub fn written_at(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
    at: &str,
) -> Result<Option<String>, Diagnostics> {
    let (document, mut files) = open(path, overrides, registry)?;
    let Some(within) = machines::path_within(at) else {
        let meant = document.meant(at, at)?;
        meant.iter().try_for_each(|path| document.can_take(path, at))?;
        return Ok(meant.first().and_then(|at| document.value(at).map(Cow::into_owned)));
    };
    let named = machines::named(&document, &mut Diagnostics::default());
    match named.map(|named| files.machine_text(&named.machine)) {
        Some(Lookup::Good(machine)) => {
            machine.meant(within, at)?;
            Ok(machine.number(within))
        }
        _ => Ok(None),
    }
}

/// Which points of a scenario are read.
#[derive(Clone)]
pub(crate) enum Asked {
    /// Its machines.
    Run,
    /// Those of its own sweep.
    Sweep,
    /// Those along axes that turn together.
    Along(Vec<Axis>),
}

/// What is at a point.
enum Found<'p> {
    /// Nothing, as it breaks this.
    Excluded(&'p Condition),
    Read(Box<Result<Resolved, Failure>>),
}

/// A scenario whose points are read one after the other.
struct Points<'d> {
    document: &'d Document,
    machines: Vec<Listed>,
    /// Of the machines.
    labels: Vec<String>,
    axes: Axes,
    name: String,
}

fn read_document(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
    asked: Asked,
) -> Result<Sweep, Diagnostics> {
    let (document, mut files) = open(path, overrides, registry)?;
    read_points(path, &document, &mut files, asked)
}

/// The points of an open document.
pub(crate) fn read_points(
    path: &Path,
    document: &Document,
    files: &mut Files,
    asked: Asked,
) -> Result<Sweep, Diagnostics> {
    let machines = machines::listed(document)?;
    let labels: Vec<String> = machines.iter().map(|machine| machine.label.clone()).collect();
    let first = machines.first().map(|machine| machines::alone(document, machine));
    let single = first.as_ref().unwrap_or(document);
    let name = name_of(path);
    let params = &Params::default();
    let standing = Standing { params, machines: first.as_ref().map(|_| (&*labels, 0)) };
    let base = resolve(single, &name, files, standing);
    let mut found = match &base {
        Err(Failure::Form(..)) => Ok(None),
        _ => axes(single, files),
    };
    if let (Ok(Some(axes)), false) = (&found, machines.is_empty()) {
        let taken = axes.axes.iter().position(|axis| axis.name == MACHINE);
        if let Some(taken) = taken {
            let here = format!("sweep.axes.{taken}.name");
            let rule = format!("`{MACHINE}` is the axis of the scenario's machines");
            let problem = document.problem(&here, rule, "choose another name");
            found = Err(Diagnostics(vec![problem]));
        }
    }
    let (base, own) = match (base, found) {
        (Ok(base), Ok(axes)) => (base, axes),
        (base, axes) => {
            let mut all = base.err().map(Failure::into_problems).unwrap_or_default();
            all.0.append(&mut axes.err().unwrap_or_default().0);
            return Err(all);
        }
    };
    let (runs, along) = (matches!(asked, Asked::Run), matches!(asked, Asked::Along(_)));
    let mut axes = match (asked, own) {
        (Asked::Along(axes), _) => Axes::together(axes),
        (Asked::Run, _) => Axes::default(),
        (Asked::Sweep, Some(axes)) => axes,
        (Asked::Sweep, None) => {
            let remedy = "add `sweep: (axes: [...])`, or run it as a single scenario";
            return Err(Diagnostics::one(path, None, "the scenario has no `sweep`", "", remedy));
        }
    };
    axes.first_of_machines(&labels);
    let points = Points { document, machines, labels, axes, name };
    points.read(base.scenario, files, runs, along)
}

impl Points<'_> {
    /// Every point, and expectations of all of them where they are the scenario's machines alone.
    fn read(
        self,
        base: Scenario,
        files: &mut Files,
        runs: bool,
        along: bool,
    ) -> Result<Sweep, Diagnostics> {
        let Points { document, axes, .. } = &self;
        let mut sweep =
            Sweep { base, axes: axes.axes.clone(), points: Vec::new(), skipped: Vec::new() };
        if axes.axes.is_empty() {
            return Ok(sweep);
        }
        let mut weight = 0usize;
        let (mut across, mut left_out) = (Vec::new(), Vec::new());
        let mut places = places(axes);
        let mut read = self.read_next(&mut places, files).into_iter();
        while let Some((params, found)) = read.next() {
            if read.len() == 0 {
                read = self.read_next(&mut places, files).into_iter();
            }
            let found = match found {
                Found::Excluded(condition) => {
                    skip(&mut sweep, params, format!("excluded by {condition}"));
                    continue;
                }
                Found::Read(found) => found,
            };
            match *found {
                Ok(point) => {
                    weight += weight_of(&point.scenario);
                    for (case, why) in point.left_out {
                        skip(&mut sweep, params.clone(), format!("{case}: {why}"));
                        left_out.push(case);
                    }
                    across.extend(point.across);
                    sweep.points.push(Point { params, scenario: files.shares(point.scenario) });
                }
                Err(failure) if along => skip(&mut sweep, params, reason(&failure.into_problems())),
                Err(Failure::Meaning(found)) if axes.skip_invalid => {
                    skip(&mut sweep, params, reason(&found));
                }
                // One bad point says enough: the others may be a million.
                Err(Failure::Form(found, _)) if axes.skip_invalid => return Err(each_kind(found)),
                Err(failure) => return Err(each_kind(failure.into_problems())),
            }
            if weight > MAX_WEIGHT {
                let rule =
                    format!("a sweep has at most {MAX_WEIGHT} cases and hints at all its points");
                let remedy = "take fewer values, or fewer policies";
                return Err(Diagnostics(vec![document.problem_found("sweep", rule, "", remedy)]));
            }
        }
        sweep.points.shrink_to_fit();
        if sweep.points.is_empty() && !along {
            let rule = "no point of the sweep is valid";
            let why = sweep.skipped.first().map_or("", |(_, why)| why);
            let problem = document.problem_found("sweep", rule, why, "mend the axes");
            return Err(Diagnostics(vec![problem]));
        }
        if runs {
            self.nowhere(&left_out)?;
            expect_of_all(&mut sweep, &across);
        }
        Ok(sweep)
    }

    /// The next points, read in parallel where there are many.
    fn read_next<'p>(
        &'p self,
        places: &mut impl Iterator<Item = Vec<usize>>,
        files: &mut Files,
    ) -> Vec<(Params, Found<'p>)> {
        let axes = &self.axes;
        let next: Vec<(Vec<usize>, Params)> =
            places.take(TOGETHER).map(|at| (at.clone(), params(axes, &at))).collect();
        let read = |files: &mut Files, (at, params): (Vec<usize>, Params)| {
            let found = match excluded(axes, &params) {
                Some(condition) => Found::Excluded(condition),
                None => Found::Read(self.point(&at, &params, files).into()),
            };
            (params, found)
        };
        if next.len() < 2 * AT_ONCE || held::is_used() {
            return next.into_iter().map(|at| read(files, at)).collect();
        }
        let files = &*files;
        let each = next.into_par_iter().with_min_len(AT_ONCE);
        each.map_init(|| files.clone(), |files, at| read(files, at)).collect()
    }

    /// The scenario at a point.
    fn point(&self, at: &[usize], params: &Params, files: &mut Files) -> Result<Resolved, Failure> {
        let Points { document, machines, labels, axes, name } = self;
        let machine = axes.machine_at(at);
        let alone = machine.map(|machine| machines::alone(document, &machines[machine]));
        let alone = alone.as_ref().unwrap_or(document);
        let point = substituted(alone, axes, at).map_err(Failure::form)?;
        let machines = machine.map(|machine| (&**labels, machine));
        resolve(&point, name, files, Standing { params, machines })
    }

    /// Refuses cases that make sense on no machine.
    fn nowhere(&self, left_out: &[String]) -> Result<(), Diagnostics> {
        let times = |case: &&String| left_out.iter().filter(|other| other == case).count();
        let Some(case) = left_out.iter().find(|case| times(case) == self.machines.len()) else {
            return Ok(());
        };
        let rule = format!("`{case}` makes sense on none of the machines");
        let remedy = "leave it out, or name its tiers by `far` and `drive`";
        Err(Diagnostics(vec![self.document.problem_found("policies", rule, "", remedy)]))
    }
}

/// Expectations of the cases of all points, one after the other.
fn expect_of_all(sweep: &mut Sweep, across: &[[String; 2]]) {
    let (mut all, mut first, mut labels) = (Vec::new(), 0, Vec::new());
    for point in &sweep.points {
        all.extend(point.scenario.expect.iter().map(|expected| expected.shifted(first)));
        first += point.scenario.cases.len();
        labels.extend(point.scenario.cases.iter().map(|case| case.label.as_str()));
    }
    let index = |label: &String| labels.iter().position(|known| known == label);
    let compared = across.iter().filter_map(|[case, than]| {
        Some(Expectation::Faster { case: index(case)?, than: index(than)? })
    });
    all.extend(compared);
    sweep.base.expect = all;
}

/// The axes of a document; `None` without a sweep.
pub(crate) fn axes(document: &Document, files: &mut Files) -> Result<Option<Axes>, Diagnostics> {
    let parsed = document.parse::<RawScenario>()?;
    let Some(raw) = &parsed.raw.sweep else { return Ok(None) };
    let mut check = Check::new(document);
    let axes = axes::resolve(&mut check, raw);
    let mut problems = check.problems;
    let mut paths = document.clone();
    let mut places: Vec<String> = Vec::new();
    for (index, axis) in axes.axes.iter().enumerate() {
        // The first value shows whether the path exists; what the value does is seen at its point.
        let Some(first) = axis.values.first() else { continue };
        let note = format!("{AXIS}{}`", axis.name);
        let here = format!("sweep.axes.{index}.path");
        // A value has one place however its path is spelled.
        let meant = meant(document, files, &axis.path, &note);
        if let Ok(meant) = &meant {
            if meant.iter().any(|place| places.contains(place)) {
                let rule = "another axis replaces the same value";
                let remedy = "sweep it by one axis: points would carry the values of both";
                problems.0.push(document.problem_found(&here, rule, &axis.path, remedy));
            }
            places.extend(meant.iter().cloned());
        }
        match meant.and_then(|_| with(&paths, &axis.path, &first.text, &note)) {
            Ok(next) => paths = next,
            Err(found) => problems.0.extend(found.0.into_iter().map(|problem| Diagnostic {
                file: document.file_of(&here).to_owned(),
                place: Some(document.place(&here)),
                ..problem
            })),
        }
    }
    problems.into_result(Some(axes))
}

/// The values that a path leads to, in the scenario or in its machine.
fn meant(
    document: &Document,
    files: &mut Files,
    path: &str,
    note: &str,
) -> Result<Vec<String>, Diagnostics> {
    if let Some(within) = machines::path_within(path) {
        let name = machines::named(document, &mut Diagnostics::default());
        // A machine that cannot be read is told of where it is named.
        return match name.map(|named| files.machine_text(&named.machine)) {
            Some(Lookup::Good(machine)) => {
                let inside = machine.meant(within, note)?.into_iter();
                Ok(inside.map(|path| format!("{} {path}", machines::PATH)).collect())
            }
            _ => Ok(Vec::new()),
        };
    }
    let place = |path: String| {
        let (id, missing) = document.tree().descend(&path);
        format!("{} {missing}", document.tree().path(id))
    };
    Ok(document.meant(path, note)?.into_iter().map(place).collect())
}

/// Notes why there is nothing at a point. One reason is often that of the point before.
fn skip(sweep: &mut Sweep, params: Params, why: String) {
    let before = sweep.skipped.last().map(|(_, before)| before).filter(|before| ***before == *why);
    let why = before.cloned().unwrap_or_else(|| why.into());
    sweep.skipped.push((params, why));
}

fn weight_of(scenario: &Scenario) -> usize {
    let hints =
        |case: &Case| case.policy.get().map_or(0, |config: &HintsConfig| config.hints.len());
    scenario.cases.iter().map(|case| 1 + hints(case)).sum()
}

fn substituted(document: &Document, axes: &Axes, at: &[usize]) -> Result<Document, Diagnostics> {
    let mut document = document.clone();
    for (index, axis) in axes.replacing() {
        let point = &axis.values[axes.value_at(index, at)];
        let note = format!("{AXIS}{}` at {}", axis.name, point.value);
        document = with(&document, &axis.path, &point.text, &note)?;
    }
    Ok(document)
}

/// Problems of a point, each kind once: of one place and one rule without the note of the point.
fn each_kind(mut problems: Diagnostics) -> Diagnostics {
    let mut seen = BTreeSet::new();
    problems.0.retain(|problem| {
        let rule = problem.rule.split(" [").next().unwrap_or_default();
        seen.insert(format!("{:?} {} {rule}", problem.place, problem.file.display()))
    });
    problems.0.truncate(MAX_PROBLEMS);
    problems
}
