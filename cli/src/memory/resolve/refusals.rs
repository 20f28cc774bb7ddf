//! Which options belong to which question, and the refusal of those that belong to another.
//!
//! Invariant: every option of the command but those of GPUs and parameters is in one list.

use super::super::options::MemoryArgs;

/// An option and whether it was typed.
pub(super) type Typed = (&'static str, bool);

/// Refuses options that have no meaning here.
pub(super) fn refuse(with: &str, typed: &[Typed]) -> Result<(), String> {
    let found: Vec<&str> =
        typed.iter().filter(|(_, typed)| *typed).map(|(name, _)| *name).collect();
    if found.is_empty() {
        return Ok(());
    }
    let found = found.join(", ");
    Err(format!("{with} does not go with {found}; leave {found} out"))
}

/// The options of the parts that each question may have.
pub(super) fn of_optimizer(args: &MemoryArgs) -> Vec<Typed> {
    vec![
        ("--optimizer-bytes", args.optimizer_bytes.is_some()),
        ("--optimizer", args.optimizer.is_some()),
        ("--gradients", args.gradients.is_some()),
        ("--offload-ratio", args.offload_ratio.is_some()),
        ("--bucket", args.bucket.is_some()),
        ("--pinned", args.pinned.is_some()),
        ("--prefetch-layers", args.prefetch_layers.is_some()),
        ("--activations", args.activations.is_some()),
        ("--micro-batch", args.micro_batch.is_some()),
        ("--checkpointing", args.checkpointing.is_some()),
        ("--attention", args.attention.is_some()),
        ("--dropout", args.dropout.is_some()),
        ("--sequence-parallel", args.sequence_parallel),
        ("--interleave", args.interleave.is_some()),
        ("--expert", args.expert.is_some()),
        ("--workers", args.workers.is_some()),
        ("--prefetch", args.prefetch.is_some()),
        ("--token-bytes", args.token_bytes.is_some()),
    ]
}

pub(super) fn of_shape(args: &MemoryArgs) -> Vec<Typed> {
    vec![
        ("--family", args.family.is_some()),
        ("--hidden", args.hidden.is_some()),
        ("--heads", args.heads.is_some()),
        ("--kv-heads", args.kv_heads.is_some()),
        ("--ffn", args.ffn.is_some()),
        ("--vocab", args.vocab.is_some()),
        ("--batch", args.batch.is_some()),
        ("--sequence", args.sequence.is_some()),
        ("--tensor", args.tensor.is_some()),
        ("--pipeline", args.pipeline.is_some()),
        ("--precision", args.precision.is_some()),
        ("--reserve", args.reserve.is_some()),
    ]
}

pub(super) fn of_serving(args: &MemoryArgs) -> Vec<Typed> {
    vec![
        ("--inference", args.inference),
        ("--kv", args.kv.is_some()),
        ("--kv-block", args.kv_block.is_some()),
        ("--offload-kv", args.offload_kv.is_some()),
    ]
}

pub(super) fn of_deepspeed(args: &MemoryArgs) -> Vec<Typed> {
    vec![
        ("--zero-init", args.zero_init.is_some()),
        ("--buffer-factor", args.buffer_factor.is_some()),
    ]
}

pub(super) fn of_operators(args: &MemoryArgs) -> Vec<Typed> {
    vec![
        ("--levels", args.levels.is_some()),
        ("--flat", args.flat),
        ("--dense", args.dense.is_some()),
    ]
}
