//! Numbers of a machine with their sources.

use super::uncertainty::Uncertainty;
use serde::Deserialize;

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The maker says so.
    Datasheet(String),
    /// Somebody ran it.
    Measured(String),
    /// The maker says that a future product will.
    Announced(String),
    /// Nobody says so; the text gives the reason for choosing it.
    Assumed(String),
}

impl Source {
    /// A source of the same kind with other words.
    pub fn with(&self, words: String) -> Source {
        match self {
            Source::Datasheet(_) => Source::Datasheet(words),
            Source::Measured(_) => Source::Measured(words),
            Source::Announced(_) => Source::Announced(words),
            Source::Assumed(_) => Source::Assumed(words),
        }
    }
}

/// One number of a spec with its source, for listings.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Path in the file, such as `tiers.dram.bandwidth`.
    pub path: String,
    /// The value as written, such as `gb_per_s(25.0)`.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
    /// How far it may be from that, if the file says so.
    pub uncertainty: Option<Uncertainty>,
}

impl Fact {
    /// A number of which nothing is known beyond its value.
    pub fn new(path: String, value: String, source: Source) -> Fact {
        Fact { path, value, source, uncertainty: None }
    }

    /// Whether nobody says so, nor how far off it may be.
    pub fn is_blind(&self) -> bool {
        matches!(self.source, Source::Assumed(_)) && self.uncertainty.is_none()
    }
}
