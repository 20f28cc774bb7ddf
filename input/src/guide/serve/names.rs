//! What flags and models are called.
//!
//! Invariant: two names of one flag give one word.

use tiersim_workloads::transformer::known::KNOWN;

/// How flags begin that have no value.
pub(super) const ALONE: &[&str] = &[
    "enable-",
    "disable-",
    "no-",
    "trust-remote-code",
    "enforce-eager",
    "async-scheduling",
    "headless",
    "skip-",
    "calculate-kv-scales",
    "use-",
    "allow-",
];

/// A flag in vLLM's long spelling; `--no-x` counts as `x`.
pub(super) fn vllm(path: &[String]) -> String {
    let flag = path.join(".").replace('_', "-");
    let flag = flag.strip_prefix("no-").unwrap_or(&flag);
    match flag {
        "tp" => "tensor-parallel-size",
        "pp" => "pipeline-parallel-size",
        "dp" => "data-parallel-size",
        "q" => "quantization",
        "asc" => "api-server-count",
        other => other,
    }
    .to_owned()
}

/// A flag of SGLang, by vLLM's word for the same.
pub(super) fn sglang(path: &[String]) -> String {
    let flag = path.join(".").replace('_', "-");
    match flag.as_str() {
        "model-path" => "model",
        "tp" | "tp-size" => "tensor-parallel-size",
        "pp" | "pp-size" => "pipeline-parallel-size",
        "dp" | "dp-size" => "data-parallel-size",
        "mem-fraction-static" => "gpu-memory-utilization",
        "max-running-requests" => "max-num-seqs",
        "context-length" => "max-model-len",
        "page-size" => "block-size",
        other => other,
    }
    .to_owned()
}

/// The known model that a checkpoint's name begins with, whatever was tuned; paths of `.json` stay.
pub(in crate::guide) fn known_as(name: &str) -> Option<String> {
    if name.ends_with(".json") {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
        return (name.len() <= 200 && name.chars().all(plain)).then(|| name.to_owned());
    }
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let last = last.strip_prefix("meta-").unwrap_or(&last);
    let begins = |known: &&str| {
        let rest = last.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
    };
    let names = KNOWN.iter().map(|known| known.name).filter(begins);
    names.max_by_key(|name| name.len()).map(str::to_owned)
}

/// The format of weights that a checkpoint's name ends in.
pub(super) fn packed_as(name: &str) -> Option<&'static str> {
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let mut parts = last.split(['-', '_', '.']).rev();
    parts.find_map(|part| match part {
        "fp8" => Some("fp8"),
        "int8" | "w8a8" | "w8a16" => Some("int8"),
        "awq" | "gptq" | "int4" | "w4a16" => Some("int4(group: 128)"),
        "4bit" | "bnb" => Some("nf4(group: 64)"),
        _ => None,
    })
}
