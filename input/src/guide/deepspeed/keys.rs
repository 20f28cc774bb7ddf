//! What DeepSpeed calls things: one table for who reads a configuration and who writes one.
//!
//! Keys are whole paths, in today's names; of several words for one thing the first is written.
//! Invariant: a key or a word that is both read and written stands here alone.

pub(in crate::guide) const MICRO_BATCH: &str = "train_micro_batch_size_per_gpu";
pub(in crate::guide) const ACCUMULATION: &str = "gradient_accumulation_steps";
pub(in crate::guide) const BATCH: &str = "train_batch_size";
pub(in crate::guide) const OPTIMIZER: &str = "optimizer.type";
pub(in crate::guide) const GRADIENTS: &str = "data_types.grad_accum_dtype";
pub(in crate::guide) const MOMENTUM: &str = "optimizer.params.momentum";
pub(in crate::guide) const STAGE: &str = "zero_optimization.stage";
pub(in crate::guide) const BUCKET: &str = "zero_optimization.reduce_bucket_size";
pub(in crate::guide) const OVERLAP: &str = "zero_optimization.overlap_comm";
pub(in crate::guide) const PREFETCH: &str = "zero_optimization.stage3_prefetch_bucket_size";
pub(in crate::guide) const RATIO: &str = "zero_optimization.offload_optimizer.ratio";
pub(in crate::guide) const CPU_CHECKPOINTING: &str = "activation_checkpointing.cpu_checkpointing";

/// Sections of what is offloaded: optimizer state, and parameters.
pub(in crate::guide) const OFFLOADED: [&str; 2] =
    ["zero_optimization.offload_optimizer", "zero_optimization.offload_param"];

/// A key of one of [`OFFLOADED`].
pub(in crate::guide) fn within(section: &str, key: &str) -> String {
    format!("{section}.{key}")
}

/// Which key switches which precision on; fp32 is neither.
pub(in crate::guide) const PRECISIONS: [(&str, &str); 2] =
    [("bf16.enabled", "bf16"), ("fp16.enabled", "fp16")];

/// Optimizers by DeepSpeed's names, whatever their case, with the scenario's word.
pub(in crate::guide) const OPTIMIZERS: [(&[&str], &str); 4] = [
    (&["AdamW", "Adam", "FusedAdam", "DeepSpeedCPUAdam", "CPUAdam"], "adam_w"),
    (&["Lion", "FusedLion", "DeepSpeedCPULion"], "lion"),
    (&["SGD"], "sgd()"),
    (&["Adafactor"], "adafactor"),
];

/// Older names, with today's.
const OLDER: [(&str, &str); 9] = [
    ("zero_optimization.cpu_offload", "zero_optimization.offload_optimizer.device"),
    ("zero_optimization.cpu_offload_param", "zero_optimization.offload_param.device"),
    ("zero_optimization.cpu_offload_params", "zero_optimization.offload_param.device"),
    (
        "zero_optimization.cpu_offload_use_pin_memory",
        "zero_optimization.offload_optimizer.pin_memory",
    ),
    ("zero_optimization.prefetch_bucket_size", PREFETCH),
    ("bfloat16.enabled", "bf16.enabled"),
    // Before version 0.3 ZeRO was on or off, and had one stage.
    ("zero_optimization", STAGE),
    // A section that is not there, or is empty.
    ("zero_optimization.offload_optimizer", "zero_optimization.offload_optimizer.device"),
    ("zero_optimization.offload_param", "zero_optimization.offload_param.device"),
];

/// Today's name of a key.
pub(super) fn today(path: &str) -> &str {
    OLDER.iter().find(|(older, _)| *older == path).map_or(path, |(_, today)| today)
}

/// Keys that split the model or its work among ranks, with the scenario's word for it.
pub(super) const SPLITS: [(&str, &str); 5] = [
    ("tensor_parallel.autotp_size", "tensor"),
    ("tensor_parallel.tp_size", "tensor"),
    ("sequence_parallel_size", "context"),
    ("sequence_parallel.size", "context"),
    ("expert_parallel.autoep_size", "expert"),
];

/// Sections: a word in the place of one is no configuration.
pub(super) const SECTIONS: [&str; 9] = [
    "fp16",
    "bf16",
    "bfloat16",
    "amp",
    "optimizer",
    "scheduler",
    "aio",
    "activation_checkpointing",
    "flops_profiler",
];

/// The scenario's word for an optimizer of this name.
pub(super) fn optimizer(name: &str) -> Option<&'static str> {
    let is_one = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    OPTIMIZERS.iter().find(|(words, _)| is_one(words)).map(|(_, word)| *word)
}

/// Why an update on the host wants weights of 16 bits.
pub(in crate::guide) const MASTER: &str =
    "the host updates an fp32 copy of its own, which is modelled beside 16-bit weights alone";

/// What becomes of a share of optimizer state below stage 3 (offload_config.py, `ratio`).
pub(in crate::guide) const RATIO_OF_STAGE_3: &str =
    "DeepSpeed takes it in stage 3 only, and offloads all of it in stages 1 and 2";

/// Bytes of an element: DeepSpeed counts elements where a scenario counts bytes.
pub(in crate::guide) fn element(precision: &str) -> u64 {
    if precision == "fp32" { 4 } else { 2 }
}
