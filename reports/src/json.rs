//! `summary.json`: the contract with whoever reads results by machine; docs/reference/summary.md says what
//! each key means.
//!
//! Keys are only ever added; a change of meaning raises [`SCHEMA`]. Sums over the run
//! (`moved_bytes`, `stall_ms`, `in_place_ms`, `compute_ms`, `delay_ms`, `allocator_ms`) are **means
//! per measured step**, so that they can be compared with `step_ms` and do not depend on how often
//! the trace was replayed; bytes are rounded to whole ones. What a case does not have is `null`,
//! never a made-up 0: every figure of a case that ran out of memory, and a sum of which a number is
//! missing in the spec.
//! Invariant: no NaN and no infinity is ever written: serde_json writes `null` in their place.

use crate::contest::{self, ranks};
use crate::csv::busiest;
use crate::hidden::hidden_bytes;
use crate::measure::Measure;
use crate::places::links;
use crate::verdict::verdict;
use crate::words::oom_reason;
use crate::workers::{Alone, Workers};
use crate::{
    ChartError, economics_summary, hints, long_run, memory_summary, packed, pressure, replications,
    served, split, steady, uncertainty,
};
use serde::ser::{Error, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Write;
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::Capacity;
use tiersim_models::results::{
    AxisValue, CaseRecord, Conditions, Figures, OutOfMemory, Outcome, RunRecord,
};
use tiersim_models::runtime::Runtime;
use tiersim_models::units::{Bytes, Span};

/// Version of the meaning of the keys.
pub const SCHEMA: u32 = 1;

/// `summary.json` as text; `version` is tiersim's own.
pub fn summary_json(record: &RunRecord, version: &str) -> Result<String, ChartError> {
    let mut text = Vec::new();
    write_summary(record, version, &mut text, &Alone)?;
    Ok(String::from_utf8(text).expect("JSON is UTF-8"))
}

/// Writes `summary.json`, some cases at a time.
pub(crate) fn write_summary(
    record: &RunRecord,
    version: &str,
    to: &mut dyn Write,
    workers: &impl Workers,
) -> Result<(), ChartError> {
    let base = record.base();
    // The head says what the scenario has as the file has it; cases of a sweep say their own.
    let mut all = json!({
        "schema": SCHEMA,
        "tiersim": version,
        "scenario": record.scenario,
        "fingerprint": record.fingerprint,
        "hardware": base.hardware,
        "workload": base.workload,
        "seed": base.seed,
        "assumed_numbers": base.assumed_numbers,
        RESULTS: Value::Null,
        "about": record.about,
        "op_time": base.op_time,
        "tokens_per_step": base.tokens_per_step,
        "devices": base.devices,
        SKIPPED: Value::Null,
        "warnings": record.warnings.iter().map(warning).collect::<Vec<_>>(),
        "power_and_price": record.power_and_price.iter().map(economics_summary::number)
            .collect::<Vec<_>>(),
        "assumed": record.assumed.iter().map(economics_summary::number).collect::<Vec<_>>(),
        "verdict": verdict(record).into_iter()
            .map(|(word, text)| json!({ "word": word, "text": text }))
            .collect::<Vec<_>>(),
        "ranked_by": Measure::ranking(record).words(),
    });
    if record.machines.len() > 1 {
        all["machines"] = record.machines.iter().map(economics_summary::machine).collect();
    }
    if let Some(section) = uncertainty::summary(record) {
        all["uncertainty"] = section;
    }
    if let Some(section) = replications::summary(record) {
        all["replications"] = section;
    }
    serde_json::to_writer_pretty(&mut *to, &Summary { all: &all, record, workers })?;
    Ok(to.write_all(b"\n")?)
}

/// The key of the cases.
const RESULTS: &str = "results";
/// The key of the points that do not resolve.
const SKIPPED: &str = "skipped";

/// A summary whose cases and skipped points are made as they are written: those of a long sweep
/// together are many times its text.
struct Summary<'a, W> {
    all: &'a Value,
    record: &'a RunRecord,
    workers: &'a W,
}

impl<W: Workers> Serialize for Summary<'_, W> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let all = self.all.as_object().expect("a summary has keys");
        let mut map = to.serialize_map(Some(all.len()))?;
        for (key, value) in all {
            match key.as_str() {
                RESULTS => map.serialize_entry(RESULTS, &Cases(self.record, self.workers))?,
                SKIPPED => map.serialize_entry(SKIPPED, &Skipped(self.record))?,
                key => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct Cases<'a, W>(&'a RunRecord, &'a W);

/// Cases whose text is in memory at a time: enough to keep some tens of threads busy.
const AT_ONCE: usize = 512;

impl<W: Workers> Serialize for Cases<'_, W> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Cases(record, workers) = *self;
        let (framework, ranks) = (split::framework(record), ranks(record));
        let text = |at: usize| {
            let value = case(record, &record.results[at], (ranks[at], framework));
            in_list_of_map(&value)
        };
        let mut list = to.serialize_seq(Some(record.results.len()))?;
        for from in (0..record.results.len()).step_by(AT_ONCE) {
            let there = AT_ONCE.min(record.results.len() - from);
            for text in workers.each(there, |at| text(from + at)) {
                list.serialize_element(&text.map_err(S::Error::custom)?)?;
            }
        }
        list.end()
    }
}

/// The text of a value as it stands, in lines, in a list that is in a map.
fn in_list_of_map(value: &Value) -> serde_json::Result<Box<RawValue>> {
    const AROUND: [&str; 2] = ["[\n  [\n    ", "\n  ]\n]"];
    let text = serde_json::to_string_pretty(&[[value]])?;
    let own = text.strip_prefix(AROUND[0]).and_then(|text| text.strip_suffix(AROUND[1]));
    RawValue::from_string(own.expect("each list and value begins a line").to_owned())
}

struct Skipped<'a>(&'a RunRecord);

impl Serialize for Skipped<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let skipped = self.0.skipped.iter();
        to.collect_seq(
            skipped.map(|(point, reason)| json!({ "params": params(point), "reason": reason })),
        )
    }
}

/// A case, its place in the contest, and whether a framework adds to some case of the record.
fn case(record: &RunRecord, case: &CaseRecord, (rank, framework): (Option<usize>, bool)) -> Value {
    let (ran, on) = (case.outcome.figures(), record.of(case));
    let of = |figure: &dyn Fn(&Figures) -> Value| ran.map_or(Value::Null, figure);
    let by_tier = |figure: &dyn Fn(&Figures, usize) -> Value| {
        let tiers = on.tiers.iter().enumerate();
        of(&|f| tiers.clone().map(|(index, (tier, _))| (tier.as_str(), figure(f, index))).collect())
    };
    let channels = on.channel_names();
    let by_channel = |figure: &dyn Fn(&Figures, usize) -> Value| {
        let channels = channels.iter().enumerate();
        of(&|f| {
            channels.clone().map(|(index, channel)| (channel.as_str(), figure(f, index))).collect()
        })
    };
    let busy = |f: &Figures| {
        let busy = |link: String| {
            let fraction = json!(busiest(f, &on.channels_of(&link)));
            (link, fraction)
        };
        links(on).into_iter().map(busy).collect()
    };
    let reason = match &case.outcome {
        Outcome::Done(_) => Value::Null,
        Outcome::OutOfMemory(oom) => oom_summary(oom),
    };
    let cost = &case.economics;
    let hidden = hidden_bytes(record, case);
    let serving = ran.and_then(|f| f.serving.as_deref());
    let all = [
        ("policy", json!(case.policy)),
        ("params", params(&case.params)),
        ("step_ms", of(&step_ms)),
        ("throughput", of(&|f| throughput(f, on))),
        ("baseline_step_ms", json!(case.baseline_step.as_ms())),
        ("slowdown", of(&|f| json!(f.slowdown(case.baseline_step)))),
        ("bound_step_ms", json!(case.bound_step.as_ms())),
        ("bound_by", json!(case.bound_by)),
        ("peak_bytes", by_tier(&|f, tier| json!(f.peak[tier].get()))),
        ("moved_bytes", by_channel(&|f, channel| json!(f.moved_per_step(channel).get()))),
        ("transfers", ran.map_or_else(|| json!([]), |f| transfers(&channels, f))),
        ("stall_ms", by_channel(&|f, channel| step_share(f.stall[channel], f))),
        ("busy_fraction", of(&busy)),
        ("hit_ratio", of(&|f| json!(f.hit_ratio()))),
        ("oom", json!(ran.is_none())),
        ("energy_j", json!(cost.joules())),
        ("cost_usd", json!(cost.dollars())),
        ("events", of(&|f| json!(f.events))),
        ("extended_steps", of(&|_| json!(case.left_out))),
        ("long_run", json!(case.long_run.as_deref().map(long_run::summary))),
        ("label", json!(case.label)),
        ("details", json!(case.details)),
        ("emulated", json!(case.emulated)),
        ("hbm_budget_bytes", limited(case.hbm_budget)),
        ("sight", json!(contest::lookahead_word(case.lookahead))),
        ("learned", json!(case.learned)),
        ("rank", json!(rank)),
        ("gap_to_bound", json!(case.gap_to_bound())),
        ("in_place_ms", by_tier(&|f, tier| step_share(f.in_place[tier], f))),
        ("compute_ms", of(&|f| step_share(f.compute, f))),
        ("delay_ms", of(&|f| step_share(f.delay, f))),
        ("allocator_ms", of(&|f| step_share(f.allocating, f))),
        ("oom_reason", reason),
        ("allocators", of(&|f| memory_summary::allocators(on, f))),
        ("energy", json!(cost.energy.as_ref().map(economics_summary::energy))),
        ("cost", economics_summary::cost(cost)),
        ("hidden_bytes", if hidden.is_empty() { Value::Null } else { hidden.into() }),
        ("pressure", json!(pressure::summary(record, case))),
        ("throughput_change_percent", of(&|f| json!(f.throughput_change(case.baseline_step)))),
        ("hints", json!(case.hints.as_deref().map(hints::summary))),
        ("serving", json!(serving.map(|figures| served::summary(on, figures)))),
        ("steady", of(&|f| steady::summary(on, f))),
        ("split_ms", of(&|f| split::mean_ms(on, framework, f))),
        ("split", of(&|f| split::summary(on, framework, f))),
        ("statistics", json!(case.statistics)),
        ("hardware", json!(on.hardware)),
        ("workload", json!(on.workload)),
        ("op_time", json!(on.op_time)),
        ("seed", json!(on.seed)),
        ("assumed_numbers", json!(on.assumed_numbers)),
        ("tokens_per_step", json!(on.tokens_per_step)),
        ("devices", json!(on.devices)),
        ("runtime", runtime(&case.runtime)),
        ("packed", packed::summary(record, case)),
    ];
    // Where everything is exact, nothing hidden or watched and nobody served, they are not there.
    let optional =
        ["allocators", "hidden_bytes", "pressure", "hints", "serving", "packed", "long_run"];
    let there = all.into_iter().filter(|(key, value)| !(value.is_null() && optional.contains(key)));
    there.collect()
}

/// What a framework adds; in a word where nothing does.
pub(crate) fn runtime(runtime: &Runtime) -> Value {
    if runtime.is_none() {
        return json!("none");
    }
    let Runtime { per_op, per_object, passes, blocking, blocking_out, ahead, pageable, source } =
        runtime;
    json!({
        "per_op_us": per_op.ps() as f64 / 1e6,
        "per_object_us": per_object.ps() as f64 / 1e6,
        "passes": passes,
        "blocking": blocking,
        "blocking_out": blocking_out,
        "ahead": ahead,
        "copies": if *pageable { "pageable" } else { "pinned" },
        "source": source,
    })
}

/// Length of a measured step.
fn step_ms(figures: &Figures) -> Value {
    let [p50, p95, p99] = [50, 95, 99].map(|percent| figures.step_ms_percentile(percent));
    json!({ "mean": figures.mean_step().as_ms(), "p50": p50, "p95": p95, "p99": p99 })
}

/// Work per time at the mean step.
fn throughput(figures: &Figures, on: &Conditions) -> Value {
    json!({ "value": figures.tokens_per_s(on.tokens_per_step), "unit": on.rate() })
}

fn warning(warning: &Warning) -> Value {
    json!({
        "rule": warning.rule,
        "place": warning.place,
        "found": warning.found,
        "reason": warning.reason,
        "remedy": warning.remedy,
    })
}

/// The allocation that failed.
fn oom_summary(oom: &OutOfMemory) -> Value {
    let mut summary = json!({
        "text": oom_reason(oom),
        "tier": oom.tier,
        "capacity_bytes": limited(oom.capacity),
        "need_bytes": oom.need.get(),
        "free_bytes": oom.free.get(),
        "object": oom.object,
        "at": oom.at,
    });
    // Known where the tier's allocator is not exact.
    if let Some(largest) = oom.largest {
        summary["largest_free_bytes"] = json!(largest.get());
    }
    summary
}

fn params(point: &[(String, AxisValue)]) -> Value {
    let value = |value: &AxisValue| match value {
        AxisValue::Number(number) => json!(number),
        AxisValue::Text(text) => json!(text),
    };
    point.iter().map(|(axis, at)| (axis.as_str(), value(at))).collect()
}

/// The copies over each channel that had any: how many per step, mean bytes and mean time of one.
fn transfers(channels: &[String], figures: &Figures) -> Value {
    let one = |(channel, name): (usize, &String)| {
        let (bytes, took) = figures.mean_copy(channel)?;
        Some(json!({
            "lane": name,
            "per_step": figures.copies_per_step(channel),
            "mean_bytes": bytes,
            "mean_ms": took.as_ms(),
        }))
    };
    channels.iter().enumerate().filter_map(one).collect()
}

/// A sum over the measured steps, as milliseconds per step.
fn step_share(sum: Span, figures: &Figures) -> Value {
    json!(sum.as_ms() / figures.steps.len().max(1) as f64)
}

fn limited(capacity: Capacity) -> Value {
    json!(capacity.limit().map(Bytes::get))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    #[test]
    fn an_empty_case_has_nulls_and_no_nan() {
        let mut record = common::single();
        let on = &mut record.conditions[0];
        (on.tiers, on.channels) = Default::default();
        let case = &mut record.results[0];
        case.outcome = Figures::default().into();
        case.baseline_step = Span::ZERO;
        case.params = [("x".to_owned(), AxisValue::Number(f64::NAN))].into();
        let json: Value = serde_json::from_str(&summary_json(&record, "0").unwrap()).unwrap();
        assert!(json["results"][0]["slowdown"].is_null());
        assert!(json["results"][0]["params"]["x"].is_null());
    }
}
