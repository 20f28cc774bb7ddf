//! `from vllm` and `from sglang`: command lines become scenarios, each flag is accounted for.

use crate::common::*;

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

/// Command lines as issues and guides of the projects have them, with what shows that they were read.
pub(crate) const COMMAND_LINES: [(&str, &str, &[&str], &[&str]); 16] = [
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
            "time: op_times(precision: \"bf16\")",
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
    // github.com/vllm-project/vllm/issues/33155, its variables filled in: experts of 4 bits.
    (
        "vllm",
        "vllm serve openai/gpt-oss-120b --host 0.0.0.0 --port 8000 --gpu-memory-utilization 0.97 -O3 \
         --enable-chunked-prefill --enable-prefix-caching --async-scheduling --max_num_seqs 100 \
         --tool-call-parser openai --enable-auto-tool-choice --tensor-parallel-size 1 --max-model-len 87040",
        &["--device", "h100", "--tokens", "2"],
        &["model: \"gpt-oss-120b\"", "formats: (weights: mxfp4)", "hardware: \"h100-sxm-pcie5\""],
    ),
    // github.com/EuroEval/EuroEval/issues/1120
    (
        "vllm",
        "python3 -m vllm.entrypoints.openai.api_server \\\n    --model openai/gpt-oss-20b \\\n    --host 0.0.0.0 \\\n    \
         --port 8000 \\\n    --tensor-parallel-size 2 \\\n    --gpu-memory-utilization 0.9",
        &["--device", "h100", "--tokens", "2"],
        &["tensor: 2,", "formats: (weights: mxfp4)", "hardware: \"dgx-h100\""],
    ),
    // github.com/datawhalechina/self-llm/issues/459
    (
        "vllm",
        "VLLM_USE_MODELSCOPE=true vllm serve /models/Qwen/Qwen3-8B --served-model-name Qwen3-8B \
         --max_model_len 8192 --enable-reasoning --reasoning-parser deepseek_r1",
        &["--device", "4090"],
        &["model: \"qwen3-8b\"", "precision: bf16", "enable-reasoning: true -> ignored"],
    ),
    // github.com/vllm-project/vllm/issues/18244
    (
        "vllm",
        "vllm serve ~/models/Qwen3-14B-FP8 \\\n--served-model-name Qwen3-14B \\\n--api-key htxt-ai \\\n--device cuda \\\n\
         --disable-log-requests \\\n--gpu-memory-utilization 0.95 \\\n--host 0.0.0.0 --port 6006 \\\n--seed 3407 \\\n\
         --max-model-len 32000 \\\n--dtype bfloat16 \\\n--trust-remote-code \\\n--max-num-seqs 256",
        &["--device", "4090"],
        &["model: \"qwen3-14b\"", "formats: (weights: fp8)"],
    ),
    // A device that multiplies them as they are.
    (
        "vllm",
        "vllm serve Qwen/Qwen3-14B-FP8 --max-num-seqs 64",
        &["--device", "h100-sxm-pcie5"],
        &[
            "formats: (weights: fp8)",
            "products of weights in fp8: not said -> time: op_times(precision: \"fp8\")",
        ],
    ),
    // github.com/TrelisResearch/one-click-llms/issues/17
    (
        "vllm",
        "--model Qwen/Qwen3-32B-FP8 --reasoning-parser deepseek_r1 --max-model-len 8192 --host 0.0.0.0 --port 8000",
        &["--device", "workstation"],
        &["model: \"qwen3-32b\"", "hardware: \"workstation-rtx-6000-ada\""],
    ),
    // github.com/vllm-project/vllm/issues/17666
    (
        "vllm",
        "vllm serve /home/sun/models/Qwen3-30B-A3B   --no-enable-expert-parallel   --host 0.0.0.0 --port 8088   \
         --tensor-parallel-size 4 --gpu-memory-utilization 1   --dtype float16 --max-model-len 4096 --max-num-seqs 16   \
         --served-model-name Qwen3-30B-A3B",
        &["--device", "h200", "--tokens", "2"],
        &["precision: fp16", "tensor: 4,", "hardware: \"dgx-h200\""],
    ),
    (
        "sglang",
        "python3 -m sglang.launch_server --model-path openai/gpt-oss-120b --tp-size 4",
        &["--device", "a100", "--tokens", "2"],
        &["formats: (weights: mxfp4)", "tensor: 4,"],
    ),
    // Scripts that start a server: variables with defaults, a list with remarks in it, a test of what
    // is known and one of what is not, and a flag that is given twice.
    (
        "vllm",
        r#"#!/usr/bin/env bash
set -euo pipefail
MODEL="${1:-someone/Llama-3.1-70B-Instruct-FP8}"
PACKED="${PACKED:-}"
ARGS=(
  --served-model-name labels
  --max-model-len "${LENGTH:-6144}"   # more >> does not fit
  --kv-cache-dtype fp8        # half of it
  --max-num-seqs 128 --gpu-memory-utilization 0.5
)
[ -n "$PACKED" ] && ARGS+=(--quantization "$PACKED")
if [ -f key ]; then
  ARGS+=(--api-key "$(cat key)")
fi
exec vllm serve "$MODEL" "${ARGS[@]}" --gpu-memory-utilization=0.9 > log 2>&1 &
"#,
        &["--device", "h200", "--tokens", "2"],
        &[
            "model: \"llama-3.1-70b\"",
            "formats: (weights: fp8, kv: fp8)",
            "line 9: gpu-memory-utilization: 0.5 -> ignored: `gpu-memory-utilization` of line 15 says it again",
            "hbm: b(126900000000)",
            "line 13: $flags.api-key: ${ARGS[@]} -> ignored: a condition that cannot be told decides",
        ],
    ),
    (
        "vllm",
        "docker run --gpus all -v ~/models:/models --ipc=host -p 8000:8000 \\\n  vllm/vllm-openai:latest \\\n  \
         --model mistralai/Mistral-7B-Instruct-v0.3 --enforce-eager",
        &["--device", "4090", "--tokens", "2"],
        &[
            "model: \"mistral-7b-v0.3\"",
            "line 1: launcher.ipc: host -> ignored: of what starts the server",
        ],
    ),
    (
        "sglang",
        "case \"$1\" in\n  ours)\n    PY=/opt/x/bin/python\n    nohup \"$PY\" -m sglang.launch_server --model-path Qwen/Qwen3-1.7B \\\n\
         --mem-fraction-static 0.45 --page-size 16 > \"$OUT/log\" 2>&1 &\n    ;;\nesac\nPID=$!",
        &["--device", "h100", "--tokens", "2"],
        &["model: \"qwen3-1.7b\"", "line 5: page-size: 16 -> ignored: rounds the cache up"],
    ),
    // Flags alone, on as many lines as there are.
    (
        "vllm",
        "--model gpt2\n--max-num-seqs 2\n--dtype half\n--port 80",
        &["--device", "t4", "--tokens", "2", "--requests", "4"],
        &["batch: 2,", "line 4: port: 80 -> ignored"],
    ),
];

/// Problems name flags as they were written, also where another program calls them otherwise.
#[test]
fn a_problem_names_the_flag_that_was_written() {
    let project = Project::shipped();
    for (flag, says) in [
        ("--context-length 100", "prompt and tokens are `context-length` at most"),
        ("--tp-size none", "`tp-size` is a whole number from 1"),
        ("--mem-fraction-static 2", "`mem-fraction-static` is a share above 0"),
    ] {
        let line = format!("sglang serve --model-path gpt2 {flag}");
        project.run(&["from", "sglang", &line, "--device", "a100"]).ends_with(2).says(&[says]);
    }
}

/// A checkpoint that was packed says so in its config.json: scenarios, servers and memory go by it.
#[test]
fn a_packed_checkpoint_is_as_large_as_its_config_says() {
    let project = Project::shipped();
    let config = r#"{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "vocab_size": 128256, "torch_dtype": "float16""#;
    let packed =
        r#", "quantization_config": {"bits": 4, "group_size": 128, "quant_method": "awq"}"#;
    project.write("plain.json", format!("{config}}}"));
    project.write("packed.json", format!("{config}{packed}}}"));
    let peak = |model: &str| {
        let line = "vllm serve x --dtype half";
        let ran =
            project.run(&["from", "vllm", line, "--model", model, "--device", "4090", "--no-run"]);
        let text = ran.ends_with(0).stdout;
        project.write("of.ron", &text);
        // What the config says holds where the scenario says nothing.
        project.write(
            "silent.ron",
            text.replace("        formats: (weights: int4(group: 128)),\n", ""),
        );
        let [said, silent] = ["of", "silent"].map(|name| {
            let quick = [
                "run",
                &format!("{name}.ron"),
                "--out",
                name,
                "--no-png",
                "--no-bound-curve",
                "-q",
            ];
            project.run(&quick).ends_with(0);
            let text = std::fs::read_to_string(project.path(&format!("{name}/summary.json")));
            let summary: serde_json::Value =
                serde_json::from_str(&text.expect("written")).expect("JSON");
            summary["results"][0]["peak_bytes"]["hbm"].as_u64().expect("a number")
        });
        assert_eq!(said, silent, "{model}");
        (said, text)
    };
    let ((plain, _), (small, text)) = (peak("plain.json"), peak("packed.json"));
    assert!(text.contains("quantization: not said -> formats: (weights: int4(group: 128)), as the config.json has it"), "{text}");
    // 6,979,321,856 numbers of matrices in 4.125 bits in the place of 16.
    assert_eq!(plain - small, 6_979_321_856 * 2 - 6_979_321_856 / 2 - 6_979_321_856 / 64);
    let memory = ["memory", "--model", "packed.json", "--inference", "--sequence", "128"];
    let text = project
        .run(&memory)
        .ends_with(0)
        .says(&["matrices are packed as int4:128: so they count"])
        .stdout;
    let quantized = [&memory[..], &["--quantize", "int4"]].concat();
    assert_eq!(text, project.run(&quantized).ends_with(0).stdout);
}

/// Of what is packed, matrices of blocks are, and of gpt-oss experts alone.
#[test]
fn offloaded_gigabytes_are_a_share_of_the_weights_that_memory_counts() {
    let project = Project::shipped();
    for (line, model, more) in [
        ("meta-llama/Meta-Llama-3-8B -q awq", "llama-3-8b", &["--quantize", "int4:128"][..]),
        ("openai/gpt-oss-20b", "gpt-oss-20b", &["--quantize", "mxfp4"]),
        (
            "openai/gpt-oss-20b -tp 2",
            "gpt-oss-20b",
            &["--quantize", "mxfp4", "--gpus", "2", "--tensor", "2"],
        ),
    ] {
        let memory = ["memory", "--inference", "--model", model, "--format", "json"];
        let account = project.run(&[&memory[..], more].concat()).ends_with(0).json();
        let all = account["weights_bytes"].as_f64().expect("bytes of weights");
        let share = (4.0 * (1_u64 << 30) as f64 / all * 1e4).round() / 1e4;
        let line = format!("vllm serve {line} --cpu-offload-gb 4");
        let ran = project.run(&["from", "vllm", &line, "--device", "h100", "--no-run"]);
        ran.ends_with(0).shows(&[&format!("parameters_share: {share:?}")]);
    }
}

#[test]
fn a_file_of_flags_in_yaml_says_what_the_flags_say() {
    let project = Project::shipped();
    project.write("flags.yaml", "model: gpt2\ndtype: half\nmax-num-seqs: 2\nenforce-eager: true\n");
    let flags = "--model gpt2 --dtype half --max-num-seqs 2 --enforce-eager";
    let turned = |of: &str| {
        let more = ["--device", "t4", "--requests", "4", "--no-run"];
        let ran = project.run(&[&["from", "vllm", of], &more[..]].concat()).ends_with(0);
        let lines = ran.stdout.lines().filter(|line| !line.starts_with("//"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(turned("flags.yaml"), turned(flags));
}

/// One of the replicas is modelled, with its part of the requests.
#[test]
fn replicas_share_the_requests_out() {
    let project = Project::shipped();
    for (engine, line, requests, shows) in [
        (
            "vllm",
            "vllm serve meta-llama/Llama-3.1-8B --data-parallel-size 8 --tensor-parallel-size 2",
            "12",
            &["batch: 2,", "2 of 12 requests: this is one of 8 replicas; no machine with 16 of"][..],
        ),
        (
            "vllm",
            "vllm serve meta-llama/Llama-3.1-8B -dp 4 -tp 2",
            "4",
            &["batch: 1,", "1 of 4 requests: this is one"],
        ),
        (
            "sglang",
            "sglang serve --model-path gpt2 --dp-size 2 --max-running-requests 3",
            "8",
            &[
                "batch: 3,",
                "batch: 3, of 4 requests",
                "4 of 8 requests: this is one of 2 replicas\n",
            ],
        ),
    ] {
        let more = ["--device", "h100", "--no-run", "--requests", requests];
        project.run(&[&["from", engine, line], &more[..]].concat()).ends_with(0).shows(shows);
    }
    let line = "vllm serve gpt2 --data-parallel-size 0";
    let ran = project.run(&["from", "vllm", line, "--device", "h100"]).ends_with(2);
    ran.says(&["`data-parallel-size` is a whole number from 1 to 1024 (found 0)"]);
}

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

/// Flags that leave room for fewer requests than come, whichever of them is the tightest.
#[test]
fn room_for_keys_and_values_bounds_the_requests_under_way() {
    let project = Project::shipped();
    let of = |engine: &str, flags: &str, requests: &str| {
        let line = match engine {
            "vllm" => format!("vllm serve meta-llama/Llama-3.1-8B {flags}"),
            _ => format!("sglang serve --model-path meta-llama/Llama-3.1-8B {flags}"),
        };
        let more = ["--device", "h100", "--no-run", "--requests", requests];
        let prompts = ["--prompt", "1000", "--tokens", "24"];
        project.run(&[&["from", engine, &line], &more[..], &prompts].concat())
    };
    for (engine, flags, requests, shows) in [
        // 1,024 tokens are 64 blocks of 16, and 32 of 32.
        ("vllm", "--num-gpu-blocks-override 200", "64", &["batch: 3,", "each in blocks of 16"][..]),
        ("vllm", "--num-gpu-blocks-override 200 --block-size 32", "64", &["batch: 6,"]),
        ("vllm", "--num-gpu-blocks-override 200 --max-num-seqs 2", "64", &["batch: 2,"]),
        ("vllm", "--num-gpu-blocks-override 200000", "64", &["batch: 64,"]),
        ("sglang", "--max-total-tokens 5000", "64", &["batch: 4,", "each of 1024 tokens"]),
        // 128 KiB a token: 8 requests of 128 MiB; the card's share says nothing then.
        (
            "vllm",
            "--kv-cache-memory-bytes 1G --gpu-memory-utilization 0.5",
            "64",
            &["batch: 8,", "each of 134217728 bytes", "utilization: 0.5 -> ignored", "hbm: b(8"],
        ),
        ("vllm", "-tp 2 --kv-cache-memory-bytes 1G", "64", &["batch: 16,"]),
        ("vllm", "", "300", &["batch: 300,", "max-num-seqs: not said -> batch: 300: no bound"]),
    ] {
        of(engine, flags, requests).ends_with(0).shows(shows);
    }
    for (engine, flags, says) in [
        ("vllm", "--num-gpu-blocks-override 63", "room for one request, each in blocks of 16"),
        ("sglang", "--max-total-tokens 1000", "`max-total-tokens` has room for one request"),
        ("vllm", "--num-gpu-blocks-override few", "is a whole number (found few)"),
    ] {
        of(engine, flags, "64").ends_with(2).says(&[says]);
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
            &["in stages of layers is not modelled (found 9)"][..],
        ),
        // github.com/vllm-project/vllm/issues/13124
        (
            "vllm serve /home/x/llm_model/Qwen/Qwen2___5-VL-72B-Instruct --dtype auto --tensor-parallel-size 4",
            &["no model of this name is known here"],
        ),
        // github.com/vllm-project/vllm/issues/22306: a flag that takes no value has one.
        (
            "vllm serve /mnt/general/models/Qwen3-30B-A3B-Instruct-2507-FP8 --tensor-parallel-size 2 \
             --pipeline-parallel-size 1 --gpu-memory-utilization  0.9 --max-model-len 64000 --enforce_eager true ",
            &["a model is named once (found true)"],
        ),
        // github.com/LMCache/LMCache/issues/1435
        (
            "vllm serve /models/Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 --max-model-len 131072 \
             --enable-expert-parallel --data-parallel-size 8 --gpu-memory-utilization 0.75",
            &[
                "experts that are spread over replicas of the rest are not modelled (found 8 replicas)",
            ],
        ),
        // github.com/vllm-project/vllm/issues/15469
        (
            "vllm serve /models/Qwen/Qwen2.5-VL-3B-Instruct --gpu-memory-utilization 0.9 --swap-space 16 \
             --max-model-len 4096 --tensor-parallel-size 2 --port 8091 --disable-custom-all-reduce",
            &["no model of this name is known here"],
        ),
        ("vllm serve gpt2 --speculative-config '{\"n\": 1}'", &["tokens that are guessed ahead"]),
        ("vllm serve gpt2 --kv-cache-dtype fp9", &["vllm:1:17: `kv-cache-dtype` is modelled as"]),
        ("vllm serve gpt2 --gpu-memory-utilization 1.5", &["is a share above 0"]),
        ("vllm serve gpt2 --max-model-len 0.1k", &["`max-model-len` at most, here 520"]),
        ("vllm serve gpt2 -tp 64", &["no machine with 64 of the devices ships"]),
        ("vllm serve gpt2 -tp 1 --tensor-parallel-size 64", &["no machine with 64 of the devices"]),
        (
            "vllm serve gpt2 $MORE",
            &["is said in the same script, under no condition (found $MORE)"],
        ),
        ("vllm serve $MODEL --port 80", &["no model of this name is known here (found $MODEL)"]),
        ("vllm serve gpt2 & vllm serve gpt2 --tp 2", &["starts one program", "2 commands"]),
        ("vllm bench gpt2", &["no command with such flags is in it"]),
        ("vllm serve gpt2 --config flags.yaml", &["name that file in the place of the command"]),
        ("vllm serve 'gpt2", &["a quote has its end"]),
    ] {
        let ran = project.run(&["from", "vllm", line, "--device", "a100"]).ends_with(2).says(says);
        assert_eq!(ran.stdout, "", "nothing is printed");
        assert!(!project.path("out").exists(), "nothing is written");
    }
    let t4 = ["from", "vllm", "vllm serve gpt2 --dtype auto", "--device", "t4"];
    let says = [
        "error: vllm: what it comes to, `time: roofline(precision: \"bf16\")`, does not hold: \
                 `T4 16 GB` has no peak for this precision",
        "known: fp16, fp32",
    ];
    project.run(&t4).ends_with(2).says(&says);
}

/// Flags of another model or machine say nothing only as far as they ask for what is modelled.
#[test]
fn flags_that_change_model_or_machine_are_refused_or_told() {
    let project = Project::shipped();
    let of = |flags: &str| {
        let line = format!("vllm serve gpt2 {flags}");
        project.run(&["from", "vllm", &line, "--device", "a100", "--no-run"])
    };
    for (flags, says) in [
        (
            "--hf-overrides '{\"num_hidden_layers\": 2}'",
            "numbers of the model are those of its name",
        ),
        ("--device cpu", "a server is modelled on GPUs (found cpu)"),
        ("--task embed", "a server that generates text is modelled (found embed)"),
        ("--runner pooling", "a server that generates text is modelled (found pooling)"),
        ("--decode-context-parallel-size 2", "ranks that have parts of a sequence are not read"),
        ("--torchao-config int4wo-128", "how torchao stores weights is not read"),
        ("--offload-backend prefetch", "which layers of a group are offloaded is not read"),
    ] {
        of(flags).ends_with(2).says(&[says]);
    }
    for (flags, shows) in [
        (
            "--task generate --runner auto --device cuda",
            "device: cuda -> ignored: so it is modelled",
        ),
        ("--decode-context-parallel-size 1", "1 -> ignored: so it is modelled"),
        ("--disable-sliding-window", "no longer than a window"),
        ("--offload-backend uva", "uva -> ignored: weights of --cpu-offload-gb"),
        ("-O3", "O3: true -> ignored: which kernels run"),
    ] {
        of(flags).ends_with(0).shows(&[shows]);
    }
}
