//! `from accelerate`: configurations and device maps become scenarios, each key is accounted for.

use crate::common::*;

/// A file turned and not run: what is printed.
fn turned(project: &Project, file: &str, text: &str, more: &[&str]) -> Ran {
    project.write(file, text);
    let own = |option, value| if more.contains(&option) { vec![] } else { vec![option, value] };
    let (model, device) = (own("--model", "gpt2"), own("--device", "a100"));
    let words = ["from", "accelerate", file, "--sequence", "512", "--no-run"];
    project.run(&[&words[..], &model, &device, more].concat())
}

const LAUNCHED: &str = "machine_rank: 0\nmain_training_function: main\nrdzv_backend: static\nsame_network: true\n\
                        tpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: false\n";

/// As repositories have them; the keys of what starts processes stand in each.
const CONFIGURATIONS: [(&str, &[&str], &[&str]); 9] = [
    // github.com/huggingface/trl, examples/accelerate_configs/deepspeed_zero3.yaml
    (
        "compute_environment: LOCAL_MACHINE\ndebug: false\ndeepspeed_config:\n  deepspeed_multinode_launcher: standard\n  \
         gradient_accumulation_steps: 1\n  offload_optimizer_device: none\n  offload_param_device: none\n  zero3_init_flag: true\n  \
         zero3_save_16bit_model: true\n  zero_stage: 3\ndistributed_type: DEEPSPEED\ndowncast_bf16: 'no'\nmixed_precision: 'fp16'\n\
         num_machines: 1\nnum_processes: 8\n",
        &["--micro-batch", "2"],
        &[
            "hardware: \"dgx-a100-80g\"",
            "precision: fp16,",
            "zero: (stage: 3),",
            "micro_batch: 2,",
            "parallel: (data: 8)",
            "policy: AllHbm",
            "line 6: deepspeed_config.offload_optimizer_device: none ->",
        ],
    ),
    // github.com/huggingface/transformers, docs/source/en/trainer.md: stage 2 offloads no parameters.
    (
        "compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  gradient_accumulation_steps: 1\n  gradient_clipping: 0.7\n  \
         offload_optimizer_device: cpu\n  offload_param_device: cpu\n  zero3_init_flag: true\n  zero_stage: 2\n\
         distributed_type: DEEPSPEED\ndowncast_bf16: 'no'\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 4\n",
        &["--device", "h100"],
        &[
            "hardware: \"dgx-h100\"",
            "zero: (stage: 2, host_update: 1.0, overlap: false)",
            "ZeroOffload(optimizer: \"far\")",
            "runtime: (copies: pageable",
            "offload_param_device: cpu -> ignored: DeepSpeed offloads parameters in stage 3 only",
            "gradient_clipping: 0.7 -> ignored: a number of the update",
        ],
    ),
    // github.com/huggingface/accelerate, examples/config_yaml_templates/fsdp.yaml
    (
        "distributed_type: FSDP\nmixed_precision: 'bf16'\nnum_processes: 2\nfsdp_config:\n  fsdp_activation_checkpointing: false\n  \
         fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_cpu_ram_efficient_loading: true\n  \
         fsdp_forward_prefetch: false\n  fsdp_offload_params: false\n  fsdp_sharding_strategy: FULL_SHARD\n  \
         fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_sync_module_states: true\n  fsdp_use_orig_params: true\n",
        &["--accumulation", "4"],
        &[
            "zero: (stage: 3, prefetch: 1)",
            "batch: 4,",
            "micro_batch: 1,",
            "parallel: (data: 2)",
            "policy: AllHbm",
        ],
    ),
    // FSDP2 as `accelerate config` writes it today, with offload.
    (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: fp16\nnum_machines: 1\nnum_processes: 2\n\
         fsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: true\n  fsdp_activation_checkpointing: true\n  \
         fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  \
         fsdp_reshard_after_forward: true\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_use_orig_params: true\n",
        &[],
        &[
            "zero: (stage: 3, host_update: 1.0)",
            "checkpointing: full",
            "ZeroOffload(optimizer: \"far\", parameters: \"far\", prefetch_ops: 16)",
            "fsdp_version: 2 -> ignored",
        ],
    ),
    // github.com/huggingface/trl, examples/accelerate_configs/context_parallel_2gpu.yaml
    (
        "distributed_type: FSDP\nfsdp_config:\n  fsdp_activation_checkpointing: false\n  fsdp_reshard_after_forward: false\n  \
         fsdp_version: 2\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 4\nparallelism_config:\n  \
         parallelism_config_dp_replicate_size: 1\n  parallelism_config_dp_shard_size: 2\n  parallelism_config_tp_size: 1\n  \
         parallelism_config_cp_size: 2\n",
        &["--model", "llama-2-7b"],
        &["parallel: (data: 2, context: 2)", "zero: (stage: 2)"],
    ),
    // github.com/huggingface/accelerate, examples/config_yaml_templates/multi_gpu.yaml and fp8.yaml
    (
        "distributed_type: MULTI_GPU\nmixed_precision: 'no'\nnum_processes: 4\ndeepspeed_config: {}\nfsdp_config: {}\n",
        &[],
        &[
            "precision: fp32",
            "time: roofline(precision: \"fp32\")",
            "parallel: (data: 4)",
            "zero: (stage: 0, bucket: b(26214400))",
            "fsdp_config: {} -> ignored: an empty section",
        ],
    ),
    (
        "distributed_type: \"NO\"\nmixed_precision: \"fp8\"\nfp8_config:\n  backend: TE\n  amax_history_len: 1024\n  \
         override_linear_precision: [false, false, false]\nfsdp_config:\n  fsdp_offload_params: true\n",
        &[],
        &[
            "precision: bf16",
            "a100-80g-pcie4",
            "fsdp_offload_params: true -> ignored: of what `distributed_type` does not name",
        ],
    ),
    // As Axolotl and the Trainer write them.
    (
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\nfsdp_config:\n  fsdp_version: 2\n  offload_params: true\n  \
         activation_checkpointing: true\n  reshard_after_forward: false\n  state_dict_type: FULL_STATE_DICT\n",
        &[],
        &[
            "zero: (stage: 3, host_update: 1.0, reshard: false)",
            "reshard_after_forward: false -> zero: (stage: 3, reshard: false): shards are offloaded",
            "checkpointing: full",
            "parameters: \"far\"",
            "state_dict_type: FULL_STATE_DICT -> ignored: of saving",
        ],
    ),
    // A file of DeepSpeed's own beside it.
    (
        "compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  deepspeed_config_file: deepspeed.json\n  \
         deepspeed_multinode_launcher: standard\n  zero3_init_flag: false\ndistributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 2\nbrand_new: 1\n",
        &[],
        &[
            "deepspeed: zero_optimization.stage: 1 -> zero: (stage: 1)",
            "deepspeed_config_file: deepspeed.json -> deepspeed.json, whose keys follow",
            "parallel: (data: 2)",
            "brand_new: 1 -> ignored: unknown key",
        ],
    ),
];

/// As github.com/hiyouga/LLaMA-Factory, examples/accelerate/ds_multi_nodes.yaml: accelerate allows no
/// precision beside a file that leaves it open.
#[test]
fn a_file_of_deepspeed_decides_the_precision_that_nobody_says() {
    let project = Project::shipped();
    let auto = r#"{"train_batch_size": "auto", "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true}}}"#;
    project.write("ds.json", auto);
    project.write(
        "c.yaml",
        "deepspeed_config:\n  deepspeed_config_file: ds.json\ndistributed_type: DEEPSPEED\nnum_processes: 16\n",
    );
    let ran = |more: &[&str]| {
        let all = ["from", "accelerate", "c.yaml", "--model", "opt-1.3b", "--device", "a100"];
        project.run(&[&all[..], &["--no-run"], more].concat()).ends_with(0)
    };
    let alone = ["from", "deepspeed", "ds.json", "--model", "opt-1.3b", "--device", "a100"];
    let alone = project.run(&[&alone[..], &["--gpus", "16", "--no-run"]].concat()).ends_with(0);
    let scenario = |ran: &Ran| {
        let lines = ran.stdout.lines().filter(|line| !line.starts_with("//"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(scenario(&ran(&[])), scenario(&alone));
    ran(&[]).shows(&["precision: bf16,", "parallel: (data: 16)"]);
    ran(&["--precision", "fp16"]).shows(&["precision: fp16,"]);
}

/// A V100 has no products of floats that are cut.
/// Replicas that leave part of a server idle have no network here.
#[test]
fn processes_that_leave_a_server_part_empty_are_told_in_their_place() {
    let project = Project::shipped();
    let text = "distributed_type: MULTI_GPU\nnum_processes: 12\n";
    turned(&project, "acc.yaml", text, &[]).ends_with(2).says(&[
        "acc.yaml:2:1: processes fill servers of 8 devices (found 12); write up to 8, or a multiple",
    ]);
    project.write("ds.json", "{\"train_batch_size\": 12}");
    let words =
        ["from", "deepspeed", "ds.json", "--model", "gpt2", "--device", "a100", "--gpus", "12"];
    project
        .run(&words)
        .ends_with(2)
        .says(&["--gpus 12: replicas fill servers of 8 devices; say up to 8"]);
}

/// FSDP offloads shards whatever its strategy: without resharding after forward the host holds as
/// much, each parameter comes once a step and not twice, and all blocks are whole at once.
#[test]
fn what_fsdp_offloads_is_shards() {
    let project = Project::shipped();
    let of = |strategy: &str| {
        let text = format!(
            "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  \
             fsdp_sharding_strategy: {strategy}\n  fsdp_offload_params: true\n  \
             fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_activation_checkpointing: true\n"
        );
        let more = ["--model", "llama-2-7b", "--device", "h100"];
        let told = turned(&project, "fsdp.yaml", &text, &more).ends_with(0).stdout;
        project.write("fsdp.ron", told);
        let run = ["run", "fsdp.ron", "--out", "out", "--no-png", "--no-bound-curve", "-q"];
        project.run(&run).ends_with(0);
        let text = project.text("out/summary.json");
        let summary: Value = serde_json::from_str(&text).expect("JSON");
        let one = &summary["results"][0];
        let bytes = |of: &str, key: &str| one[of][key].as_f64().expect("a number");
        [
            bytes("peak_bytes", "dram"),
            bytes("peak_bytes", "hbm"),
            bytes("moved_bytes", "dram->switch"),
        ]
    };
    let [host, device, comes] = of("FULL_SHARD");
    let [kept_host, kept_device, kept_comes] = of("SHARD_GRAD_OP");
    assert_eq!(kept_host, host);
    // Two bytes of 6.74 billion parameters, of which one block and the one ahead were whole before.
    let weights = 2.0 * 6.738e9;
    let more = kept_device - device;
    assert!((0.8 * weights..weights).contains(&more), "{more}");
    // One of the two visits of a block brings its shard.
    let blocks = 2.0 * 6.476e9 / 8.0;
    let fewer = (comes - kept_comes) / blocks;
    assert!((0.99..1.01).contains(&fewer), "{comes} {kept_comes}: {fewer} steps");
}

#[test]
fn thirty_two_bits_are_multiplied_whole() {
    let project = Project::shipped();
    project.write("c.yaml", "distributed_type: \"NO\"\nmixed_precision: \"no\"\n");
    let ran =
        ["from", "accelerate", "c.yaml", "--model", "opt-125m", "--device", "v100", "--no-run"];
    project.run(&ran).ends_with(0).shows(&["time: roofline(precision: \"fp32\")"]);
}

#[test]
fn configurations_of_accelerate_become_scenarios_that_account_for_every_key() {
    let project = Project::shipped();
    project
        .write("deepspeed.json", r#"{"zero_optimization": {"stage": 1}, "train_batch_size": 4}"#);
    for (text, more, shows) in CONFIGURATIONS {
        let text = format!("{text}{LAUNCHED}");
        let ran = turned(&project, "default_config.yaml", &text, more).ends_with(0).shows(shows);
        for (index, line) in text.lines().enumerate() {
            let Some((key, value)) = line.trim().split_once(':') else { continue };
            let head = format!("//   line {}: ", index + 1);
            let rows = ran.stdout.lines().filter(|row| {
                row.starts_with(&head) && row.contains(key) && !row.contains(": deepspeed: ")
            });
            let section = value.is_empty();
            assert_eq!(rows.count(), usize::from(!section), "{line} in {}", ran.stdout);
        }
        // What is printed is a scenario, and it runs.
        project.write("turned.ron", &ran.stdout);
        project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
    }
}

#[test]
fn configurations_that_contradict_themselves_or_ask_for_other_work_are_refused() {
    let project = Project::shipped();
    for (text, more, says) in [
        ("distributed_type: MEGATRON_LM\n", &[][..], "`tiersim from megatron`"),
        (
            "distributed_type: XLA\n",
            &[],
            "is modelled as one of NO, MULTI_GPU, FSDP, DEEPSPEED (found XLA)",
        ),
        ("distributed_type: NO\nnum_processes: 2\n", &[], "c.yaml:2:1: one process runs where"),
        ("use_cpu: true\n", &[], "training runs on the device"),
        ("mixed_precision: int3\n", &[], "`mixed_precision` is no, fp16, bf16 or fp8 (found int3)"),
        ("num_processes: 0\n", &[], "a whole number from 1"),
        ("num_processes: 2\n", &["--device", "4090"], "no machine with 2 of the devices ships"),
        (
            "distributed_type: FSDP\nnum_processes: 16\nnum_machines: 2\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
            &[],
            "replicas of what is sharded within a server are not modelled (found HYBRID_SHARD)",
        ),
        (
            "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_sharding_strategy: SOME\n",
            &[],
            "FULL_SHARD, SHARD_GRAD_OP or NO_SHARD (found SOME)",
        ),
        (
            "distributed_type: FSDP\nnum_processes: 4\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  \
             parallelism_config_dp_shard_size: 2\n",
            &[],
            "replicas of what is sharded are not modelled",
        ),
        (
            "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n  parallelism_config_dp_replicate_size: 8\n",
            &[],
            "FSDP shards over the ranks of `parallelism_config_dp_shard_size` (found 1)",
        ),
        (
            "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n  parallelism_config_dp_shard_size: 2\n  \
             parallelism_config_tp_size: 2\n",
            &[],
            "are all 8 processes, here 1 x 2 x 2 x 1 (found 4)",
        ),
        (
            "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n  parallelism_config_cp_size: 2\n  \
             parallelism_config_sp_size: 4\n",
            &[],
            "split by cp or by sp, not by both (found 2 and 4)",
        ),
        ("num_processes: 8\nnum_machines: 3\n", &[], "has as many of the 8 processes (found 3)"),
        (
            "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 2\n  offload_optimizer_device: tape\n",
            &[],
            "is `cpu`, `nvme` or `none` (found tape)",
        ),
        (
            "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: nowhere.json\n",
            &[],
            "lies beside it, or in this folder (found nowhere.json)",
        ),
        ("- 1\n", &[], "a mapping of keys to values"),
        ("mixed_precision: bf16\n", &["--model", "no-such-model"], "no-such-model"),
        ("mixed_precision: bf16\n", &["--device", "abacus"], "abacus"),
    ] {
        let ran = turned(&project, "c.yaml", text, more).ends_with(2).says(&[says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
    project
        .run(&["from", "accelerate", "nowhere.yaml", "--model", "gpt2", "--device", "a100"])
        .ends_with(2);
}

/// Two servers of four, where the machine has eight: told, and not taken. Parameters of 32 bits that
/// FSDP offloads are updated where they are.
#[test]
fn servers_that_the_machine_does_not_have_and_offloaded_fp32_are_told() {
    let project = Project::shipped();
    let text = "num_processes: 8\nnum_machines: 2\nmixed_precision: bf16\n";
    let ran = turned(&project, "c.yaml", text, &[]).ends_with(0);
    ran.shows(&["num_machines: 2 -> ignored: not modelled: ranks fill servers of 8"]);
    let text = "num_processes: 16\nnum_machines: 2\nmixed_precision: bf16\n";
    let ran = turned(&project, "c.yaml", text, &[]).ends_with(0);
    ran.shows(&["num_machines: 2 -> servers: 2, of 8 processes each"]);
    let text =
        "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_offload_params: true\n";
    let ran = turned(&project, "c.yaml", text, &[]).ends_with(0);
    project.write("turned.ron", &ran.stdout);
    project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
}

/// A map that sends half of the blocks to the host: these weights and no others are there.
#[test]
fn a_device_map_is_the_placement() {
    let project = Project::shipped();
    // As `infer_auto_device_map` returns it for a model of 12 blocks, written by `json.dump`.
    let blocks: Vec<String> = (0..12)
        .map(|n| format!("\"transformer.h.{n}\": {}", if n < 6 { "0" } else { "\"cpu\"" }))
        .collect();
    let map = format!(
        "{{\"transformer.wte\": 0, \"lm_head\": 0, \"transformer.wpe\": 0, {}, \"transformer.ln_f\": \"cpu\"}}",
        blocks.join(", ")
    );
    let ran = turned(&project, "map.json", &map, &["--precision", "fp16"]).ends_with(0).shows(&[
        "policy: Hints(file: \"map.json\")",
        "transformer.h.5: 0 -> in HBM",
        "transformer.h.6: cpu -> in the host's memory",
        "prefill: false",
    ]);
    project.write("turned.ron", &ran.stdout);
    let quick = ["run", "turned.ron", "--out", "out", "--no-png", "--no-bound-curve"];
    project.run(&quick).ends_with(0);
    let text = fs::read_to_string(project.path("out/summary.json")).expect("written");
    let summary: Value = serde_json::from_str(&text).expect("JSON");
    let result = &summary["results"][0];
    // A block of GPT-2 has 12 h^2 + 13 h numbers.
    let block = 2 * (12 * 768 * 768 + 13 * 768);
    let last_norm = 2 * 2 * 768;
    assert_eq!(result["peak_bytes"]["dram"].as_u64(), Some(6 * block + last_norm), "{text}");
    assert_eq!(result["hints"]["by_parent"], 12, "{text}");
}

/// A map that `to device-map` writes is read back as the same placement, with what accelerate's hooks
/// do beside it.
#[test]
fn a_map_that_was_written_comes_back_as_the_same_placement() {
    let project = Project::shipped();
    let there = r#"Scenario(schema: 2, about: "a map", hardware: "rtx-4090",
        workload: Model(model: "MODEL", precision: fp16,
            mode: generate(prompt: 16, tokens: 2, batch: 1), time: roofline(precision: "fp16"),
            repeat: 1, warmup: 0),
        policies: [(name: "it", policy: POLICY)])"#;
    let policies = [
        "DeviceMap(hbm: gib(4), cpu: gib(3))",
        "ZeroOffload(parameters: \"far\", parameters_share: 0.5)",
        "ZeroOffload(parameters: \"drive\")",
        "AllHbm",
    ];
    for model in ["opt-6.7b", "llama-2-7b", "gpt2-xl"] {
        for policy in policies {
            let text = there.replace("MODEL", model).replace("POLICY", policy);
            project.write("there.ron", text);
            let map = project.run(&["to", "device-map", "there.ron"]).ends_with(0);
            let ran =
                turned(&project, "map.json", &map.stdout, &["--model", model, "--device", "4090"])
                    .ends_with(0);
            let waits =
                "runtime: (blocking: true, ahead: true, copies: pageable, source: \"accelerate";
            let away = ["cpu", "disk"].iter().any(|place| map.stdout.contains(place));
            assert_eq!(ran.stdout.contains(waits), away, "{}", ran.stdout);
            project.write("back.ron", &ran.stdout);
            let again = project.run(&["to", "device-map", "back.ron"]).ends_with(0);
            assert_eq!(again.json(), map.json(), "{model}, {policy}");
        }
    }
}

#[test]
fn auto_is_the_policy_that_fills_the_card_and_max_memory_bounds_it() {
    let project = Project::shipped();
    let auto = |sizes: &str| {
        let line = ["from", "accelerate", "auto", "--max-memory", sizes, "--model", "llama-2-13b"];
        project.run(&[&line[..], &["--device", "4090", "--no-run"]].concat())
    };
    let ran = auto("0=16GiB,cpu=60GB").ends_with(0);
    let ran = ran.shows(&[
        "policy: DeviceMap(hbm: b(17179869184), cpu: b(60000000000))",
        "max_memory 0: 17179869184",
    ]);
    project.write("turned.ron", &ran.stdout);
    project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
    for wrong in ["16GiB", "0=16XB", "1=16GiB", "0=1GiB,0=2GiB", "0=-1", "0=inf", ""] {
        auto(wrong)
            .ends_with(2)
            .says(&["--max-memory: sizes of 0, the card, and of cpu, each once"]);
    }
    let ran = turned(
        &project,
        "map.json",
        r#"{"transformer.h.0": "cpu"}"#,
        &["--max-memory", "0=2GiB,cpu=8GiB"],
    );
    ran.ends_with(0).shows(&["hbm: b(2147483648)", "capacity: {\"dram\": b(8589934592)}"]);
    let there = project.path("map.json").display().to_string();
    let line = ["from", "accelerate", &there, "--model", "gpt2", "--device", "a100"];
    project.run(&line).ends_with(2).says(&["a scenario names the map from its own folder"]);
    for (map, says) in [
        // github.com/CURRENTF/LowRankClone, tools/assign_device_map.py: two cards.
        (
            r#"{"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.20": 1, "lm_head": 1}"#,
            "a map of one device has modules on 0, cpu and disk (found 1)",
        ),
        (r#"{"model.layers.0": "cuda:3"}"#, "a map of one device"),
        (r#"{"": 0}"#, "a map names modules"),
        (r#"{"model.layers.0": 0, "model.layers.0": "cpu"}"#, "a key is given twice"),
    ] {
        turned(&project, "map.json", map, &[]).ends_with(2).says(&[says]);
    }
}
