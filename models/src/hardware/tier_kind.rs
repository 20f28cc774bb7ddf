//! Kinds of tiers.

use serde::{Deserialize, Serialize};

crate::words! {
    /// What a tier is, for colours and for hint files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TierKind {
        /// The accelerator's own memory.
        Hbm = "hbm",
        /// Memory behind CXL.
        Cxl = "cxl",
        /// The host's memory.
        Dram = "dram",
        /// Flash.
        Nvme = "nvme",
        /// Memory of another node.
        Remote = "remote",
    }
}

impl TierKind {
    /// The word that training frameworks use in `tier_hints.json`.
    pub const fn hint(self) -> &'static str {
        match self {
            TierKind::Hbm => "HBM",
            TierKind::Cxl => "CXL",
            TierKind::Dram => "CPU",
            TierKind::Nvme => "SSD",
            TierKind::Remote => "REMOTE",
        }
    }

    /// The kind that a hint file's word names.
    pub fn from_hint(word: &str) -> Option<TierKind> {
        TierKind::ALL.into_iter().find(|kind| kind.hint() == word)
    }
}
