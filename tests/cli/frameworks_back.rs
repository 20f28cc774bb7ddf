//! `to`: scenarios in the words of frameworks, read back as what they were.
//!
//! The oracle is the way there: what `from` makes of the framework's words is compared with what
//! they were made of, as the scenario's types have it and not as text.

use crate::common::*;
use crate::deepspeed::{CONFIGURATIONS, turned};
use crate::frameworks::COMMAND_LINES;
use tiersim_input::scenario::read::read_scenario;
use tiersim_policies::scenario::{Budget, Scenario};

/// The words of the command that reads back what was written to `file`, and whether it promises the
/// same case.
fn way_back(ran: &Ran, file: &str) -> (Vec<String>, bool) {
    let found = ran.stderr.lines().find_map(|line| line.strip_prefix("read back, "));
    let (what, command) = found.and_then(|line| line.split_once(": tiersim ")).expect("a way back");
    let words = command.split(' ').map(|word| if word == "FILE" { file } else { word });
    (words.chain(["--no-run"]).map(str::to_owned).collect(), what == "the same case")
}

fn run(project: &Project, words: &[String]) -> Ran {
    project.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).ends_with(0)
}

/// Writes a case for a framework and reads it back, as `there.ron` and `back.ron`; both reports.
fn there_and_back(project: &Project, framework: &str, file: &str) -> (Ran, Ran, bool) {
    let ran = project.run(&["to", framework, file]).ends_with(0);
    project.write("written", &ran.stdout);
    let (words, whole) = way_back(&ran, "written");
    let back = run(project, &words);
    project.write("back.ron", &back.stdout);
    (ran, back, whole)
}

fn read(project: &Project, file: &str) -> Scenario {
    read_scenario(&project.path(file), &[]).unwrap_or_else(|told| panic!("{file}: {told}"))
}

/// Fails unless the first case of one is the first of the other: work, machine, policy, memory.
#[track_caller]
fn same(one: &Scenario, other: &Scenario) {
    assert_eq!(one.workload.trace, other.workload.trace);
    assert_eq!(one.workload.ranks, other.workload.ranks);
    assert_eq!(one.hardware.name, other.hardware.name);
    assert_eq!(one.hardware.tiers, other.hardware.tiers);
    assert_eq!(one.hardware.links, other.hardware.links);
    let case = |of: &Scenario| {
        let case = of.cases[0].clone();
        let hbm = match case.hbm {
            Budget::Hardware => of.hardware.tiers[0].capacity.limit().map(Budget::Bytes),
            other => Some(other),
        };
        let mut runtime = case.runtime.clone();
        runtime.source.clear();
        (format!("{:?}", case.policy), hbm, runtime)
    };
    assert_eq!(case(one), case(other));
}

/// Keys that were taken, in today's names, with what they mean here and their values.
fn taken(printed: &str) -> BTreeMap<String, (String, String)> {
    let today = |key: &str| {
        match key {
            "zero_optimization" => "zero_optimization.stage",
            "zero_optimization.cpu_offload" => "zero_optimization.offload_optimizer.device",
            "zero_optimization.cpu_offload_use_pin_memory" => {
                "zero_optimization.offload_optimizer.pin_memory"
            }
            "zero_optimization.cpu_offload_param"
            | "zero_optimization.cpu_offload_params"
            | "zero_optimization.offload_param" => "zero_optimization.offload_param.device",
            "mem-fraction-static" => "gpu-memory-utilization",
            "model-path" => "model",
            "tp-size" => "tensor-parallel-size",
            "max-running-requests" => "max-num-seqs",
            "context-length" => "max-model-len",
            other => other,
        }
        .replace("kv_cache_dtype", "kv-cache-dtype")
        .replace("max_num_seqs", "max-num-seqs")
        .replace("max_model_len", "max-model-len")
    };
    let row = |line: &str| {
        let row = line.strip_prefix("//   line ")?.split_once(": ")?.1;
        let (key, rest) = row.split_once(": ")?;
        let (value, told) = rest.rsplit_once(" -> ")?;
        let is_taken = !told.starts_with("ignored: ");
        is_taken.then(|| (today(key), (told.to_owned(), value.to_owned())))
    };
    printed.lines().filter_map(row).collect()
}

#[test]
fn configurations_of_deepspeed_come_back_with_every_key_that_was_taken() {
    let project = Project::shipped();
    for (text, more, _) in CONFIGURATIONS {
        let there = turned(&project, text, more).ends_with(0);
        project.write("there.ron", &there.stdout);
        let (ran, back, whole) = there_and_back(&project, "deepspeed", "there.ron");
        assert!(whole, "what a configuration says, one can say: {}", ran.stderr);
        same(&read(&project, "there.ron"), &read(&project, "back.ron"));
        let (was, is) = (taken(&there.stdout), taken(&back.stdout));
        for (key, (told, value)) in was {
            let (again, wrote) = is.get(&key).unwrap_or_else(|| panic!("{key} of {text}"));
            assert_eq!(*again, told, "{key} means the same");
            if let (Ok(value), Ok(wrote)) = (value.parse::<f64>(), wrote.parse::<f64>()) {
                assert_eq!(value, wrote, "{key} has the same number");
            }
        }
        assert!(!back.stdout.contains("unknown key"), "{}", back.stdout);
    }
}

/// What of optimizer state is offloaded, with where it is updated; what of parameters.
const STATES: [(&str, &str); 4] = [
    ("", ""),
    ("optimizer: \"far\", ", ", host_update: 1.0"),
    ("optimizer: \"far\", optimizer_share: 0.25, ", ", host_update: 0.25"),
    ("optimizer: \"drive\", gradients: \"far\", ", ", host_update: 1.0"),
];
const WEIGHTS: [&str; 4] = [
    "",
    "parameters: \"far\", prefetch_ops: 16, ",
    "parameters: \"far\", prefetch_ops: 16, prefetch_budget: mb(200), ",
    "parameters: \"drive\", prefetch_ops: 16, relay: \"far\", prefetch_budget: mb(64), ",
];

/// A job of so many GPUs with a state and weights of these lists, and what goes with them.
fn job(gpus: u32, state: usize, weights: usize) -> String {
    let machine = if gpus > 1 { "dgx-a100-80g" } else { "a100-80g-pcie4" };
    let wire = if gpus > 1 { ", bucket: mb(100), overlap: false" } else { "" };
    let ((homes, update), parameters) = (STATES[state], WEIGHTS[weights]);
    let full = (state + weights).is_multiple_of(2);
    let checkpoints = if full { "checkpointing: full," } else { "" };
    let activations = if full && weights == 1 { "activations: \"far\", " } else { "" };
    let policy = match (homes, parameters) {
        ("", "") => "AllHbm".to_owned(),
        _ => format!("ZeroOffload({homes}{parameters}{activations})"),
    };
    let pageable = state.is_multiple_of(2) && state + weights > 0;
    let runtime = if pageable { "runtime: (copies: pageable, source: \"a test\")," } else { "" };
    let memory = if state == 3 { "capacity: {\"dram\": gib(300)}," } else { "" };
    let precision = if weights == 2 { "fp16" } else { "bf16" };
    format!(
        "Scenario(schema: 2, about: \"a job\", hardware: \"{machine}\", {memory}
            workload: Model(model: \"gpt2\", precision: {precision},
                mode: train(batch: 12, micro_batch: 3, sequence: 256, {checkpoints}
                    parallel: (data: {gpus}), optimizer: lion, zero: (stage: 3{update}{wire})),
                time: roofline(precision: \"bf16\")),
            policies: [(name: \"it\", policy: {policy}, {runtime})])"
    )
}

/// Every combination of what DeepSpeed can say of a job.
#[test]
fn jobs_of_deepspeed_are_the_same_when_they_come_back() {
    let project = Project::shipped();
    for gpus in [1, 4] {
        for (state, weights) in (0..4).flat_map(|state| (0..4).map(move |of| (state, of))) {
            let job = job(gpus, state, weights);
            project.write("there.ron", &job);
            let (ran, back, whole) = there_and_back(&project, "deepspeed", "there.ron");
            assert!(whole, "{job}: {}", ran.stderr);
            same(&read(&project, "there.ron"), &read(&project, "back.ron"));
            assert!(!back.stdout.contains("unknown key"), "{}", back.stdout);
            let file = ran.json();
            let all = file["train_batch_size"].as_u64();
            assert_eq!(all, Some(12 * u64::from(gpus)), "micro-batches x steps x GPUs");
            assert_eq!(file["gradient_accumulation_steps"], 4);
            // What DeepSpeed demands of a drive: buffers that hold the table of tokens.
            let section = &file["zero_optimization"]["offload_param"];
            let needed = (weights == 3).then(|| (50_257_u64 * 768).div_ceil(u64::from(gpus)));
            assert_eq!(section["buffer_size"].as_u64(), needed, "{section}");
        }
    }
}

/// What ships has more than a configuration can say; the rest is told, and what is said is right.
#[test]
fn shipped_trainings_become_configurations_that_are_read_without_an_unknown_key() {
    let project = Project::shipped();
    for name in [
        "guide-a100",
        "guide-h100",
        "guide-rtx-3090",
        "guide-rtx-4090",
        "llama-2-13b-24gb-lora",
        "llama-2-13b-cpu-or-nvme",
        "llama-2-7b-zero-2",
        "llama-2-7b-zero-offload-placement",
        "megatron-22b",
    ] {
        let (ran, back, whole) =
            there_and_back(&project, "deepspeed", &format!("scenarios/{name}.ron"));
        assert!(!back.stdout.contains("unknown key"), "{name}: {}", back.stdout);
        let file = ran.json();
        let number = |key: &str| file[key].as_u64().unwrap_or_else(|| panic!("{name}: {key}"));
        let steps =
            number("train_micro_batch_size_per_gpu") * number("gradient_accumulation_steps");
        assert_eq!(number("train_batch_size") % steps, 0, "{name}: a whole number of GPUs");
        // Only what is told not to be said may differ.
        let reasons = ran.stderr.split("not said\n").nth(1).unwrap_or("").lines();
        let lost =
            reasons.filter(|line| line.starts_with("  ") && !line.contains("how it is measured"));
        let lost = lost.filter(|line| !line.contains("how long ops take")).count();
        assert_eq!(whole, lost == 0, "{name}: {}", ran.stderr);
    }
    // A model that is spelled out has no name for a command.
    let spelled =
        project.run(&["to", "deepspeed", "scenarios/activation-offload.ron"]).ends_with(0);
    let spelled = spelled.says(&["the model is spelled out"]);
    assert!(!spelled.stderr.contains("read back"), "{}", spelled.stderr);
    let (ran, ..) = there_and_back(&project, "deepspeed", "scenarios/guide-a100.ron");
    ran.says(&[
        "workload.mode.zero.stage: 0 -> DeepSpeed offloads this in stage 2, which is written",
        "workload.mode.loader: one that counts -> the program's own code says it",
        "capacity.dram: 256.000 GiB -> --host-memory 256",
    ]);
}

#[test]
fn command_lines_of_servers_come_back_with_every_flag_that_was_taken() {
    let project = Project::shipped();
    for (engine, line, more, _) in COMMAND_LINES {
        let there = project.run(&[&["from", engine, line, "--no-run"], more].concat()).ends_with(0);
        project.write("there.ron", &there.stdout);
        let (ran, back, whole) = there_and_back(&project, engine, "there.ron");
        assert!(whole, "{line}: {}", ran.stderr);
        same(&read(&project, "there.ron"), &read(&project, "back.ron"));
        let (was, is) = (taken(&there.stdout), taken(&back.stdout));
        for (key, (told, value)) in was {
            let (again, wrote) = is.get(&key).unwrap_or_else(|| panic!("{key} of {line}"));
            match key.as_str() {
                // A bound comes back as what the requests are within it.
                "max-num-seqs" | "max-model-len" => {
                    let [was, is] = [&value, wrote].map(|text| text.parse::<u64>().expect("whole"));
                    assert!(is <= was, "{key}: {is} of {was}");
                }
                // What a checkpoint's name says of its format is a flag then.
                "model" => {
                    assert!(told.starts_with(again.as_str()), "{told} {again}");
                    assert!(told == *again || is.contains_key("quantization"), "{told}");
                }
                _ => assert_eq!(*again, told, "{key} means the same"),
            }
        }
        assert!(!back.stdout.contains("unknown key"), "{}", back.stdout);
    }
}

/// Shares and gigabytes are read back to the byte, whatever they are.
#[test]
fn budgets_and_offloaded_shares_of_servers_come_back_to_the_byte() {
    let project = Project::shipped();
    let shares = ["0.0001", "0.1234", "0.33", "0.5", "0.9999"];
    for (index, share) in shares.into_iter().enumerate() {
        let bytes = 1_234_567_891_u64 * (index as u64 + 3) + 1;
        for (engine, format) in [("vllm", "int4(group: 128)"), ("sglang", "int8"), ("vllm", "fp16")]
        {
            project.write(
                "there.ron",
                format!(
                    "Scenario(schema: 2, about: \"a server\", hardware: \"rtx-4090\",
                        workload: Model(model: \"opt-6.7b\", precision: fp16,
                            formats: (weights: {format}, kv: fp8),
                            mode: generate(batch: 3, prompt: 100, tokens: 5, prefill: false, kernels: fused),
                            time: roofline(precision: \"fp16\")),
                        policies: [(name: \"it\", hbm: b({bytes}), policy: ZeroOffload(
                            parameters: \"far\", parameters_share: {share}, prefetch_ops: 0))])"
                ),
            );
            let (ran, _, whole) = there_and_back(&project, engine, "there.ron");
            assert!(whole, "{}", ran.stderr);
            same(&read(&project, "there.ron"), &read(&project, "back.ron"));
        }
    }
}

#[test]
fn a_scheduler_is_written_with_its_blocks_and_what_is_asked_is_not() {
    let project = Project::shipped();
    let of = "scenarios/llama-3-70b-serve-8.ron";
    let scenario = read(&project, of);
    let (ran, back, whole) = there_and_back(&project, "vllm", of);
    assert!(!whole && !back.stdout.contains("unknown key"), "{}", back.stdout);
    ran.says(&["which is not read back", "flags are read as decode steps"]);
    // As many blocks as there is room for on the cards beside weights.
    let fewer = ["--set", "workload.mode.kv_blocks=256"];
    let ran = project.run(&[&["to", "sglang", of], &fewer[..]].concat()).ends_with(0);
    let tiersim_policies::scenario::TraceSource::Serving(source) = &scenario.workload.trace else {
        panic!("it serves");
    };
    let serving = &source.serving;
    let tokens = u64::from(serving.block_tokens) * 256;
    ran.shows(&[
        "python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-70B",
        &format!("--max-total-tokens {tokens}"),
        &format!("--max-running-requests {}", serving.max_batch),
        &format!("--tp-size {}", serving.tensor),
    ]);
    // 4,096 blocks of 512 tokens are 256 GiB: over CXL memory and a drive as well.
    for (engine, file, flag) in [
        ("vllm", "scenarios/kv-tiering-requests.ron", "num-gpu-blocks"),
        ("sglang", "scenarios/kv-tiering-requests.ron", "max-total-tokens"),
        ("sglang", of, "max-total-tokens"),
    ] {
        let ran = project.run(&["to", engine, file]).ends_with(0);
        let ran = ran.says(&["workload.mode.kv_blocks: ", " -> they are of all tiers"]);
        assert!(!ran.stdout.contains(flag), "{}", ran.stdout);
    }
}

/// A server leaves room on its card for what the driver has there.
#[test]
fn all_of_a_card_is_not_written_as_its_share() {
    let project = Project::shipped();
    project.write(
        "all.ron",
        "Scenario(schema: 2, about: \"a server\", hardware: \"rtx-4090\",
            workload: Model(model: \"opt-1.3b\", precision: fp16, mode: generate(batch: 3, prompt: 100,
                tokens: 5, prefill: false, kernels: fused), time: roofline(precision: \"fp16\")),
            policies: [(name: \"it\", policy: AllHbm)])",
    );
    for (engine, flag) in [("vllm", "gpu-memory-utilization"), ("sglang", "mem-fraction-static")] {
        let (ran, _, whole) = there_and_back(&project, engine, "all.ron");
        let ran = ran.says(&["policies.it.hbm: all -> some of a card is always taken"]);
        assert!(!whole && !ran.stdout.contains(flag), "{}", ran.stdout);
    }
}

#[test]
fn what_has_no_form_is_refused_with_what_to_ask_instead() {
    let project = Project::shipped();
    let (training, generation) =
        ("scenarios/guide-a100.ron", "scenarios/llama-2-13b-24gb-serving.ron");
    for (words, says) in [
        (&["deepspeed", generation][..], "`tiersim to vllm` or `tiersim to sglang`"),
        (&["fsdp", generation], "a configuration of FSDP is of training"),
        (&["deepspeed", "scenarios/gpt2-adam-tiering.ron"], "a recorded trace"),
        (&["vllm", training], "`tiersim to deepspeed` or `tiersim to fsdp`"),
        (&["sglang", "scenarios/gpt2-adam-tiering.ron"], "a recording does not say its model"),
        (&["deepspeed", "scenarios/semiseparable-t4-few.ron"], "structured operators"),
        (&["device-map", generation, "--case", "LRU"], "weights have a place that does not change"),
        (&["deepspeed", training, "--case", "none"], "has no case \"none\""),
        (&["deepspeed", "no-such-scenario.ron"], "no-such-scenario"),
        (&["deepspeed", training, "--set", "hardware=abacus"], "abacus"),
    ] {
        let ran = project.run(&[&["to"], words].concat()).ends_with(2).says(&[says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
}

#[test]
fn fsdp_is_written_with_its_strategy_offload_and_prefetch() {
    let project = Project::shipped();
    let text = |policy: &str, zero: &str| {
        format!(
            "Scenario(schema: 2, about: \"a job\", hardware: \"dgx-h100\",
                workload: Model(model: \"llama-2-7b\", precision: bf16,
                    mode: train(batch: 4, micro_batch: 2, sequence: 512, checkpointing: full,
                        parallel: (data: 8), zero: ({zero})),
                    time: roofline(precision: \"bf16\")),
                policies: [(name: \"it\", policy: {policy})])"
        )
    };
    let offload = "ZeroOffload(optimizer: \"far\", parameters: \"far\", prefetch_ops: 16)";
    for (policy, zero, strategy, offloads, lost) in [
        (offload, "stage: 3, host_update: 1", "FULL_SHARD", true, false),
        (offload, "stage: 3, host_update: 1, reshard: false", "SHARD_GRAD_OP", true, false),
        ("AllHbm", "stage: 2", "SHARD_GRAD_OP", false, false),
        ("AllHbm", "stage: 0", "NO_SHARD", false, false),
        ("AllHbm", "stage: 1", "SHARD_GRAD_OP", false, true),
        ("ZeroOffload(optimizer: \"far\")", "stage: 3, host_update: 1", "FULL_SHARD", false, true),
    ] {
        project.write("job.ron", text(policy, zero));
        let ran = project.run(&["to", "fsdp", "job.ron"]).ends_with(0).shows(&[
            "distributed_type: FSDP\n",
            "mixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n",
            &format!("  fsdp_sharding_strategy: {strategy}\n"),
            &format!("  fsdp_offload_params: {offloads}\n"),
            "  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_forward_prefetch: true\n",
            "  fsdp_activation_checkpointing: true\n",
        ]);
        let words =
            if strategy == "SHARD_GRAD_OP" { "FSDP partitions gradients" } else { "together" };
        assert_eq!(ran.stderr.contains(words), lost, "{}", ran.stderr);
        ran.says(&["per_device_train_batch_size=2", "gradient_accumulation_steps=2"]);
        let (_, _, whole) = there_and_back(&project, "fsdp", "job.ron");
        assert_eq!(whole, !lost);
        if whole {
            same(&read(&project, "job.ron"), &read(&project, "back.ron"));
        }
    }
}

/// What FSDP's file cannot say is not promised: its reader knows AdamW alone.
#[test]
fn an_optimizer_that_no_file_says_is_not_promised() {
    let project = Project::shipped();
    // Without ZeRO DeepSpeed sums gradients of bf16 in 32 bits, which the scenario does not.
    for (optimizer, precision, deepspeed) in [
        ("adam_w", "fp16", true),
        ("lion", "fp16", true),
        ("sgd(momentum: true)", "fp16", true),
        ("adam_mini", "fp16", false),
        ("adam_w", "bf16", false),
    ] {
        let text = format!(
            "Scenario(schema: 2, about: \"one\", hardware: \"a100-80g-pcie4\", workload: Model(model: \"gpt2\", \
             precision: {precision}, mode: train(batch: 2, sequence: 256, attention: flash, optimizer: \
             {optimizer}), time: op_times(precision: \"{precision}\")), policies: [(name: \"all in HBM\", policy: AllHbm)])"
        );
        project.write("one.ron", &text);
        let (_, _, whole) = there_and_back(&project, "fsdp", "one.ron");
        assert_eq!(whole, optimizer == "adam_w", "{optimizer}");
        let (ran, _, whole) = there_and_back(&project, "deepspeed", "one.ron");
        assert_eq!(whole, deepspeed, "{optimizer}");
        assert_eq!(ran.stderr.contains("in 32 bits"), precision == "bf16", "{}", ran.stderr);
        if whole {
            same(&read(&project, "one.ron"), &read(&project, "back.ron"));
        }
    }
}
