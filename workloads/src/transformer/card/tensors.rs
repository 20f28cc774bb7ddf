//! Every parameter of a model: name, shape, and what it is for.
//!
//! Names and order are those of the model classes of Hugging Face `transformers` (5.23), which the
//! tests compare with; there the experts of a block are two tensors. Files of weights store every
//! expert by itself and are older than that: [`Card::stored`] has their names.
//! A block is a list of [`CardTensor`]s. Invariant: blocks of a sort ([`Card::sorts`]) are alike.

mod llama;
mod parallel;

use super::{Card, Family};

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TensorKind {
    /// A table of tokens or positions, of which a token reads one row.
    Embedding,
    /// Queries, keys, values and the output of attention.
    Attention,
    /// The feed-forward part, or the experts that every token goes through.
    Mlp,
    /// Experts that the router chooses among.
    Expert,
    /// Scales and biases of a norm.
    Norm,
    /// From the residual stream to the vocabulary, where the embedding is not used for that.
    Head,
    /// What chooses the experts, or weighs the shared ones.
    Router,
}

impl TensorKind {
    /// The word used in tables.
    pub const fn word(self) -> &'static str {
        match self {
            TensorKind::Embedding => "embedding",
            TensorKind::Attention => "attention",
            TensorKind::Mlp => "mlp",
            TensorKind::Expert => "expert",
            TensorKind::Norm => "norm",
            TensorKind::Head => "head",
            TensorKind::Router => "router",
        }
    }
}

/// A tensor of a block, whichever block it is, or one around the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardTensor {
    /// Its name below the block's, such as `self_attn.q_proj.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// What it is for.
    pub kind: TensorKind,
}

impl CardTensor {
    /// Its numbers.
    pub fn numel(&self) -> u128 {
        self.shape.iter().map(|&size| u128::from(size)).product()
    }
}

/// One parameter of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// What it is for.
    pub kind: TensorKind,
    /// Which block it belongs to.
    pub block: Option<u32>,
}

impl Tensor {
    /// Its numbers.
    pub fn numel(&self) -> u64 {
        // Cards with problems may have any number.
        self.shape.iter().fold(1, |all, &size| u64::saturating_mul(all, size))
    }

    /// The module that owns it: its name without the last part.
    pub fn module(&self) -> &str {
        self.name.rsplit_once('.').map_or(self.name.as_str(), |(module, _)| module)
    }
}

/// Names of experts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Loaded,
    Stored,
}

/// Collects parts.
struct Parts(Vec<CardTensor>);

impl Parts {
    fn push(&mut self, name: impl Into<String>, shape: &[u64], kind: TensorKind) {
        self.0.push(CardTensor { name: name.into(), shape: shape.to_vec(), kind });
    }

    /// `NAME.weight` of `to` rows and, if it has one, `NAME.bias`.
    fn linear(&mut self, name: &str, (to, from): (u64, u64), bias: bool, kind: TensorKind) {
        self.push(format!("{name}.weight"), &[to, from], kind);
        if bias {
            self.push(format!("{name}.bias"), &[to], kind);
        }
    }

    /// As [`Parts::linear`] with a bias, stored the other way round: GPT-2's `Conv1D`.
    fn turned(&mut self, name: &str, (to, from): (u64, u64), kind: TensorKind) {
        self.push(format!("{name}.weight"), &[from, to], kind);
        self.push(format!("{name}.bias"), &[to], kind);
    }

    fn norm(&mut self, name: &str, width: u64, bias: bool) {
        self.push(format!("{name}.weight"), &[width], TensorKind::Norm);
        if bias {
            self.push(format!("{name}.bias"), &[width], TensorKind::Norm);
        }
    }
}

impl Family {
    /// What owns the bias of the logits, the matrix before them and the norm behind that, in a
    /// family whose head has those.
    pub(crate) const fn head_names(self) -> Option<[&'static str; 3]> {
        match self {
            Family::Bert => Some([
                "cls.predictions",
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
            ]),
            Family::Roberta => Some(["lm_head", "lm_head.dense", "lm_head.layer_norm"]),
            _ => None,
        }
    }

    /// What is called below a block what its experts lie in, and its router.
    pub(crate) const fn mixture_names(self) -> [&'static str; 2] {
        match self {
            Family::GptOss | Family::Phimoe => ["mlp", "mlp.router"],
            Family::Granitemoe => ["block_sparse_moe", "block_sparse_moe.router"],
            Family::Llama4 => ["feed_forward", "feed_forward.router"],
            Family::Dbrx => ["ffn", "ffn.router.layer"],
            _ => ["mlp", "mlp.gate"],
        }
    }
}

impl Card {
    /// Every parameter under the name and in the order that the model's class has; a tied head is
    /// none.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor> + use<> {
        self.laid_out(Layout::Loaded)
    }

    /// As [`Card::tensors`], with the names of files of weights: every expert by itself.
    pub fn stored(&self) -> impl Iterator<Item = Tensor> + use<> {
        self.laid_out(Layout::Stored)
    }

    /// The tensors of one block.
    pub fn block(&self, layer: u32) -> Vec<CardTensor> {
        self.block_as(Layout::Loaded, layer)
    }

    /// What the names of block `index` start with, such as `model.layers.0.`.
    pub fn block_prefix(&self, index: u32) -> String {
        let before = match self.family {
            Family::Gpt2 | Family::Bloom => "transformer.h.",
            Family::Falcon | Family::Falcon40b | Family::Gptj => "transformer.h.",
            Family::Mpt | Family::Dbrx => "transformer.blocks.",
            Family::GptNeox => "gpt_neox.layers.",
            Family::Opt => "model.decoder.layers.",
            Family::Bert => "bert.encoder.layer.",
            Family::Roberta => "roberta.encoder.layer.",
            _ => "model.layers.",
        };
        format!("{before}{index}.")
    }

    /// The tensors around the blocks: those before them and those behind, in the order of names.
    pub fn around(&self) -> (Vec<CardTensor>, Vec<CardTensor>) {
        let (hidden, vocab) = (u64::from(self.hidden), u64::from(self.vocab));
        let (mut before, mut behind) = (Parts(Vec::new()), Parts(Vec::new()));
        let table = TensorKind::Embedding;
        let positions = u64::from(self.positions);
        match self.family {
            Family::Gpt2 => {
                before.push("transformer.wte.weight", &[vocab, hidden], table);
                before.push("transformer.wpe.weight", &[positions, hidden], table);
                behind.norm("transformer.ln_f", hidden, true);
            }
            Family::Opt => {
                before.push("model.decoder.embed_tokens.weight", &[vocab, hidden], table);
                // The first two rows are for padding.
                let shape = [positions + 2, hidden];
                before.push("model.decoder.embed_positions.weight", &shape, table);
                before.norm("model.decoder.final_layer_norm", hidden, true);
            }
            Family::Bloom => {
                before.push("transformer.word_embeddings.weight", &[vocab, hidden], table);
                before.norm("transformer.word_embeddings_layernorm", hidden, true);
                behind.norm("transformer.ln_f", hidden, true);
            }
            Family::Falcon | Family::Falcon40b => {
                before.push("transformer.word_embeddings.weight", &[vocab, hidden], table);
                behind.norm("transformer.ln_f", hidden, true);
            }
            Family::Gptj => {
                before.push("transformer.wte.weight", &[vocab, hidden], table);
                behind.norm("transformer.ln_f", hidden, true);
            }
            Family::Mpt | Family::Dbrx => {
                before.push("transformer.wte.weight", &[vocab, hidden], table);
                behind.norm("transformer.norm_f", hidden, false);
            }
            Family::GptNeox => {
                before.push("gpt_neox.embed_in.weight", &[vocab, hidden], table);
                behind.norm("gpt_neox.final_layer_norm", hidden, true);
            }
            Family::Bert | Family::Roberta => {
                self.encoder(&mut before, &mut behind);
                return (before.0, behind.0);
            }
            _ => {
                before.push("model.embed_tokens.weight", &[vocab, hidden], table);
                let norm = if self.family == Family::Phi { "final_layernorm" } else { "norm" };
                behind.norm(&format!("model.{norm}"), hidden, self.family.norm_has_bias());
            }
        }
        if !self.tied {
            let bias = self.family.head_has_bias(self.qkv_bias);
            behind.linear("lm_head", (vocab, hidden), bias, TensorKind::Head);
        }
        (before.0, behind.0)
    }

    /// Embedding and head of an encoder, in the order of its class.
    fn encoder(&self, before: &mut Parts, behind: &mut Parts) {
        let (hidden, vocab) = (u64::from(self.hidden), u64::from(self.vocab));
        let at = format!("{}.embeddings", self.family.word());
        let mut table = |name: &str, rows: u64| {
            let name = format!("{at}.{name}");
            match name.ends_with("LayerNorm") {
                true => before.norm(&name, hidden, true),
                false => before.linear(&name, (rows, hidden), false, TensorKind::Embedding),
            }
        };
        table("word_embeddings", vocab);
        let positions = ("position_embeddings", u64::from(self.positions));
        let types = ("token_type_embeddings", u64::from(self.family.token_types()));
        let (norm, is_bert) = (("LayerNorm", hidden), self.family == Family::Bert);
        let order = if is_bert { [positions, types, norm] } else { [types, norm, positions] };
        order.into_iter().for_each(|(name, rows)| table(name, rows));
        let Some([bias, dense, norm]) = self.family.head_names() else { return };
        behind.push(format!("{bias}.bias"), &[vocab], TensorKind::Head);
        behind.linear(dense, (hidden, hidden), true, TensorKind::Head);
        behind.norm(norm, hidden, true);
    }

    fn laid_out(&self, layout: Layout) -> impl Iterator<Item = Tensor> + use<> {
        let (before, behind) = self.around();
        let sorts = self.sorts(self.layers).map(|(layer, _)| (layer, self.block_as(layout, layer)));
        let sorts: Vec<(u32, Vec<CardTensor>)> = sorts.collect();
        let prefixes = (0..self.layers).map({
            let card = Card { name: String::new(), ..self.clone() };
            move |index| (index, card.block_prefix(index))
        });
        let of_blocks = prefixes.flat_map(move |(index, prefix)| {
            let sort = sorts.iter().rev().find(|&&(from, _)| from <= index);
            let block = sort.map_or(&[][..], |(_, block)| block);
            let named = block.iter().map(|part| Tensor {
                name: format!("{prefix}{}", part.name),
                shape: part.shape.clone(),
                kind: part.kind,
                block: Some(index),
            });
            named.collect::<Vec<_>>()
        });
        let around = |CardTensor { name, shape, kind }: CardTensor| Tensor {
            name,
            shape,
            kind,
            block: None,
        };
        before.into_iter().map(around).chain(of_blocks).chain(behind.into_iter().map(around))
    }

    fn block_as(&self, layout: Layout, layer: u32) -> Vec<CardTensor> {
        let mut parts = Parts(Vec::new());
        match self.family {
            Family::Gpt2 => self.gpt2(&mut parts),
            Family::Opt => self.opt(&mut parts),
            Family::Bloom => self.bloom(&mut parts),
            Family::Bert | Family::Roberta => self.bert(&mut parts),
            Family::GptNeox => self.gpt_neox(&mut parts),
            Family::Falcon | Family::Falcon40b => self.falcon(&mut parts),
            Family::Phi => self.phi(&mut parts),
            Family::Gptj => self.gptj(&mut parts),
            Family::Mpt => self.mpt(&mut parts),
            Family::Dbrx => self.dbrx(&mut parts),
            _ => self.llama(&mut parts, layout, layer),
        }
        parts.0
    }

    fn gpt2(&self, parts: &mut Parts) {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        let (attention, mlp) = (TensorKind::Attention, TensorKind::Mlp);
        parts.norm("ln_1", hidden, true);
        parts.turned("attn.c_attn", (3 * hidden, hidden), attention);
        parts.turned("attn.c_proj", (hidden, hidden), attention);
        parts.norm("ln_2", hidden, true);
        parts.turned("mlp.c_fc", (ffn, hidden), mlp);
        parts.turned("mlp.c_proj", (hidden, ffn), mlp);
    }

    fn opt(&self, parts: &mut Parts) {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        for name in ["k_proj", "v_proj", "q_proj", "out_proj"] {
            let name = format!("self_attn.{name}");
            parts.linear(&name, (hidden, hidden), true, TensorKind::Attention);
        }
        parts.norm("self_attn_layer_norm", hidden, true);
        parts.linear("fc1", (ffn, hidden), true, TensorKind::Mlp);
        parts.linear("fc2", (hidden, ffn), true, TensorKind::Mlp);
        parts.norm("final_layer_norm", hidden, true);
    }

    fn bloom(&self, parts: &mut Parts) {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        let (attention, mlp) = (TensorKind::Attention, TensorKind::Mlp);
        parts.norm("input_layernorm", hidden, true);
        parts.linear("self_attention.query_key_value", (3 * hidden, hidden), true, attention);
        parts.linear("self_attention.dense", (hidden, hidden), true, attention);
        parts.norm("post_attention_layernorm", hidden, true);
        parts.linear("mlp.dense_h_to_4h", (ffn, hidden), true, mlp);
        parts.linear("mlp.dense_4h_to_h", (hidden, ffn), true, mlp);
    }

    fn mpt(&self, parts: &mut Parts) {
        let hidden = u64::from(self.hidden);
        parts.norm("norm_1", hidden, false);
        parts.linear("attn.Wqkv", (3 * hidden, hidden), false, TensorKind::Attention);
        parts.linear("attn.out_proj", (hidden, hidden), false, TensorKind::Attention);
        parts.norm("norm_2", hidden, false);
        self.two_matrices(parts, ["ffn.up_proj", "ffn.down_proj"], false);
    }

    /// The experts of a block stand below each other, in files too.
    fn dbrx(&self, parts: &mut Parts) {
        let (hidden, queries) = (u64::from(self.hidden), self.q_width());
        let (attention, all) = (TensorKind::Attention, queries + 2 * self.kv_width());
        parts.norm("norm_attn_norm.norm_1", hidden, false);
        parts.linear("norm_attn_norm.attn.Wqkv", (all, hidden), false, attention);
        parts.linear("norm_attn_norm.attn.out_proj", (hidden, queries), false, attention);
        parts.norm("norm_attn_norm.norm_2", hidden, false);
        let Some(experts) = self.experts else { return };
        let [at, router] = self.family.mixture_names();
        let count = u64::from(experts.count);
        parts.linear(router, (count, hidden), false, TensorKind::Router);
        for name in ["w1", "v1", "w2"] {
            let shape = [count * u64::from(experts.ffn), hidden];
            parts.push(format!("{at}.experts.mlp.{name}"), &shape, TensorKind::Expert);
        }
    }

    fn bert(&self, parts: &mut Parts) {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        let (attention, mlp) = (TensorKind::Attention, TensorKind::Mlp);
        for name in ["self.query", "self.key", "self.value", "output.dense"] {
            parts.linear(&format!("attention.{name}"), (hidden, hidden), true, attention);
        }
        parts.norm("attention.output.LayerNorm", hidden, true);
        parts.linear("intermediate.dense", (ffn, hidden), true, mlp);
        parts.linear("output.dense", (hidden, ffn), true, mlp);
        parts.norm("output.LayerNorm", hidden, true);
    }
}
