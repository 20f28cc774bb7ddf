//! Bad files: a message with place, rule and remedy, and never a panic.

use crate::cards::files::{header, safetensors};
use crate::files::file;
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
fn a_long_type_is_not_repeated_in_full() {
    let long = changed("llama", &"long".repeat(100_000));
    assert!(long.len() < 1000, "{} bytes", long.len());
}

#[test]
fn what_is_no_config_is_refused() {
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
