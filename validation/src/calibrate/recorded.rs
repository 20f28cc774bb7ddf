//! What a recording shows of its machine: the laws of its copies, what launches take, and where a
//! machine says something else.
//!
//! This is the one answer to that question: `calibrate --from-trace` makes a machine of it, `run`
//! warns where a scenario's machine is far from it, `trace info` prints it.
//! Copies of one size are a point, as repeats of a measurement are. A program copies what it needs
//! and not what a fit would like: sizes are few, and most are small. A law of set-up and rate needs
//! four sizes that lie apart by a factor of eight; of fewer only the rate is told, by the largest
//! copies. Copies that last a few ticks of the recording's clock say nothing and are left out.
//! Invariant: pure; the same trace shows the same.

mod seat;
mod told;

pub use seat::{Seat, seat};
pub use told::{Base, FromTrace, NothingTold, from_trace};

use crate::calibrate::fit::{self, Fit};
use crate::calibrate::measure::Point;
use crate::calibrate::probe::{Access, Kind};
use crate::calibrate::spec::{fitted_by, halves, large};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::Hardware;
use tiersim_models::recorded::{Road, ShownCopies, copies};
use tiersim_models::results::calibration::Law;
use tiersim_models::results::op_grades::quantile;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Trace;

/// Fewest copies of a road that tell anything.
pub const FEWEST: usize = 8;
/// Fewest sizes of a law with a set-up.
const SIZES: usize = 4;
/// The largest of them is so many times the smallest.
const APART: u64 = 8;
/// From so many sizes on every second is held out.
const HELD_OUT: usize = 8;
/// Copies shorter than so many ticks of the clock are not known to an eighth.
const TICKS: u64 = 8;
/// A machine whose rate is off by more than this share is not that of the recording.
const OFF: f64 = 0.25;

/// The copies of one road with the points that they are.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    /// What they show.
    pub(super) shown: ShownCopies,
    /// By rising size.
    pub(super) points: Vec<Point>,
}

/// What the copies of a trace show, by road.
pub fn shown(trace: &Trace) -> Vec<ShownCopies> {
    all(trace).into_iter().map(|fitted| fitted.shown).collect()
}

/// The same with the points.
fn all(trace: &Trace) -> Vec<Fitted> {
    copies(trace).into_iter().map(|(road, rows)| of_road(road, &rows)).collect()
}

/// Profilers of before 2024 write whole microseconds, others nanoseconds.
fn tick(rows: &[(Bytes, Span)]) -> Span {
    let whole = rows.iter().all(|(_, span)| span.ps().is_multiple_of(1_000_000));
    if whole { Span::from_us(1) } else { Span::from_ns(1) }
}

fn of_road(road: Road, rows: &[(Bytes, Span)]) -> Fitted {
    let least = tick(rows).ps() * TICKS;
    let mut by_size: BTreeMap<Bytes, Vec<Span>> = BTreeMap::new();
    for &(size, span) in rows.iter().filter(|(size, _)| *size > Bytes::ZERO) {
        by_size.entry(size).or_default().push(span);
    }
    let mut points: Vec<Point> = by_size
        .into_iter()
        .map(|(size, spans)| {
            let mut sorted = spans.clone();
            sorted.sort_unstable();
            let shown_only = sorted[(sorted.len() - 1) / 2].ps() < least;
            let (kind, latencies) = (Kind::Stream(Access::Copy), Vec::new());
            Point { kind, size, held_out: false, shown_only, spans, latencies, flops: 0 }
        })
        .collect();
    let told = points.iter().filter(|point| !point.shown_only).map(|point| point.spans.len()).sum();
    let sizes = points.iter().filter(|point| !point.shown_only).count();
    let (copies, bytes) =
        (rows.len(), rows.iter().map(|(size, _)| size.get()).fold(0, u64::saturating_add));
    if sizes >= HELD_OUT {
        // The largest is fitted: a rate must not be one of smaller copies.
        let from_the_top = points.iter_mut().rev().filter(|point| !point.shown_only);
        from_the_top.skip(1).step_by(2).for_each(|point| point.held_out = true);
    }
    let used: Vec<&Point> = points.iter().filter(|point| !point.shown_only).collect();
    let (law, has_setup) = match told < FEWEST {
        true => (Err(too_few(told, Span::from_ps(least))), false),
        false => match with_setup(&used) {
            Some(law) => (Ok(law), true),
            None => (Ok(rate_only(&used)), false),
        },
    };
    Fitted { shown: ShownCopies { road, copies, bytes, told, law, has_setup }, points }
}

fn too_few(told: usize, least: Span) -> String {
    format!("{told} copies say their bytes and last {least} or longer, and {FEWEST} are needed")
}

/// A law whose set-up is known: above zero by more than two standard errors.
///
/// As of copies that were made to be measured, the set-up is that of all sizes and the rate that of
/// the large ones; errors are those of the two together.
fn with_setup(used: &[&Point]) -> Option<Law> {
    let size = |point: Option<&&Point>| point.map_or(0, |point| point.size.get());
    if used.len() < SIZES || size(used.last()) / APART < size(used.first()) {
        return None;
    }
    let all = fitted_by(used, fit::fit_robust).ok()?;
    let (setup, error) = all.setup;
    let rate = fitted_by(&large(used.to_vec()), fit::fit_robust).ok()?.rate;
    let fit = Fit { setup, rate: rate.0, setup_error: error, rate_error: rate.1 };
    let [error_of, held_out] = [false, true].map(|out| fit::errors(&fit, &halves(used, out)));
    (setup > 2.0 * error).then_some(Law { rate, error: error_of, held_out, ..all })
}

/// The rate of the largest copies, of at least half the largest size and no fewer than [`FEWEST`]:
/// half of their bytes went no faster. The set-up is in it, and is told apart from it by nothing.
fn rate_only(used: &[&Point]) -> Law {
    let rows =
        used.iter().rev().flat_map(|point| point.spans.iter().map(|span| (point.size, *span)));
    let largest = used.last().map_or(0, |point| point.size.get());
    let rows: Vec<(Bytes, Span)> = rows
        .enumerate()
        .take_while(|(index, (size, _))| size.get() >= largest.div_ceil(2) || *index < FEWEST)
        .map(|(_, row)| row)
        .collect();
    let reached = |(size, span): &(Bytes, Span)| size.get() as f64 * 1e12 / span.ps().max(1) as f64;
    let mut of_bytes: Vec<(f64, u64)> =
        rows.iter().map(|row| (reached(row), row.0.get())).collect();
    of_bytes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rates: Vec<f64> = of_bytes.iter().map(|row| row.0).collect();
    let all: u128 = of_bytes.iter().map(|row| u128::from(row.1)).sum();
    let mut so_far = 0;
    let half = of_bytes.iter().find(|row| {
        so_far += u128::from(row.1);
        so_far >= all.div_ceil(2)
    });
    let rate = half.map_or(1.0, |row| row.0);
    let sorted = |of: &dyn Fn(f64) -> f64| {
        let mut all: Vec<f64> = rates.iter().map(|&one| of(one)).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    // The standard error of a median: 1.2533 sigma / sqrt(n), sigma by the median deviation.
    let deviation = quantile(&sorted(&|one| (one - rate).abs()), 0.5);
    let error = 1.2533 * 1.4826 * deviation / (rates.len() as f64).sqrt();
    let errors = sorted(&|one| (one / rate - 1.0).abs());
    let sizes = rows.iter().map(|row| row.0);
    let distinct: BTreeSet<Bytes> = sizes.clone().collect();
    Law {
        setup: (0.0, 0.0),
        rate: (rate, error),
        error: (quantile(&errors, 0.5), quantile(&errors, 0.95), quantile(&errors, 1.0)),
        held_out: (0.0, 0.0, 0.0),
        spread: (quantile(&rates, 0.95) - quantile(&rates, 0.05)) / rate,
        points: (distinct.len(), 0),
        repeats: rows.len(),
        sizes: (sizes.clone().min().unwrap_or_default(), sizes.max().unwrap_or_default()),
    }
}

/// `unlike-recording`: where a machine's rate is more than a quarter off what the copies of a trace
/// reach; `file` is the trace's, for the remedy.
pub fn unlike(hardware: &Hardware, trace: &Trace, file: &str) -> Vec<Warning> {
    let unlike = |shown: ShownCopies| {
        let law = shown.law.as_ref().ok()?;
        let Seat { path, rate, times, .. } = seat(hardware, shown.road)?;
        let reached = law.rate.0 * times;
        let off = reached / rate.get() as f64;
        let is_near = (1.0 / (1.0 + OFF)..=1.0 + OFF).contains(&off);
        let twice = fit::rounded(reached, 3) / 1e9;
        let twice = format!(", each byte read and written: {twice} GB/s of memory");
        (!is_near).then(|| Warning {
            rule: "unlike-recording",
            place: path,
            found: format!("{} GB/s", rate.get() as f64 / 1e9),
            reason: format!(
                "the trace's copies {} reach {} GB/s ({} copies of {}){}",
                shown.road,
                fit::rounded(law.rate.0, 3) / 1e9,
                shown.copies,
                Bytes::new(shown.bytes),
                if times > 1.0 { &twice } else { "" },
            ),
            remedy: format!(
                "`tiersim calibrate --from-trace {file}` makes a machine of the trace's own"
            ),
        })
    };
    shown(trace).into_iter().filter_map(unlike).collect()
}

#[cfg(test)]
mod tests;
