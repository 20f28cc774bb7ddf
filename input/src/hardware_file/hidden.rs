//! Reads what a machine says of memory that no object can have.

use super::raw::{Buffers, RawHidden, RawLink};
use super::resolver::{At, Resolver};
use crate::hidden::{MAX_HIDDEN, listed};
use crate::text::quantity::BYTES;
use tiersim_models::hardware::Hardware;
use tiersim_models::hidden::{Hidden, over};
use tiersim_policies::buffers::staging;

impl Resolver<'_> {
    /// The entries of a file, and the staging buffers of links with pageable memory unless the file
    /// says how large these are.
    pub(super) fn hidden(
        &mut self,
        raw: &[RawHidden],
        links: &[RawLink],
        hardware: &Hardware,
    ) -> Vec<Hidden> {
        let known: Vec<&str> = hardware.tiers.iter().map(|tier| tier.name.as_str()).collect();
        let mut entries = Vec::new();
        let raw = self.check.at_most("hidden", "entries", raw, MAX_HIDDEN);
        for (index, RawHidden { tier, what, bytes }) in raw.iter().enumerate() {
            let (path, fact) = (format!("hidden.{index}"), format!("hidden.{tier}"));
            let at = At { path: format!("{path}.bytes"), fact: format!("{fact}.{}", what.word()) };
            let bytes = self.number(bytes, at, BYTES);
            self.named(&format!("{path}.tier"), "no tier has this name", tier, &known);
            let entry = hardware.tier(tier).zip(bytes);
            entries.extend(entry.map(|(tier, bytes)| (index, Hidden { tier, what: *what, bytes })));
        }
        let entries = listed(&mut self.check, "hidden", entries);
        let pageable = links.iter().filter(|link| link.buffers == Buffers::Pageable);
        let mut staged: Vec<Hidden> = Vec::new();
        for raw in pageable {
            let link = hardware.links.iter().find(|link| link.name == raw.name);
            let Some(own) = link.and_then(|link| staging(link, hardware)) else { continue };
            match staged.iter_mut().find(|known| known.tier == own.tier) {
                Some(known) => known.bytes += own.bytes,
                None => staged.push(own),
            }
        }
        over(&staged, &over(&[], &entries))
    }
}
