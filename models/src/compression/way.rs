//! The way of a copy whose ends store the object in different formats: the hops of its route, with
//! packing and unpacking between them.
//!
//! Invariant: each hop carries the stored bytes of the format in which the object is there, and
//! each of a format's channels carries the object's own bytes.

use crate::compression::format::Format;
use crate::hardware::{Channel, Hardware, MAX_TIERS};
use crate::ids::TierId;
use crate::routes::Routes;
use crate::units::{Bytes, Span};

/// What a copy crosses at one time, and how many bytes that carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage<'a> {
    /// Channels of links, or the one of a format.
    pub channels: &'a [Channel],
    /// Bytes of the whole copy that cross it.
    pub bytes: Bytes,
}

/// Two tiers between which a format has no place to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace {
    /// Where copies start.
    pub from: TierId,
    /// Where they end.
    pub to: TierId,
}

/// Where a format works on the routes between two tiers: behind so many hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Of what comes from the first: where it is unpacked.
    unpack: [[u8; MAX_TIERS]; MAX_TIERS],
    /// Of what goes to the second: where it is packed.
    pack: [[u8; MAX_TIERS]; MAX_TIERS],
    /// Tiers in which that is, as a set.
    working: u8,
}

impl Place {
    /// Whether something packed may cross a border that leaves some tiers inside: if the tier, the
    /// others of the format and those in which it works are not all on one side.
    pub(super) fn spreads(
        &self,
        tier: TierId,
        others: &[TierId],
        is_inside: impl Fn(&TierId) -> bool,
    ) -> bool {
        let working = (0..MAX_TIERS).map(TierId::at);
        let mut working = working.filter(|tier| self.working >> tier.index() & 1 == 1);
        let side = is_inside(&tier);
        others.iter().any(|other| is_inside(other) != side)
            || working.any(|other| is_inside(&other) != side)
    }
}

/// The first two tiers between which copies pass no place where a format could work.
pub fn problem(format: &Format, hardware: &Hardware, routes: &Routes) -> Option<NoPlace> {
    places(format, hardware, routes).err()
}

/// Where a format works; the first two tiers between which it cannot.
pub(super) fn places(
    format: &Format,
    hardware: &Hardware,
    routes: &Routes,
) -> Result<Place, NoPlace> {
    let none = [[0; MAX_TIERS]; MAX_TIERS];
    let mut place = Place { unpack: none, pack: none, working: 0 };
    let others = || hardware.tier_ids().filter(|tier| !format.tiers.contains(tier));
    for &tier in &format.tiers {
        for other in others() {
            for (from, to) in [(tier, other), (other, tier)] {
                let stops = stops(hardware, routes, from, to);
                let works = |at: &usize| {
                    let kind = stops[*at].map(|tier| hardware.tiers[tier.index()].kind);
                    kind.is_some_and(|kind| format.by.works_in(kind))
                };
                let mut found = (0..stops.len()).filter(works);
                // Bytes are packed from there on, or up to there.
                let at = if from == tier { found.next() } else { found.next_back() };
                let at = at.ok_or(NoPlace { from, to })?;
                let table = if from == tier { &mut place.unpack } else { &mut place.pack };
                table[from.index()][to.index()] = at as u8;
                if let Some(there) = stops[at] {
                    place.working |= 1 << there.index();
                }
            }
        }
    }
    Ok(place)
}

/// The tiers at the ends of the hops of a route, the start first; `None` for a node without memory.
fn stops(hardware: &Hardware, routes: &Routes, from: TierId, to: TierId) -> Vec<Option<TierId>> {
    let end = |hop: &[Channel]| {
        let last = hop.last().expect("a hop crosses something");
        hardware.tier_of(hardware.channel_ends(*last).1)
    };
    std::iter::once(Some(from)).chain(routes.hops(from, to).map(end)).collect()
}

/// The way of so many bytes of an object from one tier to another, each of which stores it in one
/// of `formats` or as it is; the place of each format is beside it.
pub(super) fn stages<'a>(
    [before, behind]: [Option<(&'a Format, &Place)>; 2],
    routes: &'a Routes,
    (from, to): (TierId, TierId),
    bytes: Bytes,
) -> Vec<Stage<'a>> {
    let ends = (from.index(), to.index());
    let same = before.zip(behind).is_some_and(|((one, _), (other, _))| one.name == other.name);
    // Behind how many hops it is unpacked, and packed: never, if it goes as it is.
    let never = usize::MAX;
    let unpacked = before.map(|(format, place)| {
        (format, if same { never } else { usize::from(place.unpack[ends.0][ends.1]) })
    });
    let packed = behind.filter(|_| !same);
    let packed = packed.map(|(format, place)| (format, usize::from(place.pack[ends.0][ends.1])));
    let mut stages = Vec::new();
    let works = |stages: &mut Vec<Stage<'a>>, hops: usize| {
        for (work, channel) in [(unpacked, 0), (packed, 1)] {
            if let Some((format, _)) = work.filter(|&(_, at)| at == hops) {
                stages.push(Stage { channels: &format.channels[channel..=channel], bytes });
            }
        }
    };
    works(&mut stages, 0);
    for (hop, channels) in routes.hops(from, to).enumerate() {
        let still = unpacked.filter(|&(_, at)| at > hop);
        let already = packed.filter(|&(_, at)| at <= hop);
        let carried = still.or(already).map_or(bytes, |(format, _)| format.stored(bytes));
        stages.push(Stage { channels, bytes: carried });
        works(&mut stages, hop + 1);
    }
    stages
}

/// In how many pieces a copy goes whose largest stage carries `most` bytes and whose smallest
/// `least`: as many as the largest has chunks, and none of them is empty.
pub fn pieces(most: Bytes, least: Bytes, chunk: Bytes) -> u64 {
    most.get().div_ceil(chunk.get().max(1)).min(least.get()).max(1)
}

/// How long a copy takes that is alone: the first piece crosses all stages, and then the slowest of
/// them takes the others. Source: in a line of stations with equal pieces the last piece leaves
/// after the sum of the service times and, for each piece before it, the longest of them.
pub(super) fn alone(stages: &[Stage<'_>], hardware: &Hardware) -> Span {
    let sizes = || stages.iter().map(|stage| stage.bytes);
    let (Some(most), Some(least)) = (sizes().max(), sizes().min()) else { return Span::ZERO };
    let count = if stages.len() < 2 { 1 } else { pieces(most, least, hardware.chunk) };
    let one = |stage: &Stage<'_>| {
        let laws = || stage.channels.iter().map(|&channel| hardware.channel_law(channel));
        let setup: Span = laws().map(|law| law.setup).sum();
        let rate = laws().map(|law| law.rate).min().expect("a stage crosses something");
        setup.ps().saturating_add(rate.span_of(stage.bytes.get().div_ceil(count)).ps())
    };
    let sum = stages.iter().map(one).fold(0u64, u64::saturating_add);
    let longest = stages.iter().map(one).max().unwrap_or(0);
    Span::from_ps(sum.saturating_add(longest.saturating_mul(count - 1)))
}
