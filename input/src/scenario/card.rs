//! `card: (...)` of a model that a scenario spells out, and the defaults of a card.

use crate::scenario::raw::RawModelled;
use crate::scenario::raw::card::{RawCard, RawLatent};
use crate::scenario::resolver::Resolver;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::card::{Experts, Family, Latent};

/// Rows of the tables of positions as published.
const GPT2_POSITIONS: u32 = 1024;
const OPT_POSITIONS: u32 = 2048;
const BERT_POSITIONS: u32 = 512;
const ROBERTA_POSITIONS: u32 = 514;

impl Resolver<'_, '_> {
    /// The card that the workload spells out, in the place of a model's name and files; `None`
    /// after problems, of which all are told.
    pub(crate) fn spelled(&mut self, raw: &RawCard, beside: &RawModelled) -> Option<Card> {
        for (at, said) in [
            ("workload.model", beside.model.is_some()),
            ("workload.weights", beside.weights.is_some()),
        ] {
            if said {
                let rule = "`card` spells the model out";
                self.check.fault(at, rule, "leave it or `card` out");
                return None;
            }
        }
        if raw.head_dim.is_none() && raw.heads > 0 && !raw.hidden.is_multiple_of(raw.heads) {
            let rule = format!("`heads` must divide `hidden`, which is {}", raw.hidden);
            let remedy = "choose a divisor, or write the width of a head as `head_dim`";
            self.check.fault("workload.card.heads", rule, remedy);
            return None;
        }
        let card = card(raw);
        let broken = self.broken(&card.problems(), |field| format!("workload.card.{field}"));
        (!broken).then_some(card)
    }
}

/// The card with its defaults.
fn card(raw: &RawCard) -> Card {
    let family = raw.family;
    let positions = match family {
        Family::Gpt2 => GPT2_POSITIONS,
        Family::Opt => OPT_POSITIONS,
        Family::Bert => BERT_POSITIONS,
        Family::Roberta => ROBERTA_POSITIONS,
        _ => 0,
    };
    let name = || format!("{}-{}x{}", family.word(), raw.layers, raw.hidden);
    let head_dim = raw.head_dim.or(raw.hidden.checked_div(raw.heads));
    Card {
        name: raw.name.clone().unwrap_or_else(name),
        family,
        layers: raw.layers,
        hidden: raw.hidden,
        ffn: raw.ffn,
        heads: raw.heads,
        kv_heads: raw.kv_heads.unwrap_or(raw.heads),
        head_dim: head_dim.unwrap_or(0),
        vocab: raw.vocab,
        positions: raw.positions.unwrap_or(positions),
        tied: raw.tied.unwrap_or(family.ties_head()),
        qkv_bias: raw.qkv_bias.unwrap_or(family.has_qkv_bias()),
        experts: raw.experts.map(|experts| Experts {
            count: experts.count,
            active: experts.active,
            ffn: experts.ffn.unwrap_or(raw.ffn),
            shared: experts.shared.unwrap_or(0),
            dense_first: experts.dense_first.unwrap_or(0),
        }),
        window: raw.window,
        full_attention_every: raw.full_attention_every,
        latent: raw.latent.map(|RawLatent { queries, rank, rotary, value }| Latent {
            queries,
            rank,
            rotary,
            value,
        }),
    }
}
