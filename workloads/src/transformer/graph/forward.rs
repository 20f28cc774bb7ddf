//! What the parts of a block compute forward, and what a block keeps.
//!
//! In 16 bits with four times the width between, a block keeps s*b*h*(34 + 5*a*s/h) bytes
//! (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022,
//! section 4.1): input of the norm 2, of queries, keys and values 2, those themselves 6, softmax,
//! mask and dropped scores 5*a*s/h, input of the output 2, mask 1; input of the norm 2, of the wide
//! matrix 2, of the activation 8, of the narrow matrix 8, mask 1. Without dropout masks and dropped
//! scores are gone; a fused kernel keeps none of the scores, but a sum in fp32 per token and head.
//! Residual and dropout are one op, which keeps its sum.

use super::pass::{GraphBuilder, product};
use super::state::{BlockState, End, Mlp};
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::card::{Activation, HeadNorms};
use crate::transformer::format::Format;
use crate::transformer::graph::saved::{Core, Normed, SavedFeedForward, Transformed};
use crate::transformer::training::{Attention, Kernels};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Streaming, Work};

impl GraphBuilder<'_> {
    /// Queries, keys and values of a block's normed input, turned by position.
    pub(super) fn positioned(
        &mut self,
        block: &BlockState,
        input: ObjectId,
    ) -> (Vec<ObjectId>, Vec<Normed>) {
        let tokens = self.sizes.tokens;
        if let Some(compression) = &block.compression {
            return self.compressed(block, compression, input);
        }
        let outputs = block.qkv.iter().enumerate().map(|(index, &part)| {
            let numbers = tokens * self.owned[part].outputs;
            if self.is_eager() && !self.keeps_qkv(block, index) {
                return self.buffer(self.module(part), "out", numbers);
            }
            // Attention keeps them; it has no parameters that it could be ranked by.
            let module = self.module(part);
            self.kept(module, "out", numbers, module)
        });
        let mut qkv: Vec<ObjectId> = outputs.collect();
        self.linears(&block.qkv, tokens, read(input), &qkv);
        if self.is_eager() {
            let normed = self.eager_positions(block, &mut qkv);
            return (qkv, normed);
        }
        // In place: what the norm was given follows from what it gives.
        for (&norm, &y) in block.head_norms.iter().zip(&qkv) {
            let touches = [self.weight(norm), change(y)];
            self.build.streaming("norm", self.module(norm), Streaming::Norm, &touches);
        }
        if self.shape.card.head_norms() == Some(HeadNorms::Weightless) {
            for &y in qkv.iter().take(2) {
                self.build.streaming("norm", block.attention, Streaming::Norm, &[change(y)]);
            }
        }
        if self.shape.card.family.is_rotary() {
            let touches: Vec<ObjectAccess> = self.rotated(&qkv);
            self.build.streaming("rotary", block.attention, Streaming::Rotary, &touches);
        }
        (qkv, Vec::new())
    }

    /// The core of attention: everything between its products with weights.
    pub(super) fn attention(&mut self, block: &BlockState, qkv: &[ObjectId]) -> (Core, ObjectId) {
        let out = self.module(block.out);
        // Attention in one kernel needs its output for its own gradients.
        let is_kept = self.shape.attention == Attention::Flash || self.keeps_input(&[block.out]);
        let numbers = self.sizes.tokens * self.sizes.mixed;
        let mixed = self.kept_if(is_kept, block.attention, ("out", numbers), out);
        if self.cache.is_some() {
            self.cached(block, qkv, mixed);
            return (Core::Nothing, mixed);
        }
        if self.shape.attention == Attention::Eager && self.is_eager() {
            return (Core::EagerScores(self.eager_scores(block, qkv, mixed)), mixed);
        }
        if self.shape.attention == Attention::Eager {
            return (self.scores(block.attention, qkv, mixed), mixed);
        }
        let sums = self.softmax_sums(block.attention);
        if self.is_ring() {
            return (self.ring_forward(block, qkv, [mixed, sums], &[]), mixed);
        }
        let mut touches: Vec<ObjectAccess> = qkv.iter().map(|&y| read(y)).collect();
        touches.extend([write(mixed), write(sums)]);
        let flops = 2 * self.sizes.pairs * (self.sizes.queries + self.sizes.mixed);
        let work = (Work::Attention(self.trained_attention()), flops);
        self.build.kernel("attention", block.attention, work, &touches);
        (Core::Flash(sums), mixed)
    }

    /// The logarithms of the sums that the softmax divides by: for the backward pass, and where
    /// parts of attention are put together.
    pub(crate) fn softmax_sums(&mut self, by: ModuleId) -> ObjectId {
        let sums = self.sizes.tokens * self.sizes.heads * u128::from(Format::Fp32.bytes());
        self.activation(by, "sums", (sums, Format::Fp32), by)
    }

    /// Queries and keys as rotary positions turn them, in place.
    pub(crate) fn rotated(&self, qkv: &[ObjectId]) -> Vec<ObjectAccess> {
        let bytes = u128::from(self.sizes.kept.bytes()) * self.sizes.tokens;
        match qkv {
            [one] => {
                vec![change(*one).part(2 * (self.sizes.queries + self.sizes.keys) * bytes)]
            }
            each => each.iter().take(2).map(|&y| change(y)).collect(),
        }
    }

    /// Attention in four ops, each of which writes a table of scores.
    pub(crate) fn scores(&mut self, by: ModuleId, qkv: &[ObjectId], mixed: ObjectId) -> Core {
        let (numbers, sizes) = (self.sizes.scores, self.sizes);
        let bytes = u128::from(sizes.kept.bytes()) * sizes.tokens;
        let flops = 2 * sizes.pairs * sizes.queries;
        let scores = self.buffer(by, "scores", numbers);
        let mut touches = self.qkv(qkv, [true, true, false], bytes);
        touches.push(write(scores));
        self.build.kernel("attention_scores", by, (self.scored(), flops), &touches);
        let softmax = self.kept(by, "softmax", numbers, by);
        self.build.streaming(
            "attention_softmax",
            by,
            Streaming::Softmax,
            &[read(scores), write(softmax)],
        );
        let dropped = self.mask(by, "scores.mask", numbers).map(|mask| {
            let dropped = self.kept(by, "dropped", numbers, by);
            let touches = [read(softmax), write(mask), write(dropped)];
            self.build.streaming("attention_dropout", by, Streaming::ElementWise, &touches);
            (mask, dropped)
        });
        let mut touches = self.qkv(qkv, [false, false, true], bytes);
        touches.extend([read(dropped.map_or(softmax, |(_, dropped)| dropped)), write(mixed)]);
        self.build.kernel("attention_values", by, (self.weighed(), flops), &touches);
        Core::Scores(softmax, dropped)
    }

    /// Scores as one product, of all heads of all sequences: queries with keys.
    pub(crate) fn scored(&self) -> Work {
        let of = &self.sizes.attention;
        let [rows, keys] = [self.sizes.tokens * self.sizes.heads, (of.past + of.new).into()];
        Work::Product(product(rows, keys, of.head_dim.into()))
    }

    /// Scores with values, likewise.
    pub(crate) fn weighed(&self) -> Work {
        let of = &self.sizes.attention;
        let [rows, keys] = [self.sizes.tokens * self.sizes.heads, (of.past + of.new).into()];
        Work::Product(product(rows, of.head_dim.into(), keys))
    }

    /// Reads of queries, keys or values, which are one object or one each; `bytes` per number of a
    /// token.
    pub(crate) fn qkv(&self, qkv: &[ObjectId], which: [bool; 3], bytes: u128) -> Vec<ObjectAccess> {
        let widths = [self.sizes.queries, self.sizes.keys, self.sizes.keys];
        let wanted = || which.iter().zip(widths).enumerate().filter(|(_, (wanted, _))| **wanted);
        match qkv {
            [one] => {
                let width: u128 = wanted().map(|(_, (_, width))| width).sum();
                vec![read(*one).part(width * bytes)]
            }
            each => wanted().map(|(index, _)| read(each[index])).collect(),
        }
    }

    /// Wide matrices, activation and narrow matrix, on `tokens` rows.
    pub(crate) fn feed_forward(
        &mut self,
        mlp: &Mlp,
        tokens: u128,
        input: ObjectAccess,
        to: ObjectAccess,
    ) -> SavedFeedForward {
        let activation = Activation::of(self.shape.card.family);
        let mut up_proj = Vec::with_capacity(mlp.up_proj.len());
        for &part in &mlp.up_proj {
            let (module, numbers) = (self.module(part), tokens * self.owned[part].outputs);
            up_proj.push(match activation {
                Activation::Relu => self.buffer(module, "out", numbers),
                _ => self.kept(module, "out", numbers, module),
            });
        }
        self.linears(&mlp.up_proj, tokens, input, &up_proj);
        let (down_proj, by, numbers) =
            (self.module(mlp.down_proj), mlp.activation, tokens * mlp.width);
        if self.is_eager() {
            return self.eager_feed_forward(mlp, (&up_proj, numbers), to);
        }
        let gated = activation == Activation::GatedSilu;
        // Only the gradient of the product asks for the gate's activation, and a fused kernel
        // computes it again.
        let keeps_gate = gated && self.trains && self.shape.kernels != Kernels::Fused;
        let gate = keeps_gate.then(|| self.kept(by, "gate", numbers, by));
        // The gradient of ReLU follows from its output.
        let is_kept = activation == Activation::Relu || self.keeps_input(&[mlp.down_proj]);
        let active = self.kept_if(is_kept, by, ("out", numbers), down_proj);
        let mut touches: Vec<ObjectAccess> = up_proj.iter().map(|&y| read(y)).collect();
        touches.extend(gate.map(write));
        touches.push(write(active));
        self.build.streaming("activation", by, Streaming::Activation, &touches);
        self.linear(mlp.down_proj, tokens, read(active), to);
        if activation == Activation::Relu {
            up_proj.clear();
        }
        SavedFeedForward { up_proj, gate, active, gelu: None }
    }

    /// What is before the last norm, in a family that has it: a product and GeLU.
    pub(crate) fn transform(&mut self, end: End, x: ObjectId) -> Option<Transformed> {
        let [dense, _] = end.transform?;
        let (module, tokens) = (self.module(dense), self.sizes.tokens);
        let numbers = tokens * self.sizes.hidden;
        let out = self.kept(module, "out", numbers, module);
        self.linear(dense, tokens, read(x), write(out));
        let active = self.kept(module, "active", numbers, self.module(end.norm));
        let at = self.at(module);
        let touches = [read(out), write(active)];
        if self.is_eager() {
            self.run_into(at, "gelu", (numbers, &touches[..1]), &touches[1..]);
        } else {
            self.build.streaming("activation", module, Streaming::Activation, &touches);
        }
        Some(Transformed { x, out, active })
    }

    /// The weights of the product that gives logits: a matrix and, in a family that has one, a
    /// bias.
    pub(crate) fn head_weights(&self, end: End) -> impl Iterator<Item = ObjectAccess> + use<> {
        let bias = end.transform.map(|[_, bias]| self.weight(bias));
        [self.weight(end.matrix)].into_iter().chain(bias)
    }

    /// The last norm and the head, of the last token of `rows` sequences or of all tokens: gives
    /// what the norm gave, what the product was given, and the logits.
    pub(crate) fn logits(&mut self, end: End, x: ObjectId, rows: Option<u128>) -> [ObjectId; 3] {
        let (sizes, End { norm, head, .. }) = (self.sizes, end);
        let rows = rows.unwrap_or(sizes.tokens);
        if self.is_eager() {
            // All tokens are normed, and logits become fp32 behind the product.
            let normed = self.norm(norm, x, (head, true)).y;
            let input = self.all_tokens(self.module(norm), "out.whole", normed);
            let narrow = self.eager_logits(end, input, rows);
            let wide = self.at(head).wide();
            let logits = self.keep(wide, "_to_copy", &[read(narrow)], rows * sizes.vocab);
            return [normed, input, logits];
        }
        let normed = if rows == sizes.tokens {
            self.norm(norm, x, (head, true)).y
        } else {
            let module = self.module(norm);
            let y = self.kept(module, "out", rows * sizes.hidden, head);
            let of = read(x).part(self.build.size(y));
            let touches = [self.weight(norm), of, write(y)];
            self.build.streaming("norm", module, Streaming::Norm, &touches);
            y
        };
        let by = self.module(norm);
        let input = self.all_tokens(by, "out.whole", normed);
        let size = (rows * sizes.vocab * u128::from(Format::Fp32.bytes()), Format::Fp32);
        let logits = self.activation(head, "out", size, head);
        let of = product(rows, sizes.vocab, sizes.hidden);
        let mut touches: Vec<ObjectAccess> = self.head_weights(end).collect();
        touches.extend([read(input), write(logits)]);
        self.build.kernel("linear", head, (Work::Product(of), of.flops()), &touches);
        [normed, input, logits]
    }
}
