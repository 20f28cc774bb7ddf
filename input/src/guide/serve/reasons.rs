//! Why flags of servers say nothing here, and which are refused.
//!
//! Invariant: a flag that is read elsewhere is not looked up.

/// What would be another model of work, and what to do instead.
pub(super) fn refusal(flag: &str, value: &str) -> Option<(&'static str, &'static str)> {
    let other_than = |plain: &[&str]| !plain.contains(&value);
    let begins = |starts: &[&str]| starts.iter().any(|start| flag.starts_with(start));
    if begins(&["speculative", "num-speculative", "spec-"]) {
        let remedy = "leave it out: the answer is then the pace without";
        return Some(("tokens that are guessed ahead are not modelled", remedy));
    }
    let in_groups = ["offload-group-size", "offload-num-in-group", "offload-prefetch-step"];
    if begins(&in_groups) || flag == "offload-backend" && value == "prefetch" {
        let remedy = "write `prefetch_ops` of `ZeroOffload` into the scenario, or --cpu-offload-gb";
        return Some(("which layers of a group are offloaded is not read", remedy));
    }
    if flag == "enable-dp-attention" {
        let remedy = "leave it out: every rank then attends to its heads of all requests";
        return Some(("ranks that attend to requests of their own are not modelled", remedy));
    }
    if begins(&["hf-overrides", "hf-config-path"]) && other_than(&["{}"]) {
        let remedy = "name a config.json that has these numbers by --model";
        return Some((
            "numbers of the model are those of its name, and no others are read",
            remedy,
        ));
    }
    if flag == "device" && other_than(&["cuda", "auto"]) {
        let remedy = "leave it out: the machine is that of tiersim's own --device";
        return Some(("a server is modelled on GPUs", remedy));
    }
    if ["task", "runner"].contains(&flag) && other_than(&["generate", "auto"]) {
        return Some(("a server that generates text is modelled", "leave it out, or say generate"));
    }
    if flag == "decode-context-parallel-size" && other_than(&["1"]) {
        let remedy = "leave it out: `context` of the scenario's `generate` splits sequences";
        return Some(("flags of ranks that have parts of a sequence are not read", remedy));
    }
    if flag == "torchao-config" {
        let remedy = "write --quantization with the format of the weights";
        return Some(("how torchao stores weights is not read", remedy));
    }
    if flag == "config" {
        let remedy = "write its flags, or name that file in the place of the command";
        return Some(("a file of flags is not opened", remedy));
    }
    None
}

const AROUND: &str = "of the server around the model: a step is the same";

/// Whether a flag says nothing about steps, whether it is given or not.
pub(super) fn is_idle(flag: &str) -> bool {
    reason(flag) == Some(AROUND)
}

/// Why a flag says nothing, by how it begins.
pub(super) fn reason(flag: &str) -> Option<&'static str> {
    let table: [(&[&str], &str); 13] = [
        (&["$"], "a variable of the shell"),
        (
            &[
                "max-num-batched-tokens",
                "enable-chunked-prefill",
                "chunked-prefill",
                "max-prefill",
                "max-num-partial-prefills",
                "long-prefill",
                "max-long-partial",
                "prefill-",
            ],
            "of prompts: the scenario begins when they are in the cache",
        ),
        (
            &["enable-prefix-caching", "prefix-caching", "disable-radix", "radix-"],
            "no two prompts begin alike here",
        ),
        (&["block-size"], "rounds the cache up, by less than a block for each request and layer"),
        (
            &["swap-space", "preemption-mode", "scheduling-policy", "schedule-"],
            "no request waits or is preempted here: `batch` of them run from the start",
        ),
        (
            &[
                "kv-transfer-config",
                "kv-offloading",
                "lmcache",
                "enable-hierarchical-cache",
                "hicache",
                "kv-events",
                "disable-hybrid-kv",
                "enable-lmcache",
            ],
            "requests under way keep their cache on the card; that of ended ones is not modelled",
        ),
        (
            &["task", "runner", "device", "hf-overrides", "decode-context-parallel"],
            "so it is modelled in any case",
        ),
        (
            &["disable-sliding-window"],
            "requests are then no longer than a window: --prompt and --tokens say how long",
        ),
        (&["offload-backend"], "weights of --cpu-offload-gb are copied when they are used"),
        (
            &["data-parallel", "enable-dp", "load-balance"],
            "replicas are alike: this is one of them, with its part of the requests",
        ),
        (
            &["enable-expert-parallel"],
            "experts spread over the ranks that split the rest are as large there",
        ),
        (
            &[
                "enforce-eager",
                "compilation-config",
                "cuda-graph",
                "disable-cuda-graph",
                "O",
                "attention-backend",
                "enable-torch-compile",
                "disable-custom-all-reduce",
                "distributed-executor",
                "async-scheduling",
                "disable-async",
                "num-scheduler-steps",
                "moe-",
                "block-manager",
                "max-seq-len-to-capture",
                "use-v2-block-manager",
                "enable-mixed-chunk",
                "disable-overlap",
            ],
            "which kernels run and what the host's code takes: `kernels` and `runtime` say it",
        ),
        (
            &[
                "host",
                "port",
                "api-key",
                "served-model-name",
                "trust-remote-code",
                "tokenizer",
                "chat-template",
                "tool-",
                "enable-auto-tool",
                "reasoning",
                "enable-reasoning",
                "download-dir",
                "load-format",
                "revision",
                "seed",
                "disable-log",
                "enable-log",
                "uvicorn",
                "response-role",
                "ssl",
                "root-path",
                "max-log-len",
                "hf-token",
                "generation-config",
                "override-generation",
                "limit-mm",
                "mm-",
                "allowed-",
                "allow-",
                "guided-decoding",
                "disable-frontend",
                "log-",
                "show-",
                "otlp",
                "middleware",
                "code-revision",
                "api-server",
                "max-logprobs",
                "model-loader",
                "model-impl",
                "config-format",
                "enable-sleep",
                "enable-request",
                "nnodes",
                "node-rank",
                "dist-",
                "metrics",
                "enable-metrics",
                "watchdog",
                "skip-server",
                "random-seed",
                "language-model-only",
                "stream-interval",
                "enable-server-load",
                "return-tokens",
            ],
            AROUND,
        ),
    ];
    let begins = |(starts, _): &&(&[&str], &str)| {
        starts.iter().any(|start| match *start {
            // `-O3` and `-O.level=3` too.
            "O" => {
                flag.strip_prefix(start).is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
            }
            start => flag.starts_with(start),
        })
    };
    table.iter().find(begins).map(|(_, why)| *why)
}
