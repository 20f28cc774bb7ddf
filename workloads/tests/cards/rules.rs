//! Cards that are refused, and that refusing them never overflows.

use tiersim_workloads::transformer::card::{Biases, Card, Experts, Family, MAX_PARAMETERS};
use tiersim_workloads::transformer::known::known;

fn card(name: &str) -> Card {
    known(name).expect("it is known").card()
}

/// The fields that problems are about.
fn fields(card: &Card) -> Vec<&'static str> {
    card.problems().into_iter().map(|problem| problem.field).collect()
}

#[test]
fn every_field_has_its_range() {
    let zero = |change: &dyn Fn(&mut Card)| {
        let mut card = card("mixtral-8x7b");
        change(&mut card);
        fields(&card)
    };
    assert_eq!(zero(&|card| card.layers = 0), ["layers"]);
    assert_eq!(zero(&|card| card.hidden = u32::MAX), ["hidden"]);
    assert_eq!(zero(&|card| card.heads = 0), ["heads"]);
    assert_eq!(zero(&|card| card.kv_heads = 0), ["kv_heads"]);
    assert_eq!(zero(&|card| card.head_dim = 0), ["head_dim"]);
    assert_eq!(zero(&|card| card.vocab = 0), ["vocab"]);
    assert_eq!(zero(&|card| card.window = Some(0)), ["window"]);
    let experts =
        |count, active| Some(Experts { count, active, ffn: 14_336, shared: 0, dense_first: 0 });
    assert_eq!(zero(&|card| card.experts = experts(0, 0)), ["experts.count", "experts.active"]);
    assert_eq!(zero(&|card| card.experts = experts(8, 9)), ["experts.active"]);
    assert_eq!(zero(&|card| card.experts = None), ["experts"]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refused = |name: &str, change: &dyn Fn(&mut Card)| {
        let mut card = card(name);
        change(&mut card);
        fields(&card)
    };
    assert_eq!(refused("llama-3-8b", &|card| card.kv_heads = 7), ["kv_heads"]);
    assert_eq!(refused("llama-3-8b", &|card| card.head_dim = 127), ["head_dim"]);
    assert_eq!(refused("llama-3-8b", &|card| card.positions = 8192), ["positions"]);
    assert_eq!(refused("mistral-7b", &|card| card.qkv_bias = true), ["qkv_bias"]);
    assert_eq!(refused("gpt2", &|card| card.head_dim = 65), ["head_dim"]);
    assert_eq!(refused("gpt2", &|card| card.kv_heads = 1), ["kv_heads"]);
    assert_eq!(refused("opt-30b", &|card| card.positions = 0), ["positions"]);
    // A width of its own is fine where the family allows it.
    assert_eq!(refused("llama-3-8b", &|card| card.head_dim = 64), Vec::<&str>::new());
}

#[test]
fn the_largest_of_everything_is_refused_without_overflow() {
    for family in Family::ALL {
        let (may, _) = family.experts();
        let never = matches!(family.biases(), Biases::None | Biases::Feed);
        let experts =
            Experts { count: 1 << 12, active: 1, ffn: 1 << 22, shared: 0, dense_first: 0 };
        let card = Card {
            name: "huge".into(),
            family,
            layers: 10_000,
            hidden: 1 << 20,
            ffn: 1 << 22,
            heads: 1 << 14,
            kv_heads: 1 << 14,
            head_dim: 1 << 6,
            vocab: 1 << 26,
            positions: if family.learns_positions() { 1 << 26 } else { 0 },
            tied: !family.is_causal(),
            qkv_bias: !never,
            experts: may.then_some(experts),
            window: None,
            full_attention_every: None,
            latent: None,
        };
        let problems = card.problems();
        assert_eq!(fields(&card), ["layers"], "{problems:?}");
        assert!(problems[0].rule.contains(&MAX_PARAMETERS.to_string()), "{problems:?}");
    }
}
