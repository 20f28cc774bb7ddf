//! Energy and cost in `summary.json`: parts that add up, what they rest on, and what is missing.
//!
//! Invariant: a total is there exactly when nothing is missing.

use crate::words::{count, elide, finite};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tiersim_models::energy::Confidence;
use tiersim_models::hardware::Fact;
use tiersim_models::results::RunRecord;
use tiersim_models::results::economics::{Basis, CaseEconomics, Energy, Part, dollars};

/// A number that energy or cost rests on.
#[derive(Clone, Debug, Serialize)]
pub struct NumberSummary {
    /// Path in the spec, such as `tiers.dram.energy`.
    pub path: String,
    /// As written, such as `pj_per_bit(3.9)`.
    pub value: String,
    /// Kind of its source.
    pub confidence: &'static str,
    /// Where it stands, or why it was assumed.
    pub source: String,
}

/// Energy of a measured step.
#[derive(Clone, Debug, Serialize)]
pub struct EnergySummary {
    /// Joules per step by number of the spec; they add up to `energy_j`.
    pub parts: Map<String, Value>,
    /// Joules per step that the power of the device or of the host holds already.
    pub within: Map<String, Value>,
    /// Kind of the weakest source.
    pub confidence: Option<&'static str>,
    /// How many of the numbers are assumed.
    pub assumed: usize,
    /// Numbers that are needed and that the spec does not have.
    pub missing: Vec<String>,
}

/// Cost of the machine of a case.
#[derive(Clone, Debug, Serialize)]
pub struct CostSummary {
    /// Dollars by number of the spec; they add up to `cost_usd`.
    pub parts: Map<String, Value>,
    /// Kind of the weakest source.
    pub confidence: Option<&'static str>,
    /// How many of the numbers are assumed.
    pub assumed: usize,
    /// Numbers that are needed and that the spec does not have.
    pub missing: Vec<String>,
    /// Tiers without a limit, which are not in the sum.
    pub unlimited: Vec<String>,
    /// Dollars of a machine with no more memory than the case holds at its peak.
    pub used_usd: Option<f64>,
}

pub(crate) fn number(fact: &Fact) -> NumberSummary {
    NumberSummary {
        path: fact.path.clone(),
        value: fact.value.clone(),
        confidence: fact.source.confidence().word(),
        source: fact.source.text().to_owned(),
    }
}

pub(crate) fn energy(energy: &Energy) -> EnergySummary {
    let joules = |parts: &[Part]| amounts(parts, |amount| energy.joules_per_step(amount));
    EnergySummary {
        parts: joules(&energy.parts),
        within: joules(&energy.within),
        confidence: confidence(&energy.basis),
        assumed: energy.basis.assumed,
        missing: energy.basis.missing.clone(),
    }
}

pub(crate) fn cost(of: &CaseEconomics) -> CostSummary {
    let cost = &of.cost;
    CostSummary {
        parts: amounts(&cost.parts, dollars),
        confidence: confidence(&cost.basis),
        assumed: cost.basis.assumed,
        missing: cost.basis.missing.clone(),
        unlimited: cost.unlimited.clone(),
        used_usd: of.dollars_used().and_then(finite),
    }
}

/// The word for how far a sum can be trusted.
pub(crate) fn confidence(basis: &Basis) -> Option<&'static str> {
    basis.confidence.map(|confidence| confidence.word())
}

/// Lines of a header that say what energy and cost rest on; none for a machine without any such
/// number.
pub(crate) fn economics_lines(record: &RunRecord) -> Vec<(&'static str, String)> {
    if record.power_and_price.is_empty() {
        return Vec::new();
    }
    let all = || record.results.iter().map(|case| &case.economics);
    let energies: Vec<&Basis> = all().filter_map(|e| Some(&e.energy.as_ref()?.basis)).collect();
    let costs: Vec<&Basis> = all().map(|economics| &economics.cost.basis).collect();
    let facts = &record.power_and_price;
    vec![("energy", basis_words(&energies, facts)), ("cost", basis_words(&costs, facts))]
}

/// What the sums of all cases rest on together, in words.
fn basis_words(bases: &[&Basis], facts: &[Fact]) -> String {
    let distinct = |of: &dyn Fn(&Basis) -> Vec<String>| -> Vec<String> {
        let mut all: Vec<String> = bases.iter().flat_map(|basis| of(basis)).collect();
        all.sort();
        all.dedup();
        all
    };
    let used = distinct(&|basis| basis.used.clone());
    let is_assumed = |fact: &&Fact| fact.source.confidence() == Confidence::Assumed;
    let assumed = facts.iter().filter(is_assumed).filter(|fact| used.contains(&fact.path)).count();
    let missing = distinct(&|basis| basis.missing.clone());
    let mut words =
        format!("rests on {}, {assumed} assumed", count(used.len(), "number", "numbers"));
    if !missing.is_empty() {
        words = format!("{words}; no sum without {}", elide(&missing.join(", "), 60));
    }
    words
}

fn amounts(parts: &[Part], value: impl Fn(u128) -> f64) -> Map<String, Value> {
    let one = |part: &Part| (part.name.clone(), json!(finite(value(part.amount))));
    parts.iter().map(one).collect()
}
