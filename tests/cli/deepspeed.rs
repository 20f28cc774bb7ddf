//! `from deepspeed`: configurations become scenarios, each key is accounted for, contradictions are refused.

mod configurations;

use crate::common::*;
pub(crate) use configurations::CONFIGURATIONS;

/// A configuration turned and not run: what is printed.
pub(crate) fn turned(project: &Project, text: &str, more: &[&str]) -> Ran {
    project.write("ds.json", text);
    let own = |option, value| if more.contains(&option) { vec![] } else { vec![option, value] };
    let (model, device) = (own("--model", "gpt2"), own("--device", "a100"));
    let words = ["from", "deepspeed", "ds.json", "--sequence", "512", "--no-run"];
    project.run(&[&words[..], &model, &device, more].concat())
}

/// Keys of a configuration that have values, with their sections.
fn keys(value: &Value, before: &str, out: &mut Vec<String>) {
    for (key, value) in value.as_object().expect("a section") {
        let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
        match value {
            Value::Object(inside) if !inside.is_empty() => keys(value, &key, out),
            _ => out.push(key),
        }
    }
}

#[test]
fn configurations_of_deepspeed_become_scenarios_that_account_for_every_key() {
    let project = Project::shipped();
    for (text, more, shows) in CONFIGURATIONS {
        let ran = turned(&project, text, more).ends_with(0).shows(shows);
        let mut all = Vec::new();
        keys(&serde_json::from_str(text).expect("JSON"), "", &mut all);
        for key in all {
            let rows = ran.stdout.lines().filter(|line| line.contains(&format!(": {key}: ")));
            assert_eq!(rows.count(), 1, "{key} in {}", ran.stdout);
        }
        // What is printed is a scenario, and it runs.
        project.write("turned.ron", &ran.stdout);
        project.run(&["check", "turned.ron"]).ends_with(0);
        project.run(&["run", "turned.ron", "--no-png", "--no-bound-curve"]).ends_with(0);
    }
}

#[test]
fn what_contradicts_itself_or_is_no_configuration_is_refused() {
    let project = Project::shipped();
    for (text, more, says) in [
        (
            r#"{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}"#,
            &[][..],
            "ds.json:1:2: `train_batch_size` is micro-batch x accumulation x GPUs, here 2 x 2 x 1 = 4 (found 7)",
        ),
        (r#"{"train_batch_size": 9}"#, &["--gpus", "2"], "here 4 x 1 x 2 = 8 (found 9)"),
        (
            r#"{"fp16": {"enabled": true}, "bf16": {"enabled": true}}"#,
            &[],
            "`bf16.enabled` and `fp16.enabled` are not both on",
        ),
        (
            r#"{"zero_optimization": {"stage": 4}}"#,
            &[],
            "`zero_optimization.stage` is a whole number from 0 to 3 (found 4)",
        ),
        (
            r#"{"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}"#,
            &[],
            "`offload_optimizer` is of stages 1 to 3 (found stage 0)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "disk2"}}}"#,
            &[],
            "is `cpu`, `nvme` or `none` (found disk2)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2, "reduce_bucket_size": -5}}"#,
            &[],
            "a whole number from 0 to 1e15, or `auto` (found -5)",
        ),
        (r#"{"train_batch_size": 1, "train_batch_size": 2}"#, &[], "a key is given twice"),
        (
            r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}, "bf16": {"enabled": true}}"#,
            &[],
            "goes to NVMe in stage 3 only (found stage 2)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}"#,
            &[],
            "ds.json:1:58: the host updates an fp32 copy of its own",
        ),
        ("{}", &["--gpus", "2", "--device", "3090"], "no machine with 2 of these ships"),
        // github.com/CarperAI/trlx, ds_config.json
        (
            r#"{"gradient_clipping": 1.0, "gradient_accumulation_steps": 1, "train_batch_size": "auto", "fp16": {"enabled": false},
                "bf16": {"enabled": false}, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"},
                "offload_optimizer": {"device": "cpu"}, "allgather_bucket_size": 5e8}}"#,
            &[],
            "the host updates an fp32 copy of its own",
        ),
        // github.com/deepspeedai/DeepSpeedExamples: benchmarks/autosp, training/expert_parallel,
        // training/tensor_parallel, training/opsd, claude_tutorials/model_configs/llama
        (
            r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 0}, "compile": {"deepcompile": true, "passes": ["autosp"]},
                "train_batch_size": 1, "sequence_parallel_size": 2}"#,
            &[],
            "`sequence_parallel_size` splits the model, and a configuration is read as replicas (found 2)",
        ),
        // github.com/hiyouga/LLaMA-Factory, examples/deepspeed/ds_z3_alst_config.json
        (
            r#"{"bf16": {"enabled": true}, "sequence_parallel": {"enabled": true, "size": 4, "mode": "ulysses"}}"#,
            &["--gpus", "8"],
            "`sequence_parallel.size` splits the model, and a configuration is read as replicas (found 4)",
        ),
        (
            r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}, "expert_parallel": {"enabled": true,
                "autoep_size": 8, "preset_model": "qwen3_5_moe", "load_balance_coeff": null}}"#,
            &["--gpus", "8"],
            "write a scenario with `parallel: (expert: 8)`",
        ),
        (
            r#"{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "gather_16bit_weights_on_model_save": true},
                "tensor_parallel": {"autotp_size": 4}, "train_batch_size": "auto"}"#,
            &["--gpus", "8"],
            "write a scenario with `parallel: (tensor: 4)`",
        ),
        (
            r#"{"student": {"model_name_or_path": "Qwen/Qwen2.5-0.5B-Instruct", "dtype": "bfloat16"}, "rollout": {"engine":
                "hybrid_engine"}, "training": {"train_batch_size": 1}, "deepspeed_config": "configs/ds_zero3.json"}"#,
            &[],
            "ds.json:1:14: no key of this file is one of DeepSpeed's",
        ),
        (
            r#"{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
                "zero_optimization": {"stage": 3, "overlap_comm": true}, "communication_data_type": "fp16"}"#,
            &["--gpus", "8"],
            "here 1 x 8 x 8 = 64 (found 256)",
        ),
        // github.com/AndreSoble/PerformerDualEncoder, ds_config.json
        (
            r#"{"train_batch_size": 20000, "train_micro_batch_size_per_gpu": 20, "gradient_accumulation_steps": 100,
                "max_grad_norm": 0.5, "optimizer": {"type": "Adam", "params": {"lr": 0.01, "betas": [0.99, 0.999]}}}"#,
            &["--gpus", "8"],
            "here 20 x 100 x 8 = 16000 (found 20000)",
        ),
        (
            r#"{"zero_optimization": {"stage": 2}}"#,
            &["--gpus", "4", "--device", "b300"],
            "b300 does not say where they meet",
        ),
        ("[1, 2]", &[], "a mapping of keys to values"),
        ("{\"a\": ", &[], "ds.json:"),
        ("{}", &["--device", "abacus"], "abacus"),
        ("{}", &["--model", "no-such-model"], "no-such-model"),
    ] {
        let ran = turned(&project, text, more);
        let ran = ran.ends_with(2).says(&[says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
        assert!(!project.path("out").exists(), "nothing is written");
    }
}

/// Words of the wrong kind, numbers that are none, sections that are none: told with their place.
#[test]
fn values_that_deepspeed_would_not_take_are_refused() {
    let project = Project::shipped();
    let zero = |inside: &str| format!("{{\"zero_optimization\": {{\"stage\": 2, {inside}}}}}");
    for (text, says) in [
        (r#"{"fp16": true}"#.to_owned(), "ds.json:1:2: `fp16` is a section (found true)"),
        (r#"{"bf16": []}"#.to_owned(), "`bf16` is a section (found a list)"),
        (r#"{"optimizer": "Adam", "seed": 1}"#.to_owned(), "`optimizer` is a section (found Adam)"),
        (r#"{"optimizer": {"type": ["Adam"]}}"#.to_owned(), "`optimizer.type` is one value"),
        (r#"{"zero_optimization": 2}"#.to_owned(), "is a section, or true or false (found 2)"),
        (r#"{"zero_optimization": "two"}"#.to_owned(), "is a section, or true or false (found two)"),
        (r#"{"zero_optimization": {"stage": -1}}"#.to_owned(), "from 0 to 3 (found -1)"),
        (r#"{"zero_optimization": {"stage": 2.5}}"#.to_owned(), "from 0 to 3 (found 2.5)"),
        (r#"{"zero_optimization": {"stage": {}}}"#.to_owned(), "from 0 to 3"),
        (r#"{"zero_optimization": {"stage": [3]}}"#.to_owned(), "is one value (found a list)"),
        (zero(r#""reduce_bucket_size": NaN"#), "from 0 to 1e15, or `auto` (found NaN)"),
        (zero(r#""reduce_bucket_size": Infinity"#), "(found Infinity)"),
        (zero(r#""reduce_bucket_size": 1e400"#), "(found 1e400)"),
        (zero(r#""reduce_bucket_size": 0.5"#), "(found 0.5)"),
        (zero(r#""overlap_comm": "perhaps""#), "is true or false (found perhaps)"),
        (zero(r#""offload_optimizer": {"device": 7}"#), "is `cpu`, `nvme` or `none` (found 7)"),
        (
            zero(r#""cpu_offload": true, "offload_optimizer": {"device": "cpu"}"#),
            "`zero_optimization.offload_optimizer.device` says the same as `zero_optimization.cpu_offload`",
        ),
        (
            r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": NaN}}}"#
                .to_owned(),
            "`ratio` is a share from 0 to 1 (found NaN)",
        ),
        (r#"{"train_batch_size": -4}"#.to_owned(), "(found -4)"),
        (r#"{"train_batch_size": 0}"#.to_owned(), "from 1 to 1048576 (found 0)"),
        (r#"{"train_batch_size": "many"}"#.to_owned(), "(found many)"),
        (r#"{"train_batch_size": 99999999999999999999}"#.to_owned(), "(found 99999999999999999999)"),
        (r#"{"bf16": {"enabled": true, "enabled": false}}"#.to_owned(), "a key is given twice"),
        (r#"{"tensor_parallel": {"autotp_size": "two"}}"#.to_owned(), "(found two)"),
        (r#"{"learning_rate": 1e-4, "epochs": 3}"#.to_owned(), "no key of this file is one of"),
        (format!("{}1{}", r#"{"a": "#.repeat(30), "}".repeat(30)), "sections are at most 8 deep"),
    ] {
        let ran = turned(&project, &text, &[]).ends_with(2).says(&["ds.json:1", says]);
        assert_eq!(ran.stdout, "", "nothing is printed");
    }
    // What is off, open or empty splits nothing and says nothing.
    let text = r#"{"tensor_parallel": {"autotp_size": 1}, "sequence_parallel_size": "auto", "amp": {}, "optimizer": null,
        "expert_parallel": {"enabled": false, "autoep_size": 8}, "fp16": {}, "train_batch_size": 2}"#;
    turned(&project, text, &[]).ends_with(0).shows(&[
        "tensor_parallel.autotp_size: 1 -> ignored: one rank",
        "optimizer: null -> ignored: an empty section",
        "batch: 2,",
    ]);
}

#[test]
fn kernels_are_what_is_asked_for_and_a_default_that_is_told() {
    let project = Project::shipped();
    let text = r#"{"train_batch_size": 2, "bf16": {"enabled": true}}"#;
    let ran = turned(&project, text, &[]).ends_with(0);
    let ran = ran.shows(&["--kernels: not said -> kernels: compiled"]);
    assert!(!ran.stdout.contains("\n            kernels: "), "{}", ran.stdout);
    let eager = turned(&project, text, &["--kernels", "eager"]).ends_with(0);
    let eager = eager.shows(&["            kernels: eager, optimizer_kernels: fused,"]);
    let peak = |scenario: &str| {
        project.write("turned.ron", scenario);
        let run = ["run", "turned.ron", "--no-png", "--no-bound-curve", "--out", "o", "-q"];
        project.run(&run).ends_with(0);
        project.json("o/summary.json")["results"][0]["peak_bytes"]["hbm"].as_u64().expect("bytes")
    };
    assert!(peak(&eager.stdout) > peak(&ran.stdout));
    // Of other models such kernels are not known.
    let gemma = ["--kernels", "eager", "--model", "gemma-2-2b"];
    turned(&project, text, &gemma).ends_with(2).says(&["kernels"]);
}

/// Momentum is state, and gradients may be summed up in more bits than they are made in.
#[test]
fn momentum_other_optimizers_and_wide_gradients_are_taken() {
    let project = Project::shipped();
    let sgd = |momentum: &str| {
        format!(
            r#"{{"train_batch_size": 2, "bf16": {{"enabled": true}},
                "optimizer": {{"type": "SGD", "params": {{"lr": 0.1, "momentum": {momentum}}}}}}}"#
        )
    };
    for (momentum, word) in [("0.9", "sgd(momentum: true)"), ("0", "sgd()")] {
        let ran = turned(&project, &sgd(momentum), &[]).ends_with(0);
        ran.shows(&[&format!("            optimizer: {word},")]);
    }
    turned(&project, &sgd("2"), &[]).ends_with(2).says(&["`momentum` is a number from 0 to 1"]);
    let text = r#"{"train_batch_size": 2, "bf16": {"enabled": true}, "optimizer": {"type": "Adafactor"},
                   "data_types": {"grad_accum_dtype": "fp32"}}"#;
    let ran = turned(&project, text, &[]).ends_with(0);
    ran.shows(&["            optimizer: adafactor,", "        formats: (gradients: fp32),"]);
    let wrong = r#"{"train_batch_size": 2, "data_types": {"grad_accum_dtype": "fp23"}}"#;
    turned(&project, wrong, &[]).ends_with(2).says(&["is fp32, fp16 or bf16 (found fp23)"]);
}

/// DeepSpeed reads Hjson: comments are no keys, and hide none.
#[test]
fn comments_hide_no_key() {
    let project = Project::shipped();
    let text = "{\n  // per step, \"train_batch_size\": 1\n  \"train_batch_size\": 4, /* and\n   more */ \
                \"optimizer\": {\"type\": \"Lion\"}, # at last\n  \"wandb\": {\"host\": \"http://a//b\"}\n}";
    let ran = turned(&project, text, &[]).ends_with(0);
    ran.shows(&[
        "line 3: train_batch_size: 4 ->",
        "optimizer: lion,",
        "host: http://a//b",
        "line 5: wandb",
    ]);
}

/// Figures of the only case of a configuration's scenario, by the path of their keys.
fn figures(project: &Project, text: &str, more: &[&str], keys: &[[&str; 2]]) -> Vec<f64> {
    let told = turned(project, text, more).ends_with(0).stdout;
    project.write("it.ron", told);
    let run = ["run", "it.ron", "--out", "out", "--no-png", "--no-bound-curve", "-q"];
    project.run(&run).ends_with(0);
    let summary: Value = serde_json::from_str(&project.text("out/summary.json")).expect("JSON");
    let of = |[of, key]: &[&str; 2]| summary["results"][0][of][key].as_f64();
    keys.iter().map(|key| of(key).unwrap_or_else(|| panic!("{key:?}"))).collect()
}

/// Gradients that are not partitioned stay in HBM: the host holds what `tiersim memory` says of stage
/// 1, and is handed the rank's own part of them.
#[test]
fn the_host_holds_as_much_in_stage_1_as_memory_says() {
    let project = Project::shipped();
    let text = r#"{"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1,
        "offload_optimizer": {"device": "cpu", "pin_memory": true}}}"#;
    let more = ["--model", "llama-2-7b", "--device", "h100", "--gpus", "8", "--checkpointing"];
    turned(&project, text, &more).ends_with(0).shows(&["gradients: \"near\""]);
    let keys =
        [["peak_bytes", "dram"], ["moved_bytes", "switch->dram"], ["moved_bytes", "dram->switch"]];
    let found = figures(&project, text, &more, &keys);
    let asked =
        ["memory", "--model", "llama-2-7b", "--gpus", "8", "--stage", "1", "--sequence", "512"];
    let more = ["--offload-optimizer", "cpu", "--checkpointing", "full", "--format", "json"];
    let said = project.run(&[&asked[..], &more].concat()).ends_with(0).stdout;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let bytes = |key: &str| said[key].as_f64().unwrap_or_else(|| panic!("{key}"));
    let part = bytes("gradients_bytes") / 8.0;
    assert_eq!(bytes("handed_gradients_cpu_bytes"), part);
    let host = bytes("cpu_bytes_per_node") / 8.0;
    assert_eq!(host, bytes("optimizer_cpu_bytes") + part);
    for (found, said) in [(found[0], host), (found[1], part), (found[2], part)] {
        assert!((found / said - 1.0).abs() < 0.005, "{found} {said}");
    }
}

/// `allreduce_gradients` of the engine is behind the backward pass; `BF16_Optimizer` sums in 32 bits
/// and divides its state.
#[test]
fn without_zero_nothing_overlaps_and_bf16_divides_its_state() {
    let project = Project::shipped();
    let text = |precision: &str, zero: &str| {
        format!(
            "{{\"{precision}\": {{\"enabled\": true}}, \"train_micro_batch_size_per_gpu\": 1{zero}}}"
        )
    };
    let off = ", \"zero_optimization\": {\"stage\": 0, \"overlap_comm\": false, \"reduce_bucket_size\": 1e8}";
    let overlaps = ", \"zero_optimization\": {\"stage\": 0, \"overlap_comm\": true}";
    for zero in ["", off, overlaps] {
        turned(&project, &text("fp16", zero), &["--gpus", "8"]).ends_with(0).shows(&[
            "zero: (stage: 0, overlap: false),",
            "-> zero: (stage: 0, overlap: false): gradients are reduced behind the backward pass",
        ]);
        turned(&project, &text("bf16", zero), &["--gpus", "8"]).ends_with(0).shows(&[
            "zero: (stage: 1, overlap: false),",
            "formats: (gradients: fp32),",
            "grad_accum_dtype: not said -> formats: (gradients: fp32)",
            "BF16_Optimizer divides master weights",
        ]);
        // One device divides and reduces nothing.
        let one = turned(&project, &text("bf16", zero), &[]).ends_with(0).stdout;
        assert!(
            one.contains("formats: (gradients: fp32),") && !one.contains("            zero: ("),
            "{one}"
        );
    }
    let ran = turned(&project, &text("bf16", off), &["--gpus", "8"]);
    ran.shows(&["overlap_comm: false -> zero: (overlap: false)", "buffers of 500 million"]);
    // 4 bytes of gradient and of weights whole, and K P / N of state.
    let keys = [["peak_bytes", "hbm"]];
    let more = ["--gpus", "8", "--model", "llama-2-7b", "--device", "h100", "--checkpointing"];
    let peak = figures(&project, &text("bf16", ""), &more, &keys)[0];
    let state = 6.738e9 * (2.0 + 4.0 + 12.0 / 8.0);
    assert!((state..1.1 * state).contains(&peak), "{peak} {state}");
}

/// The file counts, and what was typed against it is told.
#[test]
fn options_that_contradict_the_file_are_told() {
    let project = Project::shipped();
    let text = "{\"bf16\": {\"enabled\": true},\n\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4,\n\
                \"zero_optimization\": {\"stage\": 2}}";
    let typed =
        ["--precision", "fp16", "--micro-batch", "8", "--accumulation", "7", "--stage", "3"];
    turned(&project, text, &typed).ends_with(0).shows(&[
        "--precision: fp16 -> ignored: `bf16.enabled` of line 1 says bf16, and the file counts",
        "--micro-batch: 8 -> ignored: `train_micro_batch_size_per_gpu` of line 2 says 2",
        "--accumulation: 7 -> ignored: `gradient_accumulation_steps` of line 2 says 4",
        "--stage: 3 -> ignored: `zero_optimization.stage` of line 3 says 2",
        "zero: (stage: 2",
        "batch: 8,",
    ]);
    let same = ["--precision", "bf16", "--micro-batch", "2", "--accumulation", "4", "--stage", "2"];
    let ran = turned(&project, text, &same).ends_with(0);
    assert!(!ran.stdout.contains("the file counts"), "{}", ran.stdout);
    // A file that is silent about ZeRO does not leave the stage open.
    turned(&project, "{\"train_batch_size\": 1}", &["--stage", "3"])
        .ends_with(0)
        .shows(&["--stage: 3 -> ignored: it is for `zero_optimization.stage: auto`"]);
}

/// offload_config.py: `ratio` is of stage 3.
#[test]
fn a_ratio_is_of_stage_3() {
    let project = Project::shipped();
    for stage in 1..=3 {
        let text = format!(
            "{{\"bf16\": {{\"enabled\": true}}, \"zero_optimization\": {{\"stage\": {stage}, \
             \"offload_optimizer\": {{\"device\": \"cpu\", \"ratio\": 0.3}}}}}}"
        );
        let ran = turned(&project, &text, &["--gpus", "2"]).ends_with(0);
        let (update, told) = match stage {
            3 => ("host_update: 0.3", "ratio: 0.3 -> optimizer_share: 0.3"),
            _ => ("host_update: 1.0", "ratio: 0.3 -> ignored: DeepSpeed takes it in stage 3 only"),
        };
        ran.shows(&[update, told]);
    }
}

/// PyTorch's attention is that of its version, on machines where that is measured.
#[test]
fn the_kernels_of_attention_are_told_where_they_are_measured() {
    let project = Project::shipped();
    let row = "attention's kernels: not said -> time: op_times: attention of cuDNN";
    let text = "{\"bf16\": {\"enabled\": true}}";
    turned(&project, text, &["--device", "h100"]).ends_with(0).shows(&[row]);
    let other = turned(&project, text, &["--device", "rtx-4090"]).ends_with(0);
    assert!(!other.stdout.contains("attention's kernels"), "{}", other.stdout);
}
