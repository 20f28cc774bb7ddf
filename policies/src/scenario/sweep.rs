//! A scenario and its variations: one point for each combination of its axes' values.

use crate::scenario::{AxisValue, Scenario};
use std::sync::Arc;

pub use tiersim_models::results::{MACHINE, Params};

/// A scenario and its variations.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The file without any axis applied.
    pub base: Scenario,
    /// What varies.
    pub axes: Vec<Axis>,
    /// Every valid point; the last axis turns fastest.
    pub points: Vec<Point>,
    /// Points that break a rule, with the first reason.
    pub skipped: Vec<(Params, Arc<str>)>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Values of the axes.
    pub params: Params,
    /// The scenario there; its cases carry the same values.
    pub scenario: Scenario,
}

/// One thing that varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name in tables and charts.
    pub name: String,
    /// Path of the value that is replaced.
    pub path: String,
    /// Its values.
    pub values: Vec<AxisPoint>,
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisPoint {
    /// What tables and charts show.
    pub value: AxisValue,
    /// What is put into the file.
    pub text: String,
}
