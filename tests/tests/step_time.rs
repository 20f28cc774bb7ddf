//! Training steps of Megatron on A100s, whose times were published: generated from the model card,
//! simulated on all devices of one server, and compared on `docs/explanation/accuracy.md`.
//!
//! Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022,
//! table 5, updated in the passes of Megatron's mixed precision. No number of the machine comes from these rows, and nothing but what was published
//! differs between them.

use tiersim_input::scenario::sweep::read_run_with;
use tiersim_policies::zoo::Registry;
use tiersim_tests::files::{assert_rows, machine, record, root};
use tiersim_tests::prelude::*;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, OptimizerKernels, Parallel, Training,
};

/// The server that it ran on.
/// As scenarios with `time: roofline(...)` have it.
fn server() -> Hardware {
    let mut server = machine("dgx-a100-80g");
    server.compute.as_mut().expect("it computes").op_times = None;
    server
}

/// Eight-way tensor parallelism in 16 bits with dropout; all of a layer computed again, or only
/// attention with the rest split by sequence.
fn training(
    model: &str,
    (batch, micro_batch): (u32, u32),
    stages: (u32, u32),
    full: bool,
) -> Training {
    Training {
        batch,
        micro_batch,
        formats: Formats::all(Format::Fp16),
        checkpointing: if full { Checkpointing::Full } else { Checkpointing::Selective },
        attention: Attention::Eager,
        dropout: true,
        optimizer_kernels: Some(OptimizerKernels::MixedPrecision),
        parallel: Parallel {
            tensor: 8,
            sequence: !full,
            pipeline: stages.0,
            interleave: stages.1,
            ..Parallel::default()
        },
        ..Training::new(known(model).expect("it is known by name").card(), 2048)
    }
}

/// The published rows, in milliseconds.
fn published() -> Vec<(&'static str, Training, u64)> {
    let small = |full| training("megatron-22b", (4, 4), (1, 1), full);
    let large = |full| training("megatron-175b", (64, 1), (8, 3), full);
    vec![
        ("22B, 8 A100, full recomputation", small(true), 1420),
        ("22B, 8 A100, selective and sequence parallel", small(false), 1100),
        ("175B, 64 A100, full recomputation", large(true), 18_130),
        ("175B, 64 A100, selective and sequence parallel", large(false), 13_750),
    ]
}

/// What ops take beside what they do over links.
fn spans(hardware: &Hardware, ops: &[Op]) -> Vec<Span> {
    let compute = hardware.compute.as_ref().expect("it computes");
    let span = |(op, time): (&Op, Option<Span>)| match op.unit {
        Unit::Network(_) => compute.launch,
        _ => time.expect("it has a peak"),
    };
    ops.iter().zip(compute.times("fp16", ops)).map(span).collect()
}

/// A step in microseconds, with everything in HBM.
fn simulated(hardware: Hardware, training: &Training, ranks: u32) -> u64 {
    let trace = training.trace();
    let spans = spans(&hardware, &trace.ops);
    let world = World::of(hardware, trace, spans);
    let start = vec![HBM; world.workload.trace.objects.len()];
    let (ends, _) = world.scripted_on(ranks, start, Vec::new());
    ends.into_iter().max().unwrap_or(0) / 1_000_000
}

#[test]
fn steps_take_what_was_published_within_a_tenth() {
    let mut rows = Vec::new();
    for (name, training, published) in published() {
        let predicted = simulated(server(), &training, 8);
        let error = predicted as f64 / (published * 1000) as f64 - 1.0;
        rows.push(format!(
            "| {name} | {:.2} s | {:.2} s | {:+.1} % |",
            published as f64 / 1e3,
            predicted as f64 / 1e6,
            error * 100.0
        ));
        assert!(error.abs() < 0.1, "{}", rows.join("\n"));
    }
    let is_row = |line: &str| line.starts_with("| ") && line.contains("A100,");
    assert_rows("docs/explanation/accuracy.md", is_row, &rows);
}

#[test]
fn without_its_table_the_server_would_be_too_quick() {
    // That the rows above hold is owed to what small products reach, and not to luck.
    let mut plain = server();
    plain.compute.as_mut().expect("it computes").efficiency = Default::default();
    let (_, training, published) = &published()[1];
    let (with, without) = (simulated(server(), training, 1), simulated(plain, training, 1));
    assert!(without < with && (without as f64) < 0.95 * (*published * 1000) as f64, "{without}");
}

#[test]
fn ranks_of_one_tensor_group_take_as_long_as_one_of_them() {
    // They do the same at the same time, each over its own links.
    let (_, training, _) = &published()[0];
    assert_eq!(simulated(server(), training, 8), simulated(server(), training, 1));
}

/// Calculon's closed form (Isaev et al., "Calculon: a methodology and tool for high-level co-design
/// of systems and large language models", SC 2023) for a step whose optimizer state streams from
/// and to a tier of each device's own, at 95 % of these GB/s. It shares no code with this.
const CLOSED_FORM: [(&str, f64); 3] = [("16", 2.735), ("32", 1.662), ("64", 1.396)];

#[test]
fn state_that_streams_inside_backward_takes_what_a_closed_form_says_within_a_twentieth() {
    let file = root().join("scenarios/megatron-22b-state-outside.ron");
    let of_machines = read_run_with(&file, &[], &Registry::default()).expect("it reads");
    let mut rows = Vec::new();
    for ((rate, expected), point) in CLOSED_FORM.into_iter().zip(&of_machines.points) {
        let result = &record(&point.scenario, Options::default()).results[0];
        assert_eq!(result.label, format!("state outside on {rate} GB/s"));
        let step = result.outcome.figures().expect("it runs").mean_step().ps() as f64 * 1e-12;
        let error = step / expected - 1.0;
        rows.push(format!(
            "| 22B, state behind {rate} GB/s | {expected:.3} s | {step:.3} s | {:+.1} % |",
            error * 100.0
        ));
        assert!(error.abs() < 0.05, "{}", rows.join("\n"));
    }
    assert_rows("docs/explanation/accuracy.md", |line| line.contains("state behind"), &rows);
}
