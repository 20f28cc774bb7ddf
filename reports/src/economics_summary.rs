//! Energy and cost in `summary.json`: parts that add up, what they rest on, and what is missing.
//!
//! Invariant: a total is there exactly when nothing is missing.

use crate::words::{count, elide};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tiersim_models::energy::Confidence;
use tiersim_models::hardware::Fact;
use tiersim_models::results::economics::{Basis, CaseEconomics, Contribution, Energy, dollars};
use tiersim_models::results::{MachineFacts, RunRecord};

/// A number that energy or cost rests on.
pub(crate) fn number(fact: &Fact) -> Value {
    let Fact { path, value, source, .. } = fact;
    let (confidence, source) = (source.confidence().word(), source.text());
    json!({ "path": path, "value": value, "confidence": confidence, "source": source })
}

/// A machine among several, and the numbers of it that have a source.
pub(crate) fn machine(of: &MachineFacts) -> Value {
    let MachineFacts { machine, hardware, power_and_price, assumed, assumed_numbers } = of;
    let numbers = |facts: &[Fact]| facts.iter().map(number).collect::<Vec<_>>();
    json!({
        "machine": machine,
        "hardware": hardware,
        "assumed_numbers": assumed_numbers,
        "assumed": numbers(assumed),
        "power_and_price": numbers(power_and_price),
    })
}

/// Energy of a measured step.
pub(crate) fn energy(energy: &Energy) -> Value {
    let joules = |parts: &[Contribution]| amounts(parts, |amount| energy.joules_per_step(amount));
    json!({
        "parts": joules(&energy.parts),
        "within": joules(&energy.within),
        "confidence": confidence(&energy.basis),
        "assumed": energy.basis.assumed,
        "missing": energy.basis.missing,
    })
}

/// Cost of the machine of a case.
pub(crate) fn cost(of: &CaseEconomics) -> Value {
    let cost = &of.cost;
    json!({
        "parts": amounts(&cost.parts, dollars),
        "confidence": confidence(&cost.basis),
        "assumed": cost.basis.assumed,
        "missing": cost.basis.missing,
        "unlimited": cost.unlimited,
        "used_usd": of.dollars_used(),
    })
}

/// The word for how far a sum can be trusted.
pub(crate) fn confidence(basis: &Basis) -> Option<&'static str> {
    basis.confidence.map(|confidence| confidence.word())
}

/// Lines of a header that say what energy and cost rest on; none for a machine without any such
/// number.
pub(crate) fn economics_lines(record: &RunRecord) -> Vec<(&'static str, String)> {
    let of_machines = record.machines.iter().flat_map(|machine| &machine.power_and_price);
    let facts: Vec<&Fact> = record.power_and_price.iter().chain(of_machines).collect();
    if facts.is_empty() {
        return Vec::new();
    }
    let all = || record.results.iter().map(|case| &case.economics);
    let energies: Vec<&Basis> = all().filter_map(|e| Some(&*e.energy.as_ref()?.basis)).collect();
    let costs: Vec<&Basis> = all().map(|economics| &*economics.cost.basis).collect();
    vec![("energy", basis_words(&energies, &facts)), ("cost", basis_words(&costs, &facts))]
}

/// What the sums of all cases rest on together, in words.
fn basis_words(bases: &[&Basis], facts: &[&Fact]) -> String {
    let distinct = |of: fn(&Basis) -> &[String]| -> Vec<&str> {
        let all = bases.iter().flat_map(|basis| of(basis)).map(String::as_str);
        all.collect::<BTreeSet<&str>>().into_iter().collect()
    };
    let used = distinct(|basis| &basis.used);
    let is_assumed = |fact: &&&Fact| fact.source.confidence() == Confidence::Assumed;
    let assumed: BTreeSet<&str> =
        facts.iter().filter(is_assumed).map(|fact| fact.path.as_str()).collect();
    let assumed = used.iter().filter(|path| assumed.contains(**path)).count();
    let missing = distinct(|basis| &basis.missing);
    // Cases of another machine may have a sum.
    let without = match bases.iter().filter(|basis| !basis.missing.is_empty()).count() {
        some if some < bases.len() => format!("no sum for {some} of {} cases", bases.len()),
        _ => "no sum".to_owned(),
    };
    let mut words =
        format!("rests on {}, {assumed} assumed", count(used.len(), "number", "numbers"));
    if !missing.is_empty() {
        words = format!("{words}; {without} without {}", elide(&missing.join(", "), 60));
    }
    words
}

fn amounts(parts: &[Contribution], value: impl Fn(u128) -> f64) -> Value {
    parts.iter().map(|part| (part.name.as_str(), value(part.amount))).collect()
}
