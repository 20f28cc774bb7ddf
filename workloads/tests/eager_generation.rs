//! Generation by eager kernels: those of training's forward pass, and keys and values that every
//! step makes anew.

use crate::transformer::shape::{alive, check_kernels_of, llama_8b, sum};
use tiersim_models::kernel::Work;
use tiersim_models::workload::{ObjectKind, Op, Phase, Trace};
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::training::{Kernels, Router, Training};

const LAYERS: u64 = 2;
const KEYS: u64 = 2 * 16;

fn small() -> Card {
    let card = Card { layers: LAYERS as u32, hidden: 64, ffn: 96, heads: 4, ..llama_8b() };
    Card { kv_heads: 2, head_dim: 16, vocab: 100, ..card }
}

fn job(card: Card, kernels: Kernels) -> Generation {
    Generation {
        card,
        formats: Formats::all(Format::Bf16),
        batch: 2,
        batches: 1,
        prompt: 5,
        tokens: 4,
        prefill: true,
        attention: AttentionOn::Device,
        kernels,
        kv_block: None,
        tensor: 1,
        context: 1,
        devices: 1,
        router: Router::default(),
    }
}

/// Name, work, FLOPs and bytes of the ops of a phase's blocks, or of what is around them.
fn ops(trace: &Trace, phase: Phase, in_blocks: bool) -> Vec<(&str, Work, u64, u64)> {
    let module = |op: &Op| trace.modules[op.module.expect("it has one").index()].as_str();
    let here = |op: &&Op| op.phase == phase && module(op).contains("layers.") == in_blocks;
    let row = |op| {
        let Op { name, kernels, flops, bytes, .. }: &Op = op;
        let [kernel] = kernels.as_deref().expect("it is known") else { panic!("{name}") };
        (name.as_str(), kernel.work, *flops, bytes.get())
    };
    trace.ops.iter().filter(here).map(row).collect()
}

/// The blocks of a prompt have the ops of training's forward pass, in the same order. There is no
/// sum of the softmax, and keys and values are copied to the cache.
#[test]
fn a_prompt_runs_the_kernels_of_training() {
    let job = Generation { batch: 1, prompt: 16, ..job(small(), Kernels::Eager) };
    let trained = Training::new(small(), 16);
    let trained = Training { kernels: Kernels::Eager, ..trained }.trace();
    let generated = job.trace();
    let mut of_blocks = generated.clone();
    let copies = of_blocks.ops.extract_if(.., |op| {
        let uses = &generated.uses[op.uses.start as usize..op.uses.end as usize];
        let kinds = uses.iter().map(|one| generated.objects[one.object.index()].kind);
        op.phase == Phase::Prefill
            && op.name == "cat"
            && kinds.clone().any(|kind| kind == ObjectKind::Kv)
    });
    let copies: Vec<u64> = copies.map(|op| op.bytes.get()).collect();
    assert_eq!(copies, vec![2 * 2 * 16 * KEYS; 2 * LAYERS as usize]);
    let of_prompt = ops(&of_blocks, Phase::Prefill, true);
    let mut of_training = ops(&trained, Phase::Forward, true);
    for one in of_training.iter_mut().filter(|one| one.0 == "attention") {
        // A sum in fp32 for each of four heads and 16 tokens.
        one.3 -= 4 * 4 * 16;
    }
    assert_eq!(of_prompt, of_training);
    // Around them the table, the last norm of all tokens, and logits of one of them.
    let around = ops(&generated, Phase::Prefill, false);
    let [norm @ .., head, wide] = &around[1..] else { panic!("{around:?}") };
    let all = ops(&trained, Phase::Forward, false);
    assert_eq!(around[0], all[0]);
    assert_eq!(norm, &all[1..9]);
    assert_eq!((head.2, head.3), (2 * 64 * 100, 2 * (64 + 64 * 100 + 100)));
    assert_eq!((wide.0, wide.2, wide.3), ("_to_copy", 0, (2 + 4) * 100));
}

/// FLOPs of products and attention are those of compiled kernels in every step, as are weights.
#[test]
fn products_are_those_of_compiled_kernels() {
    let experts = Some(Experts { count: 4, active: 2, ffn: 48, shared: 0, dense_first: 0 });
    let mixture = Card { family: Family::Mixtral, experts, ..small() };
    let gpt2 = Card { family: Family::Gpt2, kv_heads: 4, positions: 64, ..small() };
    let qwen = Card { family: Family::Qwen, ..small() };
    for card in [small(), mixture, Card { qkv_bias: true, ..gpt2 }, qwen] {
        for (tensor, kv_block) in [(1, None), (2, None), (1, Some(4))] {
            let of = |kernels| {
                let job = job(card.clone(), kernels);
                let job = Generation { tensor, devices: tensor, kv_block, ..job };
                assert_eq!(job.problems(), [], "{job:?}");
                let trace = job.trace();
                assert_eq!(trace.problems(), [], "{job:?}");
                check_kernels_of(&trace, kernels == Kernels::Eager);
                let steps = (0..job.tokens).map(|step| {
                    let of_step = trace.ops.iter().filter(|op| op.step == step);
                    let all = of_step.filter_map(|op| op.kernels.as_deref()).flatten();
                    let products = all.filter(|one| !matches!(one.work, Work::Streaming(_)));
                    products.map(|one| u128::from(one.flops) * u128::from(one.times)).sum::<u128>()
                });
                (steps.collect::<Vec<u128>>(), sum(&trace, ObjectKind::Weight))
            };
            assert_eq!(of(Kernels::Eager), of(Kernels::Compiled), "{} {tensor}", card.name);
        }
    }
}

/// In bytes of one position of both sequences: what a step's two copies per layer read and write,
/// and the most keys and values at once, which is while the first layer's values are copied in the
/// last step.
#[test]
fn a_cache_is_made_anew_by_two_copies_per_layer() {
    let job = job(small(), Kernels::Eager);
    let trace = job.trace();
    let each = 2 * 2 * KEYS;
    for step in 0..u64::from(job.tokens) {
        let [past, new] = if step == 0 { [0, job.prompt] } else { [job.prompt + step - 1, 1] };
        let copies = trace.ops.iter().filter(|op| {
            let uses = &trace.uses[op.uses.start as usize..op.uses.end as usize];
            let kind = |object: usize| trace.objects[object].kind;
            let writes = |kv: ObjectKind| {
                uses.iter().any(|one| one.mode.writes() && kind(one.object.index()) == kv)
            };
            u64::from(op.step) == step && op.name == "cat" && writes(ObjectKind::Kv)
        });
        let bytes: Vec<u64> = copies.map(|op| op.bytes.get()).collect();
        assert_eq!(bytes, vec![each * 2 * (past + new); 2 * LAYERS as usize], "step {step}");
    }
    let most = alive(&trace, |object| object.kind == ObjectKind::Kv).into_iter().max();
    let past = job.positions() - 1;
    assert_eq!(most, Some(each * (3 * past + 2 + (LAYERS - 1) * 2 * past)));
}

/// `DynamicSlidingWindowLayer` keeps one token less than the window for the next step.
#[test]
fn a_window_bounds_what_is_copied() {
    let card = Card { window: Some(4), ..small() };
    let job = Generation { batch: 1, prompt: 10, tokens: 2, ..job(card, Kernels::Eager) };
    let trace = job.trace();
    let kv = trace.objects.iter().filter(|object| object.kind == ObjectKind::Kv);
    let sizes: Vec<u64> = kv.map(|object| object.bytes.get() / (2 * KEYS)).collect();
    assert_eq!(sizes, [10, 10, 10, 10, 4, 4, 4, 4]);
}

/// In blocks it grows where it lies, as with other kernels, and may be there before.
#[test]
fn a_cache_in_blocks_is_that_of_compiled_kernels() {
    for (prefill, attention) in [(true, AttentionOn::Device), (false, AttentionOn::Host)] {
        let [one, other] = [Kernels::Eager, Kernels::Compiled].map(|kernels| {
            let job = job(small(), kernels);
            let job = Generation { kv_block: Some(4), prefill, attention, ..job };
            let trace = job.trace();
            let attended = trace.ops.iter().filter(|op| op.name == "attention");
            let bytes: Vec<u64> = attended.map(|op| op.bytes.get()).collect();
            (bytes, sum(&trace, ObjectKind::Kv))
        });
        assert_eq!(one, other);
    }
}

#[test]
fn what_eager_kernels_are_not_known_of_is_refused() {
    let good = job(small(), Kernels::Eager);
    let bloom = Card { family: Family::Bloom, kv_heads: 4, qkv_bias: true, ..small() };
    let experts = Some(Experts { count: 4, active: 2, ffn: 48, shared: 1, dense_first: 0 });
    let shared = Card { family: Family::Qwen, experts, ..small() };
    let int8 = Formats { activations: Format::Int8, ..good.formats };
    for (job, field, rule) in [
        (Generation { card: bloom, ..good.clone() }, "kernels", "of bloom"),
        (Generation { card: shared, ..good.clone() }, "kernels", "of shared experts"),
        (Generation { formats: int8, ..good.clone() }, "kernels", "of 16 or 32 bits"),
        (Generation { prefill: false, ..good.clone() }, "kv_block", "begins with the prompt"),
        (Generation { attention: AttentionOn::Host, ..good }, "kv_block", "is on the device"),
    ] {
        let problems = job.problems();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.field, field);
        assert!(problem.rule.contains(rule), "{problem:?}");
        assert_eq!(Generation { kernels: Kernels::Compiled, ..job }.problems(), []);
    }
}

/// Of a norm in bf16: to more bits, squares, their mean, a number and a root per row, a factor per
/// row, to fewer bits, a factor per column.
#[test]
fn operations_are_priced_by_how_their_kernels_go_through_memory() {
    use tiersim_models::kernel::Streaming::{Reduction, Strided, Vectorized};
    let trace = job(small(), Kernels::Eager).trace();
    let blocks = ops(&trace, Phase::Prefill, true);
    let norm: Vec<(&str, Work)> = blocks.iter().take(8).map(|one| (one.0, one.1)).collect();
    let wanted = [
        ("_to_copy", Strided),
        ("pow", Vectorized),
        ("mean", Reduction),
        ("add", Vectorized),
        ("rsqrt", Vectorized),
        ("mul", Strided),
        ("_to_copy", Vectorized),
        ("mul", Strided),
    ];
    assert_eq!(norm, wanted.map(|(name, class)| (name, Work::Streaming(class))));
    // Rotary positions: cosines are of one head, halves are alike.
    let of = |name: &str| -> Vec<Work> {
        let all = blocks.iter().filter(|one| one.0 == name).map(|one| one.1);
        all.collect()
    };
    assert!(of("neg").iter().all(|work| *work == Work::Streaming(Vectorized)));
    assert!(of("cat").iter().all(|work| *work == Work::Streaming(Vectorized)));
    assert!(of("silu").iter().all(|work| *work == Work::Streaming(Vectorized)));
}
