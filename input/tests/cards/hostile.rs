//! Bad files: a message with place, rule and remedy, and never a panic.

use crate::cards::files::{file, header, safetensors};
use std::fmt::Write;
use tiersim_input::import::card::{read_model, read_weights};

const TINY: &str = "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 64,\n  \
    \"intermediate_size\": 96,\n  \"num_attention_heads\": 4,\n  \"num_hidden_layers\": 2,\n  \
    \"vocab_size\": 100\n}";

/// What is said of a config.
fn said(text: impl AsRef<[u8]>) -> String {
    let path = file("hostile-config", "config.json", text);
    let problems = read_model(&path, None).expect_err("it is refused").to_string();
    problems.replace(&path.display().to_string(), "FILE")
}

/// What is said of the config with one text in the place of another.
fn changed(from: &str, to: &str) -> String {
    assert!(TINY.contains(from));
    said(TINY.replace(from, to))
}

#[track_caller]
fn expect(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} not in:\n{said}");
    }
}

#[test]
fn a_wrong_value_is_told_with_its_place() {
    expect(&changed("64", "-1"), &["FILE:3:19: invalid value: integer `-1`, expected u32"]);
    expect(&changed("64", "64.5"), &["FILE:3:21: invalid type: floating point `64.5`"]);
    expect(&changed("64", "\"64\""), &["FILE:3:21: invalid type: string"]);
    expect(&changed("64", "99999999999"), &["FILE:3:28: invalid value: integer `99999999999`"]);
    expect(
        &changed("64,", "64, \"hidden_size\": 65,"),
        &["FILE:3:34: duplicate field `hidden_size`"],
    );
    expect(&changed("64", "0"), &["FILE:3:3: `hidden` must lie between 1 and 1048576, and is 0"]);
    expect(&changed("2,", "2000000,"), &["FILE:6:3: `layers` must lie between 1 and 10000"]);
    expect(
        &changed("heads\": 4,", "heads\": 5,"),
        &["FILE:5:3: 5 heads must divide the width of 64", "head_dim"],
    );
    expect(&changed("heads\": 4,", "heads\": 0,"), &["FILE:5:3: 0 heads"]);
}

#[test]
fn a_missing_field_is_named() {
    expect(&changed("\"vocab_size\": 100", "\"more\": 1"), &["FILE:2:3", "has `vocab_size`"]);
    let both = changed("\"hidden_size\": 64,", "\"hidden_size\": 64, \"n_embd\": 32,");
    expect(&both, &["FILE:3:22", "say different things: [32, 64]"]);
    let several = said("{\"model_type\": \"opt\"}");
    expect(&several, &["max_position_embeddings"]);
    expect(&said("{}"), &["a config has `model_type`", "gpt2, llama, mistral"]);
}

#[test]
fn another_type_is_refused_with_the_list_of_those_known() {
    let known =
        "known: gpt2, llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, opt, bloom";
    expect(
        &changed("llama", "mamba"),
        &["FILE:2:3: this `model_type` is not known: `mamba`", known],
    );
    let long = changed("llama", &"long".repeat(100_000));
    assert!(long.len() < 1000, "{} bytes", long.len());
}

#[test]
fn what_a_card_cannot_say_is_refused() {
    let opt = r#"{"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_attention_heads": 16,
        "num_hidden_layers": 24, "max_position_embeddings": 2048, "vocab_size": 50272, "MORE": 0,
        "do_layer_norm_before": false, "word_embed_proj_dim": 512}"#;
    expect(
        &said(opt),
        &[
            "FILE:3:9: `do_layer_norm_before` `false` is not supported",
            "`word_embed_proj_dim` `512` is not supported: the embedding is as wide as the blocks",
            "OPT-350M",
        ],
    );
    let more = |more: &str| changed("\"vocab_size\"", &format!("{more}, \"vocab_size\""));
    expect(&more("\"mlp_bias\": true"), &["FILE:7:3: `mlp_bias` `true` is not supported"]);
    let moe = TINY.replace("llama", "qwen3_moe").replace(
        "\"vocab_size\"",
        "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, \
         \"num_key_value_heads\": 2, \"mlp_only_layers\": [0, 1], \"decoder_sparse_step\": 2, \
         \"vocab_size\"",
    );
    expect(
        &said(&moe),
        &["`mlp_only_layers` `[0, 1]` is not supported", "`decoder_sparse_step` `2`"],
    );
    let many = TINY.replace("llama", "mixtral").replace(
        "\"vocab_size\"",
        "\"num_local_experts\": 4, \"num_experts_per_tok\": 5, \"num_key_value_heads\": 2, \"vocab_size\"",
    );
    expect(&said(&many), &["FILE:7:27: 5 experts of a token are more than the 4 there are"]);
}

#[test]
fn what_is_no_config_is_refused() {
    expect(&said(""), &["FILE:1: EOF while parsing a value", "config.json of Hugging Face"]);
    expect(&said("[1, 2]"), &["FILE:1:1: a JSON object is wanted"]);
    expect(&said("{\"model_type\": \"llama\""), &["EOF while parsing an object"]);
    expect(&said(b"{\"model_type\": \"\xff\"}"), &["invalid unicode"]);
    expect(&said("[".repeat(100_000)), &["FILE:1:"]);
    expect(&said(" ".repeat((1 << 20) + 1)), &["at most 1048576 bytes"]);
    let missing = file("hostile-config", "other.json", "{}").with_file_name("none.json");
    expect(&read_model(&missing, None).expect_err("none").to_string(), &["cannot be read"]);
    let folder = missing.parent().expect("a folder");
    expect(&read_model(folder, None).expect_err("none").to_string(), &["not a regular file"]);
}

/// What is said of a file of weights.
fn refused(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = file("hostile-weights", name, bytes);
    let problems = read_weights(&path).expect_err("it is refused").to_string();
    problems.replace(&path.display().to_string(), "FILE")
}

#[test]
fn offsets_that_do_not_fit_are_refused() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let text = format!(
            "{{\"w\": {{\"dtype\": \"{dtype}\", \"shape\": {shape}, \"data_offsets\": {offsets}}}}}"
        );
        refused("model.safetensors", safetensors(&text, 8))
    };
    expect(&one("F32", "[2]", "[0, 7]"), &["`w`: F32 of this shape takes 8 bytes", "[0, 7]"]);
    expect(&one("F32", "[2]", "[8, 0]"), &["takes 8 bytes"]);
    expect(&one("F32", "[2]", "[1, 9]"), &["the data of tensor `w` begins at byte 0 (found 1)"]);
    expect(&one("F32", "[1]", "[0, 4]"), &["the tensors have 4 bytes of data (found 8)"]);
    expect(
        &one("F33", "[1]", "[0, 4]"),
        &["this dtype is not known (found F33)", "known: F64, F32"],
    );
    let huge = "[4294967296, 4294967296, 4294967296]";
    expect(&one("F32", huge, "[0, 4]"), &["less than 2^63 bytes"]);
    expect(&one("F32", "[-1]", "[0, 4]"), &["FILE:1:", "integer `-1`"]);
    let twice = "{\"w\": {\"dtype\": \"I8\", \"shape\": [1], \"data_offsets\": [0, 1]}, \"w\": {}}";
    expect(&refused("model.safetensors", safetensors(twice, 1)), &["tensor `w` is there twice"]);
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let (text, data) = header(&[("w".into(), "F32", vec![4])]);
    let good = safetensors(&text, data);
    assert!(read_weights(&file("hostile-weights", "a.safetensors", &good)).is_ok());
    for cut in 0..good.len() {
        refused("model.safetensors", &good[..cut]);
    }
    let mut long = good.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    expect(&refused("model.safetensors", &long), &["the header of this file has at most"]);
    expect(&refused("model.bin", &good), &["call it .safetensors"]);
    // Every byte of the header changed in turn: refused or read, and no panic.
    let path = file("hostile-weights", "model.safetensors", "");
    for at in 0..8 + text.len() {
        for flip in [1, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            std::fs::write(&path, &bytes).expect("the file is written");
            let _ = read_weights(&path);
        }
    }
}

#[test]
fn indexes_name_files_beside_them() {
    let index = |shard: &str| {
        format!(
            "{{\"metadata\": {{\"total_size\": 4}}, \"weight_map\": {{\"w\": {}}}}}",
            serde_json::to_string(shard).expect("a text")
        )
    };
    for shard in ["../a.safetensors", "/etc/passwd", "a\u{0}.safetensors", "b/c.safetensors", ""] {
        expect(
            &refused("model.safetensors.index.json", index(shard)),
            &["an index names .safetensors files beside it"],
        );
    }
    expect(&refused("m.index.json", "{\"weight_map\": {}}"), &["missing field `metadata`"]);
    let mut many = String::from("{\"metadata\": {\"total_size\": 4}, \"weight_map\": {");
    for number in 0..10_001 {
        let _ = write!(many, "\"t{number}\": \"{number}.safetensors\",");
    }
    many.pop();
    expect(&refused("m.index.json", many + "}}"), &["an index names at most 10000 files"]);
}
