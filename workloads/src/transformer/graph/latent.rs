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
use crate::transformer::graph::saved::Normed;
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
    /// Queries of a block's normed input and, where the model generates, its rows, turned by
    /// position; where it trains, the keys and values that rows expand to, and the norms' tokens.
    pub(super) fn compressed(
        &mut self,
        block: &BlockState,
        compression: &Compression<usize>,
        input: ObjectId,
    ) -> (Vec<ObjectId>, Vec<Normed>) {
        let Some(latent) = self.shape.card.latent else { return Default::default() };
        let tokens = self.sizes.tokens;
        let [down, norm] = compression.rows;
        let queries = block.qkv[0];
        let first = compression.queries.map_or(queries, |[down, _]| down);
        let [mut q, rows] = [first, down].map(|owned| self.output(owned));
        self.linears(&[first, down], tokens, read(input), &[q, rows]);
        let of_queries = compression
            .queries
            .map(|[down, norm]| self.row_norm(norm, q, tokens * self.owned[down].outputs));
        let normed = self.row_norm(norm, rows, tokens * u128::from(latent.rank));
        if let Some(of_queries) = of_queries {
            q = self.output(queries);
            self.linear(queries, tokens, read(of_queries.y), write(q));
        }
        let norms = of_queries.into_iter().chain([normed]).collect();
        let touched = u128::from(self.sizes.work.bytes()) * tokens * u128::from(latent.rotary);
        let turned = |heads: u128| 2 * heads * touched;
        let q_turned = change(q).part(turned(self.sizes.heads));
        if !self.trains {
            let touches = [q_turned, change(rows).part(turned(1))];
            self.build.streaming("rotary", block.attention, Streaming::Rotary, &touches);
            return (vec![q, rows], norms);
        }
        let (expand, by) = (compression.expand, self.module(compression.expand));
        let expanded = self.buffer(by, "out", tokens * self.owned[expand].outputs);
        self.linear(expand, tokens, read(normed.y), write(expanded));
        let [k, v] = [("keys", self.sizes.keys), ("values", self.sizes.mixed)]
            .map(|(what, width)| self.kept(by, what, tokens * width, by));
        // One kernel turns, and puts keys and values apart (Megatron-LM's
        // `fused_apply_mla_rope_for_kv`).
        let touches = [q_turned, read(rows).part(touched), read(expanded), write(k), write(v)];
        self.build.streaming("rotary", block.attention, Streaming::Rotary, &touches);
        (vec![q, k, v], norms)
    }

    /// What a module gives for all tokens, which a backward pass needs.
    fn output(&mut self, owned: usize) -> ObjectId {
        let (module, numbers) = (self.module(owned), self.sizes.tokens * self.owned[owned].outputs);
        self.kept_if(self.trains, module, ("out", numbers), module)
    }

    /// The norm of the first `numbers` of `x`: in place, where no backward pass needs both.
    fn row_norm(&mut self, owned: usize, x: ObjectId, numbers: u128) -> Normed {
        let module = self.module(owned);
        let bytes = numbers * u128::from(self.sizes.work.bytes());
        let (y, touched) = if self.trains {
            let y = self.kept(module, "out", numbers, module);
            (y, vec![self.weight(owned), read(x).part(bytes), write(y)])
        } else {
            (x, vec![self.weight(owned), change(x).part(2 * bytes)])
        };
        self.build.streaming("norm", module, Streaming::Norm, &touched);
        Normed { x, y, kept: None }
    }

    /// What attention multiplies where it trains: heads as wide as the mean of their keys and
    /// values have the FLOPs and bytes of these.
    pub(crate) fn trained_attention(&self) -> Attention {
        let of = self.sizes.attention;
        match self.shape.card.latent {
            Some(latent) => Attention { head_dim: (of.head_dim + latent.value).div_ceil(2), ..of },
            None => of,
        }
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
