//! `to`: scenarios in the words of frameworks, read back as what they were.
//!
//! The oracle is the way there: what `from` makes of the framework's words is compared with what
//! they were made of, as the scenario's types have it and not as text.

use crate::common::*;
use crate::frameworks::{COMMAND_LINES, CONFIGURATIONS, turned};
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
        let mut runtime = case.runtime;
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
            "zero_optimization.offload_param" => "zero_optimization.offload_param.device",
            "mem-fraction-static" => "gpu-memory-utilization",
            "model-path" => "model",
            "tp-size" => "tensor-parallel-size",
            "max-running-requests" => "max-num-seqs",
            "context-length" => "max-model-len",
            other => other,
        }
        .replace("kv_cache_dtype", "kv-cache-dtype")
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

/// Every combination of what DeepSpeed can say of a job.
#[test]
fn jobs_of_deepspeed_are_the_same_when_they_come_back() {
    let project = Project::shipped();
    let zero = |stage: u8, update: &str, gpus: u32| {
        let wire = if gpus > 1 { ", bucket: mb(100), overlap: false" } else { "" };
        format!("zero: (stage: {stage}{update}{wire}),")
    };
    let optimizers = [
        ("", ""),
        ("optimizer: \"far\", ", ", host_update: 1.0"),
        ("optimizer: \"far\", optimizer_share: 0.25, ", ", host_update: 0.25"),
        ("optimizer: \"drive\", gradients: \"far\", ", ", host_update: 1.0"),
    ];
    let parameters = [
        "",
        "parameters: \"far\", prefetch_ops: 16, ",
        "parameters: \"far\", prefetch_ops: 16, prefetch_budget: mb(200), ",
        "parameters: \"drive\", prefetch_ops: 16, relay: \"far\", prefetch_budget: mb(64), ",
    ];
    let mut count = 0;
    for (gpus, machine) in [(1, "a100-80g-pcie4"), (4, "dgx-a100-80g")] {
        for (index, (state, update)) in optimizers.into_iter().enumerate() {
            for (other, weights) in parameters.into_iter().enumerate() {
                let full = (index + other) % 2 == 0;
                let (checkpoints, activations) = match (full, other) {
                    (true, 1) => ("checkpointing: full,", "activations: \"far\", "),
                    (true, _) => ("checkpointing: full,", ""),
                    _ => ("", ""),
                };
                let homes = format!("{state}{weights}{activations}");
                let policy = match homes.is_empty() {
                    true => "AllHbm".to_owned(),
                    false => format!("ZeroOffload({homes})"),
                };
                let is_offloaded = !state.is_empty() || !weights.is_empty();
                let runtime = match is_offloaded && index % 2 == 0 {
                    true => "runtime: (copies: pageable, source: \"a test\"),",
                    false => "",
                };
                let memory = if index == 3 { "capacity: {\"dram\": gib(300)}," } else { "" };
                let zero = zero(3, update, gpus);
                let precision = if other == 2 { "fp16" } else { "bf16" };
                project.write(
                    "there.ron",
                    format!(
                        "Scenario(schema: 2, about: \"a job\", hardware: \"{machine}\", {memory}
                            workload: Model(model: \"gpt2\", precision: {precision},
                                mode: train(batch: 12, micro_batch: 3, sequence: 256, {checkpoints}
                                    parallel: (data: {gpus}), optimizer: lion, {zero}),
                                time: roofline(precision: \"bf16\")),
                            policies: [(name: \"it\", policy: {policy}, {runtime})])"
                    ),
                );
                let (ran, back, whole) = there_and_back(&project, "deepspeed", "there.ron");
                assert!(whole, "{homes}: {}", ran.stderr);
                same(&read(&project, "there.ron"), &read(&project, "back.ron"));
                assert!(!back.stdout.contains("unknown key"), "{}", back.stdout);
                let file = ran.json();
                let all = file["train_batch_size"].as_u64();
                assert_eq!(all, Some(12 * u64::from(gpus)), "micro-batches x steps x GPUs");
                assert_eq!(file["gradient_accumulation_steps"], 4);
                count += 1;
            }
        }
    }
    assert_eq!(count, 32);
}

/// What ships has more than a configuration can say; the rest is told, and what is said is right.
#[test]
fn shipped_trainings_become_configurations_that_are_read_without_an_unknown_key() {
    let project = Project::shipped();
    for name in [
        "activation-offload",
        "guide-a100",
        "guide-h100",
        "guide-rtx-3090",
        "guide-rtx-4090",
        "llama-2-13b-24gb-lora",
        "llama-2-13b-cpu-or-nvme",
        "llama-2-7b-zero-2",
        "llama-2-7b-zero-offload-placement",
        "megatron-22b",
        "pressure-dynamic-batch",
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
                    assert_eq!(told != *again, is.contains_key("quantization"), "{told}");
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
    let ran = project.run(&["to", "sglang", of]).ends_with(0);
    let tiersim_policies::scenario::TraceSource::Serving(source) = &scenario.workload.trace else {
        panic!("it serves");
    };
    let serving = &source.serving;
    let tokens = u64::from(serving.block_tokens) * serving.kv_blocks;
    ran.shows(&[
        "python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-70B",
        &format!("--max-total-tokens {tokens}"),
        &format!("--max-running-requests {}", serving.max_batch),
        &format!("--tp-size {}", serving.tensor),
    ]);
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

/// The device of a module: that of the entry nearest to its name.
fn device<'m>(map: &'m serde_json::Map<String, Value>, module: &str) -> &'m Value {
    let mut name = module;
    loop {
        if let Some(device) = map.get(name) {
            return device;
        }
        name = match name.rsplit_once('.') {
            Some((above, _)) => above,
            None if name.is_empty() => panic!("no entry is above {module}"),
            None => "",
        };
    }
}

const MAPPED: &str = r#"Scenario(schema: 2, about: "a map", hardware: "h100-sxm-pcie5", capacity: {"hbm": gib(24)},
    workload: Model(model: "llama-2-13b", precision: fp16,
        mode: generate(prompt: 16, tokens: 2, batch: 1), time: roofline(precision: "fp16"),
        repeat: 1, warmup: 0),
    policies: [(name: "map", policy: POLICY)])"#;

/// A map, followed as hints, is the same map; and the placement that `hints` writes is the map's.
#[test]
fn a_device_map_followed_as_hints_is_itself() {
    let project = Project::shipped();
    let policy = "DeviceMap(hbm: gib(16), cpu: gib(4))";
    project.write("map.ron", MAPPED.replace("POLICY", policy));
    let first = project.run(&["to", "device-map", "map.ron"]).ends_with(0).json();
    let map = first["device_map"].as_object().expect("a map");
    assert_eq!(first["max_memory"]["0"], 16_u64 << 30);
    assert_eq!(first["max_memory"]["cpu"], 4_u64 << 30);
    let word = |device: &Value| match device.as_str() {
        None => "HBM",
        Some("cpu") => "CPU",
        Some(_) => "SSD",
    };
    let hints: BTreeMap<&str, &str> =
        map.iter().map(|(name, device)| (name.as_str(), word(device))).collect();
    let kinds: BTreeSet<&str> = hints.values().copied().collect();
    assert_eq!(kinds.len(), 3, "all three places are used: {hints:?}");
    project.write("hints.json", serde_json::to_string(&hints).expect("JSON"));
    project.write("hints.ron", MAPPED.replace("POLICY", "Hints(file: \"hints.json\")"));
    let second = project.run(&["to", "device-map", "hints.ron"]).ends_with(0).json();
    assert_eq!(second["device_map"], first["device_map"]);
    let placed = project.run(&["hints", "hints.ron"]).ends_with(0).json();
    let placed = placed.as_object().expect("modules");
    let modules = placed.iter().filter(|(name, _)| name.contains("model") || *name == "lm_head");
    let mut count = 0;
    for (module, tier) in modules {
        assert_eq!(word(device(map, module)), tier.as_str().expect("a tier"), "{module}");
        count += 1;
    }
    assert!(count > 40 * 7, "{count} modules: every matrix of 40 blocks");
}

#[test]
fn a_map_of_one_place_is_one_entry_and_a_tied_head_has_one() {
    let project = Project::shipped();
    project.write("all.ron", MAPPED.replace("POLICY", "ZeroOffload(parameters: \"far\")"));
    let all = project.run(&["to", "device-map", "all.ron"]).ends_with(0).json();
    assert_eq!(all["device_map"], serde_json::json!({ "": "cpu" }));
    let tied = MAPPED.replace("llama-2-13b", "gpt2");
    project.write("tied.ron", tied.replace("POLICY", "DeviceMap(hbm: mib(120))"));
    let tied = project.run(&["to", "device-map", "tied.ron"]).ends_with(0).json();
    let map = tied["device_map"].as_object().expect("a map");
    assert_eq!(device(map, "lm_head"), device(map, "transformer.wte"));
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
    let offload = "ZeroOffload(optimizer: \"far\", parameters: \"far\")";
    for (policy, zero, strategy, offloads, lost) in [
        (offload, "stage: 3, host_update: 1", "FULL_SHARD", true, false),
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
    }
}
