//! The modules of a transformer that own parameters, family by family, with the names of their
//! published code, and along which axis tensor parallelism divides each tensor.
//!
//! A block is: norm, queries, keys and values, attention, output, norm, one or two wide matrices,
//! activation, narrow matrix; or a router and several such feed-forward parts. Queries, keys, values and
//! wide matrices are divided by output, the matrices behind them by input, tables by row
//! (Shoeybi et al., "Megatron-LM", 2019, section 3); norms and the biases behind a sum are whole.
//! Invariant: the parameters of all modules are those of the card.

use super::card::{Card, Experts, Family};

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
}

impl Tensor {
    /// The part of it that one of `ranks` has.
    pub(crate) fn local(self, ranks: u64) -> Tensor {
        match self.split {
            Split::Whole => self,
            Split::Rows => Tensor { rows: self.rows / ranks, ..self },
            Split::Columns => Tensor { columns: self.columns / ranks, ..self },
        }
    }

    pub(crate) fn parameters(self) -> u128 {
        u128::from(self.rows) * u128::from(self.columns)
    }
}

/// A module that owns parameters.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Its path in the model.
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
}

impl Part {
    /// Parameters that one of `ranks` of a tensor group has.
    pub(crate) fn parameters(&self, ranks: u64) -> u128 {
        self.tensors.iter().map(|tensor| tensor.local(ranks).parameters()).sum()
    }

    /// Those of them that tokens are multiplied with.
    pub(crate) fn products(&self, ranks: u64) -> u128 {
        let products = self.tensors.iter().filter(|tensor| tensor.product);
        products.map(|tensor| tensor.local(ranks).parameters()).sum()
    }
}

/// Wide matrices, activation, narrow matrix.
#[derive(Clone, Debug)]
pub(crate) struct FeedForward {
    /// One, or the gate and the one that it gates.
    pub(crate) wide: Vec<Part>,
    pub(crate) narrow: Part,
    pub(crate) activation: String,
    pub(crate) width: u64,
}

/// A router and what it chooses from.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    pub(crate) router: Part,
    pub(crate) experts: Vec<FeedForward>,
    pub(crate) shared: Vec<FeedForward>,
}

/// What follows attention in a block.
#[derive(Clone, Debug)]
pub(crate) enum Feed {
    Dense(FeedForward),
    Mixture(Mixture),
}

/// The modules of one block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) norm_1: Part,
    /// One matrix for queries, keys and values, or one each.
    pub(crate) qkv: Vec<Part>,
    pub(crate) out: Part,
    pub(crate) norm_2: Part,
    pub(crate) feed: Feed,
    /// The module of the attention itself, which has no parameters.
    pub(crate) attention: String,
}

/// The modules before and behind the blocks.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) tokens: Part,
    pub(crate) positions: Option<Part>,
    /// The norm behind the embedding, in a family that has one.
    pub(crate) norm_0: Option<Part>,
    pub(crate) norm: Part,
    pub(crate) head_name: String,
    /// `None` if it is tied.
    pub(crate) head: Option<Part>,
}

/// What the families call things.
struct Names {
    prefix: &'static str,
    block: &'static str,
    /// Tokens, positions, final norm.
    around: [&'static str; 3],
    /// Norm, norm, output, attention, activation.
    block_parts: [&'static str; 5],
    qkv: &'static [&'static str],
    wide: &'static [&'static str],
    narrow: &'static str,
}

const fn names(family: Family) -> Names {
    match family {
        Family::Gpt2 => Names {
            prefix: "transformer.",
            block: "h",
            around: ["wte", "wpe", "ln_f"],
            block_parts: ["ln_1", "ln_2", "attn.c_proj", "attn", "mlp.act"],
            qkv: &["attn.c_attn"],
            wide: &["mlp.c_fc"],
            narrow: "mlp.c_proj",
        },
        Family::Bloom => Names {
            prefix: "transformer.",
            block: "h",
            around: ["word_embeddings", "", "ln_f"],
            block_parts: [
                "input_layernorm",
                "post_attention_layernorm",
                "self_attention.dense",
                "self_attention",
                "mlp.gelu_impl",
            ],
            qkv: &["self_attention.query_key_value"],
            wide: &["mlp.dense_h_to_4h"],
            narrow: "mlp.dense_4h_to_h",
        },
        Family::Opt => Names {
            prefix: "model.decoder.",
            block: "layers",
            around: ["embed_tokens", "embed_positions", "final_layer_norm"],
            block_parts: [
                "self_attn_layer_norm",
                "final_layer_norm",
                "self_attn.out_proj",
                "self_attn",
                "activation_fn",
            ],
            qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            wide: &["fc1"],
            narrow: "fc2",
        },
        Family::Llama | Family::Mistral | Family::Mixtral | Family::Qwen => Names {
            prefix: "model.",
            block: "layers",
            around: ["embed_tokens", "", "norm"],
            block_parts: [
                "input_layernorm",
                "post_attention_layernorm",
                "self_attn.o_proj",
                "self_attn",
                "mlp.act_fn",
            ],
            qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            wide: &["mlp.gate_proj", "mlp.up_proj"],
            narrow: "mlp.down_proj",
        },
    }
}

/// Whether norms have a bias beside their scale, and matrices a bias.
const fn has_biases(family: Family) -> bool {
    matches!(family, Family::Gpt2 | Family::Opt | Family::Bloom)
}

/// Rows of the table of positions.
fn position_rows(card: &Card) -> u64 {
    match card.family {
        Family::Opt => u64::from(card.positions) + 2,
        Family::Gpt2 => u64::from(card.positions),
        _ => 0,
    }
}

fn vector(rows: u64, split: Split) -> Tensor {
    Tensor { rows, columns: 1, split, product: false }
}

fn norm(name: String, card: &Card) -> Part {
    let one = vector(u64::from(card.hidden), Split::Whole);
    let count = if has_biases(card.family) { 2 } else { 1 };
    Part { name, tensors: vec![one; count] }
}

/// A matrix of `to` outputs and `from` inputs.
fn linear(name: String, [from, to]: [u64; 2], split: Split, bias: bool) -> Part {
    let mut tensors = vec![Tensor { rows: to, columns: from, split, product: true }];
    if bias {
        // Behind a sum over ranks it is added once, so that every rank has all of it.
        let split = if split == Split::Rows { Split::Rows } else { Split::Whole };
        tensors.push(vector(to, split));
    }
    Part { name, tensors }
}

impl Around {
    pub(crate) fn new(card: &Card) -> Around {
        let Names { prefix, around: [tokens, positions, last], .. } = names(card.family);
        let (hidden, vocab) = (u64::from(card.hidden), u64::from(card.vocab));
        let table = |name: &str, rows, split| Part {
            name: format!("{prefix}{name}"),
            tensors: vec![Tensor { rows, columns: hidden, split, product: false }],
        };
        let rows = position_rows(card);
        let norm_0 = format!("{prefix}word_embeddings_layernorm");
        let head = || linear("lm_head".to_owned(), [hidden, vocab], Split::Rows, false);
        Around {
            tokens: table(tokens, vocab, Split::Rows),
            positions: (rows > 0).then(|| table(positions, rows, Split::Whole)),
            norm_0: (card.family == Family::Bloom).then(|| norm(norm_0, card)),
            norm: norm(format!("{prefix}{last}"), card),
            head_name: "lm_head".to_owned(),
            head: (!card.tied).then(head),
        }
    }
}

/// The modules of block `layer`.
pub(crate) fn block(card: &Card, layer: u32) -> Block {
    let all = names(card.family);
    let [norm_1, norm_2, out, attention, _] = all.block_parts;
    let name = |module: &str| format!("{}{}.{layer}.{module}", all.prefix, all.block);
    let [hidden, heads, kv_heads, head] =
        [card.hidden, card.heads, card.kv_heads, card.head_dim].map(u64::from);
    let (queries, keys) = (heads * head, kv_heads * head);
    let bias = has_biases(card.family);
    let widths =
        if all.qkv.len() == 1 { vec![queries + 2 * keys] } else { vec![queries, keys, keys] };
    let qkv = all.qkv.iter().zip(widths).map(|(module, width)| {
        linear(name(module), [hidden, width], Split::Rows, bias || card.qkv_bias)
    });
    Block {
        norm_1: norm(name(norm_1), card),
        qkv: qkv.collect(),
        out: linear(name(out), [queries, hidden], Split::Columns, bias),
        norm_2: norm(name(norm_2), card),
        feed: match card.experts {
            None => Feed::Dense(dense(card, &all, &name)),
            Some(experts) => Feed::Mixture(mixture(card, experts, &name)),
        },
        attention: name(attention),
    }
}

fn dense(card: &Card, all: &Names, name: &impl Fn(&str) -> String) -> FeedForward {
    let (hidden, ffn, bias) =
        (u64::from(card.hidden), u64::from(card.ffn), has_biases(card.family));
    let wide = all.wide.iter();
    FeedForward {
        wide: wide.map(|m| linear(name(m), [hidden, ffn], Split::Rows, bias)).collect(),
        narrow: linear(name(all.narrow), [ffn, hidden], Split::Columns, bias),
        activation: name(all.block_parts[4]),
        width: ffn,
    }
}

fn mixture(card: &Card, experts: Experts, name: &impl Fn(&str) -> String) -> Mixture {
    let (hidden, width) = (u64::from(card.hidden), u64::from(experts.ffn));
    let (place, wide, narrow) = match card.family {
        Family::Mixtral => ("block_sparse_moe", ["w1", "w3"], "w2"),
        _ => ("mlp", ["gate_proj", "up_proj"], "down_proj"),
    };
    let one = |path: String| FeedForward {
        wide: wide
            .iter()
            .map(|m| linear(name(&format!("{path}.{m}")), [hidden, width], Split::Rows, false))
            .collect(),
        narrow: linear(name(&format!("{path}.{narrow}")), [width, hidden], Split::Columns, false),
        activation: name(&format!("{path}.act_fn")),
        width,
    };
    let count = u64::from(experts.count);
    let router = linear(name(&format!("{place}.gate")), [hidden, count], Split::Whole, false);
    Mixture {
        router,
        experts: (0..experts.count).map(|e| one(format!("{place}.experts.{e}"))).collect(),
        shared: (0..experts.shared).map(|e| one(format!("{place}.shared_experts.{e}"))).collect(),
    }
}
