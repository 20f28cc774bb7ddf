//! What can be turned: thresholds and budgets of policies, capacities of tiers, rates of links.
//!
//! A knob has stops, and each stop is what `--set` takes: paths and texts of values. Shares go from
//! 0 to 1 in hundredths. Other numbers go from a quarter to four times of what is there, in even
//! ratios, rounded to three digits, or to whole numbers where they count; a direction of a link
//! ends at what both together reach, which no knob turns. Two shares of a struct that make up the whole
//! are turned together: more for one is less for the other.
//! Invariant: one stop of a knob sets nothing, and that is the number that is there.

use crate::{Ready, Set};
use serde::Serialize;
use std::collections::BTreeSet;
use tiersim_input::scenario::numbers::{WrittenNumber, policy_numbers};
use tiersim_models::units::Bandwidth;
use tiersim_models::units::shown::three_digits;
use tiersim_models::units::written::in_base;
use tiersim_sim::explain::answers::numbers;

/// Stops of a ratio on each side: four times in eight steps to the double.
const STOPS: i32 = 16;
/// Most knobs: more are no page to work with.
const MOST_KNOBS: usize = 120;

/// A number that can be turned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knob {
    /// What it belongs to: the machine, or a case.
    pub group: String,
    /// Its path within that, such as `links.pcie.read`.
    pub name: String,
    /// Where it can stand, from the least to the largest.
    pub stops: Vec<Stop>,
    /// The stop that is the scenario's own number.
    pub nominal: usize,
}

/// Where a knob can stand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stop {
    /// The value for people: `48.5 GB/s`.
    pub shown: String,
    /// What is set; nothing at the scenario's own number.
    pub set: Vec<Set>,
}

/// What can be turned of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Knobs {
    /// The first of them.
    pub knobs: Vec<Knob>,
    /// How many more there are, which a page has no room for.
    pub beyond: usize,
}

/// The knobs of a scenario: of its machine, then of its cases.
///
/// # Errors
/// In words, if its file cannot be read.
pub fn knobs(ready: &Ready) -> Result<Knobs, String> {
    let machine = &ready.scenario.hardware;
    let wanted = |path: &str| {
        let link = path.starts_with("hardware.links.");
        let rate = link && (path.ends_with(".read") || path.ends_with(".write"));
        rate || (path.starts_with("hardware.tiers.") && path.ends_with(".capacity"))
    };
    let numbers = numbers(machine);
    let mut all: Vec<Knob> = (numbers.iter())
        .filter(|number| wanted(&number.path))
        .filter_map(|number| {
            let name = number.path.strip_prefix("hardware.").unwrap_or_default();
            let group = format!("machine {}", machine.name);
            let mut knob = knob(group, name, &number.path, &number.value)?;
            let total = number.path.rsplit_once('.').map(|(link, _)| format!("{link}.total"));
            let rate = in_base::<Bandwidth>;
            let total = numbers.iter().find(|other| Some(&other.path) == total.as_ref());
            if let Some(most) = total.and_then(|total| rate(&total.value)) {
                let is_had = |stop: &Stop| stop.set.iter().all(|(_, of)| rate(of) <= Some(most));
                knob.stops.retain(is_had);
            }
            Some(knob)
        })
        .collect();
    let written = policy_numbers(&ready.path, &ready.set, &ready.registry);
    let written = written.map_err(|found| found.0[0].to_string())?;
    let mut taken = BTreeSet::new();
    for number in &written {
        let Some((at, name)) = of_case(&number.path) else { continue };
        let Some(case) = ready.scenario.cases.get(at) else { continue };
        if taken.contains(&number.path) {
            continue;
        }
        let group = format!("case {}", case.label);
        let other = written.iter().find(|other| make_a_whole(number, other, &written));
        if let Some(other) = other {
            taken.insert(other.path.clone());
        }
        all.extend(match other {
            Some(other) => Some(shares(group, name, number, Some(other))),
            None if share(number).is_some() => Some(shares(group, name, number, None)),
            None => knob(group, name, &number.path, &number.value),
        });
    }
    let beyond = all.len().saturating_sub(MOST_KNOBS);
    all.truncate(MOST_KNOBS);
    Ok(Knobs { knobs: all, beyond })
}

/// The case's place in the file, and the path within it, of what can be turned there.
fn of_case(path: &str) -> Option<(usize, &str)> {
    let (at, rest) = path.strip_prefix("policies.")?.split_once('.')?;
    let name = match rest.strip_prefix("policy.") {
        Some(within) => within,
        None => Some(rest).filter(|rest| *rest == "hbm")?,
    };
    Some((at.parse().ok()?, name))
}

/// The number of a share: one that is written with a point and lies between 0 and 1, by itself or
/// as a share of the peak.
fn share(number: &WrittenNumber) -> Option<f64> {
    let inside = number.value.strip_prefix("share_of_peak(").and_then(|v| v.strip_suffix(')'));
    let text = inside.unwrap_or(&number.value).trim();
    let value: f64 = text.parse().ok()?;
    (text.contains('.') && (0.0..=1.0).contains(&value)).then_some(value)
}

/// Whether two numbers are all fields of one struct of shares, which add up to one.
fn make_a_whole(one: &WrittenNumber, other: &WrittenNumber, all: &[WrittenNumber]) -> bool {
    let parent = |number: &WrittenNumber| number.path.rsplit_once('.').map(|(up, _)| up.to_owned());
    let (up, Some(a), Some(b)) = (parent(one), share(one), share(other)) else { return false };
    let is_plain = !one.value.contains('(') && !other.value.contains('(');
    let alone = all.iter().filter(|number| parent(number) == up).count() == 2;
    is_plain && alone && one != other && parent(other) == up && (a + b - 1.0).abs() < 1e-9
}

/// A share from nothing to all, and what the other of two has of the rest.
fn shares(
    group: String,
    name: &str,
    number: &WrittenNumber,
    other: Option<&WrittenNumber>,
) -> Knob {
    let now = share(number).unwrap_or_default();
    // No memory at all is no budget.
    let from = if number.value.contains('(') { 1 } else { 0 };
    let mut all: Vec<f64> = (from..=100).map(|hundredth| f64::from(hundredth) / 100.0).collect();
    if !all.contains(&now) {
        all.push(now);
        all.sort_by(f64::total_cmp);
    }
    let nominal = all.iter().position(|value| *value == now).unwrap_or_default();
    let unit = |value: String| match number.value.split_once('(') {
        Some((unit, _)) => format!("{unit}({value})"),
        None => value,
    };
    let stop = |(at, &value): (usize, &f64)| {
        let mut set = vec![(number.path.clone(), unit(decimal(value)))];
        // A sum of decimals is not always one of them: 1 - 0.7 has sixteen digits.
        let rest = format!("{:.12}", 1.0 - value).parse().unwrap_or_default();
        set.extend(other.map(|other| (other.path.clone(), decimal(rest))));
        if at == nominal {
            set.clear();
        }
        Stop { shown: format!("{} %", hundred(value)), set }
    };
    let stops = all.iter().enumerate().map(stop).collect();
    let name = match other.and_then(|other| other.path.rsplit_once('.')) {
        Some((_, other)) => format!("{name} ({other} has the rest)"),
        None => name.to_owned(),
    };
    Knob { group, name, stops, nominal }
}

/// A number with its point, as a share is written.
fn decimal(value: f64) -> String {
    format!("{value:?}")
}

/// Per cent without noise of the last bit.
fn hundred(share: f64) -> f64 {
    format!("{:.9}", share * 100.0).parse().unwrap_or_default()
}

/// A number from a quarter to four times of what is there; none for what holds no number above 0.
fn knob(group: String, name: &str, path: &str, value: &str) -> Option<Knob> {
    let (unit, rest) = match value.split_once('(') {
        Some((unit, rest)) => (unit, rest.strip_suffix(')')?),
        None => ("", value),
    };
    let text = rest.trim().replace('_', "");
    let now: f64 = text.parse().ok().filter(|now: &f64| now.is_finite() && *now > 0.0)?;
    let whole = text.bytes().all(|digit| digit.is_ascii_digit());
    let counts = whole && ["", "b", "ps", "copies"].contains(&unit);
    let mut all: Vec<f64> = Vec::new();
    for at in -STOPS..=STOPS {
        let value = match at {
            0 => now,
            at => rounded(now * (f64::from(at) / 8.0).exp2(), counts),
        };
        if value > 0.0 && all.last().is_none_or(|last| *last < value) {
            all.push(value);
        }
    }
    if !all.contains(&now) {
        all.push(now);
        all.sort_by(f64::total_cmp);
    }
    let nominal = all.iter().position(|value| *value == now)?;
    let written = |value: f64| match unit {
        "" => format!("{value}"),
        unit => format!("{unit}({value})"),
    };
    let stop = |(at, &value): (usize, &f64)| {
        let set = if at == nominal { Vec::new() } else { vec![(path.to_owned(), written(value))] };
        Stop { shown: shown(value, unit), set }
    };
    let stops = all.iter().enumerate().map(stop).collect();
    Some(Knob { group, name: name.to_owned(), stops, nominal })
}

/// Three digits, or a whole number.
fn rounded(value: f64, counts: bool) -> f64 {
    if counts {
        return value.round();
    }
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// A value with its unit as people write it: `gb_per_s(64)` is 64 GB/s.
fn shown(value: f64, unit: &str) -> String {
    let number = if value.fract() == 0.0 { format!("{value}") } else { three_digits(value) };
    let (of, per) = match unit.strip_suffix("_per_s") {
        Some(of) => (of, "/s"),
        None => (unit, ""),
    };
    let of = match of {
        "kb" | "mb" | "gb" | "tb" => of.to_ascii_uppercase(),
        "kib" => "KiB".to_owned(),
        "mib" => "MiB".to_owned(),
        "gib" => "GiB".to_owned(),
        "tib" => "TiB".to_owned(),
        "b" => "B".to_owned(),
        other => other.replace('_', " "),
    };
    if of.is_empty() { number } else { format!("{number} {of}{per}") }
}
