//! `summary.json`: the contract with whoever reads results by machine.
//!
//! Keys are only ever added; a change of meaning raises [`SCHEMA`]. Sums over the run
//! (`moved_bytes`, `stall_ms`, `in_place_ms`, `compute_ms`, `delay_ms`, `allocator_ms`) are **means
//! per measured step**, so that they can be compared with `step_ms` and do not depend on how often
//! the trace was replayed; bytes are rounded to whole ones. What a case does not have is `null`,
//! never a made-up 0: every figure of a case that ran out of memory, and a sum of which a number is
//! missing in the spec.
//! Invariant: no NaN and no infinity is ever written.

use crate::ChartError;
use crate::contest::{self, ranks};
use crate::csv::busiest;
use crate::economics_summary::{self, CostSummary, EnergySummary, NumberSummary};
use crate::hidden::hidden_bytes;
use crate::hints::HintsSummary;
use crate::memory_summary::{AllocatorSummary, allocators};
use crate::pressure::{self, PressureSummary};
use crate::served::{self, ServingSummary};
use crate::split::{self, SplitSummary};
use crate::steady::{self, SteadySummary};
use crate::words::{finite, lane_names, links, oom_reason};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::Capacity;
use tiersim_models::results::AxisValue;
use tiersim_models::results::{CaseRecord, Figures, OutOfMemory, Outcome, RunRecord};
use tiersim_models::units::{Bytes, Span};

/// Version of the meaning of the keys.
pub const SCHEMA: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of tiersim.
    pub tiersim: String,
    /// The scenario's name.
    pub scenario: String,
    /// `sha256:` and the hash of the resolved scenario, its hardware and its trace.
    pub fingerprint: String,
    /// The machine's name, as all of this head for the scenario as the file has it.
    pub hardware: String,
    /// The trace's name.
    pub workload: String,
    /// Seed of every draw.
    pub seed: u64,
    /// How many numbers of the hardware that times rest on are assumed.
    pub assumed_numbers: usize,
    /// One per case, in the scenario's order.
    pub results: Vec<CaseSummary>,
    /// The question that the scenario answers.
    pub about: String,
    /// How op durations were made.
    pub op_time: String,
    /// Tokens that one step processes.
    pub tokens_per_step: u64,
    /// Points of a sweep that do not resolve.
    pub skipped: Vec<SkippedSummary>,
    /// What the lint says.
    pub warnings: Vec<WarningSummary>,
    /// The numbers of the hardware that energy and cost rest on.
    pub power_and_price: Vec<NumberSummary>,
}

/// Something that should be looked at.
#[derive(Clone, Debug, Serialize)]
pub struct WarningSummary {
    /// Name of the rule.
    pub rule: String,
    /// Path of the number, or the case.
    pub place: String,
    /// The value found.
    pub found: String,
    /// Why hardware does not do this.
    pub reason: String,
    /// What to do instead.
    pub remedy: String,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSummary {
    /// The policy's name.
    pub policy: String,
    /// The sweep's axes at this point: numbers or texts by axis name.
    pub params: Map<String, Value>,
    /// Length of a measured step.
    pub step_ms: Option<StepMs>,
    /// Work per time at the mean step.
    pub throughput: Option<Throughput>,
    /// Mean step of the same workload with unlimited HBM.
    pub baseline_step_ms: Option<f64>,
    /// Mean step over the baseline's.
    pub slowdown: Option<f64>,
    /// No policy that pays for every use can have a shorter mean step with this memory.
    pub bound_step_ms: Option<f64>,
    /// What most of that bound is, such as `bytes into hbm`.
    pub bound_by: String,
    /// Most bytes ever held, by tier, over the whole run.
    pub peak_bytes: Option<Map<String, Value>>,
    /// Bytes copied per step, by lane such as `dram->hbm`.
    pub moved_bytes: Option<Map<String, Value>>,
    /// Copies over each lane that had any.
    pub transfers: Vec<Value>,
    /// Time per step that compute waited for copies, by lane.
    pub stall_ms: Option<Map<String, Value>>,
    /// Share of the measured time that a link was copying, by link: its busier direction.
    pub busy_fraction: Option<Map<String, Value>>,
    /// Share of uses that found their object in HBM.
    pub hit_ratio: Option<f64>,
    /// Did it run out of memory?
    pub oom: bool,
    /// Joules per step.
    pub energy_j: Option<f64>,
    /// Dollars of the machine.
    pub cost_usd: Option<f64>,
    /// Events that the engine processed, over the whole run.
    pub events: Option<u64>,
    /// Steps, those of the warm-up included, that were not simulated one by one because the run was
    /// in the same state as before.
    pub extended_steps: Option<u64>,
    /// The case's label in tables and charts.
    pub label: String,
    /// The policy's parameters in words.
    pub details: String,
    /// Does not pay for every use outside HBM: comparable with other emulations only.
    pub emulated: bool,
    /// HBM that the case may use; `null` for no limit.
    pub hbm_budget_bytes: Option<u64>,
    /// How far the policy looks ahead: `past`, `window` or `all` (an oracle).
    pub sight: &'static str,
    /// Whether the policy's numbers were found by training.
    pub learned: bool,
    /// Place by mean step among the cases that ran and pay for every access; 1 is the quickest.
    pub rank: Option<usize>,
    /// How much longer the mean step is than the bound: 0.25 for a quarter.
    pub gap_to_bound: Option<f64>,
    /// Delay per step of ops for objects used in place, by tier.
    pub in_place_ms: Option<Map<String, Value>>,
    /// Time per step that ops computed.
    pub compute_ms: Option<f64>,
    /// Delay per step of ops that the policy states, such as the handling of page faults.
    pub delay_ms: Option<f64>,
    /// What ops waited for allocators, per step.
    pub allocator_ms: Option<f64>,
    /// Why it ran out of memory.
    pub oom_reason: Option<OomSummary>,
    /// How allocators used memory, by tier; not there if all are exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocators: Option<Vec<AllocatorSummary>>,
    /// What `energy_j` is made of.
    pub energy: Option<EnergySummary>,
    /// What `cost_usd` is made of.
    pub cost: CostSummary,
    /// Memory that no object can have, by tier and by what it is for; not there if there is none.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub hidden_bytes: Map<String, Value>,
    /// What happened under memory pressure; not there if no tier was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<PressureSummary>,
    /// How much more work per time is done than by the baseline, in per cent; negative where it is
    /// less.
    pub throughput_change_percent: Option<f64>,
    /// What became of each hint; not there if the policy follows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<HintsSummary>,
    /// What became of requests; not there if none are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<ServingSummary>,
    /// Whether the measured steps are those of the steady state.
    pub steady: Option<SteadySummary>,
    /// How a mean step is made up along its critical path, by part.
    pub split_ms: Option<Map<String, Value>>,
    /// The same of all measured steps together, in whole picoseconds.
    pub split: Option<SplitSummary>,
    /// Where the statistics come from that its policy ranks by; null if it ranks by none.
    pub statistics: Option<&'static str>,
    /// The machine that it ran on.
    pub hardware: String,
    /// The trace that it ran.
    pub workload: String,
    /// How op durations were made.
    pub op_time: String,
    /// Seed of every draw.
    pub seed: u64,
    /// How many numbers of the machine that times rest on are assumed.
    pub assumed_numbers: usize,
    /// Tokens that one step processes.
    pub tokens_per_step: u64,
}

/// Mean and percentiles of step length in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct StepMs {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// Work per time.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// How much.
    pub value: Option<f64>,
    /// Of what: `tokens/s`.
    pub unit: &'static str,
}

/// The allocation that failed.
#[derive(Clone, Debug, Serialize)]
pub struct OomSummary {
    /// All of it as a sentence.
    pub text: String,
    /// The tier.
    pub tier: String,
    /// Its capacity; `null` for no limit.
    pub capacity_bytes: Option<u64>,
    /// What was asked for.
    pub need_bytes: u64,
    /// What was free.
    pub free_bytes: u64,
    /// The object that did not fit.
    pub object: String,
    /// The op that needed it.
    pub at: String,
    /// The largest free piece; not there if the tier's allocator is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_free_bytes: Option<u64>,
}

/// A point of a sweep that does not resolve.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedSummary {
    /// Its axes.
    pub params: Map<String, Value>,
    /// Why.
    pub reason: String,
}

/// The summary of a record; `version` is tiersim's own.
pub fn summary(record: &RunRecord, version: &str) -> Summary {
    let base = record.base();
    Summary {
        schema: SCHEMA,
        tiersim: version.to_owned(),
        scenario: record.scenario.clone(),
        fingerprint: record.fingerprint.clone(),
        hardware: base.hardware.clone(),
        workload: base.workload.clone(),
        seed: base.seed,
        assumed_numbers: base.assumed_numbers,
        results: record
            .results
            .iter()
            .zip(ranks(record))
            .map(|(case, rank)| case_summary(record, case, rank))
            .collect(),
        about: record.about.clone(),
        op_time: base.op_time.clone(),
        tokens_per_step: base.tokens_per_step,
        skipped: record
            .skipped
            .iter()
            .map(|(point, reason)| SkippedSummary { params: params(point), reason: reason.clone() })
            .collect(),
        warnings: record.warnings.iter().map(warning_summary).collect(),
        power_and_price: record.power_and_price.iter().map(economics_summary::number).collect(),
    }
}

/// `summary.json` as text.
pub fn summary_json(record: &RunRecord, version: &str) -> Result<String, ChartError> {
    let mut json = serde_json::to_string_pretty(&summary(record, version))?;
    json.push('\n');
    Ok(json)
}

fn case_summary(record: &RunRecord, case: &CaseRecord, rank: Option<usize>) -> CaseSummary {
    let (ran, on) = (case.outcome.figures(), record.of(case));
    let by_tier = |figure: &dyn Fn(&Figures, usize) -> Value| {
        ran.map(|f| {
            let tiers = record.tiers.iter().enumerate();
            tiers.map(|(index, (tier, _))| (tier.clone(), figure(f, index))).collect()
        })
    };
    let by_lane = |figure: &dyn Fn(&Figures, usize) -> Value| {
        ran.map(|f| {
            let lanes = lane_names(record).into_iter().enumerate();
            lanes.map(|(index, lane)| (lane, figure(f, index))).collect()
        })
    };
    CaseSummary {
        policy: case.policy.clone(),
        params: params(&case.params),
        step_ms: ran.map(|f| StepMs {
            mean: finite(f.mean_step().as_ms()),
            p50: finite(f.step_ms_percentile(50)),
            p95: finite(f.step_ms_percentile(95)),
            p99: finite(f.step_ms_percentile(99)),
        }),
        throughput: ran.map(|f| Throughput {
            value: finite(f.tokens_per_s(on.tokens_per_step)),
            unit: "tokens/s",
        }),
        baseline_step_ms: finite(case.baseline_step.as_ms()),
        slowdown: ran.and_then(|f| finite(f.slowdown(case.baseline_step))),
        bound_step_ms: finite(case.bound_step.as_ms()),
        bound_by: case.bound_by.clone(),
        peak_bytes: by_tier(&|f, tier| json!(f.peak[tier].get())),
        moved_bytes: by_lane(&|f, lane| json!(f.moved_per_step(lane).get())),
        transfers: ran.map_or_else(Vec::new, |figures| transfers(record, figures)),
        stall_ms: by_lane(&|f, lane| json!(step_share(f.stall[lane], f))),
        busy_fraction: ran.map(|f| {
            let links = links(record).into_iter();
            links.map(|(link, lanes)| (link, json!(finite(busiest(f, &lanes))))).collect()
        }),
        hit_ratio: ran.and_then(|f| finite(f.hit_ratio())),
        oom: ran.is_none(),
        energy_j: case.economics.joules().and_then(finite),
        cost_usd: case.economics.dollars().and_then(finite),
        events: ran.map(|f| f.events),
        extended_steps: ran.map(|_| case.left_out),
        label: case.label.clone(),
        emulated: case.emulated,
        sight: contest::sight_word(case.sight),
        learned: case.learned,
        rank,
        gap_to_bound: contest::gap(case).and_then(finite),
        details: case.details.clone(),
        hbm_budget_bytes: limited(case.hbm_budget),
        in_place_ms: by_tier(&|f, tier| json!(step_share(f.in_place[tier], f))),
        compute_ms: ran.and_then(|f| step_share(f.compute, f)),
        delay_ms: ran.and_then(|f| step_share(f.delay, f)),
        allocator_ms: ran.and_then(|f| step_share(f.allocating, f)),
        oom_reason: match &case.outcome {
            Outcome::Done(_) => None,
            Outcome::OutOfMemory(oom) => Some(oom_summary(oom)),
        },
        allocators: ran.and_then(|f| allocators(record, f)),
        energy: case.economics.energy.as_ref().map(economics_summary::energy),
        cost: economics_summary::cost(&case.economics),
        hidden_bytes: hidden_bytes(record, case),
        pressure: pressure::summary(record, case),
        throughput_change_percent: ran
            .and_then(|f| finite(f.throughput_change(case.baseline_step))),
        hints: case.hints.as_ref().map(HintsSummary::of),
        serving: ran.and_then(|f| f.serving.as_deref()).map(|f| served::summary(record, f)),
        steady: ran.map(|f| steady::summary(record, f)),
        split_ms: ran.map(|f| split::mean_ms(record, f)),
        split: ran.map(|f| split::summary(record, f)),
        statistics: case.statistics,
        hardware: on.hardware.clone(),
        workload: on.workload.clone(),
        op_time: on.op_time.clone(),
        seed: on.seed,
        assumed_numbers: on.assumed_numbers,
        tokens_per_step: on.tokens_per_step,
    }
}

fn warning_summary(warning: &Warning) -> WarningSummary {
    WarningSummary {
        rule: warning.rule.to_owned(),
        place: warning.place.clone(),
        found: warning.found.clone(),
        reason: warning.reason.clone(),
        remedy: warning.remedy.clone(),
    }
}

fn oom_summary(oom: &OutOfMemory) -> OomSummary {
    OomSummary {
        text: oom_reason(oom),
        tier: oom.tier.clone(),
        capacity_bytes: limited(oom.capacity),
        need_bytes: oom.need.get(),
        free_bytes: oom.free.get(),
        object: oom.object.clone(),
        at: oom.at.clone(),
        largest_free_bytes: oom.largest.map(Bytes::get),
    }
}

fn params(point: &[(String, AxisValue)]) -> Map<String, Value> {
    let value = |value: &AxisValue| match value {
        AxisValue::Number(number) => json!(finite(*number)),
        AxisValue::Text(text) => json!(text),
    };
    point.iter().map(|(axis, at)| (axis.clone(), value(at))).collect()
}

/// The copies over each lane that had any: how many per step, mean bytes and mean time of one.
fn transfers(record: &RunRecord, figures: &Figures) -> Vec<Value> {
    let one = |(lane, name): (usize, String)| {
        let (bytes, took) = figures.mean_copy(lane)?;
        Some(json!({
            "lane": name,
            "per_step": finite(figures.copies_per_step(lane)),
            "mean_bytes": finite(bytes),
            "mean_ms": finite(took.as_ms()),
        }))
    };
    lane_names(record).into_iter().enumerate().filter_map(one).collect()
}

/// A sum over the measured steps, as milliseconds per step.
fn step_share(sum: Span, figures: &Figures) -> Option<f64> {
    finite(sum.as_ms() / figures.steps.len().max(1) as f64)
}

fn limited(capacity: Capacity) -> Option<u64> {
    capacity.limit().map(Bytes::get)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tiersim_models::results::Conditions;

    /// A record without anything in it.
    pub(crate) fn empty() -> RunRecord {
        RunRecord {
            scenario: "empty".to_owned(),
            about: String::new(),
            fingerprint: "sha256:0".to_owned(),
            power_and_price: Vec::new(),
            conditions: vec![Conditions::default()],
            tiers: Vec::new(),
            lanes: Vec::new(),
            axes: Vec::new(),
            results: Vec::new(),
            skipped: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn an_empty_case_has_nulls_and_no_nan() {
        let mut record = empty();
        record.results.push(CaseRecord {
            label: "a".to_owned(),
            policy: "lru".to_owned(),
            details: String::new(),
            params: vec![("x".to_owned(), AxisValue::Number(f64::NAN))],
            conditions: 0,
            statistics: None,
            hbm_budget: Capacity::Unlimited,
            outcome: Outcome::Done(Figures::default()),
            placement: None,
            economics: Default::default(),
            hidden: Vec::new(),
            left_out: 0,
            pressure: None,
            hints: None,
            emulated: false,
            sight: tiersim_models::results::Sight::Past,
            learned: false,
            baseline_step: Span::ZERO,
            baseline_peak: Bytes::ZERO,
            bound_step: Span::ZERO,
            bound_by: "critical path".to_owned(),
        });
        let json: Value = serde_json::from_str(&summary_json(&record, "0").unwrap()).unwrap();
        assert!(json["results"][0]["slowdown"].is_null());
        assert!(json["results"][0]["params"]["x"].is_null());
    }
}
