//! Blocks of Llama and of the families that are like it: with experts, norms behind parts, compressed
//! keys and values.

use super::{Layout, Parts, TensorKind};
use crate::transformer::card::{Biases, Card, Experts, Family, HeadNorms, Latent};

impl Card {
    pub(super) fn llama(&self, parts: &mut Parts, layout: Layout, layer: u32) {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        match self.latent {
            Some(latent) => self.latent(parts, latent),
            None => self.queries_keys_values(parts),
        }
        match &self.experts_of(layer) {
            Some(experts) if self.family == Family::GptOss => self.gpt_oss(parts, experts),
            Some(experts) if self.family == Family::Llama4 => self.llama4(parts, experts),
            Some(experts) => self.experts(parts, experts, layout),
            None if self.family == Family::Starcoder2 => {
                self.two_matrices(parts, ["mlp.c_fc", "mlp.c_proj"], true);
            }
            None if !self.family.is_gated() => {
                self.two_matrices(parts, ["mlp.up_proj", "mlp.down_proj"], false);
            }
            None => gated(parts, "mlp", (ffn, hidden), TensorKind::Mlp),
        }
        let norms: &[&str] = match self.family {
            Family::Gemma2 | Family::Gemma3 => &[
                "input_layernorm",
                "post_attention_layernorm",
                "pre_feedforward_layernorm",
                "post_feedforward_layernorm",
            ],
            Family::Glm4 => &[
                "input_layernorm",
                "post_attention_layernorm",
                "post_self_attn_layernorm",
                "post_mlp_layernorm",
            ],
            Family::Olmo2 | Family::Exaone4 => {
                &["post_attention_layernorm", "post_feedforward_layernorm"]
            }
            Family::Cohere | Family::CohereNormed => &["input_layernorm"],
            _ => &["input_layernorm", "post_attention_layernorm"],
        };
        let biased = self.family.norm_has_bias();
        norms.iter().for_each(|name| parts.norm(name, hidden, biased));
    }

    /// Matrices of attention whose keys and values are compressed.
    fn latent(&self, parts: &mut Parts, of: Latent) {
        let (hidden, heads) = (u64::from(self.hidden), u64::from(self.heads));
        let [rank, rotary, value, head] =
            [of.rank, of.rotary, of.value, self.head_dim].map(u64::from);
        let linear = |parts: &mut Parts, name: &str, shape| {
            parts.linear(&format!("self_attn.{name}"), shape, false, TensorKind::Attention);
        };
        match of.queries.map(u64::from) {
            Some(queries) => {
                linear(parts, "q_a_proj", (queries, hidden));
                parts.norm("self_attn.q_a_layernorm", queries, false);
                linear(parts, "q_b_proj", (heads * head, queries));
            }
            None => linear(parts, "q_proj", (heads * head, hidden)),
        }
        linear(parts, "kv_a_proj_with_mqa", (rank + rotary, hidden));
        parts.norm("self_attn.kv_a_layernorm", rank, false);
        linear(parts, "kv_b_proj", (heads * (head.saturating_sub(rotary) + value), rank));
        linear(parts, "o_proj", (hidden, heads * value));
    }

    fn queries_keys_values(&self, parts: &mut Parts) {
        let hidden = u64::from(self.hidden);
        let (queries, keys) = (self.q_width(), self.kv_width());
        let all = [Biases::All, Biases::Attention, Biases::OpenAttention];
        let out_bias = all.contains(&self.family.biases());
        if self.family == Family::GptOss {
            parts.push("self_attn.sinks", &[self.heads.into()], TensorKind::Attention);
        }
        let matrices = [
            ("q_proj", (queries, hidden), self.qkv_bias),
            ("k_proj", (keys, hidden), self.qkv_bias),
            ("v_proj", (keys, hidden), self.qkv_bias),
            ("o_proj", (hidden, queries), self.qkv_bias && out_bias),
        ];
        for (name, shape, bias) in matrices {
            parts.linear(&format!("self_attn.{name}"), shape, bias, TensorKind::Attention);
        }
        let head = u64::from(self.head_dim);
        for (name, heads) in [("q_norm", self.heads), ("k_norm", self.kv_heads)] {
            let heads = u64::from(heads);
            let shape = match self.head_norms() {
                None | Some(HeadNorms::Weightless) => continue,
                Some(HeadNorms::Alike) => vec![head],
                Some(HeadNorms::Own) => vec![heads, head],
                Some(HeadNorms::Together) => vec![heads * head],
            };
            parts.push(format!("self_attn.{name}.weight"), &shape, TensorKind::Norm);
        }
    }

    /// Norms of queries and keys, if it has them.
    pub fn head_norms(&self) -> Option<HeadNorms> {
        self.family.head_norms(self.qkv_bias)
    }

    /// Experts with biases, under the names of the class; files have theirs packed.
    fn gpt_oss(&self, parts: &mut Parts, experts: &Experts) {
        let (hidden, ffn, count) =
            (u64::from(self.hidden), u64::from(experts.ffn), u64::from(experts.count));
        parts.linear("mlp.router", (count, hidden), true, TensorKind::Router);
        let (up_proj, down_proj) = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj");
        let shapes: [(&str, &[u64]); 4] = [
            ("", &[count, hidden, 2 * ffn]),
            ("_bias", &[count, 2 * ffn]),
            ("", &[count, ffn, hidden]),
            ("_bias", &[count, hidden]),
        ];
        let names = [up_proj, up_proj, down_proj, down_proj];
        for (name, (end, shape)) in names.into_iter().zip(shapes) {
            parts.push(format!("{name}{end}"), shape, TensorKind::Expert);
        }
    }

    /// Experts whose matrices have their inputs first, in files too, and those that every token
    /// goes through.
    fn llama4(&self, parts: &mut Parts, experts: &Experts) {
        let (hidden, ffn, count) =
            (u64::from(self.hidden), u64::from(experts.ffn), u64::from(experts.count));
        let [at, router] = self.family.mixture_names();
        let expert = TensorKind::Expert;
        parts.push(format!("{at}.experts.gate_up_proj"), &[count, hidden, 2 * ffn], expert);
        parts.push(format!("{at}.experts.down_proj"), &[count, ffn, hidden], expert);
        parts.linear(router, (count, hidden), false, TensorKind::Router);
        if experts.shared > 0 {
            let shared = (ffn * u64::from(experts.shared), hidden);
            gated(parts, &format!("{at}.shared_expert"), shared, TensorKind::Mlp);
        }
    }

    fn experts(&self, parts: &mut Parts, experts: &Experts, layout: Layout) {
        let (hidden, ffn, count) =
            (u64::from(self.hidden), u64::from(experts.ffn), u64::from(experts.count));
        // Some files are older than their classes.
        let are_older = matches!(self.family, Family::Mixtral | Family::Phimoe);
        let old = layout == Layout::Stored && are_older;
        let [at, gate] = match self.family {
            _ if old => ["block_sparse_moe", "block_sparse_moe.gate"],
            Family::Granitemoe if layout == Layout::Stored => {
                ["block_sparse_moe", "block_sparse_moe.router.layer"]
            }
            _ => self.family.mixture_names(),
        };
        let expert = TensorKind::Expert;
        let router = |parts: &mut Parts| {
            parts.linear(gate, (count, hidden), false, TensorKind::Router);
        };
        let together = |parts: &mut Parts, [up_proj, down_proj]: [&str; 2]| {
            parts.push(format!("{at}.{up_proj}"), &[count, 2 * ffn, hidden], expert);
            parts.push(format!("{at}.{down_proj}"), &[count, hidden, ffn], expert);
        };
        let is_behind = self.family.has_plain_shared();
        if !is_behind {
            router(parts);
        }
        match layout {
            Layout::Loaded => {
                together(parts, ["experts.gate_up_proj", "experts.down_proj"]);
            }
            Layout::Stored if self.family == Family::Granitemoe => {
                together(parts, ["input_linear.weight", "output_linear.weight"]);
            }
            Layout::Stored if old => {
                for index in 0..count {
                    let here = format!("{at}.experts.{index}");
                    parts.linear(&format!("{here}.w1"), (ffn, hidden), false, expert);
                    parts.linear(&format!("{here}.w2"), (hidden, ffn), false, expert);
                    parts.linear(&format!("{here}.w3"), (ffn, hidden), false, expert);
                }
            }
            Layout::Stored => {
                for index in 0..count {
                    gated(parts, &format!("{at}.experts.{index}"), (ffn, hidden), expert);
                }
            }
        }
        if is_behind {
            router(parts);
        }
        let up_proj = ffn * u64::from(experts.shared);
        if experts.shared > 0 && self.family.has_plain_shared() {
            gated(parts, "mlp.shared_experts", (up_proj, hidden), TensorKind::Mlp);
        } else if experts.shared > 0 {
            gated(parts, "mlp.shared_expert", (up_proj, hidden), TensorKind::Mlp);
            parts.linear("mlp.shared_expert_gate", (1, hidden), false, TensorKind::Router);
        }
    }
}

/// The three matrices of a gated feed-forward part.
fn gated(parts: &mut Parts, name: &str, (ffn, hidden): (u64, u64), kind: TensorKind) {
    parts.linear(&format!("{name}.gate_proj"), (ffn, hidden), false, kind);
    parts.linear(&format!("{name}.up_proj"), (ffn, hidden), false, kind);
    parts.linear(&format!("{name}.down_proj"), (hidden, ffn), false, kind);
}
