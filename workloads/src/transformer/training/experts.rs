//! The backward pass of a block's experts; their forward pass is in [`crate::transformer::graph`].

use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{SavedByExperts, SavedByShared};
use crate::transformer::graph::state::{MixtureState, Mlp};
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Streaming;

impl GraphBuilder<'_> {
    /// From the gradient of the sum to that of the block's normed middle: `[input, dy, dx]`.
    pub(super) fn mixture_backward(
        &mut self,
        mixture: &MixtureState,
        kept: &SavedByExperts,
        [input, dy, dx]: [ObjectId; 3],
    ) {
        let (by, sizes) = (self.module(mixture.router), self.sizes);
        if let Some(groups) = kept.groups {
            self.eager_mixture_backward(mixture, (kept, groups), [input, dy, dx]);
            return;
        }
        let is_alone = self.shape.parallel.expert == 1;
        let here = kept.tokens.iter().sum::<u128>().max(1) * sizes.hidden;
        let copies = self.copies();
        let choices = sizes.tokens * self.owned[mixture.router].outputs;
        let d_gates = self.buffer(by, "gates.grad", choices);
        let d_back = self.buffer(by, "back.grad", copies);
        let touches = [read(dy), read(kept.back), read(kept.gates), write(d_back), write(d_gates)];
        self.build.streaming("combine_backward", by, Streaming::ElementWise, &touches);
        let d_done = if is_alone { d_back } else { self.buffer(by, "done.grad", here) };
        if !is_alone {
            self.exchange(by, d_back, d_done);
        }
        let d_given = self.buffer(by, "given.grad", here);
        self.experts_backward(mixture, kept, d_done, d_given);
        let d_sent = if is_alone { d_given } else { self.buffer(by, "sent.grad", copies) };
        if !is_alone {
            self.exchange(by, d_given, d_sent);
        }
        self.build.streaming(
            "dispatch_backward",
            by,
            Streaming::ElementWise,
            &[read(d_sent), write(dx)],
        );
        let touches = [read(input), read(d_gates), change(dx)];
        self.linear_backward(mixture.router, sizes.tokens, touches);
        if let (Some(of), Some(shared)) = (&mixture.shared, &kept.shared) {
            self.shared_backward(of, shared, [input, dy, dx]);
        }
    }

    fn experts_backward(
        &mut self,
        mixture: &MixtureState,
        kept: &SavedByExperts,
        d_done: ObjectId,
        d_given: ObjectId,
    ) {
        let all = kept.tokens.iter().sum::<u128>().max(1);
        let mut is_first = true;
        let each = mixture.experts.iter().zip(&kept.experts).zip(&kept.tokens).rev();
        for ((mlp, kept_of), &tokens) in each {
            let Some(kept_of) = kept_of else {
                self.no_gradient(mlp);
                continue;
            };
            let part = |object, maker: &Self| maker.build.size(object) * tokens / all;
            let from = read(kept.given).part(part(kept.given, self));
            let dy = read(d_done).part(part(d_done, self));
            let bytes = part(d_given, self);
            let mut to = |first: bool, last: bool| {
                let is_whole = first && is_first;
                is_first &= !last;
                match (is_whole, first) {
                    (true, _) => write(d_given).part(bytes),
                    // The others' parts are there already, and its own is overwritten.
                    (false, true) => change(d_given).part(bytes),
                    (false, false) => change(d_given).part(2 * bytes),
                }
            };
            self.feed_forward_backward(mlp, tokens, kept_of, [from, dy], &mut to);
        }
        if is_first {
            self.build.streaming(
                "zero",
                self.module(mixture.router),
                Streaming::ElementWise,
                &[write(d_given)],
            );
        }
    }

    fn shared_backward(
        &mut self,
        (mlp, gate): &(Mlp, Option<usize>),
        kept: &SavedByShared,
        [input, dy, dx]: [ObjectId; 3],
    ) {
        let sizes = self.sizes;
        let (Some(gate), Some([out, weight])) = (*gate, kept.weighed) else {
            let mut to = |_: bool, _: bool| change(dx);
            let touches = [read(input), read(dy)];
            self.feed_forward_backward(mlp, sizes.tokens, &kept.kept, touches, &mut to);
            return;
        };
        let by = self.module(gate);
        let d_out = self.buffer(by, "weighed.grad", sizes.tokens * sizes.hidden);
        let d_weight = self.buffer(by, "out.grad", sizes.tokens);
        let touches = [read(dy), read(out), read(weight), write(d_out), write(d_weight)];
        self.build.streaming("combine_backward", by, Streaming::ElementWise, &touches);
        let mut to = |_: bool, _: bool| change(dx);
        let touches = [read(input), read(d_out)];
        self.feed_forward_backward(mlp, sizes.tokens, &kept.kept, touches, &mut to);
        let touches = [read(input), read(d_weight), change(dx)];
        self.linear_backward(gate, sizes.tokens, touches);
    }

    /// Zeros for the gradients of an expert without tokens.
    fn no_gradient(&mut self, mlp: &Mlp) {
        for owned in [mlp.down_proj].into_iter().chain(mlp.up_proj.iter().rev().copied()) {
            if !self.owned[owned].trains {
                continue;
            }
            if !self.owned[owned].written || self.is_reduced_each_pass(owned) {
                let touches: Vec<ObjectAccess> = self.gradient(owned);
                self.build.streaming("zero", self.module(owned), Streaming::ElementWise, &touches);
            }
            self.done(owned);
        }
    }
}
