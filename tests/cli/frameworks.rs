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
pub(crate) const COMMAND_LINES: [(&str, &str, &[&str], &[&str]); 11] = [
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
        // github.com/vllm-project/vllm/issues/22306: a flag that takes no value has one.
        (
            "vllm serve /mnt/general/models/Qwen3-30B-A3B-Instruct-2507-FP8 --tensor-parallel-size 2 \
             --pipeline-parallel-size 1 --gpu-memory-utilization  0.9 --max-model-len 64000 --enforce_eager true ",
            &["`model` says the same as `model` (found true)"],
        ),
        // github.com/LMCache/LMCache/issues/1435
        (
            "vllm serve /models/Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 --max-model-len 131072 \
             --enable-expert-parallel --data-parallel-size 8 --gpu-memory-utilization 0.75",
            &["no model of this name is known here"],
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
        ("vllm serve gpt2 -tp 1 --tensor-parallel-size 1", &["says the same as `tp`"]),
        ("vllm serve gpt2 | tee log", &["this is one command line"]),
        ("vllm serve 'gpt2", &["a quote has its end"]),
    ] {
        let ran = project.run(&["from", "vllm", line, "--device", "a100"]).ends_with(2).says(says);
        assert_eq!(ran.stdout, "", "nothing is printed");
        assert!(!project.path("out").exists(), "nothing is written");
    }
}
