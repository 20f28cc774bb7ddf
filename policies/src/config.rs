//! What a scenario can ask for: one variant per policy, already resolved to ids.
//!
//! [`PolicyConfig::build`] is the one table of policies; adding a policy adds a file and a line.

use crate::access::Access;
use std::collections::BTreeMap;
use tiersim_models::hardware::TierKind;
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;

/// A policy and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyConfig {
    /// Everything in HBM; runs out of memory where it does not fit.
    AllHbm,
    /// Modules ranked by Adam statistics, the busiest in HBM.
    AdamState(AdamStateConfig),
    /// Modules placed as a hint file says.
    Hints(HintsConfig),
    /// Demand paging by object, least recently used first out.
    Lru(LruConfig),
}

/// Parameters of `adam-state`.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamStateConfig {
    /// Where the ranked list of modules is cut.
    pub cut: Cut,
    /// What a share counts.
    pub by: Count,
    /// The tiers of the first, second and third part of the list.
    pub tiers: [TierId; 3],
    /// Kinds of a module's objects that follow its placement; all others stay in HBM.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// Where a ranked list is cut. The field uses both spellings, so both exist by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// The first `hbm` of the list, the next `cpu` of it, the rest.
    Shares {
        /// Share of the first tier, 0 to 1.
        hbm: f64,
        /// Share of the second tier, 0 to 1; both together at most 1.
        cpu: f64,
    },
    /// The list up to `hbm`, from there up to `cpu`, the rest.
    Cumulative {
        /// End of the first tier's part, 0 to 1.
        hbm: f64,
        /// End of the second tier's part, 0 to 1.
        cpu: f64,
    },
}

/// What the shares of a [`Cut`] count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Modules, as the field's published code does.
    Modules,
    /// Bytes of their weights.
    Bytes,
}

/// Parameters of `hints`.
#[derive(Clone, Debug, PartialEq)]
pub struct HintsConfig {
    /// Module name to tier kind, as in `tier_hints.json`; modules not named stay in HBM.
    pub hints: BTreeMap<String, TierKind>,
    /// Kinds of a module's objects that follow its placement.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// Parameters of `lru`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LruConfig {
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
}
