//! Random sets of drives, traffic of others, and links of pageable memory, on a drawn machine.
//!
//! Invariant: what is drawn obeys the rules of hardware files: a set is at the far end of its link,
//! a tier of kind nvme that is in no other set, and follows from its stripes, not from tables.

use super::dice::Dice;
use crate::prelude::*;
use tiersim_models::hidden::{Hidden, What};
use tiersim_models::raid0::Raid0;
use tiersim_policies::transit::BOUNCE;

/// Makes some links lead to sets of drives, some busy with the copies of others.
pub(super) fn drives_and_others(dice: &mut Dice, hardware: &mut Hardware) {
    let mut sets = Vec::new();
    for index in 0..hardware.links.len() {
        let far = hardware.tier_of(hardware.links[index].far);
        let drive = far.filter(|tier| hardware.tiers[tier.index()].kind == TierKind::Nvme);
        if let Some(tier) = drive
            && !sets.contains(&tier)
            && dice.chance(35)
        {
            sets.push(tier);
            let raid0 = gather(dice, &mut hardware.links[index]);
            let access = &mut hardware.tiers[tier.index()].access;
            access.rate = times(access.rate, raid0.drives);
        }
        let link = &mut hardware.links[index];
        let shared = |service: &Service| service.discipline == Discipline::FairShare;
        if link.service.as_ref().is_some_and(shared) && dice.chance(15) {
            let rate = link.read.rate.max(link.write.rate).get();
            let mut other = || dice.chance(60).then(|| dice.rate((rate / 100).max(1)..=rate * 3));
            link.background = [other(), other()];
        }
    }
}

/// Makes the far end of a link a set of drives, each as fast as the one before.
fn gather(dice: &mut Dice, link: &mut Link) -> Raid0 {
    let drives = NonZeroU32::new(dice.log(1..=16) as u32).expect("above zero");
    let raid0 = Raid0 { drives, stripe: dice.bytes(1..=8 << 20) };
    for law in [&mut link.read, &mut link.write] {
        law.rate = times(law.rate, drives);
    }
    if let Some(service) = &mut link.service {
        service.total = service.total.map(|total| times(total, drives));
        service.mix.clear();
        for detail in [&mut service.read, &mut service.write] {
            *detail = Detail { tail: detail.tail, ..Detail::default() };
        }
    }
    link.raid0 = Some(raid0);
    raid0
}

fn times(rate: Bandwidth, drives: NonZeroU32) -> Bandwidth {
    Bandwidth::new(rate.get() * u64::from(drives.get())).expect("above zero")
}

/// The buffers of links that copy from and to pageable memory. That such links are slower is no
/// draw of its own: rates are drawn anyhow.
pub(super) fn staging(dice: &mut Dice, hardware: &Hardware) -> Vec<Hidden> {
    let mut staged: Vec<Hidden> = Vec::new();
    for link in &hardware.links {
        let Some(tier) = hardware.tier_of(link.far).filter(|_| dice.chance(6)) else { continue };
        let bytes = Bytes::new(hardware.chunk.get().saturating_mul(2 * u64::from(BOUNCE)));
        match staged.iter_mut().find(|known| known.tier == tier) {
            Some(known) => known.bytes = Bytes::new(known.bytes.get().saturating_add(bytes.get())),
            None => staged.push(Hidden { tier, what: What::Staging, bytes }),
        }
    }
    staged
}
