//! What blocks of every family are made of: their norms, their products, and what a tensor group
//! sums.

use crate::transformer::shape::{flops, plain};
use tiersim_models::kernel::{Streaming, Work};
use tiersim_models::workload::{CollectiveKind, Op, Phase, Trace, Unit};
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::card::{Experts, Family, NormPlaces};
use tiersim_workloads::transformer::training::{Parallel, Training};

const LAYERS: u32 = 2;

fn card(family: Family) -> Card {
    let experts = Experts { count: 4, active: 2, ffn: 48, shared: 0, dense_first: 0 };
    let heads = 4;
    Card {
        name: "small".into(),
        family,
        layers: LAYERS,
        hidden: 64,
        ffn: 48,
        heads,
        kv_heads: if family.has_plain_heads() { heads } else { 2 },
        head_dim: 16,
        vocab: 96,
        positions: if family.learns_positions() { 64 } else { 0 },
        tied: false,
        qkv_bias: family.has_qkv_bias(),
        experts: family.experts().1.then_some(experts),
        window: None,
        full_attention_every: None,
        latent: None,
    }
}

fn decoders() -> impl Iterator<Item = Family> {
    Family::ALL.into_iter().filter(|family| family.is_causal())
}

fn count(trace: &Trace, wanted: impl Fn(&Op) -> bool) -> usize {
    trace.ops.iter().filter(|op| wanted(op)).count()
}

/// Norms of the residual stream, of the embedding, behind the blocks, and of queries and keys.
#[test]
fn a_step_has_the_norms_of_its_family() {
    for family in decoders() {
        let card = card(family);
        let trace = plain(card.clone(), 8).trace();
        let heads = if card.head_norms().is_some() { 2 } else { 0 };
        let around = 1 + usize::from(family.norms_embedding());
        let each = usize::from(family.block_norms()) + heads;
        let expected = LAYERS as usize * each + around;
        let is_norm = |op: &Op| {
            let kernels = op.kernels.iter().flat_map(|all| all.iter());
            kernels.into_iter().any(|kernel| kernel.work == Work::Streaming(Streaming::Norm))
        };
        for phase in [Phase::Forward, Phase::Backward] {
            let norms = count(&trace, |op| op.phase == phase && is_norm(op));
            assert_eq!(norms, expected, "{family:?} {phase:?}");
        }
    }
}

/// Forward two FLOPs for every parameter that a token is multiplied with, backward four; attention
/// in one kernel has two products of queries forward and five backward.
#[test]
fn products_are_those_of_all_matrices() {
    for family in decoders() {
        let card = card(family);
        let tokens = 8;
        let trace = plain(card.clone(), tokens).trace();
        let pairs = u128::from(tokens * (tokens + 1) / 2);
        let attention = 7 * 2 * pairs * u128::from(card.q_width()) * u128::from(LAYERS);
        let products = 6 * u128::from(card.matrix_parameters()) * u128::from(tokens);
        assert_eq!(flops(&trace), products + attention, "{family:?}");
    }
}

/// A tensor group sums what both parts of a block give: each by itself, or side by side at once;
/// backward it sums what each norm's products were given, or what they were given without a norm.
#[test]
fn a_tensor_group_sums_parts_that_stand_side_by_side_at_once() {
    let sums = |family: Family, phase: Phase| {
        let parallel = Parallel { tensor: 2, ..Parallel::default() };
        let trace = Training { parallel, ..plain(card(family), 8) }.trace();
        let module = |op: &Op| op.module.map(|of| trace.modules[of.index()].to_string());
        let in_blocks = |op: &Op| module(op).is_some_and(|name| name.contains("layers."));
        let is_sum =
            |op: &Op| matches!(op.unit, Unit::Network(of) if of.kind == CollectiveKind::AllReduce);
        count(&trace, |op| op.phase == phase && is_sum(op) && in_blocks(op)) / LAYERS as usize
    };
    for family in [Family::GptNeox, Family::Phi, Family::Cohere, Family::Llama, Family::Olmo2] {
        let [forward, backward] = match family.norm_places() {
            NormPlaces::BeforeBoth => [1, 1],
            NormPlaces::BeforeEach => [1, 2],
            _ => [2, 2],
        };
        let found = [sums(family, Phase::Forward), sums(family, Phase::Backward)];
        assert_eq!(found, [forward, backward], "{family:?}");
    }
}
