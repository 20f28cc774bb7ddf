//! What a program never gives back, and makes more of with every step.
//!
//! An object is left behind if its memory is held to the end of the trace and no step behind that
//! of its last use touches it, of which there is one at least. One object is no leak: a workspace
//! is made once. Objects that later steps read, as keys and values of past tokens, are none either.
//! A leak is a place of the program, an op by name, module and turn in its step, that leaves
//! objects of three steps or more behind and has not ceased to: from the last of them to the end
//! there are no more steps than between any two. Where that is, memory at the end of steps grows.
//! Invariant: of a trace with too few steps to tell, no leak is said.

use std::collections::BTreeMap;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::trace_memory::{Leak, Leaks};
use tiersim_models::units::Bytes;

/// Steps that leave something behind, at least.
const LEAST: usize = Leaks::LEAST_STEPS - 1;

/// A place of the program: an op's name, its module, its turn among such ops of the step, and which
/// of the objects that it is the first to use.
pub(super) type Site<'a> = (&'a str, Option<ModuleId>, u32, u32);

/// Every object that a step makes, with its place, in the order of the trace: step, op, object.
pub(super) fn made<'a>(
    workload: &'a Workload,
    mut each: impl FnMut(usize, OpId, Site<'a>, ObjectId),
) {
    let (mut step, mut turns) = (0, BTreeMap::new());
    for op in (0..workload.trace.ops.len()).map(OpId::at) {
        let made = &workload.trace.ops[op.index()];
        let turn: &mut u32 = turns.entry((made.name.as_str(), made.module)).or_default();
        for (place, &object) in workload.births(op).iter().enumerate() {
            each(step, op, (&made.name, made.module, *turn, place as u32), object);
        }
        *turn += 1;
        if workload.step_ends()[step] == op {
            step += 1;
            turns.clear();
        }
    }
}

/// What one place left behind: the objects, each with the step that made it.
type Left = Vec<(usize, ObjectId)>;

/// Every leak of a trace.
pub fn leaks(workload: &Workload) -> Leaks {
    let steps = workload.step_ends().len();
    let mut found = Leaks { steps, sites: Vec::new() };
    if !found.can_tell() {
        return found;
    }
    let held = held_for_nothing(workload);
    let mut sites: BTreeMap<Site<'_>, Left> = BTreeMap::new();
    made(workload, |step, _, site, object| {
        if held[object.index()] {
            sites.entry(site).or_default().push((step, object));
        }
    });
    let grown = sites.iter().filter(|(_, left)| grows(left, steps));
    found.sites = grown.map(|(site, left)| leak(workload, *site, left)).collect();
    found.sites.sort_by(|a, b| b.per_step.cmp(&a.per_step).then(a.since.cmp(&b.since)));
    found
}

/// By object, whether it is held to the end and used for the last time before the last step.
fn held_for_nothing(workload: &Workload) -> Vec<bool> {
    let trace = &workload.trace;
    let mut held = vec![false; trace.objects.len()];
    let Some(last) = trace.ops.len().checked_sub(1).map(OpId::at) else { return held };
    for object in workload.releases(last) {
        held[object.index()] = true;
    }
    let ends = workload.step_ends();
    let last_step = ends.len().checked_sub(2).map_or(0, |before| ends[before].index() + 1);
    for op in (last_step..trace.ops.len()).map(OpId::at) {
        for used in trace.uses_of(op) {
            held[used.object.index()] = false;
        }
    }
    held
}

/// Whether a place has left something behind again and again, up to the end.
fn grows(left: &Left, steps: usize) -> bool {
    let mut made: Vec<usize> = left.iter().map(|(step, _)| *step).collect();
    made.dedup();
    let gap = made.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    // What the last step makes, nobody has had the time to leave behind.
    let newest = made.last().copied().unwrap_or(0);
    made.len() >= LEAST && steps - 1 - newest <= gap
}

fn leak(workload: &Workload, (op, module, ..): Site<'_>, left: &Left) -> Leak {
    let objects = &workload.trace.objects;
    let bytes: Bytes = left.iter().map(|(_, object)| objects[object.index()].bytes).sum();
    let (since, first) = left[0];
    let newest = left[left.len() - 1].0;
    let mut made: Vec<usize> = left.iter().map(|(step, _)| *step).collect();
    made.dedup();
    // From the first to the one that would come next: as long as between two of them, on average.
    let rounds = made.len() as u128;
    let span = ((newest - since) as u128 * rounds).div_ceil((rounds - 1).max(1));
    let per_step = (u128::from(bytes.get()) + span / 2) / span.max(1);
    Leak {
        op: op.to_owned(),
        module: module.map(|module| workload.trace.modules[module.index()].to_string()),
        first: objects[first.index()].name.to_string(),
        objects: left.len(),
        bytes,
        since,
        per_step: Bytes::new(u64::try_from(per_step).unwrap_or(u64::MAX)),
    }
}
