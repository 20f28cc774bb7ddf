//! `validation.json`, described in docs/validation.md. Keys are only ever added.

use crate::validate::grade::{
    CaseResult, Compared, Graded, InPlace, Measured, Ran, Row, launch_us, overall, overall_spread,
    submit_us,
};
use crate::validate::spec;
use serde_json::{Map, Value, json};
use tiersim_models::hardware::Hardware;
use tiersim_policies::scenario::Scenario;
use tiersim_validation::real::Kind;

/// The document of one or several scenarios.
pub(crate) fn json(compared: &[Compared], kind: Kind) -> Value {
    let only = match compared {
        [only] => Some(only),
        _ => None,
    };
    let cases = compared
        .iter()
        .flat_map(|one| one.results.iter().map(|result| case(result, &one.scenario, &one.lanes())));
    json!({
        "schema": 1,
        "tiersim": env!("CARGO_PKG_VERSION"),
        "scenario": only.map(|one| &one.scenario.name),
        "fingerprint": only.map(|one| &one.stamp),
        "hardware": only.map(|one| &one.scenario.hardware.name),
        "assumed_numbers": only.map(|one| one.scenario.hardware.assumed()),
        "machine": kind.word(),
        "cases": cases.collect::<Vec<_>>(),
        "agree": compared.iter().flat_map(|one| &one.results).all(|r| r.failures().is_empty()),
        "overall": overall(compared).into_iter().map(errors).collect::<Vec<_>>(),
        "step_spread": overall_spread(compared).map(|(median, max)| {
            json!({ "median": median, "max": max })
        }),
        "held_out": true,
        "scenarios": compared.iter().map(scenario).collect::<Vec<_>>(),
    })
}

fn scenario(one: &Compared) -> Value {
    let Compared { scenario, stamp, .. } = one;
    json!({
        "scenario": scenario.name,
        "about": scenario.about,
        "fingerprint": stamp,
        "seed": scenario.seed,
        "hardware": scenario.hardware.name,
        "numbers": numbers(&scenario.hardware),
        "facts": scenario.hardware.facts.iter().map(|fact| {
            let (source, text) = spec::source(fact);
            json!({ "path": fact.path, "value": fact.value, "source": source, "text": text })
        }).collect::<Vec<_>>(),
    })
}

fn numbers(hardware: &Hardware) -> Map<String, Value> {
    let counts = spec::SOURCES.iter().zip(spec::counts(hardware));
    counts.map(|(word, count)| ((*word).to_owned(), json!(count))).collect()
}

fn case(result: &CaseResult, scenario: &Scenario, lanes: &[String]) -> Value {
    let Some(ran) = result.ran() else {
        return json!({
            "case": result.label, "policy": result.policy, "fits": false, "scenario": scenario.name,
        });
    };
    let Ran { predicted, measured, real, .. } = ran;
    let moved: Map<String, Value> =
        lanes.iter().zip(&predicted.moved).map(|(n, b)| (n.clone(), json!(b.get()))).collect();
    let tiers = scenario.hardware.tiers.iter().zip(&measured[0].slots);
    let rooms: Map<String, Value> = tiers
        .map(|(tier, (made, wished))| {
            (tier.name.clone(), json!({ "made": made, "locked_or_unbuffered": wished }))
        })
        .collect();
    let peaks = scenario.hardware.tiers.iter().zip(ran.peaks());
    let peaks: Map<String, Value> = peaks
        .map(|(tier, (predicted, measured))| {
            let measured = measured.map(|bytes| bytes.get());
            (tier.name.clone(), json!({ "predicted": predicted.get(), "measured": measured }))
        })
        .collect();
    json!({
        "case": result.label, "policy": result.policy, "fits": true,
        "agree": result.failures().is_empty(), "failures": result.failures(),
        "runs": measured.len(),
        "ops": predicted.decisions.ops, "copies": predicted.decisions.copies,
        "decisions": format!("{:016x}{:016x}", predicted.decisions.hash, predicted.decisions.frees),
        "moved_bytes": moved,
        "checks": sum(measured, |run| run.truth.checks),
        "mismatches": sum(measured, |run| run.truth.mismatches),
        "submit_us_per_command": submit_us(measured),
        "launch_us_median": launch_us(measured),
        "rooms": rooms,
        "errors": graded(ran, ran.mode(), lanes), "times": times(ran, ran.mode(), lanes),
        "scenario": scenario.name,
        "in_place": ran.mode().word(),
        "charged_ms": ran.charged.as_ms(),
        "real": (!real.is_empty()).then(|| json!({
            "runs": real.len(),
            "checks": sum(real, |run| run.truth.checks),
            "mismatches": sum(real, |run| run.truth.mismatches),
            "errors": graded(ran, InPlace::Real, lanes),
            "times": times(ran, InPlace::Real, lanes),
        })),
        "peak_bytes": peaks,
        "device_memory": ran.device().map(|memory| json!({
            "peak_bytes": memory.peak.get(), "rooms_bytes": memory.rooms.get(),
        })),
    })
}

fn sum(runs: &[Measured], figure: impl Fn(&Measured) -> u64) -> u64 {
    runs.iter().map(figure).sum()
}

fn errors((of, errors): Graded) -> Value {
    json!({
        "of": of, "count": errors.count,
        "median": errors.median, "p95": errors.p95, "max": errors.max,
    })
}

fn graded(ran: &Ran, mode: InPlace, lanes: &[String]) -> Vec<Value> {
    ran.errors(mode, lanes).into_iter().map(errors).collect()
}

fn times(ran: &Ran, mode: InPlace, lanes: &[String]) -> Vec<Value> {
    let rows = ran.rows(mode, lanes).into_iter();
    rows.map(|row| {
        let error = row.error();
        let Row { class, name, predicted, measured, spread } = row;
        json!({
            "class": class, "name": name,
            "predicted_ms": predicted.as_ms(), "measured_ms": measured.as_ms(),
            "error": error, "spread": spread,
        })
    })
    .collect()
}
