//! The ops, in the order of a program that runs the model eagerly with fused attention.
//!
//! FLOPs are those of matrix products, 2 per multiply-add; a product costs as much again for each
//! of its two gradients. Attention is causal: token i attends to i tokens, so its two products are
//! 4 * hidden FLOPs per pair; its backward pass recomputes the scores and has five products (Dao et
//! al., "FlashAttention", 2022, algorithm 4). Everything else is bound by memory and counts bytes.
//! A product of a block adds the residual in the same op; the loss turns logits into their gradient
//! in place. Token ids, 8 bytes each, are left out.

use super::Layered;
use super::build::{FP32, GraphBuilder, Owned};
use super::model::{BlockParameters, ModelParameters};
use super::parts::Block;
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Phase, Trace};

/// What one forward pass is given.
pub(super) struct Pass {
    /// In front of the names of its objects.
    pub(super) prefix: String,
    /// Tokens that go through every module.
    pub(super) tokens: u128,
    /// Rows of the table of positions that they need.
    pub(super) positions: u128,
    /// Pairs of a token and one that it attends to, over the batch.
    pub(super) pairs: u128,
    /// Bytes of the cache that attention touches in each block.
    pub(super) kv_bytes: u128,
    /// Whether an earlier micro-batch of the step has written the gradients of the weights: they
    /// are added to then.
    pub(super) accumulates: bool,
}

impl Pass {
    /// Training on `samples` sequences of one length.
    pub(super) fn training(prefix: String, samples: u128, sequence: u128) -> Pass {
        Pass {
            prefix,
            tokens: samples * sequence,
            positions: sequence,
            pairs: samples * sequence * (sequence + 1) / 2,
            kv_bytes: 0,
            accumulates: false,
        }
    }

    /// What a gradient of weights goes into.
    pub(super) fn into(&self, gradient: ObjectId) -> ObjectAccess {
        if self.accumulates { change(gradient) } else { write(gradient) }
    }
}

/// What a block keeps for its backward pass: 32 bytes per token and channel in 16 bits where
/// `ffn` is 4 `hidden`, and 4 bytes per token and head.
pub(super) struct SavedActivations {
    pub(super) x: ObjectId,
    pub(super) normed_1: ObjectId,
    pub(super) qkv: ObjectId,
    pub(super) mixed: ObjectId,
    pub(super) middle: ObjectId,
    pub(super) normed_2: ObjectId,
    pub(super) up_proj: Vec<ObjectId>,
    pub(super) active: ObjectId,
}

/// What a forward pass leaves.
pub(super) struct Forward {
    pub(super) blocks: Vec<SavedActivations>,
    pub(super) last: ObjectId,
    pub(super) normed: ObjectId,
    pub(super) logits: ObjectId,
}

/// One step of training.
pub(super) fn train(shape: &Layered, sequence: u32) -> Trace {
    let mut maker = GraphBuilder::new(shape);
    let mut model = maker.model();
    let pass = Pass::training(String::new(), shape.batch.into(), sequence.into());
    maker.micro_batch(&model, &pass, 0);
    maker.build.phase = Phase::Optimizer;
    maker.adam(&mut model);
    maker.build.trace
}

/// One step per token, each behind all before it.
pub(super) fn decode(shape: &Layered, context: u32, tokens: u32) -> Trace {
    let batch = u128::from(shape.batch);
    let mut maker = GraphBuilder::new(shape);
    let model = maker.model();
    for token in 0..tokens {
        let attended = u128::from(context - tokens + token + 1);
        let pass = Pass {
            prefix: format!("t{token}."),
            tokens: batch,
            positions: 1,
            pairs: batch * attended,
            // All earlier positions are read and the new one is written.
            kv_bytes: batch * attended * shape.kv_bytes(),
            accumulates: false,
        };
        (maker.build.step, maker.build.phase) = (token, Phase::Decode);
        maker.forward(&model, &pass);
    }
    maker.build.trace
}

impl GraphBuilder<'_> {
    /// Forward, loss and backward of some of a step's samples.
    pub(super) fn micro_batch(&mut self, model: &ModelParameters, pass: &Pass, step: u32) {
        (self.build.step, self.build.phase) = (step, Phase::Forward);
        let forward = self.forward(model, pass);
        self.build.op("loss", model.head, 0, &[change(forward.logits)]);
        self.build.phase = Phase::Backward;
        self.backward(model, pass, &forward);
    }

    /// What a module hands on, `width` numbers per token; `owner` keeps it for its backward pass.
    fn output(&mut self, pass: &Pass, by: ModuleId, owner: ModuleId, width: u128) -> ObjectId {
        let bytes = pass.tokens * width * u128::from(self.shape.precision.bytes());
        let name = format!("{}{}.out", pass.prefix, self.build.trace.modules[by.index()]);
        self.object(name, ObjectKind::Activation, bytes, Some(owner))
    }

    /// Bytes of one row per token.
    pub(super) fn rows(&self, tokens: u128) -> u128 {
        tokens * u128::from(self.shape.hidden) * u128::from(self.shape.precision.bytes())
    }

    fn forward(&mut self, model: &ModelParameters, pass: &Pass) -> Forward {
        let [hidden, vocab] = [self.shape.hidden, self.shape.vocab].map(u128::from);
        // The owner of what each block is given, and of what the last one hands on.
        let owners = model.blocks.iter().skip(1).map(|block| block.of.norm_1.module);
        let mut owners = owners.chain([model.norm.module]);
        let ModelParameters { tokens, head, norm, .. } = model;
        let mut x = self.output(pass, tokens.module, model.blocks[0].of.norm_1.module, hidden);
        let looked_up = read(tokens.weight).part(self.rows(pass.tokens));
        self.build.op("embedding", tokens.module, 0, &[looked_up, write(x)]);
        if let Some(table) = &model.positions {
            let rows = read(table.weight).part(self.rows(pass.positions));
            self.build.op("positions", table.module, 0, &[rows, change(x)]);
        }
        let mut blocks = Vec::with_capacity(model.blocks.len());
        for block in &model.blocks {
            let owner = owners.next().unwrap_or(norm.module);
            let (kept, next) = self.block(block, pass, x, owner);
            blocks.push(kept);
            x = next;
        }
        let normed = self.output(pass, norm.module, *head, hidden);
        self.build.op("norm", norm.module, 0, &[read(norm.weight), read(x), write(normed)]);
        let (name, size) =
            (format!("{}lm_head.out", pass.prefix), (pass.tokens * vocab * FP32, Format::Fp32));
        let logits = self.build.object(name, ObjectKind::Activation, size, Some(*head));
        let weight = model.own_head.as_ref().unwrap_or(tokens).weight;
        let flops = 2 * pass.tokens * hidden * vocab;
        self.build.op("linear", *head, flops, &[read(weight), read(normed), write(logits)]);
        Forward { blocks, last: x, normed, logits }
    }

    /// One block; what it hands on is kept by `owner`.
    fn block(
        &mut self,
        block: &BlockParameters,
        pass: &Pass,
        x: ObjectId,
        owner: ModuleId,
    ) -> (SavedActivations, ObjectId) {
        let [hidden, ffn] = [self.shape.hidden, self.shape.ffn].map(u128::from);
        let BlockParameters { of: block, kv } = block;
        let Block { norm_1, qkv, out, norm_2, up_proj, down_proj, .. } = block;
        let product = |owned: &Owned| 2 * pass.tokens * owned.matrix;

        let normed_1 = self.output(pass, norm_1.module, qkv.module, hidden);
        self.build.op("norm", norm_1.module, 0, &[read(norm_1.weight), read(x), write(normed_1)]);
        let width = hidden + 2 * u128::from(self.shape.kv_width());
        let projected = self.output(pass, qkv.module, qkv.module, width);
        let touches = [read(qkv.weight), read(normed_1), write(projected)];
        self.build.op("linear", qkv.module, product(qkv), &touches);

        let mixed = self.output(pass, block.attention, out.module, hidden);
        let mut touches = vec![read(projected), write(mixed)];
        match kv {
            Some(kv) => touches.push(change(*kv).part(pass.kv_bytes)),
            // The logarithm of the sum that the softmax divides by, for the backward pass.
            None => {
                let sums = pass.tokens * u128::from(self.shape.heads) * FP32;
                self.grow(mixed, sums);
            }
        }
        self.build.op("attention", block.attention, 4 * hidden * pass.pairs, &touches);

        let middle = self.output(pass, out.module, norm_2.module, hidden);
        let touches = [read(out.weight), read(mixed), read(x), write(middle)];
        self.build.op("linear", out.module, product(out), &touches);
        let normed_2 = self.output(pass, norm_2.module, up_proj[0].module, hidden);
        let touches = [read(norm_2.weight), read(middle), write(normed_2)];
        self.build.op("norm", norm_2.module, 0, &touches);

        let mut widened = Vec::with_capacity(up_proj.len());
        for owned in up_proj {
            let y = self.output(pass, owned.module, owned.module, ffn);
            let touches = [read(owned.weight), read(normed_2), write(y)];
            self.build.op("linear", owned.module, product(owned), &touches);
            widened.push(y);
        }
        let active = self.output(pass, block.activation, down_proj.module, ffn);
        let mut touches: Vec<_> = widened.iter().map(|&y| read(y)).collect();
        touches.push(write(active));
        self.build.op("activation", block.activation, 0, &touches);
        let next = self.output(pass, down_proj.module, owner, hidden);
        let touches = [read(down_proj.weight), read(active), read(middle), write(next)];
        self.build.op("linear", down_proj.module, product(down_proj), &touches);
        let kept = SavedActivations {
            x,
            normed_1,
            qkv: projected,
            mixed,
            middle,
            normed_2,
            up_proj: widened,
            active,
        };
        (kept, next)
    }

    fn grow(&mut self, object: ObjectId, by: u128) {
        let row = &mut self.build.trace.objects[object.index()];
        row.bytes += Bytes::new(by as u64);
    }
}
