//! What every optimisation saves and costs, alone and behind those before it.
//!
//! The order is that of guides to the memory of training: what attention and activations need,
//! then what the optimizer keeps, then what replicas share, then what leaves the GPU. A switch that
//! rests on another (offload on a stage of ZeRO) has that one with it, alone as in turn. What a job
//! has already, or has no use for, is no switch of it.
//! Invariant: a row is the account and the estimate of the job that its options say, no more.

use super::super::Overflow;
use super::super::account::{Keeps, Training, of_largest_stage};
use super::holds;
use super::pace::{Estimates, Pace, outcome};
use crate::memory::share;
use crate::transformer::format::Format;
use crate::transformer::training::{Attention, Checkpointing, Kernels, Loss, Optimizer};
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_fit::{Fit, MemoryBudget, SwitchTable, Switched};

/// A job with a switch turned, and the options that say so; `None` where that changes nothing.
type Switch = fn(&Training) -> Option<(Training, Vec<String>)>;

/// All switches, in the order of the guides.
const SWITCHES: [Switch; 15] = [
    flash,
    half,
    full,
    eight_bit_activations,
    eight_bit_optimizer,
    |job| stage(job, 1),
    |job| stage(job, 2),
    |job| stage(job, 3),
    |job| offload_optimizer(job, Place::Cpu),
    |job| offload_weights(job, Place::Cpu),
    |job| offload_optimizer(job, Place::Nvme),
    |job| offload_weights(job, Place::Nvme),
    fused_loss,
    compiled,
    micro_batches,
];

/// The job with its step changed by `turn`.
fn stepped(
    job: &Training,
    option: &str,
    turn: impl FnOnce(&mut super::super::account::Step),
) -> Option<(Training, Vec<String>)> {
    let mut turned = job.clone();
    turn(turned.step.as_mut()?);
    (turned != *job).then(|| (turned, vec![option.to_owned()]))
}

fn flash(job: &Training) -> Option<(Training, Vec<String>)> {
    stepped(job, "--attention flash", |step| step.attention = Attention::Flash)
}

/// Half the blocks of each virtual stage.
fn half(job: &Training) -> Option<(Training, Vec<String>)> {
    let ways = job.split.stages.saturating_mul(job.split.interleave);
    let step = job.step.as_ref().filter(|step| step.checkpointing == Checkpointing::None)?;
    let blocks = share(share(step.shape.layers.into(), ways.into()), 2);
    let first = u32::try_from(blocks).ok()?;
    let option = format!("--checkpointing layers:{first}");
    stepped(job, &option, |step| step.checkpointing = Checkpointing::Layers(first))
}

fn full(job: &Training) -> Option<(Training, Vec<String>)> {
    stepped(job, "--checkpointing full", |step| step.checkpointing = Checkpointing::Full)
}

fn eight_bit_activations(job: &Training) -> Option<(Training, Vec<String>)> {
    job.step.as_ref().filter(|step| step.kernels != Kernels::Eager)?;
    stepped(job, "--activations int8", |step| step.format = Format::Int8)
}

fn eight_bit_optimizer(job: &Training) -> Option<(Training, Vec<String>)> {
    (job.optimizer == Keeps::Named(Optimizer::AdamW)).then(|| {
        let optimizer = Keeps::Named(Optimizer::Adam8Bit);
        (Training { optimizer, ..job.clone() }, vec!["--optimizer adam-8bit".to_owned()])
    })
}

fn stage(job: &Training, stage: u8) -> Option<(Training, Vec<String>)> {
    (job.stage < stage)
        .then(|| (Training { stage, ..job.clone() }, vec![format!("--stage {stage}")]))
}

/// The job from a stage on, with what it takes to get there.
fn from_stage(job: &Training, least: u8) -> (Training, Vec<String>) {
    stage(job, least).unwrap_or_else(|| (job.clone(), Vec::new()))
}

fn offload_optimizer(job: &Training, place: Place) -> Option<(Training, Vec<String>)> {
    let (mut turned, mut options) = from_stage(job, 1);
    (turned.offload.optimizer < place).then(|| {
        turned.offload.optimizer = place;
        options.push(format!("--offload-optimizer {}", place.word()));
        (turned, options)
    })
}

fn offload_weights(job: &Training, place: Place) -> Option<(Training, Vec<String>)> {
    let (mut turned, mut options) = from_stage(job, 3);
    (turned.offload.weights < place).then(|| {
        turned.offload.weights = place;
        options.push(format!("--offload-param {}", place.word()));
        (turned, options)
    })
}

/// Of a head: without one there are no logits.
fn fused_loss(job: &Training) -> Option<(Training, Vec<String>)> {
    job.step.as_ref().filter(|step| step.shape.vocab > 0)?;
    stepped(job, "--loss fused", |step| step.loss = Loss::Fused)
}

fn compiled(job: &Training) -> Option<(Training, Vec<String>)> {
    job.step.as_ref().filter(|step| step.kernels == Kernels::Eager)?;
    stepped(job, "--kernels compiled", |step| step.kernels = Kernels::Compiled)
}

/// One sequence at a time.
fn micro_batches(job: &Training) -> Option<(Training, Vec<String>)> {
    stepped(job, "--micro-batch 1", |step| step.micro_batch = 1)
}

/// What each switch of `job` saves and costs, where there is so much room and at these rates.
pub fn switches(
    job: &Training,
    budget: &MemoryBudget,
    pace: &Pace<'_>,
) -> Result<SwitchTable, Overflow> {
    let mut estimates = Estimates::new(pace);
    let mut base = outcome(job, &of_largest_stage(job)?, &mut estimates, None)?;
    let best = base.seconds.or_else(|| estimates.weight(&base.cost));
    base.slowdown = best.map(|_| 1.0);
    let base_fits = holds(budget, &of_largest_stage(job)?) == Some(0);
    let mut of = |job: &Training, changes: Vec<String>| {
        let account = of_largest_stage(job)?;
        let fits = holds(budget, &account) == Some(0);
        let fit = Fit { changes, ..outcome(job, &account, &mut estimates, best)? };
        Ok::<_, Overflow>((fit, fits))
    };
    let (mut before, mut options, mut rows) = (job.clone(), Vec::new(), Vec::new());
    for switch in SWITCHES {
        let Some((alone, own)) = switch(job) else { continue };
        let (alone, alone_fits) = of(&alone, own)?;
        let Some((behind, more)) = switch(&before) else { continue };
        options = said(options, more);
        let (in_turn, in_turn_fits) = of(&behind, options.clone())?;
        rows.push(Switched { alone, alone_fits, in_turn, in_turn_fits });
        before = behind;
    }
    Ok(SwitchTable { base, base_fits, rows })
}

/// Options as one would type them: a later value of an option takes the place of an earlier one.
fn said(mut options: Vec<String>, more: Vec<String>) -> Vec<String> {
    let name = |option: &str| option.split(' ').next().map(str::to_owned);
    options.retain(|old| more.iter().all(|new| name(new) != name(old)));
    options.extend(more);
    options
}
