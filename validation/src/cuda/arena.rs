//! Where in a block of memory an object's room lies: best fit, in the order of submission.
//!
//! Room is given back when a command is submitted, long before it has ended, so every free piece
//! carries the tickets of the commands that must end before it may be written. An allocation
//! prefers a piece whose commands have all ended; only then is it not held up.
//! Invariant: allocated pieces never overlap, and free and allocated pieces together tile every
//! region.

use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use tiersim_policies::command::Ticket;

/// Rooms start at multiples of this: a page, which patterns are padded to, and more than the 512
/// bytes that copies want.
pub(crate) const ALIGN: u64 = 4096;

/// A place in one of the regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// Which region.
    pub(crate) region: usize,
    /// Where in it, in bytes.
    pub(crate) at: u64,
}

/// Commands that a piece waits for.
pub(crate) type Tickets = SmallVec<[Ticket; 2]>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    bytes: u64,
    after: Tickets,
}

/// The free pieces of all regions.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    free: BTreeMap<Spot, Piece>,
    /// Those that wait for no command, by bytes.
    settled: BTreeSet<(u64, Spot)>,
    regions: usize,
}

/// Neighbouring pieces that together are large enough.
struct Window {
    first: Spot,
    bytes: u64,
    /// The last command that it waits for.
    last: Option<Ticket>,
}

impl Arena {
    /// Adds a region; returns its number.
    pub(crate) fn grow(&mut self, bytes: u64) -> usize {
        let spot = Spot { region: self.regions, at: 0 };
        self.put(spot, Piece { bytes: padded(bytes), after: Tickets::new() });
        self.regions += 1;
        spot.region
    }

    /// Takes room: where, and which commands must end before it is written. `None` if no place is
    /// large enough.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<(Spot, Tickets)> {
        let bytes = padded(bytes);
        let least = (bytes, Spot { region: 0, at: 0 });
        let best = self.settled.range(least..).next().map(|(_, spot)| *spot);
        let first = best.or_else(|| self.window(bytes))?;
        Some((first, self.take(first, bytes)))
    }

    /// Gives room back, free once `ticket` has ended.
    pub(crate) fn free(&mut self, spot: Spot, bytes: u64, ticket: Ticket) {
        let piece = Piece { bytes: padded(bytes), after: Tickets::from_slice(&[ticket]) };
        self.put(spot, piece);
    }

    /// A command has ended that gave room back: what is left of that waits for it no more.
    pub(crate) fn ended(&mut self, spot: Spot, bytes: u64, ticket: Ticket) {
        let end = Spot { at: spot.at + padded(bytes), ..spot };
        let mut settled: SmallVec<[Spot; 2]> = SmallVec::new();
        for (&spot, piece) in self.free.range_mut(spot..end) {
            let before = piece.after.len();
            piece.after.retain(|after| *after != ticket);
            if before > 0 && piece.after.is_empty() {
                settled.push(spot);
            }
        }
        settled.into_iter().for_each(|spot| self.settle(spot));
    }

    /// Joins a piece that waits for no command with its neighbours that do not.
    fn settle(&mut self, spot: Spot) {
        let mut piece = self.free.remove(&spot).expect("it is free");
        let end = Spot { at: spot.at + piece.bytes, ..spot };
        if self.free.get(&end).is_some_and(|next| next.after.is_empty()) {
            piece.bytes += self.pick(end).bytes;
        }
        let before = self.free.range(..spot).next_back();
        let joins = before.filter(|(first, before)| {
            let meets = first.region == spot.region && first.at + before.bytes == spot.at;
            meets && before.after.is_empty()
        });
        let first = joins.map_or(spot, |(first, _)| *first);
        if first != spot {
            piece.bytes += self.pick(first).bytes;
        }
        self.put(first, piece);
    }

    fn put(&mut self, spot: Spot, piece: Piece) {
        if piece.after.is_empty() {
            self.settled.insert((piece.bytes, spot));
        }
        let before = self.free.insert(spot, piece);
        debug_assert!(before.is_none(), "a room is given back once");
    }

    fn pick(&mut self, spot: Spot) -> Piece {
        let piece = self.free.remove(&spot).expect("it is free");
        self.settled.remove(&(piece.bytes, spot));
        piece
    }

    /// Of all neighbouring pieces that are large enough together, those that were given back
    /// longest ago, and of these the smallest.
    fn window(&self, bytes: u64) -> Option<Spot> {
        let mut best: Option<Window> = None;
        for &first in self.free.keys() {
            let mut window = Window { first, bytes: 0, last: None };
            for (spot, piece) in self.free.range(first..) {
                if spot.region != first.region || spot.at != first.at + window.bytes {
                    break;
                }
                window.bytes += piece.bytes;
                window.last = window.last.max(piece.after.iter().copied().max());
                if window.bytes >= bytes {
                    let better =
                        |best: &Window| (window.last, window.bytes) < (best.last, best.bytes);
                    if best.as_ref().is_none_or(better) {
                        best = Some(window);
                    }
                    break;
                }
            }
        }
        best.map(|window| window.first)
    }

    /// Takes `bytes` from a piece and its neighbours; the rest of the last one stays free.
    fn take(&mut self, first: Spot, bytes: u64) -> Tickets {
        let mut after = Tickets::new();
        let mut taken = 0;
        while taken < bytes {
            let spot = Spot { at: first.at + taken, ..first };
            let piece = self.pick(spot);
            for &ticket in &piece.after {
                if !after.contains(&ticket) {
                    after.push(ticket);
                }
            }
            let used = piece.bytes.min(bytes - taken);
            if used < piece.bytes {
                let rest = Spot { at: spot.at + used, ..spot };
                self.put(rest, Piece { bytes: piece.bytes - used, after: piece.after });
            }
            taken += used;
        }
        after
    }
}

/// The room that so many bytes take.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::draw;
    use std::collections::VecDeque;

    const PAGE: u64 = ALIGN;

    /// Pages as a plain list: who has each, and which tickets must end before it may be written.
    struct Pages(Vec<Vec<(Option<u32>, Vec<Ticket>)>>);

    impl Pages {
        fn allocate(&mut self, who: u32, spot: Spot, pages: u64) -> Vec<Ticket> {
            let range = (spot.at / PAGE) as usize..(spot.at / PAGE + pages) as usize;
            let mut after = Vec::new();
            for (owner, tickets) in &mut self.0[spot.region][range] {
                assert_eq!(*owner, None, "claimed twice");
                *owner = Some(who);
                after.append(tickets);
            }
            after.sort_unstable();
            after.dedup();
            after
        }

        fn free(&mut self, who: u32, ticket: Ticket) {
            for (owner, tickets) in self.0.iter_mut().flatten() {
                if *owner == Some(who) {
                    *owner = None;
                    tickets.push(ticket);
                }
            }
        }

        /// The longest run of free pages of one region.
        fn longest(&self) -> u64 {
            let runs = self.0.iter().flat_map(|region| region.split(|(owner, _)| owner.is_some()));
            runs.map(<[_]>::len).max().unwrap_or(0) as u64
        }

        /// As above, of pages that wait for nothing.
        fn longest_settled(&self, under_way: impl Fn(Ticket) -> bool) -> u64 {
            let blocked = |(owner, after): &(Option<u32>, Vec<Ticket>)| {
                owner.is_some() || after.iter().any(|ticket| under_way(*ticket))
            };
            let runs = self.0.iter().flat_map(|region| region.split(blocked));
            runs.map(<[_]>::len).max().unwrap_or(0) as u64
        }
    }

    /// Random allocations and frees; commands end in order, `behind` after they were submitted.
    fn against_pages(seed: u64, behind: u32) -> (u32, u32) {
        let (mut arena, mut pages) = (Arena::default(), Pages(Vec::new()));
        for size in [40, 7] {
            arena.grow(size * PAGE);
            pages.0.push(vec![(None, Vec::new()); size as usize]);
        }
        let mut held: Vec<(u32, Spot, u64)> = Vec::new();
        let (mut refused, mut waited) = (0, 0);
        let mut ending: VecDeque<(Spot, u64, Ticket)> = VecDeque::new();
        for step in 0..600u32 {
            let under_way = |ticket: Ticket| ticket.0 + behind > step;
            while let Some(&(spot, bytes, ticket)) = ending.front()
                && !under_way(ticket)
            {
                arena.ended(spot, bytes, ticket);
                ending.pop_front();
            }
            let draw = |index| draw(seed, u64::from(step) * 4 + index);
            if draw(0) % 2 == 0 && !held.is_empty() {
                let (who, spot, bytes) = held.swap_remove(draw(1) as usize % held.len());
                arena.free(spot, bytes, Ticket(step));
                pages.free(who, Ticket(step));
                if under_way(Ticket(step)) {
                    ending.push_back((spot, bytes, Ticket(step)));
                } else {
                    arena.ended(spot, bytes, Ticket(step));
                }
                continue;
            }
            let bytes = draw(1) % (9 * PAGE) + 1;
            let need = bytes.div_ceil(PAGE);
            let settled = pages.longest_settled(under_way) >= need;
            let Some((spot, after)) = arena.allocate(bytes) else {
                assert!(pages.longest() < need, "step {step}: there was room");
                refused += 1;
                continue;
            };
            let mut expected = pages.allocate(step, spot, need);
            expected.retain(|ticket| under_way(*ticket));
            let mut after: Vec<Ticket> = after.to_vec();
            after.sort_unstable();
            assert_eq!(after.is_empty(), expected.is_empty(), "step {step}");
            // A piece may have been split and joined: it may name more than its pages do, not less.
            assert!(expected.iter().all(|ticket| after.contains(ticket)), "step {step}");
            assert!(!settled || after.is_empty(), "step {step}: a free piece was there");
            waited += u32::from(!after.is_empty());
            held.push((step, spot, bytes));
        }
        (refused, waited)
    }

    #[test]
    fn rooms_never_overlap_and_name_every_command_that_must_end() {
        let (mut refused, mut waited) = (0, 0);
        for seed in 0..40 {
            for behind in [0, 5, 50, 1000] {
                let (no, late) = against_pages(seed, behind);
                (refused, waited) = (refused + no, waited + late);
            }
        }
        assert!(refused > 100 && waited > 100, "{refused} refused, {waited} waited");
    }

    #[test]
    fn the_smallest_piece_that_fits_is_taken() {
        let mut arena = Arena::default();
        arena.grow(10 * PAGE);
        let spots: Vec<Spot> = [3, 1, 2, 4]
            .map(|pages| arena.allocate(pages * PAGE).expect("there is room").0)
            .to_vec();
        for (index, pages) in [(0, 3), (2, 2)] {
            arena.free(spots[index], pages * PAGE, Ticket(0));
            arena.ended(spots[index], pages * PAGE, Ticket(0));
        }
        assert_eq!(arena.allocate(2 * PAGE), Some((spots[2], Tickets::new())));
    }

    #[test]
    fn what_was_given_back_longest_ago_is_waited_for_first() {
        let mut arena = Arena::default();
        arena.grow(3 * PAGE);
        let spots = [0, 1, 2].map(|_| arena.allocate(1).expect("there is room").0);
        arena.free(spots[2], 1, Ticket(5));
        arena.free(spots[0], 1, Ticket(9));
        assert_eq!(arena.allocate(1), Some((spots[2], Tickets::from_slice(&[Ticket(5)]))));
    }

    #[test]
    fn all_given_back_is_one_piece_again() {
        let mut arena = Arena::default();
        arena.grow(8 * PAGE);
        let spots: Vec<Spot> =
            (0..8).map(|_| arena.allocate(1).expect("there is room").0).collect();
        for index in [3, 1, 7, 0, 2, 6, 4, 5] {
            arena.free(spots[index], 1, Ticket(index as u32));
            arena.ended(spots[index], 1, Ticket(index as u32));
        }
        assert_eq!(arena.allocate(8 * PAGE), Some((spots[0], Tickets::new())));
    }
}
