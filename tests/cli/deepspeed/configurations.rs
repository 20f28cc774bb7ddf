//! Configurations of DeepSpeed, each with options of the command and with what shows that it was read.

/// As programs and guides write them: everything `auto`, older names, every stage, drives.
pub(crate) const CONFIGURATIONS: [(&str, &[&str], &[&str]); 20] = [
    (
        r#"{"fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000}, "bf16": {"enabled": "auto"},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
            "zero_optimization": {"stage": 2, "allgather_partitions": true, "allgather_bucket_size": 2e8,
                "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": "auto", "contiguous_gradients": true},
            "gradient_accumulation_steps": "auto", "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}"#,
        &["--gpus", "8", "--micro-batch", "4", "--precision", "fp16"],
        &[
            "hardware: \"dgx-a100-80g\"",
            "precision: fp16,",
            "batch: 4,",
            "parallel: (data: 8)",
            "zero: (stage: 2),",
            "policy: AllHbm",
        ],
    ),
    (
        r#"{"train_batch_size": 64, "zero_optimization": {"stage": 2, "cpu_offload": true, "reduce_bucket_size": 500000000},
            "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.999]}}, "fp16": {"enabled": true}}"#,
        &["--gpus", "4"],
        &[
            "batch: 16,",
            "zero: (stage: 2, host_update: 1.0, bucket: b(1000000000), overlap: false)",
            "ZeroOffload(optimizer: \"far\")",
            "runtime: (copies: pageable",
        ],
    ),
    (
        r#"{"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
            "zero_optimization": {"stage": 3,
                "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true, "buffer_count": 4, "fast_init": false},
                "offload_param": {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true, "buffer_size": 1e8, "max_in_cpu": 1e9},
                "stage3_prefetch_bucket_size": 1e6},
            "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1, "single_submit": false, "overlap_events": true}}"#,
        &[],
        &[
            "batch: 8,",
            "micro_batch: 1,",
            "optimizer: \"drive\", gradients: \"far\"",
            "parameters: \"drive\", prefetch_ops: 16, relay: \"far\", prefetch_budget: b(2000000)",
        ],
    ),
    (
        r#"{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.3}, "overlap_comm": false},
            "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true, "number_checkpoints": null},
            "bf16": {"enabled": true}}"#,
        &["--gpus", "2", "--device", "h100"],
        &[
            "hardware: \"dgx-h100\"",
            "checkpointing: full",
            "host_update: 0.3, overlap: false",
            "optimizer_share: 0.3, activations: \"far\"",
        ],
    ),
    (
        r#"{"train_batch_size": 8, "steps_per_print": 1}"#,
        &[],
        &["precision: fp32", "batch: 8,", "micro_batch: 8,"],
    ),
    (
        r#"{"zero_optimization": {"stage": 1}, "optimizer": {"type": "OneBitAdam"}}"#,
        &[],
        &["zero: (stage: 1)"],
    ),
    (
        r#"{"optimizer": {"type": "Lion", "params": {}}, "zero_optimization": {"stage": 0}}"#,
        &[],
        &["optimizer: lion,"],
    ),
    (
        "{\n\t\"zero_optimization\": {\n\t\t\"stage\": 2,\n\t\t\"offload_param\": {\"device\": \"cpu\"},\n\t\t\"offload_optimizer\": {\"device\": \"none\"}\n\t}\n}",
        &["--host-memory", "512", "--checkpointing"],
        &[
            "capacity: {\"dram\": gib(512)}",
            "policy: AllHbm",
            "offloads parameters in stage 3 only",
        ],
    ),
    (
        r#"{"zero_optimization": {"stage": 3, "zero_quantized_weights": true, "zero_hpz_partition_size": 8, "brand_new_key": 1},
            "curriculum_learning": {"enabled": true, "params": {"difficulty": [1, 2]}}, "wandb": {"enabled": true}}"#,
        &[],
        &["brand_new_key: 1 -> ignored: unknown key", "ZeRO++ and MiCS are not modelled"],
    ),
    // What the program fills in, and sections that say nothing.
    (
        r#"{"bf16": {"enabled": "auto"}, "fp16": {"enabled": true}, "scheduler": {}, "aio": {},
            "zero_optimization": {"stage": "auto", "offload_optimizer": {"device": "auto"}, "offload_param": {}}}"#,
        &["--stage", "3"],
        &[
            "precision: fp16,",
            "zero: (stage: 3),",
            "policy: AllHbm",
            "bf16.enabled: auto -> ignored: left to the program: precision: fp16",
            "offload_param: {} -> ignored: an empty section",
        ],
    ),
    (
        r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none", "ratio": 0.3, "pin_memory": true},
            "offload_param": null}, "torch_autocast": {"enabled": false}, "gradient_accumulation_dtype": "fp32", "timers": {"throughput": {"enabled": true}}}"#,
        &["--precision", "fp16"],
        &[
            "precision: bf16,",
            "policy: AllHbm",
            "ratio: 0.3 -> ignored: nothing of it is offloaded",
        ],
    ),
    (
        r#"{"zero_optimization": true, "train_batch_size": 4}"#,
        &[],
        &["zero: (stage: 1)", "batch: 4,"],
    ),
    (
        r#"{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": true}}, "fp16": {"enabled": true}}"#,
        &["--device", "A100 40 GB"],
        &["hardware: \"a100-40g-pcie4\"", "ZeroOffload(parameters: \"far\""],
    ),
    // github.com/deepspeedai/DeepSpeedExamples, claude_tutorials/annotated_configs/zero3_nvme_offload_annotated.json
    (
        r#"{"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
            "stage3_max_live_parameters": "auto", "offload_param": {"device": "nvme", "nvme_path": "/local_nvme/sglang",
                "pin_memory": true, "buffer_size": "auto", "buffer_count": 5}},
            "aio": {"block_size": 8388608, "queue_depth": 32, "intra_op_parallelism": 8, "single_submit": false,
                "overlap_events": true, "use_gds": false}, "train_batch_size": 1}"#,
        &["--device", "h100"],
        &["precision: fp32", "policy: ZeroOffload(parameters: \"drive\", prefetch_ops: 16)"],
    ),
    // github.com/deepspeedai/DeepSpeedExamples, training/DeepSpeed-ZenFlow/finetuning/zf_config.json
    (
        r#"{"train_batch_size": 32, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2,
                "offload_optimizer": {"device": "cpu", "pin_memory": true},
                "zenflow": {"topk_ratio": 0.1, "update_interval": 4, "full_warm_up_rounds": 0, "overlap_step": true}},
            "optimizer": {"type": "AdamW", "params": {"lr": 2e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}},
            "gradient_accumulation_steps": 1, "gradient_clipping": 1.0, "zero_allow_untested_optimizer": true}"#,
        &["--gpus", "8"],
        &["micro_batch: 4,", "host_update: 1.0", "zenflow.overlap_step: true -> ignored"],
    ),
    // github.com/ExaSearch/Megatron-DeepSpeed, ds_config.json
    (
        r#"{"train_batch_size" : 128, "train_micro_batch_size_per_gpu": 4, "steps_per_print": 1, "zero_optimization": {"stage": 1},
            "gradient_clipping": 1.0, "prescale_gradients": false, "fp16": {"enabled": true, "loss_scale": 0,
            "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 12}, "wall_clock_breakdown" : true}"#,
        &["--gpus", "8"],
        &["batch: 16,", "micro_batch: 4,", "zero: (stage: 1, overlap: false)"],
    ),
    // DeepSpeed's tutorial of Megatron-LM, with its misspelled key.
    (
        r#"{"zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_params": true, "overlap_comm": true,
            "contiguous_gradients": true, "stage3_max_live_parameters": 6000000, "stage3_max_reuse_distance": 100000000,
            "stage3_prefetch_bucket_size": 200000, "stage3_param_persitance_threshold": 100000,
            "reduce_bucket_size": 3000000, "sub_group_size": 1e6}}"#,
        &["--precision", "fp16"],
        &[
            "optimizer: \"far\", parameters: \"far\", prefetch_ops: 16, prefetch_budget: b(400000)",
            "stage3_param_persitance_threshold: 100000 -> ignored: unknown key",
        ],
    ),
    // A log of Megatron-DeepSpeed: what is measured and told beside the work.
    (
        r#"{"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 1000}},
            "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-08, "weight_decay": 3e-07}},
            "fp16": {"enabled": true, "initial_scale_power": 12}, "flops_profiler": {"enabled": true, "profile_step": 1,
                "module_depth": -1, "top_modules": 3, "detailed": true, "output_file": null},
            "comms_logger": {"enabled": true, "verbose": false, "prof_all": false, "debug": false},
            "wandb": {"enabled": true, "group": "megatron-DS0", "project": "megatron-DS"}}"#,
        &[],
        &["precision: fp16", "comms_logger.enabled: true -> ignored: what is printed"],
    ),
    // As programs for reinforcement learning build them, after DeepSpeed-Chat: an engine that also generates.
    (
        r#"{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 4, "steps_per_print": 10, "zero_optimization": {"stage": 3,
                "overlap_comm": true, "contiguous_gradients": true, "offload_param": {"device": "nvme", "nvme_path": "/nvme",
                "pin_memory": false, "buffer_count": 16, "buffer_size": 1.6e9, "max_in_cpu": 0}, "offload_optimizer": {"device": "nvme",
                "nvme_path": "/nvme", "pin_memory": false, "buffer_count": 8, "fast_init": false}, "load_from_fp32_weights": false,
                "stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 0, "stage3_prefetch_bucket_size": 0,
                "memory_efficient_linear": true, "round_robin_gradients": false},
            "aio": {"block_size": 4194304, "queue_depth": 32, "thread_count": 1, "single_submit": false, "overlap_events": true},
            "fp16": {"enabled": true, "loss_scale_window": 100, "fp16_master_weights_and_gradients": true},
            "gradient_clipping": 0.9, "hybrid_engine": {"enabled": true, "max_out_tokens": 512, "inference_tp_size": 1,
                "release_inference_cache": false, "pin_parameters": true, "tp_gather_partition_size": 8}}"#,
        &[],
        &[
            "optimizer: \"drive\", gradients: \"far\", parameters: \"drive\", prefetch_ops: 0",
            "runtime: (copies: pageable",
            "fp16_master_weights_and_gradients: true -> ignored: not modelled: optimizer state",
        ],
    ),
    // As scripts of PyTorch Lightning had it in 2021; the last name is today's of an older one.
    (
        r#"{"optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.998, 0.999], "eps": 1e-5, "weight_decay": 1e-9}},
            "scheduler": {"type": "WarmupLR", "params": {"last_batch_iteration": -1, "warmup_min_lr": 0}}, "max_grad_norm": 1.0,
            "zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_use_pin_memory": true, "overlap_comm": true,
                "contiguous_gradients": true, "allgather_partitions": true, "cpu_offload_param": true}}"#,
        &["--precision", "bf16"],
        &["optimizer: \"far\", parameters: \"far\"", "max_grad_norm: 1.0 -> ignored: a number of"],
    ),
];
