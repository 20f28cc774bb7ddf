//! What became of the hints of a file: which modules followed them.

use serde::{Deserialize, Serialize};

/// The entry of a file of hints that says of which run the hints are; it is no module's.
pub const FINGERPRINT: &str = "tiersim:fingerprint";

crate::words! {
    /// How a hint found its modules, best first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum How {
        /// By the module's name.
        Name = "name",
        /// By its name without known prefixes, or with another name of the list of layers.
        Prefix = "prefix",
        /// As the parent of modules.
        Parent = "parent",
        /// It found none.
        Nothing = "nothing",
    }
}

/// What became of one hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintMatch {
    /// The name in the file.
    pub hint: String,
    /// How it found modules, by the best of them.
    pub how: How,
    /// How many modules follow it.
    pub modules: usize,
}

/// What became of all hints of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintMatches {
    /// Every hint, by name.
    pub hints: Vec<HintMatch>,
    /// Modules that own weights and follow no hint: they stay in HBM.
    pub unhinted: Vec<String>,
}

impl HintMatches {
    /// How many hints found modules so.
    pub fn count(&self, how: How) -> usize {
        self.hints.iter().filter(|hint| hint.how == how).count()
    }
}
