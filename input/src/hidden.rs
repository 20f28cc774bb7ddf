//! Memory that no object can have, as files say it.

use crate::text::check::Check;
use crate::text::quantity::{BYTES, Quantity, Size};
use serde::Deserialize;
use std::collections::BTreeMap;
use tiersim_models::hidden::{Hidden, What, over};
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// Most entries of a list: each kind in each tier.
pub(crate) const MAX_HIDDEN: usize = 64;

/// Hidden memory as a scenario writes it.
#[derive(Debug, Deserialize)]
#[serde(rename = "Hidden", deny_unknown_fields)]
pub(crate) struct RawHidden {
    pub(crate) tier: String,
    pub(crate) what: What,
    pub(crate) bytes: Quantity<Size>,
}

/// Collects a list; says so where a kind of a tier is listed twice.
#[derive(Default)]
pub(crate) struct Listed {
    all: Vec<Hidden>,
    places: BTreeMap<(TierId, What), usize>,
}

impl Listed {
    /// The bytes of an entry at `path`.
    pub(crate) fn bytes(check: &mut Check<'_>, path: &str, size: &Quantity<Size>) -> Option<Bytes> {
        size.bytes(check, path, BYTES)
    }

    pub(crate) fn add(&mut self, check: &mut Check<'_>, here: &str, entry: Hidden) {
        if self.places.insert((entry.tier, entry.what), self.all.len()).is_some() {
            let rule = format!("`{}` of this tier is listed twice", entry.what.word());
            check.fault(&format!("{here}.what"), rule, "write one entry with the sum");
        }
        self.all.push(entry);
    }

    pub(crate) fn done(self) -> Vec<Hidden> {
        over(&[], &self.all)
    }

    /// As [`Listed::done`], with entries of 0 bytes: they replace others.
    pub(crate) fn entries(self) -> Vec<Hidden> {
        self.all
    }
}
