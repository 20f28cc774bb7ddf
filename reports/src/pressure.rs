//! Memory pressure in results: `pressure` of a case in `summary.json`, its lines in the table, its
//! events and steps on the timeline.

use crate::trace_events::{Process, STEPS};
use crate::words::{clean, count};
use serde_json::{Value, json};
use tiersim_models::results::pressure::{Level, PressureEvent, What};
use tiersim_models::results::{CaseRecord, PressureRecord, RunRecord};
use tiersim_models::units::Bytes;

/// The thread of events on a timeline, beside that of steps.
const EVENTS: usize = STEPS + 1;

/// What happened under memory pressure; nothing where no tier was watched.
pub(crate) fn summary(record: &RunRecord, case: &CaseRecord) -> Option<Value> {
    let pressure = case.pressure.as_ref()?;
    let log = &pressure.log;
    Some(json!({
        "tier": record.of(case).tier_name(pressure.tier),
        "highest": log.highest.word(),
        "rises": log.rises,
        "warnings": log.warnings,
        "cleans": log.cleans,
        "cleaned_bytes": log.cleaned.get(),
        "evictions": log.evictions,
        "evicted_bytes": log.evicted.get(),
        "forced": log.forced,
        "shrinks": log.shrinks,
        "restores": log.restores,
        "smallest_micro_batch": pressure.smallest_micro_batch(),
        "largest_micro_batch": pressure.largest_micro_batch(),
    }))
}

/// A sentence about a case in which something happened.
pub(crate) fn words(record: &RunRecord, case: &CaseRecord) -> Option<String> {
    let pressure = case.pressure.as_ref()?;
    let log = &pressure.log;
    if log.highest == Level::Normal && log.forced == 0 {
        return None;
    }
    let tier = clean(record.of(case).tier_name(pressure.tier));
    let mut parts = vec![format!("{tier} up to {}", log.highest.word())];
    let mut say = |number: u64, one: &str, more: &str, bytes: Option<Bytes>| {
        if number > 0 {
            let number = count(number as usize, one, more);
            parts.push(bytes.map_or(number.clone(), |bytes| format!("{number} ({bytes})")));
        }
    };
    say(log.warnings, "warning", "warnings", None);
    say(log.cleans, "clean", "cleans", Some(log.cleaned));
    say(log.evictions, "object evicted", "objects evicted", Some(log.evicted));
    say(log.forced, "claim that did not fit at first", "claims that did not fit at first", None);
    let (least, most) = (pressure.smallest_micro_batch(), pressure.largest_micro_batch());
    if let (Some(least), Some(most)) = (least, most)
        && least != most
    {
        let (shrinks, restores) = (log.shrinks, log.restores);
        parts.push(format!(
            "micro-batch {least} to {most} (smaller {shrinks}x, larger {restores}x)"
        ));
    }
    Some(parts.join(", "))
}

/// Slices for the steps of the run, and instant events for what happened.
pub(crate) fn events(process: &mut Process, pressure: &PressureRecord, record: &RunRecord) {
    if pressure.steps.is_empty() {
        return;
    }
    let tier = record.base().tier_name(pressure.tier);
    process.name_thread(STEPS, "steps");
    process.name_thread(EVENTS, &format!("pressure of {tier}"));
    for (step, (start, span)) in pressure.steps.iter().enumerate() {
        let mut args = json!({ "step": step });
        if let Some(batch) = pressure.log.micro_batches.get(step) {
            args["micro_batch"] = json!(batch);
        }
        process.step(step as u64, (start.ps(), span.ps()), &args);
    }
    for (event, at) in pressure.timed() {
        let args = args(event, tier, pressure.capacity);
        let what = (&*name(event), "pressure", "\"ph\":\"i\",\"s\":\"p\"");
        process.event(EVENTS, what, at.ps(), &args);
    }
}

fn args(event: &PressureEvent, tier: &str, capacity: Bytes) -> Value {
    let mut args = json!({
        "tier": tier,
        "op": event.occurrence,
        "step": event.step,
        "from": event.from.word(),
        "to": event.to.word(),
        "reserved_bytes": event.used.get(),
        "capacity_bytes": capacity.get(),
    });
    if event.what != What::Level {
        args["action"] = json!(event.what.word());
    }
    if event.bytes > Bytes::ZERO {
        args["bytes"] = json!(event.bytes.get());
    }
    if let Some((from, to)) = event.batch {
        args["micro_batch_from"] = json!(from);
        args["micro_batch_to"] = json!(to);
    }
    args
}

fn name(event: &PressureEvent) -> String {
    match (event.what, event.batch) {
        (What::Level, _) => event.to.word().to_owned(),
        (what, Some((from, to))) => format!("{} {from} -> {to}", what.word()),
        (what, None) => what.word().to_owned(),
    }
}
