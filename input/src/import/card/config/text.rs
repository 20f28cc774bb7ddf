//! Configs of models that are more than a text model, and what saved configs of one type leave out.

use super::{Raw, TYPES};

/// The text model of a config that is none itself but has one, and a remark on what is left out.
pub(super) fn text_model(mut raw: Raw) -> (Raw, Option<String>) {
    let is_known = |name: &str| TYPES.iter().any(|(known, _)| *known == name);
    let outer = raw.model_type.clone().unwrap_or_default();
    let Some(mut text) = raw.text_config.take().filter(|_| !is_known(&outer)) else {
        return (with_defaults(raw), None);
    };
    if outer == "gemma3" {
        text.model_type.get_or_insert_with(|| "gemma3_text".to_owned());
    }
    if !text.model_type.as_deref().is_some_and(is_known) {
        return (raw, None);
    }
    text.tie_word_embeddings = text.tie_word_embeddings.or(raw.tie_word_embeddings);
    text.dtype = text.dtype.or(raw.dtype).or(raw.torch_dtype);
    text.quantization_config = text.quantization_config.or(raw.quantization_config);
    let remark = "the config is of more than a text model: what else it has, such as an encoder of \
                  pictures, is left out";
    (with_defaults(*text), Some(remark.to_owned()))
}

/// Configs of Gemma 3 are saved without what `Gemma3TextConfig` says anyway; MPT and DBRX
/// have words of their own.
fn with_defaults(mut raw: Raw) -> Raw {
    if raw.model_type.as_deref() == Some("gemma3_text") {
        raw.hidden_size.get_or_insert(2304);
        raw.intermediate_size.get_or_insert(9216);
        raw.num_hidden_layers.get_or_insert(26);
        raw.num_attention_heads.get_or_insert(8);
        raw.num_key_value_heads.get_or_insert(4);
        raw.vocab_size.get_or_insert(262_208);
        raw.sliding_window.get_or_insert(4096);
    }
    if let Some("mpt" | "dbrx") = raw.model_type.as_deref() {
        raw.hidden_size = raw.hidden_size.or(raw.d_model);
        raw.num_hidden_layers = raw.num_hidden_layers.or(raw.n_layers);
        raw.num_attention_heads = raw.num_attention_heads.or(raw.n_heads);
    }
    if raw.model_type.as_deref() == Some("dbrx") {
        let heads = raw.attn_config.as_ref().and_then(|of| of.kv_n_heads);
        raw.num_key_value_heads = heads.or(raw.num_key_value_heads).or(Some(1));
        if let Some(experts) = raw.ffn_config.take() {
            raw.intermediate_size = experts.ffn_hidden_size.or(Some(3584));
            raw.num_local_experts = experts.moe_num_experts.or(Some(4));
            raw.num_experts_per_tok = experts.moe_top_k.or(Some(1));
        }
    }
    raw
}
