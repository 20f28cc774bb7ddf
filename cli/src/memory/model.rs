//! The model that `--model` names, as the formulas see it: counts, shapes, and the list of tensors.
//!
//! Invariant: what weights say wins over what the card says, as everywhere.

use super::options::MemoryArgs;
use crate::output::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::memory::activations::block::Block;
use tiersim_models::memory::optimizer::Tensor;
use tiersim_models::transformer::card::{Card, TensorKind};
use tiersim_models::transformer::format::Format;
use tiersim_sim::import::card::{known_model, known_names, read_model};

/// A model, however it was named.
pub(crate) struct Model {
    /// Parameters.
    pub(crate) params: u64,
    /// Its tensors, if they are known.
    pub(crate) tensors: Vec<Tensor>,
    /// What a block is made of, and how many there are.
    pub(crate) shape: Option<(Block, u64)>,
    /// Logits per token.
    pub(crate) vocab: u64,
    /// Positions that a token attends to.
    pub(crate) window: Option<u64>,
    /// Parameters of the largest module, for DeepSpeed's estimators.
    pub(crate) largest_module: Option<u64>,
    /// Parameters of the largest block or table, which stage 3 gathers.
    pub(crate) largest_layer: Option<u64>,
    /// Format of the weights' files.
    pub(crate) format: Option<Format>,
}

/// The model of `--model`, if it was typed: a `config.json` or the name of a known one.
pub(crate) fn model(args: &MemoryArgs) -> Result<Option<Model>, Failure> {
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

fn of_card(card: &Card, format: Option<Format>) -> Model {
    let mut modules: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in card.tensors() {
        let module = modules.entry(tensor.module().to_owned()).or_default();
        *module = module.saturating_add(tensor.numel());
    }
    let (before, behind) = card.around();
    let tables = before.iter().chain(&behind).map(|part| part.numel());
    let tables = tables.map(|numbers| u64::try_from(numbers).unwrap_or(u64::MAX)).max();
    Model {
        params: card.parameters(),
        tensors: tensors(card),
        shape: Some((Block::of(card), card.layers.into())),
        vocab: card.vocab.into(),
        window: card.window.map(u64::from),
        largest_module: modules.values().copied().max(),
        largest_layer: tables.max(Some(card.block_parameters())),
        format,
    }
}

/// Tensors as optimizers see them: experts one by one.
fn tensors(card: &Card) -> Vec<Tensor> {
    let mut all = Vec::new();
    for tensor in card.tensors() {
        let blocks = second_moments(card, &tensor.name, tensor.kind);
        let (times, rows, columns) = match tensor.shape[..] {
            [rows] => (1, rows, None),
            [rows, columns] => (1, rows, Some(columns)),
            [times, rows, columns] => (times, rows, Some(columns)),
            _ => (1, tensor.numel(), None),
        };
        let one = Tensor { rows, columns, blocks };
        all.extend(std::iter::repeat_n(one, usize::try_from(times).unwrap_or(1)));
    }
    all
}

/// Second moments of a matrix of queries or keys under Adam-mini: one per head.
fn second_moments(card: &Card, name: &str, kind: TensorKind) -> Option<u64> {
    let (heads, kv_heads) = (u64::from(card.heads), u64::from(card.kv_heads));
    let ends = |end: &str| kind == TensorKind::Attention && name.ends_with(end);
    match () {
        () if ends("q_proj.weight") => Some(heads),
        () if ends("k_proj.weight") => Some(kv_heads),
        // One matrix for all three: values by output.
        () if ends("c_attn.weight") || ends("query_key_value.weight") => {
            Some(heads + kv_heads + kv_heads * u64::from(card.head_dim))
        }
        () => None,
    }
}
