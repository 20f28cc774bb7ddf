//! Rules that what is described must keep, in the words of whoever wrote the description.
//!
//! A dozen numbers stand for tables of any length, so each has a limit, and so have the ops, the
//! bytes and the FLOPs that they amount to together. Sums are made in 128 bits: no shape overflows
//! the arithmetic that refuses it.

/// Most ops of a generated trace, by a bound on their number.
pub const MAX_OPS: u64 = 1_000_000;

/// A rule that a shape breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeProblem {
    /// The field, as a path below the shape: `heads`, `parallel.tensor`.
    pub field: &'static str,
    /// The rule, with the value found where it is not the field's own.
    pub rule: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// A field, its value and the largest that it may have; the least is 1.
pub(crate) type Range = (&'static str, u64, u64);

/// Refuses every value that lies outside its range, with a rule made of the field, the largest
/// value and this one.
pub(crate) fn outside(
    ranges: Vec<Range>,
    rule: fn(&str, u64, u64) -> String,
) -> impl Iterator<Item = ShapeProblem> {
    let is_outside = |&(_, value, most): &Range| value == 0 || value > most;
    ranges.into_iter().filter(is_outside).map(move |(field, value, most)| ShapeProblem {
        field,
        rule: rule(field, most, value),
        remedy: "write a number in that range",
    })
}
