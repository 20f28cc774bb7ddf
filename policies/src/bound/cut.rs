//! Cuts between tiers, and the most that can cross them in a second.
//!
//! A cut is around HBM and some of the next tiers. Every copy from outside to inside crosses a
//! channel that ends in a tier inside and starts elsewhere. A channel carries no more than its law
//! allows, whatever its service: see [`channel_rate`].
//! Invariant: rates are rounded up, so what follows from them is a lower bound on time.

use tiersim_models::compression::RATIO_UNIT;
use tiersim_models::hardware::{Channel, HBM, Hardware, Law, Memory};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::service::Discipline;
use tiersim_models::units::{Bytes, PS_PER_S};

/// A cut, and what crosses it at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The tiers inside: HBM, and then others.
    pub inside: Vec<TierId>,
    /// What they hold together.
    pub capacity: u128,
    /// Bytes per second inwards, outwards, and both ways together.
    pub rates: [u128; 3],
    /// Bytes per second that one stream uses in place outside; 0 if there is nothing outside.
    pub in_place: u128,
    /// Of that, the most from tiers whose use crosses the cut over shared links, and takes its part
    /// of what they carry; 0 if there is none.
    pub flowing: u128,
    /// The most from all other tiers: what is under way on links makes no difference to it.
    pub aside: u128,
}

/// The cuts of a machine, from the one around HBM outwards: the next tier inside is the one with
/// the largest bandwidth. Those that hold all `objects` are left out, as nothing has to cross them;
/// but not the first where something is `crossed` whatever it holds, as ops of the host do it.
pub fn cuts(hardware: &Hardware, memory: &Memory, objects: &[Bytes], crossed: bool) -> Vec<Cut> {
    let largest = objects.iter().copied().max().unwrap_or(Bytes::ZERO).max(Bytes::new(1));
    let order = order(hardware);
    // What is packed crosses links in other bytes than it is charged for.
    let flowing = if memory.stores().is_some() { Vec::new() } else { flowing(hardware) };
    let mut cuts = Vec::new();
    for inner in 1..order.len() {
        let (inside, outside) = order.split_at(inner);
        let ratios = ratios(memory, inside, objects.len());
        let least = |(index, bytes): (usize, &Bytes)| {
            let ratio = ratios.as_ref().map_or(RATIO_UNIT, |ratios| ratios[index]);
            u128::from(shrunk(bytes.get(), ratio))
        };
        let all: u128 = objects.iter().enumerate().map(least).sum();
        let limits = inside.iter().map(|&tier| memory.usable(tier).limit());
        let capacity: Option<u128> = limits.map(|limit| Some(u128::from(limit?.get()))).sum();
        let capacity = match capacity.filter(|&capacity| capacity < all) {
            Some(capacity) => capacity,
            None if crossed && inner == 1 => all,
            None => break,
        };
        let most = |flows: bool| {
            let of = |tier: &TierId| per_second(hardware.tiers[tier.index()].access, largest);
            outside.iter().filter(|tier| flowing.contains(tier) == flows).map(of).max().unwrap_or(0)
        };
        let (flowing, aside) = (most(true), most(false));
        let (in_place, rates) = (flowing.max(aside), rates(hardware, inside, largest));
        cuts.push(Cut { inside: inside.to_vec(), capacity, rates, in_place, flowing, aside });
    }
    cuts
}

/// Tiers whose use in place takes its part of what links to the device carry.
pub(super) fn flowing(hardware: &Hardware) -> Vec<TierId> {
    let Ok(routes) = hardware.routes() else { return Vec::new() };
    let flows = |&tier: &TierId| tier != HBM && hardware.uses_flow(&routes, tier);
    hardware.tier_ids().filter(flows).collect()
}

/// By object: at most how many times fewer bytes of it than it has cross the cut, or lie inside, in
/// parts of [`RATIO_UNIT`]; `None` where nothing is packed.
pub(super) fn ratios(memory: &Memory, inside: &[TierId], objects: usize) -> Option<Vec<u64>> {
    let storing = memory.stores()?;
    let ids = (0..objects).map(ObjectId::at);
    Some(ids.map(|object| storing.most_ratio(object, inside)).collect())
}

/// So many bytes at a ratio, rounded down.
pub(super) fn shrunk(bytes: u64, ratio: u64) -> u64 {
    let parts = u128::from(bytes) * u128::from(RATIO_UNIT) / u128::from(ratio.max(RATIO_UNIT));
    // No more than the bytes.
    parts as u64
}

/// HBM, and then the other tiers by falling bandwidth in place.
pub(super) fn order(hardware: &Hardware) -> Vec<TierId> {
    let mut order: Vec<TierId> = hardware.tier_ids().collect();
    let rate = |tier: TierId| hardware.tiers[tier.index()].access.rate;
    order[1..].sort_by_key(|&tier| (std::cmp::Reverse(rate(tier)), tier));
    order
}

/// The tiers inside of a cut, numbered from the one around HBM, in words.
pub(super) fn words(hardware: &Hardware, cut: u8) -> String {
    let order = order(hardware);
    let names = order.iter().take(usize::from(cut) + 1);
    let names = names.map(|tier| hardware.tiers[tier.index()].name.as_str());
    names.collect::<Vec<_>>().join(" and ")
}

/// What a law comes to with objects of at most `largest` bytes, rounded up: a copy or use of less
/// has the same set-up for less.
fn per_second(law: Law, largest: Bytes) -> u128 {
    let Some(span) = law.rate.checked_span_of(largest.get()) else { return law.rate.get().into() };
    let span = u128::from(law.setup.ps()) + u128::from(span.ps());
    let whole = (u128::from(largest.get()) * u128::from(PS_PER_S)).div_ceil(span.max(1));
    whole.min(u128::from(law.rate.get()))
}

/// The most that copies of at most `largest` bytes reach over a channel, in bytes per second.
///
/// First come, first served: each of the channels serves one copy at a time, with its set-up and at
/// no more than the best point of the size table. Shared: set-ups overlap, so no more than the
/// rate, or the last point of the ramp. Others, tails, caches and unequal stripes only take from
/// that.
fn channel_rate(hardware: &Hardware, channel: Channel, largest: Bytes) -> u128 {
    let service = hardware.links[channel.link.index()].service.as_ref();
    let fifo = service.filter(|service| service.discipline != Discipline::FairShare);
    copy_rate(hardware, channel, largest) * fifo.map_or(1, |fifo| u128::from(fifo.at_once()))
}

/// The most that one of these copies reaches; where they share the channel, as much as all of them.
fn copy_rate(hardware: &Hardware, channel: Channel, largest: Bytes) -> u128 {
    let law = hardware.channel_law(channel);
    let Some(service) = &hardware.links[channel.link.index()].service else {
        return per_second(law, largest);
    };
    let detail = service.detail(channel.evicting);
    let full = u128::from(law.rate.get());
    if service.discipline == Discipline::FairShare {
        let ramp = detail.depths.iter().map(|point| u128::from(point.1.get())).max();
        return ramp.unwrap_or(full).min(full);
    }
    let sized = detail.sizes.iter().map(|point| u128::from(point.1.get())).max();
    per_second(law, largest).min(sized.unwrap_or(full))
}

/// The most that one copy of at most `largest` bytes reaches, inwards and outwards: it takes one of
/// the channels.
#[cfg(feature = "lp")]
pub(super) fn alone(hardware: &Hardware, inside: &[TierId], largest: Bytes) -> [u128; 2] {
    let mut most = [0; 2];
    for channel in hardware.channels() {
        if let Some(way) = way(hardware, inside, channel) {
            most[way] = most[way].max(copy_rate(hardware, channel, largest));
        }
    }
    most
}

/// Whether a channel crosses the cut, inwards (0) or outwards (1).
fn way(hardware: &Hardware, inside: &[TierId], channel: Channel) -> Option<usize> {
    let (from, to) = hardware.channel_ends(channel);
    let inside = |end| hardware.tier_of(end).is_some_and(|tier| inside.contains(&tier));
    match (inside(from), inside(to)) {
        (false, true) => Some(0),
        (true, false) => Some(1),
        _ => None,
    }
}

/// Inwards, outwards and both ways, over all links that cross the cut.
pub(super) fn rates(hardware: &Hardware, inside: &[TierId], largest: Bytes) -> [u128; 3] {
    let mut sums = [0; 3];
    for pair in hardware.channels().collect::<Vec<_>>().chunks(2) {
        let mut ways = [0, 0];
        for &channel in pair {
            if let Some(way) = way(hardware, inside, channel) {
                ways[way] = channel_rate(hardware, channel, largest);
            }
        }
        // Both directions of a link may share one total, which is the most that either has.
        let service = hardware.links[pair[0].link.index()].service.as_ref();
        let shared = service.filter(|service| service.discipline == Discipline::FairShare);
        let total = shared.and_then(|service| service.total).map_or(u128::MAX, |t| t.get().into());
        sums[0] += ways[0].min(total);
        sums[1] += ways[1].min(total);
        sums[2] += (ways[0] + ways[1]).min(total);
    }
    sums
}
