//! `results.csv`: one row per case, one column per figure, for pandas and for spreadsheets.
//!
//! Column names carry the unit, and the tier, lane or link after a dot. A cell that a case does not
//! have is empty. Spreadsheets run a cell that starts with `=`, `+`, `-` or `@` as a formula, and
//! names come from somebody else's trace, so such a cell is led by an apostrophe unless it is a
//! number.

use crate::ChartError;
use crate::contest::{gap, ranks, sight_word};
use crate::economics_summary::confidence;
use crate::served;
use crate::split;
use crate::words::{finite, lane_names, links, oom_reason};
use tiersim_models::results::AxisValue;
use tiersim_models::results::economics::{Basis, CaseEconomics};
use tiersim_models::results::{CaseRecord, Figures, Outcome, RunRecord};

/// The table as CSV with a header row.
pub fn results_csv(record: &RunRecord) -> Result<Vec<u8>, ChartError> {
    let axes = &record.axes;
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let header = header(record, axes);
    writer.write_record(header.iter().map(|cell| guarded(cell)))?;
    for (case, rank) in record.results.iter().zip(ranks(record)) {
        let row = row(record, case, rank, axes);
        debug_assert_eq!(row.len(), header.len());
        writer.write_record(row.iter().map(|cell| guarded(cell)))?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}

fn header(record: &RunRecord, axes: &[String]) -> Vec<String> {
    let mut header: Vec<String> =
        ["label", "policy", "details", "emulated"].map(str::to_owned).to_vec();
    header.extend(axes.iter().map(|axis| format!("param.{axis}")));
    header.extend(
        [
            "outcome",
            "step_ms_mean",
            "step_ms_p50",
            "step_ms_p95",
            "step_ms_p99",
            "tokens_per_s",
            "baseline_step_ms",
            "slowdown",
            "bound_step_ms",
            "hbm_budget_bytes",
            "hit_ratio",
            "compute_ms",
            "events",
            "energy_j",
            "energy_confidence",
            "cost_usd",
            "cost_confidence",
            "sight",
            "learned",
            "rank",
            "gap_to_bound",
        ]
        .map(str::to_owned),
    );
    header.extend(record.tiers.iter().map(|(tier, _)| format!("peak_bytes.{tier}")));
    header.extend(record.tiers.iter().map(|(tier, _)| format!("in_place_ms.{tier}")));
    let lanes = lane_names(record);
    header.extend(lanes.iter().map(|lane| format!("moved_bytes.{lane}")));
    header.extend(lanes.iter().map(|lane| format!("stall_ms.{lane}")));
    header.extend(lanes.iter().map(|lane| format!("copies.{lane}")));
    header.extend(lanes.iter().map(|lane| format!("mean_copy_ms.{lane}")));
    header.extend(links(record).iter().map(|(link, _)| format!("busy_fraction.{link}")));
    header.extend(["delay_ms", "oom_reason", "bound_by"].map(str::to_owned));
    header.extend(served::header(record));
    header.push("allocator_ms".to_owned());
    header.extend(["settled", "warmup_replays", "drift", "unpaid"].map(str::to_owned));
    header.extend(split::header(record));
    let on = [
        "hardware",
        "workload",
        "op_time",
        "seed",
        "assumed_numbers",
        "tokens_per_step",
        "cost_used_usd",
    ];
    header.extend(on.map(str::to_owned));
    header.push("statistics".to_owned());
    header
}

fn row(record: &RunRecord, case: &CaseRecord, rank: Option<usize>, axes: &[String]) -> Vec<String> {
    let emulated = case.emulated.to_string();
    let mut row = vec![case.label.clone(), case.policy.clone(), case.details.clone(), emulated];
    row.extend(axes.iter().map(|axis| match case.params.iter().find(|(name, _)| name == axis) {
        Some((_, AxisValue::Number(value))) => float(*value),
        Some((_, AxisValue::Text(text))) => text.clone(),
        None => String::new(),
    }));
    let ran = case.outcome.figures();
    let of = |figure: &dyn Fn(&Figures) -> String| ran.map_or_else(String::new, figure);
    row.push(if ran.is_some() { "done" } else { "out of memory" }.to_owned());
    row.push(of(&|f| float(f.mean_step().as_ms())));
    row.extend([50, 95, 99].map(|percent| of(&|f| float(f.step_ms_percentile(percent)))));
    row.push(record.tokens_per_s(case).map_or_else(String::new, float));
    row.push(float(case.baseline_step.as_ms()));
    row.push(of(&|f| float(f.slowdown(case.baseline_step))));
    row.push(float(case.bound_step.as_ms()));
    row.push(case.hbm_budget.limit().map_or_else(String::new, |bytes| bytes.get().to_string()));
    row.push(of(&|f| float(f.hit_ratio())));
    row.push(of(&|f| float(f.compute.as_ms() / f.steps.len().max(1) as f64)));
    row.push(of(&|f| f.events.to_string()));
    row.extend(economics(&case.economics));
    row.push(sight_word(case.sight).to_owned());
    row.push(case.learned.to_string());
    row.push(rank.map_or_else(String::new, |rank| rank.to_string()));
    row.push(gap(case).map_or_else(String::new, float));
    let steps = |f: &Figures| f.steps.len().max(1) as u64;
    let ms = |ps: u64, f: &Figures| float(ps as f64 / 1e9 / steps(f) as f64);
    for tier in 0..record.tiers.len() {
        row.push(of(&|f| f.peak[tier].get().to_string()));
    }
    for tier in 0..record.tiers.len() {
        row.push(of(&|f| ms(f.in_place[tier].ps(), f)));
    }
    for lane in 0..record.lanes.len() {
        row.push(of(&|f| f.moved_per_step(lane).get().to_string()));
    }
    for lane in 0..record.lanes.len() {
        row.push(of(&|f| ms(f.stall[lane].ps(), f)));
    }
    for lane in 0..record.lanes.len() {
        row.push(of(&|f| float(f.copies_per_step(lane))));
    }
    for lane in 0..record.lanes.len() {
        let took = |f: &Figures| f.mean_copy(lane).map_or_else(String::new, |c| float(c.1.as_ms()));
        row.push(of(&took));
    }
    for (_, lanes) in links(record) {
        row.push(of(&|f| float(busiest(f, &lanes))));
    }
    row.push(of(&|f| ms(f.delay.ps(), f)));
    row.push(match &case.outcome {
        Outcome::Done(_) => String::new(),
        Outcome::OutOfMemory(oom) => oom_reason(oom),
    });
    row.push(case.bound_by.clone());
    row.extend(served::row(record, ran.and_then(|figures| figures.serving.as_deref())));
    row.push(of(&|f| ms(f.allocating.ps(), f)));
    row.push(of(&|f| f.steady.settled.to_string()));
    row.push(of(&|f| f.steady.warmup.to_string()));
    row.push(of(&|f| float(f.steady.drift)));
    row.push(of(&|f| float(f.steady.unpaid)));
    row.extend(split::row(record, ran));
    let on = record.of(case);
    row.extend([&on.hardware, &on.workload, &on.op_time].map(String::clone));
    row.extend([on.seed.to_string(), on.assumed_numbers.to_string()]);
    row.push(on.tokens_per_step.to_string());
    row.push(case.economics.dollars_used().map_or_else(String::new, float));
    row.push(case.statistics.unwrap_or_default().to_owned());
    row
}

/// Joules per step and dollars, each with its confidence if there is a sum.
fn economics(case: &CaseEconomics) -> [String; 4] {
    let sum = |sum: Option<f64>, basis: Option<&Basis>| {
        let word = sum.and(basis).and_then(confidence).unwrap_or_default();
        [sum.map_or_else(String::new, float), word.to_owned()]
    };
    let basis = case.energy.as_ref().map(|energy| &energy.basis);
    let [energy, of_energy] = sum(case.joules(), basis);
    let [cost, of_cost] = sum(case.dollars(), Some(&case.cost.basis));
    [energy, of_energy, cost, of_cost]
}

/// Busy fraction of a link: that of its busier direction.
pub(crate) fn busiest(figures: &Figures, lanes: &[usize]) -> f64 {
    lanes.iter().map(|lane| figures.busy_fraction(*lane)).fold(0.0, f64::max)
}

/// The shortest text that reads back as the same number; empty if there is none.
fn float(value: f64) -> String {
    finite(value).map_or_else(String::new, |value| value.to_string())
}

pub(crate) fn guarded(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    // `parse` also accepts words such as `-inf`.
    let numeric = cell.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c))
        && cell.parse::<f64>().is_ok();
    if formula && !numeric { format!("'{cell}") } else { cell.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_led_by_an_apostrophe_and_numbers_are_not() {
        for (cell, written) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1+1", "'+1+1"),
            ("-inf", "'-inf"),
            ("\t=1", "'\t=1"),
            ("-1.5e3", "-1.5e3"),
            ("lru", "lru"),
        ] {
            assert_eq!(guarded(cell), written);
        }
    }
}
