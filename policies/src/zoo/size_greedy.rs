//! Objects kept in HBM by size alone.
//!
//! The smallest first, by default: a small object costs little room, and much of what fetching it
//! takes is set-up. Source of that rule: DeepSpeed's `stage3_param_persistence_threshold`, which
//! keeps parameters below a size on the device. The largest first is there to compare with.
//! Invariant: what stays leaves every op its room ([`Residents`]).

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::{Residents, policy_of};
use std::cmp::Reverse;
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;

/// Parameters of `size-greedy`.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeGreedyConfig {
    /// Which size stays first.
    pub first: First,
    /// Where objects live that do not stay: the first of these with room.
    pub spill: Vec<TierId>,
    /// Kinds that the rule is for; objects of others stay in HBM before them.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// Which size stays first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "SizeGreedy",
    about: "objects kept in HBM by size alone",
    parameters: &[
        Parameter::optional("first", Kind::Word(&["smallest", "largest"])),
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| {
        let largest = params.word("first") == Some("largest");
        let first = if largest { First::Largest } else { First::Smallest };
        let (spill, kinds) = (params.tiers("spill"), params.kinds("kinds"));
        Ok(SizeGreedyConfig { first, spill, kinds, access: params.access("access") }.into())
    },
};

impl Recipe for SizeGreedyConfig {
    fn name(&self) -> &'static str {
        "size-greedy"
    }

    fn details(&self) -> String {
        let first = match self.first {
            First::Smallest => "smallest",
            First::Largest => "largest",
        };
        format!("{first} first, {}", self.access)
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let homes = self.homes(setting);
        Ok(policy_of((self.name(), homes), self.access, &self.spill, setting))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(SizeGreedyConfig { spill, ..self.clone() }.into())
    }
}

impl SizeGreedyConfig {
    /// The home of every object, by object id.
    pub fn homes(&self, setting: &Setting<'_>) -> Vec<TierId> {
        let mut residents = Residents::new(setting, self.access, &self.spill);
        residents.keep_others(&self.kinds);
        let mut objects = residents.of_kinds(&self.kinds);
        match self.first {
            First::Smallest => objects.sort_by_key(|&object| (residents.bytes(object), object)),
            First::Largest => {
                objects.sort_by_key(|&object| (Reverse(residents.bytes(object)), object));
            }
        }
        residents.place(&objects);
        residents.homes()
    }
}
