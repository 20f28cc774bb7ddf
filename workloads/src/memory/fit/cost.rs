//! What a training step of one rank does, and an estimate of its time.
//!
//! FLOPs: 6 per parameter and token, and 12 s a d per token and block for the core of attention
//! (Narayanan et al. 2021, arXiv 2104.04473, appendix; without the causal half). Computing again: 2
//! per parameter and 4 s a d for `full` and `every`, 4 s a d for `selective`; flash computes scores
//! once more in the backward pass, 2 s a d. Offload, per rank and step of n micro-batches:
//! partitioned gradients go to the host for each of them, weights come back once; offloaded weights
//! come twice per micro-batch; state on NVMe is read and written once. An update, the host's as the
//! device's own, reads gradients and state and writes state and weights: 28 bytes per parameter of
//! AdamW in 16 bits. Activations kept in 8 bits are read whole and written compressed, and the other way
//! round in the backward pass. Time is the sum of all at their rates: nothing overlaps.
//! Invariant: counts are integers; only times are floats. Collectives are counted and not timed.

use crate::memory::account::{Step, Training};
use crate::memory::activations::GROUP;
use crate::memory::zero::{MILLION, placed};
use crate::memory::{Overflow, product, share, total};
use crate::transformer::card::Card;
use crate::transformer::format::Format;
use crate::transformer::training::{Attention, Checkpointing};
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_fit::Cost;

/// What one rank of `job` does in a step.
pub fn cost(job: &Training) -> Result<Cost, Overflow> {
    let step = job.step.as_ref();
    let micro_batches = step.map_or(1, |step| step.batch.div_ceil(step.micro_batch.max(1)));
    let (n, whole) = (u128::from(micro_batches), job.state(0)?);
    let data = u128::from(job.data());
    let trained = job.trained()?;
    let changed = product(&[trained, job.weights.bytes().into()])?;
    let of_rank = job.state(job.stage)?;
    let mut found = Cost { flops: flops(job)?, ..Cost::default() };
    // What of the optimizer state, and so of weights and gradients, is updated on the host.
    let ratio = match job.offload.optimizer {
        Place::Gpu => 0,
        _ => u128::from(job.offload.ratio),
    };
    let updated = |bytes| Ok(share(product(&[share(bytes, data), ratio])?, MILLION.into()));
    let ranks = u128::from(job.gpus_per_node);
    if ratio > 0 {
        let times = if job.stage >= 2 { n } else { 1 };
        let gradients = product(&[updated(whole.gradients)?, times])?;
        found.host = total([gradients, updated(changed)?])?;
        // As on the device: gradients read, state read and written, weights written.
        let state = product(&[2, whole.optimizer])?;
        let all = total([whole.gradients, state, changed])?;
        found.adam = product(&[updated(all)?, ranks])?;
    }
    if job.stage >= 3 && job.offload.weights != Place::Gpu {
        let fetched = product(&[2, n, of_rank.weights])?;
        found.host = total([found.host, fetched])?;
        if job.offload.weights == Place::Nvme {
            found.nvme = product(&[total([fetched, of_rank.weights])?, ranks])?;
        }
    }
    for part in placed(of_rank, job.stage, job.offload)? {
        if part.place == Place::Nvme && part.part == crate::memory::zero::StatePart::Optimizer {
            found.nvme = total([found.nvme, product(&[2, part.bytes, ranks])?])?;
        }
    }
    // The update reads gradients, and reads and writes state; it writes weights.
    let state: u128 = placed(of_rank, job.stage, job.offload)?
        .iter()
        .filter(|part| part.part == crate::memory::zero::StatePart::Optimizer)
        .filter(|part| part.place == Place::Gpu)
        .map(|part| part.bytes)
        .sum();
    let cut = if job.stage >= 1 { data } else { 1 };
    let own = share(total([whole.gradients, changed])?, cut);
    let stays = u128::from(MILLION) - ratio.min(MILLION.into());
    let own = share(product(&[own, stays])?, MILLION.into());
    found.update = total([product(&[2, state])?, own])?;
    found.compressed = compressed(job)?;
    let sent = match job.stage {
        0 | 1 => product(&[2, whole.gradients])?,
        2 => total([product(&[n, whole.gradients])?, changed])?,
        _ => product(&[n, total([product(&[2, whole.weights])?, whole.gradients])?])?,
    };
    found.between_gpus = share(product(&[sent, data - 1])?, data);
    Ok(found)
}

/// Bytes that one rank moves to keep what its blocks keep in 8 bits, and to have it whole again:
/// once for every tensor that is made for the backward pass, when that is.
fn compressed(job: &Training) -> Result<u128, Overflow> {
    let Some(step) = job.step.as_ref().filter(|step| step.format == Format::Int8) else {
        return Ok(0);
    };
    let whole = u128::from(job.weights.bytes());
    if whole < 2 {
        return Ok(0);
    }
    // One pass of a micro-batch through the blocks of this rank.
    let stages = u32::try_from(job.split.stages).unwrap_or(u32::MAX).max(1);
    let layers = step.shape.layers.div_ceil(stages);
    let mut one = job.clone();
    (one.split.stages, one.split.interleave) = (1, 1);
    let less = |checkpointing| -> Result<u128, Overflow> {
        let shape = Card { layers, ..step.shape.clone() };
        let micro = Step { shape, batch: step.micro_batch, checkpointing, ..step.clone() };
        let [whole, small] = [job.weights, Format::Int8].map(|format| {
            let all = one.activations(&Step { format, ..micro.clone() });
            all.map(|all| all.kept)
        });
        Ok(whole?.saturating_sub(small?))
    };
    let less = less(match step.checkpointing {
        // The core is made and used in the backward pass.
        Checkpointing::Selective => Checkpointing::Selective,
        _ => Checkpointing::None,
    })?;
    // Of a group of numbers as they are, and with its range.
    let (plain, small) = (whole * GROUP, GROUP + 4);
    let of_micro_batch = product(&[less, 2 * (plain + small)])? / (plain - small);
    product(&[of_micro_batch, step.batch.div_ceil(step.micro_batch.max(1)).into()])
}

/// FLOPs of one rank and step.
fn flops(job: &Training) -> Result<u128, Overflow> {
    let Some(step) = &job.step else { return Ok(0) };
    let (block, split) = (&step.shape, &job.split);
    let [params, tokens, sequences] = [job.params, step.sequence, step.batch].map(u128::from);
    let [layers, heads, width] = [block.layers, block.heads, block.head_dim].map(u128::from);
    // Of experts a token goes through the active ones only.
    let idle = block.experts.map_or(0, |experts| {
        let idle = experts.count.saturating_sub(experts.active);
        u128::from(idle) * u128::from(experts.ffn) * 3
    });
    let params = params.saturating_sub(product(&[idle, block.hidden.into(), layers])?);
    let core = product(&[layers, tokens, heads, width])?;
    let recompute = match step.checkpointing {
        Checkpointing::None => (0, 0),
        Checkpointing::Selective if step.attention == Attention::Flash => (0, 0),
        Checkpointing::Selective => (0, 4),
        Checkpointing::Full | Checkpointing::Every(_) | Checkpointing::Layers(_) => (2, 4),
    };
    // Of so many blocks, those that are computed again.
    let blocks = share(layers, u128::from(split.stages) * u128::from(split.interleave)).max(1);
    let again = match step.checkpointing {
        Checkpointing::Layers(first) => u128::from(first).min(blocks),
        _ => blocks,
    };
    let scores = if step.attention == Attention::Flash { 2 } else { 0 };
    // Frozen weights have no gradients: 4 per parameter; those of adapters are beside them.
    let adapters = match (job.lora, &job.card) {
        (Some(lora), Some(card)) => product(&[lora.parameters(card), 6])?,
        _ => 0,
    };
    let per_token = total([
        product(&[params, if job.lora.is_some() { 4 } else { 6 }])?,
        adapters,
        product(&[core, 12 + scores])?,
        share(
            product(&[
                total([product(&[params, recompute.0])?, product(&[core, recompute.1])?])?,
                again,
            ])?,
            blocks,
        ),
    ])?;
    let all = product(&[per_token, tokens, sequences])?;
    Ok(share(all, u128::from(split.tensor) * u128::from(split.stages)))
}
