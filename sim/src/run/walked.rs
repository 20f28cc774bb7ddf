//! The critical path of the last measured replay, step by step as its steps end: sums over all of
//! them, and the path itself of the last.
//!
//! Invariant: sums are of every step; segments of as many steps at the end as do not go beyond
//! [`MOST_SEGMENTS`], and of the last one always.

use crate::machine::watched::Watched;
use crate::machine::{Doing, Segment, WalkedStep};
use std::collections::{BTreeMap, VecDeque};
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::results::explain::{
    Gap, Lane, PathObject, PathOp, PathSegment, PathSum, Spender, WalkedPath,
};
use tiersim_models::results::{CaseRecord, Figures, Parts, PathPart};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Phase, Trace};

/// Segments that are kept beside those of the last step.
const MOST_SEGMENTS: usize = 100_000;

/// What a sum is of: a part by place, a phase, and an op or an object of the trace.
type Key = (usize, Phase, Option<OpId>, Option<ObjectId>);

/// A case that was run, and its path and gap if these were asked for and it fitted.
pub struct Walk {
    /// Its record.
    pub record: CaseRecord,
    /// Where its last replay led, and what lies between that and the bound.
    pub path: Option<(WalkedPath, Gap)>,
}

/// Paths of steps that have ended.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    parts: Parts,
    walks: bool,
    steps: u64,
    span: Span,
    kept: VecDeque<(u64, WalkedStep)>,
    segments: usize,
    sums: BTreeMap<Key, Sum>,
    lanes: BTreeMap<(usize, Phase), Lane>,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    part: PathPart,
    span: Span,
    setup: Span,
    bytes: u128,
    count: u64,
}

impl Walked {
    /// The last replay begins.
    pub(super) fn begin(&mut self, machine: &mut impl Watched) {
        machine.record_path();
        (self.walks, self.parts) = (true, machine.meters().split.parts());
    }

    /// A step has ended; with `next` the last replay begins behind it.
    pub(super) fn step_ended(&mut self, machine: &mut impl Watched, next: bool) {
        if self.walks {
            // One that took no time has no path.
            let step = machine.take_walked().unwrap_or_default();
            self.add(step);
        }
        if next {
            self.begin(machine);
        }
    }

    fn add(&mut self, mut step: WalkedStep) {
        let number = self.steps;
        self.steps += 1;
        self.span += step.span;
        let (mut command, mut seen) = (None, Vec::new());
        for segment in &mut step.segments {
            segment.part = self.parts.counted(segment.part);
            if command != Some(segment.command) {
                (command, seen) = (Some(segment.command), Vec::new());
            }
            let first = !seen.contains(&segment.part);
            seen.push(segment.part);
            self.count(segment, first);
        }
        for (channel, busy) in step.busy.iter().enumerate() {
            self.overlap(channel, busy, &step.segments);
        }
        step.busy = Vec::new();
        self.segments += step.segments.len();
        self.kept.push_back((number, step));
        while self.segments > MOST_SEGMENTS && self.kept.len() > 1 {
            let gone = self.kept.pop_front();
            self.segments -= gone.map_or(0, |(_, step)| step.segments.len());
        }
    }

    /// Adds a segment to the sums; `first` says that its command was not counted there yet.
    fn count(&mut self, segment: &Segment, first: bool) {
        let Segment { span, setup, part, phase, behind, ref used, .. } = *segment;
        // Time in line is put down to who crossed meanwhile.
        let doing = behind.unwrap_or(segment.doing);
        let place = self.parts.index(part);
        let mut add = |op, object, span, setup, bytes: Bytes| {
            let none = Sum { part, span: Span::ZERO, setup: Span::ZERO, bytes: 0, count: 0 };
            let sum = self.sums.entry((place, phase, op, object)).or_insert(none);
            sum.span += span;
            sum.setup += setup;
            if first {
                sum.bytes += u128::from(bytes.get());
                sum.count += 1;
            }
        };
        match doing {
            Doing::Copy { object, bytes, .. } => add(None, Some(object), span, setup, bytes),
            Doing::Compact { bytes, .. } => add(None, None, span, setup, bytes),
            Doing::Op(op) if used.is_empty() => add(Some(op), None, span, setup, Bytes::ZERO),
            Doing::Op(_) => {
                let all: u128 = used.iter().map(|used| u128::from(used.2.get())).sum();
                let up_to = |bytes: u128| {
                    let share = u128::from(span.ps()) * bytes / all.max(1);
                    u64::try_from(share).expect("no more than all")
                };
                let mut before = 0;
                for (index, &(object, _, bytes)) in used.iter().enumerate() {
                    let from = up_to(before);
                    before += u128::from(bytes.get());
                    let until = if index + 1 == used.len() { span.ps() } else { up_to(before) };
                    let own = Span::from_ps(until - from);
                    add(None, Some(object), own, Span::ZERO, bytes);
                }
            }
        }
    }

    /// Adds when a channel was busy, and what of its time is on the path, to the phases of the path
    /// at that time.
    fn overlap(&mut self, channel: usize, busy: &[(Time, Time)], segments: &[Segment]) {
        let mut add = |phase, busy, exposed, queued, overlapped| {
            let lane = self.lanes.entry((channel, phase)).or_insert(Lane {
                channel,
                phase,
                busy: Span::ZERO,
                exposed: Span::ZERO,
                queued: Span::ZERO,
                overlapped: Span::ZERO,
            });
            lane.busy += busy;
            lane.exposed += exposed;
            lane.queued += queued;
            lane.overlapped += overlapped;
        };
        let none = Span::ZERO;
        for segment in segments {
            match segment.part {
                PathPart::Copy(own) if own == channel => {
                    add(segment.phase, none, segment.span, none, none);
                }
                PathPart::Queue(own) if own == channel => {
                    add(segment.phase, none, segment.span, segment.span, none);
                }
                _ => {}
            }
        }
        // Both are in order of time, and neither overlaps itself.
        let mut next = 0;
        for &(from, to) in busy {
            while let Some(segment) = segments.get(next) {
                let (start, end) = (segment.start, segment.start + segment.span);
                let (since, until) = (from.max(start), to.min(end));
                if since < until {
                    let both = until.since(since);
                    let own = [PathPart::Copy(channel), PathPart::Queue(channel)];
                    let beside = !own.contains(&segment.part);
                    add(segment.phase, both, none, none, if beside { both } else { none });
                }
                if end > to {
                    break;
                }
                next += 1;
            }
        }
    }

    /// The path in names, for a record; `figures` are of the run that it is the path of.
    pub(super) fn told(self, figures: &Figures, trace: &Trace) -> WalkedPath {
        let mut names = Names { trace, ops: BTreeMap::new(), objects: BTreeMap::new() };
        let mut path = WalkedPath { steps: self.steps, span: self.span, ..WalkedPath::default() };
        for (&(_, phase, op, object), sum) in &self.sums {
            let &Sum { part, span, setup, bytes, count } = sum;
            let by = match (op, object) {
                (Some(op), _) => Spender::Op(names.op(op)),
                (None, Some(object)) => Spender::Object(names.object(object)),
                (None, None) => Spender::Nothing,
            };
            path.sums.push(PathSum { part, phase, by, span, setup, bytes, count });
        }
        path.lanes = self.lanes.into_values().collect();
        for (number, step) in &self.kept {
            path.segments.extend(names.segments(*number, &step.segments));
        }
        path.left_over = figures.steady.left_over;
        if path.left_over > Span::ZERO {
            lengthen(&mut path, figures);
        }
        path.ops = names.all_ops();
        path.objects = names.all_objects();
        path
    }
}

/// The last step of a trace that runs once ends when nothing is under way any more: its split has
/// that time in one part, and so has its path.
fn lengthen(path: &mut WalkedPath, figures: &Figures) {
    let span = path.left_over;
    let longer = figures.split.iter().find(|&(part, all)| all > path.of(part));
    let (part, phase) = (longer.expect("it was counted").0, Phase::Other);
    path.span += span;
    let (setup, by) = (Span::ZERO, Spender::Nothing);
    path.sums.push(PathSum { part, phase, by, span, setup, bytes: 0, count: 0 });
    let last = path.segments.last();
    let start = last.map_or(Time::ZERO, |last| last.start + last.span);
    let step = path.steps.saturating_sub(1);
    let (op, object, bytes, behind) = (None, None, Bytes::ZERO, None);
    let last = PathSegment { step, start, span, setup, part, phase, op, object, bytes, behind };
    path.segments.push(last);
}

/// The ops and objects of a path, numbered as they come.
struct Names<'t> {
    trace: &'t Trace,
    ops: BTreeMap<OpId, usize>,
    objects: BTreeMap<ObjectId, usize>,
}

impl Names<'_> {
    fn op(&mut self, op: OpId) -> usize {
        let next = self.ops.len();
        *self.ops.entry(op).or_insert(next)
    }

    fn object(&mut self, object: ObjectId) -> usize {
        let next = self.objects.len();
        *self.objects.entry(object).or_insert(next)
    }

    fn module(&self, module: Option<ModuleId>) -> String {
        module.map_or_else(String::new, |module| self.trace.modules[module.index()].to_string())
    }

    /// The segments of a step; copies name the op that waited for them in the end.
    fn segments(&mut self, step: u64, segments: &[Segment]) -> Vec<PathSegment> {
        let mut waits = None;
        let told = segments.iter().rev().map(|segment| {
            let &Segment { start, span, setup, part, phase, doing, behind, ref used, .. } = segment;
            let behind = match behind {
                Some(Doing::Copy { object, .. }) => Some(self.object(object)),
                _ => None,
            };
            let (object, bytes) = match doing {
                Doing::Op(op) => {
                    waits = Some(self.op(op));
                    let largest = used.iter().rev().max_by_key(|used| used.2).map(|used| used.0);
                    (largest, used.iter().map(|used| used.2).sum())
                }
                Doing::Copy { object, bytes, .. } => (Some(object), bytes),
                Doing::Compact { bytes, .. } => (None, bytes),
            };
            let (op, object) = (waits, object.map(|object| self.object(object)));
            PathSegment { step, start, span, setup, part, phase, op, object, bytes, behind }
        });
        let mut told: Vec<PathSegment> = told.collect();
        told.reverse();
        told
    }

    fn all_ops(&self) -> Vec<PathOp> {
        let mut all: Vec<(&OpId, &usize)> = self.ops.iter().collect();
        all.sort_unstable_by_key(|(_, place)| **place);
        let told = |(op, _): (&OpId, &usize)| {
            let op = &self.trace.ops[op.index()];
            let (name, stream) = (op.name.to_string(), op.stream);
            PathOp { name, module: self.module(op.module), stream }
        };
        all.into_iter().map(told).collect()
    }

    fn all_objects(&self) -> Vec<PathObject> {
        let mut all: Vec<(&ObjectId, &usize)> = self.objects.iter().collect();
        all.sort_unstable_by_key(|(_, place)| **place);
        let told = |(object, _): (&ObjectId, &usize)| {
            let object = &self.trace.objects[object.index()];
            let (name, kind) = (object.name.to_string(), object.kind);
            PathObject { name, kind, module: self.module(object.module) }
        };
        all.into_iter().map(told).collect()
    }
}
