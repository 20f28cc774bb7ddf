//! How many parameters the known models have.

use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::known::{KNOWN, known};

fn card(name: &str) -> Card {
    known(name).expect("it is known").card()
}

#[test]
fn known_cards_have_the_published_number_of_parameters() {
    let mut counted = 0;
    for known in KNOWN {
        let card = known.card();
        assert_eq!(card.problems(), [], "{}", known.name);
        let named: u128 = card.tensors().map(|tensor| u128::from(tensor.numel())).sum();
        assert_eq!(u128::from(card.parameters()), named, "{}", known.name);
        if let Some(published) = known.published {
            assert_eq!(card.parameters(), published, "{}", known.name);
            counted += 1;
        }
    }
    assert_eq!(counted, 75);
}

#[test]
fn models_known_by_their_size_have_it() {
    // In thousands of millions, as their papers round them.
    let rounded = [
        ("megatron-22b", 22),
        ("megatron-175b", 175),
        ("megatron-530b", 530),
        ("megatron-1t", 1008),
        ("opt-66b", 66),
    ];
    for (name, size) in rounded {
        assert_eq!((card(name).parameters() + 500_000_000) / 1_000_000_000, size, "{name}");
    }
}

#[test]
fn names_are_used_once() {
    let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn a_token_goes_through_the_active_experts_only() {
    // Mixtral: 46.7 thousand million in all, 12.9 active (Jiang et al., 2024).
    let mixtral = card("mixtral-8x7b");
    let expert = 3 * 4096 * 14_336;
    assert_eq!(mixtral.parameters() - mixtral.active_parameters(), 32 * 6 * expert);
    assert_eq!(mixtral.active_parameters(), 12_879_925_248);
    // Qwen3-30B-A3B: 3.3 active.
    assert_eq!(card("qwen3-30b-a3b").active_parameters() / 100_000_000, 33);
    // gpt-oss: 116.83 and 20.91 thousand million, 5.13 and 3.61 active with one of the two tables,
    // as the model card counts them (OpenAI, 2025, table 1).
    for (name, all, active) in [("gpt-oss-120b", 11_683, 513), ("gpt-oss-20b", 2_091, 361)] {
        let card = card(name);
        let rounded = |count: u64| (count + 5_000_000) / 10_000_000;
        assert_eq!(rounded(card.parameters()), all, "{name}");
        assert_eq!(rounded(card.active_parameters() - 201_088 * 2880), active, "{name}");
        // A token is multiplied with no bias, table or norm.
        let block = 2880 * (2 * 4096 + 2 * 512)
            + 2880 * card.experts.map_or(0, |experts| u64::from(experts.count));
        let experts = 4 * 3 * 2880 * 2880;
        let products = u64::from(card.layers) * (block + experts) + 201_088 * 2880;
        assert_eq!(card.matrix_parameters(), products, "{name}");
    }
    let dense = card("llama-2-7b");
    assert_eq!(dense.active_parameters(), dense.parameters());
}

#[test]
fn products_count_matrices_and_the_head() {
    // GPT-2: 12 h^2 per block and the tied head.
    assert_eq!(card("gpt2").matrix_parameters(), 12 * 12 * 768 * 768 + 50_257 * 768);
    let llama = card("llama-3-8b");
    let block = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14_336;
    assert_eq!(llama.matrix_parameters(), 32 * block + 128_256 * 4096);
    assert_eq!(llama.block_parameters(), block + 2 * 4096);
}

#[test]
fn shared_experts_count_for_every_token() {
    // Qwen1.5-MoE-A2.7B: 60 experts, 4 active, one shared expert as wide as four; 14.3 thousand
    // million in all, 2.7 active, as its makers say.
    let experts = Experts { count: 60, active: 4, ffn: 1408, shared: 4, dense_first: 0 };
    let moe = Card {
        name: "qwen1.5-moe-a2.7b".into(),
        family: Family::Qwen,
        layers: 24,
        hidden: 2048,
        ffn: 1408,
        heads: 16,
        kv_heads: 16,
        head_dim: 128,
        vocab: 151_936,
        positions: 0,
        tied: false,
        qkv_bias: true,
        experts: Some(experts),
        window: None,
        full_attention_every: None,
        latent: None,
    };
    assert_eq!(moe.problems(), []);
    assert_eq!(moe.parameters(), 14_315_784_192);
    assert_eq!(moe.active_parameters() / 100_000_000, 26);
}
