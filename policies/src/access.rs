//! The two ways to touch an object outside HBM.
//!
//! *In place*: the op runs against the tier where the object is; nothing moves, the op is delayed
//! by `setup + bytes / bandwidth` of that tier. *Migrate*: copy to HBM before the use, write back
//! (if changed) or drop (if not) after it.

use serde::{Deserialize, Deserializer};
use std::fmt;

/// How a policy with a fixed placement touches what it placed outside HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Access {
    /// Nothing moves, the op is delayed by charges: `in_place(charge: every_use)`.
    #[serde(deserialize_with = "charge")]
    InPlace(Charge),
    /// Copy it to HBM for the use.
    Migrate {
        /// From up to how many ops ahead; 0 is on demand.
        ///
        /// Default: 0.
        #[serde(default)]
        prefetch_ops: u32,
    },
}

/// The charge of `in_place(charge: ...)`.
fn charge<'de, D: Deserializer<'de>>(from: D) -> Result<Charge, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename = "in_place", deny_unknown_fields)]
    struct InPlace {
        charge: Charge,
    }
    InPlace::deserialize(from).map(|read| read.charge)
}

impl Access {
    /// Whether ops use objects outside HBM without paying for every use, as emulations of tiering
    /// do. Such a result is no prediction, and is kept apart from those that are.
    pub const fn is_emulated(self) -> bool {
        matches!(self, Access::InPlace(Charge::ModuleOutput | Charge::ModuleWeights))
    }
}

/// What an in-place access pays for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// Once per forward pass and module: the bytes of the module's output, at the module's tier.
    ///
    /// This is the classic emulated-tiering hook. It charges nothing in backward and optimizer,
    /// so it is an optimistic model; it is here because published results use it.
    ModuleOutput,
    /// Once per pass (forward, backward, optimizer) and module: the bytes of its weights.
    ModuleWeights,
    /// Every use of every object outside HBM: the bytes of the object.
    EveryUse,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::InPlace(Charge::ModuleOutput) => f.write_str("in place, emulated (outputs)"),
            Access::InPlace(Charge::ModuleWeights) => f.write_str("in place, emulated (weights)"),
            Access::InPlace(Charge::EveryUse) => f.write_str("in place (every use)"),
            Access::Migrate { prefetch_ops: 0 } => f.write_str("migrate on demand"),
            Access::Migrate { prefetch_ops } => write!(f, "migrate, {prefetch_ops} ops ahead"),
        }
    }
}
