//! What flags and models are called.
//!
//! Invariant: two names of one flag give one word.

use super::values::packed_word;
use crate::import::card::published_as;
use tiersim_workloads::transformer::known::KNOWN;

// Flags that are both read and written, by vLLM's words.
pub(in crate::guide) const MODEL: &str = "model";
pub(in crate::guide) const DTYPE: &str = "dtype";
pub(in crate::guide) const QUANTIZATION: &str = "quantization";
pub(in crate::guide) const KV_DTYPE: &str = "kv-cache-dtype";
pub(in crate::guide) const TENSOR: &str = "tensor-parallel-size";
pub(in crate::guide) const PIPELINE: &str = "pipeline-parallel-size";
pub(in crate::guide) const UTILIZATION: &str = "gpu-memory-utilization";
pub(in crate::guide) const OFFLOAD: &str = "cpu-offload-gb";
pub(in crate::guide) const REQUESTS: &str = "max-num-seqs";
pub(in crate::guide) const LENGTH: &str = "max-model-len";
pub(in crate::guide) const BLOCK: &str = "block-size";
/// Blocks of the cache, of vLLM.
pub(in crate::guide) const BLOCKS: &str = "num-gpu-blocks-override";
/// Tokens of the cache, of SGLang.
pub(in crate::guide) const CACHED: &str = "max-total-tokens";
/// Bytes of the cache, of vLLM.
pub(super) const CACHE: &str = "kv-cache-memory-bytes";
pub(super) const REPLICAS: &str = "data-parallel-size";

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

/// Short flags of vLLM, with the long ones.
const VLLM: [(&str, &str); 5] = [
    ("tp", TENSOR),
    ("pp", PIPELINE),
    ("dp", REPLICAS),
    ("q", QUANTIZATION),
    ("asc", "api-server-count"),
];

/// Flags of SGLang, with vLLM's word for the same; of several the first is written.
const SGLANG: [(&str, &str); 11] = [
    ("model-path", MODEL),
    ("tp-size", TENSOR),
    ("tp", TENSOR),
    ("pp-size", PIPELINE),
    ("pp", PIPELINE),
    ("dp-size", REPLICAS),
    ("dp", REPLICAS),
    ("mem-fraction-static", UTILIZATION),
    ("max-running-requests", REQUESTS),
    ("context-length", LENGTH),
    ("page-size", BLOCK),
];

/// A flag in vLLM's long spelling; `--no-x` counts as `x`.
pub(super) fn vllm(path: &[String]) -> String {
    let flag = path.join(".").replace('_', "-");
    let flag = flag.strip_prefix("no-").unwrap_or(&flag);
    VLLM.iter().find(|(short, _)| *short == flag).map_or(flag, |(_, long)| long).to_owned()
}

/// A flag of SGLang, by vLLM's word for the same.
pub(super) fn sglang(path: &[String]) -> String {
    let flag = path.join(".").replace('_', "-");
    let known = SGLANG.iter().find(|(own, _)| *own == flag);
    known.map_or(flag.as_str(), |(_, word)| word).to_owned()
}

/// SGLang's flag for a word of vLLM.
pub(in crate::guide) fn sglang_flag(word: &'static str) -> &'static str {
    SGLANG.iter().find(|(_, known)| *known == word).map_or(word, |(own, _)| own)
}

/// Checkpoints of known models, as hubs have them.
const CHECKPOINTS: [(&str, &str); 78] = [
    ("gpt2", "openai-community/gpt2"),
    ("gpt2-medium", "openai-community/gpt2-medium"),
    ("gpt2-large", "openai-community/gpt2-large"),
    ("gpt2-xl", "openai-community/gpt2-xl"),
    ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
    ("llama-2-13b", "meta-llama/Llama-2-13b-hf"),
    ("llama-2-70b", "meta-llama/Llama-2-70b-hf"),
    ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
    ("llama-3-70b", "meta-llama/Meta-Llama-3-70B"),
    ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
    ("llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
    ("llama-3.1-405b", "meta-llama/Llama-3.1-405B"),
    ("llama-3.2-1b", "meta-llama/Llama-3.2-1B"),
    ("llama-3.2-3b", "meta-llama/Llama-3.2-3B"),
    ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
    ("mistral-7b", "mistralai/Mistral-7B-v0.1"),
    ("mistral-7b-v0.2", "mistralai/Mistral-7B-Instruct-v0.2"),
    ("mistral-7b-v0.3", "mistralai/Mistral-7B-v0.3"),
    ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
    ("mixtral-8x22b", "mistralai/Mixtral-8x22B-v0.1"),
    ("qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B"),
    ("qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B"),
    ("qwen2.5-3b", "Qwen/Qwen2.5-3B"),
    ("qwen2.5-7b", "Qwen/Qwen2.5-7B"),
    ("qwen2.5-14b", "Qwen/Qwen2.5-14B"),
    ("qwen2.5-32b", "Qwen/Qwen2.5-32B"),
    ("qwen2.5-72b", "Qwen/Qwen2.5-72B"),
    ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"),
    ("qwen3-0.6b", "Qwen/Qwen3-0.6B"),
    ("qwen3-1.7b", "Qwen/Qwen3-1.7B"),
    ("qwen3-4b", "Qwen/Qwen3-4B"),
    ("qwen3-8b", "Qwen/Qwen3-8B"),
    ("qwen3-14b", "Qwen/Qwen3-14B"),
    ("qwen3-32b", "Qwen/Qwen3-32B"),
    ("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B"),
    ("qwen3-480b-a35b", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
    ("mistral-nemo", "mistralai/Mistral-Nemo-Base-2407"),
    ("mistral-small-24b", "mistralai/Mistral-Small-24B-Base-2501"),
    ("gemma-2-2b", "google/gemma-2-2b"),
    ("gemma-2-9b", "google/gemma-2-9b"),
    ("gemma-2-27b", "google/gemma-2-27b"),
    ("gemma-3-1b", "google/gemma-3-1b-pt"),
    ("gemma-3-4b", "google/gemma-3-4b-pt"),
    ("gemma-3-12b", "google/gemma-3-12b-pt"),
    ("gemma-3-27b", "google/gemma-3-27b-pt"),
    ("deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite"),
    ("deepseek-v2", "deepseek-ai/DeepSeek-V2"),
    ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
    ("kimi-k2", "moonshotai/Kimi-K2-Base"),
    ("gpt-oss-20b", "openai/gpt-oss-20b"),
    ("gpt-oss-120b", "openai/gpt-oss-120b"),
    ("glm-4.5", "zai-org/GLM-4.5"),
    ("glm-4.5-air", "zai-org/GLM-4.5-Air"),
    ("minimax-m2", "MiniMaxAI/MiniMax-M2"),
    ("olmo-2-13b", "allenai/OLMo-2-1124-13B"),
    ("command-r", "CohereForAI/c4ai-command-r-v01"),
    ("command-r-plus", "CohereForAI/c4ai-command-r-plus"),
    ("starcoder2-15b", "bigcode/starcoder2-15b"),
    ("minitron-4b", "nvidia/Minitron-4B-Base"),
    ("phi-3.5-moe", "microsoft/Phi-3.5-MoE-instruct"),
    ("granite-3.0-3b-a800m", "ibm-granite/granite-3.0-3b-a800m-base"),
    ("llama-4-scout", "meta-llama/Llama-4-Scout-17B-16E"),
    ("mpt-7b", "mosaicml/mpt-7b"),
    ("mpt-30b", "mosaicml/mpt-30b"),
    ("dbrx", "databricks/dbrx-base"),
    ("pythia-6.9b", "EleutherAI/pythia-6.9b"),
    ("gpt-neox-20b", "EleutherAI/gpt-neox-20b"),
    ("gpt-j-6b", "EleutherAI/gpt-j-6b"),
    ("phi-2", "microsoft/phi-2"),
    ("falcon-7b", "tiiuae/falcon-7b"),
    ("falcon-40b", "tiiuae/falcon-40b"),
    ("opt-125m", "facebook/opt-125m"),
    ("opt-1.3b", "facebook/opt-1.3b"),
    ("opt-2.7b", "facebook/opt-2.7b"),
    ("opt-6.7b", "facebook/opt-6.7b"),
    ("opt-13b", "facebook/opt-13b"),
    ("opt-30b", "facebook/opt-30b"),
    ("opt-66b", "facebook/opt-66b"),
];

/// The checkpoint of a known model.
pub(in crate::guide) fn checkpoint(model: &str) -> Option<&'static str> {
    CHECKPOINTS.iter().find(|(known, _)| *known == model).map(|(_, checkpoint)| *checkpoint)
}

/// Models that are called after another one, with what they are themselves.
const TAUGHT: [(&str, &str); 12] = [
    ("deepseek-r1-distill-llama-8b", "llama-3.1-8b"),
    ("deepseek-r1-distill-llama-70b", "llama-3.3-70b"),
    ("deepseek-r1-distill-qwen-7b", "qwen2.5-7b"),
    ("deepseek-r1-distill-qwen-14b", "qwen2.5-14b"),
    ("deepseek-r1-distill-qwen-32b", "qwen2.5-32b"),
    ("deepseek-r1-distill", ""),
    ("deepseek-r1", "deepseek-v3"),
    ("deepseek-v3.1", "deepseek-v3"),
    ("deepseek-v2.5", "deepseek-v2"),
    ("olmo-2-1124-13b", "olmo-2-13b"),
    // Its heads share keys and values.
    ("command-r-08", ""),
    ("glm-4.5-flash", ""),
];

/// The known model that a checkpoint's name begins with, whatever was tuned; paths of `.json` stay.
pub(in crate::guide) fn known_as(name: &str) -> Option<String> {
    if name.ends_with(".json") {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
        return (name.len() <= 200 && name.chars().all(plain)).then(|| name.to_owned());
    }
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let maker = ["meta-", "c4ai-"].iter().find_map(|maker| last.strip_prefix(maker));
    let last = maker.unwrap_or(&last);
    // What was tuned stands between a model's name and its size, or behind that.
    let tuned = |word: &&str| !["instruct", "chat", "coder", "math", "base"].contains(word);
    let last = last.split('-').filter(tuned).collect::<Vec<_>>().join("-");
    let taught = TAUGHT.iter().find(|(own, _)| last.starts_with(own));
    let last = taught.map_or(last.as_str(), |(_, as_is)| as_is);
    let begins = |known: &&str| {
        let rest = last.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
    };
    let names = KNOWN.iter().map(|known| known.name).filter(begins);
    names.max_by_key(|name| name.len()).map(str::to_owned)
}

/// The format of weights that a checkpoint's name ends in.
pub(super) fn packed_as(name: &str) -> Option<String> {
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let own = known_as(name).and_then(|known| published_as(&known)).map(packed_word);
    let mut parts = last.split(['-', '_', '.']).rev();
    let said = parts.clone().any(|part| part == "bf16");
    let found = parts.find_map(|part| match part {
        "fp8" => Some("fp8"),
        "int8" | "w8a8" | "w8a16" => Some("int8"),
        "awq" | "gptq" | "int4" | "w4a16" => Some("int4(group: 128)"),
        "4bit" | "bnb" => Some("nf4(group: 64)"),
        _ => None,
    });
    found.map(str::to_owned).or(own.filter(|_| !said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_known_as_the_model_that_it_is_of() {
        for (model, name) in CHECKPOINTS {
            assert_eq!(known_as(name).as_deref(), Some(model), "{name}");
            assert_eq!(packed_as(name), published_as(model).map(packed_word), "{name}");
        }
        for (name, model) in [
            ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", Some("llama-3.1-8b")),
            ("Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", Some("qwen2.5-32b")),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct", Some("qwen3-30b-a3b")),
            ("mistralai/Mistral-7B-Instruct-v0.3", Some("mistral-7b-v0.3")),
            ("mistralai/Mistral-7B-Instruct-v0.1", Some("mistral-7b")),
            ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", Some("llama-3.3-70b")),
            // Its table of tokens is not tied, which that of the model it was taught from is.
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", None),
            ("deepseek-ai/DeepSeek-R1-0528", Some("deepseek-v3")),
            ("deepseek-ai/DeepSeek-V3-0324", Some("deepseek-v3")),
            ("deepseek-ai/DeepSeek-V2-Lite-Chat", Some("deepseek-v2-lite")),
            // It attends to some of the tokens alone.
            ("deepseek-ai/DeepSeek-V3.2-Exp", None),
            ("moonshotai/Kimi-K2-Instruct", Some("kimi-k2")),
            ("google/gemma-3-27b-it", Some("gemma-3-27b")),
            ("CohereForAI/c4ai-command-r-plus-08-2024", Some("command-r-plus")),
            ("CohereForAI/c4ai-command-r-08-2024", None),
            ("zai-org/GLM-4.5-Air-FP8", Some("glm-4.5-air")),
            ("zai-org/GLM-4.5V", None),
            ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", Some("qwen3-480b-a35b")),
            ("Qwen/Qwen3-Next-80B-A3B-Instruct", None),
            ("meta-llama/Llama-3.2-11B-Vision-Instruct", None),
        ] {
            assert_eq!(known_as(name).as_deref(), model, "{name}");
        }
    }

    #[test]
    fn flags_of_sglang_are_read_as_they_are_written() {
        for (_, word) in SGLANG {
            assert_eq!(sglang(&[sglang_flag(word).to_owned()]), word);
        }
    }
}
