//! The model that `--model` names, as the formulas see it: counts, shapes, and the list of tensors.
//!
//! Invariant: what weights say wins over what the card says, as everywhere.

use super::options::MemoryArgs;
use crate::output::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_input::import::card::{known_model, known_names, read_model};
use tiersim_workloads::memory::activations::block::BlockShape;
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::format::Format;

/// A model, however it was named.
pub(crate) struct NamedModel {
    /// Parameters.
    pub(crate) params: u64,
    /// Its card.
    pub(crate) card: Card,
    /// What a block is made of, and how many there are.
    pub(crate) shape: Option<(BlockShape, u64)>,
    /// Logits per token.
    pub(crate) vocab: u64,
    /// Positions that a token attends to.
    pub(crate) window: Option<u64>,
    /// Parameters of the largest module, for DeepSpeed's estimators.
    pub(crate) largest_module: Option<u64>,
    /// Format of the weights' files.
    pub(crate) format: Option<Format>,
}

/// The model of `--model`, if it was typed: a `config.json` or the name of a known one.
pub(crate) fn model(args: &MemoryArgs) -> Result<Option<NamedModel>, Failure> {
    let weights = args.weights.as_deref();
    let Some(name) = &args.model else {
        let rule = "--weights corrects the sizes of a model";
        return match weights {
            Some(_) => Err(Failure::Input(format!("{rule} (found none); say --model"))),
            None => Ok(None),
        };
    };
    let path = Path::new(name);
    let read = match known_model(name, weights) {
        Some(read) => read?,
        None if path.extension().is_some() || path.exists() => read_model(path, weights)?,
        None => {
            let names = known_names().join(", ");
            return Err(Failure::Input(format!(
                "--model takes a config.json or a known model (found {name:?}); name a file that ends in \
                 .json, or one of {names}"
            )));
        }
    };
    Ok(Some(of_card(&read.card, read.format)))
}

fn of_card(card: &Card, format: Option<Format>) -> NamedModel {
    let mut modules: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in card.tensors() {
        let module = modules.entry(tensor.module().to_owned()).or_default();
        *module = module.saturating_add(tensor.numel());
    }
    NamedModel {
        params: card.parameters(),
        card: card.clone(),
        shape: Some((BlockShape::of(card), card.layers.into())),
        vocab: card.vocab.into(),
        window: card.window.map(u64::from),
        largest_module: modules.values().copied().max(),
        format,
    }
}
