//! Objects that stay in HBM for good, chosen before the first op: by size, by what they save for
//! the room that they hold, or as a knapsack.
//!
//! *Size*: the smallest first, by default, since a small object costs little room and much of what
//! fetching it takes is set-up; the largest first is there to compare with. Source of the rule:
//! DeepSpeed's `stage3_param_persistence_threshold`, which keeps parameters below a size on the
//! device.
//! *Density*: saved is what the object would move in one replay if it only visited HBM, fetches and
//! write-backs of what changed. Held is its size for the share of its ops in which it lies idle:
//! during the others it would be there anyway. Equal ones by size, the smaller first. Source: value
//! per size, the greedy order for a knapsack (Dantzig, "Discrete-Variable Extremum Problems",
//! Operations Research 1957), with size taken over time.
//! *Knapsack*: the set that saves the most ([`knapsack`]).
//! Invariant: what stays leaves every op its room ([`Residents`]).

pub mod knapsack;

use crate::access::Access;
use crate::entry::{Entry, Kind, Parameter, Params};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::residents::{Residents, policy_of};
use std::cmp::Reverse;
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;

/// Parameters of `size-greedy`, `access-density` and `knapsack`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidentsConfig {
    /// Which objects stay first.
    pub rule: Rule,
    /// Where objects live that do not stay: the first of these with room.
    pub spill: Vec<TierId>,
    /// Kinds that the rule is for; objects of others stay in HBM before them.
    pub kinds: Vec<ObjectKind>,
    /// How objects outside HBM are touched.
    pub access: Access,
}

/// Which objects stay first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
    /// Those that save most for the room that they hold.
    Densest,
    /// The set that saves the most bytes.
    Knapsack,
}

const SPILL: Parameter = Parameter::optional("spill", Kind::Spill);
const KINDS: Parameter = Parameter::optional("kinds", Kind::Kinds);
const ACCESS: Parameter = Parameter::optional("access", Kind::Access);

/// How scenarios spell the choice by size.
pub const SIZE_GREEDY: Entry = Entry {
    spelling: "SizeGreedy",
    about: "objects kept in HBM by size alone",
    parameters: &[
        Parameter::optional("first", Kind::Word(&["smallest", "largest"])),
        SPILL,
        KINDS,
        ACCESS,
    ],
    make: |params| {
        let largest = params.word("first") == Some("largest");
        Ok(make(if largest { Rule::Largest } else { Rule::Smallest }, params))
    },
};

/// How scenarios spell the choice by density.
pub const ACCESS_DENSITY: Entry = Entry {
    spelling: "AccessDensity",
    about: "objects kept in HBM by the bytes moved that this saves per byte held",
    parameters: &[SPILL, KINDS, ACCESS],
    make: |params| Ok(make(Rule::Densest, params)),
};

/// How scenarios spell the knapsack.
pub const KNAPSACK: Entry = Entry {
    spelling: "Knapsack",
    about: "the residents of HBM that save the most moved bytes, as a knapsack",
    parameters: &[SPILL, KINDS, ACCESS],
    make: |params| Ok(make(Rule::Knapsack, params)),
};

fn make(rule: Rule, params: &Params) -> PolicyConfig {
    let (spill, kinds) = (params.tiers("spill"), params.kinds("kinds"));
    ResidentsConfig { rule, spill, kinds, access: params.access("access") }.into()
}

impl Recipe for ResidentsConfig {
    fn name(&self) -> &'static str {
        match self.rule {
            Rule::Smallest | Rule::Largest => "size-greedy",
            Rule::Densest => "access-density",
            Rule::Knapsack => "knapsack",
        }
    }

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        match self.rule {
            Rule::Smallest => format!("smallest first, {}", self.access),
            Rule::Largest => format!("largest first, {}", self.access),
            Rule::Densest | Rule::Knapsack => self.access.to_string(),
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(policy_of((self.name(), self.homes(setting)), self.access, &self.spill, setting))
    }

    fn access(&self) -> Option<Access> {
        Some(self.access)
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(ResidentsConfig { spill, ..self.clone() }.into())
    }
}

impl ResidentsConfig {
    /// The home of every object, by object id.
    pub fn homes(&self, setting: &Setting<'_>) -> Vec<TierId> {
        let mut residents = Residents::new(setting, self.access, &self.spill);
        residents.keep_others(&self.kinds);
        let mut objects = residents.of_kinds(&self.kinds);
        match self.rule {
            Rule::Smallest => objects.sort_by_key(|&object| (residents.bytes(object), object)),
            Rule::Largest => {
                objects.sort_by_key(|&object| (Reverse(residents.bytes(object)), object));
            }
            Rule::Densest => objects.sort_by(|&a, &b| residents.denser(a, b)),
            Rule::Knapsack => return knapsack::choose(&residents, &self.kinds).0,
        }
        residents.place(&objects);
        residents.homes()
    }
}
