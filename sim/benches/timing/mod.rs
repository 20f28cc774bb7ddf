//! What benches measure with: the clock, medians, and ratios of work done in turns.
//!
//! A busy machine slows whatever runs at that moment, so what is compared runs by turns, round by
//! round, and the ratio is taken within each round before the median of the rounds.
//! In a folder, so that no build takes it for a bench of its own.

use std::time::Instant;

/// How long some work takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The upper one of the two in the middle, if there are two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median over rounds of `above / below` in the same round.
#[allow(dead_code, reason = "not every bench compares")]
pub(crate) fn ratio(above: &[f64], below: &[f64]) -> f64 {
    median(above.iter().zip(below).map(|(above, below)| above / below).collect())
}
