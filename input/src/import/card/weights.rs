//! Files of weights, as tables of the tensors that they hold.
//!
//! Three kinds of file say so: a `.safetensors` file by its header (`header`), that header by
//! itself as JSON, and `model.safetensors.index.json`, which names the tensors of several files and
//! their bytes in all. Where the files that an index names lie beside it, their headers are read
//! too.

use super::header::{MAX_HEADER, read_bare, read_safetensors};
use super::tensors::WeightTable;
use crate::file_kind::{FileKind, refused};
use crate::json::{self, Texts};
use crate::shipped;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

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
    let bytes = json::read(path, MAX_HEADER, "check what it is")?;
    let remedy = "a model.safetensors.index.json is wanted";
    let index: Index = json::object(path, &bytes, remedy)?;
    let total = index.metadata.total_size;
    let Texts(tensors) = index.weight_map;
    let shards: BTreeSet<&str> = tensors.iter().map(|(_, shard)| shard.as_str()).collect();
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
    let there = beside.iter().filter(|shard| shard.is_file() || shipped::is_shipped(shard)).count();
    if there == 0 {
        let names = tensors.into_iter().map(|(name, _)| name).collect();
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
