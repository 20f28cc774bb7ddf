//! The plan: which inactive intervals are spent outside HBM, where, and when copies start.
//!
//! Intervals are taken one by one, the one first that removes most memory above the capacity line
//! per time of its copies. Its eviction is booked as early as possible, its prefetch as late as
//! possible, each into idle time of the lanes that it crosses; then every prefetch is moved earlier
//! while memory allows. Source: Zhang et al., "G10", MICRO 2023, section 4.3.
//!
//! Where the lanes cannot carry at the recorded pace what the line demands, the ops will wait, and
//! nobody gains from a plan that assumes that they do not: the plan is then made for the quickest
//! pace at which they can. The paper has one pace and leaves the rest to page faults.
//! Invariant: no lane is booked twice for the same time, and a planned object has room where it goes.

use super::intervals::{Interval, Life};
use super::slots::{Heights, Idle};
use crate::recipe::Setting;
use std::collections::BinaryHeap;
use tiersim_models::hardware::{HBM, Hardware, Lane, Routes};
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// One pace is this many parts of the recorded one.
const PARTS: u64 = 16;
/// The slowest pace: 1/64 of the recorded one.
const SLOWEST: u64 = 64 * PARTS;
/// More bytes than any machine has, and few enough to be added up.
const PLENTY: i64 = 1 << 60;

/// An interval that is spent outside HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    /// Where.
    pub(super) tier: TierId,
    /// Memory is free from this slot on.
    pub(super) out_from: usize,
    /// The prefetch starts with this slot; the end of the interval if there is none.
    pub(super) back_at: usize,
}

/// What a machine offers, by spill tier.
struct Ways {
    tiers: Vec<TierId>,
    evict: Vec<Vec<Lane>>,
    fetch: Vec<Vec<Lane>>,
}

/// A plan in the making.
struct Draft<'a> {
    setting: &'a Setting<'a>,
    lives: &'a [Life],
    intervals: &'a [Interval],
    ways: &'a Ways,
    slots: usize,
    /// HBM above its capacity.
    heights: Heights,
    /// The same of each spill tier.
    rooms: Vec<Heights>,
    /// By lane.
    idle: Vec<Idle>,
    stays: Vec<Option<Stay>>,
    /// By object: the position of its spill tier, and from which slot on it has room there.
    homes: Vec<Option<(usize, usize)>>,
}

/// An interval with what its best stay is worth.
struct Offer {
    way: usize,
    stay: Stay,
    dirty: bool,
    /// Bytes above the line that are gone per time of its copies, on average.
    worth: i128,
}

/// Plans the stays of all intervals; `None` for those that are spent in HBM.
pub(super) fn plan(
    setting: &Setting<'_>,
    spill: &[TierId],
    lives: &[Life],
    intervals: &[Interval],
) -> Vec<Option<Stay>> {
    let times: Vec<u64> = setting.spans.iter().map(|span| span.ps().max(1)).collect();
    let capacity = line(setting.memory[HBM.index()]);
    let needed = needed(lives, times.len());
    let above = needed.iter().map(|&bytes| bytes.saturating_sub(capacity)).collect::<Vec<_>>();
    let heights = Heights::new(&above, &times);
    let Ok(routes) = setting.hardware.routes() else { return vec![None; intervals.len()] };
    if heights.removable(0, times.len(), PLENTY) == 0 {
        return vec![None; intervals.len()];
    }
    let ways = Ways::new(&routes, spill);
    let at = |pace: u64| {
        let draft = Draft::new(setting, (lives, intervals), &ways, &times, heights.clone(), pace);
        draft.fill()
    };
    // The least pace from which on a slower one hardly helps, by bisection.
    let rest = |draft: &Draft<'_>| draft.heights.removable(0, times.len(), PLENTY);
    let mut best = at(PARTS);
    let all = rest(&best);
    if all > 0 {
        let slowest = at(SLOWEST);
        let enough = rest(&slowest) + (all - rest(&slowest)).max(0) / 128;
        let (mut short, mut long) = (PARTS, SLOWEST);
        if all > enough {
            best = slowest;
        } else {
            long = PARTS;
        }
        while long - short > 1 + short / 32 {
            let middle = short.midpoint(long);
            let draft = at(middle);
            if rest(&draft) <= enough {
                (long, best) = (middle, draft);
            } else {
                short = middle;
            }
        }
    }
    best.move_earlier();
    best.stays
}

/// A capacity that can be reckoned with.
fn line(bytes: Bytes) -> i64 {
    i64::try_from(bytes.get()).unwrap_or(PLENTY).min(PLENTY)
}

/// Bytes that are alive in every slot.
fn needed(lives: &[Life], slots: usize) -> Vec<i64> {
    let mut change = vec![0i64; slots + 1];
    for life in lives.iter().filter(|life| !life.uses.is_empty()) {
        change[life.born] = change[life.born].saturating_add(life.bytes);
        change[life.dead] = change[life.dead].saturating_sub(life.bytes);
    }
    let mut sum = 0i64;
    change.truncate(slots);
    change.iter_mut().for_each(|bytes| {
        sum = sum.saturating_add(*bytes).min(PLENTY);
        *bytes = sum;
    });
    change
}

impl Ways {
    fn new(routes: &Routes, spill: &[TierId]) -> Ways {
        let to = |tier: &TierId| routes.between(HBM, *tier).to_vec();
        let from = |tier: &TierId| routes.between(*tier, HBM).to_vec();
        Ways {
            tiers: spill.to_vec(),
            evict: spill.iter().map(to).collect(),
            fetch: spill.iter().map(from).collect(),
        }
    }
}

/// How long a lane is taken by a copy that it carries alone.
fn busy(hardware: &Hardware, lane: Lane, bytes: i64) -> u64 {
    hardware.lane_law(lane).span_of(Bytes::new(bytes.unsigned_abs())).ps().max(1)
}

impl<'a> Draft<'a> {
    fn new(
        setting: &'a Setting<'a>,
        (lives, intervals): (&'a [Life], &'a [Interval]),
        ways: &'a Ways,
        times: &[u64],
        heights: Heights,
        pace: u64,
    ) -> Draft<'a> {
        let slower = |time: &u64| time.saturating_mul(pace) / PARTS;
        let idle = Idle::new(&times.iter().map(slower).collect::<Vec<_>>());
        let room = |tier: &TierId| {
            let free = line(setting.memory[tier.index()]);
            Heights::new(&vec![-free; times.len()], times)
        };
        Draft {
            setting,
            lives,
            intervals,
            ways,
            slots: times.len(),
            heights,
            rooms: ways.tiers.iter().map(room).collect(),
            idle: vec![idle; 2 * setting.hardware.links.len()],
            stays: vec![None; intervals.len()],
            homes: vec![None; lives.len()],
        }
    }

    /// Takes interval after interval while any is worth something.
    fn fill(mut self) -> Draft<'a> {
        let mut heap = BinaryHeap::new();
        for index in 0..self.intervals.len() {
            self.enter(&mut heap, index);
        }
        while let Some((worth, std::cmp::Reverse(index))) = heap.pop() {
            if self.stays[index].is_some() {
                continue;
            }
            // What was taken since has made it worth less, or its copies are no longer idle time.
            let Some(offer) = self.offer(index) else { continue };
            if offer.worth < worth && heap.peek().is_some_and(|next| next.0 > offer.worth) {
                heap.push((offer.worth, std::cmp::Reverse(index)));
                continue;
            }
            self.take(index, &offer);
            // What follows starts from a copy that is outside already.
            let after = self.intervals[index].following;
            if after != index && self.stays[after].is_none() {
                self.enter(&mut heap, after);
            }
        }
        self
    }

    fn enter(&self, heap: &mut BinaryHeap<(i128, std::cmp::Reverse<usize>)>, index: usize) {
        if let Some(offer) = self.offer(index) {
            heap.push((offer.worth, std::cmp::Reverse(index)));
        }
    }

    /// The best stay of an interval: what removes most, in the first of several tiers.
    fn offer(&self, index: usize) -> Option<Offer> {
        let interval = &self.intervals[index];
        let life = &self.lives[interval.object];
        let dirty = interval.evicts && self.is_dirty(index);
        let (first, until) = (interval.from, interval.until);
        if self.removable(first, until, life.bytes) == 0 {
            return None;
        }
        let mut best: Option<(i128, Offer)> = None;
        for way in 0..self.ways.tiers.len() {
            if self.homes[interval.object].is_some_and(|(home, _)| home != way) {
                continue;
            }
            let tier = self.ways.tiers[way];
            let ends = self.ways.evict[way].iter().filter(|_| dirty);
            let ends = ends.map(|&lane| self.end(lane, first, until, life.bytes));
            let Some(out_from) = ends.fold(Some(first), |a, b| Some(a?.max(b?))) else { continue };
            let starts = self.ways.fetch[way].iter().filter(|_| interval.fetches);
            let starts = starts.map(|&lane| self.start(lane, first, until, life.bytes));
            let Some(back_at) = starts.fold(Some(until), |a, b| Some(a?.min(b?))) else { continue };
            if out_from >= back_at || !self.has_room(way, index) {
                continue;
            }
            let gone = self.removable(out_from, back_at, life.bytes);
            if gone == 0 || best.as_ref().is_some_and(|(most, _)| gone <= *most) {
                continue;
            }
            let bytes = Bytes::new(life.bytes.unsigned_abs());
            let copy = |wanted: bool, from, to| match wanted {
                true => i128::from(self.setting.copies.span(from, to, bytes).ps()),
                false => 0,
            };
            let cost = copy(dirty, HBM, tier) + copy(interval.fetches, tier, HBM);
            let stay = Stay { tier, out_from, back_at };
            best = Some((gone, Offer { way, stay, dirty, worth: gone / cost.max(1) }));
        }
        best.map(|(_, offer)| offer).filter(|offer| offer.worth > 0)
    }

    fn take(&mut self, index: usize, offer: &Offer) {
        let interval = &self.intervals[index];
        let (bytes, until) = (self.lives[interval.object].bytes, interval.until);
        let (ways, hardware) = (self.ways, self.setting.hardware);
        for &lane in ways.evict[offer.way].iter().filter(|_| offer.dirty) {
            self.book(lane, interval.from, 0, busy(hardware, lane, bytes));
        }
        for &lane in ways.fetch[offer.way].iter().filter(|_| interval.fetches) {
            let time = busy(hardware, lane, bytes);
            if let Some(start) = self.start(lane, interval.from, until, bytes) {
                let kept = self.before(lane, until) - time - self.before(lane, start);
                self.book(lane, start, kept, time);
            }
        }
        self.raise(offer.stay.out_from, offer.stay.back_at, -bytes);
        self.settle(index, offer.way);
        self.stays[index] = Some(offer.stay);
    }

    /// Whether the object has changed since it was last outside.
    fn is_dirty(&self, index: usize) -> bool {
        let mut at = index;
        loop {
            let interval = &self.intervals[at];
            if interval.written {
                return true;
            }
            let before = interval.previous;
            if self.stays[before].is_some() {
                return false;
            }
            if before == at && !self.lives[interval.object].persistent || !interval.evicts {
                // It has never been outside.
                return true;
            }
            if before == index || before == at {
                // All the way round: nothing writes it, so what is outside stays good.
                return false;
            }
            at = before;
        }
    }

    /// The slots in which an object has room in its spill tier if it stays there in this interval.
    fn roomy(&self, index: usize) -> (usize, usize) {
        let interval = &self.intervals[index];
        let life = &self.lives[interval.object];
        if life.persistent { (0, self.slots) } else { (interval.from.min(self.slots), life.dead) }
    }

    /// The part of that in which it has none yet.
    fn new_room(&self, index: usize) -> (usize, usize) {
        let (from, until) = self.roomy(index);
        match self.homes[self.intervals[index].object] {
            Some((_, already)) => (from, until.min(already)),
            None => (from, until),
        }
    }

    fn has_room(&self, way: usize, index: usize) -> bool {
        let (from, until) = self.new_room(index);
        let bytes = self.lives[self.intervals[index].object].bytes;
        from >= until || self.rooms[way].last_above(from, until, -bytes).is_none()
    }

    fn settle(&mut self, index: usize, way: usize) {
        let (from, until) = self.new_room(index);
        let object = self.intervals[index].object;
        if from < until {
            self.rooms[way].raise(from, until, self.lives[object].bytes);
            self.homes[object] = Some((way, from));
        }
    }

    /// Starts every prefetch earlier while memory allows, the one that is needed first before others.
    fn move_earlier(&mut self) {
        let mut order: Vec<usize> =
            (0..self.stays.len()).filter(|&index| self.intervals[index].fetches).collect();
        order.sort_by_key(|&index| (self.intervals[index].until, index));
        for index in order {
            let Some(stay) = self.stays[index] else { continue };
            let bytes = self.lives[self.intervals[index].object].bytes;
            let full = self.last_above(stay.out_from, stay.back_at, -bytes);
            let back_at = full.map_or(stay.out_from, |slot| slot + 1);
            self.raise(back_at, stay.back_at, bytes);
            self.stays[index] = Some(Stay { back_at, ..stay });
        }
    }
}

/// Positions from 0 to twice the number of slots: the second round is the next replay, whose slots
/// are those of the first.
impl Draft<'_> {
    fn cut(&self, from: usize, until: usize) -> [(usize, usize); 2] {
        let slots = self.slots;
        let (first, second) =
            (from.min(slots)..until.min(slots), from.max(slots)..until.max(slots));
        [(first.start, first.end), (second.start - slots, second.end - slots)]
    }

    fn removable(&self, from: usize, until: usize, bytes: i64) -> i128 {
        let parts = self.cut(from, until).into_iter().filter(|(a, b)| a < b);
        parts.map(|(a, b)| self.heights.removable(a, b, bytes)).sum()
    }

    fn raise(&mut self, from: usize, until: usize, bytes: i64) {
        for (a, b) in self.cut(from, until).into_iter().filter(|(a, b)| a < b) {
            self.heights.raise(a, b, bytes);
        }
    }

    fn last_above(&self, from: usize, until: usize, line: i64) -> Option<usize> {
        let [first, second] = self.cut(from, until);
        let of = |(a, b)| if a < b { self.heights.last_above(a, b, line) } else { None };
        of(second).map(|slot| slot + self.slots).or_else(|| of(first))
    }

    /// Idle time of a lane before a position.
    fn before(&self, lane: Lane, at: usize) -> u64 {
        let idle = &self.idle[lane.index()];
        match at.checked_sub(self.slots) {
            Some(second) => idle.before(self.slots) + idle.before(second),
            None => idle.before(at),
        }
    }

    fn position(&self, lane: Lane, time: u64) -> usize {
        let idle = &self.idle[lane.index()];
        match time.checked_sub(idle.before(self.slots)) {
            Some(second) => self.slots + idle.slot_of(second),
            None => idle.slot_of(time),
        }
    }

    /// Where a copy ends that starts as early as possible: from there on its room is free.
    fn end(&self, lane: Lane, from: usize, until: usize, bytes: i64) -> Option<usize> {
        let target =
            self.before(lane, from).checked_add(busy(self.setting.hardware, lane, bytes))?;
        (target <= self.before(lane, until)).then(|| self.position(lane, target - 1) + 1)
    }

    /// Where a copy starts that starts as late as possible.
    fn start(&self, lane: Lane, from: usize, until: usize, bytes: i64) -> Option<usize> {
        let limit = self.before(lane, until);
        let start = limit.checked_sub(busy(self.setting.hardware, lane, bytes))?;
        (start >= self.before(lane, from)).then(|| self.position(lane, start))
    }

    /// Takes idle time from a position on, but `keep` of what comes first.
    fn book(&mut self, lane: Lane, from: usize, keep: u64, time: u64) {
        let slots = self.slots;
        let idle = &mut self.idle[lane.index()];
        if from >= slots {
            idle.take(from - slots, keep, time);
            return;
        }
        let there = (idle.before(slots) - idle.before(from)).saturating_sub(keep).min(time);
        idle.take(from, keep, there);
        idle.take(0, 0, time - there);
    }
}
