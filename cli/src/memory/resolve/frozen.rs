//! Weights that are not trained: adapters beside them, and how they are stored.

use super::super::options::MemoryArgs;
use super::refusals::refuse;
use tiersim_input::import::card::ModelFiles;
use tiersim_workloads::transformer::adapters::Lora;
use tiersim_workloads::transformer::card::Card;
use tiersim_workloads::transformer::packed::Packed;

/// How the matrices of a model are stored, which are frozen or served then.
pub(super) fn packed(
    args: &MemoryArgs,
    model: Option<&ModelFiles>,
) -> Result<Option<(Packed, Card)>, String> {
    let own = model.and_then(|model| packed_files(args, model));
    let Some(packed) = args.quantize.or(own) else { return Ok(None) };
    let found = packed.word();
    let Some(model) = model else {
        let rule = "what is packed are the matrices of a model";
        return Err(format!("{rule} (found --quantize {found} without --model); say --model"));
    };
    if !args.inference && packed.has_8_bits() {
        let rule = "matrices of 8 bits beside wider tables are served, not trained";
        return Err(format!("{rule} (found --quantize {found}); say --inference, or --precision"));
    }
    if !args.inference && args.lora.is_none() {
        let rule = "weights of 4 bits stay as they are, and nothing else is trained";
        return Err(format!("{rule} (found --quantize {found}); say --lora, or --inference"));
    }
    Ok(Some((packed, model.card.clone())))
}

/// How the files of a model store its matrices, where they are used as they are.
pub(in crate::memory) fn packed_files(args: &MemoryArgs, model: &ModelFiles) -> Option<Packed> {
    let stays = |packed: &Packed| args.lora.is_some() && !packed.has_8_bits();
    let unsaid = args.precision.is_none();
    model.quantised.filter(|packed| unsaid && (args.inference || stays(packed)))
}

/// Adapters of a model whose matrices are known.
pub(super) fn lora(args: &MemoryArgs, model: Option<&ModelFiles>) -> Result<Option<Lora>, String> {
    let Some(rank) = args.lora else {
        return refuse("training without --lora", args, &["--lora-targets"]).map(|()| None);
    };
    let Some(model) = model else {
        let rule = "adapters stand beside the matrices of a model";
        return Err(format!("{rule} (found --lora {rank} without --model); say --model"));
    };
    let lora = Lora { rank, targets: args.lora_targets.unwrap_or_default() };
    match lora.problems(&model.card).first() {
        None => Ok(Some(lora)),
        Some(problem) => {
            let option = format!("--{}", problem.field.replace('.', "-"));
            let option = option.strip_suffix("-rank").unwrap_or(&option);
            Err(format!("{option}: {}; {}", problem.rule, problem.remedy))
        }
    }
}
