//! The modules that own parameters, family by family, with the names of their published code.
//!
//! A block is: norm, queries with keys and values, attention, output, norm, one or two wide
//! matrices, activation, narrow matrix. The families differ in names, biases and norms only.

use super::{Family, Layered};

/// A module that owns parameters.
#[derive(Clone, Debug)]
pub(super) struct Module {
    /// Its path in the model.
    pub(super) name: String,
    /// Parameters of its matrix: tokens are multiplied with them.
    pub(super) matrix: u64,
    /// Other parameters: biases, norms, rows that are looked up.
    pub(super) other: u64,
}

impl Module {
    pub(super) fn parameters(&self) -> u64 {
        self.matrix + self.other
    }
}

/// One block: of each module that owns parameters an `M`, of those that own none an `N`.
#[derive(Clone, Debug)]
pub(super) struct Block<M, N> {
    pub(super) norm_1: M,
    pub(super) qkv: M,
    pub(super) out: M,
    pub(super) norm_2: M,
    /// One wide matrix, or the gate and the one that it gates.
    pub(super) up_proj: Vec<M>,
    pub(super) down_proj: M,
    pub(super) attention: N,
    pub(super) activation: N,
}

impl<M, N> Block<M, N> {
    /// Those that own parameters, in forward order.
    pub(super) fn modules(&self) -> impl Iterator<Item = &M> {
        let first = [&self.norm_1, &self.qkv, &self.out, &self.norm_2];
        first.into_iter().chain(&self.up_proj).chain([&self.down_proj])
    }

    pub(super) fn modules_mut(&mut self) -> impl Iterator<Item = &mut M> {
        let first = [&mut self.norm_1, &mut self.qkv, &mut self.out, &mut self.norm_2];
        first.into_iter().chain(&mut self.up_proj).chain([&mut self.down_proj])
    }
}

/// The modules before and after the blocks.
#[derive(Clone, Debug)]
pub(super) struct EmbeddingAndHead {
    pub(super) tokens: Module,
    pub(super) positions: Option<Module>,
    pub(super) norm: Module,
    /// Without parameters if it is tied.
    pub(super) head: Module,
}

impl EmbeddingAndHead {
    pub(super) fn new(shape: &Layered) -> EmbeddingAndHead {
        let hidden = u64::from(shape.hidden);
        let rows = u64::from(shape.vocab) * hidden;
        let [tokens, norm] = match shape.family {
            Family::Gpt2 => ["wte", "ln_f"],
            Family::Llama => ["embed_tokens", "norm"],
        };
        let positions = u64::from(shape.positions) * hidden;
        let head = if shape.tied { 0 } else { rows };
        EmbeddingAndHead {
            tokens: part(tokens.into(), 0, rows),
            positions: (positions > 0).then(|| part("wpe".into(), 0, positions)),
            norm: part(norm.into(), 0, norm_parameters(shape)),
            head: part("lm_head".into(), head, 0),
        }
    }

    /// Those that own parameters.
    pub(super) fn modules(&self) -> impl Iterator<Item = &Module> {
        let all = [Some(&self.tokens), self.positions.as_ref(), Some(&self.norm), Some(&self.head)];
        all.into_iter().flatten().filter(|part| part.parameters() > 0)
    }
}

/// The modules of block `layer`.
pub(super) fn layer(shape: &Layered, layer: u32) -> Block<Module, String> {
    let (hidden, ffn) = (u64::from(shape.hidden), u64::from(shape.ffn));
    let qkv = hidden + 2 * shape.kv_width();
    let bias = |width| if shape.family == Family::Gpt2 { width } else { 0 };
    let [norm_1, to_qkv, out, norm_2, down_proj, attention, activation] = match shape.family {
        Family::Gpt2 => {
            ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_proj", "attn", "mlp.act"]
        }
        Family::Llama => [
            "input_layernorm",
            "self_attn.qkv_proj",
            "self_attn.o_proj",
            "post_attention_layernorm",
            "mlp.down_proj",
            "self_attn",
            "mlp.act_fn",
        ],
    };
    let block = match shape.family {
        Family::Gpt2 => "h",
        Family::Llama => "layers",
    };
    let name = |module: &str| format!("{block}.{layer}.{module}");
    let norm = |module| part(name(module), 0, norm_parameters(shape));
    let linear = |module, from, to| part(name(module), from * to, bias(to));
    let up_proj: &[&str] = match shape.family {
        Family::Gpt2 => &["mlp.c_fc"],
        Family::Llama => &["mlp.gate_proj", "mlp.up_proj"],
    };
    Block {
        norm_1: norm(norm_1),
        qkv: linear(to_qkv, hidden, qkv),
        out: linear(out, hidden, hidden),
        norm_2: norm(norm_2),
        up_proj: up_proj.iter().map(|module| linear(module, hidden, ffn)).collect(),
        down_proj: linear(down_proj, ffn, hidden),
        attention: name(attention),
        activation: name(activation),
    }
}

/// LayerNorm has a scale and a bias, RMSNorm a scale.
fn norm_parameters(shape: &Layered) -> u64 {
    match shape.family {
        Family::Gpt2 => 2 * u64::from(shape.hidden),
        Family::Llama => u64::from(shape.hidden),
    }
}

fn part(name: String, matrix: u64, other: u64) -> Module {
    Module { name, matrix, other }
}
