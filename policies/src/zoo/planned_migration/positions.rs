//! Where copies start and end on a plan's channels, and memory over ranges that may wrap.
//!
//! Positions count slots over several replays: the slot of a position is what is left of it modulo
//! the number of slots, since every replay is planned alike.
//! Invariant: no range is longer than one replay, so that it counts no slot twice.

use super::plan::{Draft, busy};
use tiersim_models::hardware::Channel;

/// Positions over several replays, whose slots are those of the first. No range is longer than one.
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

    pub(super) fn removable(&self, from: usize, until: usize, bytes: i64) -> i128 {
        let parts = self.cut(from, until).into_iter().filter(|(a, b)| a < b);
        parts.map(|(a, b)| self.heights.removable(a, b, bytes)).sum()
    }

    pub(super) fn raise(&mut self, from: usize, until: usize, bytes: i64) {
        for (a, b) in self.cut(from, until).into_iter().filter(|(a, b)| a < b) {
            self.heights.raise(a, b, bytes);
        }
    }

    /// The last position of the range that is higher than `line`.
    pub(super) fn last_above(&self, from: usize, until: usize, line: i64) -> Option<usize> {
        let [first, second] = self.cut(from, until);
        let of = |(a, b): (usize, usize)| self.heights.last_above(a, b, line);
        let next = from - from % self.slots + self.slots;
        let late = of(second).map(|slot| slot + next);
        late.or_else(|| of(first).map(|slot| slot + next - self.slots))
    }

    /// Idle time of a channel before a position.
    pub(super) fn before(&self, channel: Channel, at: usize) -> u64 {
        let idle = &self.idle[channel.index()];
        let rounds = (at / self.slots) as u64;
        rounds * idle.before(self.slots) + idle.before(at % self.slots)
    }

    /// The last position that has no more than `time` of idle time before it.
    fn position(&self, channel: Channel, time: u64) -> usize {
        let idle = &self.idle[channel.index()];
        let round = idle.before(self.slots).max(1);
        (time / round) as usize * self.slots + idle.slot_of(time % round)
    }

    /// Where a copy ends that starts as early as possible: from there on its room is free.
    pub(super) fn end(
        &self,
        channel: Channel,
        from: usize,
        until: usize,
        bytes: i64,
    ) -> Option<usize> {
        let target =
            self.before(channel, from).checked_add(busy(self.setting.hardware, channel, bytes))?;
        (target <= self.before(channel, until)).then(|| self.position(channel, target - 1) + 1)
    }

    /// Where a copy starts that starts as late as possible.
    pub(super) fn start(
        &self,
        channel: Channel,
        from: usize,
        until: usize,
        bytes: i64,
    ) -> Option<usize> {
        let limit = self.before(channel, until);
        let start = limit.checked_sub(busy(self.setting.hardware, channel, bytes))?;
        (start >= self.before(channel, from)).then(|| self.position(channel, start).max(from))
    }

    /// Takes idle time from a position on, but `keep` of what comes first.
    pub(super) fn book(&mut self, channel: Channel, from: usize, keep: u64, time: u64) {
        let (slots, slot) = (self.slots, from % self.slots);
        let idle = &mut self.idle[channel.index()];
        let there = (idle.before(slots) - idle.before(slot)).saturating_sub(keep).min(time);
        idle.take(slot, keep, there);
        idle.take(0, 0, time - there);
    }
}
