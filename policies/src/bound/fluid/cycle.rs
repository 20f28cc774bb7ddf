//! What repeats itself: the ops of one replay, or of one step where all steps of a trace are the
//! same.
//!
//! The mean over all that count of what is where is again a solution of the program, as all its
//! rows are linear; so steps that do the same with objects of the same sizes are one cycle, with
//! the mean of their times.
//! Invariant: an object that does not persist lives in one cycle.

use super::Horizon;
use crate::bound::Question;
use crate::visits::streams;
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::{Object, Unit};

/// One use of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Used {
    /// The op of the cycle.
    pub(crate) op: u32,
    /// Bytes of it that need what was there before.
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// By an op on the host's processors.
    pub(crate) host: bool,
}

/// What a cycle does with one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    /// Its row in the trace.
    pub(crate) object: u32,
    pub(crate) bytes: u64,
    /// No copy of it moves less.
    pub(crate) moved: u64,
    pub(crate) persistent: bool,
    pub(crate) uses: Vec<Used>,
    /// The last op of the cycle during which it must be somewhere: that of its last use, or a
    /// later one.
    pub(crate) ends: u32,
}

/// A cycle.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// By op: picoseconds that it computes, in the mean.
    pub(crate) spans: Vec<f64>,
    pub(crate) lives: Vec<Life>,
    /// How often it is run in what counts.
    pub(crate) times: f64,
    /// It ends as it began.
    pub(crate) wraps: bool,
    /// It begins as the run does: every object is in one place.
    pub(crate) begins: bool,
}

impl Cycle {
    /// `None` with several streams: ops may run in another order than the trace has them.
    pub(crate) fn new(question: &Question<'_>, horizon: Horizon) -> Option<Cycle> {
        let Question { workload, from, to, duration, .. } = *question;
        let ops = workload.trace.ops.len() as u64;
        if from >= to || ops == 0 || from % ops != 0 || to % ops != 0 {
            return None;
        }
        if streams(&workload.trace) != 1 {
            return None;
        }
        let wraps = horizon == Horizon::Steady;
        let steps = if wraps { same_steps(workload).count } else { 1 };
        let length = (ops / steps) as usize;
        let times = ((to - from) / ops * steps) as f64;
        let mut spans = vec![0.0; length];
        for at in from..to {
            spans[at as usize % length] += duration(at).ps() as f64;
        }
        spans.iter_mut().for_each(|span| *span /= times);
        let lives = lives(workload, 0, length)?;
        Some(Cycle { spans, lives, times, wraps, begins: !wraps && from == 0 })
    }

    pub(crate) fn ops(&self) -> usize {
        self.spans.len()
    }

    /// Picoseconds that all its ops compute.
    pub(crate) fn computed(&self) -> f64 {
        self.spans.iter().sum()
    }
}

/// What `length` ops from `from` on do with each object that they use; `None` if one that does not
/// persist lives in more than them.
fn lives(workload: &Workload, from: usize, length: usize) -> Option<Vec<Life>> {
    let trace = &workload.trace;
    let life = |(row, object): (usize, &Object)| {
        let (bytes, persistent) = (object.bytes.get(), object.persistent);
        Life { object: row as u32, bytes, moved: bytes, persistent, uses: Vec::new(), ends: 0 }
    };
    let mut lives: Vec<Life> = trace.objects.iter().enumerate().map(life).collect();
    let mut born: Vec<bool> = trace.objects.iter().map(|object| object.persistent).collect();
    for op in from..from + length {
        let host = trace.ops[op].unit == Unit::Cpu;
        workload.births(OpId::at(op)).iter().for_each(|object| born[object.index()] = true);
        for touched in trace.uses_of(OpId::at(op)) {
            let whole = trace.objects[touched.object.index()].bytes;
            let life = &mut lives[touched.object.index()];
            let (read, written) = (touched.read(whole).get(), touched.written(whole).get());
            if !born[touched.object.index()] {
                return None;
            }
            if touched.mode.writes() {
                // What was appended is all that a copy over older contents brings.
                life.moved = life.moved.min(written);
            }
            life.uses.push(Used { op: (op - from) as u32, read, written, host });
            life.ends = (length - 1) as u32;
        }
        for object in workload.releases(OpId::at(op)) {
            lives[object.index()].ends = (op - from) as u32;
        }
    }
    lives.retain(|life| !life.uses.is_empty() && life.bytes > 0);
    Some(lives)
}

/// Steps of a trace that do the same with objects of the same sizes.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    /// How many there are; 1 where they differ.
    pub(crate) count: u64,
    /// By row of the trace: the row of the object of the first step that does the same.
    pub(crate) like: Vec<u32>,
}

/// How many steps of the trace are the same: all of them, or 1.
pub(crate) fn same_steps(workload: &Workload) -> Steps {
    let ends = workload.step_ends();
    let (ops, steps) = (workload.trace.ops.len(), ends.len());
    let itself: Vec<u32> = (0..workload.trace.objects.len() as u32).collect();
    let one = Steps { count: 1, like: itself.clone() };
    let even = |(at, end): (usize, &OpId)| (end.index() + 1) * steps == (at + 1) * ops;
    if steps < 2 || !ends.iter().enumerate().all(even) {
        return one;
    }
    let length = ops / steps;
    // Objects that do not persist are others in every step.
    let told = |step: usize| {
        let lives = lives(workload, step * length, length)?;
        let mut told: Vec<(Life, u32)> = lives
            .into_iter()
            .map(|life| {
                let (row, persistent) = (life.object, life.persistent);
                (Life { object: if persistent { row } else { u32::MAX }, ..life }, row)
            })
            .collect();
        told.sort_unstable();
        Some(told)
    };
    let Some(first) = told(0) else { return one };
    let mut like = itself;
    for step in 1..steps {
        let Some(other) = told(step) else { return one };
        if !first.iter().map(|(life, _)| life).eq(other.iter().map(|(life, _)| life)) {
            return one;
        }
        first.iter().zip(&other).for_each(|(own, others)| like[others.1 as usize] = own.1);
    }
    Steps { count: steps as u64, like }
}
