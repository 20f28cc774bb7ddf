//! Lives and inactive intervals: what a trace's order says about each object.
//!
//! An object is inactive between two uses. If the trace is replayed, what lives on between replays
//! is also inactive from its last use to its first one of the next replay; if not, from the start
//! to its first use, and from its last use to the end. What does not live on may also be held
//! inactive, from its last use until its memory is given back; G10 plans nothing for that time.
//! Between the uses of two ops in a row, before a use by the first op and at a birth lie moments:
//! intervals of no op, in which an object can leave, or at which it is outside already. G10 plans
//! nothing for them either.
//! Invariant: the intervals of an object are in order and do not overlap.

use crate::recipe::Setting;
use crate::visits::Visits;
use std::ops::Range;
use tiersim_models::ids::ObjectId;
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::Object;

/// One object.
#[derive(Clone, Debug, Default)]
pub(in crate::zoo) struct Life {
    pub(in crate::zoo) bytes: i64,
    pub(in crate::zoo) persistent: bool,
    /// The ops that use it, in order, and whether they write it.
    pub(in crate::zoo) uses: Vec<(usize, bool)>,
    /// Its memory is needed from this slot on,
    pub(in crate::zoo) born: usize,
    /// and no more from this one on.
    pub(in crate::zoo) dead: usize,
}

/// Slots in which nobody uses an object that is needed again, or could be elsewhere.
///
/// Positions count slots over several replays: position p is slot p modulo the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::zoo) struct Interval {
    /// Which object, by id.
    pub(in crate::zoo) object: usize,
    /// The first position without use.
    pub(in crate::zoo) from: usize,
    /// The position of the next use, or of the end.
    pub(in crate::zoo) until: usize,
    /// Whether the object is in HBM before: if not, it starts outside.
    pub(in crate::zoo) evicts: bool,
    /// Whether it is used again.
    pub(in crate::zoo) fetches: bool,
    /// Which contents it has; `None` where nothing ever changes them.
    pub(in crate::zoo) version: Option<usize>,
}

/// What one write leaves, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::zoo) struct Version {
    /// It can be written back from this position on.
    pub(in crate::zoo) from: usize,
    /// The intervals in which the object has these contents, as a range.
    pub(in crate::zoo) first: usize,
    pub(in crate::zoo) last: usize,
}

/// What is planned: every object's life, its inactive intervals, and the versions of its contents.
#[derive(Clone, Debug)]
pub(in crate::zoo) struct Gaps {
    pub(in crate::zoo) ops: usize,
    pub(in crate::zoo) lives: Vec<Life>,
    pub(in crate::zoo) all: Vec<Interval>,
    pub(in crate::zoo) versions: Vec<Version>,
}

impl Gaps {
    /// Between uses, of a workload that is replayed so often.
    pub(in crate::zoo) fn new(setting: &Setting<'_>) -> Gaps {
        Gaps::of(setting, false)
    }

    /// The same, with moments, and behind last uses what is held.
    pub(in crate::zoo) fn with_held(setting: &Setting<'_>) -> Gaps {
        Gaps::of(setting, true)
    }

    fn of(setting: &Setting<'_>, held: bool) -> Gaps {
        let lives = lives(setting.workload, &Visits::new(setting.workload));
        let ops = setting.workload.trace.ops.len();
        let (all, versions) = intervals(&lives, ops, (setting.repeat > 1, held));
        Gaps { ops, lives, all, versions }
    }
}

/// Every object's life.
fn lives(workload: &Workload, visits: &Visits) -> Vec<Life> {
    let life = |(index, object): (usize, &Object)| {
        let id = ObjectId::at(index);
        let (uses, Range { start, end }) = (visits.uses(id).iter(), visits.life(id));
        Life {
            bytes: i64::try_from(object.bytes.get()).unwrap_or(i64::MAX >> 4).min(i64::MAX >> 4),
            persistent: object.persistent,
            uses: uses.map(|&(op, writes)| (op as usize, writes)).collect(),
            born: start as usize,
            dead: end as usize,
        }
    };
    workload.trace.objects.iter().enumerate().map(life).collect()
}

/// All inactive intervals, object by object, and the versions of all objects.
pub(super) fn intervals(
    lives: &[Life],
    slots: usize,
    (replayed, held): (bool, bool),
) -> (Vec<Interval>, Vec<Version>) {
    let (mut all, mut versions) = (Vec::new(), Vec::new());
    for (object, life) in lives.iter().enumerate() {
        let (Some(&(first, _)), Some(&(last, _))) = (life.uses.first(), life.uses.last()) else {
            continue;
        };
        let (start, round) = (all.len(), life.persistent && replayed);
        // What was there before the first op, or at the birth.
        let mut version =
            (!round).then(|| new_version(&mut versions, first * usize::from(!life.persistent)));
        let mut push = |from, until, (evicts, fetches), version| {
            let moment = held && from == until && fetches;
            if from < until || moment {
                all.push(Interval { object, from, until, evicts, fetches, version });
            }
        };
        if life.persistent && !replayed {
            push(0, first, (false, true), version);
        }
        if !life.persistent && life.born == first {
            push(first, first, (false, true), version);
        }
        for (at, &(op, writes)) in life.uses.iter().enumerate() {
            if writes {
                version = Some(new_version(&mut versions, op + 1));
            }
            match life.uses.get(at + 1) {
                Some(&(next, _)) => push(op + 1, next, (true, true), version),
                None if round => push(last + 1, slots + first, (true, true), version),
                None if life.persistent => push(last + 1, slots, (true, false), version),
                None => push(op + 1, if held { life.dead } else { 0 }, (true, false), version),
            }
        }
        // Before the first write there is what the last one left in the replay before.
        for interval in all[start..].iter_mut().filter(|i| round && i.version.is_none()) {
            interval.version = version;
            let later = if version.is_some() { slots } else { 0 };
            (interval.from, interval.until) = (interval.from + later, interval.until + later);
        }
    }
    for (index, version) in all.iter().enumerate().filter_map(|(i, one)| Some((i, one.version?))) {
        let Version { first, last, .. } = &mut versions[version];
        (*first, *last) = ((*first).min(index), index + 1);
    }
    (all, versions)
}

fn new_version(versions: &mut Vec<Version>, from: usize) -> usize {
    versions.push(Version { from, first: usize::MAX, last: 0 });
    versions.len() - 1
}
