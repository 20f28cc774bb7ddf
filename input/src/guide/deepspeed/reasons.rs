//! Why keys of DeepSpeed say nothing here.
//!
//! Invariant: a key that is read elsewhere is not looked up.

/// Why a key says nothing, by how its path begins.
pub(in crate::guide) fn reason(key: &str) -> Option<&'static str> {
    let table: [(&[&str], &str); 17] = [
        (
            &[
                "fp16.fp16_master_weights_and_grad",
                "bf16.bf16_master_weights_and_grad",
                "bf16.bf16_optimizer_states",
            ],
            "not modelled: optimizer state and master weights are in fp32 here, twice as many bytes",
        ),
        (
            &[
                "optimizer.",
                "scheduler.",
                "gradient_clipping",
                "max_grad_norm",
                "prescale_",
                "gradient_predivide",
            ],
            "a number of the update: it changes neither bytes nor time",
        ),
        (
            &["fp16.", "bf16.", "bfloat16.", "loss_scale"],
            "how numbers are kept from under- and overflow",
        ),
        (&["amp."], "apex's casts are not modelled; pass --precision"),
        (
            &[
                "zero_optimization.offload_optimizer.nvme_path",
                "zero_optimization.offload_param.nvme_path",
            ],
            "a path of one computer",
        ),
        (
            &[
                "aio.",
                "zero_optimization.offload_optimizer.pipeline_",
                "zero_optimization.offload_optimizer.fast_init",
            ],
            "how the drive is asked: its numbers are in the hardware file",
        ),
        (
            &[
                "zero_optimization.offload_optimizer.buffer_",
                "zero_optimization.offload_param.buffer_",
                "zero_optimization.offload_param.max_in_cpu",
            ],
            "buffers of the host are not modelled; `prefetch_budget` bounds what is fetched ahead",
        ),
        (&["zero_optimization.sub_group_size"], "the update goes module by module here"),
        (
            &[
                "zero_optimization.stage3_max_live_parameters",
                "zero_optimization.stage3_max_reuse_distance",
                "zero_optimization.max_live_parameters",
                "zero_optimization.max_reuse_distance",
            ],
            "weights that were fetched go when no op within the window uses them",
        ),
        (
            &[
                "zero_optimization.stage3_param_persistence_threshold",
                "zero_optimization.stage3_model_persistence_threshold",
                "zero_optimization.param_persistence_threshold",
                "zero_optimization.model_persistence_threshold",
            ],
            "small parameters are offloaded like all others here",
        ),
        (
            &[
                "zero_optimization.stage3_gather_",
                "zero_optimization.gather_16bit_weights_on_model_save",
                "zero_optimization.pipeline_loading_checkpoint",
                "zero_optimization.override_module_apply",
                "zero_optimization.stage3_partition_stream_chunk_size",
                "zero_optimization.partition_stream_chunk_size",
                "zero_optimization.load_from_",
                "zero_optimization.elastic_",
                "checkpoint.",
                "load_universal_checkpoint",
            ],
            "of saving and loading, not of a step",
        ),
        (
            &[
                "zero_optimization.allgather_",
                "zero_optimization.reduce_scatter",
                "zero_optimization.contiguous_gradients",
                "zero_optimization.round_robin_gradients",
                "zero_optimization.use_multi_rank_bucket_allreduce",
                "zero_optimization.legacy_stage1",
                "zero_optimization.ignore_unused_parameters",
                "zero_optimization.memory_efficient_linear",
                "communication_data_type",
                "fp32_allreduce",
                "sparse_gradients",
                "gradient_accumulation_dtype",
                "zero_optimization.leaf_module",
                "zero_optimization.stage3_module_granularity_threshold",
                "zero_optimization.module_granularity_threshold",
                "zero_optimization.stage3_use_all_reduce_for_fetch_params",
                "zero_optimization.use_all_reduce_for_fetch_params",
                "zero_optimization.stage3_allgather_sequential",
                "zero_optimization.offload_optimizer.convert_grad_on_cpu",
                "seq_parallel_comm_data_type",
                "allgather_size",
                "data_types.",
                "disable_allgather",
            ],
            "how gradients and weights are packed for the wire is not modelled",
        ),
        (
            &[
                "zero_optimization.zero_hpz",
                "zero_optimization.zero_quantized",
                "zero_optimization.mics_",
                "zero_optimization.zeropp",
            ],
            "ZeRO++ and MiCS are not modelled",
        ),
        (&["activation_checkpointing."], "the program says what is kept: pass --checkpointing"),
        (
            &[
                "steps_per_print",
                "wall_clock_breakdown",
                "dump_state",
                "memory_breakdown",
                "tensorboard.",
                "wandb.",
                "csv_monitor.",
                "comet.",
                "timers.",
                "zero_optimization.log_trace_cache_warnings",
                "zero_optimization.enable_sanity_checks",
                "vocabulary_size",
                "comms_logger.",
                "flops_profiler.",
                "monitor_config.",
                "verbose",
                "seed",
                "dataloader_drop_last",
                "zero_allow_untested_optimizer",
                "zero_force_ds_cpu_optimizer",
                "graph_harvesting",
            ],
            "what is printed, logged or allowed: a step is the same",
        ),
        (
            &[
                "elasticity.",
                "autotuning.",
                "curriculum_learning.",
                "data_efficiency.",
                "progressive_layer_drop.",
                "eigenvalue.",
                "nebula.",
            ],
            "changes what is trained, or how it is searched for, from step to step",
        ),
        (
            &[
                "torch_autocast.",
                "zero_optimization.zenflow",
                "zero_optimization.save_muon_momentum_buffer_in_memory",
                "zero_optimization.offload_optimizer.super_offload",
                "zero_optimization.offload_optimizer.cpuadam_cores_perc",
                "zero_optimization.offload_param.ratio",
                "compression_training.",
                "sparse_attention.",
                "quantize_training.",
                "hybrid_engine.",
                "pipeline.",
                "tensor_parallel.",
                "sequence_parallel_size",
                "expert_parallel.",
                "compile.",
                "hybrid",
                "use_data_before_expert_parallel",
                "moe.",
                "autotp_size",
            ],
            "another model of work than a step of data parallelism; write a scenario for it",
        ),
    ];
    let begins = |(starts, _): &&(&[&str], &str)| starts.iter().any(|start| key.starts_with(start));
    table.iter().find(begins).map(|(_, why)| *why)
}
