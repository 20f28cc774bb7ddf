//! Which step each item belongs to, and which phase of it.
//!
//! Steps are those that the profiler marks (`ProfilerStep#5`), also where numbers come again; without
//! marks a step ends with the step of the optimizer; without that either, all is one step. What a
//! program calls forward or backward counts; else nodes of the backward graph and steps of the optimizer tell phases apart.
//! Invariant: steps never decrease along the items.

use super::host::{Host, NOWHERE};
use super::items::Item;
use super::tables::{Kind, Range, Tables};
use std::collections::BTreeMap;
use tiersim_models::workload::Phase;

/// How steps were told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Profiler,
    Optimizer,
    Nothing,
}

/// Step and phase of each item.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) step: Vec<u32>,
    pub(super) phase: Vec<Phase>,
    pub(super) marks: Marks,
    /// Whether the program names its passes.
    pub(super) named: bool,
}

impl Steps {
    pub(super) fn new(tables: &Tables, host: &Host, items: &[Item]) -> Steps {
        let (step, marks) = steps(tables, host, items);
        let named = tables.ranges.iter().any(|range| is_pass(range.kind));
        let phase = phases(tables, host, items, &step);
        Steps { step, phase, marks, named }
    }
}

fn is_pass(kind: Kind) -> bool {
    matches!(kind, Kind::Forward | Kind::Backward)
}

fn steps(tables: &Tables, host: &Host, items: &[Item]) -> (Vec<u32>, Marks) {
    let starts = marked(&tables.ranges);
    if !starts.is_empty() {
        let mut most = 0;
        let step = |item: &Item| {
            let behind = starts.partition_point(|start| start.0 <= item.launched);
            most = most.max(starts[behind.saturating_sub(1)].1);
            most
        };
        // What comes before the first mark belongs to its step.
        return (items.iter().map(step).collect(), Marks::Profiler);
    }
    let (mut step, mut updated, mut ends) = (0, false, false);
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        let within = host.of(item.range);
        if within.optimizer != NOWHERE {
            updated = true;
        } else if updated && within.zero_grad == NOWHERE && item.thread != NOWHERE {
            // Gradients may be set to zero on either side of the border.
            (step, updated, ends) = (step + 1, false, true);
        }
        list.push(step);
    }
    if ends && !updated {
        // What follows the last update is no step of its own.
        list.iter_mut().for_each(|of| *of = (*of).min(step - 1));
    }
    (list, if ends || updated { Marks::Optimizer } else { Marks::Nothing })
}

/// When each marked step begins, and its number.
///
/// Several threads may mark one step, and then at one time. What begins behind it under a number that
/// is not higher is another step: the profiler was started anew, or files were put together.
fn marked(ranges: &[Range]) -> Vec<(i64, u32)> {
    let mark = |range: &Range| match range.kind {
        Kind::Step(number) => Some((range.start, range.end, number)),
        _ => None,
    };
    let mut marks: Vec<(i64, i64, u32)> = ranges.iter().filter_map(mark).collect();
    marks.sort_unstable();
    let mut starts: Vec<(i64, u32)> = Vec::new();
    // By the number that is said: when the last step of it began, and when its marks end.
    let mut known: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for (start, end, said) in marks {
        if let Some((began, until)) = known.get_mut(&said)
            && (start == *began || start < *until)
        {
            *until = end.max(*until);
            continue;
        }
        known.insert(said, (start, end));
        let number = match starts.last() {
            Some(&(_, before)) if said <= before => before.saturating_add(1),
            _ => said,
        };
        starts.push((start, number));
    }
    starts
}

fn phases(tables: &Tables, host: &Host, items: &[Item], steps: &[u32]) -> Vec<Phase> {
    let mut all = Vec::with_capacity(items.len());
    // Within a step: whether anything went backward so far, and whether the optimizer did any.
    let (mut step, mut backward, mut updated) = (None, false, false);
    for (item, &of) in items.iter().zip(steps) {
        if step != Some(of) {
            (step, backward, updated) = (Some(of), false, false);
        }
        let within = host.of(item.range);
        let named = tables.ranges.get(within.pass as usize).map(|range| range.kind);
        let phase = if item.thread == NOWHERE {
            // Nothing says who asked for it: it belongs to what came before.
            all.last().copied().unwrap_or(Phase::Forward)
        } else if within.optimizer != NOWHERE {
            updated = true;
            Phase::Optimizer
        } else if within.zero_grad != NOWHERE {
            Phase::Optimizer
        } else if within.node != NOWHERE || named == Some(Kind::Backward) {
            backward = true;
            Phase::Backward
        } else if named == Some(Kind::Forward) {
            Phase::Forward
        } else if backward && !updated {
            // Between the two: gradients are summed over ranks, or clipped.
            Phase::Backward
        } else if updated {
            Phase::Optimizer
        } else {
            Phase::Forward
        };
        all.push(phase);
    }
    all
}
