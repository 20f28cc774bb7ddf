//! Numbers of a spec as they are written: rounded, and with their sources in words.

use crate::calibrate::fit::rounded;
use tiersim_models::hardware::Source;
use tiersim_models::results::calibration::Law as Fitted;
use tiersim_models::units::{Rate, Span};

/// Significant digits of what a spec says: more than any of it is known to.
const DIGITS: i32 = 4;

/// The least standard error that is written, as a share: half a unit of the last digit of a number
/// of four.
const LEAST_SPREAD: f64 = 5e-4;

/// What was measured, and how well it is known.
pub(in crate::calibrate) fn source(what: &str, law: &Fitted, date: &str) -> Source {
    let (least, most) = law.sizes;
    let (fitted, unseen) = law.points;
    let Fitted { error, held_out, spread, repeats, .. } = law;
    Source::Measured(format!(
        "{what}: fit of {fitted} sizes from {least} to {most}, error median {:.1} % p95 {:.1} % \
         max {:.1} %; {unseen} sizes held out, error median {:.1} % max {:.1} %; spread {:.1} %; \
         {repeats} repeats; {date}",
        error.0 * 100.0,
        error.1 * 100.0,
        error.2 * 100.0,
        held_out.0 * 100.0,
        held_out.2 * 100.0,
        spread * 100.0,
    ))
}

/// One standard error as a share of its number. A number that came out as none has no share, and
/// one known better than it is written has none that matters.
pub(in crate::calibrate) fn share((value, error): (f64, f64)) -> Option<f64> {
    let share = error / value;
    (share.is_finite() && share >= LEAST_SPREAD).then(|| share.min(1.0))
}

/// A fitted time, to the digits that a spec gives.
pub(in crate::calibrate) fn span(seconds: f64) -> Span {
    Span::from_ps(rounded(seconds * 1e12, DIGITS).round().clamp(0.0, 1e13) as u64)
}

/// A fitted rate, to the digits that a spec gives, and within what a spec may say.
pub(in crate::calibrate) fn rate<Work: Copy>(per_second: f64) -> Rate<Work> {
    let rounded = rounded(per_second, DIGITS).round().clamp(1e6, 1e18) as u64;
    Rate::new(rounded).expect("a rate of at least a million")
}
