//! A line per step of every case: memory, pressure, traffic and waiting.
//!
//! Live bytes, their peak, bytes moved and stalls are the machine's, in its time; reserved bytes
//! and fragmentation are the allocator's, in the order of the plan, as in `allocators.csv`. An
//! exact tier reserves what it holds, and its memory is in no pieces.
//! Invariant: all figures of memory are of the first tier, whose capacity pressure is a share of.

use crate::text_table::{Side, text_table};
use crate::words::{clean, count, percent};
use tiersim_models::results::memory_use::Point;
use tiersim_models::results::step_log::{MOST_LINES, StepLine};
use tiersim_models::results::{CaseRecord, RunRecord};
use tiersim_models::units::Bytes;

const HEADS: [&str; 9] =
    ["step", "time", "live", "reserved", "peak", "fragmented", "moved", "pressure", "stall"];

/// The lines of all cases that ran.
pub fn step_log_text(record: &RunRecord) -> String {
    let mut text = String::new();
    for case in &record.results {
        let Some(figures) = case.outcome.figures() else { continue };
        let head = HEADS.map(str::to_owned).to_vec();
        let lines = figures.log.iter().map(|line| cells(case, line));
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(lines).collect();
        let of = record.of(case).tier_name(0);
        text += &format!("\nsteps of {}, memory of {}\n", clean(&case.label), clean(of));
        text += &text_table(2, &[Side::Right; HEADS.len()], &rows);
        if case.left_out > 0 {
            let left_out = count(case.left_out as usize, "step was", "steps were");
            text += &format!("  {left_out} not simulated: the same as before, again and again\n");
        }
        if figures.log.len() >= MOST_LINES {
            text += &format!("  no more than {MOST_LINES} lines are kept\n");
        }
    }
    text
}

fn cells(case: &CaseRecord, line: &StepLine) -> Vec<String> {
    let memory = case.outcome.figures().and_then(|figures| figures.memory_of(0));
    let points = memory.map_or(&[][..], |memory| &memory.series);
    let from = points.partition_point(|point| point.step < line.step);
    let points: Vec<&Point> = points[from..].iter().take_while(|p| p.step == line.step).collect();
    let reserved = points.iter().map(|point| point.reserved).max();
    let reserved = if memory.is_some() { reserved } else { Some(line.peak) };
    let fragmented = points.iter().map(|point| point.total_highest).reduce(f64::max);
    let fragmented = if memory.is_some() { fragmented } else { Some(0.0) };
    let capacity = case.hbm_budget.limit();
    let pressure = |reserved: Bytes| {
        capacity.map(|capacity| reserved.get() as f64 / (capacity.get() as f64).max(1.0))
    };
    let or_none = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let step = if line.measured { line.step.to_string() } else { format!("{} w", line.step) };
    vec![
        step,
        line.span.to_string(),
        line.live.to_string(),
        or_none(reserved.map(|bytes| bytes.to_string())),
        line.peak.to_string(),
        or_none(fragmented.map(percent)),
        line.moved.to_string(),
        or_none(reserved.and_then(pressure).map(percent)),
        line.stall.to_string(),
    ]
}
