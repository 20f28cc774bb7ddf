//! What a model is, from its files: `config.json` of Hugging Face, and the weights' own list of
//! tensors, which is the truth about sizes where it is given.
//!
//! A config states dimensions in the words of its family (`config`). A `.safetensors` file begins
//! with a table of its tensors, and `model.safetensors.index.json` lists those of several files
//! (`weights`). Where the two disagree, the weights win and a remark says so (`truth`).
//! Invariant: memory is bounded by the size of the file, and a card that is returned has no
//! problems.

mod config;
mod header;
mod tensors;
mod truth;
mod weights;

pub use tensors::{Dtype, Stored, WeightTable};
pub use weights::read_weights;

use crate::file_kind::{FileKind, refused};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::known::{KNOWN, known};

/// Most bytes of a `config.json`.
const MAX_CONFIG: u64 = 1 << 20;

/// A model, as its files or the table of known ones have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its dimensions; those of the weights where these were read.
    pub card: Card,
    /// The format that most bytes of the weights have, or that the config says they have.
    pub format: Option<Format>,
    /// Bytes of all tensors of the weights, if these were read.
    pub bytes: Option<u64>,
    /// Where weights and card disagree, and what is left out: one sentence each.
    pub remarks: Vec<String>,
}

/// The model of a `config.json`, with the weights' own sizes if they are given.
///
/// # Errors
/// All problems that were found, with their places.
pub fn read_model(config: &Path, weights: Option<&Path>) -> Result<Model, Diagnostics> {
    let said = |said| refused(config, &[FileKind::ModelCard], said);
    let model = config::read(config).map_err(said)?;
    with_weights(model, config, weights)
}

/// The known model called `name`, with the weights' own sizes if they are given; `None` if there is
/// no model of this name.
///
/// # Errors
/// All problems of the weights.
pub fn known_model(name: &str, weights: Option<&Path>) -> Option<Result<Model, Diagnostics>> {
    let card = known(name)?.card();
    let model = Model { card, format: None, bytes: None, remarks: Vec::new() };
    Some(with_weights(model, Path::new(name), weights))
}

/// The names of all known models.
pub fn known_names() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

fn with_weights(model: Model, card: &Path, path: Option<&Path>) -> Result<Model, Diagnostics> {
    let Some(path) = path else { return Ok(model) };
    let table = read_weights(path)?;
    truth::apply(model, card, &table, path)
}

/// The bytes of a file of at most `most` bytes, which is a regular file.
fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, Diagnostics> {
    let fail = |rule: &str, found: String, remedy: &str| {
        Err(Diagnostics::one(path, None, rule, found, remedy))
    };
    let cannot = |error: std::io::Error| {
        Diagnostics::one(path, None, "the file cannot be read", error.to_string(), "check the path")
    };
    let meta = std::fs::metadata(path).map_err(cannot)?;
    if !meta.is_file() {
        return fail("not a regular file", String::new(), "name a file");
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        let found = format!("{} bytes", meta.len());
        return fail(&format!("such a file has at most {most} bytes"), found, "check what it is");
    }
    Ok(bytes)
}

/// A JSON object as `T`. An array would do for serde, whose fields it would take by their order.
fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8], remedy: &str) -> Result<T, Diagnostics> {
    if let Some(first) = bytes.trim_ascii_start().first().filter(|first| **first != b'{') {
        let place = Some(Place { line: 1, column: 1 });
        let found = (*first as char).escape_default().to_string();
        return Err(Diagnostics::one(path, place, "a JSON object is wanted", found, remedy));
    }
    serde_json::from_slice(bytes).map_err(|error| json_problem(path, &error, remedy))
}

/// What serde_json says, at its place.
fn json_problem(path: &Path, error: &serde_json::Error, remedy: &str) -> Diagnostics {
    let place = Place { line: error.line() as u64, column: error.column() as u64 };
    let place = Some(place).filter(|place| place.line > 0);
    let mut rule = error.to_string();
    // The error's own text ends with the same place.
    if let Some(end) = rule.rfind(" at line ") {
        rule.truncate(end);
    }
    // It quotes what it found, of whatever length.
    let rule: String = rule.chars().take(200).collect();
    Diagnostics::one(path, place, rule, "", remedy)
}
