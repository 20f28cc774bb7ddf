//! Which changes make a model fit that is served, and what a step of decoding takes then.
//!
//! Knobs: where weights and where keys and values live, keys and values of 8 bits, fewer sequences
//! at once, more memory of the host. A step gives every sequence one token: products are bound by
//! FLOPs (2 per parameter and token that goes through it) or by reading weights, keys and values,
//! whichever is longer; of experts those are read that a batch chooses on average, if each token
//! chooses evenly. What lives elsewhere comes over the link first, and stages of a pipeline follow
//! one another.
//! Nothing overlaps. Invariant: seconds and tokens per second follow from the end state alone.

use super::{Knob, Setting, holds, least, outer, settings};
use crate::memory::Overflow;
use crate::memory::account::{Serving, serving};
use crate::transformer::routing::missed;
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_fit::{Cost, Fit, FitSearch, MemoryBudget, Rates};

/// Weights, keys and values, format of those, sequences, memory of the host.
type Far = [u8; 5];

/// All knobs but memory of the host.
const KNOBS: [Knob<Serving>; 4] = [weights, kv, eight_bits, batches];

fn weights(job: &Serving) -> Vec<(Serving, String)> {
    let turned = |place: Place| {
        let job = Serving { offload_weights: place, ..job.clone() };
        (job, format!("--offload-param {}", place.word()))
    };
    outer(job.offload_weights).map(turned).collect()
}

fn kv(job: &Serving) -> Vec<(Serving, String)> {
    let turned = |place: Place| {
        let job = Serving { offload_kv: place, ..job.clone() };
        (job, format!("--offload-kv {}", place.word()))
    };
    outer(job.offload_kv).filter(|_| job.kv.is_some()).map(turned).collect()
}

fn eight_bits(job: &Serving) -> Vec<(Serving, String)> {
    let mut turned = job.clone();
    match &mut turned.kv {
        Some(kv) if kv.bytes > 1 => kv.bytes = 1,
        _ => return Vec::new(),
    }
    vec![(turned, "--kv fp8".to_owned())]
}

fn batches(job: &Serving) -> Vec<(Serving, String)> {
    let halves = std::iter::successors(Some(job.batch / 2), |batch| Some(batch / 2));
    let turned = |batch| (Serving { batch, ..job.clone() }, format!("--batch {batch}"));
    halves.take_while(|&batch| batch > 0).map(turned).collect()
}

/// What a rank does in a step of decoding.
fn cost(job: &Serving) -> Result<(Cost, u128), Overflow> {
    let account = serving(job)?;
    let of = |place| account.bytes("weights", place) + account.bytes("kv", place);
    let away = of(Place::Cpu) + of(Place::Nvme);
    let ranks = u128::from(job.gpus_per_node);
    let used = job.experts.map_or(job.params, |(_, used)| used);
    let per_rank = u128::from(used).div_ceil(u128::from(job.tensor * job.pipeline));
    let idle = account.bytes("weights", job.offload_weights) as f64 * idle_share(job);
    // Experts that nobody chooses stay where they are.
    let idle_at = |place| if job.offload_weights == place { idle as u128 } else { 0 };
    let on_drives = idle_at(Place::Nvme);
    let cost = Cost {
        flops: 2 * per_rank * u128::from(job.batch),
        host: away.saturating_sub(idle_at(Place::Cpu) + on_drives),
        nvme: of(Place::Nvme).saturating_sub(on_drives) * ranks,
        ..Cost::default()
    };
    Ok((cost, (of(Place::Gpu) + away).saturating_sub(idle as u128)))
}

/// The share of all weights that is of experts which no sequence of a batch chooses, on average.
fn idle_share(job: &Serving) -> f64 {
    let Some((experts, used)) = job.experts else { return 0.0 };
    if experts.count <= experts.active || job.params == 0 {
        return 0.0;
    }
    // What one token goes past is so large a part of all experts.
    let of_experts = (job.params - used.min(job.params)) as f64 / missed(&experts, 1);
    of_experts / job.params as f64 * missed(&experts, job.batch)
}

fn seconds(job: &Serving, rates: &Rates) -> Result<Option<f64>, Overflow> {
    let (cost, read) = cost(job)?;
    let device = || {
        let (flops, memory) = (rates.flops?, rates.memory?);
        Some((cost.flops as f64 / flops).max(read as f64 / memory))
    };
    let all = || Some((device()? + cost.seconds_away(rates)?) * job.pipeline as f64);
    Ok(all())
}

/// The most tokens per second of all settings that fit, places turned back where they were typed
/// further.
fn quickest(job: &Serving, budget: &MemoryBudget, rates: &Rates) -> Result<Option<f64>, Overflow> {
    let back = Serving { offload_weights: Place::Gpu, offload_kv: Place::Gpu, ..job.clone() };
    let mut best: Option<f64> = None;
    for Setting { job, .. } in settings::<_, 5>(&back, &KNOBS) {
        if holds(budget, &serving(&job)?) == Some(0)
            && let Some(seconds) = seconds(&job, rates)?
        {
            let tokens = job.batch as f64 / seconds;
            best = Some(best.map_or(tokens, |best| best.max(tokens)));
        }
    }
    Ok(best)
}

/// What makes `job` fit into `budget`; figures are relative to the most tokens per second of all
/// settings that fit.
pub fn fit(job: &Serving, budget: &MemoryBudget, rates: &Rates) -> Result<FitSearch, Overflow> {
    let all = settings(job, &KNOBS);
    let mut fitting: Vec<(Far, Fit)> = Vec::new();
    for setting in &all {
        let account = serving(&setting.job)?;
        let Some(more_cpu) = holds(budget, &account) else { continue };
        let seconds = seconds(&setting.job, rates)?;
        let mut far = setting.far;
        far[4] = u8::from(more_cpu > 0);
        let fit = Fit {
            changes: setting.changes.clone(),
            bytes: [account.gpu, account.cpu_per_node, account.nvme_per_node],
            more_cpu,
            seconds,
            tokens_per_s: seconds.map(|seconds| setting.job.batch as f64 / seconds),
            slowdown: None,
            cost: cost(&setting.job)?.0,
        };
        fitting.push((far, fit));
    }
    let best = quickest(job, budget, rates)?;
    for (_, fit) in &mut fitting {
        fit.slowdown = best.zip(fit.tokens_per_s).map(|(best, tokens)| best / tokens);
    }
    let fits = fitting.iter().any(|(far, _)| *far == Far::default());
    Ok(FitSearch { fits, tried: all.len(), least: least(fitting) })
}
