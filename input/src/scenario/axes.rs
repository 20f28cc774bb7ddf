//! The axes of a sweep: which values each takes, and which of them turn together.
//!
//! Counts are known before any value is made, so a file cannot ask for more than a sweep may have.
//! Invariant: axes of one group have equally many values, and every axis is in one group.

use crate::scenario::AxisValue;
use crate::scenario::machines;
use crate::scenario::raw::{RawAxis, RawSample, RawSweep, RawValues};
use crate::scenario::resolve::is_name;
use crate::text::check::Check;
use crate::text::condition::Condition;
use crate::text::ron_text::is_name as is_word;
use std::collections::BTreeSet;
use tiersim_policies::scenario::hypercube::{share, significant, strata};
use tiersim_policies::scenario::sweep::{Axis, AxisPoint, MACHINE};

/// Most points of one sweep.
pub const MAX_POINTS: usize = 1_000_000;
/// Most axes of one sweep.
const MAX_AXES: usize = 16;
/// Significant digits of values that are worked out: what a person would write.
const DIGITS: usize = 6;
/// Most conditions on the values of axes.
const MAX_CONSTRAINTS: usize = 16;

/// What varies, and how.
#[derive(Debug, Default)]
pub(crate) struct Axes {
    pub(crate) axes: Vec<Axis>,
    /// Axes that turn together, by index; the last group turns fastest.
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) constraints: Vec<Condition>,
    pub(crate) skip_invalid: bool,
    /// Whether the first axis is that of the scenario's machines.
    pub(crate) of_machines: bool,
}

impl Axes {
    /// Axes that all turn together.
    pub(crate) fn together(axes: Vec<Axis>) -> Axes {
        let groups = vec![(0..axes.len()).collect()];
        Axes { axes, groups, skip_invalid: true, ..Axes::default() }
    }

    /// Adds the axis of several machines before all others.
    pub(crate) fn first_of_machines(&mut self, labels: &[String]) {
        if labels.is_empty() {
            return;
        }
        let value = |label: &String| AxisPoint {
            value: AxisValue::Text(label.clone()),
            text: String::new(),
        };
        let values = labels.iter().map(value).collect();
        let (name, path) = (MACHINE.to_owned(), machines::PATH.to_owned());
        self.axes.insert(0, Axis { name, path, values });
        self.groups.iter_mut().flatten().for_each(|axis| *axis += 1);
        self.groups.insert(0, vec![0]);
        self.of_machines = true;
    }

    /// Which of several machines a point has.
    pub(crate) fn machine_at(&self, at: &[usize]) -> Option<usize> {
        self.of_machines.then(|| at[0])
    }

    /// The axes that replace a value of the file, by index.
    pub(crate) fn replacing(&self) -> impl Iterator<Item = (usize, &Axis)> {
        self.axes.iter().enumerate().skip(usize::from(self.of_machines))
    }

    /// Which of its values an axis has where the groups stand `at`.
    pub(crate) fn value_at(&self, axis: usize, at: &[usize]) -> usize {
        let group = self.groups.iter().position(|group| group.contains(&axis));
        group.map_or(0, |group| at[group])
    }

    /// How many values a group has.
    pub(crate) fn length(&self, group: usize) -> usize {
        self.groups[group].first().map_or(0, |&axis| self.axes[axis].values.len())
    }
}

/// The axes that a file asks for; what is wrong with them is noted.
pub(crate) fn resolve(check: &mut Check<'_>, raw: &RawSweep) -> Axes {
    if raw.axes.is_empty() {
        check.fault("sweep.axes", "a sweep has at least one axis", "add one");
    }
    let draw = raw.sample.and_then(|sample| sampled(check, sample));
    let mut names = BTreeSet::new();
    let mut axes = Vec::new();
    for (index, axis) in check.at_most("sweep.axes", "axes", &raw.axes, MAX_AXES).iter().enumerate()
    {
        let here = format!("sweep.axes.{index}");
        if !is_name(&axis.name) || !names.insert(&axis.name) {
            let rule = "every axis has a name of its own, of 1 to 80 bytes, all printable";
            check.fault(&format!("{here}.name"), rule, "choose another name");
        }
        if axis.path.is_empty() || axis.path == "sweep" || axis.path.starts_with("sweep.") {
            let rule = "an axis cannot replace the sweep or the whole file";
            let remedy = "write a path such as policies.0.policy.cut.hbm";
            check.fault(&format!("{here}.path"), rule, remedy);
        }
        unit(check, &here, axis);
        let at = format!("{here}.values");
        let values = match draw {
            Some(draw) => drawn(check, &at, axis, draw, index as u64),
            None => listed(check, &at, axis),
        };
        let Some(values) = values else { continue };
        axes.push(Axis { name: axis.name.clone(), path: axis.path.clone(), values });
    }
    let whole = axes.len() == raw.axes.len();
    let groups = if draw.is_some() {
        if !raw.zip.is_empty() {
            let rule = "points that are drawn have values of every axis of their own";
            check.fault("sweep.zip", rule, "leave `zip` or `sample` out");
        }
        vec![(0..axes.len()).collect()]
    } else {
        groups(check, raw, &axes, whole)
    };
    let mut all = Axes { axes, groups, skip_invalid: raw.skip_invalid, ..Axes::default() };
    let counts = (0..all.groups.len()).map(|group| all.length(group));
    if counts.fold(1usize, usize::saturating_mul) > MAX_POINTS {
        let rule = format!("a sweep has at most {MAX_POINTS} points");
        check.fault("sweep.axes", rule, "take fewer values");
    }
    if whole {
        all.constraints = constraints(check, raw, &all.axes);
    }
    all
}

fn unit(check: &mut Check<'_>, here: &str, axis: &RawAxis) {
    let Some(unit) = &axis.unit else { return };
    let at = format!("{here}.unit");
    if !is_word(unit) {
        check.fault(&at, "`unit` is one word", "write the word before the brackets: gib, gb_per_s");
    } else if matches!(axis.values, RawValues::Choices(_) | RawValues::Factors(_)) {
        let rule = "only plain numbers have a unit";
        check.fault(&at, rule, "leave `unit` out: factors keep the unit, choices spell theirs");
    }
}

/// The values of an axis of a grid.
fn listed(check: &mut Check<'_>, at: &str, axis: &RawAxis) -> Option<Vec<AxisPoint>> {
    let count = count(check, at, &axis.values)?;
    let values = expand(check, at, axis, count);
    let mut texts = BTreeSet::new();
    if let Some(twice) = values.iter().find(|value| !texts.insert(value.text.trim())) {
        let rule = format!("{} stands twice among the values of an axis", twice.value);
        check.fault(at, rule, "keep one of them");
    }
    Some(values)
}

/// How many values there are, before any is made.
fn count(check: &mut Check<'_>, at: &str, values: &RawValues) -> Option<usize> {
    let count = match values {
        RawValues::Range { from, to, step } => {
            bounds(check, at, &[*from, *to, *step], (*from, *to))?;
            if *step <= 0.0 {
                let path = format!("{at}.step");
                check.fault(&path, "`step` must be above 0", "swap `from` and `to` to go down");
                return None;
            }
            // Casts saturate, so a step of 1e-300 gives a large count and not a wrong one. The
            // small addition keeps the last point of 0.0..1.0 by 0.05 in spite of rounding.
            (((to - from) / step + 1e-9).floor() as usize).saturating_add(1)
        }
        RawValues::LogRange { from, to, points } => {
            bounds(check, at, &[*from, *to], (*from, *to))?;
            positive(check, at, *from)?;
            if *points < 2 {
                let rule = "a range has at least its two ends";
                check.fault(&format!("{at}.points"), rule, "write 2 or more");
                return None;
            }
            *points as usize
        }
        RawValues::Between { .. } => {
            let rule = "`between` has no values of its own: points are drawn from it";
            let remedy = "add `sample: latin_hypercube(points: 64)` to the sweep, or write a range";
            check.fault(at, rule, remedy);
            return None;
        }
        RawValues::List(list) | RawValues::Factors(list) => list.len(),
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

/// That the numbers of a range can be worked with and are in order.
fn bounds(check: &mut Check<'_>, at: &str, numbers: &[f64], (from, to): (f64, f64)) -> Option<()> {
    if !numbers.iter().all(|n| n.is_finite() && n.abs() <= 1e15) {
        let rule = "the numbers of a range must lie between -1e15 and 1e15";
        check.fault(at, rule, "write finite numbers");
        return None;
    }
    if to < from {
        check.fault(at, "a range runs from the lower end to the higher", "swap them");
        return None;
    }
    Some(())
}

fn positive(check: &mut Check<'_>, at: &str, from: f64) -> Option<()> {
    if from > 0.0 {
        return Some(());
    }
    let rule = "equal ratios begin above 0";
    check.fault(&format!("{at}.from"), rule, "write a number above 0");
    None
}

fn expand(check: &mut Check<'_>, at: &str, axis: &RawAxis, count: usize) -> Vec<AxisPoint> {
    let number = |value: f64| number(axis, value);
    match &axis.values {
        RawValues::Range { from, step, .. } => {
            (0..count).map(|i| number(rounded(from + i as f64 * step))).collect()
        }
        RawValues::LogRange { from, to, .. } => {
            let at = |i: usize| i as f64 / (count - 1) as f64;
            (0..count)
                .map(|i| number(significant(from * (to / from).powf(at(i)), DIGITS)))
                .collect()
        }
        RawValues::Between { .. } => Vec::new(),
        RawValues::List(list) | RawValues::Factors(list) => {
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
                        "every choice has a label of its own, of 1 to 80 bytes, all printable";
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

/// A number of an axis, as it is put into the file.
fn number(axis: &RawAxis, value: f64) -> AxisPoint {
    let text = match (&axis.values, &axis.unit) {
        (RawValues::Factors(_), _) => format!("times({value})"),
        (_, Some(unit)) => format!("{unit}({value})"),
        // `4` and not `4.0`, so that whole numbers can be swept too.
        (_, None) => format!("{value}"),
    };
    AxisPoint { text, value: AxisValue::Number(value) }
}

/// To 12 decimals, in decimal: 3 * 0.05 is 0.15 and not 0.15000000000000002.
fn rounded(number: f64) -> f64 {
    format!("{number:.12}").parse::<f64>().map_or(number, |rounded| rounded + 0.0)
}

/// How many points are drawn, and from which seed.
fn sampled(check: &mut Check<'_>, sample: RawSample) -> Option<(usize, u64)> {
    let RawSample::LatinHypercube { points, seed } = sample;
    if (1..=MAX_POINTS).contains(&(points as usize)) {
        return Some((points as usize, seed.unwrap_or(1)));
    }
    let rule = format!("between 1 and {MAX_POINTS} points can be drawn");
    check.fault("sweep.sample.points", rule, "write a number in that range");
    None
}

/// As many values as points: each of equally many strata of the axis gives one, in an order drawn
/// for this axis. The stream of an axis is its own, so that adding one changes no other.
fn drawn(
    check: &mut Check<'_>,
    at: &str,
    axis: &RawAxis,
    (points, seed): (usize, u64),
    stream: u64,
) -> Option<Vec<AxisPoint>> {
    let (strata, mut random) = strata(points, seed, stream);
    if let RawValues::Between { from, to, log } = axis.values {
        bounds(check, at, &[from, to], (from, to))?;
        let log = log.unwrap_or(false);
        if log {
            positive(check, at, from)?;
        }
        let draw = |stratum: usize| {
            let share = share(stratum, points, &mut random);
            let value =
                if log { from * (to / from).powf(share) } else { from + share * (to - from) };
            number(axis, significant(value, DIGITS).clamp(from, to))
        };
        return Some(strata.into_iter().map(draw).collect());
    }
    let values = listed(check, at, axis)?;
    let pick = |stratum: usize| values.get(stratum * values.len() / points).cloned();
    strata.into_iter().map(pick).collect()
}

/// The axes that turn together; those that no list of `zip` names turn alone.
fn groups(check: &mut Check<'_>, raw: &RawSweep, axes: &[Axis], whole: bool) -> Vec<Vec<usize>> {
    let mut of = vec![None; axes.len()];
    let lists = check.at_most("sweep.zip", "lists", &raw.zip, MAX_AXES);
    for (group, list) in lists.iter().enumerate() {
        let mut first: Option<usize> = None;
        for (index, name) in check.at_most("sweep.zip", "axes", list, MAX_AXES).iter().enumerate() {
            let here = format!("sweep.zip.{group}.{index}");
            let Some(axis) = axes.iter().position(|axis| axis.name == *name) else {
                if whole {
                    let known: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
                    check.unknown(&here, "no axis has this name", name, &known);
                }
                continue;
            };
            if of[axis].replace(group).is_some() {
                check.fault(&here, "an axis turns together with others once", "name it once");
                continue;
            }
            let (own, other) = (axes[axis].values.len(), first.map(|first| &axes[first]));
            if let Some(other) = other.filter(|other| other.values.len() != own) {
                let rule = format!(
                    "axes that turn together have equally many values: this one has {own}, `{}` \
                     has {}",
                    other.name,
                    other.values.len()
                );
                check.fault(&here, rule, "add or leave out values");
                of[axis] = None;
                continue;
            }
            first.get_or_insert(axis);
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known = vec![None; lists.len()];
    for (axis, list) in of.into_iter().enumerate() {
        match list.map(|list| &mut known[list]) {
            Some(Some(group)) => {
                let group: &mut Vec<usize> = &mut groups[*group];
                group.push(axis);
            }
            at => {
                if let Some(at) = at {
                    *at = Some(groups.len());
                }
                groups.push(vec![axis]);
            }
        }
    }
    groups
}

fn constraints(check: &mut Check<'_>, raw: &RawSweep, axes: &[Axis]) -> Vec<Condition> {
    let at = "sweep.constraints";
    let texts = check.at_most(at, "constraints", &raw.constraints, MAX_CONSTRAINTS);
    let mut found = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let here = format!("{at}.{index}");
        let condition = match Condition::parse(text) {
            Ok(condition) => condition,
            Err(rule) => {
                check.fault(&here, rule, "write such as \"hbm + cpu <= 1\"");
                continue;
            }
        };
        let is_number = |axis: &&Axis| {
            axis.values.iter().all(|value| matches!(value.value, AxisValue::Number(_)))
        };
        let known: Vec<&str> = axes.iter().filter(is_number).map(|axis| &*axis.name).collect();
        for name in condition.names().filter(|name| !known.contains(name)) {
            check.unknown(&here, &format!("no axis of numbers is called `{name}`"), name, &known);
        }
        found.push(condition);
    }
    found
}
