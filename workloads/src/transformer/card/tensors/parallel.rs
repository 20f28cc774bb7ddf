//! Blocks whose attention and feed-forward part stand side by side, in the names of their makers.

use super::{Parts, TensorKind};
use crate::transformer::card::{Card, Family};

impl Card {
    pub(super) fn gpt_neox(&self, parts: &mut Parts) {
        let hidden = u64::from(self.hidden);
        parts.norm("input_layernorm", hidden, true);
        parts.norm("post_attention_layernorm", hidden, true);
        let shape = (3 * hidden, hidden);
        parts.linear("attention.query_key_value", shape, true, TensorKind::Attention);
        parts.linear("attention.dense", (hidden, hidden), true, TensorKind::Attention);
        self.two_matrices(parts, ["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"], true);
    }

    pub(super) fn falcon(&self, parts: &mut Parts) {
        let (hidden, queries) = (u64::from(self.hidden), self.q_width());
        let (attention, all) = (TensorKind::Attention, queries + 2 * self.kv_width());
        parts.linear("self_attention.query_key_value", (all, hidden), false, attention);
        parts.linear("self_attention.dense", (hidden, queries), false, attention);
        self.two_matrices(parts, ["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"], false);
        let norms: &[&str] = match self.family {
            Family::Falcon40b => &["ln_attn", "ln_mlp"],
            _ => &["input_layernorm"],
        };
        norms.iter().for_each(|name| parts.norm(name, hidden, true));
    }

    pub(super) fn phi(&self, parts: &mut Parts) {
        let hidden = u64::from(self.hidden);
        for name in ["q_proj", "k_proj", "v_proj", "dense"] {
            let name = format!("self_attn.{name}");
            parts.linear(&name, (hidden, hidden), true, TensorKind::Attention);
        }
        self.two_matrices(parts, ["mlp.fc1", "mlp.fc2"], true);
        parts.norm("input_layernorm", hidden, true);
    }

    pub(super) fn gptj(&self, parts: &mut Parts) {
        let hidden = u64::from(self.hidden);
        parts.norm("ln_1", hidden, true);
        for name in ["k_proj", "v_proj", "q_proj", "out_proj"] {
            let name = format!("attn.{name}");
            parts.linear(&name, (hidden, hidden), false, TensorKind::Attention);
        }
        self.two_matrices(parts, ["mlp.fc_in", "mlp.fc_out"], true);
    }

    /// The two matrices of a feed-forward part without a gate.
    pub(super) fn two_matrices(&self, parts: &mut Parts, [wide, narrow]: [&str; 2], bias: bool) {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        parts.linear(wide, (ffn, hidden), bias, TensorKind::Mlp);
        parts.linear(narrow, (hidden, ffn), bias, TensorKind::Mlp);
    }
}
