//! Numbers of a device's formulas, fitted to measured ops.

use super::op_grades::Errors;
use crate::op_times::{Dimension, OpTimes};

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
