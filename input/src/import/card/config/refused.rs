//! What a config says that a card cannot: each is refused, with its place.
//!
//! Invariant: what is not refused changes neither tensors nor what is computed of them.

use super::Config;

impl Config<'_> {
    pub(super) fn refuse_what_a_card_cannot_say(&mut self, model_type: &str) {
        let raw = self.raw;
        match model_type {
            "gpt2" => {
                let why = "only decoders by themselves are";
                self.only("add_cross_attention", &raw.add_cross_attention, false, why);
            }
            "opt" => {
                let why =
                    "norms stand before attention and the feed-forward part (OPT-350M differs)";
                self.only("do_layer_norm_before", &raw.do_layer_norm_before, true, why);
                if let (Some(hidden), Some(_)) = (raw.hidden_size, raw.word_embed_proj_dim) {
                    let why = "the embedding is as wide as the blocks (OPT-350M's is not)";
                    self.only("word_embed_proj_dim", &raw.word_embed_proj_dim, hidden, why);
                }
                self.only("enable_bias", &raw.enable_bias, true, "matrices have biases");
                let why = "norms have scales and biases";
                let affine = "layer_norm_elementwise_affine";
                self.only(affine, &raw.layer_norm_elementwise_affine, true, why);
                let (key, why) = ("_remove_final_layer_norm", "there is a norm behind the blocks");
                self.only(key, &raw.remove_final_layer_norm, false, why);
            }
            "bert" | "roberta" => {
                let why = "only encoders by themselves are";
                self.only("is_decoder", &raw.is_decoder, false, why);
                self.only("add_cross_attention", &raw.add_cross_attention, false, why);
                let types = if model_type == "bert" { 2 } else { 1 };
                let why = if types == 2 { "BERT has two" } else { "RoBERTa has one" };
                self.only("type_vocab_size", &raw.type_vocab_size, types, why);
                let why = "the activation is GeLU by the error function";
                self.only("hidden_act", &raw.hidden_act, "gelu".to_owned(), why);
                let why = "the head uses the embedding's matrix";
                self.only("tie_word_embeddings", &raw.tie_word_embeddings, true, why);
            }
            "llama" | "granite" | "smollm3" | "arcee" | "nemotron" => {
                let why = "the feed-forward part has no biases";
                self.only("mlp_bias", &raw.mlp_bias, false, why);
            }
            "gemma" | "gemma2" | "gemma3_text" => {
                let why = "queries, keys and values have no biases";
                self.only("attention_bias", &raw.attention_bias, false, why);
            }
            "gpt_oss" => {
                let why = "queries, keys and values have biases";
                self.only("attention_bias", &raw.attention_bias, true, why);
            }
            "qwen3" | "qwen3_moe" => {
                let why = "queries and keys have norms and no biases";
                self.only("attention_bias", &raw.attention_bias, false, why);
            }
            "deepseek_v2" | "deepseek_v3" | "kimi_k2" | "glm4_moe_lite" => {
                let why = "queries, keys and values have no biases";
                self.only("attention_bias", &raw.attention_bias, false, why);
                let why = "every block behind the first ones has experts";
                self.only("moe_layer_freq", &raw.moe_layer_freq, 1, why);
            }
            "gpt_neox" => {
                let why = "attention and the feed-forward part stand side by side";
                self.only("use_parallel_residual", &raw.use_parallel_residual, true, why);
                self.only("attention_bias", &raw.attention_bias, true, "matrices have biases");
            }
            "falcon" => {
                let why = "attention and the feed-forward part stand side by side";
                self.only("parallel_attn", &raw.parallel_attn, true, why);
                self.only("alibi", &raw.alibi, false, "queries and keys are turned by position");
                self.only("bias", &raw.bias, false, "matrices have no biases");
            }
            "phi" => {
                self.only("qk_layernorm", &raw.qk_layernorm, false, "heads have no norms");
                if let Some(heads) = raw.num_attention_heads {
                    let why = "every head has its own keys and values";
                    self.only("num_key_value_heads", &raw.num_key_value_heads, heads, why);
                }
            }
            "stablelm" => {
                self.only("qk_layernorm", &raw.qk_layernorm, false, "heads have no norms");
                let why = "the feed-forward part stands behind attention";
                self.only("use_parallel_residual", &raw.use_parallel_residual, false, why);
            }
            "starcoder2" => self.only("use_bias", &raw.use_bias, true, "matrices have biases"),
            "ernie4_5" => self.only("use_bias", &raw.use_bias, false, "matrices have no biases"),
            "cohere" | "cohere2" | "olmo2" | "olmo3" | "olmoe" => {
                let why = "queries, keys and values have no biases";
                self.only("attention_bias", &raw.attention_bias, false, why);
            }
            "seed_oss" => {
                let why = "what attention gives has no bias";
                self.only("attention_out_bias", &raw.attention_out_bias, false, why);
                self.only("mlp_bias", &raw.mlp_bias, false, "the feed-forward part has none");
            }
            "llama4_text" => {
                let why = "every block has experts (Llama 4 Maverick's second blocks alone)";
                match &raw.moe_layers {
                    Some(_) => {
                        let all = (0..raw.num_hidden_layers.unwrap_or(0)).collect();
                        self.only("moe_layers", &raw.moe_layers, all, why);
                    }
                    None => {
                        let step = "interleave_moe_layer_step";
                        self.only(step, &raw.interleave_moe_layer_step, 1, why);
                    }
                }
                self.only("use_qk_norm", &raw.use_qk_norm, true, "queries and keys have norms");
            }
            "mpt" => {
                self.only("no_bias", &raw.no_bias, true, "matrices and norms have no biases");
                let why = "the feed-forward part is four times as wide";
                self.only("expansion_ratio", &raw.expansion_ratio, 4.0, why);
                if let Some(of) = &raw.attn_config {
                    self.only("alibi", &of.alibi, true, "positions are ALiBi's");
                    let why = "every head has its own keys and values";
                    self.only("attn_type", &of.attn_type, "multihead_attention".to_owned(), why);
                    self.only("qk_ln", &of.qk_ln, false, "queries and keys have no norms");
                }
            }
            "phimoe" => {
                let (head, attention) = (raw.lm_head_bias, raw.attention_bias);
                let why = "the head has a bias where attention has biases, and none otherwise";
                let biased = attention.unwrap_or(false);
                self.only("lm_head_bias", &Some(head.unwrap_or(false)), biased, why);
            }
            "minimax_m2" => {
                self.only("use_qk_norm", &raw.use_qk_norm, true, "queries and keys have norms");
            }
            "qwen2_moe" => {
                let why = "queries, keys and values have biases";
                self.only("qkv_bias", &raw.qkv_bias, true, why);
            }
            _ => {}
        }
        if matches!(model_type, "arcee" | "nemotron") {
            let why = "the activation is the square of ReLU";
            self.only("hidden_act", &raw.hidden_act, "relu2".to_owned(), why);
        }
        if model_type == "smollm3" {
            let why = "every token attends to all before it";
            self.only("use_sliding_window", &raw.use_sliding_window, false, why);
        }
        if matches!(model_type, "qwen2_moe" | "qwen3_moe") {
            let why = "every block has experts";
            self.only("decoder_sparse_step", &raw.decoder_sparse_step, 1, why);
            self.only("mlp_only_layers", &raw.mlp_only_layers, Vec::new(), why);
        }
    }
}
