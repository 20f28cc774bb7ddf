//! What the first stage of a pipeline, whose step is simulated, waits for the last one.
//!
//! With m micro-batches a step takes m passes of the slowest stage; the others fill the pipeline
//! and drain it. The last stage has norm, head and loss, where the first has the embedding or, where
//! stages do not divide the layers, a block more. So the last stage's head is idle ops, which copy
//! what its device does, on a stream of their own beside what this stage has instead: forward beside
//! forward, backward beside backward. The device goes on when both have ended, so that it waits for
//! what the head takes longer, if it does. Collectives of the head are left out, as in the bubble;
//! those of the embedding, which are as many, are this stage's own.
//! Invariant: without a pipeline there are no such ops.

use super::begin::begun;
use super::{Parallel, Training};
use crate::transformer::card::Card;
use crate::transformer::graph::pass::GraphBuilder;
use std::collections::BTreeMap;
use tiersim_models::ids::OpId;
use tiersim_models::workload::{Op, Phase, Unit};

/// The stream that the last stage's head is on.
pub(super) const LAST_STAGE: u16 = 4;

/// What the last stage does beside this one.
#[derive(Default)]
pub(super) struct LastStage {
    /// Its head's ops, forward and backward, by tokens of the micro-batch and whether it is the
    /// step's first, which adds to no gradients.
    heads: BTreeMap<(u128, bool), [Vec<Op>; 2]>,
    /// The last op of what is at work.
    ends: Option<OpId>,
}

impl GraphBuilder<'_> {
    /// The last stage has its head, forward or backward, from now on.
    pub(super) fn last_stage_begins(&mut self, beside: &mut LastStage) {
        let key = (self.sizes.tokens, self.micro == 0);
        let both = beside.heads.entry(key).or_insert_with(|| self.head_of_last_stage());
        for (index, op) in both[usize::from(self.build.phase != Phase::Forward)].iter().enumerate()
        {
            beside.ends = Some(self.build.idle(LAST_STAGE, "pipeline_last_stage", op));
            if index == 0 {
                self.build.no_further_ahead();
            }
        }
    }

    /// The device goes on when the last stage has got so far.
    pub(super) fn last_stage_ends(&mut self, beside: &mut LastStage) {
        self.build.awaits.extend(beside.ends.take());
    }

    /// What a device does for norm, head and loss of the micro-batch at work, forward and backward.
    fn head_of_last_stage(&self) -> [Vec<Op>; 2] {
        let alone = Training {
            card: Card { layers: 1, ..self.shape.card.clone() },
            parallel: Parallel { pipeline: 1, interleave: 1, ..self.shape.parallel },
            ..self.shape.clone()
        };
        let (mut maker, model) = begun(&alone);
        maker.sizes = self.sizes;
        let end = model.end.expect("one stage has the head too");
        let mut from = 0;
        // The second time it adds to the gradients that the first has written.
        for _ in 0..if self.micro == 0 { 1 } else { 2 } {
            from = maker.build.trace.ops.len();
            maker.build.phase = Phase::Forward;
            let x = maker.buffer(end.head, "in", maker.sizes.stream());
            maker.head(&model, end, x);
            maker.reduce_rest();
            maker.owned.iter_mut().for_each(|owned| owned.full = None);
        }
        let ops = maker.build.trace.ops.drain(from..).filter(|op| op.unit == Unit::Device);
        ops.partition::<Vec<Op>, _>(|op| op.phase == Phase::Forward).into()
    }
}
