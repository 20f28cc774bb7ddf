//! The backward pass of what a block is made of ([`super::block`] puts it together).
//!
//! A product gives two gradients, of its input and of its weights, each as large a product again;
//! the fused kernel of attention computes its scores again and has five products (Dao et al.,
//! "FlashAttention", 2022, algorithm 4). Gradients of activations are buffers. What is
//! sequence-parallel is gathered for the gradient of a product's output and, a second time, for the
//! input that its weights' gradient needs; the latter, and the sum of the gradient of that input,
//! may run beside the two products ([`super::beside`]).

use super::{Attention, Checkpointing, Kernels};
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{Core, Normed, SavedActivations, SavedFeedForward};
use crate::transformer::graph::state::{BlockState, Mlp};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Kernel, Product, Streaming, Work};

impl GraphBuilder<'_> {
    /// From the gradient of the narrow matrix's output to that of the wide ones' input. `to` says
    /// how to write it: it is told whether this is the first product of several, and whether the
    /// last.
    pub(super) fn feed_forward_backward(
        &mut self,
        mlp: &Mlp,
        tokens: u128,
        kept: &SavedFeedForward,
        [input, dy]: [ObjectAccess; 2],
        to: &mut impl FnMut(bool, bool) -> ObjectAccess,
    ) {
        let gradients = self.narrow_backward(mlp, tokens, kept, dy);
        let count = mlp.up_proj.len();
        for (index, (&part, &d)) in mlp.up_proj.iter().zip(&gradients).enumerate().rev() {
            let to = to(index + 1 == count, index == 0);
            self.linear_backward(part, tokens, [input, read(d), to]);
        }
    }

    /// From the gradient of the narrow matrix's output to those of the wide ones' outputs.
    pub(super) fn narrow_backward(
        &mut self,
        mlp: &Mlp,
        tokens: u128,
        kept: &SavedFeedForward,
        dy: ObjectAccess,
    ) -> Vec<ObjectId> {
        let numbers = tokens * mlp.width;
        let d_active = self.buffer(mlp.activation, "out.grad", numbers);
        self.linear_backward(mlp.down_proj, tokens, [read(kept.active), dy, write(d_active)]);
        if self.is_eager() {
            self.eager_activation_backward(mlp, numbers, kept, d_active)
        } else {
            self.activation_backward(mlp, tokens, kept, d_active)
        }
    }

    /// From the gradient of the narrow matrix's input to those of the wide ones' outputs.
    fn activation_backward(
        &mut self,
        mlp: &Mlp,
        tokens: u128,
        kept: &SavedFeedForward,
        d_active: ObjectId,
    ) -> Vec<ObjectId> {
        let mut touches = vec![read(d_active)];
        // The fused kernel writes gradients over what they are made of, where that is of a size.
        let has_room = self.sizes.kept == self.sizes.work && !kept.up_proj.is_empty();
        if self.shape.kernels == Kernels::Fused && has_room {
            touches.extend(kept.up_proj.iter().map(|&y| change(y)));
            let name = "activation_backward";
            self.build.streaming(name, mlp.activation, Streaming::Activation, &touches);
            return kept.up_proj.clone();
        }
        touches.extend(kept.up_proj.iter().chain(&kept.gate).map(|&y| read(y)));
        if kept.up_proj.is_empty() {
            touches.push(read(kept.active));
        }
        let gradients = mlp.up_proj.iter().map(|&part| {
            let numbers = tokens * self.owned[part].outputs;
            self.buffer(self.module(part), "out.grad", numbers)
        });
        let gradients: Vec<ObjectId> = gradients.collect();
        touches.extend(gradients.iter().map(|&d| write(d)));
        let name = "activation_backward";
        self.build.streaming(name, mlp.activation, Streaming::Activation, &touches);
        gradients
    }

    /// What the core kept, or what it makes again: all of its forward pass, as a checkpointed
    /// function runs.
    pub(super) fn core_again(&mut self, block: &BlockState, kept: &SavedActivations) -> Core {
        let is_again = self.shape.attention == Attention::Eager
            && self.shape.checkpointing == Checkpointing::Selective;
        if !is_again {
            return kept.core;
        }
        self.build.recompute = "recompute_";
        let mixed = self.buffer(block.attention, "out", self.sizes.tokens * self.sizes.queries);
        let core = if self.is_eager() {
            Core::EagerScores(self.eager_scores(block, &kept.qkv, mixed))
        } else {
            self.scores(block.attention, &kept.qkv, mixed)
        };
        self.build.recompute = "";
        core
    }

    /// Gradients of queries, keys and values.
    pub(super) fn core_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        core: Core,
        d_mixed: ObjectId,
    ) -> Vec<ObjectId> {
        let (by, sizes) = (block.attention, self.sizes);
        let product = 2 * sizes.pairs * sizes.queries;
        if self.is_eager() {
            return self.eager_core_backward(block, kept, core, d_mixed);
        }
        let d_qkv = self.qkv_gradients(block);
        let (softmax, dropped) = match core {
            Core::Flash(sums) if self.is_ring() => {
                self.ring_backward(block, &kept.qkv, [kept.mixed, sums, d_mixed], &d_qkv);
                return d_qkv;
            }
            Core::Flash(sums) => {
                let mut touches: Vec<ObjectAccess> = kept.qkv.iter().map(|&y| read(y)).collect();
                touches.extend([read(kept.mixed), read(sums), read(d_mixed)]);
                touches.extend(d_qkv.iter().map(|&d| write(d)));
                // Scores again, and gradients of queries and keys; of the softmax, and of values.
                let flops = 2 * sizes.pairs * (3 * sizes.queries + 2 * sizes.mixed);
                let work = Work::AttentionBackward(self.trained_attention());
                self.build.kernel("attention_backward", by, (work, flops), &touches);
                return d_qkv;
            }
            Core::Scores(softmax, dropped) => (softmax, dropped),
            Core::Nothing | Core::EagerScores(_) => {
                unreachable!("a step that trains keeps what its backward pass needs")
            }
        };
        let [kept_bytes, work_bytes] =
            [sizes.kept, sizes.work].map(|format| u128::from(format.bytes()) * sizes.tokens);
        let mixed_with = dropped.map_or(softmax, |(_, dropped)| dropped);
        let d_scores = self.buffer(by, "scores.grad", sizes.scores);
        // The gradient of values, in an object of its own or as the last part of one.
        let d_values = match d_qkv[..] {
            [one] => write(one).part(sizes.keys * work_bytes),
            _ => write(d_qkv[2]),
        };
        let mut touches = self.qkv(&kept.qkv, [false, false, true], kept_bytes);
        let values = self.build.touched(&touches);
        touches.extend([read(mixed_with), read(d_mixed), write(d_scores), d_values]);
        let bytes = [
            values + self.build.touched(&[read(d_mixed), write(d_scores)]),
            self.build.touched(&[read(mixed_with), read(d_mixed), d_values]),
        ];
        let works = [self.scored(), self.weighed()];
        let kernels = gradients(works, product, bytes);
        self.build.kernels("attention_values_backward", by, kernels, &touches);
        if let Some((mask, _)) = dropped {
            let touches = [read(mask), change(d_scores)];
            self.build.streaming(
                "attention_dropout_backward",
                by,
                Streaming::ElementWise,
                &touches,
            );
        }
        let touches = [read(softmax), change(d_scores)];
        self.build.streaming("attention_softmax_backward", by, Streaming::Softmax, &touches);
        let mut touches = self.qkv(&kept.qkv, [true, true, false], kept_bytes);
        touches.push(read(d_scores));
        match d_qkv[..] {
            [one] => touches.push(change(one).part((sizes.queries + sizes.keys) * work_bytes)),
            _ => touches.extend(d_qkv[..2].iter().map(|&d| write(d))),
        }
        // Of queries from keys, of keys from queries; each reads the scores' gradient.
        let part = |which, width| {
            let from = self.build.touched(&self.qkv(&kept.qkv, which, kept_bytes));
            from + self.build.size(d_scores) + width * work_bytes
        };
        let bytes =
            [part([false, true, false], sizes.queries), part([true, false, false], sizes.keys)];
        let kernels = gradients([self.weighed(); 2], product, bytes);
        self.build.kernels("attention_scores_backward", by, kernels, &touches);
        d_qkv
    }

    /// Room for the gradients of what attention multiplied.
    fn qkv_gradients(&mut self, block: &BlockState) -> Vec<ObjectId> {
        let tokens = self.sizes.tokens;
        if let Some(compression) = &block.compression {
            return self.expanded_gradients(block, compression);
        }
        let parts = block.qkv.iter().map(|&part| {
            let numbers = tokens * self.owned[part].outputs;
            self.buffer(self.module(part), "out.grad", numbers)
        });
        parts.collect()
    }

    /// Both gradients of a product: of its input by `to`, and of its weights unless they are
    /// frozen; and those of its adapter.
    pub(super) fn linear_backward(
        &mut self,
        owned: usize,
        tokens: u128,
        [x, dy, to]: [ObjectAccess; 3],
    ) {
        if self.is_eager() {
            self.eager_linear_backward(owned, tokens, [x, dy, to]);
            return;
        }
        let (module, of, weight) =
            (self.module(owned), self.product(owned, tokens), self.unpacked(owned));
        let gradient = self.gradient(owned);
        self.product_backward(module, of, [weight, x, dy, to], gradient);
        self.done(owned);
        let Some([a, b]) = self.owned[owned].adapter else { return };
        let low_rank = self.low_rank.remove(&(self.micro, owned)).expect("forward comes first");
        let d_low_rank = self.buffer(self.module(a), "out.grad", tokens * self.owned[a].outputs);
        self.linear_backward(b, tokens, [read(low_rank), dy, write(d_low_rank)]);
        self.linear_backward(a, tokens, [x, read(d_low_rank), to.added()]);
    }

    /// The kernels of both gradients of a product, in one op; without a gradient of weights, the
    /// one of its input, which does not need `x`.
    pub(super) fn product_backward(
        &mut self,
        module: ModuleId,
        of: Product,
        [weight, x, dy, to]: [ObjectAccess; 4],
        gradient: Vec<ObjectAccess>,
    ) {
        if gradient.is_empty() {
            let work = Work::Product(of.gradient_of_input());
            let touches = [weight, dy, to];
            self.build.kernel("linear_backward", module, (work, of.flops()), &touches);
            return;
        }
        let of_input = self.build.touched(&[weight, dy, to]);
        let of_weights = self.build.touched(&[x, dy]) + self.build.touched(&gradient);
        let works = [of.gradient_of_input(), of.gradient_of_weight()].map(Work::Product);
        let kernels = gradients(works, of.flops(), [of_input, of_weights]);
        let mut touches = vec![weight, x, dy, to];
        touches.extend(gradient);
        self.build.kernels("linear_backward", module, kernels, &touches);
    }

    /// The gradient of a norm's input, to which `beside` is added.
    pub(super) fn norm_backward(
        &mut self,
        owned: usize,
        normed: &Normed,
        dy: ObjectId,
        beside: Option<ObjectId>,
    ) -> ObjectId {
        if let Some(kept) = normed.kept {
            let size = (self.sizes.own_tokens, self.sizes.stream());
            return self.eager_norm_backward(owned, (normed, kept), size, dy, beside);
        }
        let module = self.module(owned);
        let dx = self.buffer(module, "in.grad", self.sizes.stream());
        let mut touches = vec![self.weight(owned), read(normed.x), read(dy), write(dx)];
        touches.extend(beside.map(read));
        touches.extend(self.gradient(owned));
        self.build.streaming("norm_backward", module, Streaming::Norm, &touches);
        self.done(owned);
        dx
    }
}

/// Both gradients of a product, each of which has so many FLOPs.
fn gradients(works: [Work; 2], flops: u128, bytes: [u128; 2]) -> Vec<Kernel> {
    works.into_iter().zip(bytes).map(|(work, bytes)| Kernel::new(work, flops, bytes)).collect()
}
