//! How a policy is spelled in a scenario: its name, its parameters and their kinds.
//!
//! Every policy's file has one [`Entry`]; [`crate::zoo::ALL`] lists them. Readers of scenarios take
//! names and kinds from it, check ranges and tiers, and give back [`Params`] without an invalid
//! state, of which the policy makes its [`PolicyConfig`].

use crate::access::Access;
use crate::recipe::PolicyConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use tiersim_models::hardware::TierKind;
use tiersim_models::ids::TierId;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::ObjectKind;

/// A policy as scenarios spell it.
#[derive(Debug)]
pub struct Entry {
    /// The variant, such as `AdamState`.
    pub spelling: &'static str,
    /// One line for lists and documentation.
    pub about: &'static str,
    /// What can stand in its parentheses.
    pub parameters: &'static [Parameter],
    /// From checked parameters to the policy's configuration.
    pub make: fn(&Params) -> Result<PolicyConfig, Fault>,
}

/// Where a ranked list is cut. The field uses both spellings, so both exist by name.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
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

/// How often something is done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Every {
    /// Every so many steps of the run, replays counted.
    Steps(u32),
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// As written in a scenario.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Whether it may be left out.
    pub need: Need,
}

/// Whether a parameter may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It must be written.
    Required,
    /// The policy has a default.
    Optional,
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number from `least` to `most`.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A number from `least` to `most`.
    Number {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// `true` or `false`.
    Flag,
    /// A size with its unit, such as `mib(2)`, of at least one byte.
    Size,
    /// A duration with its unit, such as `us(45)`.
    Duration,
    /// One of these words, in snake case.
    Word(&'static [&'static str]),
    /// The name of a tier.
    Tier,
    /// Names of different tiers outside HBM; left out, every tier but the first, nearer kinds
    /// first.
    Spill,
    /// The same; left out, those whose memory a processor addresses: of kind dram, then cxl.
    HostTiers,
    /// The same; left out, none.
    MoreTiers,
    /// Three names of tiers; left out, the first tier, the first of kind dram, the first of kind
    /// nvme.
    ThreeTiers,
    /// Kinds of objects; left out, all that a model's state consists of: weight, gradient,
    /// optimizer, master.
    Kinds,
    /// `migrate(prefetch_ops: 4)` or `in_place(charge: every_use)`; left out, migrate on demand.
    Access,
    /// `shares(hbm: 0.3, cpu: 0.5)` or `cumulative(hbm: 0.3, cpu: 0.8)`.
    Cut,
    /// Every so many steps of the run: `steps(10)`.
    Steps,
    /// A file of tier hints.
    Hints,
    /// A file of weights for these features, as `tiersim train-policy` writes it.
    Weights(&'static [&'static str]),
}

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Count`].
    Count(u64),
    /// Of [`Kind::Number`].
    Number(f64),
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of [`Kind::Size`].
    Size(Bytes),
    /// Of [`Kind::Duration`].
    Duration(Span),
    /// Of [`Kind::Word`].
    Word(&'static str),
    /// Of [`Kind::Tier`].
    Tier(TierId),
    /// Of [`Kind::Spill`], [`Kind::HostTiers`], [`Kind::MoreTiers`] and [`Kind::ThreeTiers`].
    Tiers(Vec<TierId>),
    /// Of [`Kind::Kinds`], in the order of reports, each once.
    Kinds(Vec<ObjectKind>),
    /// Of [`Kind::Access`].
    Access(Access),
    /// Of [`Kind::Cut`].
    Cut(Cut),
    /// Of [`Kind::Steps`]: at least 1.
    Steps(u32),
    /// Of [`Kind::Hints`].
    Hints(BTreeMap<String, TierKind>),
    /// Of [`Kind::Weights`]: finite numbers from minus [`MAX_WEIGHT`] to [`MAX_WEIGHT`] by the name
    /// of the feature; features that are not named are left out.
    Weights(BTreeMap<&'static str, f64>),
}

/// Largest weight of a feature, positive or negative.
pub const MAX_WEIGHT: f64 = 1e6;

/// What parameters can break between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The parameter to point at.
    pub parameter: &'static str,
    /// The rule that is broken.
    pub rule: String,
    /// What to do.
    pub remedy: String,
}

/// Checked values by the name of the parameter: all that were written, and the defaults of those
/// kinds that have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(pub BTreeMap<&'static str, Value>);

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident -> $type:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// If the entry gives the parameter another kind: a mistake in the policy's file.
        pub fn $name(&self, parameter: &str) -> Option<$type> {
            self.0.get(parameter).map(|value| match value {
                Value::$variant(value) => value.clone(),
                other => panic!("{parameter} is {other:?}"),
            })
        }
    )*};
    // Of kinds that have a default.
    ($($(#[$doc:meta])* $name:ident: $variant:ident => $type:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// If the entry does not list the parameter with this kind: a mistake in the policy's file.
        pub fn $name(&self, parameter: &str) -> $type {
            match self.0.get(parameter) {
                Some(Value::$variant(value)) => value.clone(),
                other => panic!("{parameter} is {other:?}"),
            }
        }
    )*};
}

impl Params {
    getters! {
        /// A whole number; `None` if it was left out.
        count: Count -> u64;
        /// A number; `None` if it was left out.
        number: Number -> f64;
        /// A flag; `None` if it was left out.
        flag: Flag -> bool;
        /// A size; `None` if it was left out.
        size: Size -> Bytes;
        /// A duration; `None` if it was left out.
        duration: Duration -> Span;
        /// A word; `None` if it was left out.
        word: Word -> &'static str;
        /// A tier; `None` if it was left out.
        tier: Tier -> TierId;
        /// Where a list is cut; `None` if it was left out.
        cut: Cut -> Cut;
        /// Every how many steps; `None` if it was left out.
        steps: Steps -> u32;
        /// Tier hints; `None` if they were left out.
        hints: Hints -> BTreeMap<String, TierKind>;
        /// Weights of features; `None` if they were left out.
        weights: Weights -> BTreeMap<&'static str, f64>;
    }

    getters! {
        /// Tiers: written or by default.
        tiers: Tiers => Vec<TierId>;
        /// Kinds of objects: written or by default.
        kinds: Kinds => Vec<ObjectKind>;
        /// How objects are touched: written or by default.
        access: Access => Access;
    }
}

impl Parameter {
    /// A parameter that must be written.
    pub const fn required(name: &'static str, kind: Kind) -> Parameter {
        Parameter { name, kind, need: Need::Required }
    }

    /// A parameter that may be left out.
    pub const fn optional(name: &'static str, kind: Kind) -> Parameter {
        Parameter { name, kind, need: Need::Optional }
    }
}
