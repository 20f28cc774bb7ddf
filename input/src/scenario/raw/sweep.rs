//! What varies, as written.
//!
//! `tiersim run` reads it too, so that a mistake here does not wait for the first sweep.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename = "Sweep", deny_unknown_fields)]
pub(crate) struct RawSweep {
    /// What varies.
    pub(crate) axes: Vec<RawAxis>,
    /// Axes that turn together, with equally many values.
    ///
    /// Values: names of axes.
    #[serde(default)]
    pub(crate) zip: Vec<Vec<String>>,
    /// Points that break one are skipped, such as `"hbm + cpu <= 1"`.
    ///
    /// Values: up to 16 conditions.
    #[serde(default)]
    pub(crate) constraints: Vec<String>,
    /// So many points instead, drawn so that each of n equal strata of every axis has one (McKay et
    /// al., 1979).
    ///
    /// Default: the whole grid.
    pub(crate) sample: Option<RawSample>,
    /// Skip points that break a rule on values (shares above 1, say); otherwise they are errors.
    #[serde(default)]
    pub(crate) skip_invalid: bool,
}

/// Points drawn in place of the grid.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Sample", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawSample {
    /// So many points, drawn so that each of as many equal strata of every axis has one (McKay et
    /// al., 1979).
    LatinHypercube {
        /// How many points.
        points: u32,
        /// Seed of the draws.
        ///
        /// Default: 1.
        seed: Option<u64>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Axis", deny_unknown_fields)]
pub(crate) struct RawAxis {
    /// Name in tables and charts; unique.
    pub(crate) name: String,
    /// The value that is replaced, as for [`--set`](#--set); not the sweep itself.
    pub(crate) path: String,
    /// By what.
    pub(crate) values: RawValues,
    /// The unit of plain numbers: `unit: "gb_per_s"` makes 60 `gb_per_s(60)`.
    pub(crate) unit: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "AxisValues", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawValues {
    /// `from`, `from` + `step`, ... up to `to` inclusive, to 12 decimals.
    Range {
        /// The first number, within 10^15 of 0.
        from: f64,
        /// The last number at most, not below `from`.
        to: f64,
        /// The distance of two numbers, above 0.
        step: f64,
    },
    /// `points` numbers in equal ratios, both ends included, to 6 digits.
    LogRange {
        /// The first number.
        from: f64,
        /// The last number.
        to: f64,
        /// How many numbers.
        points: u32,
    },
    /// Of `sample` only: any number between, with `log` in equal ratios.
    Between {
        /// The least number.
        from: f64,
        /// The greatest number.
        to: f64,
        /// Whether draws are even in the logarithm.
        ///
        /// Default: `false`.
        log: Option<bool>,
    },
    /// Such as `list([1, 2, 4])`: these numbers.
    List(Vec<f64>),
    /// Such as `factors([0.5, 1, 2])`: the number that stands there, times these; its unit stays.
    Factors(Vec<f64>),
    /// The text is put into the file as it is, so a string needs its own quotes: `("tf32",
    /// "\"tf32\"")`.
    Choices(Vec<(String, String)>),
}
