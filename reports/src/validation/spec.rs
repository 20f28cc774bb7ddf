//! Where the numbers of a hardware spec come from, in counts and in words: a prediction is worth
//! what they are.

use crate::sources::{BEST_FIRST, counts, in_words};
use tiersim_models::hardware::Hardware;

/// The counts in words: `12 numbers: 8 measured, 4 assumed`.
pub(super) fn counted(hardware: &Hardware) -> String {
    let counts = in_words(hardware, &BEST_FIRST);
    match hardware.facts.len() {
        0 => "no numbers with a source".to_owned(),
        1 => format!("1 number: {counts}"),
        n => format!("{n} numbers: {counts}"),
    }
}

/// What a prediction from this spec is worth.
pub(super) fn worth(hardware: &Hardware) -> &'static str {
    let [(measured, _), .., (assumed, _)] = counts(hardware, &BEST_FIRST);
    match (measured, assumed) {
        (0, assumed) if assumed == hardware.facts.len() => {
            "Every number of the spec is assumed: the errors below say how good these guesses are \
             and little about the simulator."
        }
        (0, _) => {
            "No number of the spec was measured on a machine: the errors below mix what the \
             simulator leaves out with what the spec gets wrong."
        }
        (_, 0) => "No number of the spec is assumed.",
        _ => {
            "Some numbers of the spec are measured and some are assumed: errors below may come \
             from either."
        }
    }
}

/// Why the predictions are held out.
pub(super) const HELD_OUT: &str = "No scenario and no trace is used in calibration: it times \
     copies, kernels and files made for the purpose, and fits one law per path to them. Every step \
     below is therefore a prediction of something that the spec has not seen.";
