//! Experts of a config, and keys and values that are compressed.

use super::Config;
use tiersim_workloads::transformer::card::{Experts, Latent};

/// What a class compresses queries to, unless it is said.
const fn queries(is_lite: bool) -> u32 {
    if is_lite { 768 } else { 1536 }
}

impl Config<'_> {
    /// Compressed keys and values, of a type that has no others.
    pub(super) fn latent(&mut self, model_type: &str) -> Option<Latent> {
        let raw = self.raw;
        let rank = self.number(&["kv_lora_rank"], &[raw.kv_lora_rank])?;
        self.number(&["qk_nope_head_dim"], &[raw.qk_nope_head_dim])?;
        let rotary = self.number(&["qk_rope_head_dim"], &[raw.qk_rope_head_dim])?;
        let value = self.number(&["v_head_dim"], &[raw.v_head_dim])?;
        let queries =
            raw.q_lora_rank.unwrap_or_else(|| Some(queries(model_type == "glm4_moe_lite")));
        Some(Latent { queries, rank, rotary, value })
    }

    /// Experts in all blocks but the first ones.
    fn deepseek_experts(&mut self, model_type: &str) -> Option<Experts> {
        let raw = self.raw;
        let count = self.number(&["n_routed_experts"], &[raw.n_routed_experts])?;
        let active = self.number(&["num_experts_per_tok"], &[raw.num_experts_per_tok])?;
        let ffn = self.number(&["moe_intermediate_size"], &[raw.moe_intermediate_size])?;
        let (own_shared, own_first) = match model_type {
            "deepseek_v2" => (2, 0),
            "glm4_moe" | "glm4_moe_lite" => (1, 1),
            "solar_open" => (1, 0),
            _ => (1, 3),
        };
        let shared = raw.n_shared_experts.unwrap_or(own_shared);
        let dense_first = raw.first_k_dense_replace.unwrap_or(own_first);
        Some(Experts { count, active, ffn, shared, dense_first })
    }

    pub(super) fn experts(&mut self, model_type: &str) -> Option<Option<Experts>> {
        let raw = self.raw;
        let has_first = ["deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"];
        if has_first.contains(&model_type) || matches!(model_type, "glm4_moe" | "solar_open") {
            return Some(Some(self.deepseek_experts(model_type)?));
        }
        let count = match model_type {
            "dbrx" | "mixtral" | "gpt_oss" | "minimax_m2" | "phimoe" | "granitemoe"
            | "llama4_text" => self.number(&["num_local_experts"], &[raw.num_local_experts]),
            "qwen2_moe" | "qwen3_moe" | "olmoe" => {
                self.number(&["num_experts"], &[raw.num_experts])
            }
            _ => return Some(None),
        };
        let ffn = match model_type {
            "qwen2_moe" | "qwen3_moe" => {
                self.number(&["moe_intermediate_size"], &[raw.moe_intermediate_size])
            }
            _ => self.number(&["intermediate_size"], &[raw.intermediate_size]),
        };
        let active = self.number(&["num_experts_per_tok"], &[raw.num_experts_per_tok]);
        let (count, ffn, active) = (count?, ffn?, active?);
        let shared = match raw.shared_expert_intermediate_size {
            Some(width) if model_type == "qwen2_moe" => {
                if ffn == 0 || !width.is_multiple_of(ffn) {
                    let rule = format!(
                        "a shared expert is as wide as some of the {ffn} wide experts, this one {width}"
                    );
                    let key = "shared_expert_intermediate_size";
                    self.fault(&[key], rule, "choose another model of the family");
                    return None;
                }
                width / ffn
            }
            _ if model_type == "llama4_text" => 1,
            _ => 0,
        };
        Some(Some(Experts { count, active, ffn, shared, dense_first: 0 }))
    }
}
