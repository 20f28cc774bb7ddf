//! Objects kept in HBM by the bytes that this saves per byte that it holds.
//!
//! Saved is what the object would move in one replay if it only visited HBM: fetches, and
//! write-backs of what changed. Held is its size for the share of its ops in which it lies idle:
//! during the others it would be there anyway. Equal ones by size, the smaller first.
//! Source: value per size, the greedy order for a knapsack (Dantzig, "Discrete-Variable Extremum
//! Problems", Operations Research 1957), with size taken over time.
//! Invariant: what stays leaves every op its room ([`Residents`]).

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::{Residents, policy_of};
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;

/// Parameters of `access-density`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessDensityConfig {
    /// Where objects live that do not stay: the first of these with room.
    pub spill: Vec<TierId>,
    /// Kinds that the rule is for; objects of others stay in HBM before them.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "AccessDensity",
    about: "objects kept in HBM by the bytes moved that this saves per byte held",
    parameters: &[
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("kinds", Kind::Kinds),
        Parameter::optional("access", Kind::Access),
    ],
    make: |params| {
        let (spill, kinds) = (params.tiers("spill"), params.kinds("kinds"));
        Ok(AccessDensityConfig { spill, kinds, access: params.access("access") }.into())
    },
};

impl Recipe for AccessDensityConfig {
    fn name(&self) -> &'static str {
        "access-density"
    }

    fn details(&self) -> String {
        self.access.to_string()
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
        Some(AccessDensityConfig { spill, ..self.clone() }.into())
    }
}

impl AccessDensityConfig {
    /// The home of every object, by object id.
    pub fn homes(&self, setting: &Setting<'_>) -> Vec<TierId> {
        let mut residents = Residents::new(setting, self.access, &self.spill);
        residents.keep_others(&self.kinds);
        let mut objects = residents.of_kinds(&self.kinds);
        objects.sort_by(|&a, &b| residents.denser(a, b));
        residents.place(&objects);
        residents.homes()
    }
}
