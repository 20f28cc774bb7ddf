//! What accelerate calls the settings of FSDP, in the file that `accelerate config` writes.
//!
//! Keys are whole paths.
//! Source: accelerate, utils/constants.py and utils/dataclasses.py (`FullyShardedDataParallelPlugin`,
//! `DistributedType`), and its page on FSDP.
//! Invariant: a key or a word that is both read and written stands here alone.

pub(super) const TYPE: &str = "distributed_type";
pub(super) const PROCESSES: &str = "num_processes";
pub(super) const PRECISION: &str = "mixed_precision";
pub(super) const SECTION: &str = "fsdp_config";
pub(super) const SHARDING: &str = "fsdp_config.fsdp_sharding_strategy";
pub(super) const OFFLOAD: &str = "fsdp_config.fsdp_offload_params";
pub(super) const BACKWARD: &str = "fsdp_config.fsdp_backward_prefetch";
pub(super) const FORWARD: &str = "fsdp_config.fsdp_forward_prefetch";
pub(super) const CHECKPOINTING: &str = "fsdp_config.fsdp_activation_checkpointing";
pub(super) const WRAP: &str = "fsdp_config.fsdp_auto_wrap_policy";

/// Sharding strategies, with the stage of ZeRO that partitions the same.
pub(super) const STRATEGIES: [(&str, u8); 3] =
    [("NO_SHARD", 0), ("SHARD_GRAD_OP", 2), ("FULL_SHARD", 3)];

/// What is gathered ahead in the backward pass, with the blocks that it is.
pub(super) const BACKWARD_PREFETCHES: [(&str, u32); 2] = [("NO_PREFETCH", 0), ("BACKWARD_PRE", 1)];

/// Precisions, by the scenario's words.
pub(super) const PRECISIONS: [(&str, &str); 3] =
    [("bf16", "bf16"), ("fp16", "fp16"), ("no", "fp32")];
