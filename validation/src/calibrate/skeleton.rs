//! The machine that calibration fills in: HBM, DRAM and files in a chain, with laws yet unknown.
//!
//! Invariant: every law is [`UNKNOWN`] until it has been measured.

use tiersim_models::hardware::{Hardware, Law, Link, Source, Tier, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::units::{Bandwidth, Bytes, Span};

/// Stands in laws that calibration replaces.
pub(crate) const UNKNOWN: Law = Law { setup: Span::ZERO, rate: Bandwidth::gb_per_s(1) };

/// A machine of up to three tiers of so many bytes, joined by links of these names.
pub(crate) fn of(sizes: &[u64], links: &[&str], chunk: Bytes) -> Hardware {
    let kinds = [("hbm", TierKind::Hbm), ("dram", TierKind::Dram), ("nvme", TierKind::Nvme)];
    let tier = |((name, kind), bytes): ((&str, TierKind), &u64)| Tier {
        name: name.to_owned(),
        kind,
        // Whole MiB: that the last few bytes are lost matters less than that it can be read.
        capacity: Bytes::new((bytes >> 20 << 20).max(1 << 20)).into(),
        access: UNKNOWN,
        loaded: None,
        requests: Default::default(),
    };
    let link = |(near, name): (u8, &&str)| {
        Link::new(*name, (TierId(near), TierId(near + 1)), [UNKNOWN; 2])
    };
    Hardware {
        name: String::new(),
        about: String::new().into(),
        tiers: kinds.into_iter().zip(sizes).map(tier).collect(),
        nodes: Vec::new(),
        links: (0..).zip(links).map(link).collect(),
        routes: Vec::new(),
        compute: None,
        chunk,
        hidden: Vec::new(),
        facts: Default::default(),
        economics: Default::default(),
        server: Default::default(),
        cpu: None,
        pressure: None,
    }
}

/// Where the capacity of files comes from.
pub(crate) fn files() -> Source {
    Source::Measured("free on the file system of the scratch folder (statvfs)".to_owned())
}
