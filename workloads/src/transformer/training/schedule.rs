//! The order of a step: which pass of which micro-batch comes when, and what it consists of.
//!
//! One stage: forward and backward of one micro-batch after the other. Several stages: 1F1B of the
//! first of them (Narayanan et al., "Efficient Large-Scale Language Model Training", 2021,
//! section 2.2), which has the most micro-batches in flight: p, and interleaved in m virtual stages
//! p*m + p - 1 virtual stages of layers/(p*m) layers each, which is 1 + (p-1)/(p*m) of a stage's
//! layers p times.
//! Invariant: every micro-batch goes through every virtual stage once forward and once backward,
//! forward first.

use super::{Checkpointing, Training};
use crate::transformer::graph::state::{ModelState, virtual_stages};
use std::ops::Range;

/// One pass of one micro-batch through one virtual stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) is_forward: bool,
    pub(super) micro: u32,
    pub(super) virtual_stage: u32,
}

/// One thing that a pass does. Blocks are counted on this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Embed,
    /// The input of block i from the stage before.
    Receive(usize),
    Forward(usize),
    /// Its output to the next stage.
    Send,
    /// Norm, head and loss, forward and backward.
    Head,
    ReceiveGradient,
    /// Forward again; whether the next block is run on what comes out.
    Recompute(usize, bool),
    Backward(usize),
    SendGradient,
    EmbedBackward,
    /// Waiting for other stages.
    Bubble,
    /// From here on the last stage has its head where this one has something else...
    LastStageBegins,
    /// ...up to here.
    LastStageEnds,
}

/// A task and the pass that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) task: Task,
    pub(super) pass: Pass,
}

/// How many samples each micro-batch of a step has: as few micro-batches as hold `batch` samples
/// with at most `most` each, and these as equal as whole samples allow, the larger ones first.
pub fn split(batch: u32, most: u32) -> impl Iterator<Item = u32> {
    let count = batch.div_ceil(most.max(1)).max(1);
    (0..count).map(move |index| batch / count + u32::from(index < batch % count))
}

/// The passes of this rank in order.
pub(super) fn passes(shape: &Training) -> Vec<Pass> {
    let (stages, each) = (shape.parallel.pipeline, shape.parallel.interleave);
    let micros = shape.micro_batches();
    let total = micros * each;
    let warm = if each == 1 { stages - 1 } else { 2 * (stages - 1) + (each - 1) * stages };
    let warm = warm.min(total);
    let pass = |is_forward: bool, index: u32| {
        let round = index / (stages * each);
        let virtual_stage = index % (stages * each) / stages;
        let micro = if each == 1 { index } else { round * stages + index % stages };
        let virtual_stage = match (each, is_forward) {
            (1, _) => 0,
            (_, true) => virtual_stage,
            (_, false) => each - 1 - virtual_stage,
        };
        Pass { is_forward, micro, virtual_stage }
    };
    let mut all: Vec<Pass> = (0..warm).map(|index| pass(true, index)).collect();
    for index in 0..total {
        if index + warm < total {
            all.push(pass(true, index + warm));
        }
        all.push(pass(false, index));
    }
    all
}

/// The blocks of a virtual stage, counted on this rank.
pub(super) fn blocks(shape: &Training, virtual_stage: u32) -> Range<usize> {
    let each = virtual_stages(shape).next().map_or(0, |layers| layers.len());
    virtual_stage as usize * each..(virtual_stage as usize + 1) * each
}

/// How many of so many blocks are computed again, from the first on, and how many of them between
/// two inputs that are kept.
pub(super) fn recomputed(shape: &Training, blocks: usize) -> (usize, usize) {
    match shape.checkpointing {
        Checkpointing::None | Checkpointing::Selective => (0, 1),
        Checkpointing::Full => (blocks, 1),
        Checkpointing::Every(each) => (blocks, each.max(1) as usize),
        Checkpointing::Layers(first) => (blocks.min(first as usize), 1),
    }
}

/// The tasks of one pass, each with the pass.
pub(super) fn items_of(
    shape: &Training,
    model: &ModelState,
    pass: Pass,
) -> impl Iterator<Item = Item> + use<> {
    tasks(shape, model, pass).into_iter().map(move |task| Item { task, pass })
}

/// The tasks of one pass.
fn tasks(shape: &Training, model: &ModelState, pass: Pass) -> Vec<Task> {
    let blocks = blocks(shape, pass.virtual_stage);
    let is_first = pass.virtual_stage == 0;
    let mut tasks = Vec::with_capacity(3 * blocks.len() + 4);
    let last = blocks.end - 1;
    if pass.is_forward {
        tasks.push(if is_first { Task::Embed } else { Task::Receive(blocks.start) });
        tasks.extend(blocks.map(Task::Forward));
        tasks.push(if model.end.is_some() { Task::Head } else { Task::Send });
        beside_the_last_stage(shape, is_first, &mut tasks, [Task::Embed, Task::Forward(last)]);
        return tasks;
    }
    if model.end.is_none() {
        tasks.push(Task::ReceiveGradient);
    }
    let all: Vec<usize> = blocks.collect();
    let (first, each) = recomputed(shape, all.len());
    let (again, kept) = all.split_at(first);
    tasks.extend(kept.iter().rev().map(|&block| Task::Backward(block)));
    for part in again.chunks(each).rev() {
        let last = part.last();
        tasks.extend(part.iter().map(|block| Task::Recompute(*block, Some(block) != last)));
        tasks.extend(part.iter().rev().map(|&block| Task::Backward(block)));
    }
    tasks.push(if is_first { Task::EmbedBackward } else { Task::SendGradient });
    let own = [Task::EmbedBackward, Task::Backward(last)];
    beside_the_last_stage(shape, is_first, &mut tasks, own);
    tasks
}

/// Marks what this stage alone does in a pass of its first virtual stage: of what embeds and the
/// last block the block, where stages do not divide the layers, so that the last stage has one
/// less. It may be computed again right before its backward pass.
fn beside_the_last_stage(
    shape: &Training,
    is_first: bool,
    tasks: &mut Vec<Task>,
    [embeds, last_block]: [Task; 2],
) {
    let stages = shape.parallel.pipeline;
    if stages == 1 || !is_first {
        return;
    }
    let own = if shape.card.layers.is_multiple_of(stages) { embeds } else { last_block };
    let at = tasks.iter().position(|&task| task == own).expect("a pass has all of its tasks");
    let again = at > 0 && matches!((tasks[at - 1], own), (Task::Recompute(..), Task::Backward(_)));
    tasks.insert(at + 1, Task::LastStageEnds);
    tasks.insert(at - usize::from(again), Task::LastStageBegins);
}

/// Everything that this rank does before the update. The bubble of a pipeline is before the first
/// backward pass.
pub(super) fn items(shape: &Training, model: &ModelState) -> Vec<Item> {
    let mut items = Vec::new();
    let mut is_before = shape.parallel.pipeline > 1;
    for pass in passes(shape) {
        if is_before && !pass.is_forward {
            items.push(Item { task: Task::Bubble, pass });
            is_before = false;
        }
        items.extend(items_of(shape, model, pass));
    }
    items
}
