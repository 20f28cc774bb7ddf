//! What the makers' code calls the modules of a block, by family.

use crate::transformer::card::Family;

/// What the families call the modules of a block.
pub(super) struct Names {
    /// Norms before attention and before the feed-forward part, or behind their sums; where the
    /// family has fewer, none.
    pub(super) norms: [Option<&'static str>; 2],
    /// Norms behind attention and the feed-forward part, in a family that has them.
    pub(super) part_norms: &'static [&'static str],
    /// The module of attention, and what is below it.
    pub(super) attention: &'static str,
    pub(super) qkv: &'static [&'static str],
    pub(super) out: &'static str,
    pub(super) up_proj: &'static [&'static str],
    pub(super) down_proj: &'static str,
    pub(super) activation: &'static str,
}

pub(super) const fn names(family: Family) -> Names {
    match family {
        Family::Gpt2 => Names {
            norms: [Some("ln_1"), Some("ln_2")],
            part_norms: &[],
            attention: "attn",
            qkv: &["attn.c_attn"],
            out: "attn.c_proj",
            up_proj: &["mlp.c_fc"],
            down_proj: "mlp.c_proj",
            activation: "mlp.act",
        },
        Family::Bloom => Names {
            norms: [Some("input_layernorm"), Some("post_attention_layernorm")],
            part_norms: &[],
            attention: "self_attention",
            qkv: &["self_attention.query_key_value"],
            out: "self_attention.dense",
            up_proj: &["mlp.dense_h_to_4h"],
            down_proj: "mlp.dense_4h_to_h",
            activation: "mlp.gelu_impl",
        },
        Family::Opt => Names {
            norms: [Some("self_attn_layer_norm"), Some("final_layer_norm")],
            part_norms: &[],
            attention: "self_attn",
            qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
            out: "self_attn.out_proj",
            up_proj: &["fc1"],
            down_proj: "fc2",
            activation: "activation_fn",
        },
        Family::Bert | Family::Roberta => Names {
            norms: [Some("attention.output.LayerNorm"), Some("output.LayerNorm")],
            part_norms: &[],
            attention: "attention.self",
            qkv: &["attention.self.query", "attention.self.key", "attention.self.value"],
            out: "attention.output.dense",
            up_proj: &["intermediate.dense"],
            down_proj: "output.dense",
            activation: "intermediate.intermediate_act_fn",
        },
        Family::Gemma2 | Family::Gemma3 => Names {
            norms: [Some("input_layernorm"), Some("pre_feedforward_layernorm")],
            part_norms: &["post_attention_layernorm", "post_feedforward_layernorm"],
            ..LLAMA
        },
        Family::Glm4 => {
            Names { part_norms: &["post_self_attn_layernorm", "post_mlp_layernorm"], ..LLAMA }
        }
        Family::Olmo2 | Family::Exaone4 => Names {
            norms: [None, None],
            part_norms: &["post_attention_layernorm", "post_feedforward_layernorm"],
            ..LLAMA
        },
        Family::Cohere | Family::CohereNormed => {
            Names { norms: [Some("input_layernorm"), None], ..LLAMA }
        }
        Family::Starcoder2 => Names {
            up_proj: &["mlp.c_fc"],
            down_proj: "mlp.c_proj",
            activation: "mlp.act",
            ..LLAMA
        },
        Family::Arcee | Family::Nemotron => Names { up_proj: &["mlp.up_proj"], ..LLAMA },
        Family::GptNeox => Names {
            attention: "attention",
            qkv: &["attention.query_key_value"],
            out: "attention.dense",
            ..FALCON
        },
        Family::Falcon => Names { norms: [Some("input_layernorm"), None], ..FALCON },
        Family::Falcon40b => Names { norms: [Some("ln_attn"), Some("ln_mlp")], ..FALCON },
        Family::Dbrx => Names {
            norms: [Some("norm_attn_norm.norm_1"), Some("norm_attn_norm.norm_2")],
            attention: "norm_attn_norm.attn",
            qkv: &["norm_attn_norm.attn.Wqkv"],
            out: "norm_attn_norm.attn.out_proj",
            ..LLAMA
        },
        Family::Mpt => Names {
            norms: [Some("norm_1"), Some("norm_2")],
            part_norms: &[],
            attention: "attn",
            qkv: &["attn.Wqkv"],
            out: "attn.out_proj",
            up_proj: &["ffn.up_proj"],
            down_proj: "ffn.down_proj",
            activation: "ffn.act",
        },
        Family::Phi => Names {
            norms: [Some("input_layernorm"), None],
            out: "self_attn.dense",
            up_proj: &["mlp.fc1"],
            down_proj: "mlp.fc2",
            activation: "mlp.activation_fn",
            ..LLAMA
        },
        Family::Gptj => Names {
            norms: [Some("ln_1"), None],
            part_norms: &[],
            attention: "attn",
            qkv: &["attn.q_proj", "attn.k_proj", "attn.v_proj"],
            out: "attn.out_proj",
            up_proj: &["mlp.fc_in"],
            down_proj: "mlp.fc_out",
            activation: "mlp.act",
        },
        Family::Llama
        | Family::Mistral
        | Family::Mixtral
        | Family::Qwen
        | Family::GptOss
        | Family::Deepseek
        | Family::Glm4Moe
        | Family::Glm4MoeNormed
        | Family::Stablelm
        | Family::Olmoe
        | Family::Phimoe
        | Family::Granitemoe
        | Family::Llama4 => LLAMA,
    }
}

const LLAMA: Names = Names {
    norms: [Some("input_layernorm"), Some("post_attention_layernorm")],
    part_norms: &[],
    attention: "self_attn",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    out: "self_attn.o_proj",
    up_proj: &["mlp.gate_proj", "mlp.up_proj"],
    down_proj: "mlp.down_proj",
    activation: "mlp.act_fn",
};

const FALCON: Names = Names {
    norms: LLAMA.norms,
    part_norms: &[],
    attention: "self_attention",
    qkv: &["self_attention.query_key_value"],
    out: "self_attention.dense",
    up_proj: &["mlp.dense_h_to_4h"],
    down_proj: "mlp.dense_4h_to_h",
    activation: "mlp.act",
};
