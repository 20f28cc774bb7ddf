//! Eager kernels against the plain graph and against counts made by hand. That they are those of
//! PyTorch is what `record/tests/test_twin.py` compares.

use crate::transformer::shape::{alive, gpt2, llama_8b, mixtral, plain, sum};
use tiersim_models::kernel::Work;
use tiersim_models::workload::{Object, ObjectKind, Op, Phase, Trace, Unit};
use tiersim_workloads::memory::activations::of_stage;
use tiersim_workloads::transformer::card::{Card, Experts, Family};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Optimizer, OptimizerKernels, Parallel, Training, UpdateTime,
    Zero,
};

fn eager(card: Card, sequence: u64) -> Training {
    let formats = Formats::all(Format::Fp32);
    Training { kernels: Kernels::Eager, formats, ..plain(card, sequence) }
}

fn compiled(of: &Training) -> Training {
    Training { kernels: Kernels::Compiled, ..of.clone() }
}

/// FLOPs of products and attention.
fn products(trace: &Trace) -> u128 {
    let kernels = trace.ops.iter().filter_map(|op| op.kernels.as_deref()).flatten();
    let kernels = kernels.filter(|one| !matches!(one.work, Work::Streaming(_)));
    kernels.map(|one| u128::from(one.flops) * u128::from(one.times)).sum()
}

fn small() -> [Card; 4] {
    let llama = Card { layers: 2, hidden: 64, ffn: 96, heads: 4, kv_heads: 2, ..llama_8b() };
    let llama = Card { head_dim: 16, vocab: 100, ..llama };
    let experts = Some(Experts { count: 4, active: 2, ffn: 48, shared: 0, dense_first: 0 });
    let opt = Card { family: Family::Opt, vocab: 100, positions: 64, ..gpt2(2, 64, 4) };
    let gpt2 = Card { vocab: 100, positions: 64, ..gpt2(2, 64, 4) };
    [llama.clone(), Card { vocab: 100, experts, ..Card { layers: 2, ..mixtral() } }, gpt2, opt].map(
        |card| match card.experts {
            Some(_) => Card { name: card.name, family: card.family, experts, ..llama.clone() },
            None => card,
        },
    )
}

#[test]
fn products_and_state_are_those_of_compiled_kernels() {
    for card in small() {
        for attention in [Attention::Flash, Attention::Eager] {
            for checkpointing in [Checkpointing::None, Checkpointing::Full] {
                let batch = Training { batch: 4, micro_batch: 2, ..eager(card.clone(), 16) };
                let job = Training { attention, checkpointing, ..batch };
                assert_eq!(job.problems(), []);
                let [one, other] = [job.trace(), compiled(&job).trace()];
                assert_eq!(one.problems(), Vec::new());
                assert_eq!(products(&one), products(&other), "{job:?}");
                for kind in [ObjectKind::Weight, ObjectKind::Gradient, ObjectKind::Optimizer] {
                    assert_eq!(sum(&one, kind), sum(&other, kind), "{job:?}");
                }
            }
        }
    }
}

fn ops<'a>(trace: &'a Trace, phase: Phase, module: &str) -> Vec<&'a Op> {
    let of = |op: &&Op| {
        let name = op.module.map(|module| trace.modules[module.index()].as_str());
        op.phase == phase && name == Some(module)
    };
    trace.ops.iter().filter(of).collect()
}

fn names<'a>(ops: &[&'a Op]) -> Vec<&'a str> {
    ops.iter().map(|op| op.name.as_str()).collect()
}

/// 16 rows of 64 numbers: kernels of LlamaRMSNorm, one by one, of the first norm.
#[test]
fn an_rms_norm_is_the_kernels_of_the_makers_code() {
    let trace = eager(small()[0].clone(), 16).trace();
    let (rows, numbers, width) = (16, 16 * 64, 64);
    let forward = ops(&trace, Phase::Forward, "model.layers.0.input_layernorm");
    assert_eq!(names(&forward), ["pow", "mean", "add", "rsqrt", "mul", "mul"]);
    let touched: u64 = forward.iter().map(|op| op.bytes.get()).sum();
    assert_eq!(touched, 4 * (7 * numbers + 6 * rows + width));
    let flops: u64 = forward.iter().map(|op| op.flops).sum();
    assert_eq!(flops, 4 * numbers + 2 * rows);
    let backward = ops(&trace, Phase::Backward, "model.layers.0.input_layernorm");
    let expected = "mul mul sum mul mul sum add pow mul mul div pow mul mul add";
    assert_eq!(names(&backward), expected.split(' ').collect::<Vec<&str>>());
    let kept: Vec<u64> = trace
        .objects
        .iter()
        .filter(|object| {
            object.kind == ObjectKind::Activation
                && object.name.starts_with("m0.model.layers.0.input_layernorm.")
        })
        .map(|object| object.bytes.get())
        .collect();
    // What it gives, one root per row, and its input times that.
    assert_eq!(kept, [4 * numbers, 4 * rows, 4 * numbers]);
}

#[test]
fn adamw_is_eight_kernels_and_twenty_numbers_per_parameter() {
    for card in small() {
        let parameters = card.parameters();
        let trace = eager(card, 16).trace();
        let update = trace.ops.iter().filter(|op| op.phase == Phase::Optimizer);
        let (bytes, flops, count) = update.fold((0, 0, 0), |(bytes, flops, count), op| {
            (bytes + op.bytes.get(), flops + op.flops, count + 1)
        });
        assert_eq!((bytes, flops), (4 * 20 * parameters, 14 * parameters));
        let weights = trace.objects.iter().filter(|o| o.kind == ObjectKind::Weight).count();
        assert_eq!(count, 8 * weights);
    }
}

/// Which kernels run and which update is said apart: of two that differ in one, the other part is
/// the same op by op.
#[test]
fn kernels_of_the_optimizer_are_chosen_apart() {
    let card = small()[0].clone();
    let of = |kernels, optimizer_kernels| {
        let job = Training { kernels, optimizer_kernels, ..eager(card.clone(), 16) };
        assert_eq!(job.problems(), []);
        let trace = job.trace();
        let (update, passes): (Vec<_>, Vec<_>) =
            trace.ops.iter().partition(|op| op.phase == Phase::Optimizer);
        let rows = |ops: Vec<&Op>| -> Vec<(String, u64, u64)> {
            ops.iter().map(|op| (op.name.to_string(), op.flops, op.bytes.get())).collect()
        };
        [rows(passes), rows(update)]
    };
    let (eager, compiled) = (Kernels::Eager, Kernels::Compiled);
    let [loops, fused] = [OptimizerKernels::ForLoop, OptimizerKernels::Fused].map(Some);
    assert_eq!(of(eager, None), of(eager, loops));
    assert_eq!(of(compiled, None), of(compiled, fused));
    assert_eq!(of(eager, fused)[0], of(eager, None)[0]);
    assert_eq!(of(compiled, loops)[0], of(compiled, None)[0]);
    assert_eq!(of(compiled, loops)[1], of(eager, None)[1]);
    // A gradient and both moments and weights, read and written: 7 numbers, in one op per module.
    let [_, update] = of(eager, fused);
    assert_eq!(update, of(compiled, None)[1]);
    let bytes: u64 = update.iter().map(|row| row.2).sum();
    assert_eq!(bytes, 4 * 7 * card.parameters());
    let optimizer = Optimizer::Lion;
    let lion = Training { optimizer, optimizer_kernels: loops, ..plain(card.clone(), 16) };
    let fields: Vec<_> = lion.problems().iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["optimizer_kernels"]);
}

/// Bytes per parameter of Megatron-LM's passes: with fp16 alone 6 + 8 + 4 + 8 + 28 + 6; a scale of
/// the loss is of fp16, and gradients of 32 bits are not copied.
#[test]
fn mixed_precision_updates_in_passes() {
    let optimizer_kernels = Some(OptimizerKernels::MixedPrecision);
    let card = small()[2].clone();
    let of = |weights, gradients, stage, data| {
        let formats = Formats { gradients, ..Formats::all(weights) };
        let parallel = Parallel { data, ..Parallel::default() };
        let zero = Zero { stage, ..Zero::default() };
        let job = plain(card.clone(), 16);
        Training { formats, optimizer_kernels, parallel, zero, ..job }
    };
    let bytes = |job: Training| -> u64 {
        assert_eq!(job.problems(), []);
        let trace = job.trace();
        assert_eq!(trace.problems(), []);
        let update = trace.ops.iter().filter(|op| op.phase == Phase::Optimizer);
        update.filter(|op| op.unit == Unit::Device).map(|op| op.bytes.get()).sum()
    };
    let (fp16, bf16, fp32) = (Format::Fp16, Format::Bf16, Format::Fp32);
    let all = card.parameters();
    assert_eq!(bytes(of(fp16, fp16, 0, 1)), 60 * all);
    assert_eq!(bytes(of(bf16, bf16, 0, 1)), 52 * all);
    assert_eq!(bytes(of(bf16, fp32, 0, 1)), 46 * all);
    assert_eq!(bytes(of(fp16, fp16, 1, 2)), 60 * all / 2);
    assert_eq!(bytes(of(bf16, fp32, 1, 2)), 46 * all / 2);
    let whole = of(fp32, fp32, 0, 1);
    let streamed = Training { update: UpdateTime::InBackward, ..of(bf16, bf16, 0, 1) };
    for job in [whole, streamed] {
        let fields: Vec<_> = job.problems().iter().map(|problem| problem.field).collect();
        assert_eq!(fields, ["optimizer_kernels"]);
    }
}

/// In bf16 with a master copy in fp32: gradients become fp32 first (2 + 4), the copy is updated
/// (80), and the weights are a copy of it (4 + 2).
#[test]
fn a_master_copy_is_updated_and_copied() {
    let job = eager(small()[2].clone(), 16);
    let trace = Training { formats: Formats::all(Format::Bf16), ..job }.trace();
    let update = trace.ops.iter().filter(|op| op.phase == Phase::Optimizer);
    let bytes: u64 = update.map(|op| op.bytes.get()).sum();
    assert_eq!(bytes, (6 + 80 + 6) * small()[2].parameters());
}

/// The first micro-batch's gradients are kept as they come, the second one's are added.
#[test]
fn later_gradients_are_added_by_kernels_of_their_own() {
    let job = Training { batch: 2, ..eager(small()[0].clone(), 16) };
    let trace = job.trace();
    let added = trace.ops.iter().filter(|op| op.name == "add_" && op.phase == Phase::Backward);
    let bytes: u64 = added.map(|op| op.bytes.get()).sum();
    assert_eq!(bytes, 4 * 3 * small()[0].parameters());
}

/// The most activations at once, to the byte: what blocks, head and tables keep.
#[test]
fn what_is_kept_is_what_the_formula_lists() {
    let qwen3 = Card { family: Family::Qwen, ..small()[0].clone() };
    for card in small().into_iter().chain([qwen3]) {
        for attention in [Attention::Flash, Attention::Eager] {
            for format in [Format::Fp32, Format::Bf16] {
                for (dropout, checkpointing) in [
                    (false, Checkpointing::None),
                    (true, Checkpointing::None),
                    (false, Checkpointing::Full),
                ] {
                    let formats = Formats::all(format);
                    let job = Training { formats, dropout, ..eager(card.clone(), 16) };
                    let job = Training { attention, checkpointing, ..job };
                    let trace = job.trace();
                    let kept = |object: &Object| object.kind == ObjectKind::Activation;
                    let run = alive(&trace, kept).into_iter().max();
                    assert_eq!(run.map(u128::from), Some(listed(&job)), "{job:?}");
                }
            }
        }
    }
}

fn listed(job: &Training) -> u128 {
    let found = of_stage(job).expect("it is small");
    found.kept + found.statistics + found.recomputed + found.embedding + found.head
}

#[test]
fn what_eager_kernels_are_not_known_of_is_refused() {
    let [llama, mixtral, ..] = small();
    let bloom = Card { family: Family::Bloom, positions: 0, ..small()[2].clone() };
    let shared = Experts { count: 4, active: 2, ffn: 48, shared: 1, dense_first: 0 };
    let shared = Card { family: Family::Qwen, experts: Some(shared), ..mixtral.clone() };
    let over_ranks = |mut job: Training| {
        (job.parallel.data, job.parallel.expert) = (2, 2);
        job
    };
    let int8 = Formats { activations: Format::Int8, ..Formats::all(Format::Bf16) };
    let selective = Training {
        checkpointing: Checkpointing::Selective,
        attention: Attention::Eager,
        ..eager(llama.clone(), 16)
    };
    let in_backward = Training { update: UpdateTime::InBackward, ..eager(mixtral.clone(), 16) };
    for (job, field, rule) in [
        (eager(bloom, 16), "kernels", "of bloom"),
        (eager(shared, 16), "kernels", "of shared experts"),
        (in_backward, "update", "all experts of a block at once"),
        (over_ranks(eager(mixtral, 16)), "kernels", "all experts on one rank"),
        (Training { formats: int8, ..eager(llama, 16) }, "kernels", "of 16 or 32 bits"),
        (selective, "checkpointing", "whole blocks of this attention again"),
    ] {
        let problems = job.problems();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.field, field);
        assert!(problem.rule.contains(rule), "{problem:?}");
        assert_eq!(compiled(&job).problems(), []);
    }
}
