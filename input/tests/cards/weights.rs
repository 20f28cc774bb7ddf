//! Weights are the truth: where a card says otherwise, they win and it is said.

use crate::cards::files::{TINY, header, safetensors};
use crate::files::{file, folder};
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::import::card::{ModelFiles, read_model, read_weights};
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::format::Format;

/// A tiny model's config in a folder, and its card.
fn config(name: &str) -> (PathBuf, Card) {
    let path = file(name, "config.json", TINY);
    let card = read_model(&path, None).expect("the config reads").card;
    (path, card)
}

type Rows<'a> = Vec<(String, &'a str, Vec<u64>)>;

/// The tensors of a card as a file holds them, of one type.
fn rows<'a>(card: &Card, dtype: &'a str) -> Rows<'a> {
    card.stored().map(|tensor| (tensor.name, dtype, tensor.shape)).collect()
}

fn write(config: &Path, rows: &Rows<'_>) -> PathBuf {
    let (text, data) = header(rows);
    let path = config.with_file_name("model.safetensors");
    fs::write(&path, safetensors(&text, data)).expect("the weights are written");
    path
}

fn read(config: &Path, rows: &Rows<'_>) -> ModelFiles {
    let weights = write(config, rows);
    read_model(config, Some(&weights)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(config: &Path, rows: &Rows<'_>) -> String {
    let weights = write(config, rows);
    read_model(config, Some(&weights)).expect_err("they do not belong together").to_string()
}

#[test]
fn weights_that_agree_say_format_and_bytes() {
    for (dtype, format, width) in [
        ("F32", Format::Fp32, 4),
        ("F16", Format::Fp16, 2),
        ("BF16", Format::Bf16, 2),
        ("F8_E4M3", Format::Fp8, 1),
        ("I8", Format::Int8, 1),
    ] {
        let (path, card) = config("agree");
        let model = read(&path, &rows(&card, dtype));
        assert_eq!((model.card.clone(), model.format), (card, Some(format)));
        assert_eq!(model.bytes, Some(model.card.parameters() * width));
        assert_eq!(model.remarks, Vec::<String>::new(), "{dtype}");
    }
}

/// Phi-3 stores queries, keys and values as one matrix, and so gates and their fellows; GLM the latter.
#[test]
fn matrices_that_are_stored_as_one_are_known() {
    for joined in [&["qkv_proj", "gate_up_proj"][..], &["gate_up_proj"]] {
        let (path, card) = config("joined");
        let mut stored: Rows<'_> = Vec::new();
        for (name, dtype, shape) in rows(&card, "BF16") {
            let parts = [("q_proj", "qkv_proj"), ("k_proj", "qkv_proj"), ("v_proj", "qkv_proj")];
            let parts = parts
                .into_iter()
                .chain([("gate_proj", "gate_up_proj"), ("up_proj", "gate_up_proj")]);
            let one = parts
                .into_iter()
                .find(|(part, one)| joined.contains(one) && name.contains(&format!(".{part}.")));
            let name = one.map_or(name.clone(), |(part, one)| name.replace(part, one));
            match stored.last_mut().filter(|(last, ..)| *last == name) {
                Some((_, _, rows)) => rows[0] += shape[0],
                None => stored.push((name, dtype, shape)),
            }
        }
        let model = read(&path, &stored);
        assert_eq!((model.card.clone(), model.bytes), (card, Some(2 * model.card.parameters())));
        assert_eq!(model.remarks, Vec::<String>::new(), "{joined:?}");
        let (_, _, shape) =
            stored.iter_mut().find(|(name, ..)| name.contains("gate_up")).expect("it is there");
        shape[0] += 1;
        assert!(refused(&path, &stored).contains("gate_up_proj"));
    }
}

#[test]
fn another_vocabulary_is_taken_and_said() {
    let (path, card) = config("vocabulary");
    let other = Card { vocab: 104, ..card };
    let model = read(&path, &rows(&other, "BF16"));
    assert_eq!(model.card, other);
    assert_eq!(model.bytes, Some(2 * other.parameters()));
    let said = ["the card says 100 rows of tokens, the weights have 104: 104 count"];
    assert_eq!(model.remarks, said);
}

#[test]
fn a_head_is_what_the_weights_have() {
    let (path, card) = config("head");
    let tied = Card { tied: true, ..card.clone() };
    let model = read(&path, &rows(&tied, "BF16"));
    assert_eq!(model.card, tied);
    assert!(model.remarks[0].contains("it is the embedding's"), "{:?}", model.remarks);
    let text = TINY.replace('}', ", \"tie_word_embeddings\": true}");
    fs::write(&path, text).expect("the config is written");
    let model = read(&path, &rows(&card, "BF16"));
    assert_eq!(model.card, card);
    assert!(model.remarks[0].contains("both count"), "{:?}", model.remarks);
}

#[test]
fn a_shared_tensor_is_stored_once_under_any_of_its_names() {
    let (path, card) = config("shared");
    let text = TINY.replace('}', ", \"tie_word_embeddings\": true}");
    fs::write(&path, text).expect("the config is written");
    let tied = Card { tied: true, vocab: 102, ..card };
    let mut tensors = rows(&tied, "F32");
    tensors[0].0 = "lm_head.weight".into();
    let model = read(&path, &tensors);
    assert_eq!((model.card.tied, model.card.vocab), (true, 102));
    assert_eq!(model.bytes, Some(4 * tied.parameters()));
}

#[test]
fn int8_with_scales_counts_every_byte() {
    let (path, card) = config("int8");
    let mut tensors = rows(&card, "I8");
    // What bitsandbytes writes: matrices of blocks in int8 with a scale per row, all else in 16
    // bits.
    let mut scales = Vec::new();
    for (name, dtype, shape) in &mut tensors {
        if name.contains("_proj") {
            scales.push((
                format!("{}.SCB", name.trim_end_matches(".weight")),
                "F32",
                vec![shape[0]],
            ));
        } else {
            *dtype = "F16";
        }
    }
    let of_scales: u64 = scales.iter().map(|(_, _, shape)| 4 * shape[0]).sum();
    let count = scales.len();
    tensors.extend(scales);
    let model = read(&path, &tensors);
    assert_eq!(model.format, Some(Format::Int8));
    let (_, bytes) = header(&tensors);
    assert_eq!(model.bytes, Some(bytes as u64));
    let said = model.remarks.join("\n");
    assert!(
        said.contains(&format!("{count} tensors of the weights are none of the card's")),
        "{said}"
    );
    assert!(said.contains(&format!("{of_scales} bytes")), "{said}");
    assert!(said.contains("of int8 have"), "{said}");
}

#[test]
fn weights_of_another_model_are_refused() {
    let (path, card) = config("another");
    let fewer = Card { layers: 1, ..card.clone() };
    let said = refused(&path, &rows(&fewer, "BF16"));
    assert!(said.contains("9 of its 21 tensors are missing"), "{said}");
    assert!(said.contains("no `model.layers.1.self_attn.q_proj.weight`"), "{said}");
    let more = Card { layers: 3, ..card.clone() };
    let said = refused(&path, &rows(&more, "BF16"));
    assert!(said.contains("has 2 blocks (found `layers.2."), "{said}");
    let wider = Card { ffn: 128, ..card };
    let said = refused(&path, &rows(&wider, "BF16"));
    assert!(
        said.contains("`model.layers.0.mlp.gate_proj.weight` has the shape [96, 64]"),
        "{said}"
    );
    assert!(said.contains("found [128, 64]"), "{said}");
}

#[test]
fn names_may_lack_what_the_class_puts_before_them() {
    let (path, card) = config("bare");
    let mut tensors = rows(&card, "BF16");
    for (name, ..) in &mut tensors {
        *name = name.trim_start_matches("model.").to_owned();
    }
    assert_eq!(read(&path, &tensors).card, card);
}

#[test]
fn an_index_alone_says_names_and_bytes() {
    let (path, card) = config("index");
    let index = |total: u64| {
        let names = card.stored().map(|tensor| format!("\"{}\": \"a.safetensors\"", tensor.name));
        let names: Vec<String> = names.collect();
        let text = format!(
            "{{\"metadata\": {{\"total_size\": {total}}}, \"weight_map\": {{{}}}}}",
            names.join(",")
        );
        let path = path.with_file_name("model.safetensors.index.json");
        fs::write(&path, text).expect("the index is written");
        path
    };
    let all = card.parameters();
    let read = |total| read_model(&path, Some(&index(total))).expect("it reads");
    let exact = read(4 * all);
    assert_eq!((exact.format, exact.remarks.len()), (Some(Format::Fp32), 0));
    let close = read(2 * all + 64);
    assert_eq!(close.format, Some(Format::Bf16));
    assert!(close.remarks[0].contains("64 more"), "{:?}", close.remarks);
    let odd = read(3 * all);
    assert_eq!((odd.format, odd.bytes), (None, Some(3 * all)));
    assert!(odd.remarks[0].contains("no known format"), "{:?}", odd.remarks);
}

#[test]
fn the_files_that_an_index_names_are_read_where_they_are() {
    let here = folder("shards");
    let shards = [("a", "F32", 4), ("b", "BF16", 6)];
    let mut map = Vec::new();
    for (name, dtype, size) in shards {
        let (text, data) = header(&[(name.into(), dtype, vec![size])]);
        let file = here.join(format!("{name}.safetensors"));
        fs::write(file, safetensors(&text, data)).expect("a shard is written");
        map.push(format!("\"{name}\": \"{name}.safetensors\""));
    }
    let index = here.join("model.safetensors.index.json");
    let write = |total: u64| {
        let map = map.join(",");
        let text =
            format!("{{\"metadata\": {{\"total_size\": {total}}}, \"weight_map\": {{{map}}}}}");
        fs::write(&index, text).expect("the index is written");
    };
    write(28);
    let table = read_weights(&index).expect("they read");
    assert_eq!((table.tensors.len(), table.bytes), (2, 28));
    write(29);
    let said = read_weights(&index).expect_err("the sums differ").to_string();
    assert!(said.contains("hold 28 bytes of tensors (found total_size 29)"), "{said}");
    fs::remove_file(here.join("b.safetensors")).expect("a shard goes");
    let said = read_weights(&index).expect_err("one is missing").to_string();
    assert!(said.contains("all files that it names are there, or none: 1 of 2"), "{said}");
}
