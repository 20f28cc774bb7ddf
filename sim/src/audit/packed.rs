//! The auditor's account of what tiers store packed: how much room that takes, and what each copy
//! brings over links and through formats.
//!
//! Sizes are worked out here again, by multiplication alone. Invariant: without formats it says
//! nothing.

use super::{Breach, ranks};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::compression::{Format, Packer, RATIO_UNIT, Storing};
use tiersim_models::hardware::{Hardware, Memory};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::instances::Instances;
use tiersim_models::units::Bytes;
use tiersim_policies::command::{Allocation, Ticket};

/// What is known of packing.
#[derive(Debug)]
pub(super) struct Packing {
    storing: Storing,
    /// By channel of one device: whether it is of a format.
    formats: Vec<bool>,
    /// By copy under way: bytes that have left each channel.
    left: BTreeMap<Ticket, SmallVec<[(usize, u128); 4]>>,
}

/// Whether `stored` is `whole` at the format's ratio, rounded up.
fn is_packed(format: &Format, whole: u128, stored: u128) -> bool {
    let (ratio, whole) = (u128::from(format.ratio), whole * u128::from(RATIO_UNIT));
    stored * ratio >= whole && (stored == 0 || (stored - 1) * ratio < whole)
}

impl Packing {
    pub(super) fn new(hardware: &Hardware, memory: &Memory) -> Option<Packing> {
        let storing = memory.stores()?.clone();
        let channel = |link: &tiersim_models::hardware::Link| [link.is_format(); 2];
        let formats = hardware.links.iter().flat_map(channel).collect();
        Some(Packing { storing, formats, left: BTreeMap::new() })
    }

    /// An object's own bytes.
    pub(super) fn whole(&self, instances: &Instances, object: ObjectId) -> Bytes {
        self.storing.whole(ranks::object_of_one(instances, object))
    }

    fn format(&self, instances: &Instances, object: ObjectId, tier: TierId) -> Option<&Format> {
        let tier = TierId::at(instances.tier_kind(tier.index()));
        self.storing.format(ranks::object_of_one(instances, object), tier)
    }

    /// That a room is as large as what is stored there.
    pub(super) fn room(&self, instances: &Instances, room: &Allocation) -> Result<(), Breach> {
        let Allocation { object, tier, bytes } = *room;
        let whole = self.whole(instances, object);
        let right = match self.format(instances, object, tier) {
            None => bytes == whole,
            Some(format) => is_packed(format, whole.get().into(), bytes.get().into()),
        };
        rule!(right, "{object:?} of {whole} takes {bytes} of {tier:?}");
        Ok(())
    }

    /// A piece of a copy has left a channel.
    pub(super) fn leaves(&mut self, channel: usize, copy: Ticket, bytes: Bytes) {
        let left = self.left.entry(copy).or_default();
        let bytes = u128::from(bytes.get());
        match left.iter_mut().find(|(known, _)| *known == channel) {
            Some((_, sum)) => *sum += bytes,
            None => left.push((channel, bytes)),
        }
    }

    /// Something else has ended.
    pub(super) fn ended(&mut self, ticket: Ticket) {
        self.left.remove(&ticket);
    }

    /// A copy has ended that brings so many bytes of an object: formats carried all of them, once,
    /// and links as many as they are stored in where they are packed.
    pub(super) fn copied(
        &mut self,
        instances: &Instances,
        copy: Ticket,
        (object, bytes): (ObjectId, Bytes),
        (from, to): (TierId, TierId),
    ) -> Result<(), Breach> {
        let left = self.left.remove(&copy).unwrap_or_default();
        let ends = [from, to].map(|tier| self.format(instances, object, tier));
        let whole = u128::from(bytes.get());
        let same = ends[0].zip(ends[1]).is_some_and(|(one, other)| one == other);
        let [unpacked, packed] = ends;
        let own = |way: usize| ends[way].filter(|_| !same).map(|f| f.channels[way].index());
        let mut works: Vec<usize> = [own(0), own(1)].into_iter().flatten().collect();
        for &(channel, carried) in &left {
            let channel = instances.kind(channel);
            if self.formats.get(channel).copied().unwrap_or(false) {
                let place = works.iter().position(|&own| own == channel);
                rule!(place.is_some(), "{copy:?} goes through channel {channel}, a format's");
                works.remove(place.expect("it is there"));
                rule!(carried == whole, "{copy:?} packs or unpacks {carried} of {whole}");
                continue;
            }
            let is = |format: &Format| is_packed(format, whole, carried);
            let by_device = ends.iter().flatten().any(|format| format.by == Packer::Device);
            let plain = carried == whole && !same && !by_device;
            let right = plain || unpacked.is_some_and(is) || packed.is_some_and(is);
            let none = unpacked.is_none() && packed.is_none();
            let right = right || (none && carried == whole);
            rule!(right, "{copy:?} of {whole} brings {carried} over channel {channel}");
        }
        rule!(works.is_empty(), "{copy:?} is not packed or unpacked by {works:?}");
        Ok(())
    }
}
