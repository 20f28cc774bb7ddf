//! How a copy travels its route: in one piece over one lane, in chunks over several.
//!
//! Every machine carries copies by these rules, so that a simulated and a real copy differ in time
//! only.
//! Invariant: a copy has at most one piece on a lane at a time, no piece leaves for a lane before it
//! has arrived from the one before, and at most [`BOUNCE`] of its pieces lie between two lanes.

use smallvec::SmallVec;
use tiersim_models::units::Bytes;

/// Pieces of one copy that may lie between two lanes of its route (the bounce buffers).
pub const BOUNCE: u32 = 4;

/// How far a copy has come on each of its lanes.
#[derive(Clone, Debug)]
pub struct Transit {
    bytes: Bytes,
    chunk: Bytes,
    pieces: u32,
    hops: SmallVec<[Hop; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Hop {
    lane: usize,
    /// Pieces that have entered the lane's queue.
    queued: u32,
    /// Pieces that the lane has copied.
    done: u32,
}

/// One piece of a copy on one of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Position of the lane in the route.
    pub hop: usize,
    /// Which piece, from 0.
    pub number: u32,
    /// Where in the object it starts.
    pub from: Bytes,
    /// Its size.
    pub bytes: Bytes,
}

impl Transit {
    /// A copy of `bytes` over the lanes of `route`, in chunks of `chunk` if these are several.
    pub fn new(route: impl IntoIterator<Item = usize>, bytes: Bytes, chunk: Bytes) -> Transit {
        let hop = |lane| Hop { lane, queued: 0, done: 0 };
        let hops: SmallVec<[Hop; 2]> = route.into_iter().map(hop).collect();
        assert!(!hops.is_empty(), "a copy goes somewhere");
        let whole = hops.len() == 1 || bytes <= chunk;
        let chunk = if whole { bytes } else { chunk };
        let pieces = if whole { 1 } else { bytes.get().div_ceil(chunk.get()) };
        let pieces = u32::try_from(pieces).expect("fewer than 2^32 chunks in a copy");
        Transit { bytes, chunk, pieces, hops }
    }

    /// The size of every piece but perhaps the last.
    pub fn chunk(&self) -> Bytes {
        self.chunk
    }

    /// The lanes of the route, in order.
    pub fn lanes(&self) -> impl Iterator<Item = usize> + '_ {
        self.hops.iter().map(|hop| hop.lane)
    }

    /// The lane at a position of the route.
    pub fn lane(&self, hop: usize) -> usize {
        self.hops[hop].lane
    }

    /// Whether the lane is the last of the route.
    pub fn is_last_hop(&self, hop: usize) -> bool {
        hop + 1 == self.hops.len()
    }

    /// Whether the piece is the last of the copy.
    pub fn is_last_piece(&self, part: &Part) -> bool {
        part.number + 1 == self.pieces
    }

    /// Takes the next piece for a lane, if one may go there now.
    pub fn next(&mut self, hop: usize) -> Option<Part> {
        let Hop { queued, done, .. } = self.hops[hop];
        let arrived = hop == 0 || self.hops[hop - 1].done > queued;
        let buffered = self.hops.get(hop + 1).map_or(0, |next| queued - next.done);
        if queued != done || queued == self.pieces || !arrived || buffered >= BOUNCE {
            return None;
        }
        self.hops[hop].queued += 1;
        let from = self.chunk.get() * u64::from(queued);
        let bytes = self.chunk.get().min(self.bytes.get() - from);
        Some(Part { hop, number: queued, from: Bytes::new(from), bytes: Bytes::new(bytes) })
    }

    /// A lane has copied its piece. The hops that may now take another: this one, the next, and,
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

    fn transit(lanes: usize, bytes: u64, chunk: u64) -> Transit {
        Transit::new(0..lanes, Bytes::new(bytes), Bytes::new(chunk))
    }

    #[test]
    fn one_lane_takes_the_copy_whole() {
        let mut copy = transit(1, 1000, 10);
        let part = copy.next(0).expect("the first piece");
        assert_eq!((part.bytes, copy.is_last_piece(&part)), (Bytes::new(1000), true));
        assert_eq!(copy.next(0), None);
        assert_eq!(copy.copied(0), None);
    }

    #[test]
    fn every_byte_crosses_every_lane_once_in_order() {
        for (lanes, bytes, chunk) in [(2, 95, 10), (3, 100, 10), (2, 5, 10), (4, 41, 1)] {
            let mut copy = transit(lanes, bytes, chunk);
            let mut crossed = vec![0; lanes];
            let mut under_way: Vec<Part> = copy.next(0).into_iter().collect();
            while let Some(part) = under_way.pop() {
                assert_eq!(part.from.get(), crossed[part.hop]);
                crossed[part.hop] += part.bytes.get();
                let Some(hops) = copy.copied(part.hop) else { break };
                under_way.extend(hops.into_iter().filter_map(|hop| copy.next(hop)));
            }
            assert_eq!(crossed, vec![bytes; lanes]);
        }
    }

    #[test]
    fn no_more_than_the_bounce_buffers_hold_wait_before_a_lane() {
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
