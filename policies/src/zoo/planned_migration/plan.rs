//! The plan: which inactive intervals are spent outside HBM, where, and when copies start.
//!
//! Intervals are taken one by one, the one first that removes most memory above the capacity line
//! per time of its copies. Its eviction is booked as early as possible, its prefetch as late as
//! possible, each into idle time of the channels that it crosses; then every prefetch is moved
//! earlier while memory allows. Source: Zhang et al., "G10", MICRO 2023, section 4.3.
//!
//! Where the channels cannot carry at the recorded pace what the line demands, the ops will wait,
//! and nobody gains from a plan that assumes that they do not: the plan is then made for the
//! quickest pace at which they can. The paper has one pace and leaves the rest to page faults.
//! Invariant: no channel is booked twice for the same time, and a planned object has room where it
//! goes.

use super::intervals::{Gaps, Interval, Life, Version};
use super::slots::{Heights, Idle};
use crate::recipe::Setting;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tiersim_models::hardware::{Channel, HBM, Hardware};
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
pub(in crate::zoo) struct Stay {
    /// Where.
    pub(in crate::zoo) tier: TierId,
    /// It is told to leave before this slot,
    pub(in crate::zoo) leave_at: usize,
    /// and memory is free from this one on.
    pub(in crate::zoo) out_from: usize,
    /// The prefetch starts with this slot; the end of the interval if there is none.
    pub(in crate::zoo) back_at: usize,
    /// It is used where it is when the interval ends, and not fetched.
    pub(in crate::zoo) in_place: bool,
}

/// The channels to a spill tier and back.
struct Way {
    tier: TierId,
    evict: Vec<Channel>,
    fetch: Vec<Channel>,
}

/// A plan in the making.
struct Draft<'a> {
    setting: &'a Setting<'a>,
    trace: &'a Gaps,
    routes: &'a [Way],
    slots: usize,
    /// HBM above its capacity.
    heights: Heights,
    /// The same of each spill tier.
    rooms: Vec<Heights>,
    /// By channel.
    idle: Vec<Idle>,
    stays: Vec<Option<Stay>>,
    /// By version: from which position on it has been written back, if it is planned to be.
    saved: Vec<Option<usize>>,
    /// By object: the position of its spill tier, and from which slot on it has room there.
    homes: Vec<Option<(usize, usize)>>,
}

/// An interval with what its best stay is worth.
struct Offer {
    route: usize,
    stay: Stay,
    dirty: bool,
    /// The contents are outside from this position on.
    saved: usize,
    /// Bytes above the line that are gone per time of its copies, on average.
    worth: i64,
}

/// What an interval was worth when it was last looked at; of equals the first comes first.
type Entry = (i64, Reverse<u32>);

fn entry(offer: &Offer, index: usize) -> Entry {
    (offer.worth, Reverse(u32::try_from(index).expect("intervals are as many as uses at most")))
}

/// Intervals by what they were worth, the best first. Most are entered at once: sorted, they are
/// read from one end to the other, where a heap of all of them is looked up all over the memory.
struct Queue {
    /// The best last.
    sorted: Vec<Entry>,
    /// Entered later.
    late: BinaryHeap<Entry>,
}

impl Queue {
    fn new(mut entries: Vec<Entry>) -> Queue {
        entries.sort_unstable();
        Queue { sorted: entries, late: BinaryHeap::new() }
    }

    fn first(&self) -> Option<&Entry> {
        self.sorted.last().max(self.late.peek())
    }

    fn pop(&mut self) -> Option<Entry> {
        match self.late.peek() > self.sorted.last() {
            true => self.late.pop(),
            false => self.sorted.pop(),
        }
    }
}

/// Plans the stays of all intervals; `None` for those that are spent in HBM.
pub(in crate::zoo) fn plan(
    setting: &Setting<'_>,
    spill: &[TierId],
    trace: &Gaps,
) -> Vec<Option<Stay>> {
    let Gaps { lives, all: intervals, .. } = trace;
    let times: Vec<u64> = setting.spans.iter().map(|span| span.ps().max(1)).collect();
    let capacity = line(setting.memory.usable(HBM).most());
    let needed = needed(lives, times.len());
    let above = needed.iter().map(|&bytes| bytes.saturating_sub(capacity)).collect::<Vec<_>>();
    let heights = Heights::new(&above, &times);
    let Ok(routes) = setting.hardware.routes() else { return vec![None; intervals.len()] };
    if heights.removable(0, times.len(), PLENTY) == 0 {
        return vec![None; intervals.len()];
    }
    let route = |&tier: &TierId| {
        let channels = |from, to| routes.between(from, to).to_vec();
        Way { tier, evict: channels(HBM, tier), fetch: channels(tier, HBM) }
    };
    let routes: Vec<Way> = spill.iter().map(route).collect();
    let draft = |pace| Draft::new(setting, trace, &routes, &times, heights.clone(), pace);
    // What lies below the line at first does so whatever is taken, and at any pace.
    let recorded = draft(PARTS);
    let high = recorded.high();
    let at = |pace: u64| draft(pace).fill(&high);
    // The least pace from which on a slower one hardly helps, by bisection.
    let rest = |draft: &Draft<'_>| draft.heights.removable(0, times.len(), PLENTY);
    let mut best = recorded.fill(&high);
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

impl<'a> Draft<'a> {
    fn new(
        setting: &'a Setting<'a>,
        trace: &'a Gaps,
        routes: &'a [Way],
        times: &[u64],
        heights: Heights,
        pace: u64,
    ) -> Draft<'a> {
        let slower = |time: &u64| time.saturating_mul(pace) / PARTS;
        let idle = Idle::new(&times.iter().map(slower).collect::<Vec<_>>());
        let room = |route: &Way| {
            let free = line(setting.memory.usable(route.tier).most());
            Heights::new(&vec![-free; times.len()], times)
        };
        Draft {
            setting,
            routes,
            slots: times.len(),
            heights,
            rooms: routes.iter().map(room).collect(),
            idle: vec![idle; 2 * setting.hardware.links.len()],
            stays: vec![None; trace.all.len()],
            saved: vec![None; trace.versions.len()],
            homes: vec![None; trace.lives.len()],
            trace,
        }
    }

    /// Intervals in which there is something above the line.
    fn high(&self) -> Vec<usize> {
        let is_high =
            |interval: &Interval| self.last_above(interval.from, interval.until, 0).is_some();
        let all = self.trace.all.iter().enumerate();
        all.filter(|(_, interval)| is_high(interval)).map(|(index, _)| index).collect()
    }

    /// Takes interval after interval of these while any is worth something.
    fn fill(mut self, among: &[usize]) -> Draft<'a> {
        let entries = among.iter().filter_map(|&index| self.entry(index)).collect();
        let mut queue = Queue::new(entries);
        while let Some((worth, Reverse(index))) = queue.pop() {
            let index = index as usize;
            if self.stays[index].is_some() {
                continue;
            }
            // What was taken since has made it worth less, or its copies are no longer idle time.
            let Some(offer) = self.offer(index) else { continue };
            if offer.worth < worth && queue.first().is_some_and(|next| next.0 > offer.worth) {
                queue.late.push(entry(&offer, index));
                continue;
            }
            self.take(index, &offer);
            // Its other intervals with the same contents need no copy out any more.
            if let Some(Version { first, last, .. }) = self.version(index).filter(|_| offer.dirty) {
                let others = (first..last).filter(|&other| self.stays[other].is_none());
                queue.late.extend(others.filter_map(|other| self.entry(other)));
            }
        }
        self
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        self.offer(index).map(|offer| entry(&offer, index))
    }

    /// The best stay of an interval: what removes most, in the first of several tiers.
    fn offer(&self, index: usize) -> Option<Offer> {
        let interval = &self.trace.all[index];
        let life = &self.trace.lives[interval.object];
        // Contents can be written back as soon as they are there, and go when nobody uses them.
        let saved = interval.version.and_then(|version| self.saved[version]);
        let written = self.version(index).filter(|_| interval.evicts && saved.is_none());
        let dirty = written.is_some();
        let (first, until) = (interval.from, interval.until);
        // The quick question first.
        self.last_above(first, until, 0)?;
        let mut best: Option<(i128, Offer)> = None;
        for (route, Way { tier, evict, fetch }) in self.routes.iter().enumerate() {
            if self.homes[interval.object].is_some_and(|(home, _)| home != route) {
                continue;
            }
            let ends = evict.iter().filter(|_| dirty);
            let from = written.map_or(first, |version| version.from);
            let ends = ends.map(|&channel| self.end(channel, from, until, life.bytes));
            let out_from = Some(saved.map_or(first, |end| end.max(first)));
            let Some(out_from) = ends.fold(out_from, |a, b| Some(a?.max(b?))) else { continue };
            let starts = fetch.iter().filter(|_| interval.fetches);
            let mut starts = starts.map(|&channel| self.start(channel, first, until, life.bytes));
            let Some(back_at) = starts.try_fold(until, |a, b| Some(a.min(b?))) else { continue };
            if out_from >= back_at || !self.is_allocated(route, index) {
                continue;
            }
            // A part of a range removes no more than the whole.
            if best.as_ref().is_some_and(|(_, Offer { stay, .. })| {
                stay.out_from <= out_from && back_at <= stay.back_at
            }) {
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
            let cost = copy(dirty, HBM, *tier) + copy(interval.fetches, *tier, HBM);
            let stay = Stay { tier: *tier, leave_at: first, out_from, back_at, in_place: false };
            let saved = if interval.evicts { out_from } else { 0 };
            let worth = i64::try_from(gone / cost.max(1)).unwrap_or(i64::MAX);
            best = Some((gone, Offer { route, stay, dirty, saved, worth }));
        }
        best.map(|(_, offer)| offer).filter(|offer| offer.worth > 0)
    }

    fn take(&mut self, index: usize, offer: &Offer) {
        let interval = &self.trace.all[index];
        let (bytes, until) = (self.trace.lives[interval.object].bytes, interval.until);
        let (route, hardware) = (&self.routes[offer.route], self.setting.hardware);
        for &channel in route.evict.iter().filter(|_| offer.dirty) {
            let from = self.version(index).map_or(interval.from, |version| version.from);
            self.book(channel, from, 0, busy(hardware, channel, bytes));
        }
        if let Some(version) = interval.version {
            self.saved[version].get_or_insert(offer.saved);
        }
        for &channel in route.fetch.iter().filter(|_| interval.fetches) {
            let time = busy(hardware, channel, bytes);
            if let Some(start) = self.start(channel, interval.from, until, bytes) {
                let kept = self.before(channel, until) - time - self.before(channel, start);
                self.book(channel, start, kept, time);
            }
        }
        self.raise(offer.stay.out_from, offer.stay.back_at, -bytes);
        self.settle(index, offer.route);
        self.stays[index] = Some(offer.stay);
    }

    /// What the object holds in an interval, if that ever changes.
    fn version(&self, index: usize) -> Option<Version> {
        self.trace.all[index].version.map(|version| self.trace.versions[version])
    }

    /// The slots in which an object has room in its spill tier if it stays there in this interval.
    fn roomy(&self, index: usize) -> (usize, usize) {
        let interval = &self.trace.all[index];
        let life = &self.trace.lives[interval.object];
        let from = self.version(index).map_or(interval.from, |version| version.from);
        if life.persistent { (0, self.slots) } else { (from.min(self.slots), life.dead) }
    }

    /// The part of that in which it has none yet.
    fn new_room(&self, index: usize) -> (usize, usize) {
        let (from, until) = self.roomy(index);
        match self.homes[self.trace.all[index].object] {
            Some((_, already)) => (from, until.min(already)),
            None => (from, until),
        }
    }

    fn is_allocated(&self, route: usize, index: usize) -> bool {
        let (from, until) = self.new_room(index);
        let bytes = self.trace.lives[self.trace.all[index].object].bytes;
        from >= until || self.rooms[route].last_above(from, until, -bytes).is_none()
    }

    fn settle(&mut self, index: usize, route: usize) {
        let (from, until) = self.new_room(index);
        let object = self.trace.all[index].object;
        if from < until {
            self.rooms[route].raise(from, until, self.trace.lives[object].bytes);
            self.homes[object] = Some((route, from));
        }
    }

    /// Starts every prefetch earlier while memory allows, the one that is needed first before
    /// others.
    fn move_earlier(&mut self) {
        let mut order: Vec<usize> =
            (0..self.stays.len()).filter(|&index| self.trace.all[index].fetches).collect();
        // Uses of the replay in which it leaves come before those of the next.
        let round = |index: usize| {
            let Interval { from, until, .. } = self.trace.all[index];
            until - (from - from % self.slots)
        };
        order.sort_by_key(|&index| (round(index), index));
        for index in order {
            let Some(stay) = self.stays[index] else { continue };
            let bytes = self.trace.lives[self.trace.all[index].object].bytes;
            let full = self.last_above(stay.out_from, stay.back_at, -bytes);
            let back_at = full.map_or(stay.out_from, |slot| slot + 1);
            self.raise(back_at, stay.back_at, bytes);
            self.stays[index] = Some(Stay { back_at, ..stay });
        }
    }
}

/// Where copies start and end on channels, and memory over ranges that may wrap. Positions count
/// slots over several replays: the slot of a position is what is left of it modulo the number of
/// slots, since every replay is planned alike. No range is longer than one replay, so that it
/// counts no slot twice.
impl Draft<'_> {
    /// The ranges of slots that a range of positions covers, the earlier first.
    fn cut(&self, from: usize, until: usize) -> [(usize, usize); 2] {
        if from >= until {
            return [(0, 0); 2];
        }
        let (slots, slot) = (self.slots, from % self.slots);
        let first = (until - from).min(slots - slot);
        [(slot, slot + first), (0, until - from - first)]
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

    /// The last position of the range that is higher than `line`.
    fn last_above(&self, from: usize, until: usize, line: i64) -> Option<usize> {
        let [first, second] = self.cut(from, until);
        let of = |(a, b): (usize, usize)| self.heights.last_above(a, b, line);
        let next = from - from % self.slots + self.slots;
        let late = of(second).map(|slot| slot + next);
        late.or_else(|| of(first).map(|slot| slot + next - self.slots))
    }

    /// Idle time of a channel before a position.
    fn before(&self, channel: Channel, at: usize) -> u64 {
        let idle = &self.idle[channel.index()];
        let rounds = (at / self.slots) as u64;
        rounds * idle.total() + idle.before(at % self.slots)
    }

    /// The last position that has no more than `time` of idle time before it.
    fn position(&self, channel: Channel, time: u64) -> usize {
        let idle = &self.idle[channel.index()];
        let round = idle.total().max(1);
        (time / round) as usize * self.slots + idle.slot_of(time % round)
    }

    /// Where a copy ends that starts as early as possible: from there on its room is free.
    fn end(&self, channel: Channel, from: usize, until: usize, bytes: i64) -> Option<usize> {
        let target =
            self.before(channel, from).checked_add(busy(self.setting.hardware, channel, bytes))?;
        (target <= self.before(channel, until)).then(|| self.position(channel, target - 1) + 1)
    }

    /// Where a copy starts that starts as late as possible.
    fn start(&self, channel: Channel, from: usize, until: usize, bytes: i64) -> Option<usize> {
        let limit = self.before(channel, until);
        let start = limit.checked_sub(busy(self.setting.hardware, channel, bytes))?;
        (start >= self.before(channel, from)).then(|| self.position(channel, start).max(from))
    }

    /// Takes idle time from a position on, but `keep` of what comes first.
    fn book(&mut self, channel: Channel, from: usize, keep: u64, time: u64) {
        let slot = from % self.slots;
        let idle = &mut self.idle[channel.index()];
        let there = (idle.total() - idle.before(slot)).saturating_sub(keep).min(time);
        idle.take(slot, keep, there);
        idle.take(0, 0, time - there);
    }
}

/// How long a channel is taken by a copy that it carries alone.
fn busy(hardware: &Hardware, channel: Channel, bytes: i64) -> u64 {
    hardware.channel_law(channel).span_of(Bytes::new(bytes.unsigned_abs())).ps().max(1)
}
