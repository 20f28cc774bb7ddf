//! Rows of a trace, and the weights of a model as generation uses them.
//!
//! One object per matrix with its bias, one per norm and one per expert, in the order of use.

use super::Generation;
use crate::build::Builder;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::{ObjectKind, Recorded, TraceMeta};

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

/// A trace in the making, and the job that it is made from.
#[derive(Debug)]
pub(super) struct GraphBuilder<'a> {
    pub(super) job: &'a Generation,
    pub(super) build: Builder,
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
        GraphBuilder { job, build: Builder::new(meta) }
    }

    pub(super) fn object(
        &mut self,
        name: String,
        kind: ObjectKind,
        bytes: u128,
        module: ModuleId,
    ) -> ObjectId {
        self.build.object(name, kind, (bytes, self.job.formats.of(kind)), Some(module))
    }

    /// An output of `numbers` numbers.
    pub(super) fn activation(&mut self, name: String, numbers: u128, module: ModuleId) -> ObjectId {
        let bytes = numbers * u128::from(self.job.formats.activations.bytes());
        self.object(name, ObjectKind::Activation, bytes, module)
    }

    /// A matrix of `rows` x `columns` with `bias` numbers, split over the tensor-parallel ranks.
    fn matrix(
        &mut self,
        name: String,
        rows: u128,
        columns: u128,
        bias: u128,
        at: ModuleId,
    ) -> ObjectId {
        self.norm(name, (rows * columns + bias).div_ceil(u128::from(self.job.tensor)), at)
    }

    /// Numbers that every rank has.
    fn norm(&mut self, name: String, numbers: u128, at: ModuleId) -> ObjectId {
        let bytes = numbers * u128::from(self.job.formats.weights.bytes());
        let weight = self.object(name, ObjectKind::Weight, bytes, at);
        self.build.persist(weight)
    }

    fn has_bias(&self) -> bool {
        self.job.card.family.has_biases()
    }

    pub(super) fn is_gated(&self) -> bool {
        !self.has_bias()
    }

    pub(super) fn model(&mut self) -> ModelWeights {
        let card = &self.job.card;
        let [hidden, vocab] = [card.hidden, card.vocab].map(u128::from);
        let (tied, last) = (card.tied, u128::from(card.norm_parameters()));
        // Positions, and norms of the embedding.
        let beside = u128::from(card.embedding_parameters()) - vocab * hidden;
        let table = self.build.module("embedding");
        let tokens = self.matrix("embedding.weight".to_owned(), vocab, hidden, 0, table);
        let positions =
            (beside > 0).then(|| self.matrix("positions.weight".to_owned(), 1, beside, 0, table));
        let blocks = (0..card.layers).map(|layer| self.weights_of(layer)).collect();
        let end = self.build.module("head");
        let norm = self.norm("norm.weight".to_owned(), last, end);
        let head = if tied {
            tokens
        } else {
            self.matrix("head.weight".to_owned(), vocab, hidden, 0, end)
        };
        ModelWeights { tokens, positions, blocks, norm, head, ends: [table, end] }
    }

    fn weights_of(&mut self, layer: u32) -> BlockWeights {
        let card = &self.job.card;
        let [hidden, ffn, dim] = [card.hidden, card.ffn, card.head_dim].map(u128::from);
        let [queries, kv] = [card.heads, card.kv_heads].map(|heads| u128::from(heads) * dim);
        let (bias, qkv_bias) = (self.has_bias(), self.has_bias() || card.qkv_bias);
        let experts = card.experts;
        let some = |has: bool, numbers: u128| if has { numbers } else { 0 };
        let [attention, mlp] =
            ["attention", "mlp"].map(|part| self.build.module(&format!("layers.{layer}.{part}")));
        let name = |part: &str| format!("layers.{layer}.{part}.weight");
        // With those of queries and keys, where each head has them.
        let norm = u128::from(card.norm_parameters());
        let of_heads = some(card.norms_heads(), 2 * dim);
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
                let count = u128::from(experts.count);
                let router = self.matrix(name("router"), hidden, count, 0, mlp);
                let width = 3 * u128::from(experts.ffn);
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
