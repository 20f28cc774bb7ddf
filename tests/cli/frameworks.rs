//! `from`: files of frameworks become scenarios, each key is accounted for, contradictions are refused.

use crate::common::*;
use serde_json::Value;

/// A configuration turned and not run: what is printed.
pub(crate) fn turned(project: &Project, text: &str, more: &[&str]) -> Ran {
    project.write("ds.json", text);
    let own = |option, value| if more.contains(&option) { vec![] } else { vec![option, value] };
    let (model, device) = (own("--model", "gpt2"), own("--device", "a100"));
    let words = ["from", "deepspeed", "ds.json", "--sequence", "512", "--no-run"];
    project.run(&[&words[..], &model, &device, more].concat())
}

/// Fails unless each command line or script is turned into what shows that it was read, from a file
/// as well, and holds; the last of them is small enough to run.
pub(crate) fn hold(
    all: &[(&str, &[&str], &[&str])],
    turned: impl Fn(&Project, &str, &[&str]) -> Ran,
) {
    let project = Project::shipped();
    for (line, more, shows) in all {
        let ran = turned(&project, line, more).ends_with(0).shows(shows);
        project.write("line.sh", line);
        let same = turned(&project, "line.sh", more).ends_with(0);
        assert_eq!(same.stdout, ran.stdout, "a file that holds it says the same");
        project.write("turned.ron", &ran.stdout);
        project.run(&["check", "turned.ron"]).ends_with(0);
    }
    project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
}

/// Keys of a configuration that have values, with their sections.
fn keys(value: &Value, before: &str, out: &mut Vec<String>) {
    for (key, value) in value.as_object().expect("a section") {
        let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        match value {
            Value::Object(inside) if !inside.is_empty() => keys(value, &key, out),
            _ => out.push(key),
        }
    }
}

/// As programs and guides write them: everything `auto`, older names, every stage, drives.
pub(crate) const CONFIGURATIONS: [(&str, &[&str], &[&str]); 13] = [
    (
        r#"{"fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000}, "bf16": {"enabled": "auto"},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
            "zero_optimization": {"stage": 2, "allgather_partitions": true, "allgather_bucket_size": 2e8,
                "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": "auto", "contiguous_gradients": true},
            "gradient_accumulation_steps": "auto", "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}"#,
        &["--gpus", "8", "--micro-batch", "4", "--precision", "fp16"],
        &[
            "hardware: \"dgx-a100-80g\"",
            "precision: fp16,",
            "batch: 4,",
            "parallel: (data: 8)",
            "zero: (stage: 2),",
            "policy: AllHbm",
        ],
    ),
    (
        r#"{"train_batch_size": 64, "zero_optimization": {"stage": 2, "cpu_offload": true, "reduce_bucket_size": 500000000},
            "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.999]}}, "fp16": {"enabled": true}}"#,
        &["--gpus", "4"],
        &[
            "batch: 16,",
            "zero: (stage: 2, host_update: 1.0, bucket: b(1000000000), overlap: false)",
            "ZeroOffload(optimizer: \"far\")",
            "runtime: (copies: pageable",
        ],
    ),
    (
        r#"{"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
            "zero_optimization": {"stage": 3,
                "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true, "buffer_count": 4, "fast_init": false},
                "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true, "buffer_size": 1e8, "max_in_cpu": 1e9},
                "stage3_prefetch_bucket_size": 1e6},
            "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1, "single_submit": false, "overlap_events": true}}"#,
        &[],
        &[
            "batch: 8,",
            "micro_batch: 1,",
            "optimizer: \"drive\", gradients: \"far\"",
            "parameters: \"drive\", prefetch_ops: 16, relay: \"far\", prefetch_budget: b(2000000)",
        ],
    ),
    (
        r#"{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.3}, "overlap_comm": false},
            "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true, "number_checkpoints": null},
            "bf16": {"enabled": true}}"#,
        &["--gpus", "2", "--device", "h100"],
        &[
            "hardware: \"dgx-h100\"",
            "checkpointing: full",
            "host_update: 0.3, overlap: false",
            "optimizer_share: 0.3, activations: \"far\"",
        ],
    ),
    (
        r#"{"train_batch_size": 8, "steps_per_print": 1}"#,
        &[],
        &["precision: fp32", "batch: 8,", "micro_batch: 8,"],
    ),
    (
        r#"{"zero_optimization": {"stage": 1}, "optimizer": {"type": "OneBitAdam"}}"#,
        &[],
        &["zero: (stage: 1)"],
    ),
    (
        r#"{"optimizer": {"type": "Lion", "params": {}}, "zero_optimization": {"stage": 0}}"#,
        &[],
        &["optimizer: lion,"],
    ),
    (
        "{\n\t\"zero_optimization\": {\n\t\t\"stage\": 2,\n\t\t\"offload_param\": {\"device\": \"cpu\"},\n\t\t\"offload_optimizer\": {\"device\": \"none\"}\n\t}\n}",
        &["--host-memory", "512", "--checkpointing"],
        &[
            "capacity: {\"dram\": gib(512)}",
            "policy: AllHbm",
            "offloads parameters in stage 3 only",
        ],
    ),
    (
        r#"{"zero_optimization": {"stage": 3, "zero_quantized_weights": true, "zero_hpz_partition_size": 8, "brand_new_key": 1},
            "curriculum_learning": {"enabled": true, "params": {"difficulty": [1, 2]}}, "wandb": {"enabled": true}}"#,
        &[],
        &["brand_new_key: 1 -> ignored: unknown key", "ZeRO++ and MiCS are not modelled"],
    ),
    // What the program fills in, and sections that say nothing.
    (
        r#"{"bf16": {"enabled": "auto"}, "fp16": {"enabled": true}, "scheduler": {}, "aio": {},
            "zero_optimization": {"stage": "auto", "offload_optimizer": {"device": "auto"}, "offload_param": {}}}"#,
        &["--stage", "3"],
        &[
            "precision: fp16,",
            "zero: (stage: 3),",
            "policy: AllHbm",
            "bf16.enabled: auto -> ignored: left to the program: precision: fp16",
            "offload_param: {} -> ignored: an empty section",
        ],
    ),
    (
        r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none", "ratio": 0.3, "pin_memory": true},
            "offload_param": null}, "torch_autocast": {"enabled": false}, "gradient_accumulation_dtype": "fp32", "timers": {"throughput": {"enabled": true}}}"#,
        &["--precision", "fp16"],
        &[
            "precision: bf16,",
            "policy: AllHbm",
            "ratio: 0.3 -> ignored: nothing of it is offloaded",
        ],
    ),
    (
        r#"{"zero_optimization": true, "train_batch_size": 4}"#,
        &[],
        &["zero: (stage: 1)", "batch: 4,"],
    ),
    (
        r#"{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": true}}, "fp16": {"enabled": true}}"#,
        &["--device", "A100 40 GB"],
        &["hardware: \"a100-40g-pcie4\"", "ZeroOffload(parameters: \"far\""],
    ),
];

#[test]
fn configurations_of_deepspeed_become_scenarios_that_account_for_every_key() {
    let project = Project::shipped();
    for (text, more, shows) in CONFIGURATIONS {
        let ran = turned(&project, text, more).ends_with(0).shows(shows);
        let mut all = Vec::new();
        keys(&serde_json::from_str(text).expect("JSON"), "", &mut all);
        for key in all {
            let rows = ran.stdout.lines().filter(|line| line.contains(&format!(": {key}: ")));
            assert_eq!(rows.count(), 1, "{key} in {}", ran.stdout);
        }
        // What is printed is a scenario, and it runs.
        project.write("turned.ron", &ran.stdout);
        project.run(&["check", "turned.ron"]).ends_with(0);
        project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
    }
}

#[test]
fn what_contradicts_itself_or_is_no_configuration_is_refused() {
    let project = Project::shipped();
    for (text, more, says) in [
        (
            r#"{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}"#,
            &[][..],
            "ds.json:1:2: `train_batch_size` is micro-batch x accumulation x GPUs, here 2 x 2 x 1 = 4 (found 7)",
        ),
        (r#"{"train_batch_size": 9}"#, &["--gpus", "2"], "here 4 x 1 x 2 = 8 (found 9)"),
        (
            r#"{"fp16": {"enabled": true}, "bf16": {"enabled": true}}"#,
            &[],
            "`bf16.enabled` and `fp16.enabled` are not both on",
        ),
        (
            r#"{"zero_optimization": {"stage": 4}}"#,
            &[],
            "`zero_optimization.stage` is a whole number from 0 to 3 (found 4)",
        ),
        (
            r#"{"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}"#,
            &[],
            "`offload_optimizer` is of stages 1 to 3 (found stage 0)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "disk2"}}}"#,
            &[],
            "is `cpu`, `nvme` or `none` (found disk2)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2, "reduce_bucket_size": -5}}"#,
            &[],
            "a whole number from 0 to 1e15, or `auto` (found -5)",
        ),
        (r#"{"train_batch_size": 1, "train_batch_size": 2}"#, &[], "a key is given twice"),
        (
            r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}, "bf16": {"enabled": true}}"#,
            &[],
            "goes to NVMe in stage 3 only (found stage 2)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}"#,
            &[],
            "ds.json:1:58: an update on the host is of a master copy",
        ),
        ("{}", &["--gpus", "2", "--device", "3090"], "no machine with 2 of these ships"),
        (
            r#"{"zero_optimization": {"stage": 2}}"#,
            &["--gpus", "4", "--device", "b200"],
            "b200 does not say where they meet",
        ),
        ("[1, 2]", &[], "a mapping of keys to values"),
        ("{\"a\": ", &[], "ds.json:"),
        ("{}", &["--device", "abacus"], "abacus"),
        ("{}", &["--model", "no-such-model"], "no-such-model"),
    ] {
        let ran = turned(&project, text, more);
        let ran = ran.ends_with(2).says(&[says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
        assert!(!project.path("out").exists(), "nothing is written");
    }
}

/// DeepSpeed reads Hjson: comments are no keys, and hide none.
#[test]
fn comments_hide_no_key() {
    let project = Project::shipped();
    let text = "{\n  // per step, \"train_batch_size\": 1\n  \"train_batch_size\": 4, /* and\n   more */ \
                \"optimizer\": {\"type\": \"Lion\"}, # at last\n  \"wandb\": {\"host\": \"http://a//b\"}\n}";
    let ran = turned(&project, text, &[]).ends_with(0);
    ran.shows(&[
        "line 3: train_batch_size: 4 ->",
        "optimizer: lion,",
        "host: http://a//b",
        "line 5: wandb",
    ]);
}

/// Command lines as issues and guides of the projects have them, with what shows that they were read.
pub(crate) const COMMAND_LINES: [(&str, &str, &[&str], &[&str]); 4] = [
    (
        "vllm",
        "vllm serve meta-llama/Llama-2-13b-hf --cpu-offload-gb 8 --max-num-seqs=4 --kv_cache_dtype fp8 --swap-space 16",
        &["--device", "4090", "--requests", "8"],
        &[
            "model: \"llama-2-13b\"",
            "formats: (kv: fp8)",
            "batch: 4,",
            // 8 GiB of 13,015,864,320 numbers of two bytes, and 0.9 of the card.
            "parameters: \"far\", parameters_share: 0.33, prefetch_ops: 0",
            "hbm: b(23192823398)",
            "swap-space: 16 -> ignored: no request waits",
        ],
    ),
    // github.com/vllm-project/vllm/issues/28910
    (
        "vllm",
        "python -m vllm.entrypoints.openai.api_server \\\n--model /home/x/model/Qwen3-30B-A3B-Instruct-2507-FP8 \\\n\
         --port 8000 \\\n--served-model-name Qwen3-30B-A3B-Instruct-2507 \\\n--tensor-parallel-size 4 \\\n\
         --pipeline-parallel-size 1 \\\n--dtype auto \\\n--trust-remote-code \\\n--gpu-memory-utilization 0.90 \\\n\
         --max-model-len 131072 \\\n--max-num-batched-tokens 32768 \\\n--enable-auto-tool-choice \\\n\
         --tool-call-parser hermes \\\n--max-num-seqs 10",
        &["--device", "a100"],
        &[
            "hardware: \"dgx-a100-80g\"",
            "model: \"qwen3-30b-a3b\"",
            "tensor: 4,",
            "formats: (weights: fp8)",
            "line 3: port: 8000",
        ],
    ),
    (
        "sglang",
        "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --kv-cache-dtype fp8_e5m2 --hicache-size 30",
        &["--device", "a100"],
        &["model: \"llama-3.1-8b\"", "formats: (kv: fp8)", "hicache-size: 30 -> ignored"],
    ),
    (
        "vllm",
        "--model facebook/opt-125m --dtype half --quantization=awq --zz 1",
        &["--device", "t4"],
        &["zz: 1 -> ignored: unknown key", "int4"],
    ),
];

#[test]
fn command_lines_of_servers_become_scenarios_that_run() {
    let project = Project::shipped();
    for (engine, line, more, shows) in COMMAND_LINES {
        let ran = project.run(&[&["from", engine, line, "--no-run"], more].concat());
        let ran = ran.ends_with(0).shows(shows);
        project.write("line.sh", line);
        let same = project.run(&[&["from", engine, "line.sh", "--no-run"], more].concat());
        assert_eq!(same.ends_with(0).stdout, ran.stdout, "a file that holds it says the same");
        project.write("turned.ron", &ran.stdout);
        project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
    }
}

#[test]
fn command_lines_that_ask_for_what_is_not_modelled_are_refused() {
    let project = Project::shipped();
    for (line, says) in [
        // huggingface.co/opensourcerelease/DeepSeek-V3-bf16/discussions/6
        (
            "vllm serve opensourcerelease/DeepSeek-V3-bf16 --dtype bfloat16 --gpu-memory-utilization 0.7 \
             --cpu-offload-gb 540 --tensor-parallel-size 2 --pipeline-parallel-size 9 --trust-remote-code",
            &[
                "no model of this name is known here",
                "in stages of layers is not modelled (found 9)",
            ][..],
        ),
        // github.com/vllm-project/vllm/issues/13124
        (
            "vllm serve /home/x/llm_model/Qwen/Qwen2___5-VL-72B-Instruct --dtype auto --tensor-parallel-size 4",
            &["no model of this name is known here"],
        ),
        ("vllm serve gpt2 --speculative-config '{\"n\": 1}'", &["tokens that are guessed ahead"]),
        ("vllm serve gpt2 --kv-cache-dtype fp9", &["vllm:1:17: `kv-cache-dtype` is modelled as"]),
        ("vllm serve gpt2 --gpu-memory-utilization 1.5", &["is a share above 0"]),
        ("vllm serve gpt2 --max-model-len 0.1k", &["`max-model-len` at most, here 520"]),
        ("vllm serve gpt2 -tp 64", &["no machine with 64 of the devices ships"]),
        ("vllm serve gpt2 -tp 1 --tensor-parallel-size 1", &["says the same as `tp`"]),
        ("vllm serve gpt2 | tee log", &["this is one command line"]),
        ("vllm serve 'gpt2", &["a quote has its end"]),
    ] {
        let ran = project.run(&["from", "vllm", line, "--device", "a100"]).ends_with(2).says(says);
        assert_eq!(ran.stdout, "", "nothing is printed");
        assert!(!project.path("out").exists(), "nothing is written");
    }
}
