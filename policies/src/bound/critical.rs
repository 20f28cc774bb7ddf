//! The critical path: ops along their streams, behind the ops that the trace names, behind the
//! last write of what they use, and behind their releases.
//!
//! Readers do not hold a writer up: a policy may have them read another copy.
//! Invariant: no machine that runs the trace ends sooner, whatever the policy.

use crate::visits::streams;
use std::collections::BTreeSet;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_models::workload::Trace;

/// The least time in picoseconds from the end of the op before `from` to the end of the op before
/// `to`, in ops of the run, whole replays.
///
/// With a warm-up (`from` above 0) and several streams, ops of other streams may have run ahead of
/// the op of the warm-up that ended last. That is the last one of its stream; of which stream
/// depends on the policy, so the least over all.
pub(crate) fn critical_path(
    workload: &Workload,
    duration: &dyn Fn(u64) -> Span,
    (from, to): (u64, u64),
) -> u128 {
    let streams = streams(&workload.trace);
    if from == 0 && workload.trace.ops.iter().any(|op| op.release.is_some()) {
        return longest(workload, duration, (from, to), None);
    }
    if streams <= 1 {
        return (from..to).map(|at| u128::from(duration(at).ps())).sum();
    }
    if from == 0 {
        return longest(workload, duration, (from, to), None);
    }
    let ends = (0..streams as u16).filter_map(|stream| ends_replay(&workload.trace, stream));
    ends.map(|first| longest(workload, duration, (from, to), Some(first))).min().unwrap_or(0)
}

/// The longest path; with `first`, of those that begin where this op, the last of its stream, has
/// ended before `from`: with the next op of the stream, or with one that uses what it wrote.
fn longest(
    workload: &Workload,
    duration: &dyn Fn(u64) -> Span,
    (from, to): (u64, u64),
    first: Option<usize>,
) -> u128 {
    let trace = &workload.trace;
    let ops = trace.ops.len() as u64;
    let begins = first.map(|first| trace.ops[first].stream);
    let start = |stream: u16| begins.is_none_or(|begins| begins == stream).then_some(0u128);
    let mut along: Vec<Option<u128>> = (0..streams(trace)).map(|s| start(s as u16)).collect();
    let mut written: Vec<Option<u128>> = vec![None; trace.objects.len()];
    for object in first.into_iter().flat_map(|first| written_by(trace, first)) {
        written[object.index()] = Some(0);
    }
    let mut ended: Vec<Option<u128>> = vec![None; trace.ops.len()];
    for at in from..to {
        let op = OpId((at % ops) as u32);
        let record = &trace.ops[op.index()];
        for object in workload.births(op) {
            written[object.index()] = None;
        }
        let uses = trace.uses_of(op);
        let before = record.after.iter().map(|before| ended[before.index()]);
        let data = uses.iter().map(|touched| written[touched.object.index()]);
        let stream = &mut along[usize::from(record.stream)];
        let release = record.release.filter(|_| at < ops).map(|at| u128::from(at.ps()));
        let begin = before.chain(data).chain([release]).fold(*stream, Option::max);
        let end = begin.map(|begin| begin + u128::from(duration(at).ps()));
        *stream = end;
        ended[op.index()] = end;
        for touched in uses.iter().filter(|touched| touched.mode.writes()) {
            written[touched.object.index()] = end;
        }
    }
    along.into_iter().flatten().max().unwrap_or(0)
}

/// The last op of a stream in a replay, unless another op of the replay comes behind it in every
/// run.
fn ends_replay(trace: &Trace, stream: u16) -> Option<usize> {
    let last = trace.ops.iter().rposition(|op| op.stream == stream)?;
    let written: BTreeSet<ObjectId> = written_by(trace, last).collect();
    let follows = |op: usize| {
        let uses_it = trace.uses_of(OpId::at(op)).iter().any(|used| written.contains(&used.object));
        uses_it || trace.ops[op].after.contains(&OpId::at(last))
    };
    (last + 1..trace.ops.len()).all(|op| !follows(op)).then_some(last)
}

fn written_by(trace: &Trace, op: usize) -> impl Iterator<Item = ObjectId> {
    let uses = trace.uses_of(OpId::at(op)).iter();
    uses.filter(|touched| touched.mode.writes()).map(|touched| touched.object)
}
