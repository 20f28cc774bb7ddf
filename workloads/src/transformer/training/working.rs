//! What ops need beside model state and activations: gradients of activations, tensors gathered
//! from the ranks of tensor parallelism, and what nothing keeps.
//!
//! It is read off the same graph that traces are made from, of a step that is as short as it can
//! be: one or two blocks of each sort per virtual stage and one micro-batch, without ZeRO, whose
//! buffers are counted by themselves. All blocks of a sort and all micro-batches are alike and give
//! their buffers back, so the most that is alive at once is that of the whole step.

use super::{Checkpointing, Training};
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::ObjectKind;

impl Training {
    /// The most bytes of working buffers that one rank has at once; `None` for a step that makes no
    /// trace.
    pub fn working(&self) -> Option<u64> {
        let parallel = self.parallel;
        let virtual_stages = parallel.pipeline.checked_mul(parallel.interleave)?;
        let blocks = self.card.layers.div_ceil(virtual_stages.max(1));
        let dense = self.card.experts.map_or(0, |experts| experts.dense_first.min(blocks));
        let [front, behind] = [dense, blocks - dense].map(|blocks| blocks.min(2));
        let layers = virtual_stages.checked_mul((front + behind).max(1))?;
        let micros = if parallel.interleave > 1 { parallel.pipeline } else { 1 };
        let mut short = self.short(layers, micros)?;
        if let Some(experts) = &mut short.card.experts {
            experts.dense_first = front;
        }
        if let Checkpointing::Layers(first) = self.checkpointing {
            // One block of each sort that is computed again and one that is not, where there are
            // both.
            let of_two = |again: u32, all: u32| match again {
                0 => 0,
                again if again < all => 1,
                _ => all.min(2),
            };
            let again = of_two(first.min(dense), dense)
                + of_two(first.saturating_sub(dense), blocks - dense);
            short.checkpointing = Checkpointing::Layers(again);
        }
        let workload = Workload::new(short.made().ok()?.trace);
        Some(workload.most_alive(|object| object.kind == ObjectKind::Buffer))
    }
}
