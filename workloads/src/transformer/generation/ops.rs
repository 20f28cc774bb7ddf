//! The ops of every step, layer and batch.

use super::maker::{BlockWeights, FeedForward, GraphBuilder, ModelWeights};
use super::{AttentionOn, Generation};
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::routing;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::{ObjectKind, Phase, Trace, Unit};

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
        (maker.build.step, maker.build.phase) = (step, phase);
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
    maker.build.trace
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
        let hidden = u128::from(self.job.card.hidden);
        let tokens = self.tokens(pass);
        let x = self.activation(name(pass, "embedding.out"), tokens * hidden, model.ends[0]);
        let row = hidden * u128::from(self.job.formats.weights.bytes());
        let mut touches = vec![read(model.tokens).rows(tokens, row), write(x)];
        if let Some(positions) = model.positions {
            let rows = (u128::from(pass.new) * row).min(self.build.size(positions));
            touches.push(read(positions).rows(1, rows));
        }
        self.build.op("embedding", model.ends[0], 0, &touches);
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
        let tokens = self.tokens(pass);
        let hidden = u128::from(self.job.card.hidden);
        let [queries, kv] = self.widths();
        let out = |part: &str| name(pass, &format!("layers.{layer}.{part}.out"));

        // Three products, as in OPT's and Llama's published code; GPT-2's and Bloom's is one.
        let qkv = self.activation(out("qkv"), tokens * (queries + 2 * kv), block.attention);
        let number = u128::from(self.job.formats.activations.bytes());
        let parts = [("q", queries), ("k", kv), ("v", kv)].into_iter().zip(&block.qkv);
        for (index, ((part, width), &weight)) in parts.enumerate() {
            let made = if index == 0 { write(qkv) } else { change(qkv) };
            let mut touches = vec![read(x), made.part(tokens * width * number), read(weight)];
            if index == 0 {
                touches.insert(1, read(block.norm_1));
            }
            self.build.op(part, block.attention, 2 * tokens * hidden * width, &touches);
        }

        let mixed = self.activation(out("attention"), tokens * queries, block.attention);
        self.attention(block, layer, cache, pass, [qkv, mixed]);

        let middle = self.activation(out("o"), tokens * hidden, block.attention);
        let touches = [read(mixed), read(block.out), read(x), write(middle)];
        self.build.op("o", block.attention, 2 * tokens * queries * hidden, &touches);
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
        let flops = 4 * self.widths()[0] * self.pairs(pass);
        let stored = self.kv(layer, cache, pass, block);
        let mut touches = vec![read(qkv), write(mixed)];
        let on_host = self.job.attention == AttentionOn::Host;
        if on_host && pass.new > 1 {
            // The prompt is attended to on the device; its keys and values go to the host beside
            // that.
            let bytes = self.tokens(pass) * u128::from(self.job.kv_bytes());
            let label = name(pass, &format!("layers.{layer}.kv"));
            let fresh = self.object(label, ObjectKind::Buffer, bytes, block.attention);
            touches.push(write(fresh));
            self.build.op("attention", block.attention, flops, &touches);
            let mut touches = vec![read(fresh)];
            touches.extend(stored);
            self.build.op_on(Unit::Cpu, STORES, "store", block.attention, 0, &touches);
            return;
        }
        touches.extend(stored);
        let unit = if on_host { Unit::Cpu } else { Unit::Device };
        self.build.op_on(unit, 0, "attention", block.attention, flops, &touches);
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
        let sequences = 2 * u128::from(self.job.batch);
        // Keys and values of each sequence lie apart, in blocks.
        let apart = u128::from(self.job.kv_bytes()) / 2;
        let (size, row) = (cache.size, apart * sequences);
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
                let bytes = u128::from(size.min(self.job.positions() - start)) * row;
                let object = self.object(label, ObjectKind::Kv, bytes, block.attention);
                // What is there before the first step.
                let held = !self.job.prefill && start < self.job.prompt;
                self.build.trace.objects[object.index()].persistent = held;
                cache.blocks[at].push(object);
            }
            let object = cache.blocks[at][index as usize];
            let grows = end > pass.before;
            let held = self.build.trace.objects[object.index()].persistent || !is_new;
            let touch = match (grows, held) {
                (true, false) => write(object),
                // What grows is written alone.
                (true, true) => {
                    let fresh = u128::from(end - start.max(pass.before));
                    change(object).rows(sequences, fresh * apart)
                }
                (false, _) if self.job.kv_block.is_some() => {
                    read(object).rows(sequences, self.build.size(object) / sequences)
                }
                (false, _) => read(object),
            };
            if index >= from || grows {
                touches.push(touch.part(u128::from(end - start) * row));
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
        let card = &self.job.card;
        let tokens = self.tokens(pass);
        let hidden = u128::from(card.hidden);
        match &block.feed_forward {
            FeedForward::Dense { up_proj, down_proj } => {
                let ffn = u128::from(card.ffn / self.job.tensor);
                let label = name(pass, &format!("layers.{layer}.wide.out"));
                let active = self.activation(label, tokens * ffn, block.mlp);
                let mut touches = vec![read(middle), read(block.norm_2), write(active)];
                touches.extend(up_proj.iter().map(|&weight| read(weight)));
                let flops = 2 * tokens * hidden * ffn * up_proj.len() as u128;
                self.build.op("wide", block.mlp, flops, &touches);
                let touches = [read(active), read(*down_proj), read(middle), write(next)];
                self.build.op("down", block.mlp, 2 * tokens * ffn * hidden, &touches);
            }
            FeedForward::Experts { router, experts, shared } => {
                let count = experts.len() as u128;
                let label = name(pass, &format!("layers.{layer}.routes"));
                let routes = self.activation(label, tokens * count, block.mlp);
                let touches =
                    [read(middle), read(block.norm_2), read(*router), write(routes), write(next)];
                self.build.op("router", block.mlp, 2 * tokens * hidden * count, &touches);
                let chosen = self.chosen(layer, pass);
                let all = experts.iter().copied().zip(chosen);
                let all = all.chain(shared.iter().map(|&expert| (expert, tokens)));
                let row = hidden * u128::from(self.job.formats.activations.bytes());
                for (expert, tokens) in all.filter(|&(_, tokens)| tokens > 0) {
                    let touches = [
                        read(middle).part(tokens * row),
                        read(routes),
                        read(expert),
                        change(next).part(2 * tokens * row),
                    ];
                    let weight = u128::from(self.job.formats.weights.bytes());
                    let numbers = self.build.size(expert) / weight;
                    self.build.op("expert", block.mlp, 2 * tokens * numbers, &touches);
                }
            }
        }
    }

    /// Tokens for each expert of a layer.
    fn chosen(&self, layer: usize, pass: Pass) -> Vec<u128> {
        let Generation { card, router, batches, .. } = self.job;
        let Some(experts) = card.experts else { return Vec::new() };
        let draw = u64::from(pass.step) * u64::from(*batches) + u64::from(pass.batch);
        let tokens = u64::from(self.job.batch) * pass.new;
        let (choice, place) = ((router.seed, router.skew), (layer as u64, draw));
        let chosen = routing::tokens(&experts, tokens, choice, place);
        chosen.into_iter().map(u128::from).collect()
    }

    fn all_reduce(&mut self, module: ModuleId, of: ObjectId) {
        let Generation { tensor, devices, .. } = *self.job;
        if tensor > 1 {
            let within = tensor.min(devices.max(1));
            let collective = Collective {
                kind: CollectiveKind::AllReduce,
                bytes: self.build.trace.objects[of.index()].bytes,
                within,
                servers: tensor.div_ceil(within),
            };
            let unit = Unit::Network(collective);
            self.build.op_on(unit, 0, "all-reduce", module, 0, &[change(of)]);
        }
    }

    fn head(&mut self, model: &ModelWeights, pass: Pass, x: ObjectId) {
        let card = &self.job.card;
        let [hidden, batch] = [card.hidden, self.job.batch].map(u128::from);
        let vocab = u128::from(card.vocab.div_ceil(self.job.tensor));
        let (label, bytes) = (name(pass, "logits"), batch * vocab * 4);
        let logits = self.object(label, ObjectKind::Buffer, bytes, model.ends[1]);
        let row = hidden * u128::from(self.job.formats.activations.bytes());
        let touches = [
            // The last position of each sequence.
            read(x).part(batch * row),
            read(model.norm),
            read(model.head),
            write(logits),
        ];
        self.build.op("head", model.ends[1], 2 * batch * hidden * vocab, &touches);
    }

    fn tokens(&self, pass: Pass) -> u128 {
        u128::from(self.job.batch) * u128::from(pass.new)
    }

    /// Numbers per token of queries, and of keys, on this rank.
    fn widths(&self) -> [u128; 2] {
        let card = &self.job.card;
        let width = |heads| u128::from(heads) * u128::from(card.head_dim);
        [card.heads, card.kv_heads].map(|heads| width(heads) / u128::from(self.job.tensor))
    }

    /// Pairs of a new position and one that it attends to, itself included.
    fn pairs(&self, pass: Pass) -> u128 {
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
        pairs * u128::from(self.job.batch)
    }
}

/// The name of what a pass makes.
fn name(pass: Pass, what: &str) -> String {
    format!("t{}.b{}.{what}", pass.step, pass.batch)
}
