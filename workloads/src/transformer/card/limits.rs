//! Which cards are refused, and why.
//!
//! A dozen numbers stand for tables of any length, so each has a limit, and so has what they amount
//! to together. Sums are made in 128 bits: no card overflows the arithmetic that refuses it.

use super::{Biases, Card, Family};
use crate::limits::{Range, ShapeProblem, outside};

/// Most parameters of a model: a thousand times the largest that is known.
pub const MAX_PARAMETERS: u64 = 1 << 50;

/// Most shared experts of a block.
const MAX_SHARED: u32 = 256;

impl Card {
    /// Why it cannot generate text, if it cannot: an encoder, whose tokens attend to those behind.
    pub fn generation_problem(&self) -> Option<ShapeProblem> {
        let word = self.family.word();
        let rule = format!("{word} is an encoder: it has no cache and generates no text");
        let remedy = "train it, or choose a decoder such as gpt2 or llama";
        let field = "card.family";
        (!self.family.is_causal()).then_some(ShapeProblem { field, rule, remedy })
    }

    /// Every rule that this card breaks; fields are those of [`Card`].
    pub fn problems(&self) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        self.ranges(&mut found);
        if found.is_empty() {
            self.fits_together(&mut found);
            self.fits_family(&mut found);
            self.fits_deepseek(&mut found);
        }
        if found.is_empty() {
            let all = self.count(|part| part.numel());
            if all >= u128::from(MAX_PARAMETERS) {
                let rule =
                    format!("a model has fewer than {MAX_PARAMETERS} parameters, this one {all}");
                found.push(ShapeProblem { field: "layers", rule, remedy: "check the numbers" });
            }
        }
        found
    }

    fn values(&self) -> Vec<Range> {
        let mut values = vec![
            ("layers", self.layers.into(), 10_000),
            ("hidden", self.hidden.into(), 1 << 20),
            ("ffn", self.ffn.into(), 1 << 22),
            ("heads", self.heads.into(), 1 << 14),
            ("kv_heads", self.kv_heads.into(), 1 << 14),
            ("head_dim", self.head_dim.into(), 1 << 14),
            ("vocab", self.vocab.into(), 1 << 26),
        ];
        if self.family.learns_positions() {
            values.push(("positions", self.positions.into(), 1 << 26));
        }
        if let Some(experts) = &self.experts {
            values.extend([
                ("experts.count", experts.count.into(), 1 << 12),
                ("experts.active", experts.active.into(), 1 << 12),
                ("experts.ffn", experts.ffn.into(), 1 << 22),
            ]);
        }
        if let Some(latent) = &self.latent {
            values.extend(latent.queries.map(|of| ("latent.queries", of.into(), 1 << 20)));
            values.extend([
                ("latent.rank", latent.rank.into(), 1 << 20),
                ("latent.rotary", latent.rotary.into(), 1 << 14),
                ("latent.value", latent.value.into(), 1 << 14),
            ]);
        }
        values.extend(self.window.map(|window| ("window", window.into(), u32::MAX.into())));
        let every = self.full_attention_every.map(u64::from);
        values.extend(every.map(|every| ("full_attention_every", every, 10_000)));
        values
    }

    fn ranges(&self, found: &mut Vec<ShapeProblem>) {
        found.extend(outside(self.values(), |field, most, value| {
            format!("`{field}` must lie between 1 and {most}, and is {value}")
        }));
        let shared = self.experts.map_or(0, |experts| experts.shared);
        if shared > MAX_SHARED {
            let rule =
                format!("a block has at most {MAX_SHARED} shared experts, this one {shared}");
            let remedy = "write a number in that range";
            found.push(ShapeProblem { field: "experts.shared", rule, remedy });
        }
    }

    fn fits_together(&self, found: &mut Vec<ShapeProblem>) {
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        if !heads.is_multiple_of(kv_heads) {
            let rule = format!("`kv_heads` must divide `heads`: {kv_heads} of {heads}");
            add("kv_heads", rule, "as many query heads share every key and value head");
        }
        if self.family.is_rotary() && !self.head_dim.is_multiple_of(2) {
            let rule = format!("a head is {} wide, and pairs of it are turned", self.head_dim);
            add("head_dim", rule, "choose an even width");
        }
        if self.full_attention_every.is_some() && self.window.is_none() {
            let rule = "without a `window` every block attends to all".to_owned();
            add("full_attention_every", rule, "leave it out, or write the window of the others");
        }
        if let Some(experts) = &self.experts
            && experts.active > experts.count
        {
            let (active, count) = (experts.active, experts.count);
            let rule = format!("{active} experts of a token are more than the {count} there are");
            add("experts.active", rule, "choose fewer active experts");
        }
    }

    /// What blocks that differ, and compressed keys and values, must keep to.
    fn fits_deepseek(&self, found: &mut Vec<ShapeProblem>) {
        let word = self.family.word();
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let first = self.experts.map_or(0, |experts| experts.dense_first);
        if first > 0 && !self.family.has_plain_shared() {
            let rule = format!("every block of {word} has experts");
            add("experts.dense_first", rule, "write 0, or take deepseek");
        } else if first >= self.layers {
            let rule = format!("{first} blocks without experts leave none of {}", self.layers);
            add("experts.dense_first", rule, "write fewer");
        }
        let Some(latent) = self.latent else { return };
        if self.family != Family::Deepseek {
            let rule = format!("keys and values of {word} are not compressed");
            add("latent", rule, "leave it out, or take deepseek");
        }
        if latent.rotary >= self.head_dim || !latent.rotary.is_multiple_of(2) {
            let (rotary, head) = (latent.rotary, self.head_dim);
            let rule = format!(
                "of a head's {head} numbers an even number, but not all, are turned, not {rotary}"
            );
            add("latent.rotary", rule, "write such as 64 of 192");
        }
        if self.kv_heads != self.heads {
            let rule = "compressed keys and values expand to those of every head".to_owned();
            add("kv_heads", rule, "write as many as `heads`");
        }
    }

    fn fits_family(&self, found: &mut Vec<ShapeProblem>) {
        let word = self.family.word();
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let plain = self.family.has_plain_heads();
        if plain && self.q_width() != u64::from(self.hidden) {
            let (heads, dim, hidden) = (self.heads, self.head_dim, self.hidden);
            let rule = format!(
                "the heads of {word} are as wide as `hidden`: {heads} x {dim} is not {hidden}"
            );
            add("head_dim", rule, "choose `heads` that divide `hidden`");
        }
        if plain && self.kv_heads != self.heads {
            let rule = format!("every head of {word} has its own keys and values");
            add("kv_heads", rule, "write as many as `heads`");
        }
        match self.family.biases() {
            Biases::All | Biases::Attention if !self.qkv_bias => {
                let rule = format!("queries, keys and values of {word} have biases");
                add("qkv_bias", rule, "write true");
            }
            Biases::None | Biases::Feed if self.qkv_bias => {
                let rule = format!("queries, keys and values of {word} have no biases");
                add("qkv_bias", rule, "write false");
            }
            _ => {}
        }
        if !self.family.learns_positions() && self.positions > 0 {
            let rule = format!("{word} has no table of `positions`");
            add("positions", rule, "leave it out");
        }
        if !self.family.is_causal() {
            if self.window.is_some() {
                add("window", format!("tokens of {word} attend to all others"), "leave it out");
            }
            if !self.tied {
                let rule = format!("the head of {word} uses the embedding's matrix");
                add("tied", rule, "write true");
            }
        }
        let (may, must) = self.family.experts();
        match &self.experts {
            Some(_) if !may => {
                add("experts", format!("{word} has no experts"), "take mixtral or qwen");
            }
            Some(experts) if experts.shared > 0 && !self.family.may_share() => {
                add("experts.shared", format!("{word} has no shared experts"), "take qwen");
            }
            Some(experts) if experts.ffn != self.ffn && experts.dense_first == 0 => {
                let rule =
                    format!("`ffn` is the width of an expert: {} is not {}", self.ffn, experts.ffn);
                add("ffn", rule, "write the same twice");
            }
            None if must => add("experts", format!("{word} has experts"), "say how many"),
            _ => {}
        }
    }
}
