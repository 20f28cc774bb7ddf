//! Every policy that scenarios can name.
//!
//! One file per policy, which holds its parameters, their spelling, its recipe and its decisions;
//! this list is the only other place that knows of it.

use crate::entry::Entry;

pub mod activation_offload;
pub mod adam_state;
pub mod all_hbm;
pub mod clairvoyant_offload;
pub mod demand;
pub mod device_map;
pub mod hints;
pub mod hot_cold;
pub mod layers;
pub mod learned_placement;
pub mod optimal;
pub mod percentages;
pub mod planned_migration;
pub mod residents;
pub mod scored;
pub mod sharded;
pub mod unified_memory;
pub mod zero_offload;

/// Those of tiersim, by spelling.
pub const ALL: &[&Entry] = &[
    &residents::ACCESS_DENSITY,
    &activation_offload::ENTRY,
    &adam_state::entries::ENTRY,
    &all_hbm::ENTRY,
    &demand::ARC,
    &demand::BELADY,
    &clairvoyant_offload::ENTRY,
    &demand::CLOCK,
    &unified_memory::CORRELATION_PREFETCH,
    &device_map::ENTRY,
    &layers::DOUBLE_BUFFERING,
    &demand::FIFO,
    &adam_state::entries::GRADIENT_AWARE,
    &hints::ENTRY,
    &hot_cold::ENTRY,
    &residents::KNAPSACK,
    &layers::HOOKS,
    &learned_placement::ENTRY,
    &demand::LFU,
    &demand::LIRS,
    &layers::LOOK_AHEAD,
    &demand::LRU,
    &optimal::ENTRY,
    &percentages::ENTRY,
    &planned_migration::ENTRY,
    &demand::S3_FIFO,
    &scored::ENTRY,
    &sharded::ENTRY,
    &demand::SIEVE,
    &residents::SIZE_GREEDY,
    &demand::SLRU,
    &demand::TWO_Q,
    &unified_memory::ENTRY,
    &zero_offload::ENTRY,
];

/// The policies that scenarios can name: those of tiersim, and what a program adds of its own.
#[derive(Clone, Debug)]
pub struct Registry(Vec<&'static Entry>);

/// A spelling that another policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are two policies called {0}")]
pub struct TakenName(pub &'static str);

impl Default for Registry {
    fn default() -> Registry {
        Registry(ALL.to_vec())
    }
}

impl Registry {
    /// These policies too.
    pub fn with(mut self, policies: &[&'static Entry]) -> Result<Registry, TakenName> {
        for entry in policies {
            if self.0.iter().any(|other| other.spelling == entry.spelling) {
                return Err(TakenName(entry.spelling));
            }
            self.0.push(entry);
        }
        Ok(self)
    }

    /// All of them.
    pub fn entries(&self) -> &[&'static Entry] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Registry, TakenName};
    use crate::entry::Entry;

    #[test]
    fn policies_are_listed_by_spelling_and_their_parameters_are_named_once() {
        assert!(ALL.is_sorted_by(|a, b| a.spelling < b.spelling));
        for entry in ALL {
            let names = || entry.parameters.iter().map(|parameter| parameter.name);
            let once = |name| names().filter(|other| *other == name).count() == 1;
            assert!(names().all(once), "{}", entry.spelling);
        }
    }
    #[test]
    fn a_registry_grows_by_names_that_are_free() {
        static OWN: Entry = Entry { spelling: "Own", ..super::all_hbm::ENTRY };
        let own = Registry::default().with(&[&OWN]).expect("the name is free");
        assert_eq!(own.entries().len(), ALL.len() + 1);
        assert_eq!(own.with(&[&OWN]).err(), Some(TakenName("Own")));
        assert_eq!(Registry::default().with(&[ALL[0]]).err(), Some(TakenName(ALL[0].spelling)));
    }
}
