//! Which options belong to which question, and the refusal of those that belong to another.
//!
//! Invariant: every option of the command but those of GPUs and parameters is in one list.

use super::super::options::MemoryArgs;

/// Was one of the options typed?
pub(super) fn is_typed(args: &MemoryArgs, options: &[&str]) -> bool {
    options.iter().any(|option| args.typed.contains(&option[2..].replace('-', "_")))
}

/// Refuses those of the options that were typed and have no meaning here.
pub(super) fn refuse(with: &str, args: &MemoryArgs, options: &[&str]) -> Result<(), String> {
    let found = options.iter().copied().filter(|option| is_typed(args, &[option]));
    let found: Vec<&str> = found.collect();
    if found.is_empty() {
        return Ok(());
    }
    let found = found.join(", ");
    Err(format!("{with} does not go with {found}; leave {found} out"))
}

/// Of training: state, where it goes, and what is gathered.
const OF_STATE: [&str; 9] = [
    "--optimizer-bytes",
    "--optimizer",
    "--gradients",
    "--lora",
    "--lora-targets",
    "--offload-ratio",
    "--bucket",
    "--pinned",
    "--prefetch-layers",
];
/// Of a step.
pub(super) const OF_STEP: [&str; 9] = [
    "--activations",
    "--micro-batch",
    "--update",
    "--checkpointing",
    "--attention",
    "--kernels",
    "--optimizer-kernels",
    "--loss",
    "--dropout",
];
const OF_SPLIT: [&str; 4] =
    ["--context-parallel", "--sequence-parallel", "--interleave", "--expert"];
pub(super) const OF_LOADER: [&str; 3] = ["--workers", "--prefetch", "--token-bytes"];

/// All of training.
pub(super) fn of_training() -> Vec<&'static str> {
    [&OF_STATE[..], &OF_STEP, &OF_SPLIT, &OF_LOADER].concat()
}

/// Of the model's shape; the first six its card says too.
pub(super) const OF_SHAPE: [&str; 13] = [
    "--family",
    "--hidden",
    "--heads",
    "--kv-heads",
    "--ffn",
    "--vocab",
    "--batch",
    "--sequence",
    "--tensor",
    "--pipeline",
    "--precision",
    "--quantize",
    "--reserve",
];
pub(super) const OF_SERVING: [&str; 4] = ["--inference", "--kv", "--kv-block", "--offload-kv"];
pub(super) const OF_DEEPSPEED: [&str; 2] = ["--zero-init", "--buffer-factor"];
pub(super) const OF_OPERATORS: [&str; 3] = ["--levels", "--flat", "--dense"];
