//! `explain.json`: the contract with whoever reads explanations by machine; docs/howto/explain.md says
//! what each key means.
//!
//! Times named `_ms` are means per step of the explained replay, those named `_ps` sums over it.
//! Keys are only ever added; a change of meaning raises [`EXPLAIN_SCHEMA`].

use super::findings::sentences;
use crate::measure::Measure;
use crate::split::part_name;
use crate::{ChartError, pretty};
use serde_json::{Value, json};
use tiersim_models::results::PathPart;
use tiersim_models::results::explain::{
    Cause, CauseSum, Elasticity, Explanation, Hot, Lane, MemoryTry, Spender, Try,
};
use tiersim_models::units::Span;

/// Version of the meaning of the keys.
pub const EXPLAIN_SCHEMA: u32 = 1;

/// Objects and ops that are listed at most.
const MOST: usize = 200;

/// `explain.json` as text; `version` is tiersim's own.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn explain_json(of: &Explanation, version: &str) -> Result<String, ChartError> {
    let (record, path) = (&of.record, &of.path);
    let base = record.base();
    let parts: Value =
        path.parts().iter().map(|(part, span)| (part_name(of.on(), *part), span.ps())).collect();
    let causes = path.causes();
    pretty(&json!({
        "schema": EXPLAIN_SCHEMA,
        "tiersim": version,
        "scenario": record.scenario,
        "fingerprint": record.fingerprint,
        "hardware": base.hardware,
        "workload": base.workload,
        "seed": base.seed,
        "case": of.case().label,
        "policy": of.case().policy,
        "steps": path.steps,
        "total_ps": path.span.ps(),
        "step_ms": path.mean_ms(path.span),
        "left_over_ps": path.left_over.ps(),
        "parts_ps": parts,
        "by_phase": by_phase(of),
        "causes": causes.iter().map(|found| cause(of, found)).collect::<Vec<_>>(),
        "channels": path.lanes.iter().filter_map(|one| lane(of, one)).collect::<Vec<_>>(),
        "objects": objects(of),
        "ops": ops(of),
        "gap": gap(of),
        "change": of.change,
        "answers_of": Measure::ranking(&of.record).words(),
        "elasticities": of.elasticities.iter().map(|one| elasticity(of, one)).collect::<Vec<_>>(),
        "not_changed": of.unchanged.iter()
            .map(|(path, why)| json!({ "path": path, "why": why })).collect::<Vec<_>>(),
        "tries": of.tries.iter().map(|one| tried(of, one)).collect::<Vec<_>>(),
        "more_hbm": of.memory.iter().map(memory).collect::<Vec<_>>(),
        "findings": sentences(of),
    }))
}

/// Time by phase, and in each by part.
fn by_phase(of: &Explanation) -> Value {
    let grouped = of.path.grouped(of.path.sums.iter().map(|sum| (sum.phase, sum)));
    let parts = |phase| -> Value {
        let own = of.path.sums.iter().filter(|sum| sum.phase == phase);
        let own = of.path.grouped(own.map(|sum| (part_name(of.on(), sum.part), sum)));
        own.into_iter().map(|(name, hot)| (name, hot.span.ps())).collect()
    };
    let told = grouped.iter().map(|(phase, hot)| {
        let value = json!({ "ms": of.path.mean_ms(hot.span), "parts_ps": parts(*phase) });
        (phase.word().to_owned(), value)
    });
    told.collect()
}

/// What a cause is called.
pub(super) fn cause_name(of: &Explanation, cause: Cause) -> String {
    match cause {
        Cause::Compute => "compute".to_owned(),
        Cause::Recompute => "recompute".to_owned(),
        Cause::Cpu => "cpu".to_owned(),
        Cause::Launch => "launch".to_owned(),
        Cause::Collective => "collectives".to_owned(),
        Cause::Channel(channel) => format!("channel.{}", of.on().channel_names()[channel]),
        Cause::InPlace(tier) => part_name(of.on(), PathPart::InPlace(tier)),
        Cause::Allocator => "allocator".to_owned(),
        Cause::Delay => "delay".to_owned(),
        Cause::Bubble => "bubble".to_owned(),
        Cause::Arrival => "arrival".to_owned(),
        Cause::Framework => "runtime".to_owned(),
    }
}

fn cause(of: &Explanation, found: &CauseSum) -> Value {
    let ms = |span: Span| of.path.mean_ms(span);
    let phases: Value =
        found.phases.iter().map(|(phase, span)| (phase.word().to_owned(), ms(*span))).collect();
    json!({
        "cause": cause_name(of, found.cause),
        "ms": ms(found.span),
        "share": of.path.share(found.span),
        "setup_ms": ms(found.setup),
        "queued_ms": ms(found.queued),
        "bytes": per_step(of, found.bytes),
        "count": found.count as f64 / of.path.steps.max(1) as f64,
        "phase_ms": phases,
        "hottest": found.hottest.iter().take(8).map(|one| hot(of, one)).collect::<Vec<_>>(),
    })
}

fn per_step(of: &Explanation, sum: u128) -> Value {
    let steps = u128::from(of.path.steps.max(1));
    json!(u64::try_from((sum + steps / 2) / steps).unwrap_or(u64::MAX))
}

fn hot(of: &Explanation, found: &Hot) -> Value {
    json!({
        "name": found.name,
        "ms": of.path.mean_ms(found.span),
        "bytes": per_step(of, found.bytes),
        "count": found.count as f64 / of.path.steps.max(1) as f64,
    })
}

fn lane(of: &Explanation, lane: &Lane) -> Option<Value> {
    let names = of.on().channel_names();
    let ms = |span: Span| of.path.mean_ms(span);
    Some(json!({
        "channel": names.get(lane.channel)?,
        "phase": lane.phase.word(),
        "busy_ms": ms(lane.busy),
        "exposed_ms": ms(lane.exposed),
        "queued_ms": ms(lane.queued),
        "overlapped_ms": ms(lane.overlapped),
    }))
}

/// Objects by the time that the step waited for them, on each channel or tier.
fn objects(of: &Explanation) -> Vec<Value> {
    let path = &of.path;
    let own = path.sums.iter().filter_map(|sum| match sum.by {
        Spender::Object(object) => Some(((part_name(of.on(), sum.part), object), sum)),
        _ => None,
    });
    let grouped = path.grouped(own).into_iter().take(MOST);
    let told = grouped.map(|((part, object), found)| {
        let object = &path.objects[object];
        json!({
            "object": object.name,
            "kind": object.kind.word(),
            "module": object.module,
            "part": part,
            "ms": path.mean_ms(found.span),
            "bytes": per_step(of, found.bytes),
            "count": found.count as f64 / path.steps.max(1) as f64,
        })
    });
    told.collect()
}

/// Ops of one name, by the time that they have on the path.
fn ops(of: &Explanation) -> Vec<Value> {
    let path = &of.path;
    let own = path.sums.iter().filter_map(|sum| match sum.by {
        Spender::Op(op) => {
            let name = path.ops[op].name.clone();
            Some(((name, part_name(of.on(), sum.part)), sum))
        }
        _ => None,
    });
    let told = path.grouped(own).into_iter().take(MOST).map(|((name, part), found)| {
        json!({
            "op": name,
            "part": part,
            "ms": path.mean_ms(found.span),
            "count": found.count as f64 / path.steps.max(1) as f64,
        })
    });
    told.collect()
}

fn gap(of: &Explanation) -> Value {
    let steps = of.path.steps.max(1) as f64;
    let ms = |ps: i128| ps as f64 / 1e9 / steps;
    let others: Value = (of.gap.others.iter())
        .map(|(part, span)| (part_name(of.on(), *part), of.path.mean_ms(*span)))
        .collect();
    let paying: Vec<String> = (of.gap.paying.iter())
        .filter(|part| of.path.of(**part) > Span::ZERO)
        .map(|part| part_name(of.on(), *part))
        .collect();
    json!({
        "bound_ms": of.path.mean_ms(of.gap.bound),
        "bound_by": of.gap.by,
        "gap_ms": ms(of.gap.total()),
        "paid_by": paying,
        "beyond_bound_ms": ms(of.gap.beyond),
        "others_ms": others,
        "worths": of.gap.worths.iter()
            .map(|(of, elasticity)| json!({ "of": of, "elasticity": elasticity }))
            .collect::<Vec<_>>(),
    })
}

fn elasticity(of: &Explanation, found: &Elasticity) -> Value {
    json!({
        "path": found.path,
        "value": found.value,
        "tried": found.tried,
        "change": found.change,
        "step_ms": found.steps.map(|step| step.as_ms()),
        "elasticity": found.of(of.judged()),
    })
}

fn tried(of: &Explanation, tried: &Try) -> Value {
    json!({
        "path": tried.path,
        "value": tried.value,
        "tried": tried.tried,
        "factor": tried.factor,
        "step_ms": tried.step.as_ms(),
        "from_step_ms": of.judged().as_ms(),
    })
}

fn memory(tried: &MemoryTry) -> Value {
    json!({ "hbm_bytes": tried.hbm.get(), "step_ms": tried.step.map(|step| step.as_ms()) })
}
