//! How much of a tier may be in use before something is done about it.
//!
//! Invariant: a word alone; the shares are those of memory pressure.

use serde::Deserialize;

/// Which thresholds of memory pressure a case has that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Thresholds near the capacity.
    Aggressive,
    /// Those between.
    Balanced,
    /// Thresholds that leave the most free.
    Conservative,
}

impl Profile {
    /// The word of files.
    pub const fn word(self) -> &'static str {
        match self {
            Profile::Aggressive => "aggressive",
            Profile::Balanced => "balanced",
            Profile::Conservative => "conservative",
        }
    }
}
