//! Types whose configs have words of their own, as published: the known cards, and what of them is
//! refused.

use crate::files::file;
use tiersim_input::import::card::{ModelFiles, read_model};
use tiersim_workloads::transformer::known::known;

fn read(name: &str, text: &str) -> Result<ModelFiles, String> {
    let path = file(&format!("own-{name}"), &format!("{name}.config.json"), text);
    read_model(&path, None).map_err(|problems| problems.to_string())
}

/// A config that means the known card of the same name.
fn check(name: &str, text: &str) {
    let read = read(name, text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(read.card, known(name).expect("it is known").card());
}

/// `text` with `from` as `to` is refused, for that reason.
fn refuses(text: &str, (from, to): (&str, &str), why: &str) {
    assert!(text.contains(from), "{from}");
    let problems = read("refused", &text.replace(from, to)).expect_err("it is refused");
    assert!(problems.contains(why), "{problems}");
}

#[test]
fn biases_of_phi_moe_are_of_attention_and_head_alike() {
    let text = r#"{"model_type": "phimoe", "attention_bias": true, "hidden_size": 4096,
        "intermediate_size": 6400, "lm_head_bias": true, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 16, "sliding_window": null, "vocab_size": 32064}"#;
    check("phi-3.5-moe", text);
    let why = "the head has a bias where attention has biases";
    refuses(text, (r#""lm_head_bias": true"#, r#""lm_head_bias": false"#), why);
    refuses(text, (r#""attention_bias": true"#, r#""attention_bias": false"#), why);
}

#[test]
fn experts_of_granite_are_stored_together() {
    check(
        "granite-3.0-3b-a800m",
        r#"{"model_type": "granitemoe", "attention_bias": false, "hidden_size": 1536,
            "intermediate_size": 512, "num_attention_heads": 24, "num_experts_per_tok": 8,
            "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 40,
            "tie_word_embeddings": true, "vocab_size": 49155}"#,
    );
    let card = known("granite-3.0-3b-a800m").expect("it is known").card();
    let stored: Vec<_> = card.stored().filter(|tensor| tensor.block == Some(31)).collect();
    let shape = |name: &str| {
        let name = format!("model.layers.31.block_sparse_moe.{name}.weight");
        stored.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape.clone())
    };
    assert_eq!(shape("input_linear"), Some(vec![40, 1024, 1536]));
    assert_eq!(shape("output_linear"), Some(vec![40, 1536, 512]));
    assert_eq!(shape("router.layer"), Some(vec![40, 1536]));
}

#[test]
fn llama_4_attends_within_chunks_and_has_experts_in_all_blocks() {
    let text = r#"{"model_type": "llama4", "text_config": {"model_type": "llama4_text",
        "attention_bias": false, "attention_chunk_size": 8192, "head_dim": 128,
        "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "no_rope_layers": [], "num_attention_heads": 40,
        "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
        "num_local_experts": 16, "use_qk_norm": true, "vocab_size": 202048},
        "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;
    check("llama-4-scout", text);
    let remarks = read("scout", text).expect("it is read").remarks;
    assert!(
        remarks.iter().any(|remark| remark.contains("chunks of 8192 positions")),
        "{remarks:?}"
    );
    let windows = |chunk: &str, turned: &str| {
        let text = text.replace("8192, \"head", &format!("{chunk}, \"head"));
        let text = text.replace("[]", turned).replace(": 48", ": 4");
        let card = read("chunks", &text).expect("it is read").card;
        (card.window, card.full_attention_every)
    };
    assert_eq!(windows("64", "[]"), (Some(64), Some(4)));
    assert_eq!(windows("64", "[1, 0, 1, 0]"), (Some(64), Some(2)));
    assert_eq!(windows("64", "[1, 1, 1, 1]"), (Some(64), None));
    assert_eq!(windows("null", "[]"), (None, None));
    refuses(text, ("step\": 1", "step\": 2"), "every block has experts");
    refuses(text, ("[]", "[], \"moe_layers\": [1, 3]"), "every block has experts");
    refuses(text, ("norm\": true", "norm\": false"), "queries and keys have norms");
}

#[test]
fn mpt_has_positions_of_alibi_and_no_biases() {
    let text = r#"{"model_type": "mpt", "attn_config": {"alibi": true, "alibi_bias_max": 8,
        "attn_type": "multihead_attention", "qk_ln": false}, "d_model": 4096,
        "expansion_ratio": 4, "max_seq_len": 2048, "n_heads": 32, "n_layers": 32,
        "no_bias": true, "vocab_size": 50432}"#;
    check("mpt-7b", text);
    refuses(text, ("alibi\": true", "alibi\": false"), "positions are ALiBi's");
    refuses(text, ("multihead", "multiquery"), "every head has its own keys and values");
    refuses(text, ("qk_ln\": false", "qk_ln\": true"), "queries and keys have no norms");
    refuses(text, ("no_bias\": true", "no_bias\": false"), "no biases");
    refuses(text, ("ratio\": 4", "ratio\": 2"), "four times as wide");
}

#[test]
fn dbrx_says_what_its_parts_are_in_parts() {
    check(
        "dbrx",
        r#"{"model_type": "dbrx", "attn_config": {"clip_qkv": 8, "kv_n_heads": 8,
            "rope_theta": 500000}, "d_model": 6144, "ffn_config": {"ffn_hidden_size": 10752,
            "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05, "moe_num_experts": 16,
            "moe_top_k": 4}, "max_seq_len": 32768, "n_heads": 48, "n_layers": 40,
            "tie_word_embeddings": false, "vocab_size": 100352}"#,
    );
}
