//! Why arguments of Megatron say nothing here, which are refused, and which have no value.
//!
//! Invariant: an argument that is read elsewhere is not looked up.

/// How flags begin that have no value.
pub(super) const ALONE: &[&str] = &[
    "fp16",
    "bf16",
    "swiglu",
    "no-",
    "use-",
    "disable-",
    "enable-",
    "overlap-",
    "group-query-attention",
    "sequence-parallel",
    "recompute-activations",
    "checkpoint-activations",
    "optimizer-cpu-offload",
    "accumulate-allreduce",
    "grad-reduce-in-bf16",
    "untie-",
    "add-qkv-bias",
    "apply-",
    "qk-layernorm",
    "squared-relu",
    "cross-entropy-loss-fusion",
    "manual-gc",
    "log-throughput",
    "log-params-norm",
    "log-num-zeros",
    "log-timers",
    "log-memory",
    "log-validation",
    "mock-data",
    "moe-grouped-gemm",
    "moe-permute-fusion",
    "moe-per-layer",
    "distribute-saved-activations",
    "tp-comm-overlap",
    "finetune",
    "async-save",
    "calculate-per-token-loss",
    "reset-",
    "eod-mask-loss",
    "check-for",
    "override-opt",
    "onnx-safe",
    "openai-gelu",
    "fp32-residual",
    "fp8-param-gather",
    "attention-softmax-in-fp32",
    "multi-latent-attention",
    "deepspeed-activation",
    "cpu-optimizer",
];

/// What would be another model of work, and what to do instead.
pub(super) fn refusal(flag: &str, value: &str) -> Option<(&'static str, &'static str)> {
    let begins = |starts: &[&str]| starts.iter().any(|start| flag.starts_with(start));
    if begins(&["multi-latent-attention", "q-lora-rank", "kv-lora-rank"]) {
        let remedy = "write a scenario with a `card` of as many bytes";
        return Some(("steps of compressed keys and values are not modelled", remedy));
    }
    if begins(&["mtp-num-layers"]) && value != "0" {
        return Some(("layers that predict further tokens are not modelled", "leave it out"));
    }
    if begins(&["hybrid-", "is-hybrid", "mamba-", "spec", "heterogeneous-", "retro-"])
        || begins(&["encoder-num-layers", "decoder-num-layers", "experimental-attention"])
    {
        let remedy = "leave it out: all blocks are then attention and feed-forward";
        return Some(("blocks of other kinds are not modelled", remedy));
    }
    let every = |value: &str| {
        let value = value.trim_matches(['(', ')', '\'', '"', ' ']);
        let times = value.strip_prefix("[1]*").map(str::trim);
        value == "1" || times.is_some_and(|times| times.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if flag == "moe-layer-freq" && !every(value) {
        let remedy = "leave it out: every block then has experts";
        return Some(("blocks without experts among those with them are not modelled", remedy));
    }
    if begins(&[
        "decoder-first-pipeline",
        "decoder-last-pipeline",
        "pipeline-model-parallel-layout",
    ]) || begins(&["account-for-"])
    {
        let remedy = "leave it out: the first stages have one layer more where they do not divide; \
                      interleaved stages have to divide them";
        return Some(("stages have as many layers each as divide", remedy));
    }
    if begins(&["cpu-offloading"]) {
        let remedy = "leave it out, and write `policy: ActivationOffload(...)` into the scenario";
        return Some(("which layers' activations are offloaded is not read", remedy));
    }
    if begins(&["deepspeed", "zero-stage", "cpu-optimizer", "ds-"]) {
        let remedy = "pass that file to `tiersim from deepspeed`";
        return Some(("what DeepSpeed is configured to do is not among these flags", remedy));
    }
    if begins(&["window-size", "window-attn"]) {
        let remedy = "leave it out, or pass --model with a config.json that has a window";
        return Some(("attention to a window is not read from these flags", remedy));
    }
    if begins(&["yaml-cfg", "data-args-path"]) {
        return Some(("a file of arguments is not opened", "write its arguments"));
    }
    None
}

const HOW_LONG: &str = "how long, how often, or what is printed: a step is the same";
const SAVING: &str = "of loading and saving, not of a step";
const DATA: &str = "what is read: a step has its samples when it starts";

/// Whether an argument says nothing about steps, whether it is given or not.
pub(super) fn is_idle(flag: &str) -> bool {
    // A tokenizer's words are rows of a table.
    let words = ["tokenizer", "vocab", "merge"].iter().any(|start| flag.starts_with(start));
    reason(flag).is_some_and(|why| [HOW_LONG, SAVING].contains(&why) || why == DATA && !words)
}

/// Why an argument says nothing, by how it begins.
pub(super) fn reason(flag: &str) -> Option<&'static str> {
    let begins =
        |(starts, _): &&(&[&str], &str)| starts.iter().any(|start| flag.starts_with(start));
    TABLE.iter().find(begins).map(|(_, why)| *why)
}

const TABLE: [(&[&str], &str); 13] = [
    (&["$"], "a variable of the shell"),
    (&["launcher.program"], "the program whose arguments these are"),
    (
        &[
            "lr",
            "min-lr",
            "weight-decay",
            "adam-",
            "sgd-",
            "clip-grad",
            "init-method",
            "decoupled-",
            "override-opt",
            "use-checkpoint-opt",
            "loss-scale",
            "initial-loss-scale",
            "min-loss-scale",
            "hysteresis",
            "start-weight-decay",
            "end-weight-decay",
            "mup-",
            "muon-",
            "warmup",
        ],
        "a number of the update: it changes neither bytes nor time",
    ),
    (
        &[
            "train-iters",
            "train-samples",
            "rampup-batch-size",
            "eval-",
            "exit-",
            "save-",
            "log-",
            "tensorboard",
            "wandb",
            "profile",
            "seed",
            "timing-",
            "skip-train",
            "check-",
            "no-check",
            "manual-gc",
            "empty-unused",
            "rerun-",
            "enable-one-logger",
            "no-one-logger",
            "one-logger",
            "distributed-timeout",
            "use-pytorch-profiler",
            "calculate-per-token",
            "inference-",
        ],
        HOW_LONG,
    ),
    (
        &[
            "data",
            "split",
            "vocab-file",
            "merge-file",
            "tokenizer",
            "num-workers",
            "mock-data",
            "reset-",
            "eod-mask",
            "train-data",
            "valid-data",
            "test-data",
            "dataloader",
            "no-mmap",
            "no-create-attention",
            "tiktoken",
            "num-dataset",
            "per-split",
            "legacy-tokenizer",
            "create-attention-mask",
            "short-seq",
            "mask-",
            "sample-rate",
        ],
        DATA,
    ),
    (
        &[
            "load",
            "save",
            "no-load",
            "no-save",
            "finetune",
            "ckpt-",
            "dist-ckpt",
            "use-dist-ckpt",
            "async-save",
            "auto-detect-ckpt",
            "use-checkpoint-args",
            "pretrained-checkpoint",
            "use-mp-args",
            "non-persistent",
            "exit-on-missing",
            "no-initialization",
            "use-cpu-initialization",
            "perform-initialization",
            "use-mcore-models",
            "use-legacy",
        ],
        SAVING,
    ),
    (
        &[
            "no-masked-softmax",
            "no-bias",
            "no-gradient-accumulation-fusion",
            "no-persist",
            "bias-",
            "no-rope-fusion",
            "cross-entropy",
            "attention-softmax",
            "no-query-key",
            "apply-query-key",
            "enable-cuda-graph",
            "external-cuda-graph",
            "cuda-graph",
            "fp16-lm",
            "moe-grouped-gemm",
            "moe-permute",
            "apply-rope-fusion",
            "te-rng",
            "use-te",
            "openai-gelu",
            "no-scatter-gather",
            "onnx-safe",
            "deterministic",
            "no-contiguous",
            "use-contiguous",
            "use-ring-exchange",
            "high-priority",
            "use-fused",
            "gradient-accum",
            "apply-residual",
            "fp32-residual",
            "use-sharp",
            "use-turbo",
        ],
        "which kernels run: `kernels` and `time` of the scenario say it",
    ),
    (
        &["tp-comm", "disable-tp-comm"],
        "products do not overlap with their own exchange here: that of the forward pass is exposed",
    ),
    (
        &["fp8-param-gather", "fp8-primary-weights"],
        "weights are kept and gathered in `precision`: those of fp8 take half of it",
    ),
    (
        &["fp8", "fp4", "first-last-layers-bf16", "num-layers-at"],
        "products run in `precision`: write \"fp8\" there in `time` for those of fp8",
    ),
    (
        &[
            "use-precision-aware",
            "exp-avg",
            "main-params",
            "main-grads",
            "store-param-remainders",
            "grad-reduce-in",
            "keep-fp8",
            "optimizer-cpu-offload-",
            "use-torch-optimizer",
            "pin-cpu",
            "no-pin-cpu",
            "overlap-cpu-optimizer",
        ],
        "master copies and moments are of 32 bits here, and copies pinned",
    ),
    (
        &[
            "DDP-impl",
            "ddp-",
            "distributed-backend",
            "local-rank",
            "num-distributed-optimizer",
            "align-",
            "no-align",
            "overlap-p2p",
            "no-overlap-p2p",
            "overlap-moe",
            "cp-comm",
            "hierarchical-context",
            "moe-token",
            "moe-aux",
            "moe-router",
            "moe-z-loss",
            "moe-pad",
            "moe-expert-capacity",
            "moe-input",
            "delay-",
            "defer-",
            "use-tp-pp-dp",
            "microbatch-group",
            "overlap-param-gather-with",
            "distribute-saved",
            "batch-p2p",
            "standalone-embedding",
            "nccl-",
            "expert-tensor-parallel-size",
            "moe-shared-expert-overlap",
            "moe-per-layer",
            "init-model-with-meta",
            "suggested-communication",
            "outer-dp",
            "num-virtual",
        ],
        "how parts of a job exchange what they have is the scenario's own way",
    ),
    (
        &[
            "rotary",
            "rope",
            "use-rope",
            "mscale",
            "original-max-position",
            "attention-output-gate",
            "norm-epsilon",
            "layernorm-epsilon",
            "embedding-",
            "softmax-type",
            "glu-linear",
            "apply-",
        ],
        "a number of the model: it changes neither bytes nor time",
    ),
];
