//! What is said of a long run that was simulated in part, in words and in the summary.
//!
//! Invariant: an interval is never shown without what it rests on: replays, batches, and what was
//! seen of memory, which is not extended.

use crate::words::count;
use serde_json::{Value, json};
use tiersim_models::results::CaseRecord;
use tiersim_models::results::long_run::{CONFIDENCE, Extended, LongRun, Seen};
use tiersim_models::units::Span;

const PS_PER_MS: f64 = 1e9;
const PS_PER_HOUR: f64 = 3.6e15;

/// As the summary has it.
pub(crate) fn summary(run: &LongRun) -> Value {
    let answer = run.answer.as_ref().ok();
    let of = |figure: &dyn Fn(&Extended) -> Value| answer.map_or(Value::Null, figure);
    let seen = |seen: &Seen| {
        json!({
            "what": seen.what, "most": seen.most, "growth": seen.growth, "chance": seen.chance,
            "drifts": seen.drifts(),
        })
    };
    json!({
        "steps": run.steps,
        "simulated_steps": run.simulated,
        "extended_steps": run.extended(),
        "mean_step_ms": of(&|of| json!(of.mean / PS_PER_MS)),
        "half_width_ms": of(&|of| json!(of.half_width / PS_PER_MS)),
        "half_width_share": of(&|of| json!(of.share())),
        "hours": of(&|of| json!(of.mean * run.steps as f64 / PS_PER_HOUR)),
        "half_width_hours": of(&|of| json!(of.half_width * run.steps as f64 / PS_PER_HOUR)),
        "confidence": of(&|_| json!(CONFIDENCE)),
        "batches": of(&|of| json!(of.batches.0)),
        "replays_per_batch": of(&|of| json!(of.batches.1)),
        "correlation": of(&|of| json!(of.correlation)),
        "refused": run.answer.as_ref().err().map(ToString::to_string),
        "seen": run.seen.iter().map(seen).collect::<Vec<_>>(),
    })
}

/// What a table says of a case that is the beginning of a long run; nothing of others.
pub(crate) fn words(case: &CaseRecord) -> Option<String> {
    let run = case.long_run.as_ref()?;
    let steps = count(run.steps as usize, "step", "steps");
    let simulated = run.simulated;
    let of = match &run.answer {
        Err(why) => {
            return Some(format!("{steps}, {simulated} of them simulated: not extended: {why}"));
        }
        Ok(of) => of,
    };
    let span = |ps: f64| Span::from_ps(ps.round() as u64);
    let hours = |ps: f64| ps * run.steps as f64 / PS_PER_HOUR;
    let grows: Vec<&str> = run.seen.iter().filter(|s| s.growth > 0.0).map(|s| &*s.what).collect();
    let memory = match grows[..] {
        [] => "memory did not grow while it was watched".to_owned(),
        _ => format!("highest at the end, though by chance: {}", grows.join(", ")),
    };
    Some(format!(
        "{steps}, {simulated} of them simulated: mean step {} +- {} ({:.2} %), all of it {:.2} +- \
         {:.2} h, {:.0} % confidence from {} batches; {memory}",
        span(of.mean),
        span(of.half_width),
        100.0 * of.share(),
        hours(of.mean),
        hours(of.half_width),
        100.0 * CONFIDENCE,
        of.batches.0,
    ))
}
