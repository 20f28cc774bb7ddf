//! How a copy travels its route: in one piece over one hop, in chunks over several.
//!
//! A hop is one channel, or several that are crossed at the same time; between two hops a copy is
//! stored. Every machine carries copies by these rules, so that a simulated and a real copy differ
//! in time only.
//! Where an object is packed on its way ([`tiersim_models::compression`]) hops carry different bytes:
//! then all of them go in the same number of equal pieces.
//! Invariant: a copy has at most one piece on a hop at a time, no piece leaves for a hop before it
//! has arrived from the one before, and at most [`BOUNCE`] of its pieces lie between two hops.

use crate::state::remember;
use smallvec::SmallVec;
use tiersim_models::compression::pieces;
use tiersim_models::units::Bytes;

/// Pieces of one copy that may lie between two hops of its route (the bounce buffers).
pub const BOUNCE: u32 = 4;

/// How far a copy has come on each of its hops.
#[derive(Clone, Debug)]
pub struct Transit {
    bytes: Bytes,
    chunk: Bytes,
    /// Bytes by hop, where they differ: in equal pieces.
    packed: Option<Box<[Bytes]>>,
    pieces: u32,
    hops: SmallVec<[Hop; 2]>,
    /// The channels of all hops, in order.
    channels: SmallVec<[usize; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct Hop {
    /// Where its channels end among all.
    end: u16,
    /// Pieces that have entered the hop's queue.
    queued: u32,
    /// Pieces that have crossed the hop.
    done: u32,
}

/// One piece of a copy on one of its hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HopPiece {
    /// Position of the hop in the route.
    pub hop: usize,
    /// Which piece, from 0.
    pub number: u32,
    /// Where in the object it starts.
    pub from: Bytes,
    /// Its size.
    pub bytes: Bytes,
}

remember! {
    Transit { bytes, chunk, pieces, packed, hops, channels };
    Hop { end, queued, done };
    HopPiece { hop, number, from, bytes };
}

impl Transit {
    /// A copy of `bytes` over the channels of `route`, one after the other, in chunks of `chunk` if
    /// these are several.
    pub fn new(route: impl IntoIterator<Item = usize>, bytes: Bytes, chunk: Bytes) -> Transit {
        Transit::over(route.into_iter().map(|channel| [channel]), bytes, chunk)
    }

    /// A copy of `bytes` over hops of so many channels each, in chunks of `chunk` if these are
    /// several.
    pub fn over<H: IntoIterator<Item = usize>>(
        route: impl IntoIterator<Item = H>,
        bytes: Bytes,
        chunk: Bytes,
    ) -> Transit {
        let mut channels: SmallVec<[usize; 4]> = SmallVec::new();
        let hop = |hop: H| {
            let before = channels.len();
            channels.extend(hop);
            assert!(channels.len() > before, "a hop crosses something");
            let end = u16::try_from(channels.len()).expect("fewer than 2^16 channels on a route");
            Hop { end, queued: 0, done: 0 }
        };
        let hops: SmallVec<[Hop; 2]> = route.into_iter().map(hop).collect();
        assert!(!hops.is_empty(), "a copy goes somewhere");
        let whole = hops.len() == 1 || bytes <= chunk;
        let chunk = if whole { bytes } else { chunk };
        let pieces = if whole { 1 } else { bytes.get().div_ceil(chunk.get()) };
        let pieces = u32::try_from(pieces).expect("fewer than 2^32 chunks in a copy");
        Transit { bytes, chunk, pieces, packed: None, hops, channels }
    }

    /// A copy over hops of so many channels each, with the bytes that cross each of them: in equal
    /// pieces, as many as there are chunks in the most that a hop carries.
    pub fn packed<H: IntoIterator<Item = usize>>(
        route: impl IntoIterator<Item = (H, Bytes)>,
        chunk: Bytes,
    ) -> Transit {
        let (hops, carried): (Vec<H>, Vec<Bytes>) = route.into_iter().unzip();
        let most = carried.iter().copied().max().expect("a copy goes somewhere");
        let least = carried.iter().copied().min().expect("a copy goes somewhere");
        let count = if hops.len() == 1 { 1 } else { pieces(most, least, chunk) };
        let mut transit = Transit::over(hops, most, most);
        transit.pieces = u32::try_from(count).expect("fewer than 2^32 chunks in a copy");
        transit.chunk = Bytes::new(most.get().div_ceil(count));
        transit.packed = Some(carried.into());
        transit
    }

    /// Bytes of the whole copy that cross a hop.
    pub fn carried(&self, hop: usize) -> Bytes {
        self.packed.as_ref().map_or(self.bytes, |carried| carried[hop])
    }

    /// The channels of the route, in order, each with the largest piece that crosses it.
    pub fn largest_pieces(&self) -> impl Iterator<Item = (usize, Bytes)> + '_ {
        let pieces = u64::from(self.pieces);
        self.carries().map(move |(channel, bytes)| match &self.packed {
            Some(_) => (channel, Bytes::new(bytes.get().div_ceil(pieces))),
            None => (channel, self.chunk),
        })
    }

    /// The channels of the route, in order, each with the bytes of the whole copy that cross it.
    pub fn carries(&self) -> impl Iterator<Item = (usize, Bytes)> + '_ {
        let hops = 0..self.hops.len();
        hops.flat_map(move |hop| self.channels_of(hop).iter().map(move |&c| (c, self.carried(hop))))
    }

    /// The size of every piece but perhaps the last.
    pub fn chunk(&self) -> Bytes {
        self.chunk
    }

    /// The channels of the route, in order.
    pub fn channels(&self) -> impl Iterator<Item = usize> + '_ {
        self.channels.iter().copied()
    }

    /// The channels of a hop, in order.
    pub fn channels_of(&self, hop: usize) -> &[usize] {
        let start = hop.checked_sub(1).map_or(0, |before| self.hops[before].end);
        &self.channels[usize::from(start)..usize::from(self.hops[hop].end)]
    }

    /// The first channel of a hop.
    pub fn channel(&self, hop: usize) -> usize {
        self.channels_of(hop)[0]
    }

    /// Whether the hop is the last of the route.
    pub fn is_last_hop(&self, hop: usize) -> bool {
        hop + 1 == self.hops.len()
    }

    /// Whether the piece is the last of the copy.
    pub fn is_last_piece(&self, part: &HopPiece) -> bool {
        part.number + 1 == self.pieces
    }

    /// Takes the next piece for a hop, if one may go there now.
    pub fn next(&mut self, hop: usize) -> Option<HopPiece> {
        let Hop { queued, done, .. } = self.hops[hop];
        let arrived = hop == 0 || self.hops[hop - 1].done > queued;
        let buffered = self.hops.get(hop + 1).map_or(0, |next| queued - next.done);
        if queued != done || queued == self.pieces || !arrived || buffered >= BOUNCE {
            return None;
        }
        self.hops[hop].queued += 1;
        let (from, bytes) = self.piece(hop, queued);
        Some(HopPiece { hop, number: queued, from: Bytes::new(from), bytes: Bytes::new(bytes) })
    }

    /// Where a piece starts on a hop, and its size there.
    fn piece(&self, hop: usize, number: u32) -> (u64, u64) {
        let Some(carried) = &self.packed else {
            let from = self.chunk.get() * u64::from(number);
            return (from, self.chunk.get().min(self.bytes.get() - from));
        };
        let share = |number: u32| {
            let all = u128::from(carried[hop].get()) * u128::from(number);
            (all / u128::from(self.pieces)) as u64
        };
        let from = share(number);
        (from, share(number + 1) - from)
    }

    /// A piece has crossed a hop. The hops that may now take another: this one, the next, and,
    /// a buffer having become free, the one before; `None` if the whole copy has arrived.
    pub fn copied(&mut self, hop: usize) -> Option<SmallVec<[usize; 3]>> {
        self.hops[hop].done += 1;
        if self.is_last_hop(hop) && self.hops[hop].done == self.pieces {
            return None;
        }
        let next = (!self.is_last_hop(hop)).then_some(hop + 1);
        Some([Some(hop), next, hop.checked_sub(1)].into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transit(channels: usize, bytes: u64, chunk: u64) -> Transit {
        Transit::new(0..channels, Bytes::new(bytes), Bytes::new(chunk))
    }

    #[test]
    fn one_channel_takes_the_copy_whole() {
        let mut copy = transit(1, 1000, 10);
        let part = copy.next(0).expect("the first piece");
        assert_eq!((part.bytes, copy.is_last_piece(&part)), (Bytes::new(1000), true));
        assert_eq!(copy.next(0), None);
        assert_eq!(copy.copied(0), None);
    }

    #[test]
    fn channels_that_are_crossed_at_the_same_time_are_one_hop() {
        let over = |hops: &[&[usize]]| {
            let hops = hops.iter().map(|hop| hop.iter().copied());
            Transit::over(hops, Bytes::new(1000), Bytes::new(10))
        };
        let mut copy = over(&[&[4, 7, 2]]);
        assert_eq!(copy.next(0).map(|part| part.bytes), Some(Bytes::new(1000)));
        assert_eq!((copy.channel(0), copy.channels_of(0)), (4, &[4, 7, 2][..]));
        assert_eq!(copy.copied(0), None);
        let mut copy = over(&[&[4], &[7, 2]]);
        assert_eq!(copy.next(0).map(|part| part.bytes), Some(Bytes::new(10)));
        assert_eq!((copy.channels_of(0), copy.channels_of(1)), (&[4][..], &[7, 2][..]));
        assert_eq!(copy.channels().collect::<Vec<_>>(), [4, 7, 2]);
    }

    #[test]
    fn every_byte_crosses_every_channel_once_in_order() {
        for (channels, bytes, chunk) in [(2, 95, 10), (3, 100, 10), (2, 5, 10), (4, 41, 1)] {
            let mut copy = transit(channels, bytes, chunk);
            let mut crossed = vec![0; channels];
            let mut under_way: Vec<HopPiece> = copy.next(0).into_iter().collect();
            while let Some(part) = under_way.pop() {
                assert_eq!(part.from.get(), crossed[part.hop]);
                crossed[part.hop] += part.bytes.get();
                let Some(hops) = copy.copied(part.hop) else { break };
                under_way.extend(hops.into_iter().filter_map(|hop| copy.next(hop)));
            }
            assert_eq!(crossed, vec![bytes; channels]);
        }
    }

    #[test]
    fn hops_that_carry_packed_bytes_have_as_many_pieces_and_none_is_empty() {
        let sizes = |plain: u64, packed: u64, chunk: u64| {
            let hops = [([3], packed), ([9], plain), ([5], plain)];
            let hops = hops.map(|(hop, bytes)| (hop, Bytes::new(bytes)));
            let mut copy = Transit::packed(hops, Bytes::new(chunk));
            let mut sizes = vec![Vec::new(); 3];
            let mut under_way: Vec<HopPiece> = copy.next(0).into_iter().collect();
            while let Some(part) = under_way.pop() {
                assert_eq!(part.from.get(), sizes[part.hop].iter().sum::<u64>());
                sizes[part.hop].push(part.bytes.get());
                let Some(hops) = copy.copied(part.hop) else { break };
                under_way.extend(hops.into_iter().filter_map(|hop| copy.next(hop)));
            }
            let carries: Vec<(usize, u64)> = copy.carries().map(|(c, b)| (c, b.get())).collect();
            assert_eq!(carries, [(3, packed), (9, plain), (5, plain)]);
            sizes
        };
        assert_eq!(sizes(100, 40, 25), [vec![10; 4], vec![25; 4], vec![25; 4]]);
        assert_eq!(sizes(7, 2, 1), [vec![1, 1], vec![3, 4], vec![3, 4]]);
        assert_eq!(sizes(10, 1, 4), [vec![1], vec![10], vec![10]]);
    }

    #[test]
    fn no_more_than_the_bounce_buffers_hold_wait_before_a_channel() {
        let mut copy = transit(2, 100, 10);
        for _ in 0..BOUNCE {
            copy.next(0).expect("a buffer is free");
            copy.copied(0);
        }
        assert_eq!(copy.next(0), None, "all buffers are full");
        copy.next(1).expect("a piece has arrived");
        assert_eq!(copy.next(0), None, "its buffer is in use until it has been copied");
        assert!(copy.copied(1).expect("more is to come").contains(&0));
        assert!(copy.next(0).is_some());
    }
}
