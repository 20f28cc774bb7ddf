//! The tensors that files of weights hold: names, types, shapes and bytes.
//!
//! Three kinds of file say so: a `.safetensors` file by its header (`header`), that header by
//! itself as JSON, and `model.safetensors.index.json`, which names the tensors of several files and
//! their bytes in all. Where the files that an index names lie beside it, their headers are read
//! too.
//! Invariant: the bytes of a table are at least those of its tensors.

use super::header::{MAX_HEADER, Texts, read_bare, read_safetensors};
use super::{parse, read_bytes};
use crate::file_kind::{FileKind, refused};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_workloads::transformer::format::Format;

/// The type of a tensor's numbers, as the format names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dtype {
    /// Its word, such as `BF16`.
    pub word: &'static str,
    bits: u64,
    format: Option<Format>,
}

impl Dtype {
    /// Words, bits and the format that such weights have.
    pub(super) const ALL: [(&'static str, u64, Option<Format>); 18] = [
        ("F64", 64, None),
        ("F32", 32, Some(Format::Fp32)),
        ("F16", 16, Some(Format::Fp16)),
        ("BF16", 16, Some(Format::Bf16)),
        ("F8_E4M3", 8, Some(Format::Fp8)),
        ("F8_E5M2", 8, Some(Format::Fp8)),
        ("F8_E8M0", 8, Some(Format::Fp8)),
        ("F6_E2M3", 6, None),
        ("F6_E3M2", 6, None),
        ("F4", 4, None),
        ("I64", 64, None),
        ("I32", 32, None),
        ("I16", 16, None),
        ("I8", 8, Some(Format::Int8)),
        ("U32", 32, None),
        ("U16", 16, None),
        ("U8", 8, Some(Format::Int8)),
        ("BOOL", 8, None),
    ];

    /// The type that `word` names.
    pub fn from_word(word: &str) -> Option<Dtype> {
        let found = Dtype::ALL.into_iter().find(|(known, ..)| *known == word);
        found.map(|(word, bits, format)| Dtype { word, bits, format })
    }

    /// The format of weights of this type, if there is one.
    pub fn format(self) -> Option<Format> {
        self.format
    }

    /// Bytes of a tensor; `None` from 2^63 on.
    pub fn bytes_of(self, shape: &[u64]) -> Option<u64> {
        let numel = shape.iter().try_fold(1u64, |all, &size| all.checked_mul(size))?;
        let bytes = numel.checked_mul(self.bits)?.div_ceil(8);
        (bytes < 1 << 63).then_some(bytes)
    }
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// The type of its numbers.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Bytes of its data.
    pub bytes: u64,
}

/// The tensors of a model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightTable {
    /// Every tensor; empty where only names are known.
    pub tensors: Vec<Stored>,
    /// The names of all tensors, and of those that stand for another one.
    pub names: BTreeSet<String>,
    /// Bytes of all tensors.
    pub bytes: u64,
}

impl WeightTable {
    pub(super) fn of(tensors: Vec<Stored>, metadata: BTreeMap<String, String>) -> WeightTable {
        let mut names: BTreeSet<String> =
            tensors.iter().map(|tensor| tensor.name.clone()).collect();
        // Tensors that share their data are stored once; the metadata names the others.
        let shared = metadata.into_iter().filter(|(_, stored)| names.contains(stored));
        let shared: Vec<String> = shared.map(|(name, _)| name).collect();
        names.extend(shared);
        // Each is the length of data of one file: a sum beyond 64 bits is no file.
        let bytes = tensors.iter().fold(0, |all: u64, tensor| all.saturating_add(tensor.bytes));
        WeightTable { tensors, names, bytes }
    }

    /// The format that most bytes have.
    pub fn format(&self) -> Option<Format> {
        let mut by_format: BTreeMap<Option<Format>, u64> = BTreeMap::new();
        for tensor in &self.tensors {
            let bytes = by_format.entry(tensor.dtype.format).or_default();
            *bytes = bytes.saturating_add(tensor.bytes);
        }
        by_format.into_iter().max_by_key(|(_, bytes)| *bytes).and_then(|(format, _)| format)
    }
}

/// `model.safetensors.index.json`.
#[derive(Debug, Deserialize)]
struct Index {
    metadata: Metadata,
    weight_map: Texts,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    total_size: u64,
}

/// Most files that an index names.
const MAX_SHARDS: usize = 10_000;

/// The tensors of a `.safetensors` file, of its header as JSON, or of an index.
///
/// # Errors
/// What is wrong with the file, or with one that an index names and that is there.
pub fn read_weights(path: &Path) -> Result<WeightTable, Diagnostics> {
    read_by_name(path).map_err(|said| refused(path, &[FileKind::Safetensors], said))
}

fn read_by_name(path: &Path) -> Result<WeightTable, Diagnostics> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".index.json") {
        read_index(path)
    } else if name.ends_with(".json") {
        read_bare(path)
    } else if name.ends_with(".safetensors") {
        read_safetensors(path)
    } else {
        let rule = "the name of a file of weights says what it is";
        let remedy = "call it .safetensors, .index.json, or .json for a header by itself";
        Err(Diagnostics::one(path, None, rule, format!("{name:.80}"), remedy))
    }
}

fn read_index(path: &Path) -> Result<WeightTable, Diagnostics> {
    let bytes = read_bytes(path, MAX_HEADER)?;
    let remedy = "a model.safetensors.index.json is wanted";
    let index: Index = parse(path, &bytes, remedy)?;
    let total = index.metadata.total_size;
    let shards: BTreeSet<&str> = index.weight_map.0.values().map(String::as_str).collect();
    if shards.len() > MAX_SHARDS {
        let rule = format!("an index names at most {MAX_SHARDS} files");
        return Err(Diagnostics::one(path, None, rule, shards.len().to_string(), remedy));
    }
    let plain = |name: &&str| {
        let of_a_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        name.ends_with(".safetensors") && name.chars().all(of_a_name)
    };
    if let Some(bad) = shards.iter().find(|name| !plain(name)) {
        let rule = "an index names .safetensors files beside it";
        let found = format!("{:.80}", format!("{bad:?}"));
        return Err(Diagnostics::one(path, None, rule, found, "correct the name"));
    }
    let beside: Vec<_> = shards.iter().map(|name| path.with_file_name(name)).collect();
    let there = beside.iter().filter(|shard| shard.is_file()).count();
    if there == 0 {
        let names = index.weight_map.0.into_keys().collect();
        return Ok(WeightTable { tensors: Vec::new(), names, bytes: total });
    }
    if there < beside.len() {
        let rule =
            format!("all files that it names are there, or none: {there} of {}", beside.len());
        let remedy = "fetch the others, or put the index into a folder by itself";
        return Err(Diagnostics::one(path, None, rule, "", remedy));
    }
    let (mut tensors, mut names) = (Vec::new(), BTreeSet::new());
    for shard in &beside {
        let mut table = read_safetensors(shard)?;
        tensors.append(&mut table.tensors);
        names.append(&mut table.names);
    }
    let table = WeightTable::of(tensors, BTreeMap::new());
    if table.bytes != total {
        let rule = format!("the files that it names hold {} bytes of tensors", table.bytes);
        let found = format!("total_size {total}");
        return Err(Diagnostics::one(path, None, rule, found, "fetch the index and files again"));
    }
    Ok(WeightTable { names, ..table })
}
