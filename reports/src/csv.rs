//! `results.csv`: one row per case, one column per figure, for pandas and for spreadsheets.
//!
//! Column names carry the unit, and the tier, channel or link after a dot. A cell that a case does
//! not have is empty. Spreadsheets run a cell that starts with `=`, `+`, `-` or `@` as a formula,
//! and names come from somebody else's trace, so such a cell is led by an apostrophe unless it is a
//! number. What would not be seen in a cell is shown, as everywhere.

use crate::contest::{lookahead_word, ranks};
use crate::csv_columns::{Cell, Columns, float, optional, per_step};
use crate::economics_summary::confidence;
use crate::places::{channels, link_channels, tiers};
use crate::words::{clean, oom_reason};
use crate::{ChartError, replications, served, split, uncertainty};
use std::io::Write;
use tiersim_models::results::economics::Basis;
use tiersim_models::results::{AxisValue, CaseRecord, Figures, Outcome, RunRecord};

/// The table as CSV with a header row.
pub fn results_csv(record: &RunRecord) -> Result<Vec<u8>, ChartError> {
    let mut table = Vec::new();
    write_results(record, &mut table)?;
    Ok(table)
}

/// Writes the table, row by row.
pub(crate) fn write_results(record: &RunRecord, to: &mut dyn Write) -> Result<(), ChartError> {
    let columns = columns(record);
    let mut writer = ::csv::Writer::from_writer(to);
    writer.write_record(columns.iter().map(|(name, _)| guarded(name)))?;
    for case in 0..record.results.len() {
        writer.write_record(columns.iter().map(|(_, cell)| guarded(&cell(case))))?;
    }
    Ok(writer.flush()?)
}

fn columns(record: &RunRecord) -> Vec<(String, Cell<'_>)> {
    let mut all = Columns::new(record);
    all.case("label", |case| case.label.clone());
    all.case("policy", |case| case.policy.clone());
    all.case("details", |case| case.details.clone());
    all.case("emulated", |case| case.emulated.to_string());
    for axis in &record.axes {
        let value = move |case: &CaseRecord| match case.params.iter().find(|(name, _)| name == axis)
        {
            Some((_, AxisValue::Number(value))) => float(*value),
            Some((_, AxisValue::Text(text))) => text.clone(),
            None => String::new(),
        };
        all.case(format!("param.{axis}"), value);
    }
    all.case("outcome", |case| {
        let ran = case.outcome.figures().is_some();
        if ran { "done" } else { "out of memory" }.to_owned()
    });
    all.float("step_ms_mean", |f| f.mean_step().as_ms());
    for percent in [50, 95, 99] {
        all.float(format!("step_ms_p{percent}"), move |f| f.step_ms_percentile(percent));
    }
    all.case("tokens_per_s", |case| optional(record.tokens_per_s(case)));
    all.case("baseline_step_ms", |case| float(case.baseline_step.as_ms()));
    all.case("slowdown", |case| {
        optional(case.outcome.figures().map(|f| f.slowdown(case.baseline_step)))
    });
    all.case("bound_step_ms", |case| float(case.bound_step.as_ms()));
    all.case("hbm_budget_bytes", |case| {
        case.hbm_budget.limit().map_or_else(String::new, |bytes| bytes.get().to_string())
    });
    all.float("hit_ratio", Figures::hit_ratio);
    all.ms("compute_ms", |f| f.compute);
    all.figure("events", |f| f.events.to_string());
    // Joules per step and dollars, each with its confidence if there is a sum.
    let sure = |sum: Option<f64>, basis: Option<&Basis>| {
        sum.and(basis).and_then(confidence).unwrap_or_default().to_owned()
    };
    all.case("energy_j", |case| optional(case.economics.joules()));
    all.case("energy_confidence", move |case| {
        let energy = case.economics.energy.as_ref();
        sure(case.economics.joules(), energy.map(|energy| &*energy.basis))
    });
    all.case("cost_usd", |case| optional(case.economics.dollars()));
    all.case("cost_confidence", move |case| {
        sure(case.economics.dollars(), Some(&case.economics.cost.basis))
    });
    all.case("sight", |case| lookahead_word(case.lookahead).to_owned());
    all.case("learned", |case| case.learned.to_string());
    let ranks = ranks(record);
    let rank = move |case: usize| ranks[case].map_or_else(String::new, |rank| rank.to_string());
    all.all.push(("rank".to_owned(), Box::new(rank)));
    all.case("gap_to_bound", |case| optional(case.gap_to_bound()));
    all.each("peak_bytes", tiers(record), |f, tier| f.peak[tier].get().to_string());
    all.each("in_place_ms", tiers(record), |f, tier| per_step(f.in_place[tier], f));
    all.each("moved_bytes", channels(record), |f, channel| {
        f.moved_per_step(channel).get().to_string()
    });
    all.each("stall_ms", channels(record), |f, channel| per_step(f.stall[channel], f));
    all.each("copies", channels(record), |f, channel| float(f.copies_per_step(channel)));
    all.each("mean_copy_ms", channels(record), |f, channel| {
        optional(f.mean_copy(channel).map(|copy| copy.1.as_ms()))
    });
    all.each("busy_fraction", link_channels(record), |f, own| float(busiest(f, &own)));
    all.ms("delay_ms", |f| f.delay);
    all.case("oom_reason", |case| match &case.outcome {
        Outcome::Done(_) => String::new(),
        Outcome::OutOfMemory(oom) => oom_reason(oom),
    });
    all.case("bound_by", |case| case.bound_by.clone());
    served::csv(&mut all, record);
    all.ms("allocator_ms", |f| f.allocating);
    all.figure("settled", |f| f.steady.settled.to_string());
    all.figure("warmup_replays", |f| f.steady.warmup.to_string());
    all.float("drift", |f| f.steady.drift);
    all.float("unpaid", |f| f.steady.unpaid);
    split::csv(&mut all, record);
    all.condition("hardware", |on| on.hardware.to_string());
    all.condition("workload", |on| on.workload.to_string());
    all.condition("op_time", |on| on.op_time.to_string());
    all.condition("seed", |on| on.seed.to_string());
    all.condition("assumed_numbers", |on| on.assumed_numbers.to_string());
    all.condition("tokens_per_step", |on| on.tokens_per_step.to_string());
    all.condition("devices", |on| on.devices.to_string());
    all.case("cost_used_usd", |case| optional(case.economics.dollars_used()));
    all.case("statistics", |case| case.statistics.as_deref().unwrap_or_default().to_owned());
    uncertainty::columns(&mut all, record);
    replications::columns(&mut all, record);
    all.all
}

/// Busy fraction of a link: that of its busier direction.
pub(crate) fn busiest(figures: &Figures, channels: &[usize]) -> f64 {
    channels.iter().map(|channel| figures.busy_fraction(*channel)).fold(0.0, f64::max)
}

pub(crate) fn guarded(cell: &str) -> String {
    let cell = clean(cell);
    let formula = cell.starts_with(['=', '+', '-', '@']);
    // `parse` also accepts words such as `-inf`.
    let numeric = cell.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c))
        && cell.parse::<f64>().is_ok();
    if formula && !numeric { format!("'{cell}") } else { cell }
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
            ("\t=1", "�=1"),
            ("\u{1b}[2J\n\u{202e}x", "�[2J��x"),
            ("-1.5e3", "-1.5e3"),
            ("lru", "lru"),
        ] {
            assert_eq!(guarded(cell), written);
        }
    }
}
