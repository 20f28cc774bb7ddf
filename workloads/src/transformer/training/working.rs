//! What ops need beside model state and activations: gradients of activations, tensors gathered
//! from the ranks of tensor parallelism, and what nothing keeps.
//!
//! It is read off the same graph that traces are made from, of a step that is as short as it can
//! be: one or two blocks per virtual stage and one micro-batch, without ZeRO, whose buffers are
//! counted by themselves. All blocks and micro-batches are alike and give their buffers back, so
//! the most that is alive at once is that of the whole step.

use super::{Checkpointing, Training};
use tiersim_models::lifetime::Workload;
use tiersim_models::workload::ObjectKind;

impl Training {
    /// The most bytes of working buffers that one rank has at once; `None` for a step that makes no
    /// trace.
    pub fn working(&self) -> Option<u64> {
        let parallel = self.parallel;
        let virtual_stages = parallel.pipeline.checked_mul(parallel.interleave)?;
        let layers = virtual_stages
            .checked_mul(self.card.layers.div_ceil(virtual_stages.max(1)).clamp(1, 2))?;
        let micros = if parallel.interleave > 1 { parallel.pipeline } else { 1 };
        let mut short = self.short(layers, micros)?;
        if let Checkpointing::Layers(first) = self.checkpointing {
            // One block of each sort, where there are both.
            let blocks = self.card.layers.div_ceil(virtual_stages.max(1));
            let of_two = if first < blocks { first.min(1) } else { 2 };
            short.checkpointing = Checkpointing::Layers(of_two.min(layers / virtual_stages));
        }
        let workload = Workload::new(short.made().ok()?.trace);
        Some(workload.most_alive(|object| object.kind == ObjectKind::Buffer))
    }
}
