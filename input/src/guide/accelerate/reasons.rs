//! Why keys of accelerate say nothing here.
//!
//! Invariant: a key that is read elsewhere is not looked up.

/// Why a key says nothing, by how its path begins.
pub(super) fn reason(key: &str) -> Option<&'static str> {
    let table: [(&[&str], &str); 8] = [
        (
            &[
                "compute_environment",
                "debug",
                "machine_rank",
                "main_process_",
                "main_training_",
                "rdzv_",
                "same_network",
                "gpu_ids",
                "tpu_",
                "command",
                "enable_cpu_affinity",
                "deepspeed_config.deepspeed_multinode",
                "deepspeed_config.deepspeed_hostfile",
                "deepspeed_config.deepspeed_exclusion",
                "deepspeed_config.deepspeed_inclusion",
                "mpirun_config",
                "ipex_config",
                "use_xpu",
                "use_mps",
            ],
            "of what starts processes: a step is the same",
        ),
        (
            &["downcast_bf16", "fp8_config", "fp16_config"],
            "`mixed_precision` says what is computed in",
        ),
        (
            &["dynamo_"],
            "which kernels run: `kernels: compiled` is the scenario's own, `eager` is without",
        ),
        (
            &[
                "deepspeed_config.zero3_init",
                "deepspeed_config.zero3_save",
                "fsdp_config.fsdp_state_dict",
                "fsdp_config.fsdp_cpu_ram",
                "fsdp_config.fsdp_sync_module",
            ],
            "of saving and loading, not of a step",
        ),
        (
            &[
                "fsdp_config.fsdp_auto_wrap",
                "fsdp_config.fsdp_transformer_layer",
                "fsdp_config.fsdp_min_num",
                "fsdp_config.fsdp_ignored",
                "deepspeed_config.deepspeed_moe_layer",
            ],
            "what is gathered at once is a block of the model here",
        ),
        (
            &["fsdp_config.fsdp_forward_prefetch"],
            "`prefetch` of `zero` is one number for both passes: that of backward",
        ),
        (
            &[
                "fsdp_config.fsdp_version",
                "fsdp_config.fsdp_use_orig",
                "fsdp_config.fsdp_limit_all",
                "fsdp_config.fsdp_mixed_precision",
            ],
            "how weights are cut and cast: as many bytes are gathered",
        ),
        (&["parallelism_config"], "how a group exchanges what it has is the scenario's own way"),
    ];
    let begins = |(starts, _): &&(&[&str], &str)| starts.iter().any(|start| key.starts_with(start));
    table.iter().find(begins).map(|(_, why)| *why)
}
