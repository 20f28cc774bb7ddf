//! Every policy that scenarios can name.
//!
//! One file per policy, which holds its parameters, their spelling, its recipe and its decisions;
//! this list is the only other place that knows of it.

use crate::entry::Entry;
use std::sync::OnceLock;

pub mod access_density;
pub mod activation_offload;
pub mod adam_state;
pub mod all_hbm;
pub mod clairvoyant_offload;
pub mod correlation_prefetch;
pub mod demand;
pub mod device_map;
pub mod gradient_aware;
pub mod hints;
pub mod hot_cold;
pub mod knapsack;
pub mod layers;
pub mod percentages;
pub mod planned_migration;
pub mod scored;
pub mod size_greedy;
pub mod unified_memory;
pub mod zero_offload;

/// Those of tiersim, by spelling.
pub const ALL: &[&Entry] = &[
    &access_density::ENTRY,
    &activation_offload::ENTRY,
    &adam_state::ENTRY,
    &all_hbm::ENTRY,
    &demand::ARC,
    &demand::BELADY,
    &clairvoyant_offload::ENTRY,
    &demand::CLOCK,
    &correlation_prefetch::ENTRY,
    &device_map::ENTRY,
    &layers::DOUBLE_BUFFERING,
    &demand::FIFO,
    &gradient_aware::ENTRY,
    &hints::ENTRY,
    &hot_cold::ENTRY,
    &knapsack::ENTRY,
    &layers::HOOKS,
    &demand::LFU,
    &demand::LIRS,
    &layers::LOOK_AHEAD,
    &demand::LRU,
    &percentages::ENTRY,
    &planned_migration::ENTRY,
    &demand::S3_FIFO,
    &scored::ENTRY,
    &demand::SIEVE,
    &size_greedy::ENTRY,
    &demand::SLRU,
    &demand::TWO_Q,
    &unified_memory::ENTRY,
    &zero_offload::ENTRY,
];

/// Policies of the program that uses this library.
static MORE: OnceLock<&'static [&'static Entry]> = OnceLock::new();

/// Lets scenarios name policies that are not tiersim's own. Once per program, before the first
/// scenario is read.
///
/// # Panics
/// If it is called twice, or a spelling is taken.
pub fn add(policies: &'static [&'static Entry]) {
    for (index, entry) in policies.iter().enumerate() {
        let mut others = ALL.iter().chain(&policies[..index]);
        let taken = others.any(|other| other.spelling == entry.spelling);
        assert!(!taken, "there are two policies called {}", entry.spelling);
    }
    assert!(MORE.set(policies).is_ok(), "policies are added once");
}

/// All policies that scenarios can name: [`ALL`], and those that were added.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().chain(MORE.get().copied().unwrap_or_default()).copied()
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn policies_are_listed_by_spelling_and_their_parameters_are_named_once() {
        assert!(ALL.is_sorted_by(|a, b| a.spelling < b.spelling));
        for entry in ALL {
            let names = || entry.parameters.iter().map(|parameter| parameter.name);
            let once = |name| names().filter(|other| *other == name).count() == 1;
            assert!(names().all(once), "{}", entry.spelling);
        }
    }
}
