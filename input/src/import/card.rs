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
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_workloads::transformer::Card;
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::known::{KNOWN, known};
use tiersim_workloads::transformer::packed::Packed;

/// A model, as its files or the table of known ones have it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFiles {
    /// Its dimensions; those of the weights where these were read.
    pub card: Card,
    /// The format that most bytes of the weights have, or that the config says they have.
    pub format: Option<Format>,
    /// How the config says that matrices of blocks are stored, where that is another format.
    pub quantised: Option<Packed>,
    /// Bytes of all tensors of the weights, if these were read.
    pub bytes: Option<u64>,
    /// Where weights and card disagree, and what is left out: one sentence each.
    pub remarks: Vec<String>,
}

/// How the makers of a known model publish the matrices of its blocks, where that is neither 16
/// bits nor 32.
pub fn published_as(name: &str) -> Option<Packed> {
    match name {
        "gpt-oss-20b" | "gpt-oss-120b" => Some(Packed::Mxfp4),
        "deepseek-v3" | "kimi-k2" | "minimax-m2" => Some(Packed::Fp8),
        _ => None,
    }
}

impl ModelFiles {
    /// A known model as its makers publish it, where no file says how it is stored.
    pub fn as_published(self, name: &str) -> ModelFiles {
        let said = self.quantised.is_some() || self.bytes.is_some();
        ModelFiles { quantised: if said { self.quantised } else { published_as(name) }, ..self }
    }

    /// A card that no file says anything about.
    pub(crate) fn card(card: Card) -> ModelFiles {
        ModelFiles { card, format: None, quantised: None, bytes: None, remarks: Vec::new() }
    }
}

/// The model of a `config.json`, with the weights' own sizes if they are given.
///
/// # Errors
/// All problems that were found, with their places.
pub fn read_model(config: &Path, weights: Option<&Path>) -> Result<ModelFiles, Diagnostics> {
    let said = |said| refused(config, &[FileKind::ModelCard], said);
    let model = config::read(config).map_err(said)?;
    with_weights(model, config, weights)
}

/// The known model called `name`, with the weights' own sizes if they are given; `None` if there is
/// no model of this name.
///
/// # Errors
/// All problems of the weights.
pub fn known_model(name: &str, weights: Option<&Path>) -> Option<Result<ModelFiles, Diagnostics>> {
    let model = ModelFiles::card(known(name)?.card());
    Some(with_weights(model, Path::new(name), weights))
}

/// The names of all known models.
pub fn known_names() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

fn with_weights(
    model: ModelFiles,
    card: &Path,
    path: Option<&Path>,
) -> Result<ModelFiles, Diagnostics> {
    let Some(path) = path else { return Ok(model) };
    let table = read_weights(path)?;
    // The weights say themselves how they are stored.
    truth::apply(ModelFiles { quantised: None, ..model }, card, &table, path)
}
