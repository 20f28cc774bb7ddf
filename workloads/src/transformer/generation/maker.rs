//! Rows of a trace, and the weights of a model as generation uses them.
//!
//! One object per matrix with its bias, one per norm and one per expert, in the order of use.

use super::Generation;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, PartialUse, Phase, Recorded, Trace, TraceMeta, Unit, Use,
};

/// What an op does to an object: how, and how many bytes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectAccess {
    pub(super) object: ObjectId,
    pub(super) mode: Mode,
    pub(super) bytes: u64,
    /// In which pieces, where they lie anywhere in the object.
    pub(super) part: Option<PartialUse>,
}

/// The weights of one block.
#[derive(Debug)]
pub(super) struct BlockWeights {
    pub(super) attention: ModuleId,
    pub(super) mlp: ModuleId,
    pub(super) norm_1: ObjectId,
    /// Queries, keys, values.
    pub(super) qkv: Vec<ObjectId>,
    pub(super) out: ObjectId,
    pub(super) norm_2: ObjectId,
    pub(super) feed_forward: FeedForward,
}

/// What follows attention.
#[derive(Debug)]
pub(super) enum FeedForward {
    /// One or two matrices from the residual stream, one back.
    Dense { up_proj: Vec<ObjectId>, down_proj: ObjectId },
    /// A router, experts, and those that every token goes through.
    Experts { router: ObjectId, experts: Vec<ObjectId>, shared: Vec<ObjectId> },
}

/// All weights.
#[derive(Debug)]
pub(super) struct ModelWeights {
    pub(super) tokens: ObjectId,
    pub(super) positions: Option<ObjectId>,
    pub(super) blocks: Vec<BlockWeights>,
    pub(super) norm: ObjectId,
    pub(super) head: ObjectId,
    /// The modules of embedding and head.
    pub(super) ends: [ModuleId; 2],
}

/// A trace in the making.
#[derive(Debug)]
pub(super) struct GraphBuilder<'a> {
    pub(super) job: &'a Generation,
    pub(super) trace: Trace,
    /// Step and phase of the ops that come next.
    pub(super) now: (u32, Phase),
}

impl<'a> GraphBuilder<'a> {
    pub(super) fn new(job: &'a Generation) -> GraphBuilder<'a> {
        let Generation { card, batch, batches, prompt, tokens, .. } = job;
        let first = if job.prefill { "prefill and " } else { "" };
        let meta = TraceMeta {
            name: format!("{}-generate", card.name),
            about: format!(
                "generated from the card of {}: {first}decode of {tokens} tokens behind prompts of \
                 {prompt}, {batches} batches of {batch}; no durations were recorded",
                card.name
            ),
            precision: job.formats.weights.word().to_owned(),
            batch: batch * batches,
            sequence: 1,
            recorded: Recorded::default(),
        };
        let (modules, objects, ops, uses) = Default::default();
        let trace = Trace { meta, modules, objects, ops, uses };
        GraphBuilder { job, trace, now: (0, Phase::Prefill) }
    }

    pub(super) fn module(&mut self, name: String) -> ModuleId {
        self.trace.modules.push(name);
        ModuleId::at(self.trace.modules.len() - 1)
    }

    pub(super) fn object(
        &mut self,
        name: String,
        kind: ObjectKind,
        bytes: u64,
        module: Option<ModuleId>,
    ) -> ObjectId {
        self.trace.objects.push(Object {
            dtype: self.job.formats.of(kind).dtype().to_owned(),
            persistent: kind == ObjectKind::Weight,
            module,
            ..Object::new(name, kind, Bytes::new(bytes))
        });
        ObjectId::at(self.trace.objects.len() - 1)
    }

    /// An output of `numbers` numbers.
    pub(super) fn activation(&mut self, name: String, numbers: u64, module: ModuleId) -> ObjectId {
        let bytes = numbers * self.job.formats.activations.bytes();
        self.object(name, ObjectKind::Activation, bytes, Some(module))
    }

    pub(super) fn read(&self, object: ObjectId) -> ObjectAccess {
        ObjectAccess { object, mode: Mode::Read, bytes: self.bytes(object), part: None }
    }

    pub(super) fn write(&self, object: ObjectId) -> ObjectAccess {
        ObjectAccess { object, mode: Mode::Write, bytes: self.bytes(object), part: None }
    }

    /// Reads and writes all of it.
    pub(super) fn change(&self, object: ObjectId) -> ObjectAccess {
        ObjectAccess { object, mode: Mode::ReadWrite, bytes: 2 * self.bytes(object), part: None }
    }

    pub(super) fn bytes(&self, object: ObjectId) -> u64 {
        self.trace.objects[object.index()].bytes.get()
    }

    /// An op on the device's stream.
    pub(super) fn op(
        &mut self,
        name: &str,
        module: ModuleId,
        flops: u64,
        touches: &[ObjectAccess],
    ) {
        self.op_on(Unit::Device, 0, (name, module), flops, touches);
    }

    pub(super) fn op_on(
        &mut self,
        unit: Unit,
        stream: u16,
        (name, module): (&str, ModuleId),
        flops: u64,
        touches: &[ObjectAccess],
    ) {
        let start = self.trace.uses.len() as u32;
        self.trace.uses.extend(
            touches.iter().map(|&ObjectAccess { object, mode, part, .. }| Use {
                object,
                mode,
                part,
            }),
        );
        let end = self.trace.uses.len() as u32;
        let (step, phase) = self.now;
        self.trace.ops.push(Op {
            module: Some(module),
            flops,
            bytes: Bytes::new(touches.iter().map(|touch| touch.bytes).sum()),
            unit,
            stream,
            ..Op::new(step, phase, name, start..end)
        });
    }

    /// A matrix of `rows` x `columns` with `bias` numbers, split over the tensor-parallel ranks.
    fn matrix(
        &mut self,
        name: String,
        rows: u64,
        columns: u64,
        bias: u64,
        at: ModuleId,
    ) -> ObjectId {
        self.norm(name, (rows * columns + bias).div_ceil(u64::from(self.job.tensor)), at)
    }

    /// Numbers that every rank has.
    fn norm(&mut self, name: String, numbers: u64, at: ModuleId) -> ObjectId {
        let bytes = numbers * self.job.formats.weights.bytes();
        self.object(name, ObjectKind::Weight, bytes, Some(at))
    }

    fn has_bias(&self) -> bool {
        self.job.card.family.has_biases()
    }

    pub(super) fn is_gated(&self) -> bool {
        !self.has_bias()
    }

    pub(super) fn model(&mut self) -> ModelWeights {
        let card = &self.job.card;
        let [hidden, vocab, layers] = [card.hidden, card.vocab, card.layers].map(u64::from);
        let (tied, last) = (card.tied, card.norm_parameters());
        // Positions, and norms of the embedding.
        let beside = card.embedding_parameters() - vocab * hidden;
        let table = self.module("embedding".to_owned());
        let tokens = self.matrix("embedding.weight".to_owned(), vocab, hidden, 0, table);
        let positions =
            (beside > 0).then(|| self.matrix("positions.weight".to_owned(), 1, beside, 0, table));
        let blocks = (0..layers).map(|layer| self.weights_of(layer)).collect();
        let end = self.module("head".to_owned());
        let norm = self.norm("norm.weight".to_owned(), last, end);
        let head = if tied {
            tokens
        } else {
            self.matrix("head.weight".to_owned(), vocab, hidden, 0, end)
        };
        ModelWeights { tokens, positions, blocks, norm, head, ends: [table, end] }
    }

    fn weights_of(&mut self, layer: u64) -> BlockWeights {
        let card = &self.job.card;
        let hidden = u64::from(card.hidden);
        let queries = u64::from(card.heads) * u64::from(card.head_dim);
        let kv = u64::from(card.kv_heads) * u64::from(card.head_dim);
        let ffn = u64::from(card.ffn);
        let (bias, qkv_bias) = (self.has_bias(), self.has_bias() || card.qkv_bias);
        let experts = card.experts;
        let some = |has: bool, numbers: u64| if has { numbers } else { 0 };
        let [attention, mlp] =
            ["attention", "mlp"].map(|part| self.module(format!("layers.{layer}.{part}")));
        let name = |part: &str| format!("layers.{layer}.{part}.weight");
        // With those of queries and keys, where each head has them.
        let norm = card.norm_parameters();
        let of_heads = if card.norms_heads() { 2 * u64::from(card.head_dim) } else { 0 };
        let norm_1 = self.norm(name("norm_1"), norm + of_heads, attention);
        let widths = [("q", queries), ("k", kv), ("v", kv)];
        let qkv = widths.map(|(part, width)| {
            self.matrix(name(part), hidden, width, some(qkv_bias, width), attention)
        });
        let out = self.matrix(name("o"), queries, hidden, some(bias, hidden), attention);
        let norm_2 = self.norm(name("norm_2"), norm, mlp);
        let feed_forward = match experts {
            None => {
                let parts: &[&str] = if self.is_gated() { &["gate", "up"] } else { &["fc1"] };
                let up_proj = parts
                    .iter()
                    .map(|part| self.matrix(name(part), hidden, ffn, some(bias, ffn), mlp));
                let up_proj = up_proj.collect();
                let down_proj = self.matrix(name("down"), ffn, hidden, some(bias, hidden), mlp);
                FeedForward::Dense { up_proj, down_proj }
            }
            Some(experts) => {
                let count = u64::from(experts.count);
                let router = self.matrix(name("router"), hidden, count, 0, mlp);
                let width = 3 * u64::from(experts.ffn);
                let mut all = |what: &str, count: u32| -> Vec<ObjectId> {
                    let named = (0..count).map(|index| name(&format!("{what}.{index}")));
                    let names: Vec<String> = named.collect();
                    names.into_iter().map(|name| self.matrix(name, hidden, width, 0, mlp)).collect()
                };
                let (chosen, shared) =
                    (all("experts", experts.count), all("shared", experts.shared));
                FeedForward::Experts { router, experts: chosen, shared }
            }
        };
        BlockWeights { attention, mlp, norm_1, qkv: qkv.into(), out, norm_2, feed_forward }
    }
}
