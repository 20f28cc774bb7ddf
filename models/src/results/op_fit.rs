//! Numbers of a device's formulas, fitted to measured ops.

use super::op_grades::quantile;
use crate::op_times::{Dimension, OpTimes};

/// Errors of some ops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// How many.
    pub count: usize,
    /// Of |predicted / measured - 1|: the median and the 95th percentile, by nearest rank.
    pub median: f64,
    /// See `median`.
    pub p95: f64,
    /// Median of predicted / measured - 1.
    pub bias: f64,
}

impl Errors {
    /// Of pairs of predicted and measured seconds.
    pub fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Errors {
        let mut signed: Vec<f64> =
            pairs.map(|(predicted, measured)| predicted / measured - 1.0).collect();
        signed.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        Errors {
            count: signed.len(),
            median: quantile(&sizes, 0.5),
            p95: quantile(&sizes, 0.95),
            bias: quantile(&signed, 0.5),
        }
    }
}

/// One number of a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedNumber {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub dimension: Dimension,
    /// What it was, in base units.
    pub before: f64,
    /// What it is now.
    pub after: f64,
    /// Whether the ops told it; others are kept.
    pub told: bool,
}

/// The numbers of one formula.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedSection {
    /// Which section of a file of op times.
    pub name: &'static str,
    /// All its numbers, in the order of the file.
    pub numbers: Vec<FittedNumber>,
    /// Errors of all ops with the numbers that the machine had.
    pub before: Errors,
    /// Errors of the families of shapes that a first fit did not see; `None` where all ops are of
    /// one family.
    pub held_out: Option<Errors>,
    /// What a family is.
    pub family: &'static str,
    /// Errors of all ops with the new numbers.
    pub after: Errors,
}

/// What a table of ops says of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct OpFit {
    /// The sections that the table has ops of.
    pub sections: Vec<FittedSection>,
    /// Sections with too few ops, or without numbers to start from, and how many ops of them there
    /// are.
    pub left_out: Vec<(&'static str, usize)>,
    /// The machine's numbers, with those of the sections.
    pub times: OpTimes,
}
