//! Lives and inactive intervals: what a trace's order says about each object.
//!
//! An object is inactive between two uses. If the trace is replayed, what lives on between replays
//! is also inactive from its last use to its first one of the next replay; if not, from the start
//! to its first use, and from its last use to the end.
//! Invariant: the intervals of an object are in order and do not overlap.

use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;

/// One object.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub(super) bytes: i64,
    pub(super) persistent: bool,
    /// The ops that use it, in order, and whether they write it.
    pub(super) uses: Vec<(usize, bool)>,
    /// Its memory is needed from this slot on,
    pub(super) born: usize,
    /// and no more from this one on.
    pub(super) dead: usize,
}

/// Slots in which nobody uses an object that is needed again, or could be elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// Which object, by id.
    pub(super) object: usize,
    /// The first slot without use.
    pub(super) from: usize,
    /// The slot of the next use; in the next replay if not below the number of slots.
    pub(super) until: usize,
    /// Whether the object is in HBM before: if not, it starts outside.
    pub(super) evicts: bool,
    /// Whether it is used again.
    pub(super) fetches: bool,
    /// Whether the use before it writes.
    pub(super) written: bool,
    /// The interval before this one of the same object; itself if there is none.
    pub(super) previous: usize,
    /// The one after it; itself if there is none.
    pub(super) following: usize,
}

/// Every object's life.
pub(super) fn lives(workload: &Workload) -> Vec<Life> {
    let (objects, ops) = (&workload.trace.objects, workload.trace.ops.len());
    let mut lives: Vec<Life> = objects
        .iter()
        .map(|object| Life {
            bytes: i64::try_from(object.bytes.get()).unwrap_or(i64::MAX >> 4).min(i64::MAX >> 4),
            persistent: object.persistent,
            uses: Vec::new(),
            born: 0,
            dead: ops,
        })
        .collect();
    for op in 0..ops {
        let id = OpId::at(op);
        workload.births(id).iter().for_each(|object| lives[object.index()].born = op);
        for used in workload.trace.uses_of(id) {
            lives[used.object.index()].uses.push((op, used.mode.writes()));
        }
        workload.releases(id).iter().for_each(|object| lives[object.index()].dead = op + 1);
    }
    lives
}

/// All inactive intervals, object by object, in order.
pub(super) fn intervals(lives: &[Life], slots: usize, replayed: bool) -> Vec<Interval> {
    let mut all = Vec::new();
    for (object, life) in lives.iter().enumerate() {
        let (Some(&(first, _)), Some(&(last, _))) = (life.uses.first(), life.uses.last()) else {
            continue;
        };
        let start = all.len();
        // Uses with nothing between them count with the interval that follows.
        let mut written = false;
        let mut push = |from, until, (evicts, fetches), written: &mut bool| {
            if from < until {
                let written = std::mem::take(written);
                let (previous, following) = (all.len(), all.len());
                #[rustfmt::skip]
                all.push(Interval { object, from, until, evicts, fetches, written, previous, following });
            }
        };
        if life.persistent && !replayed {
            push(0, first, (false, true), &mut written);
        }
        for pair in life.uses.windows(2) {
            written |= pair[0].1;
            push(pair[0].0 + 1, pair[1].0, (true, true), &mut written);
        }
        written |= life.uses.last().is_some_and(|used| used.1);
        if life.persistent && replayed {
            push(last + 1, slots + first, (true, true), &mut written);
        } else if life.persistent {
            push(last + 1, slots, (true, false), &mut written);
        }
        if let Some(next) = all.get_mut(start) {
            // Only where nothing is between the last use and the first of the next replay.
            next.written |= written && life.persistent && replayed;
        }
        join(&mut all, start, life.persistent && replayed);
    }
    all
}

/// Says of each interval which one is before and after it.
fn join(all: &mut [Interval], start: usize, round: bool) {
    let end = all.len();
    for index in start..end {
        let (is_first, is_last) = (index == start, index + 1 == end);
        all[index].previous = match (is_first, round) {
            (true, true) => end - 1,
            (true, false) => index,
            (false, _) => index - 1,
        };
        all[index].following = match (is_last, round) {
            (true, true) => start,
            (true, false) => index,
            (false, _) => index + 1,
        };
    }
}

/// The occurrence of the next use after `occurrence`, if there is one in a run of so many replays.
pub(super) fn next_use(life: &Life, occurrence: u64, ops: u64, replays: u64) -> Option<u64> {
    let (replay, op) = (occurrence / ops, (occurrence % ops) as usize);
    let next = life.uses.partition_point(|&(used, _)| used <= op);
    match life.uses.get(next) {
        Some(&(used, _)) => Some(replay * ops + used as u64),
        None if !life.persistent || replay + 1 >= replays => None,
        None => life.uses.first().map(|&(used, _)| (replay + 1) * ops + used as u64),
    }
}

/// The first use in the run.
pub(super) fn first_use(life: &Life) -> Option<u64> {
    life.uses.first().map(|&(used, _)| used as u64)
}
