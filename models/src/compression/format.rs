//! One way of storing objects in fewer bytes.

use crate::hardware::{Channel, TierKind};
use crate::ids::{LinkId, TierId};
use crate::units::Bytes;
use crate::workload::{Object, ObjectKind};

/// Most formats of one scenario.
pub const MAX_FORMATS: usize = 8;

/// Parts of one that ratios are counted in.
pub const RATIO_UNIT: u64 = 1_000_000;

/// Largest ratio.
pub const MOST_RATIO: u64 = 1_000;

crate::words! {
    /// Who packs and unpacks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Packer {
        /// The device, as objects leave its memory and come there.
        Device = "device",
        /// The host's processors, in memory of the host.
        Cpu = "cpu",
    }
}

impl Packer {
    /// Whether it can work on what lies in a tier of this kind.
    pub fn works_in(self, kind: TierKind) -> bool {
        match self {
            Packer::Device => kind == TierKind::Hbm,
            Packer::Cpu => matches!(kind, TierKind::Dram | TierKind::Cxl),
        }
    }
}

/// One way of storing objects in fewer bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name of it and of its link.
    pub name: String,
    /// Tiers that store so; HBM is none of them.
    pub tiers: Vec<TierId>,
    /// Which objects.
    pub kinds: Vec<ObjectKind>,
    /// Of which element types; empty for any.
    pub dtypes: Vec<String>,
    /// Bytes of an object per stored byte, in parts of [`RATIO_UNIT`].
    pub ratio: u64,
    /// Who packs and unpacks.
    pub by: Packer,
    /// Where it unpacks and where it packs: the channels of a link from a tier to itself.
    pub channels: [Channel; 2],
}

impl Format {
    /// The channels of the link that stands for a format.
    pub fn channels(link: LinkId) -> [Channel; 2] {
        [false, true].map(|evicting| Channel { link, evicting })
    }

    /// What so many bytes are stored in: rounded up, and no more than they are.
    pub fn stored(&self, bytes: Bytes) -> Bytes {
        let scaled = u128::from(bytes.get()) * u128::from(RATIO_UNIT);
        let stored = scaled.div_ceil(u128::from(self.ratio.max(1)));
        Bytes::new(u64::try_from(stored).unwrap_or(u64::MAX)).min(bytes)
    }

    /// Whether it is for such an object.
    pub fn takes(&self, object: &Object) -> bool {
        let dtype = || self.dtypes.is_empty() || self.dtypes.contains(&object.dtype);
        object.bytes > Bytes::ZERO && self.kinds.contains(&object.kind) && dtype()
    }

    /// Whether some object may be of both, in some tier.
    pub fn overlaps(&self, other: &Format) -> bool {
        let dtypes = self.dtypes.is_empty()
            || other.dtypes.is_empty()
            || self.dtypes.iter().any(|dtype| other.dtypes.contains(dtype));
        let kinds = self.kinds.iter().any(|kind| other.kinds.contains(kind));
        dtypes && kinds && self.tiers.iter().any(|tier| other.tiers.contains(tier))
    }
}
