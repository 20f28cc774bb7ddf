//! The forward pass of a block, and what it keeps.
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
use crate::transformer::card::Activation;
use crate::transformer::format::Format;
use crate::transformer::graph::saved::{
    Core, Normed, SavedActivations, SavedFeed, SavedFeedForward, Transformed,
};
use crate::transformer::modules::Feed;
use crate::transformer::training::{Attention, Kernels};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{Streaming, Work};

/// What a block keeps of all that is behind its attention.
struct Rest {
    normed: [Option<Normed>; 2],
    normed_parts: Vec<Normed>,
    fed: ObjectId,
    feed: SavedFeed,
    masks: [Option<ObjectId>; 2],
}

impl GraphBuilder<'_> {
    /// One block; what it hands on is kept by `owner`, if this rank does.
    ///
    /// A norm stands before attention and one before the feed-forward part or, post-norm, each
    /// behind the sum that follows its part; in some families two more between part and sum, or
    /// these alone. Side by side both parts are given the block's input, behind one norm or two.
    pub(crate) fn block(
        &mut self,
        block: &BlockState,
        x: ObjectId,
        owner: Option<ModuleId>,
    ) -> (SavedActivations, ObjectId) {
        self.sizes = self.sizes.in_block(self.shape, block.layer);
        let family = self.shape.card.family;
        let first = self.module(*block.first());
        let is_shared = family.is_parallel() && block.norm_2.is_none();
        let is_kept = self.keeps_input(&block.qkv) || is_shared && self.keeps_fed(block);
        let owner_1 = (self.module(block.qkv[0]), is_kept);
        let before = block.norm_1.filter(|_| !family.is_post_norm());
        let before = before.map(|norm| self.norm(norm, x, owner_1));
        let given = before.map_or(x, |normed| normed.y);
        let input = self.all_tokens(first, "out.whole", given);
        let (qkv, qkv_norms) = self.positioned(block, input);
        let (core, mixed) = self.attention(block, &qkv);
        let behind = ObjectId::at(self.build.trace.objects.len());
        let out = self.module(block.out);
        let projected = self.part(out, block.part_norms.first().copied());
        self.linear(block.out, self.sizes.tokens, read(mixed), write(projected));
        let (rest, next) = match family.is_parallel() {
            true => self.side_by_side(block, (x, projected, owner), (before, input)),
            false => self.one_behind_the_other(block, (x, projected, owner), before),
        };
        let Rest { normed, normed_parts, fed, feed, masks } = rest;
        let kept = SavedActivations {
            input: x,
            given: [given, fed],
            normed,
            qkv_norms,
            qkv,
            core,
            mixed,
            behind,
            masks,
            normed_parts,
            feed,
            compressed: Vec::new(),
        };
        (kept, next)
    }

    /// From what attention's last product gave to the block's output, where the feed-forward part is
    /// given the sum of that with the block's input.
    fn one_behind_the_other(
        &mut self,
        block: &BlockState,
        (x, projected, owner): (ObjectId, ObjectId, Option<ModuleId>),
        before: Option<Normed>,
    ) -> (Rest, ObjectId) {
        let is_post = self.shape.card.family.is_post_norm();
        let out = self.module(block.out);
        let [behind_1, behind_2] = [0, 1].map(|at| block.part_norms.get(at).copied());
        let (projected, normed_part_1) = self.summed(out, projected, behind_1);
        let [first, second] = [*block.first(), self.fed_by(block)].map(|of| self.module(of));
        let keeper = if is_post { first } else { second };
        let (mask_1, sum) = self.residual(out, &[projected], x, Some(keeper));
        let norm = if is_post { block.norm_1 } else { block.norm_2 };
        let between = norm.map(|norm| self.norm(norm, sum, self.feed_owner(block)));
        let fed = between.map_or(sum, |normed| normed.y);
        let input = self.all_tokens(second, "out.whole", fed);
        let (feed, down_proj, y) = self.feed(block, input);
        let (y, normed_part_2) = self.summed(down_proj, y, behind_2);
        let (middle, keeper) = if is_post { (fed, Some(second)) } else { (sum, owner) };
        let (mask_2, mut next) = self.residual(down_proj, &[y], middle, keeper);
        let mut normed = [before, between];
        if is_post {
            let owner = (owner.unwrap_or(second), owner.is_some());
            let behind = block.norm_2.map(|norm| self.norm(norm, next, owner));
            next = behind.map_or(next, |normed| normed.y);
            normed = [between, behind];
        }
        let normed_parts = normed_part_1.into_iter().chain(normed_part_2).collect();
        (Rest { normed, normed_parts, fed, feed, masks: [mask_1, mask_2] }, next)
    }

    /// As [`GraphBuilder::one_behind_the_other`], where both are given the block's input, behind a
    /// norm of its own or that of attention; what they give is summed over the tensor group at once,
    /// and dropped at once.
    fn side_by_side(
        &mut self,
        block: &BlockState,
        (x, projected, owner): (ObjectId, ObjectId, Option<ModuleId>),
        (before, input): (Option<Normed>, ObjectId),
    ) -> (Rest, ObjectId) {
        let own = block.norm_2.map(|norm| self.norm(norm, x, self.feed_owner(block)));
        let given = before.map_or(x, |normed| normed.y);
        let fed = own.map_or(given, |normed| normed.y);
        let input = match block.norm_2 {
            Some(norm) => self.all_tokens(self.module(norm), "out.whole", fed),
            None => input,
        };
        let (feed, by, y) = self.feed(block, input);
        let (mask, next) = if self.shape.parallel.tensor > 1 {
            self.build.streaming("add", by, Streaming::ElementWise, &[read(projected), change(y)]);
            let (sum, _) = self.summed(by, y, None);
            self.residual(by, &[sum], x, owner)
        } else {
            self.residual(by, &[projected, y], x, owner)
        };
        let normed = [before, own];
        (Rest { normed, normed_parts: Vec::new(), fed, feed, masks: [None, mask] }, next)
    }

    /// The module that is given what the feed-forward part is: its norm, or its first matrix.
    pub(crate) fn fed_by(&self, block: &BlockState) -> usize {
        block.norm_2.unwrap_or(match &block.feed {
            Feed::Dense(mlp) => mlp.up_proj[0],
            Feed::Mixture(mixture) => mixture.router,
        })
    }

    /// Who keeps what the feed-forward part is given, and whether it is kept.
    fn feed_owner(&self, block: &BlockState) -> (ModuleId, bool) {
        let by = match &block.feed {
            Feed::Dense(mlp) => mlp.up_proj[0],
            Feed::Mixture(mixture) => mixture.router,
        };
        (self.module(by), self.keeps_fed(block))
    }

    /// Whether the backward pass needs what the feed-forward part is given.
    pub(crate) fn keeps_fed(&self, block: &BlockState) -> bool {
        match &block.feed {
            Feed::Dense(mlp) => self.keeps_input(&mlp.up_proj),
            Feed::Mixture(_) => self.keeps_input(&[]),
        }
    }

    /// What a product gives that ends attention or the feed-forward part; kept where `norm` stands
    /// behind it.
    fn part(&mut self, by: ModuleId, norm: Option<usize>) -> ObjectId {
        let numbers = self.sizes.tokens * self.sizes.hidden;
        match norm.filter(|_| !self.scatters()) {
            Some(norm) => self.kept(by, "part", numbers, self.module(norm)),
            None => self.buffer(by, "part", numbers),
        }
    }

    /// The sum over the tensor group of a part, and its norm, if it has one.
    fn summed(
        &mut self,
        by: ModuleId,
        part: ObjectId,
        norm: Option<usize>,
    ) -> (ObjectId, Option<Normed>) {
        let owner = norm.map(|norm| self.module(norm));
        let sum = self.sum_for(by, "sum", part, owner);
        let normed = norm.zip(owner).map(|(norm, owner)| self.norm(norm, sum, (owner, false)));
        (normed.map_or(sum, |normed| normed.y), normed)
    }

    /// The feed-forward part or the experts: what they keep, whose output is last, and that.
    fn feed(&mut self, block: &BlockState, input: ObjectId) -> (SavedFeed, ModuleId, ObjectId) {
        let tokens = self.sizes.tokens;
        match &block.feed {
            Feed::Dense(mlp) => {
                let down_proj = self.module(mlp.down_proj);
                let y = self.part(down_proj, block.part_norms.get(1).copied());
                let kept = self.feed_forward(mlp, tokens, read(input), write(y));
                (SavedFeed::Dense(kept), down_proj, y)
            }
            Feed::Mixture(mixture) => {
                let (kept, y) = self.mixture(block.layer, mixture, input);
                (SavedFeed::Mixture(kept), self.module(mixture.router), y)
            }
        }
    }

    /// Queries, keys and values of a block's normed input, turned by position.
    fn positioned(&mut self, block: &BlockState, input: ObjectId) -> (Vec<ObjectId>, Vec<Normed>) {
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
        if self.shape.card.family.is_rotary() {
            let touches: Vec<ObjectAccess> = self.rotated(&qkv);
            self.build.streaming("rotary", block.attention, Streaming::Rotary, &touches);
        }
        (qkv, Vec::new())
    }

    /// Dropout of the sum of `parts` and the sum with `x`, in one op; eager kernels know one part.
    fn residual(
        &mut self,
        by: ModuleId,
        parts: &[ObjectId],
        x: ObjectId,
        owner: Option<ModuleId>,
    ) -> (Option<ObjectId>, ObjectId) {
        let numbers = self.sizes.stream();
        let (at, y) = (self.at(by), parts[0]);
        let dropped =
            if self.is_eager() { self.eager_dropout(at, y, numbers, false) } else { None };
        let mask = if self.is_eager() { None } else { self.mask(by, "mask", numbers) };
        let sum = match owner {
            Some(owner) => self.kept(by, "out", numbers, owner),
            None => self.buffer(by, "out", numbers),
        };
        if self.is_eager() {
            let y = dropped.map_or(y, |(_, dropped)| dropped);
            self.run_into(at, "add", (numbers, &[read(y), read(x)]), &[write(sum)]);
            return (dropped.map(|(mask, _)| mask), sum);
        }
        let mut touches: Vec<ObjectAccess> = parts.iter().map(|&part| read(part)).collect();
        touches.extend([read(x), write(sum)]);
        touches.extend(mask.map(write));
        self.build.streaming("residual", by, Streaming::ElementWise, &touches);
        (mask, sum)
    }

    /// The core of attention: everything between its products with weights.
    fn attention(&mut self, block: &BlockState, qkv: &[ObjectId]) -> (Core, ObjectId) {
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
