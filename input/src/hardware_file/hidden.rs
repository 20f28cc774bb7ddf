//! Reads what a machine says of memory that no object can have.

use super::{RawLink, Resolver};
use crate::hardware_file::service::RawBuffers;
use crate::hidden::{Listed, MAX_HIDDEN};
use crate::text::quantity::{Size, Sourced};
use serde::Deserialize;
use tiersim_models::hardware::Hardware;
use tiersim_models::hidden::{Hidden, What, over};
use tiersim_policies::buffers::staging;

/// One entry, with the source of its number.
#[derive(Debug, Deserialize)]
#[serde(rename = "Hidden", deny_unknown_fields)]
pub(super) struct RawHidden {
    pub(super) tier: String,
    what: What,
    bytes: Sourced<Size>,
}

impl Resolver<'_> {
    /// The entries of a file, and the staging buffers of links with pageable memory unless the file
    /// says how large these are.
    pub(super) fn hidden(
        &mut self,
        raw: &[RawHidden],
        links: &[RawLink],
        hardware: &Hardware,
    ) -> Vec<Hidden> {
        let mut listed = Listed::default();
        let raw = self.check.at_most("hidden", "entries", raw, MAX_HIDDEN);
        for (index, entry) in raw.iter().enumerate() {
            let here = format!("hidden.{index}");
            let what = entry.what;
            let fact = format!("hidden.{}.{}", entry.tier, what.word());
            self.fact(&entry.bytes, &format!("{here}.bytes"), fact);
            let path = format!("{here}.bytes.0");
            let bytes = Listed::bytes(&mut self.check, &path, &entry.bytes.quantity);
            let Some(tier) = hardware.tier(&entry.tier) else {
                let known: Vec<&str> = hardware.tiers.iter().map(|t| t.name.as_str()).collect();
                let path = format!("{here}.tier");
                self.check.unknown(&path, "no tier has this name", &entry.tier, &known);
                continue;
            };
            if let Some(bytes) = bytes {
                listed.add(&mut self.check, &here, Hidden { tier, what, bytes });
            }
        }
        let pageable = links.iter().filter(|l| matches!(l.buffers, Some(RawBuffers::Pageable)));
        let mut staged: Vec<Hidden> = Vec::new();
        for raw in pageable {
            let Some(link) = hardware.links.iter().find(|link| link.name == raw.name) else {
                continue;
            };
            let Some(own) = staging(link, hardware) else { continue };
            match staged.iter_mut().find(|known| known.tier == own.tier) {
                Some(known) => known.bytes += own.bytes,
                None => staged.push(own),
            }
        }
        over(&staged, &listed.done())
    }
}
