//! From what a scenario says of memory that no object can have to tiers and bytes.
//!
//! The scenario's list holds for every case; a case's own list replaces what it says of a kind and
//! tier, and both replace what the machine says.

use crate::hidden::{Listed, MAX_HIDDEN, RawHidden};
use crate::scenario::resolver::Resolver;
use tiersim_models::hardware::Hardware;
use tiersim_models::hidden::Hidden;

/// `base` with the entries of a list at `at`; `None` after problems. Entries of 0 bytes are kept:
/// they say that the machine's are not there.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: &[RawHidden],
    base: &[Hidden],
    hardware: &Hardware,
) -> Option<Vec<Hidden>> {
    let mut listed = Listed::default();
    let mut good = true;
    let raw = resolver.check.at_most(at, "entries", raw, MAX_HIDDEN);
    for (index, entry) in raw.iter().enumerate() {
        let here = format!("{at}.{index}");
        let tier = resolver.tier(&format!("{here}.tier"), &entry.tier, hardware);
        let bytes = Listed::bytes(&mut resolver.check, &format!("{here}.bytes"), &entry.bytes);
        match tier.zip(bytes) {
            Some((tier, bytes)) => {
                let entry = Hidden { tier, what: entry.what, bytes };
                listed.add(&mut resolver.check, &here, entry);
            }
            None => good = false,
        }
    }
    let own = listed.entries();
    let replaced = |entry: &&Hidden| {
        own.iter().all(|other| (other.tier, other.what) != (entry.tier, entry.what))
    };
    let mut all: Vec<Hidden> = base.iter().filter(replaced).chain(&own).copied().collect();
    all.sort_by_key(|entry| (entry.tier, entry.what));
    good.then_some(all)
}
