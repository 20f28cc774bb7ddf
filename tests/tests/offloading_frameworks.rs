//! What accelerate, FSDP2 and PyTorch's own means of offloading took on a real H200, against the
//! shipped scenarios of the same runs: compared on `docs/explanation/accuracy.md`.
//!
//! Measured values are read from the runs' files (`validation/frameworks/measure.py`). The machines
//! have rates from single copies and from Adam alone, the runtimes times of the host from rows of
//! nothing else; no number comes from a row that is graded.

use tiersim_input::hardware_file::read_hardware;
use tiersim_models::server::Cpu;
use tiersim_policies::scenario::OpTime;
use tiersim_tests::files::{assert_rows, record, root, shipped_scenario};
use tiersim_tests::measured::Measured;
use tiersim_tests::prelude::*;

const RUN: &str = "validation/results/2026-11-26-nvidia-h200-frameworks";
/// The same on an H100, and what the thread of such a machine takes alone.
const LATER: &str = "validation/results/2026-11-27-nvidia-h100-80gb-hbm3-frameworks";
/// Its machine.
const H100: (&str, &str) = ("hardware", "\"h100-virtual-machine\"");
const PAGE: &str = "docs/explanation/accuracy.md";
const COPIES: &str = "one layer's copies";
/// What a hook of accelerate loads of a layer, and its bytes.
const LAYER: [(&str, u64); 9] = [
    ("self_attn.q_proj", 33_554_432),
    ("self_attn.k_proj", 8_388_608),
    ("self_attn.v_proj", 8_388_608),
    ("self_attn.o_proj", 33_554_432),
    ("mlp.gate_proj", 117_440_512),
    ("mlp.up_proj", 117_440_512),
    ("mlp.down_proj", 117_440_512),
    ("input_layernorm", 8192),
    ("input_layernorm", 8192),
];

/// Seconds of all nine weights of a layer.
fn layer(measured: &Measured, what: &str, memory: &str) -> f64 {
    let of = |(name, bytes): (&str, u64)| format!("{what} {memory} {name} of {bytes} B");
    LAYER.map(|part| measured.of(COPIES, &of(part))).iter().sum()
}

/// Lengths of a case's steps in seconds, and its peak in HBM.
fn ran(scenario: &str, set: &[(&str, &str)], case: &str) -> (Vec<f64>, f64) {
    let record = record(&shipped_scenario(scenario, set), Options::default());
    let result = record.results.iter().find(|result| result.label == case).expect("a case");
    let figures = result.outcome.figures();
    let figures = figures.unwrap_or_else(|| panic!("{case}: {:?}", result.outcome));
    let steps = figures.steps.iter().map(|step| step.ps() as f64 * 1e-12).collect();
    (steps, figures.peak[0].get() as f64)
}

fn percent(predicted: f64, measured: f64) -> String {
    format!("{:+.1} %", (predicted / measured - 1.0) * 100.0)
}

/// The rates of a machine's copies against those of a layer's weights, copied alone.
fn assert_copies(machine: &str, measured: &Measured) -> Hardware {
    let file = root().join(format!("hardware-specs/{machine}.ron"));
    let machine = read_hardware(&file).expect("it is a machine");
    let (link, bytes) = (&machine.links[0], LAYER.map(|(_, bytes)| bytes).iter().sum::<u64>());
    let pageable = link.pageable.expect("it says what pageable memory reaches");
    let rates = [
        (link.read.rate, "copy in", "pinned"),
        (link.write.rate, "copy out", "pinned"),
        (pageable[0], "copy in", "pageable"),
        (pageable[1], "copy out", "pageable"),
    ];
    for (rate, what, memory) in rates {
        let found = bytes as f64 / layer(measured, what, memory);
        let error = rate.get() as f64 / found - 1.0;
        assert!(error.abs() < 5e-4, "{what} {memory}: {found}");
    }
    machine
}

#[test]
fn numbers_of_the_machine_and_of_the_runtime_are_those_of_single_parts() {
    let measured = Measured::read(RUN);
    let machine = assert_copies("h200-virtual-machine", &measured);
    let Cpu { memory, .. } = machine.cpu.as_ref().expect("it has processors");
    let adam = 14.0 * measured.of("Adam on the CPU", "AdamW fused bf16 rate");
    assert!((memory.get() as f64 / adam - 1.0).abs() < 5e-4, "{adam}");

    let scenario = shipped_scenario("accelerate-llama-3.1-8b", &[]);
    let ops = traces_of(&scenario);
    let runtime = &scenario.cases[0].runtime;
    let per_op = measured.of("accelerate: 0 layers", "decode a token at batch 1") / ops as f64;
    let both = layer(&measured, "hook loads", "pinned") + layer(&measured, "hook drops", "pinned");
    let per_object = (both - layer(&measured, "copy in", "pinned")) / LAYER.len() as f64;
    for (said, found) in [(runtime.per_op, per_op), (runtime.per_object, per_object)] {
        let error = said.ps() as f64 * 1e-12 / found - 1.0;
        assert!(error.abs() < 5e-4, "{said} {found}");
    }
}

/// The thread's time for each op is that of a step with as many ops and next to nothing in them.
#[test]
fn the_thread_takes_for_an_op_what_it_takes_alone() {
    let measured = Measured::read(LATER);
    assert_copies("h100-virtual-machine", &measured);
    for ((name, _, set, case, _), alone) in STEPS.iter().zip(ALONE) {
        let scenario = shipped_scenario("llama-3.2-1b-activations", set);
        let traces = tiersim_tests::files::traces(&scenario);
        let ops = traces.of(&scenario).trace.ops.len() as f64;
        let one = scenario.cases.iter().find(|one| one.label == *case).expect("a case");
        let step = measured.of(&format!("train: the thread alone, {alone}"), "step");
        let error = one.runtime.per_op.ps() as f64 * 1e-12 * ops / step - 1.0;
        assert!(error.abs() < 5e-3, "{name}: {}", step / ops);
    }
    // accelerate's hooks: a prompt with 144 weights to load, and one with none.
    let nothing = measured.of("accelerate: 0 layers", "decode a token at batch 1");
    let loads = measured.of("accelerate: the thread alone", "prefill 1 x 64") - nothing;
    let per_object = shipped_scenario("accelerate-llama-3.1-8b", &[]).cases[0].runtime.per_object;
    let error = per_object.ps() as f64 * 1e-12 / (loads / 144.0) - 1.0;
    assert!(error.abs() < 0.01, "{loads}: of the other machine, weights loaded one by one");
}

/// Ops of one step of generation.
fn traces_of(scenario: &Scenario) -> usize {
    let traces = tiersim_tests::files::traces(scenario);
    let ops = &traces.of(scenario).trace.ops;
    ops.iter().filter(|op| op.step == 1).count()
}

/// Of a token with all on the device, the profiler counted as many ops of each name as are
/// generated, but for what is on positions alone: one sum, one copy, and angles that
/// `transformers` 5.17 has from a product. Of the generated copies one is that of logits to fp32,
/// which `generate` makes and the run does not.
#[test]
fn a_token_has_the_ops_that_the_profiler_counted() {
    let runs = profiles(RUN);
    let rows = runs["profiles"]["accelerate: 0 layers and no hooks"]["rows"].as_array();
    let counted = |name: &str| {
        let row = rows.expect("it was profiled").iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("no {name}"))[1].as_u64().expect("a count")
    };
    let scenario = shipped_scenario("accelerate-llama-3.1-8b", &[]);
    let traces = tiersim_tests::files::traces(&scenario);
    let ops = traces.of(&scenario).trace.ops.iter().filter(|op| op.step == 1);
    let names: Vec<&str> = ops.map(|op| op.name.as_str()).collect();
    let [positions, angles, logits] = [1, 1, 1];
    for (of_pytorch, name, more) in [
        ("aten::mm", "linear", 0),
        ("aten::mul", "mul", -angles),
        ("aten::add", "add", positions),
        ("aten::cat", "cat", 0),
        ("aten::mean", "mean", 0),
        ("aten::copy_", "_to_copy", positions - logits),
        ("aten::pow", "pow", 0),
        ("aten::neg", "neg", 0),
        ("aten::rsqrt", "rsqrt", 0),
        ("aten::silu", "silu", 0),
        ("aten::_cudnn_attention_forward", "attention", 0),
    ] {
        let generated = names.iter().filter(|&&one| one == name).count() as i64;
        assert_eq!(generated + more, counted(of_pytorch) as i64, "{of_pytorch}");
    }
}

/// Cases of the scenario, as the run calls them, and whether the first prompt of eight is the only
/// one that it has.
const CASES: [(&str, &str, bool); 5] = [
    ("all on the device", "accelerate: 0 layers", false),
    ("8 layers", "accelerate: 8 layers", true),
    ("16 layers", "accelerate: 16 layers", true),
    ("16 layers pinned", "accelerate: 16 layers pinned", false),
    ("32 layers", "accelerate: 32 layers", true),
];

/// What was measured of a case: the page's name and the run's, whether it is of eight sequences, and
/// which step it is. The prompt is the first one, and the last one is a token behind others.
fn quantities(first: bool) -> [(&'static str, &'static str, bool, usize); 4] {
    let of_eight = if first { "prefill 8 x 512 first" } else { "prefill 8 x 512" };
    [
        ("prompt", "prefill 1 x 512", false, 0),
        ("8 prompts", of_eight, true, 0),
        ("token", "decode a token at batch 1", false, 2),
        ("token of 8", "decode a token at batch 8", true, 2),
    ]
}

#[test]
fn generation_by_accelerate_takes_what_the_page_says() {
    let measured = Measured::read(RUN);
    let steps = |batch| {
        let own = ("workload.mode.batch", batch);
        let sets = [vec![own], vec![own, ("hardware", "\"h200-sxm-pcie5\"")]];
        sets.map(|set| CASES.map(|(case, _, _)| ran("accelerate-llama-3.1-8b", &set, case).0))
    };
    let (mut rows, one, eight) = (Vec::new(), steps("1"), steps("8"));
    for (index, (name, case, first)) in CASES.into_iter().enumerate() {
        for (what, quantity, of_eight, step) in quantities(first) {
            let steps = if of_eight { &eight } else { &one };
            let [predicted, as_shipped] = [0, 1].map(|set: usize| steps[set][index][step]);
            let measured = measured.of(case, quantity);
            let taken = index == 0 && quantity == "decode a token at batch 1";
            let error = |predicted| match taken {
                true => "a constant was taken from it".to_owned(),
                false => percent(predicted, measured),
            };
            let [own, shipped] = [predicted, as_shipped].map(error);
            let [measured, predicted, as_shipped] =
                [measured, predicted, as_shipped].map(|s| format!("{:.1}", s * 1e3));
            rows.push(format!(
                "| accelerate, {name}, {what} | {measured} | {predicted} | {own} | {as_shipped} | {shipped} |"
            ));
        }
    }
    assert_rows(PAGE, |line| line.starts_with("| accelerate, "), &rows);
}

/// accelerate on an H100, of which nothing but its copies is known.
#[test]
fn generation_on_an_h100_takes_what_the_page_says() {
    let (measured, mut rows) = (Measured::read(LATER), Vec::new());
    let steps = |batch| {
        let set = [("workload.mode.batch", batch), H100, ("expect", "[]")];
        ["all on the device", "16 layers", "16 layers pinned"]
            .map(|case| (case, ran("accelerate-llama-3.1-8b", &set, case).0))
    };
    for ((name, one), (_, eight)) in steps("1").into_iter().zip(steps("8")) {
        let (_, case, first) = CASES.iter().find(|(case, ..)| *case == name).expect("a case");
        for (what, quantity, of_eight, step) in quantities(*first) {
            let steps = if of_eight { &eight } else { &one };
            let (predicted, measured) = (steps[step], measured.of(case, quantity));
            rows.push(format!(
                "| on an H100, accelerate, {name}, {what} |{}",
                row(measured, predicted)
            ));
        }
    }
    for (name, scenario, set, case, of) in STEPS {
        let set = [set, &[H100, ("expect", "[]")]].concat();
        let (steps, _) = ran(scenario, &set, case);
        let predicted = steps.iter().sum::<f64>() / steps.len() as f64;
        let row = row(measured.of(of, "step"), predicted);
        rows.push(format!("| on an H100, Llama 3.2 1B, {name} |{row}"));
    }
    assert_rows(PAGE, |line| line.starts_with("| on an H100, "), &rows);
}

/// Cells of milliseconds, and the error.
fn row(measured: f64, predicted: f64) -> String {
    let error = percent(predicted, measured);
    format!(" {:.1} | {:.1} | {error} |", measured * 1e3, predicted * 1e3)
}

/// `save_on_cpu` copies what `saved_tensors_hooks` counted, out and back, but for 65,796 bytes: token
/// ids twice as 8 bytes each, seeds of attention, the sum of the loss's weights.
#[test]
fn what_ops_save_is_copied_out_and_back() {
    let measured = Measured::read(RUN);
    let saved = ["activations", "weights"].map(|kind| {
        measured.of("train: all on the device", &format!("saved for the backward: {kind}"))
    });
    let record = record(&shipped_scenario("llama-3.2-1b-activations", &[]), Options::default());
    let case = record.results.iter().find(|result| result.label == "activations to the host");
    let figures = case.expect("it is a case").outcome.figures().expect("it fits");
    let steps = figures.steps.len() as f64;
    let moved = figures.moved.iter().map(|bytes| bytes.get() as f64 / steps);
    let moved: Vec<f64> = moved.filter(|&bytes| bytes > 0.0).collect();
    let all: f64 = saved.iter().sum();
    assert_eq!(moved.len(), 2, "{moved:?}");
    // The file has nine digits of each.
    let rest = all - 65_796.0;
    assert!(moved.iter().all(|bytes| (bytes - rest).abs() < 60.0), "{moved:?} {all}");
}

/// FSDP2 copies the weights of 16 layers in twice and those of the root once, and no others; all
/// gradients leave.
#[test]
fn fsdp2_copies_layers_twice_and_the_root_once() {
    let scenario = shipped_scenario("fsdp2-llama-3.2-1b", &[]);
    let record = record(&scenario, Options::default());
    let figures = record.results[0].outcome.figures().expect("it fits");
    let steps = figures.steps.len() as u64;
    let (hidden, ffn, keys, vocab) = (2048u64, 8192, 512, 128_256);
    let layer = 2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * ffn + 2 * hidden;
    let root = vocab * hidden + hidden;
    let moved = figures.moved.iter().map(|bytes| bytes.get() / 2 / steps);
    let mut moved: Vec<u64> = moved.filter(|&bytes| bytes > 0).collect();
    moved.sort_unstable();
    assert_eq!(moved, [16 * layer + root, 2 * 16 * layer + root]);
}

/// What the profiler calls kernels of a step of training, and the names that they have here.
const KERNELS: [(&str, &[&str], &[&str]); 8] = [
    ("products", &["aten::mm"], &["linear", "mm"]),
    ("`mul`", &["aten::mul"], &["mul"]),
    ("copies", &["aten::copy_"], &["_to_copy", "clone", "slice_backward"]),
    ("sums of two", &["aten::add", "aten::add_"], &["add", "add_"]),
    ("AdamW, fused", &["aten::_fused_adamw_"], &["adam"]),
    (
        "softmax's logarithm, forward and backward",
        &["aten::_log_softmax", "aten::_log_softmax_backward_data"],
        &["_log_softmax", "_log_softmax_backward_data"],
    ),
    ("attention", &["aten::_cudnn_attention_forward"], &["attention"]),
    ("attention's gradients", &["aten::_cudnn_attention_backward"], &["attention_backward"]),
];

/// Profiles of a run.
fn profiles(run: &str) -> serde_json::Value {
    let text = fs::read_to_string(root().join(run).join("runs.json")).expect("it is kept");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Kernels of a step with all on the device, by kind, against the profiles of the runs.
#[test]
fn kernels_of_a_step_take_what_the_page_says() {
    let of_h100 = kernels_of_a_step(LATER, &[H100], "on an H100");
    let rows = [kernels_of_a_step(RUN, &[], "of PyTorch"), of_h100].concat();
    let is_row = |line: &str| {
        ["of PyTorch", "on an H100"].iter().any(|of| line.starts_with(&format!("  | {of}, ")))
    };
    assert_rows(PAGE, is_row, &rows);
}

fn kernels_of_a_step(run: &str, set: &[(&str, &str)], label: &str) -> Vec<String> {
    let runs = profiles(run);
    let profile = runs["profiles"]["train: all on the device"]["rows"].as_array().expect("rows");
    // A profile has the longest of its kernels.
    let measured = |name: &&str| -> Option<f64> {
        let row = profile.iter().find(|row| row[0] == *name)?;
        Some(row[3].as_f64().expect("microseconds") * 1e-3)
    };
    let scenario = shipped_scenario("llama-3.2-1b-activations", set);
    let OpTime::Priced { compute, .. } = &scenario.workload.time else { panic!("it is priced") };
    let traces = tiersim_tests::files::traces(&scenario);
    let trace = &traces.of(&scenario).trace;
    let times = compute.times("bf16", &trace.ops);
    let of_name = |name: &&str| -> f64 {
        let ops = trace.ops.iter().zip(&times).filter(|(op, _)| op.name == *name);
        ops.map(|(_, time)| time.expect("it has a formula").ps() as f64 * 1e-9).sum()
    };
    let row = |(what, theirs, ours): (&str, &[&str], &[&str])| {
        let measured: f64 = theirs.iter().map(measured).sum::<Option<f64>>()?;
        let predicted: f64 = ours.iter().map(of_name).sum();
        let error = percent(predicted, measured);
        Some(format!("  | {label}, {what} | {measured:.2} | {predicted:.2} | {error} |"))
    };
    KERNELS.into_iter().filter_map(row).collect()
}

/// What the page calls a step of training, the scenario, what is set in it and the case that predict
/// it, and what the run calls it.
type Step = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

const STEPS: [Step; 4] = [
    (
        "all on the device",
        "llama-3.2-1b-activations",
        &[],
        "all on the device",
        "train: all on the device",
    ),
    (
        "layers computed again",
        "llama-3.2-1b-activations",
        &[
            ("workload.mode.checkpointing", "full"),
            ("runtime.per_op", "us(55.6)"),
            ("expect", "[]"),
        ],
        "all on the device",
        "train: checkpointed",
    ),
    (
        "activations to the host",
        "llama-3.2-1b-activations",
        &[],
        "activations to the host",
        "train: activations to the host",
    ),
    ("FSDP2 offloaded", "fsdp2-llama-3.2-1b", &[], "CPUOffloadPolicy", "train: FSDP2 offloaded"),
];

/// The first three steps as cases of the thread alone.
const ALONE: [&str; 3] = ["all on the device", "checkpointed", "activations to the host"];

#[test]
fn steps_of_training_take_what_the_page_says() {
    let [measured, later] = [RUN, LATER].map(Measured::read);
    let (mut rows, mut peaks) = (Vec::new(), Vec::new());
    for (name, scenario, set, case, of) in STEPS {
        let by = |time: &str| {
            let set = [set, &[("workload.time", time)]].concat();
            let (steps, peak) = ran(scenario, &set, case);
            (steps.iter().sum::<f64>() / steps.len() as f64, peak)
        };
        let step = measured.of(of, "step");
        let (op_times, peak) = by("op_times(precision: \"bf16\")");
        let (roofline, _) = by("roofline(precision: \"bf16\")");
        let [by_op_times, by_roofline] = [op_times, roofline].map(|found| percent(found, step));
        let [step, op_times, roofline] =
            [step, op_times, roofline].map(|s| format!("{:.1}", s * 1e3));
        rows.push(format!(
            "| Llama 3.2 1B, {name} | {step} | {op_times} | {by_op_times} | {roofline} | {by_roofline} |"
        ));
        // The first run kept what it had counted before.
        let run = if of == "train: all on the device" { &later } else { &measured };
        let held = run.of(of, "device memory at most");
        let error = percent(peak, held);
        let [held, peak] = [held, peak].map(|bytes| format!("{:.2}", bytes * 1e-9));
        peaks.push(format!("| peak, {name} | {held} | {peak} | {error} |"));
    }
    assert_rows(PAGE, |line| line.starts_with("| Llama 3.2 1B, "), &rows);
    assert_rows(PAGE, |line| line.starts_with("| peak, "), &peaks);
}
