//! The backward pass of rotary positions, and of attention of products with copies.

use crate::build::{ObjectAccess, read, write};
use crate::transformer::graph::eager::At;
use crate::transformer::graph::eager::attention::scales_queries;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{Core, KeptScores, Normed, SavedActivations};
use crate::transformer::graph::state::BlockState;
use crate::transformer::training::Attention;
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Work;

impl GraphBuilder<'_> {
    /// Gradients of what the matrices of queries, keys and values gave.
    pub(in crate::transformer::training) fn eager_core_backward(
        &mut self,
        block: &BlockState,
        kept: &SavedActivations,
        core: Core,
        d_mixed: ObjectId,
    ) -> Vec<ObjectId> {
        let all = match core {
            Core::EagerScores(scores) => self.eager_scores_backward(block, &scores, d_mixed),
            Core::Flash(sums) => {
                let mut from: Vec<ObjectAccess> = kept.qkv.iter().map(|&y| read(y)).collect();
                from.extend([read(kept.mixed), read(sums), read(d_mixed)]);
                let product = 2 * self.sizes.pairs * self.sizes.queries;
                self.eager_flash_backward(block, &from, 5 * product)
            }
            _ => unreachable!("a step that trains keeps what its backward pass needs"),
        };
        self.eager_qkv_backward(block, &kept.qkv_norms, all)
    }

    /// From gradients of what attention was given to those of what the matrices gave.
    fn eager_qkv_backward(
        &mut self,
        block: &BlockState,
        normed: &[Normed],
        [dq, dk, dv]: [ObjectId; 3],
    ) -> Vec<ObjectId> {
        let (sizes, at) = (self.sizes, self.at(block.attention));
        let [queries, keys] = [sizes.queries, sizes.keys].map(|width| sizes.tokens * width);
        let is_rotary = self.shape.card.family.is_rotary();
        let of_products = self.shape.attention == Attention::Eager;
        // Heads lie behind each other in what products of attention give.
        if block.qkv.len() == 1 {
            let mut parts = [dq, dk, dv];
            if of_products {
                for part in &mut parts[1..] {
                    *part = self.made(at, "clone", &[read(*part)], keys);
                }
            }
            let from = parts.map(read);
            return vec![self.made(at, "cat", &from, queries + 2 * keys)];
        }
        let (mut dq, mut dk, mut dv) = (dq, dk, dv);
        if is_rotary {
            dk = self.rotary_backward(at, dk, keys);
            dq = self.rotary_backward(at, dq, queries);
        }
        if of_products {
            dv = self.made(at, "clone", &[read(dv)], keys);
        }
        if is_rotary || of_products {
            dk = self.made(at, "clone", &[read(dk)], keys);
            dq = self.made(at, "clone", &[read(dq)], queries);
        }
        if scales_queries(self.shape.card.family) {
            dq = self.made(at, "mul", &[read(dq)], queries);
        }
        let mut all = vec![dq, dk, dv];
        let norms = block.head_norms.iter().zip(normed).enumerate();
        for (index, (&norm, normed)) in norms {
            if let Some(kept) = normed.kept {
                let rows = self.head_rows(index);
                all[index] = self.eager_norm_backward(norm, (normed, kept), rows, all[index], None);
            }
        }
        all
    }

    fn rotary_backward(&mut self, at: At, d: ObjectId, numbers: u128) -> ObjectId {
        let [cos, sin] = self.rotary_tables(at);
        let turned = self.made(at, "mul", &[read(d), read(sin)], numbers);
        let half = self.build.size(turned) / 2;
        let negative = self.made(at, "neg", &[read(turned).part(half)], numbers / 2);
        let one = self.made(at, "slice_backward", &[read(negative)], numbers);
        let other = self.made(at, "slice_backward", &[read(turned).part(half)], numbers);
        let turned = self.made(at, "add", &[read(one), read(other)], numbers);
        let straight = self.made(at, "mul", &[read(d), read(cos)], numbers);
        self.made(at, "add", &[read(turned), read(straight)], numbers)
    }

    /// Gradients of queries, keys and values of the fused kernel.
    fn eager_flash_backward(
        &mut self,
        block: &BlockState,
        reads: &[ObjectAccess],
        flops: u128,
    ) -> [ObjectId; 3] {
        let (sizes, at) = (self.sizes, self.at(block.attention));
        let widths = [sizes.queries, sizes.keys, sizes.keys];
        let all = widths.map(|width| self.result(at, "grad", sizes.tokens * width, false));
        let touches = [reads, &all.map(write)].concat();
        let work = Work::AttentionBackward(sizes.attention);
        self.build.kernel("attention_backward", at.by, (work, flops), &touches);
        all
    }

    /// Gradients of queries, keys and values of attention of products.
    fn eager_scores_backward(
        &mut self,
        block: &BlockState,
        kept: &KeptScores,
        d_mixed: ObjectId,
    ) -> [ObjectId; 3] {
        let (sizes, at) = (self.sizes, self.at(block.attention));
        let [queries, keys] = [sizes.queries, sizes.keys].map(|width| sizes.tokens * width);
        let flops = 2 * sizes.pairs * sizes.queries;
        let [scored, weighed] = [self.scored(), self.weighed()];
        let [q, k, v] = kept.qkv;
        let bmm = |maker: &mut Self, work: Work, from: [ObjectId; 2], numbers: u128| {
            let to = maker.result(at, "bmm", numbers, false);
            let touches = [read(from[0]), read(from[1]), write(to)];
            maker.build.kernel("bmm", at.by, (work, flops), &touches);
            to
        };
        let d_mixed = self.made(at, "clone", &[read(d_mixed)], queries);
        let mixed_with = kept.dropped.map_or(kept.narrow, |(_, dropped)| dropped);
        let mut dv = bmm(self, weighed, [mixed_with, d_mixed], queries);
        let mut d = bmm(self, scored, [v, d_mixed], sizes.scores);
        if let Some((mask, _)) = kept.dropped {
            d = self.made(at, "native_dropout_backward", &[read(d), read(mask)], sizes.scores);
        }
        if kept.softmax != kept.narrow {
            d = self.made(at.wide(), "_to_copy", &[read(d)], sizes.scores);
        }
        let from = [read(d), read(kept.softmax)];
        let d = self.made(at, "_softmax_backward_data", &from, sizes.scores);
        let d = self.made(at, "mul", &[read(d)], sizes.scores);
        let mut dk = bmm(self, weighed, [q, d], queries);
        let dq = bmm(self, weighed, [k, d], queries);
        if keys < queries {
            dv = self.reduce_to(at, "sum", (read(dv), queries), keys);
            dk = self.reduce_to(at, "sum", (read(dk), queries), keys);
        }
        [dq, dk, dv]
    }
}
