//! Attention whose keys and values follow from one compressed row per token, which the cache keeps.
//!
//! A token is compressed for its queries, in most models, and for its keys and values; a norm
//! follows either, and what is turned by position is turned (DeepSeek-AI, "DeepSeek-V2", 2024,
//! section 2.1). The products with the matrix that expands rows are part of the op of attention, see
//! [`LatentAttention`]. Every rank of a tensor group compresses all tokens and keeps all rows: heads
//! are what it has a part of.

use super::pass::GraphBuilder;
use super::state::BlockState;
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::card::Latent;
use crate::transformer::modules::Compression;
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::{Attention, LatentAttention, Streaming, Work};

impl Latent {
    /// Attention of heads so wide to rows of this model.
    pub(crate) fn attention(self, of: Attention) -> LatentAttention {
        let Attention { batch, new, past, heads, head_dim, kv_bytes, .. } = of;
        let Latent { rank, rotary, value, .. } = self;
        let plain = head_dim.saturating_sub(rotary);
        LatentAttention { batch, new, past, heads, rank, rotary, plain, value, kv_bytes }
    }
}

impl GraphBuilder<'_> {
    /// Queries and rows of a block's normed input, turned by position.
    pub(super) fn compressed(
        &mut self,
        block: &BlockState,
        compression: &Compression<usize>,
        input: ObjectId,
    ) -> Vec<ObjectId> {
        let Some(latent) = self.shape.card.latent else { return Vec::new() };
        let tokens = self.sizes.tokens;
        let out = |maker: &mut Self, owned: usize| {
            let numbers = tokens * maker.owned[owned].outputs;
            maker.buffer(maker.module(owned), "out", numbers)
        };
        let [down, norm] = compression.rows;
        let queries = block.qkv[0];
        let first = compression.queries.map_or(queries, |[down, _]| down);
        let [mut q, rows] = [first, down].map(|owned| out(self, owned));
        self.linears(&[first, down], tokens, read(input), &[q, rows]);
        let bytes = u128::from(self.sizes.work.bytes()) * tokens;
        // In place: there is no backward pass.
        if let Some([_, norm]) = compression.queries {
            let touches = [self.weight(norm), change(q)];
            self.build.streaming("norm", self.module(norm), Streaming::Norm, &touches);
        }
        let touches = [self.weight(norm), change(rows).part(2 * u128::from(latent.rank) * bytes)];
        self.build.streaming("norm", self.module(norm), Streaming::Norm, &touches);
        if compression.queries.is_some() {
            let whole = out(self, queries);
            self.linear(queries, tokens, read(q), write(whole));
            q = whole;
        }
        let turned = |heads: u128| 2 * heads * u128::from(latent.rotary) * bytes;
        let touches = [change(q).part(turned(self.sizes.heads)), change(rows).part(turned(1))];
        self.build.streaming("rotary", block.attention, Streaming::Rotary, &touches);
        vec![q, rows]
    }

    /// Attention of new tokens to the rows of a layer, which theirs are added to.
    pub(super) fn rows_attended(
        &mut self,
        block: &BlockState,
        compression: &Compression<usize>,
        qkv: &[ObjectId],
        mixed: ObjectId,
    ) {
        let Some(latent) = self.shape.card.latent else { return };
        let expand = self.unpacked(compression.expand);
        let mut touches: Vec<ObjectAccess> = qkv.iter().map(|&y| read(y)).collect();
        touches.extend([expand, write(mixed)]);
        touches.extend(self.stored(block));
        let of = latent.attention(self.sizes.attention);
        let work = (Work::LatentAttention(of), of.flops());
        self.build.kernel("attention", block.attention, work, &touches);
    }
}
