//! `config.json` of every type, in the words that its makers use.

use crate::files::file;
use tiersim_input::import::card::{ModelFiles, read_model};
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::card::{Experts, Family};
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::packed::Packed;

fn read(name: &str, text: &str) -> ModelFiles {
    let path = file(&format!("config-{name}"), &format!("{name}.config.json"), text);
    read_model(&path, None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A config that means the known card of the same name.
fn check(name: &str, text: &str) {
    assert_eq!(read(name, text).card, known(name).expect("it is known").card());
}

#[test]
fn configs_mean_the_known_cards() {
    check(
        "gpt2",
        r#"{"model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_inner": null,
            "n_layer": 12, "n_positions": 1024, "vocab_size": 50257, "torch_dtype": "float32"}"#,
    );
    check(
        "llama-2-70b",
        r#"{"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
            "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8,
            "max_position_embeddings": 4096, "tie_word_embeddings": false, "vocab_size": 32000}"#,
    );
    check(
        "mistral-7b",
        r#"{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
            "sliding_window": 4096, "vocab_size": 32000}"#,
    );
    check(
        "mixtral-8x7b",
        r#"{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
            "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null,
            "vocab_size": 32000}"#,
    );
    check(
        "opt-30b",
        r#"{"model_type": "opt", "hidden_size": 7168, "ffn_dim": 28672, "num_attention_heads": 56,
            "num_hidden_layers": 48, "max_position_embeddings": 2048, "do_layer_norm_before": true,
            "word_embed_proj_dim": 7168, "vocab_size": 50272}"#,
    );
    check(
        "bloom-176b",
        r#"{"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
            "vocab_size": 250880}"#,
    );
    check(
        "qwen2.5-7b",
        r#"{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
            "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
            "num_key_value_heads": 4, "sliding_window": 131072, "use_sliding_window": false,
            "tie_word_embeddings": false, "vocab_size": 152064}"#,
    );
    check(
        "qwen3-30b-a3b",
        r#"{"model_type": "qwen3_moe", "attention_bias": false, "decoder_sparse_step": 1,
            "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "mlp_only_layers": [],
            "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
            "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
            "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false,
            "vocab_size": 151936}"#,
    );
    check(
        "qwen3-8b",
        r#"{"model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_size": 4096,
            "intermediate_size": 12288, "max_window_layers": 36, "num_attention_heads": 32,
            "num_hidden_layers": 36, "num_key_value_heads": 8, "sliding_window": null,
            "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936}"#,
    );
    check(
        "gpt-oss-120b",
        r#"{"model_type": "gpt_oss", "attention_bias": true, "experts_per_token": 4, "head_dim": 64,
            "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64,
            "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_key_value_heads": 8,
            "num_local_experts": 128, "sliding_window": 128, "tie_word_embeddings": false,
            "vocab_size": 201088}"#,
    );
}

/// As saved: of Gemma 3 without what its class says anyway, and with an encoder of pictures.
#[test]
fn text_models_with_norms_behind_their_parts_are_the_known_ones() {
    check(
        "gemma-2-9b",
        r#"{"model_type": "gemma2", "head_dim": 256, "hidden_size": 3584,
            "intermediate_size": 14336, "num_attention_heads": 16, "num_hidden_layers": 42,
            "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 256000}"#,
    );
    check(
        "gemma-3-1b",
        r#"{"model_type": "gemma3_text", "head_dim": 256, "hidden_size": 1152,
            "intermediate_size": 6912, "num_attention_heads": 4, "num_hidden_layers": 26,
            "num_key_value_heads": 1, "sliding_window": 512, "sliding_window_pattern": 6,
            "vocab_size": 262144}"#,
    );
    check(
        "gemma-3-4b",
        r#"{"model_type": "gemma3", "text_config": {"hidden_size": 2560,
            "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "sliding_window": 1024}, "torch_dtype": "bfloat16",
            "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}}"#,
    );
    let glm = r#"{"model_type": "glm4", "attention_bias": true, "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 13696, "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 151552}"#;
    let glm = read("glm-4-9b-0414", glm).card;
    // Two norms per block more than glm-4-9b.
    assert_eq!(glm.parameters(), 9_399_951_360 + 2 * 40 * 4096);
    let pictures = read(
        "pictures",
        r#"{"model_type": "mistral3", "dtype": "bfloat16", "text_config": {"model_type": "mistral",
            "head_dim": 128, "hidden_size": 5120, "intermediate_size": 32768,
            "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
            "sliding_window": null, "vocab_size": 131072}, "vision_config": {"hidden_size": 1024}}"#,
    );
    assert_eq!(pictures.card.parameters(), 23_572_403_200);
    assert_eq!(pictures.format, Some(Format::Bf16));
    assert!(pictures.remarks[0].contains("encoder of pictures"), "{:?}", pictures.remarks);
}

/// Blocks in front without experts, and compressed keys and values.
#[test]
fn deepseek_is_read_with_what_its_blocks_differ_in() {
    let v3 = r#"{"model_type": "deepseek_v3", "attention_bias": false, "first_k_dense_replace": 3,
        "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
        "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3",
        "quant_method": "fp8", "weight_block_size": [128, 128]}, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 129280}"#;
    check("deepseek-v3", v3);
    let files = read("deepseek-v3", v3);
    assert_eq!(files.quantised, Some(Packed::Fp8));
    assert!(files.remarks[0].contains("predict further tokens"), "{:?}", files.remarks);
    check(
        "deepseek-v2-lite",
        r#"{"model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048,
            "intermediate_size": 10944, "kv_lora_rank": 512, "moe_intermediate_size": 1408,
            "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
            "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
            "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "vocab_size": 102400}"#,
    );
}

/// Layers that attend to a window, by the list of all of them.
#[test]
fn windows_of_some_layers_are_read_where_they_repeat() {
    let of = |types: &str| {
        let text = format!(
            r#"{{"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 64,
            "intermediate_size": 64, "num_attention_heads": 4, "num_experts_per_tok": 2,
            "num_hidden_layers": 5, "num_key_value_heads": 2, "num_local_experts": 4,
            "sliding_window": 128, "vocab_size": 100{types}}}"#
        );
        let files = read("windows", &text);
        let Card { window, full_attention_every, .. } = files.card;
        (window, full_attention_every, files.remarks)
    };
    let listed = |types: [u8; 5]| {
        let word = |&of: &u8| if of == 0 { "\"sliding_attention\"" } else { "\"full_attention\"" };
        of(&format!(
            ", \"layer_types\": [{}]",
            types.iter().map(word).collect::<Vec<_>>().join(",")
        ))
    };
    assert_eq!(of(""), (Some(128), Some(2), vec![]));
    assert_eq!(listed([0, 1, 0, 1, 0]), (Some(128), Some(2), vec![]));
    assert_eq!(listed([0, 0, 0, 1, 0]), (Some(128), Some(4), vec![]));
    assert_eq!(listed([0; 5]), (Some(128), None, vec![]));
    assert_eq!(listed([1; 5]), (None, None, vec![]));
    let (window, every, remarks) = listed([1, 0, 1, 0, 1]);
    assert_eq!((window, every), (None, None));
    assert!(remarks[0].contains("in no order that repeats"), "{remarks:?}");
}

/// Parameters as the weights' own lists of published models have them, from memory.
#[test]
fn types_whose_blocks_are_those_of_llama_have_as_many_parameters_as_published() {
    let count = |name: &str, text: &str| read(name, text).card.parameters();
    let gemma = r#"{"model_type": "gemma", "head_dim": 256, "hidden_act": "gelu", "hidden_size": 2048,
        "intermediate_size": 16384, "num_attention_heads": 8, "num_hidden_layers": 18,
        "num_key_value_heads": 1, "vocab_size": 256000}"#;
    assert_eq!(count("gemma-2b", gemma), 2_506_172_416);
    assert!(read("gemma-2b", gemma).remarks[0].contains("its gate is GeLU"));
    let phi3 = r#"{"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064}"#;
    assert_eq!(count("phi-3-mini", phi3), 3_821_079_552);
    assert_eq!(read("phi-3-mini", phi3).card.window, Some(2047));
    let phi4 = r#"{"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
        "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 10,
        "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 100352}"#;
    assert_eq!(count("phi-4", phi4), 14_659_507_200);
    let granite = r#"{"model_type": "granite", "attention_bias": false, "hidden_size": 4096,
        "intermediate_size": 12800, "mlp_bias": false, "num_attention_heads": 32,
        "num_hidden_layers": 40, "num_key_value_heads": 8, "tie_word_embeddings": true,
        "vocab_size": 49155}"#;
    assert_eq!(count("granite-3.0-8b", granite), 8_170_848_256);
    let glm = r#"{"model_type": "glm", "attention_bias": true, "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 13696, "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 2, "tie_word_embeddings": false, "vocab_size": 151552}"#;
    assert_eq!(count("glm-4-9b", glm), 9_399_951_360);
    let smollm3 = r#"{"model_type": "smollm3", "attention_bias": false, "hidden_size": 2048,
        "intermediate_size": 11008, "mlp_bias": false, "num_attention_heads": 16,
        "num_hidden_layers": 36, "num_key_value_heads": 4, "use_sliding_window": false,
        "vocab_size": 128256}"#;
    assert_eq!(count("smollm3-3b", smollm3), 3_075_098_624);
}

#[test]
fn a_shared_expert_is_as_wide_as_several() {
    let model = read(
        "qwen1.5-moe-a2.7b",
        r#"{"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
            "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
            "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
            "num_hidden_layers": 24, "num_key_value_heads": 16, "decoder_sparse_step": 1,
            "vocab_size": 151936}"#,
    );
    let experts = Experts { count: 60, active: 4, ffn: 1408, shared: 4, dense_first: 0 };
    assert_eq!((model.card.experts, model.card.qkv_bias), (Some(experts), true));
    assert_eq!(model.card.parameters(), 14_315_784_192);
}

const TINY: &str = r#""hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 100"#;

fn tiny(name: &str, more: &str) -> ModelFiles {
    read(name, &format!("{{{TINY}, {more}}}"))
}

#[test]
fn what_is_left_out_has_the_default_of_its_class() {
    let Card { kv_heads, head_dim, tied, qkv_bias, window, .. } =
        tiny("defaults", r#""model_type": "llama""#).card;
    assert_eq!((kv_heads, head_dim, tied, qkv_bias, window), (4, 16, false, false, None));
    let qwen3 = tiny("qwen3", r#""model_type": "qwen3", "num_key_value_heads": 2"#).card;
    assert_eq!((qwen3.family, qwen3.head_dim, qwen3.qkv_bias), (Family::Qwen, 128, false));
    let glm = tiny("glm", r#""model_type": "glm4", "num_key_value_heads": 2"#).card;
    assert_eq!((glm.head_dim, glm.qkv_bias), (128, true));
    let deepseek = r#""kv_lora_rank": 8, "moe_intermediate_size": 16, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "num_key_value_heads": 4, "num_hidden_layers": 5,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "hidden_size": 64,
        "intermediate_size": 96, "num_attention_heads": 4, "vocab_size": 100, "head_dim": 4"#;
    let of = |kind: &str| read(kind, &format!(r#"{{"model_type": "{kind}", {deepseek}}}"#)).card;
    for (kind, shared, dense_first) in [("deepseek_v2", 2, 0), ("deepseek_v3", 1, 3)] {
        let Card { experts, latent, head_dim, .. } = of(kind);
        let experts = experts.expect("it has experts");
        assert_eq!((experts.shared, experts.dense_first, head_dim), (shared, dense_first, 12));
        assert_eq!(latent.expect("it is compressed").queries, Some(1536));
    }
    let tied = tiny("tied", r#""model_type": "llama", "tie_word_embeddings": true"#).card;
    assert!(tied.tied);
    let biased = tiny("biased", r#""model_type": "llama", "attention_bias": true"#).card;
    // Queries, keys, values and the output.
    assert_eq!(biased.block(0).iter().filter(|part| part.name.ends_with(".bias")).count(), 4);
}

#[test]
fn the_type_of_numbers_is_read() {
    let format = |more: &str| tiny("dtype", &format!(r#""model_type": "llama", {more}"#)).format;
    assert_eq!(format(r#""torch_dtype": "bfloat16""#), Some(Format::Bf16));
    assert_eq!(format(r#""dtype": "float16""#), Some(Format::Fp16));
    assert_eq!(format(r#""torch_dtype": "auto""#), None);
}

#[test]
fn windows_of_some_layers_and_quantised_weights_are_remarked() {
    let qwen = r#""model_type": "qwen2", "num_key_value_heads": 4, "use_sliding_window": true,
        "sliding_window": 16"#;
    let some = tiny("some", &format!("{qwen}, \"max_window_layers\": 1"));
    assert_eq!(some.card.window, None);
    assert!(some.remarks[0].contains("layers from 1 on attend to 16"), "{:?}", some.remarks);
    let all = tiny("all", &format!("{qwen}, \"max_window_layers\": 0"));
    assert_eq!((all.card.window, all.remarks.len()), (Some(16), 0));
    let quantised = tiny(
        "quantised",
        r#""model_type": "llama", "quantization_config": {"quant_method": "hqq", "deep": [1, {}]}"#,
    );
    assert!(quantised.remarks[0].contains("quantised"), "{:?}", quantised.remarks);
}

/// As makers of packed checkpoints write them.
#[test]
fn how_matrices_are_stored_is_read_where_it_is_known() {
    let int4 = |group| Some(Packed::Int4 { group });
    let nf4 = |double| Some(Packed::Nf4 { group: 64, double });
    let [fp8, int8] = [Packed::Fp8, Packed::Int8].map(Some);
    let compressed = |weights: &str| {
        format!(
            r#"{{"quant_method": "compressed-tensors", "config_groups": {{"group_0": {{"weights": {weights}, "targets": ["Linear"]}}}}, "format": "x"}}"#
        )
    };
    for (text, wanted) in [
        (r#"{"bits": 4, "group_size": 64, "quant_method": "awq", "version": "gemm", "zero_point": true}"#.to_owned(), int4(64)),
        (r#"{"quant_method": "awq"}"#.to_owned(), int4(128)),
        // A scale for each row, of 64 numbers.
        (r#"{"bits": 4, "group_size": -1, "quant_method": "gptq", "desc_act": false}"#.to_owned(), int4(64)),
        (r#"{"bits": 8, "group_size": 128, "quant_method": "gptq"}"#.to_owned(), int8),
        (r#"{"bits": 3, "group_size": 128, "quant_method": "gptq"}"#.to_owned(), None),
        (r#"{"bits": 4, "group_size": 0, "quant_method": "gptq"}"#.to_owned(), None),
        (r#"{"activation_scheme": "dynamic", "quant_method": "fp8", "weight_block_size": [128, 128]}"#.to_owned(), fp8),
        (r#"{"load_in_8bit": true}"#.to_owned(), int8),
        (r#"{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true}"#.to_owned(), nf4(true)),
        (r#"{"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false}"#.to_owned(), nf4(false)),
        (r#"{"quant_method": "mxfp4", "modules_to_not_convert": []}"#.to_owned(), Some(Packed::Mxfp4)),
        (compressed(r#"{"num_bits": 8, "type": "float", "strategy": "channel"}"#), fp8),
        (compressed(r#"{"num_bits": 4, "type": "int", "group_size": 128}"#), int4(128)),
        (compressed(r#"{"num_bits": 8, "type": "int", "group_size": null}"#), int8),
        (compressed(r#"{"num_bits": 4, "type": "float", "group_size": 16}"#), None),
        (compressed("null"), None),
        (r#"{"quant_method": "compressed-tensors"}"#.to_owned(), None),
        (r#"{"quant_method": "aqlm"}"#.to_owned(), None),
        ("{}".to_owned(), None),
    ] {
        let model = tiny("stored", &format!(r#""model_type": "llama", "quantization_config": {text}"#));
        assert_eq!(model.quantised, wanted, "{text}");
        assert_eq!(model.remarks.len(), usize::from(wanted.is_none()), "{text}");
    }
}

#[test]
fn a_model_is_called_like_its_file_or_its_folder() {
    let text = format!("{{{TINY}, \"model_type\": \"llama\"}}");
    let path = file("my-model", "config.json", &text);
    assert_eq!(read_model(&path, None).expect("it reads").card.name, "my-model");
    assert_eq!(read("other", &text).card.name, "other");
}
