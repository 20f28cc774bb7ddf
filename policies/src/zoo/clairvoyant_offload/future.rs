//! What is known of the ops to come: next uses, next writes, bytes alive, times without stalls.
//!
//! All of it follows from the workload and from how long its ops take; nothing is observed.
//! Invariant: what lies beyond the window is never told but as "not known".

use super::alive::Alive;
use super::{ClairvoyantOffloadConfig, told};
use crate::recipe::Setting;
use crate::state::{Remembered, State, remember};
use crate::visits::streams;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Trace;

/// Ranks of next uses that are not known start here; occurrences are far below.
const BEYOND: u64 = 1 << 62;

/// The rank of what stays: before all others.
pub(super) const STAYS: u64 = 0;

/// The future of every object, as seen from the op that is planned.
#[derive(Debug)]
pub(super) struct Future {
    ops: u64,
    total: u64,
    /// How many ops ahead are known.
    window: u64,
    /// From the second replay on the first is remembered: all is known but where the run ends.
    remembers: bool,
    objects: Vec<Uses>,
    alive: Alive,
    times: Times,
}

/// When one object is used.
#[derive(Debug, Default)]
struct Uses {
    persistent: bool,
    /// Ops that use it, and for each the first op from there on that writes it; counted on into
    /// the next replay, and never if none does.
    ops: Vec<(u32, u64)>,
    /// After this op its room is given back.
    release: Option<u32>,
    /// The use that comes next, as a position in `ops`, and in which replay.
    next: usize,
    lap: u64,
    /// The occurrence that used it last, counted from 1.
    last: u64,
}

impl Remembered for Future {
    /// Where each object is in its uses.
    fn state(&self, out: &mut State) {
        remember!(out, self as Future {} skip { ops, total, window, remembers, objects, alive, times });
        // Contents last up to two replays, which is how far the most alive is asked for.
        let window = if self.window == u64::MAX { 0 } else { self.window };
        out.looks_ahead(window.saturating_add(3 * self.ops));
        for uses in &self.objects {
            remember!(out, uses as Uses { next } skip { persistent, ops, release, lap, last });
            out.op(uses.lap * self.ops);
            out.op_from_1(uses.last);
        }
    }
}

impl Future {
    pub(super) fn new(
        setting: &Setting<'_>,
        config: &ClairvoyantOffloadConfig,
        in_place: &told::Uses,
    ) -> Future {
        let Setting { workload, spans, repeat, .. } = *setting;
        let trace = &workload.trace;
        let ops = trace.ops.len() as u64;
        Future {
            ops,
            total: if config.remembers { u64::MAX } else { ops * u64::from(repeat) },
            window: config.window.map_or(u64::MAX, u64::from),
            remembers: config.remembers,
            objects: uses(workload, in_place),
            alive: Alive::new(workload),
            times: Times::new(trace, spans),
        }
    }

    /// Writes a rank.
    pub(super) fn write_rank(rank: u64, out: &mut State) {
        match rank {
            u64::MAX => out.word(0),
            STAYS => out.word(3),
            BEYOND.. => {
                out.word(1);
                out.op_from_1(2 * BEYOND - rank);
            }
            next => {
                out.word(2);
                out.op(next);
            }
        }
    }

    /// So many replays fewer are to come.
    pub(super) fn leave_out(&mut self, replays: u64) {
        if !self.remembers {
            self.total -= replays * self.ops;
        }
    }

    /// How many ops ahead are known at an occurrence.
    fn window(&self, now: u64) -> u64 {
        if self.remembers && now >= self.ops { u64::MAX } else { self.window }
    }

    /// Whether all that is to come is known at an occurrence.
    pub(super) fn sees_all(&self, now: u64) -> bool {
        self.window(now) == u64::MAX
    }

    /// Whether the whole step is known from this occurrence on, and was not before.
    pub(super) fn recalls(&self, now: u64) -> bool {
        self.remembers && now == self.ops
    }

    /// The occurrence of the object's next use; `None` if there is none within the lookahead.
    pub(super) fn next(&self, object: ObjectId, now: u64) -> Option<u64> {
        self.upcoming(object).filter(|&next| next - now.min(next) <= self.window(now))
    }

    /// The uses of an object within the lookahead and a replay, up to and including an occurrence:
    /// when, and by which op.
    pub(super) fn uses_until(
        &self,
        object: ObjectId,
        now: u64,
        until: u64,
    ) -> impl Iterator<Item = (u64, OpId)> {
        let uses = &self.objects[object.index()];
        let (count, until) = (uses.ops.len(), until.min(now.saturating_add(self.window(now))));
        let all = if uses.persistent && count > 0 { uses.next + count + 1 } else { count };
        let occurrence = move |at: usize| {
            let op = uses.ops[at % count].0;
            ((uses.lap + (at / count) as u64) * self.ops + u64::from(op), OpId(op))
        };
        let known = move |&(at, _): &(u64, OpId)| at <= until && at < self.total;
        (uses.next..all).map(occurrence).take_while(known)
    }

    /// Whether an object is used no more, and nothing but its end is to come.
    pub(super) fn is_over(&self, object: ObjectId) -> bool {
        self.upcoming(object).is_none()
    }

    fn upcoming(&self, object: ObjectId) -> Option<u64> {
        let uses = &self.objects[object.index()];
        let &(op, _) = uses.ops.get(uses.next)?;
        Some(uses.lap * self.ops + u64::from(op)).filter(|&next| next < self.total)
    }

    /// Order of next uses, and of the ends of what is used no more: the occurrence if it is known;
    /// else behind all of these, what was used longest ago last; what never ends behind everything.
    pub(super) fn rank(&self, object: ObjectId, now: u64) -> u64 {
        match (self.next(object, now), self.upcoming(object)) {
            (Some(next), _) => next,
            (None, Some(_)) => BEYOND + (BEYOND - self.objects[object.index()].last),
            (None, None) => self.end_of(object, now),
        }
    }

    /// The rank of what is used no more: when its memory is given back, as to have it elsewhere is
    /// of use until then only.
    fn end_of(&self, object: ObjectId, now: u64) -> u64 {
        let uses = &self.objects[object.index()];
        let end = uses.release.map(|op| uses.lap * self.ops + u64::from(op));
        match end.filter(|&end| end.saturating_sub(now) <= self.window(now)) {
            Some(end) => end,
            None if self.sees_all(now) => u64::MAX,
            None => BEYOND + (BEYOND - uses.last),
        }
    }

    /// The occurrence that a rank stands for, if it is known.
    pub(super) fn in_sight(rank: u64) -> Option<u64> {
        (rank < BEYOND).then_some(rank)
    }

    /// The object has been used.
    pub(super) fn advance(&mut self, object: ObjectId, now: u64) {
        let uses = &mut self.objects[object.index()];
        uses.last = now + 1;
        let op = (now % self.ops) as u32;
        if uses.ops.get(uses.next).is_none_or(|next| next.0 != op) {
            return; // it brings nothing back
        }
        uses.next += 1;
        if uses.next == uses.ops.len() && uses.persistent {
            (uses.next, uses.lap) = (0, uses.lap + 1);
        }
    }

    /// The object's life has ended; the next one is in the next replay.
    pub(super) fn end(&mut self, object: ObjectId) {
        let uses = &mut self.objects[object.index()];
        (uses.next, uses.lap) = (0, uses.lap + 1);
    }

    /// Whether more bytes are alive than `room` at some time while the object's present contents
    /// last: only then can it be of use to have them elsewhere. What is not known may be so.
    pub(super) fn is_worth_a_copy(&self, object: ObjectId, now: u64, room: Bytes) -> bool {
        let uses = &self.objects[object.index()];
        let lap = uses.lap * self.ops;
        let until = match (uses.ops.get(uses.next), uses.release) {
            (Some(&(_, write)), _) => lap.saturating_add(write),
            (None, Some(release)) => lap + u64::from(release),
            (None, None) => return false,
        };
        let lookahead = now.saturating_add(self.window(now));
        let unseen = until > lookahead && lookahead < self.total;
        let until = until.min(lookahead).min(self.total.saturating_sub(1));
        unseen || self.alive.peak(now, until) > room
    }

    /// How many more bytes are alive at some time up to and including `until` than after `now`.
    pub(super) fn growth(&self, now: u64, until: u64) -> Bytes {
        let peak = if until > now { self.alive.peak(now + 1, until) } else { Bytes::ZERO };
        let left = self.alive.after[(now % self.ops) as usize];
        peak.checked_sub(left).unwrap_or(Bytes::ZERO)
    }

    /// The most bytes alive within the lookahead.
    pub(super) fn peak(&self, now: u64) -> Bytes {
        let last = self.total.saturating_sub(1);
        self.alive.peak(now, now.saturating_add(self.window(now)).min(last).max(now))
    }

    /// The most bytes alive until an occurrence, as far as it is known.
    pub(super) fn peak_until(&self, now: u64, until: Option<u64>) -> Bytes {
        until.map_or_else(|| self.peak(now), |until| self.alive.peak(now, until.max(now)))
    }

    /// Picoseconds between the starts of two occurrences if nothing is held up.
    pub(super) fn between(&self, now: u64, later: u64) -> u64 {
        self.times.of(later).saturating_sub(self.times.of(now))
    }

    /// The op of the trace.
    pub(super) fn op(&self, occurrence: u64) -> OpId {
        OpId::at((occurrence % self.ops) as usize)
    }

    /// The op that used an object last.
    pub(super) fn last(&self, object: ObjectId) -> Option<OpId> {
        self.objects[object.index()].last.checked_sub(1).map(|last| self.op(last))
    }

    /// The op that comes into the lookahead with `now`.
    pub(super) fn appears(&self, now: u64) -> Option<OpId> {
        let seen = now.checked_add(self.window(now)).filter(|&seen| seen < self.total)?;
        Some(OpId::at((seen % self.ops) as usize))
    }
}

/// The uses of every object in one replay that bring it back if it is outside.
fn uses(workload: &Workload, in_place: &told::Uses) -> Vec<Uses> {
    let trace = &workload.trace;
    let ops = trace.ops.len();
    let mut all: Vec<Uses> = trace
        .objects
        .iter()
        .map(|object| Uses { persistent: object.persistent, ..Uses::default() })
        .collect();
    for op in (0..ops).map(OpId::at) {
        for touched in trace.uses_of(op) {
            all[touched.object.index()].ops.push((op.0, 0));
        }
        for object in workload.releases(op) {
            all[object.index()].release = Some(op.0);
        }
    }
    // Backwards, and for what persists twice: behind the last op comes the first again.
    let mut write: Vec<u64> =
        all.iter().map(|uses| uses.release.map_or(u64::MAX, u64::from)).collect();
    let mut position: Vec<usize> = vec![0; all.len()];
    for lap in (0..2u64).rev() {
        position.iter_mut().zip(&all).for_each(|(at, uses)| *at = uses.ops.len());
        for op in (0..ops).rev().map(OpId::at) {
            for touched in trace.uses_of(op) {
                let object = touched.object.index();
                if lap == 1 && !all[object].persistent {
                    continue;
                }
                if touched.mode.writes() {
                    write[object] = lap * ops as u64 + u64::from(op.0);
                }
                position[object] -= 1;
                all[object].ops[position[object]].1 = write[object];
            }
        }
    }
    for &(object, op) in in_place {
        all[object.index()].ops.retain(|used| used.0 != op.0);
    }
    all
}

/// When ops start if nothing is held up.
#[derive(Debug)]
struct Times {
    starts: Vec<u64>,
    /// From one replay to the next.
    replay: u64,
}

impl Times {
    fn new(trace: &Trace, spans: &[Span]) -> Times {
        let mut free = vec![0u64; streams(trace)];
        let mut written = vec![0u64; trace.objects.len()];
        let (mut starts, mut ends) = (Vec::new(), Vec::<u64>::new());
        for (index, op) in trace.ops.iter().enumerate() {
            let uses = trace.uses_of(OpId::at(index));
            let data = uses.iter().map(|touched| written[touched.object.index()]);
            let order = op.after.iter().map(|before| ends[before.index()]);
            let start = data.chain(order).fold(free[usize::from(op.stream)], u64::max);
            let end = start.saturating_add(spans[index].ps());
            free[usize::from(op.stream)] = end;
            for touched in uses.iter().filter(|touched| touched.mode.writes()) {
                written[touched.object.index()] = end;
            }
            starts.push(start);
            ends.push(end);
        }
        Times { starts, replay: ends.into_iter().max().unwrap_or(0) }
    }

    fn of(&self, occurrence: u64) -> u64 {
        let ops = self.starts.len() as u64;
        let before = (occurrence / ops).saturating_mul(self.replay);
        before.saturating_add(self.starts[(occurrence % ops) as usize])
    }
}
