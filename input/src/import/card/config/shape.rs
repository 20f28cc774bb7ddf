//! Widths of a config, which its class leaves out in ways of its own, and the family where a type has
//! several.

use super::{Config, keys_of};
use tiersim_workloads::transformer::card::Family;

impl Config<'_> {
    /// The family of a type that has several.
    pub(super) fn family(&self, model_type: &str, first: Family) -> Family {
        let is_new = self.raw.new_decoder_architecture == Some(true);
        let norms = self.raw.num_ln_in_parallel_attn.unwrap_or(2);
        let normed = self.raw.use_qk_norm == Some(true);
        match model_type {
            "falcon" if is_new && norms == 2 => Family::Falcon40b,
            "cohere" if normed => Family::CohereNormed,
            "glm4_moe" if normed => Family::Glm4MoeNormed,
            _ => first,
        }
    }

    pub(super) fn ffn(&mut self, family: Family, hidden: u32) -> Option<u32> {
        let raw = self.raw;
        let usual = hidden.saturating_mul(4);
        match family {
            // Always four times as wide, or unless it says otherwise.
            Family::Bloom | Family::Mpt => Some(usual),
            Family::Gpt2 | Family::Gptj => Some(raw.n_inner.unwrap_or(usual)),
            Family::Falcon | Family::Falcon40b => Some(raw.ffn_hidden_size.unwrap_or(usual)),
            Family::Opt => self.number(&["ffn_dim"], &[raw.ffn_dim]),
            _ => self.number(&["intermediate_size"], &[raw.intermediate_size]),
        }
    }

    pub(super) fn kv_heads(&mut self, family: Family, heads: u32) -> Option<u32> {
        let said = self.raw.num_key_value_heads;
        match family {
            _ if family.has_plain_heads() => Some(heads),
            Family::Falcon if self.raw.new_decoder_architecture != Some(true) => {
                Some(if self.raw.multi_query == Some(false) { heads } else { 1 })
            }
            Family::Falcon | Family::Falcon40b => Some(self.raw.num_kv_heads.unwrap_or(heads)),
            Family::Llama | Family::Olmo2 | Family::Olmoe | Family::Cohere => {
                Some(said.unwrap_or(heads))
            }
            Family::Arcee | Family::Nemotron | Family::Granitemoe => Some(said.unwrap_or(heads)),
            _ => self.number(keys_of("kv_heads"), &[said]),
        }
    }

    pub(super) fn head_dim(
        &mut self,
        (model_type, family): (&str, Family),
        hidden: u32,
        heads: u32,
    ) -> Option<u32> {
        if let (Some(plain), Some(rotary)) = (self.raw.qk_nope_head_dim, self.raw.qk_rope_head_dim)
        {
            return Some(plain.saturating_add(rotary));
        }
        let fixed = family.has_plain_heads();
        let said = self.raw.head_dim.filter(|_| !fixed);
        if let Some(width) = said {
            return Some(width);
        }
        match model_type {
            "qwen3" | "qwen3_moe" | "glm" | "glm4" | "seed_oss" => return Some(128),
            "llama4_text" => return Some(128),
            "gemma" | "gemma2" | "gemma3_text" => return Some(256),
            _ => {}
        }
        if heads == 0 || !hidden.is_multiple_of(heads) {
            let rule = format!("{heads} heads must divide the width of {hidden}");
            self.fault(keys_of("heads"), rule, "correct one of them, or add `head_dim`");
            return None;
        }
        Some(hidden / heads)
    }
}
