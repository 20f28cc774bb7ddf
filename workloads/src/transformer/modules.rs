//! The modules of a transformer that own parameters, grouped from the tensors of its card by what
//! they do, and along which axis tensor parallelism divides each tensor.
//!
//! A block is: norm, queries, keys and values, attention, output, norm, one or two wide matrices,
//! activation, narrow matrix; or a router and several such feed-forward parts. Post-norm, each of
//! the norms stands behind the sum that follows its part; some families have two more, between
//! their parts and the sums, or these alone, or one norm in front of both parts. Queries, keys,
//! values and wide matrices are divided by output, the matrices behind them by input, the table of
//! tokens by row (Shoeybi et al., "Megatron-LM", 2019, section 3); norms and the biases behind a
//! sum are whole. Experts are modules of their own, though the makers' code has all of a block in
//! two tensors: that is how they are placed. Invariant: the parameters of all modules are those
//! of [`Card::tensors`].

pub(crate) mod around;
mod names;

use super::card::{self, Card, Experts, Family, HeadNorms};
use super::format::Formats;
use crate::memory::optimizer;
use names::names;

/// Which axis tensor parallelism divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Every rank has all of it.
    Whole,
    /// Outputs, or rows of a table.
    Rows,
    /// Inputs.
    Columns,
}

/// One tensor of parameters: outputs x inputs, or a vector of one column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tensor {
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) split: Split,
    /// Whether tokens are multiplied with it.
    pub(crate) product: bool,
    /// Parts that have a second moment each under Adam-mini: heads of a matrix of queries or of
    /// keys; of one matrix for queries, keys and values those heads and every row of the values.
    pub(crate) heads: Option<u64>,
    /// Rows that every rank has at least: a head of keys or of values, which several have where
    /// there are fewer than ranks.
    pub(crate) least: u64,
}

impl Tensor {
    /// The part of it that one of `ranks` has.
    pub(crate) fn local(self, ranks: u64) -> Tensor {
        match self.split {
            Split::Whole => self,
            Split::Rows => {
                let heads = self.heads.map(|heads| heads / ranks);
                let rows = (self.rows / ranks).max(self.least.min(self.rows));
                Tensor { rows, heads, ..self }
            }
            Split::Columns => Tensor { columns: self.columns / ranks, ..self },
        }
    }

    pub(crate) fn parameters(self) -> u128 {
        u128::from(self.rows) * u128::from(self.columns)
    }

    /// As optimizers see it.
    pub(crate) fn kept(self) -> optimizer::Tensor {
        optimizer::Tensor {
            rows: self.rows,
            columns: (self.columns > 1 || self.product).then_some(self.columns),
            blocks: self.heads,
        }
    }
}

/// A module that owns parameters.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// Its path in the model.
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
    /// A and B of low rank, if it has them.
    pub(crate) adapter: Option<Box<[Module; 2]>>,
    /// Whether its matrix is stored in 4 bits, if matrices of blocks are.
    pub(crate) packs: bool,
}

impl Module {
    /// Parameters that one of `ranks` of a tensor group has.
    pub(crate) fn parameters(&self, ranks: u64) -> u128 {
        self.tensors.iter().map(|tensor| tensor.local(ranks).parameters()).sum()
    }

    /// Those of them that tokens are multiplied with.
    pub(crate) fn products(&self, ranks: u64) -> u128 {
        let products = self.tensors.iter().filter(|tensor| tensor.product);
        products.map(|tensor| tensor.local(ranks).parameters()).sum()
    }

    /// Bytes of its weights on one of `ranks`.
    pub(crate) fn bytes(&self, ranks: u64, formats: &Formats) -> u128 {
        let all = self.parameters(ranks);
        let each = u128::from(formats.weights.bytes());
        match formats.packed {
            Some(packed) if self.packs => {
                let products = self.products(ranks);
                packed.bytes(products) + (all - products) * each
            }
            _ => all * each,
        }
    }
}

/// Wide matrices, activation, narrow matrix: of each module that owns parameters an `M`, of those
/// that own none an `N`. So it is with mixtures and blocks, too.
#[derive(Clone, Debug)]
pub(crate) struct FeedForward<M = Module, N = String> {
    /// One, or the gate and the one that it gates; of an expert both in one.
    pub(crate) up_proj: Vec<M>,
    pub(crate) down_proj: M,
    pub(crate) activation: N,
    /// Numbers per token between them.
    pub(crate) width: u128,
}

/// A router and what it chooses from.
#[derive(Clone, Debug)]
pub(crate) struct Mixture<M = Module, N = String> {
    pub(crate) router: M,
    pub(crate) experts: Vec<FeedForward<M, N>>,
    /// What every token goes through, and what weighs it, if it is weighed.
    pub(crate) shared: Option<(FeedForward<M, N>, Option<M>)>,
}

/// What follows attention in a block.
#[derive(Clone, Debug)]
pub(crate) enum Feed<M = Module, N = String> {
    Dense(FeedForward<M, N>),
    Mixture(Mixture<M, N>),
}

/// What compresses a token before its queries, keys and values are made of that.
#[derive(Clone, Debug)]
pub(crate) struct Compression<M = Module> {
    /// For queries, if they are made so, and the norm behind it.
    pub(crate) queries: Option<[M; 2]>,
    /// For keys and values, with the part of keys that all heads share, and the norm behind it.
    pub(crate) rows: [M; 2],
    /// What keys and values of all heads are made with.
    pub(crate) expand: M,
}

/// One block.
#[derive(Clone, Debug)]
pub(crate) struct Block<M = Module, N = String> {
    pub(crate) layer: u32,
    /// Before attention or, post-norm, behind its sum.
    pub(crate) norm_1: Option<M>,
    /// One matrix for queries, keys and values, or one each; of compressed ones that of queries.
    pub(crate) qkv: Vec<M>,
    /// In a model whose keys and values are compressed.
    pub(crate) compression: Option<Compression<M>>,
    /// Norms of queries, and of keys.
    pub(crate) head_norms: Vec<M>,
    pub(crate) out: M,
    /// Before the feed-forward part or, post-norm, behind its sum.
    pub(crate) norm_2: Option<M>,
    /// Behind attention and the feed-forward part, in a family that has norms there.
    pub(crate) part_norms: Vec<M>,
    pub(crate) feed: Feed<M, N>,
    /// The module of the attention itself, which has no parameters.
    pub(crate) attention: N,
}

impl<M> Compression<M> {
    pub(crate) fn modules(&self) -> impl Iterator<Item = &M> {
        self.queries.iter().flatten().chain(&self.rows).chain([&self.expand])
    }
}

impl<M, N> FeedForward<M, N> {
    pub(crate) fn modules(&self) -> impl Iterator<Item = &M> {
        self.up_proj.iter().chain([&self.down_proj])
    }
}

impl<M: PartialEq, N> Block<M, N> {
    /// Whether all of a tensor group have all of this module, whose gradient each has of its own
    /// heads: norms of heads with the same weights, and what compresses tokens.
    pub(crate) fn has_of_heads(&self, module: &M, norms: Option<HeadNorms>) -> bool {
        let compressed = self.compression.iter();
        let compressed = compressed.flat_map(|of| of.queries.iter().flatten().chain(&of.rows));
        let norms = self.head_norms.iter().filter(|_| norms == Some(HeadNorms::Alike));
        norms.chain(compressed).any(|of| of == module)
    }
}

impl<M, N> Block<M, N> {
    /// What is given the block's input first: it is kept for that.
    pub(crate) fn first(&self) -> &M {
        self.norm_1.as_ref().unwrap_or(&self.qkv[0])
    }

    /// Every module that owns parameters, and whether it belongs to an expert.
    pub(crate) fn modules(&self) -> Vec<(&M, bool)> {
        let compressed = self.compression.iter().flat_map(Compression::modules);
        let first = self.norm_1.iter().chain(compressed).chain(&self.qkv);
        let first = first.chain(&self.head_norms);
        let behind = [&self.out].into_iter().chain(&self.norm_2).chain(&self.part_norms);
        let mut all: Vec<_> = first.chain(behind).map(|m| (m, false)).collect();
        match &self.feed {
            Feed::Dense(dense) => all.extend(dense.modules().map(|m| (m, false))),
            Feed::Mixture(Mixture { router, experts, shared }) => {
                all.push((router, false));
                all.extend(experts.iter().flat_map(FeedForward::modules).map(|m| (m, true)));
                let shared = shared.iter().flat_map(|(one, gate)| one.modules().chain(gate));
                all.extend(shared.map(|m| (m, false)));
            }
        }
        all
    }
}

/// Tensors to take modules from.
struct Source<'a> {
    family: Family,
    prefix: String,
    tensors: &'a [card::CardTensor],
}

impl Source<'_> {
    fn has(&self, module: &str) -> bool {
        !self.of(module).is_empty()
    }

    fn of(&self, module: &str) -> Vec<&card::CardTensor> {
        let is_of = |part: &&card::CardTensor| {
            part.name.strip_prefix(module).is_some_and(|rest| matches!(rest, ".weight" | ".bias"))
        };
        self.tensors.iter().filter(is_of).collect()
    }

    /// A module whose matrix is divided along `split`.
    fn take(&self, module: &str, split: Split, product: bool) -> Module {
        // GPT-2's matrices are stored with the inputs first.
        let turned = self.family == Family::Gpt2 && product && module != "lm_head";
        let tensors = self.of(module).into_iter().map(|part| match part.shape[..] {
            [first, second] => {
                let (rows, columns) = if turned { (second, first) } else { (first, second) };
                Tensor { rows, columns, split, product, heads: None, least: 0 }
            }
            // Behind a sum over ranks a bias is added once, so that every rank has all of it.
            _ => {
                let rows = part.shape.iter().product();
                let split = if split == Split::Rows { Split::Rows } else { Split::Whole };
                Tensor { rows, columns: 1, split, product: false, heads: None, least: 0 }
            }
        });
        let name = format!("{}{module}", self.prefix);
        // What is not of a block has no prefix.
        let packs = product && !self.prefix.is_empty() && !self.family.packs_experts_only();
        Module { name, tensors: tensors.collect(), adapter: None, packs }
    }

    fn feed_forward(&self, up_proj: &[&str], down_proj: &str, activation: &str) -> FeedForward {
        let up_proj: Vec<Module> =
            up_proj.iter().map(|m| self.take(m, Split::Rows, true)).collect();
        let down_proj = self.take(down_proj, Split::Columns, true);
        let width = down_proj.tensors.first().map_or(0, |tensor| tensor.columns.into());
        let activation = format!("{}{activation}", self.prefix);
        FeedForward { up_proj, down_proj, activation, width }
    }
}

/// The modules of block `layer` on one of `ranks` ranks that its experts are spread over.
pub(crate) fn block(card: &Card, layer: u32, ranks: u32) -> Block {
    let tensors = card.block(layer);
    let prefix = card.block_prefix(layer);
    let source = Source { family: card.family, prefix, tensors: &tensors };
    let names = names(card.family);
    let heads = ["self_attn.q_norm", "self_attn.k_norm"].into_iter();
    let heads = heads.filter(|name| source.has(name));
    let norm = |name| source.take(name, Split::Whole, false);
    // Weights of all heads are divided as the heads are.
    let head_norm = |(at, name)| match card.head_norms() {
        Some(HeadNorms::Alike) | None => norm(name),
        Some(of) => {
            let mut module = source.take(name, Split::Rows, false);
            let least = if of == HeadNorms::Own { 1 } else { card.head_dim };
            let keys = module.tensors.iter_mut().filter(|_| at == 1);
            keys.for_each(|tensor| tensor.least = least.into());
            module
        }
    };
    let compression = card.latent.map(|_| compression(&source));
    let qkv: &[&str] = match &compression {
        Some(of) if of.queries.is_some() => &["self_attn.q_b_proj"],
        Some(_) => &["self_attn.q_proj"],
        None => names.qkv,
    };
    let mut qkv: Vec<Module> =
        qkv.iter().map(|name| source.take(name, Split::Rows, true)).collect();
    let [heads_q, heads_k] = [card.heads, card.kv_heads].map(u64::from);
    let heads_of = match qkv.len() {
        _ if compression.is_some() => [Some(heads_q), None],
        1 => [Some(heads_q + heads_k + card.kv_width()), None],
        _ => [Some(heads_q), Some(heads_k)],
    };
    if compression.is_none() && qkv.len() > 1 {
        let of_heads = qkv.iter_mut().skip(1).flat_map(|part| &mut part.tensors);
        of_heads.for_each(|tensor| tensor.least = card.head_dim.into());
    }
    for (part, heads) in qkv.iter_mut().zip(heads_of) {
        part.tensors.iter_mut().take(1).for_each(|tensor| tensor.heads = heads);
    }
    let mut out = source.take(names.out, Split::Columns, true);
    // A number per head that no module of its own has goes with what follows attention.
    if tensors.iter().any(|part| part.name == "self_attn.sinks") {
        let (rows, split) = (heads_q, Split::Rows);
        out.tensors.push(Tensor { rows, columns: 1, split, product: false, heads: None, least: 0 });
    }
    Block {
        layer,
        norm_1: names.norms[0].map(norm),
        qkv,
        compression,
        head_norms: heads.enumerate().map(head_norm).collect(),
        out,
        norm_2: names.norms[1].map(norm),
        part_norms: names.part_norms.iter().map(|name| norm(name)).collect(),
        feed: match card.experts_of(layer) {
            None => {
                Feed::Dense(source.feed_forward(names.up_proj, names.down_proj, names.activation))
            }
            Some(experts) => Feed::Mixture(mixture(card, experts, &source, ranks)),
        },
        attention: format!("{}{}", source.prefix, names.attention),
    }
}

fn compression(source: &Source<'_>) -> Compression {
    let whole =
        |name: &str, product| source.take(&format!("self_attn.{name}"), Split::Whole, product);
    let queries = source.has("self_attn.q_a_proj");
    Compression {
        queries: queries.then(|| [whole("q_a_proj", true), whole("q_a_layernorm", false)]),
        rows: [whole("kv_a_proj_with_mqa", true), whole("kv_a_layernorm", false)],
        expand: source.take("self_attn.kv_b_proj", Split::Rows, true),
    }
}

fn mixture(card: &Card, experts: Experts, source: &Source<'_>, ranks: u32) -> Mixture {
    let (hidden, width) = (u64::from(card.hidden), u64::from(experts.ffn));
    let [at, router] = card.family.mixture_names();
    let matrix = |name: String, rows, columns, split| {
        let mut tensors =
            vec![Tensor { rows, columns, split, product: true, heads: None, least: 0 }];
        if card.family == Family::GptOss {
            let split = if split == Split::Rows { Split::Rows } else { Split::Whole };
            tensors.push(Tensor { rows, columns: 1, split, product: false, heads: None, least: 0 });
        }
        Module { name, tensors, adapter: None, packs: true }
    };
    let one = |index: u32| {
        let path = format!("{}{at}.experts.{index}", source.prefix);
        FeedForward {
            up_proj: vec![matrix(format!("{path}.gate_up_proj"), 2 * width, hidden, Split::Rows)],
            down_proj: matrix(format!("{path}.down_proj"), hidden, width, Split::Columns),
            activation: format!("{path}.act_fn"),
            width: width.into(),
        }
    };
    let names = ["shared_expert", "shared_experts"].into_iter();
    let shared = names.map(|name| (name, ["gate_proj", "up_proj", "down_proj", "act_fn"]));
    let mut shared = shared.map(|(name, parts)| parts.map(|part| format!("{at}.{name}.{part}")));
    let shared = shared.find(|[gate, ..]| source.has(gate)).map(|[gate, up, down, activation]| {
        let weighed = source.has("mlp.shared_expert_gate");
        let weighs = weighed.then(|| source.take("mlp.shared_expert_gate", Split::Whole, true));
        (source.feed_forward(&[&gate, &up], &down, &activation), weighs)
    });
    let router = source.take(router, Split::Whole, true);
    Mixture { router, experts: (0..experts.count / ranks.max(1)).map(one).collect(), shared }
}

#[cfg(test)]
mod tests {
    use super::around::EmbeddingAndHead;
    use super::*;
    use crate::transformer::known::known;

    #[test]
    fn modules_have_the_parameters_of_the_card() {
        let names = [
            "gpt2",
            "llama-3-8b",
            "mixtral-8x7b",
            "opt-30b",
            "bloom-176b",
            "qwen3-30b-a3b",
            "qwen2.5-7b",
            "gpt-oss-20b",
            "gemma-2-2b",
            "deepseek-v2-lite",
            "deepseek-v3",
            "gemma-3-1b",
        ];
        for name in names {
            let Some(card) = known(name).map(|known| known.card()) else {
                panic!("{name} is not known");
            };
            let around = EmbeddingAndHead::new(&card);
            let ends = around.embedding().chain(around.end());
            let ends: u128 = ends.map(|part| part.parameters(1)).sum();
            let of = |block: &Block| -> u128 {
                block.modules().into_iter().map(|(part, _)| part.parameters(1)).sum()
            };
            let blocks: u128 = (0..card.layers).map(|layer| of(&block(&card, layer, 1))).sum();
            assert_eq!(ends + blocks, u128::from(card.parameters()), "{name}");
        }
    }
}
