//! The ops of every step, layer and batch.

use super::maker::{BlockWeights, FeedForward, GraphBuilder, ModelWeights, ObjectAccess};
use super::{AttentionOn, Generation};
use crate::transformer::routing;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, ObjectKind, PartialUse, Phase, Trace, Unit};

/// The stream on which a prompt's keys and values are stored beside the device's work.
const STORES: u16 = 1;

/// One batch in one step.
#[derive(Clone, Copy, Debug)]
struct Pass {
    step: u32,
    batch: u32,
    /// Positions that each sequence already has in the cache.
    before: u64,
    /// New positions of each sequence.
    new: u64,
}

pub(super) fn generate(job: &Generation) -> Trace {
    let mut maker = GraphBuilder::new(job);
    let model = maker.model();
    let mut cache = Cache::new(job);
    for step in 0..job.tokens {
        let is_prefill = job.prefill && step == 0;
        let phase = if is_prefill { Phase::Prefill } else { Phase::Decode };
        maker.now = (step, phase);
        let before = match (job.prefill, step) {
            (true, 0) => 0,
            (true, step) => job.prompt + u64::from(step) - 1,
            (false, step) => job.prompt + u64::from(step),
        };
        let new = if is_prefill { job.prompt } else { 1 };
        let passes: Vec<Pass> =
            (0..job.batches).map(|batch| Pass { step, batch, before, new }).collect();
        let mut hidden: Vec<ObjectId> =
            passes.iter().map(|&pass| maker.embed(&model, pass)).collect();
        for (layer, block) in model.blocks.iter().enumerate() {
            for (x, &pass) in hidden.iter_mut().zip(&passes) {
                *x = maker.block(block, layer, &mut cache, pass, *x);
            }
        }
        for (&x, &pass) in hidden.iter().zip(&passes) {
            maker.head(&model, pass, x);
        }
    }
    maker.trace
}

/// Keys and values: by layer and batch, the blocks that exist.
struct Cache {
    blocks: Vec<Vec<ObjectId>>,
    batches: usize,
    /// Positions of a block.
    size: u64,
}

impl Cache {
    fn new(job: &Generation) -> Cache {
        let size = job.kv_block.unwrap_or_else(|| job.positions()).min(job.positions()).max(1);
        let batches = job.batches as usize;
        Cache { blocks: vec![Vec::new(); job.card.layers as usize * batches], batches, size }
    }
}

impl GraphBuilder<'_> {
    fn embed(&mut self, model: &ModelWeights, pass: Pass) -> ObjectId {
        let hidden = u64::from(self.job.card.hidden);
        let tokens = self.tokens(pass);
        let x = self.activation(name(pass, "embedding.out"), tokens * hidden, model.ends[0]);
        let row = hidden * self.job.formats.weights.bytes();
        let lookup = self.rows(model.tokens, tokens, row);
        let mut touches = vec![lookup, self.write(x)];
        if let Some(positions) = model.positions {
            let rows = (pass.new * row).min(self.bytes(positions));
            touches.push(self.rows(positions, 1, rows));
        }
        self.op("embedding", model.ends[0], 0, &touches);
        x
    }

    /// One block for one batch; returns what it hands on.
    fn block(
        &mut self,
        block: &BlockWeights,
        layer: usize,
        cache: &mut Cache,
        pass: Pass,
        x: ObjectId,
    ) -> ObjectId {
        let (card, tensor) = (&self.job.card, u64::from(self.job.tensor));
        let tokens = self.tokens(pass);
        let hidden = u64::from(card.hidden);
        let queries = u64::from(card.heads) * u64::from(card.head_dim) / tensor;
        let kv = u64::from(card.kv_heads) * u64::from(card.head_dim) / tensor;
        let out = |part: &str| name(pass, &format!("layers.{layer}.{part}.out"));

        // Three products, as in OPT's and Llama's published code; GPT-2's and Bloom's is one.
        let qkv = self.activation(out("qkv"), tokens * (queries + 2 * kv), block.attention);
        let number = self.job.formats.activations.bytes();
        let parts = [("q", queries), ("k", kv), ("v", kv)].into_iter().zip(&block.qkv);
        for (index, ((part, width), &weight)) in parts.enumerate() {
            let mode = if index == 0 { Mode::Write } else { Mode::ReadWrite };
            let made =
                ObjectAccess { object: qkv, mode, bytes: tokens * width * number, part: None };
            let mut touches = vec![self.read(x), made, self.read(weight)];
            if index == 0 {
                touches.insert(1, self.read(block.norm_1));
            }
            self.op(part, block.attention, 2 * tokens * hidden * width, &touches);
        }

        let mixed = self.activation(out("attention"), tokens * queries, block.attention);
        self.attention(block, layer, cache, pass, [qkv, mixed]);

        let middle = self.activation(out("o"), tokens * hidden, block.attention);
        let touches = [self.read(mixed), self.read(block.out), self.read(x), self.write(middle)];
        self.op("o", block.attention, 2 * tokens * queries * hidden, &touches);
        self.all_reduce(block.attention, middle);

        let next = self.activation(out("block"), tokens * hidden, block.mlp);
        self.feed_forward(block, layer, pass, middle, next);
        self.all_reduce(block.mlp, next);
        next
    }

    fn attention(
        &mut self,
        block: &BlockWeights,
        layer: usize,
        cache: &mut Cache,
        pass: Pass,
        [qkv, mixed]: [ObjectId; 2],
    ) {
        let card = &self.job.card;
        let tensor = u64::from(self.job.tensor);
        let width = u64::from(card.heads) * u64::from(card.head_dim) / tensor;
        let flops = 4 * width * self.pairs(pass);
        let stored = self.kv(layer, cache, pass, block);
        let mut touches = vec![self.read(qkv), self.write(mixed)];
        let on_host = self.job.attention == AttentionOn::Host;
        if on_host && pass.new > 1 {
            // The prompt is attended to on the device; its keys and values go to the host beside
            // that.
            let bytes = u64::from(self.job.batch) * pass.new * self.job.kv_bytes();
            let label = name(pass, &format!("layers.{layer}.kv"));
            let fresh = self.object(label, ObjectKind::Buffer, bytes, Some(block.attention));
            touches.push(self.write(fresh));
            self.op("attention", block.attention, flops, &touches);
            let mut touches = vec![self.read(fresh)];
            touches.extend(stored);
            self.op_on(Unit::Cpu, STORES, ("store", block.attention), 0, &touches);
            return;
        }
        touches.extend(stored);
        let unit = if on_host { Unit::Cpu } else { Unit::Device };
        self.op_on(unit, 0, ("attention", block.attention), flops, &touches);
    }

    /// What a pass does to the cache of a layer: blocks that are full are read, the others written,
    /// those that are new born.
    fn kv(
        &mut self,
        layer: usize,
        cache: &mut Cache,
        pass: Pass,
        block: &BlockWeights,
    ) -> Vec<ObjectAccess> {
        let (size, row) = (cache.size, self.job.kv_bytes() * u64::from(self.job.batch));
        let after = pass.before + pass.new;
        let from = match self.job.card.window {
            Some(window) => (pass.before + 1).saturating_sub(u64::from(window)) / size,
            None => 0,
        };
        let at = layer * cache.batches + pass.batch as usize;
        let mut touches = Vec::new();
        for index in 0..after.div_ceil(size) {
            let start = index * size;
            let end = (start + size).min(after);
            let is_new = index as usize >= cache.blocks[at].len();
            if is_new {
                let label = format!("layers.{layer}.b{}.kv.{index}", pass.batch);
                let bytes = size.min(self.job.positions() - start) * row;
                let object = self.object(label, ObjectKind::Kv, bytes, Some(block.attention));
                // What is there before the first step.
                let held = !self.job.prefill && start < self.job.prompt;
                self.trace.objects[object.index()].persistent = held;
                cache.blocks[at].push(object);
            }
            let object = cache.blocks[at][index as usize];
            let grows = end > pass.before;
            let held = self.trace.objects[object.index()].persistent || !is_new;
            let mode = match (grows, held) {
                (true, false) => Mode::Write,
                (true, true) => Mode::ReadWrite,
                (false, _) => Mode::Read,
            };
            if index >= from || grows {
                // Keys and values of each sequence lie apart, in blocks; what grows is written
                // alone.
                let sequences = 2 * u128::from(self.job.batch);
                let apart = u128::from(row) / sequences;
                let whole = Bytes::new(self.bytes(object));
                let part = match mode {
                    Mode::Read if self.job.kv_block.is_some() => {
                        PartialUse::of(sequences, u128::from(whole.get()) / sequences, whole)
                    }
                    Mode::ReadWrite => {
                        let fresh = end - start.max(pass.before);
                        PartialUse::of(sequences, u128::from(fresh) * apart, whole)
                    }
                    _ => None,
                };
                touches.push(ObjectAccess { object, mode, bytes: (end - start) * row, part });
            }
        }
        touches
    }

    fn feed_forward(
        &mut self,
        block: &BlockWeights,
        layer: usize,
        pass: Pass,
        middle: ObjectId,
        next: ObjectId,
    ) {
        let (card, tensor) = (&self.job.card, u64::from(self.job.tensor));
        let tokens = self.tokens(pass);
        let hidden = u64::from(card.hidden);
        match &block.feed_forward {
            FeedForward::Dense { up_proj, down_proj } => {
                let ffn = u64::from(card.ffn) / tensor;
                let label = name(pass, &format!("layers.{layer}.wide.out"));
                let active = self.activation(label, tokens * ffn, block.mlp);
                let mut touches =
                    vec![self.read(middle), self.read(block.norm_2), self.write(active)];
                touches.extend(up_proj.iter().map(|&weight| self.read(weight)));
                let flops = 2 * tokens * hidden * ffn * up_proj.len() as u64;
                self.op("wide", block.mlp, flops, &touches);
                let touches =
                    [self.read(active), self.read(*down_proj), self.read(middle), self.write(next)];
                self.op("down", block.mlp, 2 * tokens * ffn * hidden, &touches);
            }
            FeedForward::Experts { router, experts, shared } => {
                let count = experts.len() as u64;
                let label = name(pass, &format!("layers.{layer}.routes"));
                let routes = self.activation(label, tokens * count, block.mlp);
                let touches = [
                    self.read(middle),
                    self.read(block.norm_2),
                    self.read(*router),
                    self.write(routes),
                    self.write(next),
                ];
                self.op("router", block.mlp, 2 * tokens * hidden * count, &touches);
                let chosen = self.chosen(layer, pass);
                let all = experts.iter().copied().zip(chosen);
                let all = all.chain(shared.iter().map(|&expert| (expert, tokens)));
                let row = hidden * self.job.formats.activations.bytes();
                for (expert, tokens) in all.filter(|&(_, tokens)| tokens > 0) {
                    let touches = [
                        self.read(middle).of(tokens * row),
                        self.read(routes),
                        self.read(expert),
                        self.change(next).of(2 * tokens * row),
                    ];
                    let numbers = self.bytes(expert) / self.job.formats.weights.bytes();
                    self.op("expert", block.mlp, 2 * tokens * numbers, &touches);
                }
            }
        }
    }

    /// Tokens for each expert of a layer.
    fn chosen(&self, layer: usize, pass: Pass) -> Vec<u64> {
        let Generation { card, router, batches, .. } = self.job;
        let Some(experts) = card.experts else { return Vec::new() };
        let draw = u64::from(pass.step) * u64::from(*batches) + u64::from(pass.batch);
        routing::tokens(
            &experts,
            self.tokens(pass),
            (router.seed, router.skew),
            (layer as u64, draw),
        )
    }

    fn all_reduce(&mut self, module: ModuleId, of: ObjectId) {
        let Generation { tensor, devices, .. } = *self.job;
        if tensor > 1 {
            let within = tensor.min(devices.max(1));
            let collective = Collective {
                kind: CollectiveKind::AllReduce,
                bytes: Bytes::new(self.bytes(of)),
                within,
                servers: tensor.div_ceil(within),
            };
            let touches = [self.change(of)];
            let label = ("all-reduce", module);
            self.op_on(Unit::Network(collective), 0, label, 0, &touches);
        }
    }

    fn head(&mut self, model: &ModelWeights, pass: Pass, x: ObjectId) {
        let card = &self.job.card;
        let (hidden, batch) = (u64::from(card.hidden), u64::from(self.job.batch));
        let vocab = u64::from(card.vocab).div_ceil(u64::from(self.job.tensor));
        let logits = self.object(
            name(pass, "logits"),
            ObjectKind::Buffer,
            batch * vocab * 4,
            Some(model.ends[1]),
        );
        let row = hidden * self.job.formats.activations.bytes();
        let touches = [
            // The last position of each sequence.
            self.read(x).of(batch * row),
            self.read(model.norm),
            self.read(model.head),
            self.write(logits),
        ];
        self.op("head", model.ends[1], 2 * batch * hidden * vocab, &touches);
    }

    fn tokens(&self, pass: Pass) -> u64 {
        u64::from(self.job.batch) * pass.new
    }

    /// Pairs of a new position and one that it attends to, itself included.
    fn pairs(&self, pass: Pass) -> u64 {
        let Pass { before, new, .. } = pass;
        let all = |to: u128| to * (to + 1) / 2;
        let (first, last) = (u128::from(before), u128::from(before + new));
        let pairs = match self.job.card.window.map(u128::from) {
            // Behind the window every position attends to as many.
            Some(window) => {
                let sum = |to: u128| all(to.min(window)) + to.saturating_sub(window) * window;
                sum(last) - sum(first)
            }
            None => all(last) - all(first),
        };
        u64::try_from(pairs).unwrap_or(u64::MAX).saturating_mul(u64::from(self.job.batch))
    }
}

impl GraphBuilder<'_> {
    /// Reads so many rows of so many bytes, anywhere in the object.
    fn rows(&self, object: ObjectId, rows: u64, row: u64) -> ObjectAccess {
        let whole = Bytes::new(self.bytes(object));
        let part = PartialUse::of(rows.into(), row.into(), whole);
        ObjectAccess { part, ..self.read(object).of(rows * row) }
    }
}

impl ObjectAccess {
    /// Only so many bytes of the object.
    fn of(self, bytes: u64) -> ObjectAccess {
        ObjectAccess { bytes, ..self }
    }
}

/// The name of what a pass makes.
fn name(pass: Pass, what: &str) -> String {
    format!("t{}.b{}.{what}", pass.step, pass.batch)
}
