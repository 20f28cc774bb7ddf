//! What the ops of a step take on a device, by the roofline of every op, without making the whole
//! step.
//!
//! Times are those that a run with `time: roofline(...)` gives the same ops. All blocks and
//! micro-batches are alike, so four short steps, of one and two lengths of blocks and of
//! micro-batches, say what any number of them takes; the update is left out, which ZeRO shares out.
//! Invariant: nothing waits for memory, links or other ranks here.

use super::last_stage::LAST_STAGE;
use super::{Checkpointing, Training, Zero};
use crate::transformer::card::{Card, Experts};
use crate::transformer::graph::state::virtual_stages;
use std::collections::BTreeMap;
use tiersim_models::hardware::Compute;
use tiersim_models::workload::{Phase, Unit};

impl Training {
    /// Picoseconds that one rank computes in a step but for the update; `None` for a step that
    /// makes no trace, and for a device without a peak in `precision`.
    pub fn computing(&self, compute: &Compute, precision: &str) -> Option<u128> {
        let parallel = self.parallel;
        let virtual_stages = parallel.pipeline.checked_mul(parallel.interleave)?;
        let blocks = self.card.layers.checked_next_multiple_of(virtual_stages)? / virtual_stages;
        if self.has_sorts() {
            return self.computing_by_sort(compute, precision);
        }
        if !self.card.layers.is_multiple_of(virtual_stages) {
            return self.computing_unevenly(blocks, compute, precision);
        }
        if let Checkpointing::Layers(first) = self.checkpointing {
            // What a block takes more that is computed again is the same for each of them.
            let of = |checkpointing| {
                Training { checkpointing, ..self.clone() }.computing(compute, precision)
            };
            let (none, full) = (of(Checkpointing::None)?, of(Checkpointing::Full)?);
            let more = full.checked_sub(none)?.checked_mul(first.min(blocks).into())?;
            return none.checked_add(more.checked_div(blocks.into())?);
        }
        // As many blocks as repeat.
        let each = match self.checkpointing {
            Checkpointing::Every(blocks) => blocks.max(1),
            _ => 1,
        };
        let round = if parallel.interleave > 1 { parallel.pipeline } else { 1 };
        let rounds = (self.batch / self.micro_batch.max(1)).checked_div(round)?;
        let of = |lengths: u32, times: u32| {
            let micros = round.checked_mul(times)?;
            let layers = virtual_stages.checked_mul(lengths.checked_mul(each)?.min(blocks))?;
            self.short(layers, micros)?.on_device(compute, precision)
        };
        let (lengths, times) = (blocks.div_ceil(each), rounds);
        let one = of(1, 1)?;
        let block = if lengths > 1 { of(2, 1)?.checked_sub(one)? } else { 0 };
        let repeat = if times > 1 { of(1, 2)?.checked_sub(one)? } else { 0 };
        let both = if lengths > 1 && times > 1 {
            of(2, 2)?.checked_sub(one + block + repeat)?
        } else {
            0
        };
        let [lengths, times] = [lengths, times].map(|number| u128::from(number.saturating_sub(1)));
        one.checked_add(lengths * block)?
            .checked_add(times * repeat)?
            .checked_add(lengths * times * both)
    }

    /// Whether blocks differ: in what they attend to, or in having experts.
    fn has_sorts(&self) -> bool {
        let has_dense = |of: Experts| of.dense_first > 0 && of.dense_first < self.card.layers;
        self.card.full_attention_every.is_some() || self.card.experts.is_some_and(has_dense)
    }

    /// The same where blocks differ: the mean over the blocks of what a step takes of which all are
    /// like that one.
    fn computing_by_sort(&self, compute: &Compute, precision: &str) -> Option<u128> {
        let like = |window, has_experts: bool, is_again: bool| {
            let mut card = Card { window, full_attention_every: None, ..self.card.clone() };
            if let Some(experts) = &mut card.experts {
                experts.dense_first = if has_experts { 0 } else { card.layers };
            }
            let checkpointing = match self.checkpointing {
                Checkpointing::Layers(_) if is_again => Checkpointing::Full,
                Checkpointing::Layers(_) => Checkpointing::None,
                other => other,
            };
            Training { card, checkpointing, ..self.clone() }.computing(compute, precision)
        };
        let first = match self.checkpointing {
            Checkpointing::Layers(first) => first,
            _ => 0,
        };
        let (mut times, mut sum, mut blocks) = (BTreeMap::new(), 0u128, 0u128);
        for stage in virtual_stages(self) {
            for layer in stage.clone().take_while(|&layer| layer < self.card.layers) {
                let has_experts = self.card.experts_of(layer).is_some();
                let is_again = layer - stage.start < first;
                let kind = (self.card.window_of(layer), has_experts, is_again);
                let time = match times.get(&kind) {
                    Some(&time) => time,
                    None => *times.entry(kind).or_insert(like(kind.0, kind.1, kind.2)?),
                };
                (sum, blocks) = (sum.checked_add(time)?, blocks + 1);
            }
        }
        sum.checked_div(blocks)
    }

    /// The same where the first stages of a pipeline have `blocks` and the others one less: every
    /// pass of those takes a block less of the bubble, and for every micro-batch the last of them
    /// has its head where this stage has a block more.
    fn computing_unevenly(&self, blocks: u32, compute: &Compute, precision: &str) -> Option<u128> {
        let stages = self.parallel.pipeline;
        // Of the last block, which is computed again or not.
        let of_last = match self.checkpointing {
            Checkpointing::Layers(first) if first < blocks => Checkpointing::None,
            Checkpointing::Layers(_) | Checkpointing::Every(_) => Checkpointing::Full,
            other => other,
        };
        // With one micro-batch every pass is like those of the bubble: none adds to gradients.
        let one = Training { batch: self.micro_batch, ..self.clone() };
        let of_one = |blocks: u32| {
            let card = Card { layers: blocks.checked_mul(stages)?, ..self.card.clone() };
            let step = Training { card, checkpointing: of_last, ..one.clone() };
            step.computing(compute, precision)
        };
        let block = of_one(blocks)?.checked_sub(of_one(blocks - 1)?)? / u128::from(stages);
        let fewer = u128::from(stages - self.card.layers % stages);
        let card = Card { layers: blocks.checked_mul(stages)?, ..self.card.clone() };
        let all = Training { card, ..self.clone() }.computing(compute, precision)?;
        // What waiting for the last stage differs by, in the first micro-batch and in each other:
        // of two blocks, where the last stage has as many, and where it has one. The bubble of the
        // latter has one block less.
        let of = |layers: u32, micros: u32| {
            let step = Training { checkpointing: of_last, ..self.clone() };
            step.short(layers, micros)?.on_device(compute, precision)
        };
        let (even, uneven) = (stages.checked_mul(2)?, stages.checked_mul(2)? - 1);
        let [[first, both], [first_even, both_even]] =
            [[of(uneven, 1)?, of(uneven, 2)?], [of(even, 1)?, of(even, 2)?]];
        let more = (both - first).checked_mul(u128::from(self.micro_batches() - 1))?;
        let more_even = (both_even - first_even).checked_mul((self.micro_batches() - 1).into())?;
        let all = all.checked_add(first)?.checked_add(more)?.checked_add(block)?;
        all.checked_sub(fewer.checked_mul(block)?)?.checked_sub(first_even.checked_add(more_even)?)
    }

    /// The same with fewer blocks and micro-batches, on ranks that share no state.
    /// All its blocks attend to all tokens if some do.
    pub(super) fn short(&self, layers: u32, micros: u32) -> Option<Training> {
        let window = self.card.window.filter(|_| self.card.full_attention_every.is_none());
        Some(Training {
            card: Card { layers, window, full_attention_every: None, ..self.card.clone() },
            batch: self.micro_batch.checked_mul(micros)?,
            zero: Zero { stage: 0, host_update: 0, ..self.zero },
            loader: None,
            ..self.clone()
        })
    }

    fn on_device(&self, compute: &Compute, precision: &str) -> Option<u128> {
        let all = self.made().ok()?.trace.ops;
        // When the device, and the last stage beside it, have done what they were given.
        let (mut now, mut last_stage) = (0u128, 0u128);
        for (op, time) in all.iter().zip(compute.times(precision, &all)) {
            if op.stream == LAST_STAGE {
                let begins = if op.after.is_empty() { last_stage } else { now };
                last_stage = begins.checked_add(time?.ps().into())?;
                continue;
            }
            if op.after.iter().any(|before| all[before.index()].stream == LAST_STAGE) {
                now = now.max(last_stage);
            }
            if op.phase != Phase::Optimizer && matches!(op.unit, Unit::Device | Unit::Idle) {
                now = now.checked_add(time?.ps().into())?;
            }
        }
        Some(now.max(last_stage))
    }
}
