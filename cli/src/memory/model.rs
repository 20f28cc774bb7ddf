//! The model that `--model` names, and what formulas ask of its card.
//!
//! Invariant: what weights say wins over what the card says, as everywhere.

use super::options::MemoryArgs;
use super::resolve::packed_files;
use crate::messages::say_note;
use crate::output::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_input::import::card::{ModelFiles, known_model, known_names, read_model};
use tiersim_workloads::transformer::card::Card;

/// The model of `--model`, if it was typed: a `config.json` or the name of a known one.
pub(crate) fn model(args: &MemoryArgs) -> Result<Option<ModelFiles>, Failure> {
    let weights = args.weights.as_deref();
    let Some(name) = &args.model else {
        let rule = "--weights corrects the sizes of a model";
        return match weights {
            Some(_) => Err(Failure::Input(format!("{rule} (found none); say --model"))),
            None => Ok(None),
        };
    };
    let path = Path::new(name);
    let is_known = known_model(name, weights);
    let said = if is_known.is_some() {
        "its makers publish matrices"
    } else {
        "the config says that matrices are"
    };
    let read = match is_known {
        Some(read) if args.inference => read?.as_published(name),
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
    read.remarks.iter().for_each(|remark| say_note(name, remark));
    if let Some(packed) = read.quantised.filter(|_| args.quantize.is_none()) {
        let counted = match packed_files(args, &read) {
            Some(_) => "so they count; --precision counts them as unpacked",
            None if args.precision.is_some() => "with --precision they count as unpacked",
            None if packed.has_8_bits() => "what is trained is wider",
            None => "what is trained counts as unpacked; --lora leaves them as they are",
        };
        let word = packed.word();
        say_note(name, &format!("{said} packed as {word}: {counted}"));
    }
    Ok(Some(read))
}

/// Parameters of the largest module, for DeepSpeed's estimators.
pub(crate) fn largest_module(card: &Card) -> Option<u64> {
    let mut modules: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in card.tensors() {
        let module = modules.entry(tensor.module().to_owned()).or_default();
        *module = module.saturating_add(tensor.numel());
    }
    modules.into_values().max()
}
