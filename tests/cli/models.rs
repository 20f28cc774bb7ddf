//! Models on the command line: the list, `trace generate`, and `Model(...)` in a run.

use crate::common::Project;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100}"#;

const STEP: [&str; 6] = ["--train", "--batch", "2", "--sequence", "16", "--out"];

fn generate<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["trace", "generate", "--model", model] as &[&str], &STEP, &["trace"], more].concat()
}

#[test]
fn the_list_has_parameters_and_sources() {
    let ran = Project::empty().run(&["trace", "generate", "--list"]).ends_with(0);
    assert_eq!(ran.stderr, "");
    let row = |name: &str| {
        let row = ran.stdout.lines().find(|line| line.starts_with(name)).expect(name);
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("gpt2 ")[..4], ["gpt2", "gpt2", "124439808", "124439808"]);
    assert_eq!(row("mixtral-8x7b")[2..4], ["46702792704", "12879925248"]);
    assert!(row("opt-175b").len() > 4, "it has a source");
}

#[test]
fn a_generated_trace_is_read_again() {
    let project = Project::empty();
    project.write("tiny.config.json", TINY);
    let args = generate("tiny.config.json", &["--precision", "bf16", "--micro-batch", "1"]);
    let ran = project.run(&args).ends_with(0);
    assert!(ran.stdout.contains("written to trace"), "{}", ran.stdout);
    project.run(&["check", "trace"]).ends_with(0);
    let first = project.files("trace");
    project.run(&args).ends_with(0);
    assert_eq!(first, project.files("trace"), "the same bytes again");
    let ran = project.run(&["trace", "info", "trace", "--format", "json"]).ends_with(0);
    assert!(ran.stdout.contains("tiny"), "{}", ran.stdout);
}

#[test]
fn a_scenario_runs_a_model_and_warns_of_its_weights() {
    let project = Project::shipped();
    project.write("scenarios/tiny.config.json", TINY);
    let scenario = |weights: &str| {
        let text = format!(
            "Scenario(schema: 2, about: \"a model\", hardware: \"h200-sxm-pcie5\", workload: \
             Model(model: \"tiny.config.json\", {weights} precision: bf16, mode: train(batch: 2, \
             sequence: 16), time: roofline(precision: \"bf16\")), policies: [(name: \"all\", policy: \
             AllHbm)], expect: [fits(\"all\")])"
        );
        project.write("scenarios/model.ron", text);
    };
    scenario("");
    let run = ["run", "scenarios/model.ron", "--format", "json", "--audit"];
    let ran = project.run(&run).ends_with(0);
    assert_eq!(ran.stderr, "");
    let summary = ran.json();
    let result = &summary["results"][0];
    let tokens = result["throughput"]["value"].as_f64().expect("a number");
    let step = result["step_ms"]["mean"].as_f64().expect("a number");
    assert!((tokens * step / 1000.0 - 32.0).abs() < 1e-6, "2 x 16 tokens per step");
    // 21 tensors; only their names and bytes are known: 4 bytes per parameter.
    let names: Vec<String> =
        tensors().into_iter().map(|n| format!("\"{n}\": \"a.safetensors\"")).collect();
    let index = format!(
        "{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}}}}}",
        4 * PARAMETERS,
        names.join(",")
    );
    project.write("scenarios/tiny.index.json", index);
    scenario("weights: \"tiny.index.json\",");
    let said = "weights-differ: workload.weights: the scenario says bf16 for weights (found fp32)";
    let ran = project.run(&run).ends_with(0).says(&[said]);
    assert!(ran.stdout.contains("weights-differ"), "the summary has it too");
    project.run(&["check", "scenarios/model.ron"]).ends_with(0).says(&[said]);
    let denied = ["run", "scenarios/model.ron", "--deny", "warnings"];
    project.run(&denied).ends_with(2).says(&["the scenario says bf16 for weights"]);
}

/// Two tables of 100 x 64; per block four matrices of 64 x 64, three of 96 x 64 and two norms; one
/// norm.
const PARAMETERS: u64 = 2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 96 * 64 + 2 * 64) + 64;

fn tensors() -> Vec<String> {
    let of_block = [
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
        "input_layernorm",
        "post_attention_layernorm",
    ];
    let blocks = (0..2).flat_map(|block| {
        of_block.iter().map(move |name| format!("model.layers.{block}.{name}.weight"))
    });
    let around = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"];
    around.iter().map(|name| (*name).to_owned()).chain(blocks).collect()
}

/// Bytes of published weights: what their indices sum up to.
#[test]
fn weights_have_the_bytes_that_are_published() {
    let project = Project::empty();
    for (line, published) in [
        // model.safetensors.index.json of openai/gpt-oss-20b; the model card says 12.8 GiB.
        ("gpt-oss-20b --precision bf16 --quantize mxfp4", 13_761_264_768_u64),
        // The model card says 60.8 GiB.
        ("gpt-oss-120b --precision bf16 --quantize mxfp4", 65_248_815_744),
        ("gpt-oss-120b --precision bf16", 2 * 116_829_156_672),
        // Indices of Qwen/Qwen3-8B, Qwen3-14B and Qwen3-30B-A3B.
        ("qwen3-8b --precision bf16", 16_381_470_720),
        ("qwen3-14b --precision bf16", 29_536_614_400),
        ("qwen3-30b-a3b --precision bf16", 61_064_245_248),
    ] {
        let words = ["memory", "--inference", "--format", "json", "--model"];
        let all: Vec<&str> = words.into_iter().chain(line.split(' ')).collect();
        let found = project.run(&all).ends_with(0).json();
        assert_eq!(found["weights_bytes"], published, "{line}");
    }
    let wrong = ["memory", "--model", "gpt-oss-20b", "--inference", "--quantize", "mxfp4:64"];
    project.run(&wrong).ends_with(2).says(&["mxfp4 has groups of 32"]);
}
