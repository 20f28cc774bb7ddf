//! Memory that no object can have, as files say it.

use crate::text::check::Check;
use std::collections::BTreeSet;
use tiersim_models::hidden::Hidden;

/// Most entries of a list: each kind in each tier.
pub(crate) const MAX_HIDDEN: usize = 64;

/// The entries of the list at `list`, with their places in it; says so where a kind of a tier is
/// listed twice.
pub(crate) fn listed(
    check: &mut Check<'_>,
    list: &str,
    entries: Vec<(usize, Hidden)>,
) -> Vec<Hidden> {
    let mut seen = BTreeSet::new();
    for (index, entry) in &entries {
        if !seen.insert((entry.tier, entry.what)) {
            let rule = format!("`{}` of this tier is listed twice", entry.what.word());
            let path = format!("{list}.{index}.what");
            check.fault(&path, rule, "write one entry with the sum");
        }
    }
    entries.into_iter().map(|(_, entry)| entry).collect()
}
