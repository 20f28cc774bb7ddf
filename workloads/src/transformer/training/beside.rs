//! What tensor ranks exchange beside the products of a backward pass.
//!
//! Of a matrix that is split by outputs every rank has a part of its input's gradient, which is
//! summed over the group. Megatron-LM makes that gradient first and sums it while the gradient of
//! the weights is made; with sequence parallelism each rank keeps its tokens of the input alone,
//! which are gathered again while the gradient of the input is made (Korthikanti et al., 2022,
//! section 4.2.2; `LinearWithGradAccumulationAndAsyncCommunication` in
//! `megatron/core/tensor_parallel/layers.py` of github:NVIDIA/Megatron-LM@960c06b). Matrices of one
//! input, as queries, keys and values, are one matrix there: all their gradients of the input come
//! before all those of weights. All other exchange of a tensor group is what the next op needs.
//! Invariant: whatever is put off is made before anything else of the backward pass.

use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::graph::pass::{BESIDE, GraphBuilder, WeightGradient};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Kernel, Product, Work};

impl GraphBuilder<'_> {
    /// What products were given, of all tokens, where their gradients need it.
    pub(super) fn input_again(
        &mut self,
        is_needed: bool,
        norm: ModuleId,
        normed: ObjectId,
    ) -> ObjectId {
        let stream = if self.overlaps() { BESIDE } else { 0 };
        if is_needed { self.all_tokens_on(stream, norm, "out.whole", normed) } else { normed }
    }

    /// Both gradients of matrices of the same input that are split by outputs, from those of their
    /// outputs, the last first; of the input into an object that `is_new` or is added to.
    pub(super) fn wide_backward(
        &mut self,
        parts: &[usize],
        tokens: u128,
        (input, gradients): (ObjectId, &[ObjectId]),
        (d_input, is_new): (ObjectId, bool),
    ) {
        for (index, (&part, &d)) in parts.iter().zip(gradients).enumerate().rev() {
            let is_first = index + 1 == parts.len() && is_new;
            let to = if is_first { write(d_input) } else { change(d_input) };
            if !self.overlaps() {
                self.linear_backward(part, tokens, [read(input), read(d), to]);
                continue;
            }
            let (by, of, weight) =
                (self.module(part), self.product(part, tokens), self.unpacked(part));
            let touches = [weight, read(input), read(d), to];
            self.input_gradient_first((part, true), (by, of), touches);
        }
    }

    /// The gradient of a product's input; that of its weights is put off, which is all that this
    /// pass adds to it or not.
    pub(super) fn input_gradient_first(
        &mut self,
        (owned, is_all): (usize, bool),
        (by, of): (ModuleId, Product),
        [weight, x, dy, to]: [ObjectAccess; 4],
    ) {
        self.product_backward(by, of, [weight, x, dy, to], Vec::new());
        self.later.push(WeightGradient { owned, by, of, from: [x, dy], is_all });
    }

    /// The sum of the gradient of a product's input over the tensor group, beside the gradients of
    /// weights that were put off.
    pub(super) fn input_gradient_summed(&mut self, by: ModuleId, d_input: ObjectId) -> ObjectId {
        let stream = if self.later.is_empty() { 0 } else { BESIDE };
        let sum = self.sum_on(stream, by, ("out.grad.sum", None), d_input);
        self.weight_gradients();
        sum
    }

    /// Makes what was put off.
    pub(super) fn weight_gradients(&mut self) {
        for put_off in std::mem::take(&mut self.later) {
            let WeightGradient { owned, by, of, from, is_all } = put_off;
            let mut touches = from.to_vec();
            touches.extend(self.gradient(owned));
            let bytes = self.build.touched(&touches);
            let work = Work::Product(of.gradient_of_weight());
            let kernels = vec![Kernel::new(work, of.flops(), bytes)];
            self.build.kernels("linear_backward", by, kernels, &touches);
            if is_all {
                self.done(owned);
            }
        }
    }
}
