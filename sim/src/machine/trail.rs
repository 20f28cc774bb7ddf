//! The critical path of a step itself: which op ran, which copy was waited for, from when to when.
//!
//! Sums by part ([`super::path`]) are carried along on every run. Where a run is to be explained
//! the same stretches are kept beside them, each with what went before it, so that the path can be
//! walked back once the step has ended. What was kept of a step is given back with its end: a path
//! that leads up to an earlier moment is never looked at again, so one step bounds the memory.
//! Invariant: the segments of a step follow one another without a gap, from its start to its end.

use smallvec::SmallVec;
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::results::PathPart;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{Phase, Trace};
use tiersim_policies::command::Ticket;

/// The last stretch of a path; [`NOWHERE`] for one that begins with the step, or is not kept.
pub(super) type Tip = u32;
/// The tip of the empty path.
pub(super) const NOWHERE: Tip = u32::MAX;

/// What a stretch of a path was spent on, beside its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// An op of the trace.
    Op(OpId),
    /// A copy of an object from one tier to another.
    Copy {
        /// What.
        object: ObjectId,
        /// All of its bytes.
        bytes: Bytes,
        /// From where.
        from: TierId,
        /// To where.
        to: TierId,
    },
    /// Objects were moved together in a tier.
    Compact {
        /// Where.
        tier: TierId,
        /// Bytes of all moves.
        bytes: Bytes,
    },
}

/// Who spent a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) ticket: Ticket,
    pub(super) doing: Doing,
    /// Of the crossing what does not depend on how many bytes went.
    pub(super) setup: Span,
    /// What the op uses outside device memory: a range of [`Trail::used`].
    pub(super) used: (u32, u32),
}

/// A stretch of a path.
#[derive(Clone, Copy, Debug)]
struct Node {
    before: Tip,
    start: Time,
    span: Span,
    part: PathPart,
    source: Source,
}

/// An object that an op used where it lay: what, in which tier, and the bytes that were paid.
pub type UsedInPlace = (ObjectId, usize, Bytes);

/// A stretch of the critical path of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it began.
    pub start: Time,
    /// How long it was.
    pub span: Span,
    /// Of a copy's crossing, its own or the one that it stood in line for, what does not depend on
    /// bytes: set-up, and what small pieces and chance add.
    pub setup: Span,
    /// What it was spent on.
    pub part: PathPart,
    /// The phase of the op that ran, or of the one that waited in the end.
    pub phase: Phase,
    /// The command, told apart from others of the step.
    pub command: u32,
    /// What that did.
    pub doing: Doing,
    /// Of standing in line: who crossed the channel meanwhile, as far as that is known.
    pub behind: Option<Doing>,
    /// Of use in place: the objects of that tier.
    pub used: SmallVec<[UsedInPlace; 1]>,
}

/// A step that has been walked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkedStep {
    /// When it began.
    pub start: Time,
    /// How long it took.
    pub span: Span,
    /// Its path, in order of time.
    pub segments: Vec<Segment>,
    /// By channel of one device: when it was busy, within the step, in order of time.
    pub busy: Vec<Vec<(Time, Time)>>,
}

/// A piece that crossed a channel: when, and up to when of that it paid what does not depend on
/// bytes.
#[derive(Clone, Copy, Debug)]
struct Turn {
    from: Time,
    paid: Time,
    to: Time,
    doing: Doing,
}

/// What is kept of the step that is under way.
#[derive(Debug, Default)]
pub(super) struct Trail {
    nodes: Vec<Node>,
    used: Vec<UsedInPlace>,
    busy: Vec<Vec<(Time, Time)>>,
    /// By channel of one device, in order of their ends.
    turns: Vec<Vec<Turn>>,
    /// The step that has ended last, until it is asked for.
    pub(super) walked: Option<WalkedStep>,
}

impl Trail {
    pub(super) fn new(channels: usize) -> Trail {
        let (busy, turns) = (vec![Vec::new(); channels], vec![Vec::new(); channels]);
        Trail { busy, turns, ..Trail::default() }
    }

    /// A path goes on; gives its new tip.
    pub(super) fn add(
        &mut self,
        before: Tip,
        (start, span): (Time, Span),
        part: PathPart,
        source: Source,
    ) -> Tip {
        if span == Span::ZERO {
            return before;
        }
        let tip = Tip::try_from(self.nodes.len()).expect("fewer stretches than 2^32 in a step");
        self.nodes.push(Node { before, start, span, part, source });
        tip
    }

    /// Keeps what an op uses in place; gives the range.
    pub(super) fn uses(&mut self, used: impl Iterator<Item = UsedInPlace>) -> (u32, u32) {
        let from = self.used.len() as u32;
        self.used.extend(used);
        (from, self.used.len() as u32)
    }

    /// A channel was busy.
    pub(super) fn was_busy(&mut self, channel: usize, (from, to): (Time, Time)) {
        match self.busy[channel].last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ if from < to => self.busy[channel].push((from, to)),
            _ => {}
        }
    }

    /// A piece of `source` has crossed a channel.
    pub(super) fn crossed(&mut self, channel: usize, (from, to): (Time, Time), source: &Source) {
        let turn = Turn { from, paid: from + source.setup, to, doing: source.doing };
        self.turns[channel].push(turn);
    }

    /// The step from `start` to `end` is over, and `tip` is the end of its path: it is walked, and
    /// everything else is forgotten.
    pub(super) fn close(&mut self, tip: Tip, (start, end): (Time, Time), trace: &Trace) {
        let segments = self.walk(tip, trace);
        let within = |&(from, to): &(Time, Time)| (from.max(start), to.min(end));
        let clipped = self
            .busy
            .iter()
            .map(|busy| busy.iter().map(within).filter(|(from, to)| from < to).collect::<Vec<_>>());
        let busy = clipped.collect();
        self.walked = Some(WalkedStep { start, span: end.since(start), segments, busy });
        self.nodes.clear();
        self.used.clear();
        self.busy.iter_mut().for_each(Vec::clear);
        self.turns.iter_mut().for_each(Vec::clear);
    }

    /// Standing in line, by who crossed the channel meanwhile: of several the one that ended next.
    fn in_line(&self, all: Segment, channel: usize, out: &mut Vec<Segment>) {
        let turns = self.turns.get(channel).map_or(&[][..], Vec::as_slice);
        let (mut at, end) = (all.start, all.start + all.span);
        let mut add = |from: Time, to: Time, setup, behind| {
            if from < to {
                let span = to.since(from);
                out.push(Segment { start: from, span, setup, behind, ..all.clone() });
            }
        };
        for turn in &turns[turns.partition_point(|turn| turn.to <= at)..] {
            let (from, to) = (turn.from.max(at).min(end), turn.to.min(end));
            if at == end || from >= to {
                continue;
            }
            add(at, from, Span::ZERO, None);
            let paid = turn.paid.min(to).max(from).since(from);
            add(from, to, paid, Some(turn.doing));
            at = to;
        }
        add(at, end, Span::ZERO, None);
    }

    /// The stretches of a path in order of time; those of one command that are spent on the same
    /// are one.
    fn walk(&self, mut tip: Tip, trace: &Trace) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut waits = Phase::Other;
        while let Some(node) = self.nodes.get(tip as usize) {
            let Node { before, start, span, part, source } = *node;
            let Source { ticket, doing, setup, used } = source;
            if let Doing::Op(op) = doing {
                waits = trace.ops[op.index()].phase;
            }
            tip = before;
            let same = |last: &&mut Segment| (last.command, last.part) == (ticket.0, part);
            if let Some(last) = segments.last_mut().filter(same) {
                last.start = start;
                last.span += span;
                last.setup += setup;
                continue;
            }
            let used = match part {
                PathPart::InPlace(tier) => &self.used[used.0 as usize..used.1 as usize]
                    .iter()
                    .filter(|found| found.1 == tier)
                    .copied()
                    .collect(),
                _ => &SmallVec::new(),
            };
            let (phase, command, used) = (waits, ticket.0, used.clone());
            let behind = None;
            let segment = Segment { start, span, setup, part, phase, command, doing, behind, used };
            segments.push(segment);
        }
        let mut all = Vec::with_capacity(segments.len());
        for segment in segments.into_iter().rev() {
            match segment.part {
                PathPart::Queue(channel) => self.in_line(segment, channel, &mut all),
                _ => all.push(segment),
            }
        }
        all
    }
}
