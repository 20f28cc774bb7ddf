//! What a scenario says of the policy.

use super::ClairvoyantOffload;
use crate::entry::{Entry, Fault, Kind, Parameter};
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Recipe, Setting};
use tiersim_models::ids::TierId;

/// Parameters of `clairvoyant-offload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClairvoyantOffloadConfig {
    /// Where objects live that are not in HBM: the first of these with room, if nothing speaks
    /// against it.
    pub spill: Vec<TierId>,
    /// How many ops ahead are known; `None` for all.
    pub window: Option<u32>,
    /// Behind a window: from the second replay on the first is remembered, and taken to go on.
    pub remembers: bool,
    /// What an op lacks is used where it is if that is quicker than copies.
    pub in_place: bool,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "ClairvoyantOffload",
    about: "copies out early, evicts what is needed last, fetches what is needed next",
    parameters: &[
        Parameter::optional("spill", Kind::Spill),
        Parameter::optional("window", Kind::Count { least: 1, most: 1_000_000 }),
        Parameter::optional("remembers", Kind::Flag),
        Parameter::optional("in_place", Kind::Flag),
    ],
    make: |params| {
        let window = params.count("window").map(|ops| u32::try_from(ops).expect("in range"));
        let remembers = params.flag("remembers").unwrap_or(false);
        if remembers && window.is_none() {
            return Err(Fault {
                parameter: "remembers",
                rule: "without a `window` all is known, and there is nothing to remember".into(),
                remedy: "add window: 64, or leave it out".into(),
            });
        }
        let in_place = params.flag("in_place").unwrap_or(false);
        let spill = params.tiers("spill");
        Ok(ClairvoyantOffloadConfig { spill, window, remembers, in_place }.into())
    },
};

impl Recipe for ClairvoyantOffloadConfig {
    fn name(&self) -> &'static str {
        "clairvoyant-offload"
    }

    fn details(&self) -> String {
        let ahead = self.window.map_or("all".to_owned(), |ops| format!("{ops} ops"));
        let then = if self.remembers { ", then the step before" } else { "" };
        let there = if self.in_place { ", in place" } else { "" };
        format!("lookahead: {ahead}{then}{there}")
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(ClairvoyantOffload::new(self, setting)?))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(ClairvoyantOffloadConfig { spill, ..self.clone() }.into())
    }
}
