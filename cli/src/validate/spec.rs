//! Where the numbers of a hardware spec come from, in counts and in words: a prediction is worth
//! what they are.

use tiersim_models::hardware::{Fact, Hardware, Source};

/// How the numbers of a spec are known, by the word of their source.
pub(crate) const SOURCES: [&str; 4] = ["measured", "datasheet", "announced", "assumed"];

/// The word of a number's source, and what it says.
pub(crate) fn source(fact: &Fact) -> (&'static str, &str) {
    match &fact.source {
        Source::Measured(text) => ("measured", text),
        Source::Datasheet(text) => ("datasheet", text),
        Source::Announced(text) => ("announced", text),
        Source::Assumed(text) => ("assumed", text),
    }
}

/// How many numbers of each source, in the order of [`SOURCES`].
pub(crate) fn counts(hardware: &Hardware) -> [usize; 4] {
    SOURCES.map(|word| hardware.facts.iter().filter(|fact| source(fact).0 == word).count())
}

/// The counts in words: `12 numbers: 8 measured, 4 assumed`.
pub(crate) fn counted(hardware: &Hardware) -> String {
    let counts = SOURCES.iter().zip(counts(hardware)).filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {word}")).collect();
    match hardware.facts.len() {
        0 => "no numbers with a source".to_owned(),
        1 => format!("1 number: {}", counts.join(", ")),
        n => format!("{n} numbers: {}", counts.join(", ")),
    }
}

/// What a prediction from this spec is worth.
pub(crate) fn worth(hardware: &Hardware) -> &'static str {
    let [measured, .., assumed] = counts(hardware);
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
pub(crate) const HELD_OUT: &str = "No scenario and no trace is used in calibration: it times \
     copies, kernels and files made for the purpose, and fits one law per path to them. Every step \
     below is therefore a prediction of something that the spec has not seen.";
