//! Reads sets of drives, and the traffic of others, of a link.
//!
//! The numbers of a link with a set of drives, and of the tier behind it, are written for one
//! drive.
//! Invariant: in a returned machine they are those of the whole set, and none leaves its range.

use super::write::{Unwritable, Writer};
use super::{RawLink, Resolver};
use crate::text::quantity::{Bandwidth, CAPACITY, Dimension, Drives, RATE, Size, Sourced};
use serde::Deserialize;
use tiersim_models::hardware::{Hardware, Law, Link, Tier, TierKind};
use tiersim_models::raid0::Raid0;
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::Bytes;

/// A set of equal drives, as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "Raid0", deny_unknown_fields)]
pub(super) struct RawRaid0 {
    drives: Sourced<Drives>,
    stripe: Sourced<Size>,
}

/// What others send over a link, as written.
#[derive(Debug, Deserialize)]
#[serde(rename = "Others", deny_unknown_fields)]
pub(super) struct RawOthers {
    fetch: Option<Sourced<Bandwidth>>,
    evict: Option<Sourced<Bandwidth>>,
}

impl Resolver<'_> {
    /// The set of drives of a link.
    pub(super) fn raid0(&mut self, raw: &RawLink, here: &str, fact: &str) -> Option<Raid0> {
        let raid0 = raw.raid0.as_ref()?;
        let (path, fact) = (format!("{here}.raid0"), format!("{fact}.raid0"));
        self.fact(&raid0.drives, &format!("{path}.drives"), format!("{fact}.drives"));
        let drives = raid0.drives.quantity.count(&mut self.check, &format!("{path}.drives.0"));
        self.fact(&raid0.stripe, &format!("{path}.stripe"), format!("{fact}.stripe"));
        let place = format!("{path}.stripe.0");
        let stripe = raid0.stripe.quantity.bytes(&mut self.check, &place, CAPACITY);
        let curves = [
            (raw.half.is_some(), "half"),
            (raw.mix.is_some(), "mix"),
            (raw.pageable.is_some(), "pageable"),
            (raw.fetch_sizes.is_some(), "fetch_sizes"),
            (raw.evict_sizes.is_some(), "evict_sizes"),
            (raw.fetch_depths.is_some(), "fetch_depths"),
            (raw.evict_depths.is_some(), "evict_depths"),
            (raw.write_cache.is_some(), "write_cache"),
        ];
        for (_, field) in curves.into_iter().filter(|(given, _)| *given) {
            let rule = format!("a set of drives follows from its stripes, not from `{field}`");
            self.check.fault(&path, rule, "leave one of them out");
        }
        Some(Raid0 { drives: drives?, stripe: stripe? })
    }

    /// What others send over a link in each direction.
    pub(super) fn others(
        &mut self,
        raw: &RawLink,
        here: &str,
        fact: &str,
        service: Option<&Service>,
    ) -> [Option<Bandwidth>; 2] {
        let Some(others) = &raw.others else { return [None, None] };
        let (path, fact) = (format!("{here}.others"), format!("{fact}.others"));
        if service.is_none_or(|service| service.discipline != Discipline::FairShare) {
            let rule = "`others` are copies that share, and this link shares nothing";
            self.check.fault(&path, rule, "write service: fair_share, or leave it out");
        }
        if others.fetch.is_none() && others.evict.is_none() {
            let rule = "others send something in one direction at least";
            self.check.fault(&path, rule, "write `fetch` or `evict`, or leave it out");
        }
        [("fetch", &others.fetch), ("evict", &others.evict)].map(|(word, raw)| {
            let raw = raw.as_ref()?;
            self.rate(raw, &format!("{path}.{word}"), format!("{fact}.{word}"))
        })
    }

    /// From the numbers of one drive to those of the set.
    pub(super) fn gather_drives(&mut self, hardware: &mut Hardware) {
        for index in 0..hardware.links.len() {
            let Some(raid0) = hardware.links[index].raid0 else { continue };
            let (link, here) = (&hardware.links[index], format!("links.{index}.raid0"));
            let far = hardware.tier_of(link.far);
            let drive = far.filter(|tier| hardware.tiers[tier.index()].kind == TierKind::Nvme);
            let Some(tier) = drive else {
                let rule = "a set of drives is at the far end of its link, a tier of kind nvme";
                self.check.fault(&here, rule, "turn the link around, or leave it out");
                continue;
            };
            let again = |other: &Link| other.far == link.far && other.raid0.is_some();
            if hardware.links[..index].iter().any(again) {
                let rule = "another link to this tier says already that it is a set of drives";
                self.check.fault(&here, rule, "keep one of them");
                continue;
            }
            let grown = grown(hardware, index, tier.index(), raid0);
            if grown.is_none() {
                let rule = "a number of the set leaves its range: 1 EiB or 10^18 per second";
                self.check.fault(&format!("{here}.drives"), rule, "write fewer drives");
            }
        }
    }
}

/// Multiplies the numbers of a link and its tier; `None` if one leaves its range.
fn grown(hardware: &mut Hardware, link: usize, tier: usize, raid0: Raid0) -> Option<()> {
    let drives = u64::from(raid0.drives.get());
    let rate = |rate: Bandwidth| {
        let all = rate.get().checked_mul(drives).filter(|&all| all as f64 <= RATE.most)?;
        Bandwidth::new(all)
    };
    let tier = &mut hardware.tiers[tier];
    if let Some(capacity) = tier.capacity.limit() {
        let all = capacity.get().checked_mul(drives)?;
        tier.capacity = Bytes::new(all).into();
        (all as f64 <= CAPACITY.most).then_some(())?;
    }
    tier.access = Law { rate: rate(tier.access.rate)?, ..tier.access };
    let link = &mut hardware.links[link];
    link.fetch.rate = rate(link.fetch.rate)?;
    link.evict.rate = rate(link.evict.rate)?;
    if let Some(service) = &mut link.service {
        service.total = match service.total {
            Some(total) => Some(rate(total)?),
            None => None,
        };
    }
    Some(())
}

impl Writer<'_> {
    /// How many drives a tier is; its numbers are written for one.
    pub(super) fn drives(&self, tier: &Tier) -> u64 {
        let node = self.hardware.node(&tier.name);
        let mut links = self.hardware.links.iter().filter(|link| Some(link.far) == node);
        links.find_map(|link| link.raid0).map_or(1, |raid0| raid0.drives.get().into())
    }

    /// A link's set of drives and the traffic of others, if it has any.
    pub(super) fn set_and_others(&mut self, link: &Link, place: &str) -> Result<(), Unwritable> {
        if let Some(Raid0 { drives, stripe }) = link.raid0 {
            let values = [drives.get().into(), stripe.get()];
            let units = [Drives::UNIT, Size::UNIT];
            self.group(place, "raid0", ["drives", "stripe"], values, units)?;
        }
        let mut others = Vec::new();
        for (word, rate) in ["fetch", "evict"].into_iter().zip(link.others) {
            if let Some(rate) = rate {
                let path = format!("{place}.others.{word}");
                let rate = self.sourced(path, rate.get(), Bandwidth::UNIT)?;
                others.push(format!("{word}: {rate}"));
            }
        }
        if !others.is_empty() {
            self.line(3, &format!("others: ({}),", others.join(", ")));
        }
        Ok(())
    }
}
