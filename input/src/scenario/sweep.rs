//! The points of a sweep: one scenario per combination of its axes' values.
//!
//! An axis substitutes the text of one value, so anything that a file can say can be swept. The
//! last axis turns fastest. A point that is well formed and breaks a rule (shares above 1, say) may
//! be skipped with its reason; one that is not even well formed is an error of the axis.
//! Invariant: points + skipped = product of the axes' lengths <= [`MAX_POINTS`].

use crate::file_kind::{FileKind, refused};
use crate::scenario::document::{name_of, open};
use crate::scenario::raw::{RawScenario, RawSweep, RawValues};
use crate::scenario::resolve::{Failure, is_name, resolve};
use crate::scenario::{AxisValue, Case, Scenario};
use crate::text::check::Check;
use crate::text::ron_text::Document;
use std::collections::BTreeSet;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostic, Diagnostics};
use tiersim_policies::scenario::sweep::{Axis, AxisPoint, Params, Point, Sweep};
use tiersim_policies::zoo::Registry;
use tiersim_policies::zoo::hints::HintsConfig;

/// Most points of one sweep.
pub const MAX_POINTS: usize = 1_000_000;
/// Most cases and hints of all points together: what a sweep holds in memory.
const MAX_WEIGHT: usize = 5_000_000;
/// Most axes of one sweep.
const MAX_AXES: usize = 16;
/// Most different problems reported of a sweep.
const MAX_PROBLEMS: usize = 20;

/// Reads a scenario with a sweep and resolves every point of it.
pub fn read_sweep(path: &Path, overrides: &[(String, String)]) -> Result<Sweep, Diagnostics> {
    read_sweep_with(path, overrides, &Registry::default())
}

/// The same, where the scenario can name the policies of `registry`.
pub fn read_sweep_with(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Sweep, Diagnostics> {
    let read = read_document(path, overrides, registry);
    read.map_err(|said| refused(path, &[FileKind::Scenario], said))
}

fn read_document(
    path: &Path,
    overrides: &[(String, String)],
    registry: &Registry,
) -> Result<Sweep, Diagnostics> {
    let (document, mut files) = open(path, overrides, registry)?;
    let name = name_of(path);
    let base = resolve(&document, &name, &mut files, &[]).map_err(Failure::into_problems)?;
    let (axes, skip_invalid) = axes(&document)?.ok_or_else(|| {
        let remedy = "add `sweep: (axes: [...])`, or run it as a single scenario";
        Diagnostics::one(path, None, "the scenario has no `sweep`", "", remedy)
    })?;
    let mut sweep = Sweep { base, axes, points: Vec::new(), skipped: Vec::new() };
    let mut at = vec![0; sweep.axes.len()];
    let mut weight = 0usize;
    loop {
        let params = params(&sweep.axes, &at);
        let point = substituted(&document, &sweep.axes, &at)
            .map_err(Failure::form)
            .and_then(|document| resolve(&document, &name, &mut files, &params));
        match point {
            Ok(scenario) => {
                weight += weight_of(&scenario);
                sweep.points.push(Point { params, scenario });
            }
            Err(Failure::Meaning(found)) if skip_invalid => {
                sweep.skipped.push((params, reason(&found)));
            }
            // One bad point says enough: the others may be a million.
            Err(Failure::Form(found, _)) if skip_invalid => return Err(each_kind(found)),
            Err(failure) => return Err(each_kind(failure.into_problems())),
        }
        if weight > MAX_WEIGHT {
            let rule =
                format!("a sweep has at most {MAX_WEIGHT} cases and hints at all its points");
            let remedy = "take fewer values, or fewer policies";
            return Err(Diagnostics(vec![document.problem_found("sweep", rule, "", remedy)]));
        }
        if !advance(&mut at, &sweep.axes) {
            break;
        }
    }
    if sweep.points.is_empty() {
        let rule = "no point of the sweep is valid";
        let why = sweep.skipped.first().map(|(_, why)| why.clone()).unwrap_or_default();
        let problem = document.problem_found("sweep", rule, why, "mend the axes");
        return Err(Diagnostics(vec![problem]));
    }
    Ok(sweep)
}

/// The axes of a document and whether invalid points are skipped; `None` without a sweep.
pub(crate) fn axes(document: &Document) -> Result<Option<(Vec<Axis>, bool)>, Diagnostics> {
    let parsed = document.parse::<RawScenario>()?;
    let Some(raw) = &parsed.raw.sweep else { return Ok(None) };
    let mut check = Check::new(document);
    let axes = resolve_axes(&mut check, raw);
    let mut problems = check.problems;
    let mut paths = document.clone();
    let mut places = Vec::new();
    for (index, axis) in axes.iter().enumerate() {
        // The first value shows whether the path exists; what the value does is seen at its point.
        let Some(first) = axis.values.first() else { continue };
        let note = format!("axis `{}`", axis.name);
        // A value has one place however its path is spelled.
        if document.with(&axis.path, &first.text, &note).is_ok() {
            let place = document.place(&axis.path);
            if places.contains(&place) {
                let here = format!("sweep.axes.{index}.path");
                let rule = "another axis replaces the same value";
                let remedy = "sweep it by one axis: points would carry the values of both";
                problems.0.push(document.problem_found(&here, rule, &axis.path, remedy));
            }
            places.push(place);
        }
        match paths.with(&axis.path, &first.text, &note) {
            Ok(next) => paths = next,
            Err(found) => problems.0.extend(found.0.into_iter().map(|problem| Diagnostic {
                place: Some(document.place(&format!("sweep.axes.{index}.path"))),
                ..problem
            })),
        }
    }
    problems.into_result(Some((axes, raw.skip_invalid)))
}

fn resolve_axes(check: &mut Check<'_>, raw: &RawSweep) -> Vec<Axis> {
    if raw.axes.is_empty() {
        check.fault("sweep.axes", "a sweep has at least one axis", "add one");
    }
    let mut names = BTreeSet::new();
    let mut points = 1usize;
    let mut axes = Vec::new();
    for (index, axis) in check.at_most("sweep.axes", "axes", &raw.axes, MAX_AXES).iter().enumerate()
    {
        let here = format!("sweep.axes.{index}");
        if !is_name(&axis.name) || !names.insert(&axis.name) {
            let rule = "every axis has a name of its own, of 1 to 80 printable characters";
            check.fault(&format!("{here}.name"), rule, "choose another name");
        }
        if axis.path.is_empty() || axis.path == "sweep" || axis.path.starts_with("sweep.") {
            let rule = "an axis cannot replace the sweep or the whole file";
            let remedy = "write a path such as policies.0.policy.cut.hbm";
            check.fault(&format!("{here}.path"), rule, remedy);
        }
        let at = format!("{here}.values");
        let Some(count) = count(check, &at, &axis.values) else { continue };
        points = points.saturating_mul(count);
        if points > MAX_POINTS {
            let rule = format!("a sweep has at most {MAX_POINTS} points");
            check.fault(&at, rule, "take fewer values");
            break;
        }
        let values = expand(check, &at, &axis.values, count);
        let mut texts = BTreeSet::new();
        if let Some(twice) = values.iter().find(|value| !texts.insert(value.text.trim())) {
            let rule = format!("{} stands twice among the values of an axis", twice.value);
            check.fault(&at, rule, "keep one of them");
        }
        axes.push(Axis { name: axis.name.clone(), path: axis.path.clone(), values });
    }
    axes
}

/// How many values there are, before any is made.
fn count(check: &mut Check<'_>, at: &str, values: &RawValues) -> Option<usize> {
    let count = match values {
        RawValues::Range { from, to, step } => {
            if ![from, to, step].into_iter().all(|n| n.is_finite() && n.abs() <= 1e15) {
                let rule = "the numbers of a range must lie between -1e15 and 1e15";
                check.fault(at, rule, "write finite numbers");
                return None;
            }
            if *step <= 0.0 {
                let path = format!("{at}.step");
                check.fault(&path, "`step` must be above 0", "swap `from` and `to` to go down");
                return None;
            }
            if to < from {
                check.fault(at, "a range runs from the lower end to the higher", "swap them");
                return None;
            }
            // Casts saturate, so a step of 1e-300 gives a large count and not a wrong one. The
            // small addition keeps the last point of 0.0..1.0 by 0.05 in spite of rounding.
            (((to - from) / step + 1e-9).floor() as usize).saturating_add(1)
        }
        RawValues::List(list) => list.len(),
        RawValues::Choices(list) => list.len(),
    };
    if count == 0 {
        check.fault(at, "an axis has at least one value", "add one");
        return None;
    }
    if count > MAX_POINTS {
        let rule = format!("a sweep has at most {MAX_POINTS} points, this axis has {count}");
        check.fault(at, rule, "take fewer values");
        return None;
    }
    Some(count)
}

fn expand(check: &mut Check<'_>, at: &str, values: &RawValues, count: usize) -> Vec<AxisPoint> {
    let number = |number: f64| AxisPoint {
        // `4` and not `4.0`, so that whole numbers can be swept too.
        text: format!("{number}"),
        value: AxisValue::Number(number),
    };
    match values {
        RawValues::Range { from, step, .. } => {
            (0..count).map(|i| number(rounded(from + i as f64 * step))).collect()
        }
        RawValues::List(list) => {
            if list.iter().any(|number| !number.is_finite()) {
                check.fault(at, "the values of an axis must be finite", "write finite numbers");
                return Vec::new();
            }
            list.iter().map(|&n| number(n + 0.0)).collect()
        }
        RawValues::Choices(list) => {
            let mut labels = BTreeSet::new();
            for (index, (label, _)) in list.iter().enumerate() {
                if !is_name(label) || !labels.insert(label) {
                    let rule =
                        "every choice has a label of its own, of 1 to 80 printable characters";
                    check.fault(&format!("{at}.{index}"), rule, "choose another label");
                }
            }
            let point = |(label, text): &(String, String)| AxisPoint {
                value: AxisValue::Text(label.clone()),
                text: text.clone(),
            };
            list.iter().map(point).collect()
        }
    }
}

/// To 12 decimals, in decimal: 3 * 0.05 is 0.15 and not 0.15000000000000002.
fn rounded(number: f64) -> f64 {
    format!("{number:.12}").parse::<f64>().map_or(number, |rounded| rounded + 0.0)
}

fn weight_of(scenario: &Scenario) -> usize {
    let hints =
        |case: &Case| case.policy.get().map_or(0, |config: &HintsConfig| config.hints.len());
    scenario.cases.iter().map(|case| 1 + hints(case)).sum()
}

fn params(axes: &[Axis], at: &[usize]) -> Params {
    let value = |(axis, &i): (&Axis, &usize)| (axis.name.clone(), axis.values[i].value.clone());
    axes.iter().zip(at).map(value).collect()
}

fn substituted(document: &Document, axes: &[Axis], at: &[usize]) -> Result<Document, Diagnostics> {
    let mut document = document.clone();
    for (axis, &index) in axes.iter().zip(at) {
        let point = &axis.values[index];
        let note = format!("axis `{}` at {}", axis.name, point.value);
        document = document.with(&axis.path, &point.text, &note)?;
    }
    Ok(document)
}

/// Moves to the next point; false after the last one.
fn advance(at: &mut [usize], axes: &[Axis]) -> bool {
    for (index, axis) in at.iter_mut().zip(axes).rev() {
        *index += 1;
        if *index < axis.values.len() {
            return true;
        }
        *index = 0;
    }
    false
}

/// The first problem without its file and place, which are the same for every point.
fn reason(problems: &Diagnostics) -> String {
    let Some(first) = problems.0.first() else { return String::new() };
    let rule = first.rule.split(" [axis").next().unwrap_or(&first.rule);
    if first.found.is_empty() {
        rule.to_string()
    } else {
        format!("{rule} (found {})", first.found)
    }
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
