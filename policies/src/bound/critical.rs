//! The critical path: ops along their streams, behind the ops that the trace names, behind the
//! last write of what they use, and behind their releases.
//!
//! Readers do not hold a writer up: a policy may have them read another copy.
//! Invariant: no machine that runs the trace ends sooner, whatever the policy.

use crate::visits::streams;
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;

/// The least time in picoseconds from the end of the op before `from` to the end of the op before
/// `to`, in ops of the run, whole replays.
///
/// With a warm-up (`from` above 0) and several streams, ops of other streams may have run ahead of
/// the last op of the warm-up; which stream that is depends on the policy, so the least over all.
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
    let used = |&stream: &u16| workload.trace.ops.iter().any(|op| op.stream == stream);
    let paths = (0..streams as u16).filter(used);
    paths.map(|first| longest(workload, duration, (from, to), Some(first))).min().unwrap_or(0)
}

/// The longest path; with `first`, of those that begin with the first op of that stream.
fn longest(
    workload: &Workload,
    duration: &dyn Fn(u64) -> Span,
    (from, to): (u64, u64),
    first: Option<u16>,
) -> u128 {
    let trace = &workload.trace;
    let ops = trace.ops.len() as u64;
    let start = |stream: u16| first.is_none_or(|first| first == stream).then_some(0u128);
    let mut along: Vec<Option<u128>> = (0..streams(trace)).map(|s| start(s as u16)).collect();
    let mut written: Vec<Option<u128>> = vec![None; trace.objects.len()];
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
