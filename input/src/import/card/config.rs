//! `config.json` of Hugging Face: the dimensions of a model in the words of its family.
//!
//! Every field that says what the model is made of is read or, where the model then is made of
//! something else than a [`Card`] can say, refused. Everything else (token ids, rates of dropout)
//! is passed over. Defaults are those of the family's configuration class.

mod experts;
mod quantised;
mod refused;
mod shape;
mod text;
mod windows;

use super::ModelFiles;
use crate::json;
use crate::text::ron_text::shorten;
use crate::text::ron_tree::place_in;
use quantised::{RawQuantisation, quantised};
use serde::{Deserialize, Deserializer};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_workloads::transformer::card::{Card, Family};
use tiersim_workloads::transformer::format::Format;

/// Most bytes of a `config.json`.
const MAX_CONFIG: u64 = 1 << 20;

/// What is read.
#[derive(Debug, Deserialize)]
struct Raw {
    model_type: Option<String>,
    n_embd: Option<u32>,
    n_embed: Option<u32>,
    hidden_size: Option<u32>,
    d_model: Option<u32>,
    n_layer: Option<u32>,
    n_layers: Option<u32>,
    num_hidden_layers: Option<u32>,
    n_head: Option<u32>,
    n_heads: Option<u32>,
    num_attention_heads: Option<u32>,
    n_inner: Option<u32>,
    ffn_dim: Option<u32>,
    ffn_hidden_size: Option<u32>,
    intermediate_size: Option<u32>,
    num_key_value_heads: Option<u32>,
    num_kv_heads: Option<u32>,
    multi_query: Option<bool>,
    new_decoder_architecture: Option<bool>,
    num_ln_in_parallel_attn: Option<u32>,
    parallel_attn: Option<bool>,
    use_parallel_residual: Option<bool>,
    alibi: Option<bool>,
    bias: Option<bool>,
    no_bias: Option<bool>,
    expansion_ratio: Option<f64>,
    attn_config: Option<RawAttention>,
    ffn_config: Option<RawFeedForward>,
    use_bias: Option<bool>,
    use_qkv_bias: Option<bool>,
    attention_out_bias: Option<bool>,
    qk_layernorm: Option<bool>,
    use_qk_norm: Option<bool>,
    head_dim: Option<u32>,
    vocab_size: Option<u32>,
    n_positions: Option<u32>,
    max_position_embeddings: Option<u32>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    lm_head_bias: Option<bool>,
    qkv_bias: Option<bool>,
    num_local_experts: Option<u32>,
    num_experts: Option<u32>,
    num_experts_per_tok: Option<u32>,
    moe_intermediate_size: Option<u32>,
    shared_expert_intermediate_size: Option<u32>,
    n_routed_experts: Option<u32>,
    n_shared_experts: Option<u32>,
    first_k_dense_replace: Option<u32>,
    moe_layer_freq: Option<u32>,
    num_nextn_predict_layers: Option<u32>,
    /// Queries that are not compressed are said to be: `null`.
    #[serde(default, deserialize_with = "said")]
    q_lora_rank: Option<Option<u32>>,
    kv_lora_rank: Option<u32>,
    qk_nope_head_dim: Option<u32>,
    qk_rope_head_dim: Option<u32>,
    v_head_dim: Option<u32>,
    decoder_sparse_step: Option<u32>,
    mlp_only_layers: Option<Vec<u32>>,
    sliding_window: Option<u32>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<u32>,
    layer_types: Option<Vec<String>>,
    /// As with `q_lora_rank`.
    #[serde(default, deserialize_with = "said")]
    attention_chunk_size: Option<Option<u32>>,
    no_rope_layers: Option<Vec<u32>>,
    no_rope_layer_interval: Option<u32>,
    moe_layers: Option<Vec<u32>>,
    interleave_moe_layer_step: Option<u32>,
    #[serde(alias = "_sliding_window_pattern", default, deserialize_with = "repeats")]
    sliding_window_pattern: Option<u32>,
    do_layer_norm_before: Option<bool>,
    word_embed_proj_dim: Option<u32>,
    enable_bias: Option<bool>,
    layer_norm_elementwise_affine: Option<bool>,
    #[serde(rename = "_remove_final_layer_norm")]
    remove_final_layer_norm: Option<bool>,
    add_cross_attention: Option<bool>,
    is_decoder: Option<bool>,
    type_vocab_size: Option<u32>,
    hidden_act: Option<String>,
    torch_dtype: Option<String>,
    dtype: Option<String>,
    quantization_config: Option<RawQuantisation>,
    text_config: Option<Box<Raw>>,
}

/// What MPT and DBRX say of attention.
#[derive(Debug, Deserialize)]
struct RawAttention {
    alibi: Option<bool>,
    attn_type: Option<String>,
    qk_ln: Option<bool>,
    kv_n_heads: Option<u32>,
}

/// What DBRX says of experts.
#[derive(Debug, Deserialize)]
struct RawFeedForward {
    ffn_hidden_size: Option<u32>,
    moe_num_experts: Option<u32>,
    moe_top_k: Option<u32>,
}

/// A value that is there, `null` too.
fn said<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// How many layers repeat: a number, or a letter for each, such as `LLLG`.
fn repeats<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Pattern {
        Number(u32),
        Letters(String),
    }
    Ok(Option::deserialize(value)?.and_then(|pattern| match pattern {
        Pattern::Number(number) => Some(number),
        Pattern::Letters(letters) => u32::try_from(letters.len()).ok(),
    }))
}

/// The types of model that are read, with their families; [`Config::family`] tells those apart
/// that a type has several of.
const TYPES: [(&str, Family); 50] = [
    ("gpt2", Family::Gpt2),
    ("llama", Family::Llama),
    ("gemma", Family::Llama),
    ("gemma2", Family::Gemma2),
    ("gemma3_text", Family::Gemma3),
    ("granite", Family::Llama),
    ("phi3", Family::Llama),
    ("smollm3", Family::Llama),
    ("mistral", Family::Mistral),
    ("mixtral", Family::Mixtral),
    ("qwen2", Family::Qwen),
    ("qwen2_moe", Family::Qwen),
    ("qwen3", Family::Qwen),
    ("qwen3_moe", Family::Qwen),
    ("glm", Family::Qwen),
    ("glm4", Family::Glm4),
    ("opt", Family::Opt),
    ("bloom", Family::Bloom),
    ("bert", Family::Bert),
    ("roberta", Family::Roberta),
    ("gpt_oss", Family::GptOss),
    ("deepseek_v2", Family::Deepseek),
    ("deepseek_v3", Family::Deepseek),
    ("kimi_k2", Family::Deepseek),
    ("glm4_moe_lite", Family::Deepseek),
    ("glm4_moe", Family::Glm4Moe),
    ("solar_open", Family::Glm4Moe),
    ("gpt_neox", Family::GptNeox),
    ("falcon", Family::Falcon),
    ("phi", Family::Phi),
    ("gptj", Family::Gptj),
    ("cohere", Family::Cohere),
    ("cohere2", Family::Cohere),
    ("starcoder2", Family::Starcoder2),
    ("stablelm", Family::Stablelm),
    ("olmo2", Family::Olmo2),
    ("olmo3", Family::Olmo2),
    ("exaone4", Family::Exaone4),
    ("olmoe", Family::Olmoe),
    ("minimax_m2", Family::Olmoe),
    ("seed_oss", Family::Qwen),
    ("ernie4_5", Family::Llama),
    ("ministral3", Family::Mistral),
    ("arcee", Family::Arcee),
    ("nemotron", Family::Nemotron),
    ("phimoe", Family::Phimoe),
    ("granitemoe", Family::Granitemoe),
    ("llama4_text", Family::Llama4),
    ("mpt", Family::Mpt),
    ("dbrx", Family::Dbrx),
];

/// Reads a config.
pub(super) fn read(path: &Path) -> Result<ModelFiles, Diagnostics> {
    let bytes = json::read(path, MAX_CONFIG, "check what it is")?;
    let raw: Raw = json::object(path, &bytes, "a config.json of Hugging Face is wanted")?;
    let (raw, left_out) = text::text_model(raw);
    let text = String::from_utf8_lossy(&bytes);
    let mut config = Config { path, text: &text, raw: &raw, problems: Diagnostics::default() };
    let mut remarks = Vec::from_iter(left_out);
    let card = config.card(name_of(path), &mut remarks);
    let Some(card) = card.filter(|_| config.problems.0.is_empty()) else {
        return Err(config.problems);
    };
    for problem in card.problems() {
        config.fault(keys_of(problem.field), problem.rule, problem.remedy);
    }
    let stored = raw.quantization_config.as_ref();
    let quantised = stored.and_then(|stored| quantised(stored, card.hidden));
    if stored.is_some() && quantised.is_none() {
        remarks.push(
            "the config says that weights are quantised: without the weights' own table they count \
             as unquantised"
                .to_owned(),
        );
    }
    let word = raw.dtype.as_ref().or(raw.torch_dtype.as_ref());
    let format = word.and_then(|word| format(word));
    config.problems.into_result(ModelFiles { card, format, quantised, bytes: None, remarks })
}

/// The file's name without `.json` and `.config`; of a plain `config.json` the folder's.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_suffix(".config").unwrap_or(&stem);
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let name = match (stem, folder) {
        ("config", Some(folder)) => folder.into_owned(),
        _ => stem.to_owned(),
    };
    // It stands in tables and messages.
    name.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

fn format(word: &str) -> Option<Format> {
    let word = word.strip_prefix("torch.").unwrap_or(word);
    Some(match word {
        "float32" => Format::Fp32,
        "float16" => Format::Fp16,
        "bfloat16" => Format::Bf16,
        "float8_e4m3fn" | "float8_e5m2" => Format::Fp8,
        "int8" | "uint8" => Format::Int8,
        _ => return None,
    })
}

/// What a field of a card may be called in a config.
fn keys_of(field: &str) -> &'static [&'static str] {
    match field {
        "layers" => &["n_layer", "num_hidden_layers"],
        "hidden" => &["n_embd", "n_embed", "hidden_size"],
        "ffn" => {
            &["n_inner", "ffn_dim", "ffn_hidden_size", "moe_intermediate_size", "intermediate_size"]
        }
        "heads" => &["n_head", "num_attention_heads"],
        "kv_heads" => &["num_key_value_heads", "num_kv_heads"],
        "head_dim" => &["head_dim", "n_head", "num_attention_heads"],
        "vocab" => &["vocab_size"],
        "positions" => &["n_positions", "max_position_embeddings"],
        "window" => &["sliding_window", "attention_chunk_size"],
        "full_attention_every" => {
            &["layer_types", "no_rope_layer_interval", "sliding_window_pattern", "sliding_window"]
        }
        "experts.count" => {
            &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"]
        }
        "experts.active" => &["num_experts_per_tok", "moe_top_k"],
        "experts.ffn" => &["moe_intermediate_size", "intermediate_size"],
        "experts.shared" => &["shared_expert_intermediate_size", "n_shared_experts"],
        "experts.dense_first" => &["first_k_dense_replace"],
        "latent.queries" => &["q_lora_rank"],
        "latent.rank" => &["kv_lora_rank"],
        "latent.rotary" => &["qk_rope_head_dim"],
        "latent.value" => &["v_head_dim"],
        _ => &["model_type"],
    }
}

/// What a type does beside what a block of Llama does, with the same tensors.
fn beside_llama(model_type: &str) -> Option<&'static str> {
    match model_type {
        "gemma" => Some("its gate is GeLU and its norms add one: eager kernels count as Llama's"),
        "gemma2" => Some("what it caps logits and scores with is left out"),
        "granitemoe" => Some("what it multiplies sums by is left out"),
        "granite" => Some("what it multiplies sums by is left out: eager kernels count as Llama's"),
        "olmo2" | "olmo3" | "olmoe" | "minimax_m2" => {
            Some("what ranks of a tensor group tell each other for norms of all heads is left out")
        }
        _ => None,
    }
}

struct Config<'a> {
    path: &'a Path,
    text: &'a str,
    raw: &'a Raw,
    problems: Diagnostics,
}

impl Config<'_> {
    /// A problem at the first of `keys` that the file has.
    fn fault(&mut self, keys: &[&str], rule: impl Into<String>, remedy: &str) {
        let at = |key: &&str| self.text.find(&format!("\"{key}\""));
        let place = keys.iter().find_map(at).map(|offset| place_in(self.text, offset));
        self.problems.push(self.path, place, rule, "", remedy);
    }

    /// The one of the fields that is there.
    fn number(&mut self, keys: &[&str], values: &[Option<u32>]) -> Option<u32> {
        let there: Vec<u32> = values.iter().copied().flatten().collect();
        let Some(&first) = there.first() else {
            let rule = format!("a config of this type has `{}`", keys.join("` or `"));
            self.fault(&["model_type"], rule, "add it; it is never left out of a saved config");
            return None;
        };
        if there.iter().any(|&other| other != first) {
            let rule = format!("`{}` say different things: {there:?}", keys.join("` and `"));
            self.fault(keys, rule, "keep one of them");
            return None;
        }
        Some(first)
    }

    /// Refuses a field with another value than the one that a card can say.
    fn only<T: PartialEq + std::fmt::Debug>(
        &mut self,
        key: &str,
        value: &Option<T>,
        only: T,
        why: &str,
    ) {
        if let Some(value) = value.as_ref().filter(|value| **value != only) {
            let shown = shorten(&format!("{value:?}"));
            let rule = format!("`{key}` {shown} is not supported: {why}");
            self.fault(&[key], rule, "choose another model of the family");
        }
    }

    fn card(&mut self, name: String, remarks: &mut Vec<String>) -> Option<Card> {
        let raw = self.raw;
        let names = TYPES.map(|(name, _)| name).join(", ");
        let Some(model_type) = raw.model_type.as_deref() else {
            let remedy =
                format!("add it, such as `\"model_type\": \"llama\"`; known types: {names}");
            self.problems.push(self.path, None, "a config has `model_type`", "", remedy);
            return None;
        };
        let Some(&(model_type, family)) = TYPES.iter().find(|(name, _)| *name == model_type) else {
            let rule = format!("this `model_type` is not known: {}", shorten(model_type));
            self.fault(&["model_type"], rule, &format!("known: {names}"));
            return None;
        };
        self.refuse_what_a_card_cannot_say(model_type);
        let family = self.family(model_type, family);
        let layers = self.number(keys_of("layers"), &[raw.n_layer, raw.num_hidden_layers]);
        let hidden = self.number(keys_of("hidden"), &[raw.n_embd, raw.n_embed, raw.hidden_size]);
        let heads = self.number(keys_of("heads"), &[raw.n_head, raw.num_attention_heads]);
        let vocab = self.number(keys_of("vocab"), &[raw.vocab_size]);
        let positions = match family.learns_positions() {
            true => {
                self.number(keys_of("positions"), &[raw.n_positions, raw.max_position_embeddings])?
            }
            false => 0,
        };
        let (layers, hidden, heads, vocab) = (layers?, hidden?, heads?, vocab?);
        let experts = self.experts(model_type)?;
        let ffn = match experts {
            Some(experts) if experts.dense_first == 0 => experts.ffn,
            _ => self.ffn(family, hidden)?,
        };
        let latent = match family {
            Family::Deepseek => Some(self.latent(model_type)?),
            _ => None,
        };
        let (window, full_attention_every) = self.windows(model_type, layers, remarks)?;
        remarks.extend(beside_llama(model_type).map(str::to_owned));
        if let Some(blocks) = raw.num_nextn_predict_layers.filter(|&blocks| blocks > 0) {
            remarks.push(format!(
                "blocks behind the last one that predict further tokens are left out: {blocks}"
            ));
        }
        Some(Card {
            name,
            family,
            layers,
            hidden,
            ffn,
            heads,
            kv_heads: self.kv_heads(family, heads)?,
            head_dim: self.head_dim((model_type, family), hidden, heads)?,
            vocab,
            positions,
            tied: raw.tie_word_embeddings.unwrap_or_else(|| {
                let tied = ["gemma", "gemma2", "gemma3_text", "smollm3", "ernie4_5"];
                family.ties_head() || tied.contains(&model_type)
            }),
            qkv_bias: match model_type {
                "llama" | "granite" | "smollm3" | "glm4_moe" | "solar_open" | "arcee"
                | "nemotron" | "phimoe" | "granitemoe" | "llama4_text" => {
                    raw.attention_bias.unwrap_or(false)
                }
                "glm" | "glm4" | "seed_oss" => raw.attention_bias.unwrap_or(true),
                "stablelm" => raw.use_qkv_bias.unwrap_or(false),
                "qwen2" | "qwen2_moe" => true,
                _ => family.has_qkv_bias(),
            },
            experts,
            window,
            full_attention_every,
            latent,
        })
    }
}
