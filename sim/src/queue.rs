//! The pending events, earliest first.
//!
//! A tournament tree instead of a heap: every pending event owns a leaf, every group of four keeps
//! its four keys in one cache line, and the smallest of them plays in the group above. Changing a
//! leaf replays one match per level on a path that the leaf's number alone decides, so the loads
//! do not wait for each other and no branch depends on a key; a heap has to look at four children
//! before it knows where to go next. Events therefore never move, which makes cancelling real
//! deletion (no tombstones), and memory is bounded by the largest number ever pending at once.
//!
//! Invariants: every group holds the keys of its four winners, except on the path of the `hollow`
//! leaf, whose event has left and whose removal waits for the next push to reuse the leaf (a
//! simulation almost always pushes after it pops, and then one replay serves both). A leaf without
//! an event and not hollow holds the vacant key, which is larger than any other.

use std::fmt;

use tiersim_models::units::Time;

/// The most events that can be pending at once (67 million).
pub const MAX_PENDING: usize = 1 << SLOT_BITS;

// A key, from the most significant bit: time (64), class (8), order of arrival (30), leaf (26).
const SLOT_BITS: u32 = 26;
const ORDER_BITS: u32 = 30;
const CLASS_SHIFT: u32 = ORDER_BITS + SLOT_BITS;
const TIME_SHIFT: u32 = 64;
/// Orders run out after a billion pushes; the pending events are then numbered afresh. The last
/// order is never given out, so no key equals [`VACANT`].
const ORDER_LIMIT: u64 = (1 << ORDER_BITS) - 1;
const VACANT: u128 = u128::MAX;
const FANOUT: usize = 4;
const NO_SLOT: u32 = u32::MAX;

/// Pending events of type `E`, taken out in order of time, then class, then arrival.
pub struct EventQueue<E> {
    /// The smallest key; stale while a leaf is hollow.
    winner: u128,
    /// Groups of four keys, leaves first; the last level is one group. A single leaf needs none.
    levels: Vec<Vec<Group>>,
    /// What each leaf holds.
    slots: Vec<Slot<E>>,
    /// First of the vacant slots, each of which names the next.
    first_vacant: u32,
    /// The leaf of the event popped last, until its removal has been played.
    hollow: Option<u32>,
    len: usize,
    next_order: u64,
    next_serial: u64,
}

/// Names one pushed event for as long as the queue lives; never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    serial: u64,
    slot: u32,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([u128; FANOUT]);

enum Slot<E> {
    Vacant { next: u32 },
    Pending { serial: u64, event: E },
}

impl<E> EventQueue<E> {
    /// A queue with nothing in it.
    pub const fn new() -> EventQueue<E> {
        EventQueue {
            winner: VACANT,
            levels: Vec::new(),
            slots: Vec::new(),
            first_vacant: NO_SLOT,
            hollow: None,
            len: 0,
            next_order: 0,
            next_serial: 0,
        }
    }

    /// Adds `event`, to come out at `at`: after everything earlier, after every lower `class` of
    /// the same moment, and after whatever of the same moment and class is already pending.
    ///
    /// Panics if [`MAX_PENDING`] events are pending.
    #[inline]
    pub fn push(&mut self, at: Time, class: u8, event: E) -> EventId {
        if self.next_order >= ORDER_LIMIT {
            self.renumber();
        }
        let serial = self.next_serial;
        self.next_serial = serial.checked_add(1).expect("event serials are used up");
        let pending = Slot::Pending { serial, event };
        let slot = match self.hollow.take() {
            Some(slot) => slot,
            None => self.vacant_slot(),
        };
        self.slots[slot as usize] = pending;
        let key = pack(at, class, self.next_order, slot);
        self.next_order += 1;
        self.len += 1;
        self.winner = replay(&mut self.levels, slot, key);
        EventId { serial, slot }
    }

    /// Takes out the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.settle();
        if self.winner == VACANT {
            return None;
        }
        let (at, slot) = (time_of(self.winner), slot_of(self.winner));
        let event = self.vacate(slot)?;
        self.hollow = Some(slot);
        Some((at, event))
    }

    /// Takes the event of `id` out of turn, or `None` if it has been popped or cancelled already.
    pub fn cancel(&mut self, id: EventId) -> Option<E> {
        match self.slots.get(id.slot as usize) {
            Some(Slot::Pending { serial, .. }) if *serial == id.serial => {}
            _ => return None,
        }
        // Both paths end at the root, so the hollow leaf goes first.
        self.settle();
        let event = self.vacate(id.slot);
        self.hollow = Some(id.slot);
        self.settle();
        event
    }

    /// When the first event is due.
    pub fn peek_time(&self) -> Option<Time> {
        let first = match self.hollow {
            None => self.winner,
            Some(leaf) => self.winner_without(leaf),
        };
        (first != VACANT).then(|| time_of(first))
    }

    /// The pending events in the order in which they will come, with their moments and classes.
    pub fn in_order(&self) -> Vec<(Time, u8, &E)> {
        let mut keys: Vec<u128> = match self.levels.first() {
            Some(leaves) => leaves.iter().flat_map(|group| group.0).collect(),
            None => vec![self.winner],
        };
        let is_pending = |key: u128| key != VACANT && Some(slot_of(key)) != self.hollow;
        keys.retain(|&key| is_pending(key));
        keys.sort_unstable();
        let event = |key: u128| match &self.slots[slot_of(key) as usize] {
            Slot::Pending { event, .. } => (time_of(key), (key >> CLASS_SHIFT) as u8, event),
            Slot::Vacant { .. } => unreachable!("a key outlived its event"),
        };
        keys.into_iter().map(event).collect()
    }

    /// How many events are pending.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is pending.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Plays the removal that the last pop left for later.
    #[inline]
    fn settle(&mut self) {
        if let Some(slot) = self.hollow.take() {
            self.winner = replay(&mut self.levels, slot, VACANT);
            self.slots[slot as usize] = Slot::Vacant { next: self.first_vacant };
            self.first_vacant = slot;
        }
    }

    /// Moves the event out of `slot`, leaving its leaf to the caller.
    #[inline]
    fn vacate(&mut self, slot: u32) -> Option<E> {
        let vacant = Slot::Vacant { next: NO_SLOT };
        match std::mem::replace(&mut self.slots[slot as usize], vacant) {
            Slot::Pending { event, .. } => {
                self.len -= 1;
                Some(event)
            }
            Slot::Vacant { .. } => unreachable!("a key outlived its event"),
        }
    }

    /// A slot for a new event; its leaf is vacant. Nothing may be hollow.
    fn vacant_slot(&mut self) -> u32 {
        let slot = self.first_vacant;
        if slot == NO_SLOT {
            return self.grow();
        }
        match self.slots[slot as usize] {
            Slot::Vacant { next } => self.first_vacant = next,
            Slot::Pending { .. } => unreachable!("a pending event in the list of vacant slots"),
        }
        slot
    }

    /// One more leaf, with the groups that it needs above it. Every other leaf is in use.
    #[cold]
    fn grow(&mut self) -> u32 {
        let leaf = self.slots.len();
        assert!(leaf < MAX_PENDING, "more than {MAX_PENDING} events pending");
        self.slots.push(Slot::Vacant { next: NO_SLOT });
        let mut group = leaf;
        for level in &mut self.levels {
            group /= FANOUT;
            if group == level.len() {
                level.push(Group([VACANT; FANOUT]));
            }
        }
        if group > 0 {
            // The tree was full: what won it so far becomes the first player of a new top.
            self.levels.push(vec![Group([self.winner, VACANT, VACANT, VACANT])]);
        }
        leaf as u32
    }

    /// The smallest key but for the one at `leaf`.
    fn winner_without(&self, leaf: u32) -> u128 {
        let mut child = leaf as usize;
        let mut best = VACANT;
        for level in &self.levels {
            let group = &level[child / FANOUT].0;
            best = best.min(best_rival(group, child % FANOUT));
            child /= FANOUT;
        }
        best
    }

    /// Gives the pending events the orders 0, 1, 2 and so on, in the order that they have now.
    #[cold]
    fn renumber(&mut self) {
        self.settle();
        let mut keys: Vec<u128> = match self.levels.first() {
            Some(leaves) => leaves.iter().flat_map(|group| group.0).collect(),
            None => vec![self.winner],
        };
        keys.retain(|&key| key != VACANT);
        keys.sort_unstable();
        self.next_order = 0;
        for key in keys {
            let slot = slot_of(key);
            let class = (key >> CLASS_SHIFT) as u8;
            let renumbered = pack(time_of(key), class, self.next_order, slot);
            self.winner = replay(&mut self.levels, slot, renumbered);
            self.next_order += 1;
        }
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue::new()
    }
}

impl<E> fmt::Debug for EventQueue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue")
            .field("len", &self.len)
            .field("first", &self.peek_time())
            .finish_non_exhaustive()
    }
}

/// Puts `key` at `leaf`, plays its path up to the root and returns the winner.
///
/// The levels are written out and the function is never inlined because LLVM turns conditional
/// moves in a loop back into branches on the keys, half of which are mispredicted: as a loop this
/// is 2.5 times slower with 1,000 events pending.
#[inline(never)]
fn replay(levels: &mut [Vec<Group>], leaf: u32, key: u128) -> u128 {
    let mut child = leaf as usize;
    let mut best = key;
    macro_rules! play {
        ($($level:literal)*) => {$(
            let Some(groups) = levels.get_mut($level) else { return best };
            let group = &mut groups[child / FANOUT].0;
            let rival = best_rival(group, child % FANOUT);
            group[child % FANOUT] = best;
            best = best.min(rival);
            child /= FANOUT;
        )*};
    }
    play!(0 1 2 3 4 5 6 7 8 9 10 11 12);
    debug_assert!(child == 0 && levels.len() <= 13);
    best
}

/// The smallest of the three keys that `child` plays against.
#[inline(always)]
fn best_rival(group: &[u128; FANOUT], child: usize) -> u128 {
    group[child ^ 1].min(group[child ^ 2]).min(group[child ^ 3])
}

#[inline(always)]
fn pack(at: Time, class: u8, order: u64, slot: u32) -> u128 {
    let low = u64::from(class) << CLASS_SHIFT | order << SLOT_BITS | u64::from(slot);
    u128::from(at.ps()) << TIME_SHIFT | u128::from(low)
}

#[inline(always)]
fn time_of(key: u128) -> Time {
    Time::from_ps((key >> TIME_SHIFT) as u64)
}

#[inline(always)]
fn slot_of(key: u128) -> u32 {
    key as u32 & (MAX_PENDING as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained<E>(queue: &mut EventQueue<E>) -> Vec<E> {
        std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect()
    }

    #[test]
    fn a_key_orders_by_time_then_class_then_arrival() {
        let key = |ps, class, order, slot| pack(Time::from_ps(ps), class, order, slot);
        let top_slot = MAX_PENDING as u32 - 1;
        assert!(key(1, 255, ORDER_LIMIT - 1, top_slot) < key(2, 0, 0, 0));
        assert!(key(1, 3, ORDER_LIMIT - 1, top_slot) < key(1, 4, 0, 0));
        assert!(key(1, 3, 8, top_slot) < key(1, 3, 9, 0));
        assert!(key(u64::MAX, 255, ORDER_LIMIT - 1, top_slot) < VACANT);
        assert_eq!(slot_of(key(u64::MAX, 255, ORDER_LIMIT - 1, 77)), 77);
        assert_eq!(time_of(key(9, 255, ORDER_LIMIT - 1, top_slot)), Time::from_ps(9));
    }

    #[test]
    fn pending_events_are_listed_in_the_order_in_which_they_come() {
        let mut queue = EventQueue::new();
        assert!(queue.in_order().is_empty());
        for event in 0..9u64 {
            queue.push(Time::from_ps(event * 5 % 4), (event % 2) as u8, event);
            let listed: Vec<u64> = queue.in_order().iter().map(|&(_, _, &event)| event).collect();
            assert_eq!(listed.len(), queue.len());
        }
        while !queue.is_empty() {
            let (at, _, &first) = queue.in_order()[0];
            assert_eq!(queue.pop(), Some((at, first)), "also while a leaf is hollow");
        }
        assert!(queue.in_order().is_empty());
    }

    #[test]
    fn the_order_of_arrival_survives_renumbering() {
        for pending in [0, 1, 2, 5, 64, 65] {
            let mut queue = EventQueue::new();
            queue.next_order = ORDER_LIMIT - pending;
            let ids: Vec<EventId> =
                (0..pending).map(|event| queue.push(Time::ZERO, 1, event)).collect();
            assert_eq!(queue.next_order, ORDER_LIMIT, "used up");
            queue.push(Time::ZERO, 1, pending);
            assert_eq!(queue.next_order, pending + 1, "numbered afresh");
            queue.push(Time::ZERO, 0, 1_000);
            for id in ids.iter().skip(1).step_by(2) {
                assert!(queue.cancel(*id).is_some(), "ids outlive renumbering");
            }
            let even = (0..pending).filter(|event| event % 2 == 0);
            let expected: Vec<u64> = [1_000].into_iter().chain(even).chain([pending]).collect();
            assert_eq!(drained(&mut queue), expected);
        }
    }

    #[test]
    fn renumbering_right_after_a_pop_forgets_the_popped_event() {
        let mut queue = EventQueue::new();
        for event in 0..10 {
            queue.push(Time::ZERO, 0, event);
        }
        queue.pop();
        queue.next_order = ORDER_LIMIT;
        queue.push(Time::ZERO, 0, 10);
        assert_eq!(drained(&mut queue), (1..=10).collect::<Vec<_>>());
    }

    #[test]
    fn memory_is_bounded_by_the_most_ever_pending() {
        let mut queue = EventQueue::new();
        let mut ids: Vec<EventId> = (0..100).map(|i| queue.push(Time::ZERO, 0, i)).collect();
        for round in 0..10_000usize {
            let id = &mut ids[round % 100];
            assert!(queue.cancel(*id).is_some());
            *id = queue.push(Time::from_ps(round as u64), 0, round);
        }
        assert_eq!(queue.len(), 100);
        assert_eq!(queue.slots.len(), 100);
        let groups: Vec<usize> = queue.levels.iter().map(Vec::len).collect();
        assert_eq!(groups, [25, 7, 2, 1]);
    }

    #[test]
    fn the_tree_reaches_its_limit_within_the_levels_written_out() {
        assert_eq!(MAX_PENDING, FANOUT.pow(13));
    }

    #[test]
    #[should_panic(expected = "event serials are used up")]
    fn serials_are_never_given_out_twice() {
        let mut queue = EventQueue::new();
        queue.next_serial = u64::MAX;
        queue.push(Time::ZERO, 0, ());
    }
}
