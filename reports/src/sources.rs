//! How the numbers of a machine are known: how many of them have each kind of source.

use tiersim_models::energy::Confidence::{self, Announced, Assumed, Datasheet, Measured};
use tiersim_models::hardware::Hardware;

/// As they are listed where a machine is described.
pub(crate) const AS_LISTED: [Confidence; 4] = [Datasheet, Measured, Announced, Assumed];
/// What can be trusted most first.
pub(crate) const BEST_FIRST: [Confidence; 4] = [Measured, Datasheet, Announced, Assumed];

/// How many numbers have each kind of source, with its word.
pub(crate) fn counts(hardware: &Hardware, order: &[Confidence; 4]) -> [(usize, &'static str); 4] {
    order.map(|kind| {
        let of = hardware.facts.iter().filter(|fact| fact.source.confidence() == kind);
        (of.count(), kind.word())
    })
}

/// The kinds that there are: `9 measured, 3 assumed`.
pub(crate) fn in_words(hardware: &Hardware, order: &[Confidence; 4]) -> String {
    let some = counts(hardware, order).into_iter().filter(|(n, _)| *n > 0);
    some.map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
}
