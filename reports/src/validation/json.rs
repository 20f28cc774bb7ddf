//! `validation.json`, described in docs/howto/validation.md. Keys are only ever added.

use super::Validation;
use crate::sources;
use serde_json::{Map, Value, json};
use tiersim_models::results::comparison::{
    CaseResult, Compared, Graded, InPlace, Measured, Ran, Row, launch_us, overall, overall_spread,
    submit_us,
};

/// The document of one or several scenarios.
pub(super) fn json(of: Validation) -> Value {
    let compared = of.compared;
    let only = match compared {
        [only] => Some(only),
        _ => None,
    };
    let cases = compared.iter().flat_map(|one| one.results.iter().map(|result| case(result, one)));
    json!({
        "schema": 1,
        "tiersim": of.version,
        "scenario": only.map(|one| &one.scenario),
        "fingerprint": only.map(|one| &one.fingerprint),
        "hardware": only.map(|one| &one.hardware.name),
        "assumed_numbers": only.map(|one| one.hardware.assumed()),
        "machine": of.machine,
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
    let Compared { scenario, about, fingerprint, seed, hardware, .. } = one;
    let counts = sources::counts(hardware, &sources::BEST_FIRST).into_iter();
    let facts = hardware.facts.iter().map(|fact| {
        let (source, text) = (fact.source.confidence().word(), fact.source.text());
        json!({ "path": fact.path, "value": fact.value, "source": source, "text": text })
    });
    json!({
        "scenario": scenario,
        "about": about,
        "fingerprint": fingerprint,
        "seed": seed,
        "hardware": hardware.name,
        "numbers": counts.map(|(n, word)| (word.to_owned(), json!(n))).collect::<Map<_, _>>(),
        "facts": facts.collect::<Vec<_>>(),
    })
}

fn case(result: &CaseResult, of: &Compared) -> Value {
    let Some(ran) = result.ran() else {
        return json!({
            "case": result.label, "policy": result.policy, "fits": false, "scenario": of.scenario,
        });
    };
    let Ran { predicted, measured, real, .. } = ran;
    let channels = &of.channels();
    let moved: Map<String, Value> =
        channels.iter().zip(&predicted.moved).map(|(n, b)| (n.clone(), json!(b.get()))).collect();
    let tiers = of.hardware.tiers.iter().zip(&measured[0].slots);
    let rooms: Map<String, Value> = tiers
        .map(|(tier, (made, wished))| {
            (tier.name.clone(), json!({ "made": made, "locked_or_unbuffered": wished }))
        })
        .collect();
    let peaks = of.hardware.tiers.iter().zip(ran.peaks());
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
        "checks": sum(measured, |run| run.checks),
        "mismatches": sum(measured, |run| run.mismatches),
        "submit_us_per_command": submit_us(measured),
        "launch_us_median": launch_us(measured),
        "rooms": rooms,
        "errors": graded(ran, ran.mode(), channels), "times": times(ran, ran.mode(), channels),
        "scenario": of.scenario,
        "in_place": ran.mode().word(),
        "charged_ms": ran.charged.as_ms(),
        "real": (!real.is_empty()).then(|| json!({
            "runs": real.len(),
            "checks": sum(real, |run| run.checks),
            "mismatches": sum(real, |run| run.mismatches),
            "errors": graded(ran, InPlace::Real, channels),
            "times": times(ran, InPlace::Real, channels),
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

fn graded(ran: &Ran, mode: InPlace, channels: &[String]) -> Vec<Value> {
    ran.errors(mode, channels).into_iter().map(errors).collect()
}

fn times(ran: &Ran, mode: InPlace, channels: &[String]) -> Vec<Value> {
    let rows = ran.rows(mode, channels).into_iter();
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
