//! Experts of a config, and keys and values that are compressed.

use super::Config;
use tiersim_workloads::transformer::card::{Experts, Latent};

/// What the class compresses queries to, unless it is said.
const QUERIES: u32 = 1536;

impl Config<'_> {
    /// Compressed keys and values, of a type that has no others.
    pub(super) fn latent(&mut self) -> Option<Latent> {
        let raw = self.raw;
        let rank = self.number(&["kv_lora_rank"], &[raw.kv_lora_rank])?;
        self.number(&["qk_nope_head_dim"], &[raw.qk_nope_head_dim])?;
        let rotary = self.number(&["qk_rope_head_dim"], &[raw.qk_rope_head_dim])?;
        let value = self.number(&["v_head_dim"], &[raw.v_head_dim])?;
        let queries = raw.q_lora_rank.unwrap_or(Some(QUERIES));
        Some(Latent { queries, rank, rotary, value })
    }

    /// Experts in all blocks but the first ones.
    fn deepseek_experts(&mut self, model_type: &str) -> Option<Experts> {
        let raw = self.raw;
        let count = self.number(&["n_routed_experts"], &[raw.n_routed_experts])?;
        let active = self.number(&["num_experts_per_tok"], &[raw.num_experts_per_tok])?;
        let ffn = self.number(&["moe_intermediate_size"], &[raw.moe_intermediate_size])?;
        let (own_shared, own_first) = if model_type == "deepseek_v2" { (2, 0) } else { (1, 3) };
        let shared = raw.n_shared_experts.unwrap_or(own_shared);
        let dense_first = raw.first_k_dense_replace.unwrap_or(own_first);
        Some(Experts { count, active, ffn, shared, dense_first })
    }

    pub(super) fn experts(&mut self, model_type: &str) -> Option<Option<Experts>> {
        let raw = self.raw;
        if matches!(model_type, "deepseek_v2" | "deepseek_v3" | "kimi_k2") {
            return Some(Some(self.deepseek_experts(model_type)?));
        }
        let moe = matches!(model_type, "mixtral" | "gpt_oss" | "qwen2_moe" | "qwen3_moe");
        if !moe {
            return Some(None);
        }
        let (count, ffn) = if matches!(model_type, "mixtral" | "gpt_oss") {
            (
                self.number(&["num_local_experts"], &[raw.num_local_experts]),
                self.number(&["intermediate_size"], &[raw.intermediate_size]),
            )
        } else {
            (
                self.number(&["num_experts"], &[raw.num_experts]),
                self.number(&["moe_intermediate_size"], &[raw.moe_intermediate_size]),
            )
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
            _ => 0,
        };
        Some(Some(Experts { count, active, ffn, shared, dense_first: 0 }))
    }
}
