//! What accelerate calls the settings of FSDP, in the file that `accelerate config` writes.
//!
//! Source: accelerate, utils/constants.py and utils/dataclasses.py (`FullyShardedDataParallelPlugin`,
//! `DistributedType`), and its page on FSDP.
//! Invariant: a key or a word that is both read and written stands here alone.

pub(in crate::guide) const TYPE: &str = "distributed_type";
pub(in crate::guide) const PROCESSES: &str = "num_processes";
pub(in crate::guide) const PRECISION: &str = "mixed_precision";
pub(in crate::guide) const SECTION: &str = "fsdp_config";
pub(in crate::guide) const SHARDING: &str = "fsdp_sharding_strategy";
pub(in crate::guide) const OFFLOAD: &str = "fsdp_offload_params";
pub(in crate::guide) const BACKWARD: &str = "fsdp_backward_prefetch";
pub(in crate::guide) const FORWARD: &str = "fsdp_forward_prefetch";
pub(in crate::guide) const CHECKPOINTING: &str = "fsdp_activation_checkpointing";
pub(in crate::guide) const WRAP: &str = "fsdp_auto_wrap_policy";

/// Sharding strategies, with the stage of ZeRO that partitions the same.
pub(in crate::guide) const STRATEGIES: [(&str, u8); 3] =
    [("NO_SHARD", 0), ("SHARD_GRAD_OP", 2), ("FULL_SHARD", 3)];

/// What is gathered ahead in the backward pass, with the blocks that it is.
pub(in crate::guide) const BACKWARD_PREFETCHES: [(&str, u32); 2] =
    [("NO_PREFETCH", 0), ("BACKWARD_PRE", 1)];

/// Precisions, by the scenario's words.
pub(in crate::guide) const PRECISIONS: [(&str, &str); 3] =
    [("bf16", "bf16"), ("fp16", "fp16"), ("no", "fp32")];
