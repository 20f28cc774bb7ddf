//! The backward pass of compressed queries, keys and values, from their gradients to that of the
//! block's normed input; their forward pass is in [`crate::transformer::graph`].
//!
//! Every rank of a tensor group has compressed all tokens and the gradients of its heads, so that
//! the gradients of what compresses are sums over the group, as is that of the input.

use crate::build::{change, read, write};
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{Normed, SavedActivations};
use crate::transformer::graph::sizes::Sizes;
use crate::transformer::graph::state::BlockState;
use crate::transformer::modules::Compression;
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Streaming;

impl GraphBuilder<'_> {
    /// Room for the gradients of queries, and of the keys and values that rows expanded to.
    pub(super) fn expanded_gradients(
        &mut self,
        block: &BlockState,
        compression: &Compression<usize>,
    ) -> Vec<ObjectId> {
        let [queries, expand] = [block.qkv[0], compression.expand].map(|of| self.module(of));
        let Sizes { tokens, queries: q, keys, mixed, .. } = self.sizes;
        let of = [(queries, "out", q), (expand, "keys", keys), (expand, "values", mixed)];
        of.map(|(by, what, width)| self.buffer(by, &format!("{what}.grad"), tokens * width)).into()
    }

    /// The gradient of a block's normed input, of all tokens.
    pub(super) fn compressed_backward(
        &mut self,
        block: &BlockState,
        compression: &Compression<usize>,
        kept: &SavedActivations,
        d_qkv: &[ObjectId],
    ) -> ObjectId {
        let (Some(latent), &[d_q, d_k, d_v]) = (self.shape.card.latent, d_qkv) else {
            unreachable!("queries, keys and values follow from what is compressed")
        };
        let Some((of_rows, of_queries)) = kept.qkv_norms.split_last() else {
            unreachable!("rows are normed")
        };
        let (tokens, bytes) = (self.sizes.tokens, u128::from(self.sizes.work.bytes()));
        let turned = tokens * u128::from(latent.rotary) * bytes;
        let expand = compression.expand;
        let d_expanded =
            self.buffer(self.module(expand), "out.grad", tokens * self.owned[expand].outputs);
        let [down, norm] = compression.rows;
        let d_rows = self.buffer(self.module(down), "out.grad", tokens * self.owned[down].outputs);
        // What all heads share of keys is summed over them.
        let touches = [
            change(d_q).part(2 * self.sizes.heads * turned),
            read(d_k),
            read(d_v),
            write(d_expanded),
            write(d_rows).part(turned),
        ];
        self.build.streaming("rotary_backward", block.attention, Streaming::Rotary, &touches);
        let rank = tokens * u128::from(latent.rank);
        self.expanded_backward([expand, norm], rank, of_rows, [d_expanded, d_rows]);
        let mut first = (block.qkv[0], d_q);
        if let (Some([down, norm]), [of_queries]) = (compression.queries, of_queries) {
            let numbers = tokens * self.owned[down].outputs;
            let d_down = self.buffer(self.module(down), "out.grad", numbers);
            self.expanded_backward([block.qkv[0], norm], numbers, of_queries, [d_q, d_down]);
            first = (down, d_down);
        }
        let by = self.module(*block.first());
        let input = self.all_tokens(by, "out.whole", kept.given[0]);
        let d_input = self.buffer(by, "out.grad", tokens * self.sizes.hidden);
        for (owned, d, to) in [(down, d_rows, write(d_input)), (first.0, first.1, change(d_input))]
        {
            self.linear_backward(owned, tokens, [read(input), read(d), to]);
        }
        d_input
    }

    /// From the gradient of what a matrix expands normed tokens to, to that of these before their
    /// norm, which are the first `numbers` of what they stand in.
    fn expanded_backward(
        &mut self,
        [matrix, norm]: [usize; 2],
        numbers: u128,
        normed: &Normed,
        [dy, dx]: [ObjectId; 2],
    ) {
        let (module, bytes) = (self.module(norm), numbers * u128::from(self.sizes.work.bytes()));
        let d_normed = self.buffer(module, "out.grad", numbers);
        let touches = [read(normed.y), read(dy), write(d_normed)];
        self.linear_backward(matrix, self.sizes.tokens, touches);
        let is_whole = self.build.size(dx) == bytes;
        let to = if is_whole { write(dx) } else { change(dx).part(bytes) };
        let mut touches = vec![self.weight(norm), read(normed.x).part(bytes), read(d_normed), to];
        touches.extend(self.gradient(norm));
        self.build.streaming("norm_backward", module, Streaming::Norm, &touches);
        self.done(norm);
    }
}
