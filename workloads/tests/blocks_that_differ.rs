//! Models whose blocks are not all alike: some attend to a window, some have no experts; and keys
//! and values that are compressed.

use crate::transformer::shape::{check_kernels, sum};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::efficiency::{Efficiency, Interpolation, Shares};
use tiersim_models::hardware::Compute;
use tiersim_models::ids::OpId;
use tiersim_models::kernel::Work;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bandwidth, FlopRate, Span};
use tiersim_models::workload::{ObjectKind, Op, Phase, Trace};
use tiersim_workloads::memory::inference::{Kv, Sequences};
use tiersim_workloads::transformer::adapters::{Lora, Targets};
use tiersim_workloads::transformer::card::{Card, Experts};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Parallel, Router, Training,
};

fn card(name: &str) -> Card {
    known(name).expect("it is known").card()
}

/// Gemma 3 of seven blocks with a window of 4: the sixth attends to all.
fn gemma() -> Card {
    Card { layers: 7, window: Some(4), vocab: 100, ..card("gemma-3-1b") }
}

/// DeepSeek-V2 of three blocks with two of six experts each, but for the first.
fn deepseek() -> Card {
    let of = card("deepseek-v2");
    let experts = of.experts.map(|of| Experts { count: 6, active: 2, ..of });
    Card { layers: 3, vocab: 100, experts, ..of }
}

fn job(card: Card) -> Generation {
    Generation {
        card,
        formats: Formats::all(Format::Bf16),
        batch: 2,
        batches: 1,
        prompt: 9,
        tokens: 3,
        prefill: true,
        attention: AttentionOn::Device,
        kernels: Kernels::Compiled,
        kv_block: None,
        tensor: 1,
        context: 1,
        devices: 8,
        router: Router::default(),
    }
}

/// The trace, which breaks no rule.
fn traced(job: &Generation) -> Trace {
    assert_eq!(job.problems(), [], "{job:?}");
    let trace = job.trace();
    assert_eq!(trace.problems(), [], "{job:?}");
    check_kernels(&trace);
    let _ = Workload::new(trace.clone());
    trace
}

/// Bytes of keys and values by block of the model.
fn cached(trace: &Trace) -> BTreeMap<u32, Vec<u64>> {
    let mut all: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for object in trace.objects.iter().filter(|object| object.kind == ObjectKind::Kv) {
        let (_, rest) = object.name.split_once("layers.").expect("it is of a block");
        let (layer, _) = rest.split_once('.').expect("a module follows");
        all.entry(layer.parse().expect("a number")).or_default().push(object.bytes.get());
    }
    all
}

fn attention(trace: &Trace) -> Vec<&Op> {
    trace.ops.iter().filter(|op| op.name == "attention" && op.phase == Phase::Decode).collect()
}

/// A head of 256 numbers, keys and values, two sequences, 16 bits.
const ROW: u64 = 2 * 256 * 2 * 2;

#[test]
fn blocks_with_a_window_keep_its_positions() {
    let whole = job(gemma());
    let trace = traced(&whole);
    // Of 11 positions at the end, 4 are attended to where there is a window.
    for (layer, sizes) in cached(&trace) {
        assert_eq!(sizes, [ROW * if layer == 5 { 11 } else { 4 }], "block {layer}");
    }
    let flops: Vec<u64> = attention(&trace).iter().map(|op| op.flops).collect();
    let of = |pairs: u64| 4 * 4 * 256 * 2 * pairs;
    let step = |all: u64| [4, 4, 4, 4, 4, all, 4].map(of);
    assert_eq!(flops, [step(10), step(11)].concat());
    // In blocks a prompt that is there from the start has those that a window reaches.
    let paged = Generation { kv_block: Some(2), prefill: false, ..whole };
    for (layer, sizes) in cached(&traced(&paged)) {
        // 12 positions: all, or from the seventh on.
        let pages = if layer == 5 { 6 } else { 3 };
        assert_eq!(sizes, vec![2 * ROW; pages], "block {layer}");
    }
}

#[test]
fn a_step_attends_to_windows_in_those_blocks_alone() {
    let step = |card: Card| Training::new(card, 16).trace();
    let pairs = |trace: &Trace, phase: Phase| -> Vec<u128> {
        let of = |work: &Work| match work {
            Work::Attention(of) | Work::AttentionBackward(of) => Some(of.pairs()),
            _ => None,
        };
        let ops = trace.ops.iter().filter(|op| op.phase == phase);
        let kernels = ops.flat_map(|op| op.kernels.iter().flat_map(|all| all.iter()));
        kernels.filter_map(|kernel| of(&kernel.work)).collect()
    };
    let trace = step(gemma());
    let (near, all) = (4 * 13 + 3 + 2 + 1, 16 * 17 / 2);
    let forward = vec![near, near, near, near, near, all, near];
    assert_eq!(pairs(&trace, Phase::Forward), forward);
    assert_eq!(pairs(&trace, Phase::Backward), forward.into_iter().rev().collect::<Vec<u128>>());
}

/// What short steps say of a long one, whichever of its blocks are computed again.
#[test]
fn a_step_is_estimated_block_by_block() {
    let shares =
        Shares { points: vec![(1, 1_000_000)], interpolation: Interpolation::Interpolated };
    let device = Compute {
        op_times: None,
        attention: None,
        name: "made up".to_owned(),
        flops: vec![("bf16".to_owned(), FlopRate::new(1_000_000_000_000).expect("not zero"))],
        memory: Bandwidth::new(1_000_000_000_000).expect("not zero"),
        launch: Span::from_ps(1000),
        efficiency: Efficiency { products: shares.clone(), memory: shares },
    };
    use Checkpointing::{Every, Full, Layers, Selective};
    let no = Checkpointing::None;
    for checkpointing in [no, Full, Selective, Layers(2), Layers(6), Every(3)] {
        // Long enough for a window to save time.
        let card = Card { window: Some(64), full_attention_every: Some(3), ..gemma() };
        let card = Card { layers: 6, ..card };
        let job = Training { checkpointing, ..Training::new(card, 4096) };
        let ops = job.trace().ops;
        let times = ops.iter().zip(device.times("bf16", &ops));
        let times = times.filter(|(op, _)| op.phase != Phase::Optimizer);
        let whole: u128 = times.map(|(_, time)| u128::from(time.expect("a time").ps())).sum();
        assert_eq!(job.computing(&device, "bf16"), Some(whole), "{checkpointing:?}");
    }
}

#[test]
fn norms_behind_parts_are_in_every_block() {
    let trace = Training::new(gemma(), 16).trace();
    let of = |name: &str| {
        let in_block = |op: &&Op| {
            let module = op.module.map_or("", |module| trace.modules[module.index()].as_str());
            op.name == name && module.contains("layers.0.")
        };
        trace.ops.iter().filter(in_block).count()
    };
    // Four of the stream, and those of queries and of keys.
    assert_eq!((of("norm"), of("norm_backward")), (6, 6));
}

#[test]
fn compressed_rows_are_kept_whole_by_every_rank() {
    let whole = job(deepseek());
    let weights = sum(&traced(&whole), ObjectKind::Weight);
    assert_eq!(weights, 2 * deepseek().parameters());
    for tensor in [1, 4] {
        let trace = traced(&Generation { tensor, ..whole.clone() });
        // 576 numbers in 16 bits of 11 positions of two sequences.
        let each = 576 * 2 * 11 * 2;
        assert_eq!(cached(&trace).into_values().collect::<Vec<_>>(), vec![vec![each]; 3]);
        let kv =
            Kv { layers: 3, heads: 128, head_dim: 192, bytes: 2, windows: None, latent: Some(576) };
        let sequences = Sequences { count: 2, tokens: 11, page: 11, ranks: 1 };
        let account = kv.of_rank(sequences, tensor.into(), 1).expect("it fits");
        assert_eq!(account, u128::from(sum(&trace, ObjectKind::Kv)));
        // One new token behind 9, then behind 10; each head's query and result go through the
        // matrix that would expand rows.
        let heads = u64::from(128 / tensor);
        let of = |rows: u64| 2 * heads * (2 * 512 * 256 + rows * 2 * (576 + 512));
        let flops: Vec<u64> = attention(&trace).iter().map(|op| op.flops).collect();
        assert_eq!(flops, [[of(10); 3], [of(11); 3]].concat());
        // Rows, the new one, queries, results and the matrix.
        let bytes = |rows: u64| {
            let token = heads * (192 + 128) + 576;
            2 * (2 * (rows * 576 + token) + 512 * heads * 256)
        };
        let read: Vec<u64> = attention(&trace).iter().map(|op| op.bytes.get()).collect();
        assert_eq!(read, [[bytes(10); 3], [bytes(11); 3]].concat());
    }
}

/// Keys and values of all heads are made of rows and kept, unlike where the model generates.
#[test]
fn a_step_expands_compressed_rows_forward_and_backward() {
    let job = Training { micro_batch: 2, batch: 2, ..Training::new(deepseek(), 8) };
    let trace = job.trace();
    assert_eq!(trace.problems(), []);
    let (tokens, hidden, heads) = (16, 5120, 128);
    let attention = hidden * 1536
        + 1536 * heads * 192
        + hidden * 576
        + 512 * heads * 256
        + heads * 128 * hidden;
    let mixture = hidden * 6 + (2 + 2) * 3 * hidden * 1536;
    let matrices = 3 * attention + 3 * hidden * 12_288 + 2 * mixture + hidden * 100;
    // Of each head: a query with a key, and a weight with a value; then both gradients of those, and
    // the first again.
    let pairs = 3 * heads * 2 * (8 * 9 / 2);
    let flops = |phase: Phase| -> u64 {
        trace.ops.iter().filter(|op| op.phase == phase).map(|op| op.flops).sum()
    };
    assert_eq!(flops(Phase::Forward), 2 * (tokens * matrices + pairs * (192 + 128)));
    let backward = 2 * (2 * tokens * matrices + pairs * (3 * 192 + 2 * 128));
    assert_eq!(flops(Phase::Backward), backward);
    let of = |what: &str| -> Vec<u64> {
        let all = trace.objects.iter().filter(|object| object.name.ends_with(what));
        all.map(|object| object.bytes.get()).collect()
    };
    assert_eq!(of("kv_b_proj.keys"), [2 * tokens * heads * 192; 3]);
    assert_eq!(of("kv_b_proj.values"), [2 * tokens * heads * 128; 3]);
    assert_eq!(of("kv_a_proj_with_mqa.out"), [2 * tokens * 576; 3]);
    assert_eq!(of("kv_a_layernorm.out"), [2 * tokens * 512; 3]);
}

/// Each of a tensor group has the gradients of its own heads alone of what all have compressed.
#[test]
fn gradients_of_what_compresses_are_summed_over_the_tensor_group() {
    let job = Training::new(deepseek(), 8);
    let parallel = Parallel { tensor: 2, ..Parallel::default() };
    let trace = Training { parallel, ..job }.trace();
    let sums = (0..trace.ops.len()).filter(|&op| trace.ops[op].name == "all-reduce");
    let touched = sums.flat_map(|op| trace.uses_of(OpId::at(op)));
    let objects = touched.map(|touched| &trace.objects[touched.object.index()]);
    let gradients = objects.filter(|object| object.kind == ObjectKind::Gradient);
    let names: BTreeSet<&str> = gradients
        .map(|object| object.name.split_once("self_attn.").map_or("", |of| of.1))
        .collect();
    let modules = ["kv_a_layernorm", "kv_a_proj_with_mqa", "q_a_layernorm", "q_a_proj"];
    let modules = modules.map(|module| format!("{module}.weight.grad"));
    assert_eq!(names.into_iter().collect::<Vec<_>>(), modules);
}

#[test]
fn blocks_in_front_have_no_experts() {
    let trace = traced(&job(deepseek()));
    let routers: Vec<_> = trace.modules.iter().filter(|name| name.ends_with("mlp.gate")).collect();
    assert_eq!(routers, ["model.layers.1.mlp.gate", "model.layers.2.mlp.gate"]);
    let one = |name: &str| trace.modules.iter().any(|module| module == name);
    assert!(
        one("model.layers.0.mlp.down_proj") && one("model.layers.1.mlp.shared_experts.up_proj")
    );
}

#[test]
fn what_is_not_known_of_them_is_refused() {
    let step = Training::new(deepseek(), 16);
    assert_eq!(step.problems(), []);
    let split = |of: Parallel| Training { parallel: of, ..step.clone() };
    let lora = Some(Lora { rank: 4, targets: Targets::QV });
    let one = Parallel::default();
    for (job, field) in [
        (split(Parallel { pipeline: 3, ..one }), "parallel.pipeline"),
        (split(Parallel { context: 2, ..one }), "parallel.context"),
        (Training { attention: Attention::Eager, ..step.clone() }, "attention"),
        (Training { kernels: Kernels::Eager, ..step.clone() }, "kernels"),
        (Training { lora, ..step.clone() }, "lora"),
    ] {
        assert_eq!(job.problems()[0].field, field);
    }
    let alike = deepseek().experts.map(|of| Experts { dense_first: 0, ..of });
    let stages = split(Parallel { pipeline: 3, ..one });
    let alike = Training { card: Card { experts: alike, ..deepseek() }, ..stages };
    assert_eq!(alike.problems(), []);
    let host = Generation { attention: AttentionOn::Host, ..job(deepseek()) };
    assert_eq!(host.problems()[0].field, "attention_on");
    let ring = Generation { context: 2, ..job(deepseek()) };
    assert_eq!(ring.problems()[0].field, "context");
    let eager = Generation { kernels: Kernels::Eager, ..job(deepseek()) };
    assert_eq!(eager.problems()[0].field, "kernels");
}
