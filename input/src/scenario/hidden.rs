//! From what a scenario says of memory that no object can have to tiers and bytes.
//!
//! The scenario's list holds for every case; a case's own list replaces what it says of a kind and
//! tier, and both replace what the machine says.

use crate::hidden::{MAX_HIDDEN, listed};
use crate::scenario::raw::RawHidden;
use crate::scenario::resolver::Resolver;
use crate::text::quantity::BYTES;
use tiersim_models::hardware::Hardware;
use tiersim_models::hidden::Hidden;

/// `base` with the entries of a list at `at`. Entries of 0 bytes are kept: they say that the
/// machine's are not there.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: &[RawHidden],
    base: &[Hidden],
    hardware: &Hardware,
) -> Vec<Hidden> {
    let mut own = Vec::new();
    let raw = resolver.check.at_most(at, "entries", raw, MAX_HIDDEN);
    for (index, RawHidden { tier, what, bytes }) in raw.iter().enumerate() {
        let tier = resolver.tier(&format!("{at}.{index}.tier"), tier, hardware);
        let bytes = bytes.value(&mut resolver.check, &format!("{at}.{index}.bytes"), BYTES);
        let entry = tier.zip(bytes);
        own.extend(entry.map(|(tier, bytes)| (index, Hidden { tier, what: *what, bytes })));
    }
    let own = listed(&mut resolver.check, at, own);
    let replaced = |entry: &&Hidden| {
        own.iter().all(|other| (other.tier, other.what) != (entry.tier, entry.what))
    };
    let mut all: Vec<Hidden> = base.iter().filter(replaced).chain(&own).copied().collect();
    all.sort_by_key(|entry| (entry.tier, entry.what));
    all
}
