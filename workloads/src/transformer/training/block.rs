//! The backward pass of a block, from the gradient of its output to that of its input, and how its
//! parts' gradients join the residual stream's.

use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::card::HeadNorms;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{Normed, SavedActivations, SavedFeed};
use crate::transformer::graph::state::BlockState;
use crate::transformer::modules::Feed;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::Streaming;

/// A norm of a block, if it has one, and what it kept.
type OfNorm = (Option<usize>, Option<Normed>);

impl GraphBuilder<'_> {
    /// From the gradient of a block's output to that of its input.
    pub(super) fn block_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        dy: ObjectId,
    ) -> ObjectId {
        self.sizes = self.sizes.in_block(self.shape, block.layer);
        if self.shape.card.family.is_parallel() {
            return self.side_by_side_backward(block, kept, dy);
        }
        let d_middle = self.feed_part_backward(block, kept, dy);
        self.attention_part_backward(block, kept, d_middle)
    }

    /// Both parts have the gradient of the block's output; what they were given is summed.
    fn side_by_side_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        dy: ObjectId,
    ) -> ObjectId {
        let d_out = self.residual_backward(self.feed_end(block), kept.masks[1], None, dy);
        let d_fed = self.feed_backward(block, kept, d_out, None);
        if block.norm_2.is_none() {
            // Nothing is summed before attention has added to it.
            self.weight_gradients();
        }
        let (to, beside) = match block.norm_2 {
            Some(norm) => {
                let by = self.module(norm);
                (None, self.joined_stream(by, (block.norm_2, kept.normed[1]), d_fed, dy))
            }
            None => (Some(d_fed), dy),
        };
        let d_input = self.attention_backward(block, kept, d_out, to);
        let by = self.module(*block.first());
        self.joined_stream(by, (block.norm_1, kept.normed[0]), d_input, beside)
    }

    /// From the gradient of what products were given, of all tokens, to that of the residual stream:
    /// through their norm, if they have one, and added to the gradient `beside` it.
    fn joined_stream(
        &mut self,
        by: ModuleId,
        (norm, normed): OfNorm,
        d_input: ObjectId,
        beside: ObjectId,
    ) -> ObjectId {
        let d = self.input_gradient_summed(by, d_input);
        if let Some((norm, normed)) = norm.zip(normed) {
            return self.norm_backward(norm, &normed, d, Some(beside));
        }
        let touches = [read(d), change(beside)];
        self.build.streaming("residual_backward", by, Streaming::ElementWise, &touches);
        beside
    }

    /// Gradient of what a part gave, of all tokens, from that of its sum with the residual stream:
    /// through dropout and the norm behind the part, if there are such.
    fn residual_backward(
        &mut self,
        by: ModuleId,
        mask: Option<ObjectId>,
        norm: Option<(usize, &Normed)>,
        dy: ObjectId,
    ) -> ObjectId {
        let dropped = match mask {
            None => dy,
            Some(mask) => {
                let d = self.buffer(by, "sum.grad", self.sizes.stream());
                self.build.streaming(
                    "dropout_backward",
                    by,
                    Streaming::ElementWise,
                    &[read(dy), read(mask), write(d)],
                );
                d
            }
        };
        let part = match norm {
            Some((norm, normed)) => self.norm_backward(norm, normed, dropped, None),
            None => dropped,
        };
        self.all_tokens(by, "sum.grad.whole", part)
    }

    /// The module whose output ends the feed-forward part.
    fn feed_end(&self, block: &BlockState) -> ModuleId {
        match &block.feed {
            Feed::Dense(mlp) => self.module(mlp.down_proj),
            Feed::Mixture(mixture) => self.module(mixture.router),
        }
    }

    fn feed_part_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        dy: ObjectId,
    ) -> ObjectId {
        let of_norm = (block.norm_2, kept.normed[1]);
        let is_post = self.shape.card.family.is_post_norm();
        let dy = if is_post { self.behind_sum(of_norm, dy) } else { dy };
        let part = kept.part_norm(block, 1);
        let d_out = self.residual_backward(self.feed_end(block), kept.masks[1], part, dy);
        // Post-norm the sum's own gradient is there, and is added to.
        let d_fed = self.feed_backward(block, kept, d_out, is_post.then_some(dy));
        if is_post {
            return d_fed;
        }
        let by = self.module(self.fed_by(block));
        self.joined_stream(by, of_norm, d_fed, dy)
    }

    /// Through a norm behind a sum.
    fn behind_sum(&mut self, (norm, normed): OfNorm, dy: ObjectId) -> ObjectId {
        let (norm, normed) = norm.zip(normed).expect("post-norm, a norm stands behind each sum");
        self.norm_backward(norm, &normed, dy, None)
    }

    /// From the gradient of what the feed-forward part gave to that of what it was given, which is
    /// added to `to`, if there is such.
    fn feed_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        d_out: ObjectId,
        to: Option<ObjectId>,
    ) -> ObjectId {
        let (tokens, hidden) = (self.sizes.tokens, self.sizes.hidden);
        let by = self.module(self.fed_by(block));
        // Of the norm's output or, without one, of the first matrix's input.
        let what = if block.norm_2.is_some() { "out.grad" } else { "in.grad" };
        let d_input = to.unwrap_or_else(|| self.buffer(by, what, tokens * hidden));
        match (&block.feed, &kept.feed) {
            (Feed::Dense(mlp), SavedFeed::Dense(of)) => {
                let gradients = self.narrow_backward(mlp, tokens, of, read(d_out));
                let input = self.input_again(self.keeps_fed(block), by, kept.given[1]);
                let into = (d_input, to.is_none());
                self.wide_backward(&mlp.up_proj, tokens, (input, &gradients), into);
            }
            (Feed::Mixture(mixture), SavedFeed::Mixture(of)) => {
                let is_needed = self.keeps_fed(block);
                let given = kept.given[1];
                let input = if is_needed { self.all_tokens(by, "out.whole", given) } else { given };
                self.mixture_backward(mixture, of, [input, d_out, d_input]);
            }
            _ => unreachable!("a block keeps what it is made of"),
        }
        d_input
    }

    fn attention_part_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        d_middle: ObjectId,
    ) -> ObjectId {
        let of_norm = (block.norm_1, kept.normed[0]);
        let is_post = self.shape.card.family.is_post_norm();
        let d_middle = if is_post { self.behind_sum(of_norm, d_middle) } else { d_middle };
        let (out, behind) = (self.module(block.out), kept.part_norm(block, 0));
        let d_projected = self.residual_backward(out, kept.masks[0], behind, d_middle);
        let to = is_post.then_some(d_middle);
        let d_input = self.attention_backward(block, kept, d_projected, to);
        if is_post {
            return d_input;
        }
        let by = self.module(*block.first());
        self.joined_stream(by, of_norm, d_input, d_middle)
    }

    /// From the gradient of what attention gave to that of what queries, keys and values were made
    /// of, which is added to `to`, if there is such.
    fn attention_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        d_projected: ObjectId,
        to: Option<ObjectId>,
    ) -> ObjectId {
        let (tokens, sizes) = (self.sizes.tokens, self.sizes);
        let core = self.core_again(block, kept);
        let d_mixed = self.buffer(block.attention, "out.grad", tokens * sizes.mixed);
        self.linear_backward(
            block.out,
            tokens,
            [read(kept.mixed), read(d_projected), write(d_mixed)],
        );
        let d_qkv = self.core_backward(block, kept, core, d_mixed);
        if let Some(compression) = &block.compression {
            return self.compressed_backward(block, compression, kept, &d_qkv);
        }
        self.positioned_backward(block, kept, &d_qkv);
        let by = self.module(*block.first());
        let input = self.input_again(self.keeps_input(&block.qkv), by, kept.given[0]);
        let what = if block.norm_1.is_some() { "out.grad" } else { "in.grad" };
        let d_input = to.unwrap_or_else(|| self.buffer(by, what, tokens * sizes.hidden));
        self.wide_backward(&block.qkv, tokens, (input, &d_qkv), (d_input, to.is_none()));
        d_input
    }

    /// Turns gradients of queries and keys back by position, and takes them through their norms.
    fn positioned_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        d_qkv: &[ObjectId],
    ) {
        if self.is_eager() {
            return;
        }
        if self.shape.card.family.is_rotary() {
            let touches: Vec<ObjectAccess> = self.rotated(d_qkv);
            self.build.streaming("rotary_backward", block.attention, Streaming::Rotary, &touches);
        }
        if self.shape.card.head_norms() == Some(HeadNorms::Weightless) {
            for (&y, &d) in kept.qkv.iter().zip(d_qkv).take(2) {
                let touches = [read(y), change(d)];
                let by = block.attention;
                self.build.streaming("norm_backward", by, Streaming::Norm, &touches);
            }
        }
        for ((&norm, &y), &d) in block.head_norms.iter().zip(&kept.qkv).zip(d_qkv) {
            let mut touches = vec![self.weight(norm), read(y), change(d)];
            touches.extend(self.gradient(norm));
            self.build.streaming("norm_backward", self.module(norm), Streaming::Norm, &touches);
            self.done(norm);
        }
    }
}

impl SavedActivations {
    /// The norm behind attention (0) or the feed-forward part (1), and what it was given.
    fn part_norm(&self, block: &BlockState, at: usize) -> Option<(usize, &Normed)> {
        block.part_norms.get(at).copied().zip(self.normed_parts.get(at))
    }
}
