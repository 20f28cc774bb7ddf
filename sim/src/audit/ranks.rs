//! The names of a rank's things among those of all ranks.
//!
//! Invariant: of one rank, everything keeps its name.

use std::borrow::Cow;
use tiersim_models::hardware::{Hardware, Memory};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::instances::Instances;
use tiersim_models::units::Bytes;
use tiersim_policies::command::{Allocation, Command, Ticket, Work};

/// The rank that a ticket is of.
pub(super) fn rank_of(instances: &Instances, ticket: Ticket) -> u32 {
    ticket.0 % instances.ranks()
}

/// Whether both are of the same rank.
pub(super) fn are_of_one(instances: &Instances, one: Ticket, other: Ticket) -> bool {
    rank_of(instances, one) == rank_of(instances, other)
}

fn object_of(instances: &Instances, object: ObjectId, rank: u32) -> ObjectId {
    let all = u64::from(object.0) * u64::from(instances.ranks()) + u64::from(rank);
    ObjectId(u32::try_from(all).expect("fewer than 2^32 objects of all ranks"))
}

/// The object of one rank that an object of all ranks is.
pub(super) fn object_of_one(instances: &Instances, object: ObjectId) -> ObjectId {
    ObjectId(object.0 / instances.ranks())
}

fn room_of(instances: &Instances, room: &Allocation, rank: u32) -> Allocation {
    let Allocation { object, tier, bytes } = *room;
    let (object, tier) = (object_of(instances, object, rank), instances.tier(tier, rank));
    Allocation { object, tier, bytes }
}

/// What all ranks hold at first, where each holds `start`.
pub(super) fn rooms(instances: &Instances, start: &[Allocation]) -> Vec<Allocation> {
    let of_rank = |rank| start.iter().map(move |room| room_of(instances, room, rank));
    (0..instances.ranks()).flat_map(of_rank).collect()
}

/// By instance of a tier: the shares of all devices that use it.
pub(super) fn capacities(instances: &Instances, memory: &Memory) -> Vec<Bytes> {
    let mut all = vec![0u64; instances.hardware().tiers.len()];
    for rank in 0..instances.ranks() {
        for (tier, share) in memory.all_usable().iter().enumerate() {
            let capacity = &mut all[instances.tier(TierId::at(tier), rank).index()];
            *capacity = capacity.saturating_add(share.most().get());
        }
    }
    all.into_iter().map(Bytes::new).collect()
}

/// Which channels serve one after the other: two per link, then those from a tier to itself.
pub(super) fn in_order(all: &Hardware) -> Vec<bool> {
    let links = all.channels().map(|channel| all.is_in_order(channel));
    links.chain(all.tiers.iter().map(|_| true)).collect()
}

/// The stream of a ticket's rank among those of all ranks.
pub(super) fn stream(instances: &Instances, stream: u16, ticket: Ticket) -> usize {
    usize::from(stream) * instances.ranks() as usize + rank_of(instances, ticket) as usize
}

/// A rank's command with the names of its objects and tiers among those of all ranks.
pub(super) fn renamed<'c>(instances: &Instances, command: &'c Command) -> Cow<'c, Command> {
    if instances.ranks() == 1 {
        return Cow::Borrowed(command);
    }
    let mut command = command.clone();
    let rank = rank_of(instances, command.ticket);
    let object = |object: &mut ObjectId| *object = object_of(instances, *object, rank);
    let tier = |tier: &mut TierId| *tier = instances.tier(*tier, rank);
    let room = |room: &mut Allocation| *room = room_of(instances, room, rank);
    command.allocates.iter_mut().for_each(room);
    command.frees.iter_mut().for_each(room);
    match &mut command.work {
        Work::Compute { touches, charges, .. } => {
            for touch in touches {
                object(&mut touch.object);
                tier(&mut touch.tier);
            }
            charges.iter_mut().for_each(|(charged, _)| tier(charged));
        }
        Work::Copy { object: copied, from, to, .. } => {
            object(copied);
            tier(from);
            tier(to);
        }
        Work::Compact { tier: within, objects, .. } => {
            tier(within);
            objects.iter_mut().for_each(object);
        }
        Work::Release => {}
    }
    Cow::Owned(command)
}
