//! Every policy that scenarios can name.
//!
//! One file per policy, which holds its parameters, their spelling, its recipe and its decisions;
//! this list is the only other place that knows of it.

use crate::entry::Entry;
use crate::{adam_state, lru};

pub mod access_density;
pub mod all_hbm;
pub mod device_map;
pub mod gradient_aware;
pub mod hints;
pub mod knapsack;
pub mod percentages;
pub mod size_greedy;

/// All of them, by spelling.
pub const ALL: &[&Entry] = &[
    &access_density::ENTRY,
    &adam_state::ENTRY,
    &all_hbm::ENTRY,
    &device_map::ENTRY,
    &gradient_aware::ENTRY,
    &hints::ENTRY,
    &knapsack::ENTRY,
    &lru::ENTRY,
    &percentages::ENTRY,
    &size_greedy::ENTRY,
];

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
