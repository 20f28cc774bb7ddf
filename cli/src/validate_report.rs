//! What `validate` says: a table for people, JSON and CSV for programs.

use crate::output::{Failure, pretty};
use serde_json::{Value, json};
use std::fmt::Write;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Phase;
use tiersim_sim::scenario::Scenario;
use tiersim_validation::grade::{Errors, error, grade, median, spread};
use tiersim_validation::log::Decisions;
use tiersim_validation::truth::Truth;

/// One run of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) decisions: Decisions,
    pub(crate) moved: Vec<Bytes>,
    /// Lengths of the measured steps.
    pub(crate) steps: Vec<Span>,
    /// Phase, planned and real length of each measured op; the real machine only.
    pub(crate) ops: Vec<(Phase, Span, Span)>,
    /// From ready to running, of each measured op.
    pub(crate) launch: Vec<Span>,
    /// Commands, and the time that handing them over took.
    pub(crate) submitted: (u64, Span),
    pub(crate) truth: Truth,
    /// Slots made by tier, and how many are locked memory or unbuffered files.
    pub(crate) slots: Vec<(u64, u64)>,
}

/// What came of one case.
pub(crate) struct CaseResult {
    pub(crate) label: String,
    pub(crate) policy: String,
    pub(crate) verdict: Verdict,
}

pub(crate) enum Verdict {
    /// The plan ran out of memory, before any machine could differ.
    DoesNotFit(String),
    Ran {
        predicted: Box<Measured>,
        measured: Vec<Measured>,
    },
}

/// A figure predicted and measured.
struct Row {
    class: &'static str,
    name: String,
    predicted: Span,
    measured: Span,
    spread: f64,
}

impl CaseResult {
    /// What must agree and does not.
    pub(crate) fn failures(&self) -> Vec<String> {
        let Verdict::Ran { predicted, measured } = &self.verdict else { return Vec::new() };
        let mut failures = Vec::new();
        for (run, real) in measured.iter().enumerate() {
            let mut fail =
                |what: String| failures.push(format!("{}, run {run}: {what}", self.label));
            if real.decisions != predicted.decisions {
                fail(format!("decisions {:?}, not {:?}", real.decisions, predicted.decisions));
            }
            if real.moved != predicted.moved {
                fail(format!("bytes per lane {:?}, not {:?}", real.moved, predicted.moved));
            }
            if let Some(first) = real.truth.first.first() {
                fail(format!("{} checks failed, the first: {first}", real.truth.mismatches));
            }
        }
        failures
    }

    fn rows(&self) -> Vec<Row> {
        let Verdict::Ran { predicted, measured } = &self.verdict else { return Vec::new() };
        let over = |figure: &dyn Fn(&Measured) -> Span| -> (Span, f64) {
            let spans: Vec<Span> = measured.iter().map(figure).collect();
            (median(&spans), spread(&spans))
        };
        let mut rows = Vec::new();
        for (step, &time) in predicted.steps.iter().enumerate() {
            let (real, spread) = over(&|run| run.steps[step]);
            let name = step.to_string();
            rows.push(Row { class: "step", name, predicted: time, measured: real, spread });
        }
        for phase in phases(measured) {
            let sum = |run: &Measured, real: bool| -> Span {
                let ops = run.ops.iter().filter(|(of, ..)| *of == phase);
                ops.map(|&(_, planned, took)| if real { took } else { planned }).sum()
            };
            let (real, spread) = over(&|run| sum(run, true));
            let (name, time) = (phase.word().to_owned(), sum(&measured[0], false));
            rows.push(Row { class: "ops", name, predicted: time, measured: real, spread });
        }
        rows
    }

    /// Errors of steps, and of single ops by phase.
    fn errors(&self) -> Vec<(String, Errors)> {
        let Verdict::Ran { measured, .. } = &self.verdict else { return Vec::new() };
        let rows = self.rows();
        let steps = rows.iter().filter(|row| row.class == "step");
        let steps = grade(steps.map(|row| (row.predicted, row.measured)));
        let mut errors = vec![("steps".to_owned(), steps)];
        for phase in phases(measured) {
            let ops = measured.iter().flat_map(|run| &run.ops).filter(|(of, ..)| *of == phase);
            let graded = grade(ops.map(|&(_, planned, took)| (planned, took)));
            errors.push((format!("{} ops", phase.word()), graded));
        }
        errors
    }
}

fn phases(measured: &[Measured]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for &(phase, ..) in measured.iter().flat_map(|run| &run.ops) {
        if !phases.contains(&phase) {
            phases.push(phase);
        }
    }
    phases
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// For people.
pub(crate) fn table(scenario: &Scenario, machine: &str, results: &[CaseResult]) -> String {
    let mut text = format!(
        "{}: {}\npredicted for {} ({} numbers assumed), measured on the {machine}\n",
        scenario.name,
        scenario.about,
        scenario.hardware.name,
        scenario.hardware.assumed()
    );
    for result in results {
        let _ = writeln!(text, "\n{} ({})", result.label, result.policy);
        match &result.verdict {
            Verdict::DoesNotFit(why) => {
                let _ = writeln!(text, "  does not fit: {why}");
            }
            Verdict::Ran { measured, .. } => case_text(&mut text, result, measured, scenario),
        }
    }
    text
}

fn case_text(text: &mut String, result: &CaseResult, measured: &[Measured], scenario: &Scenario) {
    let first = &measured[0];
    let checks: u64 = measured.iter().map(|run| run.truth.checks).sum();
    let wrong: u64 = measured.iter().map(|run| run.truth.mismatches).sum();
    let agree = if result.failures().is_empty() { "agree" } else { "DO NOT AGREE" };
    let Decisions { ops, copies, .. } = first.decisions;
    let _ = writeln!(
        text,
        "  decisions, bytes per lane and contents {agree}: {} runs of {ops} ops and {copies} \
         copies, {wrong} of {checks} checks wrong",
        measured.len()
    );
    for row in result.rows() {
        let Row { class, name, predicted, measured, spread } = row;
        let _ = writeln!(
            text,
            "  {:<14} predicted {:>10.3} ms  measured {:>10.3} ms  error {:>8}  spread {:>7}",
            format!("{class} {name}"),
            predicted.as_ms(),
            measured.as_ms(),
            percent(error(predicted, measured)),
            percent(spread)
        );
    }
    for (what, Errors { count, median, p95, max }) in result.errors() {
        let [median, p95, max] = [median, p95, max].map(percent);
        let _ = writeln!(text, "  error of {count} {what}: median {median}, p95 {p95}, max {max}");
    }
    let _ = writeln!(
        text,
        "  per command {:.1} us to submit, {:.1} us (median) from ready to running",
        submit_us(measured),
        median(&launches(measured)).as_ms() * 1e3
    );
    for (tier, &(made, wished)) in scenario.hardware.tiers.iter().zip(&first.slots) {
        if wished < made {
            let _ = writeln!(
                text,
                "  note: {} of {made} rooms of {} are not locked memory or unbuffered files: the \
                 system did not allow it",
                made - wished,
                tier.name
            );
        }
    }
}

fn launches(measured: &[Measured]) -> Vec<Span> {
    measured.iter().flat_map(|run| run.launch.iter().copied()).collect()
}

fn submit_us(measured: &[Measured]) -> f64 {
    let commands: u64 = measured.iter().map(|run| run.submitted.0).sum();
    let spent: Span = measured.iter().map(|run| run.submitted.1).sum();
    spent.as_ms() * 1e3 / commands.max(1) as f64
}

/// For programs.
pub(crate) fn json(
    scenario: &Scenario,
    stamp: &str,
    machine: &str,
    results: &[CaseResult],
) -> Result<String, Failure> {
    let cases: Vec<Value> = results.iter().map(|result| case_json(result, scenario)).collect();
    let whole = json!({
        "schema": 1,
        "tiersim": env!("CARGO_PKG_VERSION"),
        "scenario": scenario.name,
        "fingerprint": stamp,
        "hardware": scenario.hardware.name,
        "assumed_numbers": scenario.hardware.assumed(),
        "machine": machine,
        "cases": cases,
    });
    pretty(&whole)
}

fn case_json(result: &CaseResult, scenario: &Scenario) -> Value {
    let Verdict::Ran { predicted, measured } = &result.verdict else {
        return json!({ "case": result.label, "policy": result.policy, "fits": false });
    };
    let rows = result.rows().into_iter().map(|row| {
        json!({
            "class": row.class, "name": row.name,
            "predicted_ms": row.predicted.as_ms(), "measured_ms": row.measured.as_ms(),
            "error": error(row.predicted, row.measured), "spread": row.spread,
        })
    });
    let errors = result.errors().into_iter().map(|(what, errors)| {
        let Errors { count, median, p95, max } = errors;
        json!({ "of": what, "count": count, "median": median, "p95": p95, "max": max })
    });
    let lanes = scenario.hardware.lanes().zip(&predicted.moved);
    let lanes: serde_json::Map<String, Value> = lanes
        .map(|(lane, bytes)| (scenario.hardware.lane_name(lane), json!(bytes.get())))
        .collect();
    let tiers = scenario.hardware.tiers.iter().zip(&measured[0].slots);
    let rooms: serde_json::Map<String, Value> = tiers
        .map(|(tier, (made, wished))| {
            (tier.name.clone(), json!({ "made": made, "locked_or_unbuffered": wished }))
        })
        .collect();
    let sum = |figure: fn(&Measured) -> u64| measured.iter().map(figure).sum::<u64>();
    json!({
        "case": result.label, "policy": result.policy, "fits": true,
        "agree": result.failures().is_empty(), "failures": result.failures(),
        "runs": measured.len(),
        "ops": predicted.decisions.ops, "copies": predicted.decisions.copies,
        "decisions": format!("{:016x}{:016x}", predicted.decisions.hash, predicted.decisions.frees),
        "moved_bytes": lanes,
        "checks": sum(|run| run.truth.checks), "mismatches": sum(|run| run.truth.mismatches),
        "submit_us_per_command": submit_us(measured),
        "launch_us_median": median(&launches(measured)).as_ms() * 1e3,
        "rooms": rooms,
        "errors": errors.collect::<Vec<_>>(), "times": rows.collect::<Vec<_>>(),
    })
}

/// One row per step and per class of ops.
pub(crate) fn csv(results: &[CaseResult]) -> String {
    let mut text = "case,policy,class,name,predicted_ms,measured_ms,error,spread\n".to_owned();
    for result in results {
        let label = format!("\"{}\"", result.label.replace('"', "\"\""));
        for Row { class, name, predicted, measured, spread } in result.rows() {
            let (p, m, e) = (predicted.as_ms(), measured.as_ms(), error(predicted, measured));
            let policy = &result.policy;
            let _ = writeln!(text, "{label},{policy},{class},{name},{p},{m},{e},{spread}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(change: impl Fn(&mut Measured)) -> CaseResult {
        let predicted = Measured { moved: vec![Bytes::new(8)], ..Measured::default() };
        let mut real = predicted.clone();
        change(&mut real);
        let verdict = Verdict::Ran { predicted: Box::new(predicted), measured: vec![real] };
        CaseResult { label: "case".to_owned(), policy: "lru".to_owned(), verdict }
    }

    #[test]
    fn other_decisions_or_bytes_fail_and_another_time_does_not() {
        assert_eq!(result(|_| {}).failures().len(), 0);
        assert_eq!(result(|run| run.decisions.hash += 1).failures().len(), 1);
        assert_eq!(result(|run| run.decisions.frees += 1).failures().len(), 1);
        assert_eq!(result(|run| run.moved[0] += Bytes::new(1)).failures().len(), 1);
        assert_eq!(result(|run| run.launch.push(Span::from_us(1))).failures().len(), 0);
    }
}
