//! The modules of a transformer that own parameters, grouped from the tensors of its card by what
//! they do, and along which axis tensor parallelism divides each tensor.
//!
//! A block is: norm, queries, keys and values, attention, output, norm, one or two wide matrices,
//! activation, narrow matrix; or a router and several such feed-forward parts. Post-norm, each of
//! the norms stands behind the sum that follows its part. Queries, keys,
//! values and wide matrices are divided by output, the matrices behind them by input, the table of
//! tokens by row (Shoeybi et al., "Megatron-LM", 2019, section 3); norms and the biases behind a
//! sum are whole. Experts are modules of their own, though the makers' code has all of a block in
//! two tensors: that is how they are placed. Invariant: the parameters of all modules are those
//! of [`Card::tensors`].

mod names;

use super::card::{self, Card, Experts, Family};
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
}

impl Tensor {
    /// The part of it that one of `ranks` has.
    pub(crate) fn local(self, ranks: u64) -> Tensor {
        match self.split {
            Split::Whole => self,
            Split::Rows => {
                let heads = self.heads.map(|heads| heads / ranks);
                Tensor { rows: self.rows / ranks, heads, ..self }
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
    /// What every token goes through, and what weighs it.
    pub(crate) shared: Option<(FeedForward<M, N>, M)>,
}

/// What follows attention in a block.
#[derive(Clone, Debug)]
pub(crate) enum Feed<M = Module, N = String> {
    Dense(FeedForward<M, N>),
    Mixture(Mixture<M, N>),
}

/// One block.
#[derive(Clone, Debug)]
pub(crate) struct Block<M = Module, N = String> {
    pub(crate) layer: u32,
    pub(crate) norm_1: M,
    /// One matrix for queries, keys and values, or one each.
    pub(crate) qkv: Vec<M>,
    /// Norms of every head's queries, and of its keys.
    pub(crate) head_norms: Vec<M>,
    pub(crate) out: M,
    pub(crate) norm_2: M,
    pub(crate) feed: Feed<M, N>,
    /// The module of the attention itself, which has no parameters.
    pub(crate) attention: N,
}

impl<M, N> FeedForward<M, N> {
    pub(crate) fn modules(&self) -> impl Iterator<Item = &M> {
        self.up_proj.iter().chain([&self.down_proj])
    }
}

impl<M, N> Block<M, N> {
    /// Every module that owns parameters, and whether it belongs to an expert.
    pub(crate) fn modules(&self) -> Vec<(&M, bool)> {
        let first = [&self.norm_1].into_iter().chain(&self.qkv).chain(&self.head_norms);
        let mut all: Vec<_> = first.chain([&self.out, &self.norm_2]).map(|m| (m, false)).collect();
        match &self.feed {
            Feed::Dense(dense) => all.extend(dense.modules().map(|m| (m, false))),
            Feed::Mixture(Mixture { router, experts, shared }) => {
                all.push((router, false));
                all.extend(experts.iter().flat_map(FeedForward::modules).map(|m| (m, true)));
                let shared = shared.iter().flat_map(|(one, gate)| one.modules().chain([gate]));
                all.extend(shared.map(|m| (m, false)));
            }
        }
        all
    }
}

/// The modules before and behind the blocks.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddingAndHead {
    pub(crate) tokens: Module,
    pub(crate) positions: Option<Module>,
    /// Token types, in a family that has them.
    pub(crate) types: Option<Module>,
    /// The norm behind the embedding, in a family that has one.
    pub(crate) norm_0: Option<Module>,
    pub(crate) norm: Module,
    pub(crate) head_name: String,
    /// `None` if it is tied.
    pub(crate) head: Option<Module>,
    /// The matrix before the last norm, and the bias of the logits, in a family that has them.
    pub(crate) transform: Option<[Module; 2]>,
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
                Tensor { rows, columns, split, product, heads: None }
            }
            // Behind a sum over ranks a bias is added once, so that every rank has all of it.
            _ => {
                let rows = part.shape.iter().product();
                let split = if split == Split::Rows { Split::Rows } else { Split::Whole };
                Tensor { rows, columns: 1, split, product: false, heads: None }
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

impl EmbeddingAndHead {
    /// Tables, and a norm behind them.
    pub(crate) fn embedding(&self) -> impl Iterator<Item = &Module> {
        [&self.tokens].into_iter().chain(&self.types).chain(&self.positions).chain(&self.norm_0)
    }

    /// What is behind the blocks, in the order in which it runs.
    pub(crate) fn end(&self) -> impl Iterator<Item = &Module> {
        let [dense, bias] = self.transform.as_ref().map_or([None; 2], |[a, b]| [Some(a), Some(b)]);
        dense.into_iter().chain([&self.norm]).chain(&self.head).chain(bias)
    }

    pub(crate) fn new(card: &Card) -> EmbeddingAndHead {
        let (before, behind) = card.around();
        let all: Vec<card::CardTensor> = before.into_iter().chain(behind).collect();
        let source = Source { family: card.family, prefix: String::new(), tensors: &all };
        let find = |names: &[&'static str]| names.iter().copied().find(|name| source.has(name));
        let whole = |name: &str| source.take(name, Split::Whole, false);
        let tokens = find(&[
            "transformer.wte",
            "transformer.word_embeddings",
            "model.decoder.embed_tokens",
            "model.embed_tokens",
            "bert.embeddings.word_embeddings",
            "roberta.embeddings.word_embeddings",
        ]);
        let positions = find(&[
            "transformer.wpe",
            "model.decoder.embed_positions",
            "bert.embeddings.position_embeddings",
            "roberta.embeddings.position_embeddings",
        ]);
        let types = find(&[
            "bert.embeddings.token_type_embeddings",
            "roberta.embeddings.token_type_embeddings",
        ]);
        let norm_0 = find(&[
            "transformer.word_embeddings_layernorm",
            "bert.embeddings.LayerNorm",
            "roberta.embeddings.LayerNorm",
        ]);
        let transform = card.family.head_names();
        let norm = find(&["transformer.ln_f", "model.decoder.final_layer_norm", "model.norm"]);
        let norm = norm.or(transform.map(|[_, _, norm]| norm));
        let has_own = !card.tied;
        EmbeddingAndHead {
            tokens: source.take(tokens.expect("every family has a table"), Split::Rows, false),
            positions: positions.map(whole),
            types: types.map(whole),
            norm_0: norm_0.map(whole),
            norm: whole(norm.expect("every family has a norm")),
            head_name: match card.family {
                Family::Bert => "cls.predictions.decoder".to_owned(),
                Family::Roberta => "lm_head.decoder".to_owned(),
                _ => "lm_head".to_owned(),
            },
            head: has_own.then(|| source.take("lm_head", Split::Rows, true)),
            transform: transform.map(|[bias, dense, _]| {
                let dense = source.take(dense, Split::Whole, true);
                [dense, source.take(bias, Split::Rows, false)]
            }),
        }
    }
}

/// The modules of block `layer` on one of `ranks` ranks that its experts are spread over.
pub(crate) fn block(card: &Card, layer: u32, ranks: u32) -> Block {
    let tensors = card.block();
    let prefix = card.block_prefix(layer);
    let source = Source { family: card.family, prefix, tensors: &tensors };
    let names = names(card.family);
    let heads = ["self_attn.q_norm", "self_attn.k_norm"].into_iter();
    let heads = heads.filter(|name| source.has(name));
    let norm = |name| source.take(name, Split::Whole, false);
    let mut qkv: Vec<Module> =
        names.qkv.iter().map(|name| source.take(name, Split::Rows, true)).collect();
    let [heads_q, heads_k] = [card.heads, card.kv_heads].map(u64::from);
    let heads_of = match qkv.len() {
        1 => [Some(heads_q + heads_k + card.kv_width()), None],
        _ => [Some(heads_q), Some(heads_k)],
    };
    for (part, heads) in qkv.iter_mut().zip(heads_of) {
        part.tensors.iter_mut().take(1).for_each(|tensor| tensor.heads = heads);
    }
    let mut out = source.take(names.out, Split::Columns, true);
    // A number per head that no module of its own has goes with what follows attention.
    if tensors.iter().any(|part| part.name == "self_attn.sinks") {
        let (rows, split) = (heads_q, Split::Rows);
        out.tensors.push(Tensor { rows, columns: 1, split, product: false, heads: None });
    }
    Block {
        layer,
        norm_1: norm(names.norms[0]),
        qkv,
        head_norms: heads.map(norm).collect(),
        out,
        norm_2: norm(names.norms[1]),
        feed: match card.experts {
            None => {
                Feed::Dense(source.feed_forward(names.up_proj, names.down_proj, names.activation))
            }
            Some(experts) => Feed::Mixture(mixture(card, experts, &source, ranks)),
        },
        attention: format!("{}{}", source.prefix, names.attention),
    }
}

fn mixture(card: &Card, experts: Experts, source: &Source<'_>, ranks: u32) -> Mixture {
    let (hidden, width) = (u64::from(card.hidden), u64::from(experts.ffn));
    let matrix = |name: String, rows, columns, split| {
        let mut tensors = vec![Tensor { rows, columns, split, product: true, heads: None }];
        if card.family == Family::GptOss {
            let split = if split == Split::Rows { Split::Rows } else { Split::Whole };
            tensors.push(Tensor { rows, columns: 1, split, product: false, heads: None });
        }
        Module { name, tensors, adapter: None, packs: true }
    };
    let one = |index: u32| {
        let path = format!("{}mlp.experts.{index}", source.prefix);
        FeedForward {
            up_proj: vec![matrix(format!("{path}.gate_up_proj"), 2 * width, hidden, Split::Rows)],
            down_proj: matrix(format!("{path}.down_proj"), hidden, width, Split::Columns),
            activation: format!("{path}.act_fn"),
            width: width.into(),
        }
    };
    let shared = source.has("mlp.shared_expert_gate").then(|| {
        let up_proj = ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"];
        let down_proj = "mlp.shared_expert.down_proj";
        let shared = source.feed_forward(&up_proj, down_proj, "mlp.shared_expert.act_fn");
        (shared, source.take("mlp.shared_expert_gate", Split::Whole, true))
    });
    let router = if source.has("mlp.router") { "mlp.router" } else { "mlp.gate" };
    let router = source.take(router, Split::Whole, true);
    Mixture { router, experts: (0..experts.count / ranks.max(1)).map(one).collect(), shared }
}

#[cfg(test)]
mod tests {
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
