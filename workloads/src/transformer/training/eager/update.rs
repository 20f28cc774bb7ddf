//! AdamW as PyTorch's loop over parameters runs it: eight kernels per module.
//!
//! It is what `torch.optim.AdamW` does on a CPU (`_single_tensor_adamw`). On a GPU its default has
//! one kernel for many tensors (`foreach`), which reads and writes the same bytes but has the
//! root of all second moments at once.

use crate::build::{ObjectAccess, change, read};
use crate::transformer::format::Format;
use crate::transformer::graph::eager::At;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::state::Update;
use crate::transformer::training::Optimizer;

impl GraphBuilder<'_> {
    /// The device's part of a module's update; `gradient` is its part of the gradient.
    pub(in crate::transformer::training) fn eager_update(
        &mut self,
        owned: usize,
        update: &Update,
        gradient: Option<ObjectAccess>,
    ) {
        let at = self.at(self.module(owned));
        let weights = self.shape.formats.weights;
        // A share of a shard may end within a number.
        let numbers = update.weights.div_ceil(u128::from(weights.bytes()));
        let is_wide = update.has_master || weights == Format::Fp32;
        let format = if self.shape.optimizer == Optimizer::AdamW { Format::Fp32 } else { weights };
        let at = At { format, ..at };
        let &[first, second, ..] = &update.state[..] else { return };
        let mut gradient = gradient.into_iter().collect::<Vec<ObjectAccess>>();
        if is_wide && self.shape.formats.gradients != Format::Fp32 {
            gradient = vec![read(self.made(at, "_to_copy", &gradient, numbers))];
        }
        // With a master copy that is updated, and the weights are a copy of it.
        let master = update.state.get(2).filter(|_| update.has_master);
        let (all, part) = match master {
            Some(&master) => (change(master), read(master)),
            None => (self.weights_of(owned, update.weights, false), read(first)),
        };
        self.run_on(at, "mul_", numbers, &[all]);
        self.run_on(at, "lerp_", numbers, &[&[change(first)], &gradient[..]].concat());
        self.run_on(at, "mul_", numbers, &[change(second)]);
        self.run_on(at, "addcmul_", numbers, &[&[change(second)], &gradient[..]].concat());
        let root = self.made(at, "sqrt", &[read(second)], numbers);
        let root = self.made(at, "div", &[read(root)], numbers);
        self.run_on(at, "add_", numbers, &[change(root)]);
        self.run_on(at, "addcdiv_", numbers, &[all, read(first), read(root)]);
        if master.is_some() {
            let weight = self.weights_of(owned, update.weights, true);
            self.run_into(at, "copy_", (0, &[part]), &[weight]);
        }
    }
}
