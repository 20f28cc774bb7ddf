//! Which changes make a job fit, and what a step takes then.
//!
//! A training job has eight knobs: the stage, where optimizer state and weights live,
//! checkpointing, the kernel of attention, the micro-batch, 8-bit state in the place of AdamW's,
//! and more memory of the host. All settings that take no more memory than the job's are tried. A
//! set of changes is *least* if it fits and no other that fits goes less far on some knob and no
//! further on any. What a step takes follows from the setting alone ([`cost()`], and where the
//! model has a card the roofline of every op of its step), and is set against the quickest of *all*
//! settings that fit, the knobs turned back where they were typed further: the same end state has
//! the same figures whatever was typed. There is no overlap in it and no collectives; ties go to
//! fewer bytes between GPUs.
//! Invariant: what is found depends on the job, the room and the rates alone, in this order.

pub mod cost;
mod pace;
pub mod serving;
pub mod switches;

use super::Overflow;
use super::account::{Keeps, Training, of_largest_stage};
use super::zero::Offload;
use crate::transformer::training::{Attention, Checkpointing, Optimizer};
use cost::cost;
pub use pace::Pace;
use pace::{Estimates, outcome};
use tiersim_models::results::memory_account::Account;
use tiersim_models::results::memory_account::Place;
use tiersim_models::results::memory_fit::{Fit, FitSearch, MemoryBudget};

/// Whether it holds a job, and what more of the host's memory a node needs for that, if it can
/// have more.
fn holds(budget: &MemoryBudget, account: &Account) -> Option<u128> {
    let fits =
        account.gpu <= budget.gpu && budget.nvme.is_none_or(|nvme| account.nvme_per_node <= nvme);
    let more = budget.cpu.map_or(0, |cpu| account.cpu_per_node.saturating_sub(cpu));
    (fits && (more == 0 || budget.cpu != Some(0))).then_some(more)
}

/// How far a setting goes on each knob, counted from the job's own.
type Far = [u8; 8];

/// A setting: the job with its knobs turned, and how far each of them.
struct Setting<Job, const KNOBS: usize> {
    job: Job,
    far: [u8; KNOBS],
    changes: Vec<String>,
}

/// A job with one knob turned as far as it goes, step by step, each with the option that says so.
type Knob<Job> = fn(&Job) -> Vec<(Job, String)>;

/// All knobs but memory of the host.
const KNOBS: [Knob<Training>; 7] =
    [stages, optimizers, weights, checkpoints, kernels, micro_batches, eight_bits];

/// Every setting that is no larger than the job on any knob; the first is the job itself.
fn settings<Job: Clone, const ALL: usize>(
    job: &Job,
    knobs: &[Knob<Job>],
) -> Vec<Setting<Job, ALL>> {
    let mut all = vec![Setting { job: job.clone(), far: [0; ALL], changes: Vec::new() }];
    for (knob, turned) in knobs.iter().enumerate() {
        let mut more = Vec::new();
        for setting in &all {
            for (steps, (job, change)) in turned(&setting.job).into_iter().enumerate() {
                let mut far = setting.far;
                far[knob] = u8::try_from(steps + 1).unwrap_or(u8::MAX);
                let changes = setting.changes.iter().cloned().chain([change]).collect();
                more.push(Setting { job, far, changes });
            }
        }
        all.extend(more);
    }
    all
}

fn stages(job: &Training) -> Vec<(Training, String)> {
    let further = |stage| (Training { stage, ..job.clone() }, format!("--stage {stage}"));
    (job.stage + 1..=3).map(further).collect()
}

/// Places beyond `from`.
fn outer(from: Place) -> impl Iterator<Item = Place> {
    Place::ALL.into_iter().filter(move |&place| place > from)
}

fn optimizers(job: &Training) -> Vec<(Training, String)> {
    let turned = |place: Place| {
        let mut job = job.clone();
        job.offload.optimizer = place;
        (job, format!("--offload-optimizer {}", place.word()))
    };
    outer(job.offload.optimizer).filter(|_| job.stage >= 1).map(turned).collect()
}

fn weights(job: &Training) -> Vec<(Training, String)> {
    let turned = |place: Place| {
        let mut job = job.clone();
        job.offload.weights = place;
        (job, format!("--offload-param {}", place.word()))
    };
    outer(job.offload.weights).filter(|_| job.stage >= 3).map(turned).collect()
}

fn checkpoints(job: &Training) -> Vec<(Training, String)> {
    let Some(step) = &job.step else { return Vec::new() };
    let all: &[_] = match step.checkpointing {
        Checkpointing::None => {
            &[(Checkpointing::Selective, "selective"), (Checkpointing::Full, "full")]
        }
        Checkpointing::Selective | Checkpointing::Every(_) | Checkpointing::Layers(_) => {
            &[(Checkpointing::Full, "full")]
        }
        Checkpointing::Full => &[],
    };
    let turned = |&(checkpointing, word): &(Checkpointing, &str)| {
        let mut job = job.clone();
        job.step.iter_mut().for_each(|step| step.checkpointing = checkpointing);
        (job, format!("--checkpointing {word}"))
    };
    all.iter().map(turned).collect()
}

fn kernels(job: &Training) -> Vec<(Training, String)> {
    let eager = |step: &super::account::Step| step.attention == Attention::Eager;
    if !job.step.as_ref().is_some_and(eager) {
        return Vec::new();
    }
    let mut turned = job.clone();
    turned.step.iter_mut().for_each(|step| step.attention = Attention::Flash);
    vec![(turned, "--attention flash".to_owned())]
}

fn micro_batches(job: &Training) -> Vec<(Training, String)> {
    let Some(step) = &job.step else { return Vec::new() };
    let mut all = Vec::new();
    let mut micro_batch = step.micro_batch;
    while micro_batch > 1 {
        // The next smaller one that leaves no remainder.
        micro_batch = (1..=micro_batch / 2).rev().find(|less| step.batch % less == 0).unwrap_or(1);
        let mut turned = job.clone();
        turned.step.iter_mut().for_each(|step| step.micro_batch = micro_batch);
        all.push((turned, format!("--micro-batch {micro_batch}")));
    }
    all
}

fn eight_bits(job: &Training) -> Vec<(Training, String)> {
    if job.optimizer != Keeps::Named(Optimizer::AdamW) {
        return Vec::new();
    }
    let turned = Training { optimizer: Keeps::Named(Optimizer::Adam8Bit), ..job.clone() };
    vec![(turned, "--optimizer adam-8bit".to_owned())]
}

/// The job with every knob turned back.
fn turned_back(job: &Training) -> Training {
    let mut job = Training { stage: 0, offload: Offload::default(), ..job.clone() };
    if job.optimizer == Keeps::Named(Optimizer::Adam8Bit) {
        job.optimizer = Keeps::Named(Optimizer::AdamW);
    }
    if let Some(step) = &mut job.step {
        step.checkpointing = Checkpointing::None;
        step.attention = Attention::Eager;
        step.micro_batch = step.batch;
    }
    job
}

/// The quickest of all settings that fit, in seconds or in FLOPs.
fn quickest(
    job: &Training,
    budget: &MemoryBudget,
    all: &mut Estimates<'_>,
) -> Result<Option<f64>, Overflow> {
    let mut quickest: Option<f64> = None;
    for setting in settings::<_, 8>(&turned_back(job), &KNOBS) {
        if holds(budget, &of_largest_stage(&setting.job)?) != Some(0) {
            continue;
        }
        let cost = cost(&setting.job)?;
        let time = all.seconds(&setting.job, &cost).or_else(|| all.weight(&cost));
        quickest = match (quickest, time) {
            (Some(best), Some(time)) => Some(best.min(time)),
            (best, time) => best.or(time),
        };
    }
    Ok(quickest)
}

/// What makes `job` fit into `budget`.
pub fn fit(job: &Training, budget: &MemoryBudget, pace: &Pace<'_>) -> Result<FitSearch, Overflow> {
    let mut estimates = Estimates::new(pace);
    let best = quickest(job, budget, &mut estimates)?;
    let all = settings(job, &KNOBS);
    let mut fitting: Vec<(Far, Fit)> = Vec::new();
    for setting in &all {
        let account = of_largest_stage(&setting.job)?;
        let Some(more_cpu) = holds(budget, &account) else { continue };
        let mut far = setting.far;
        far[7] = u8::from(more_cpu > 0);
        let found = outcome(&setting.job, &account, &mut estimates, best)?;
        fitting.push((far, Fit { changes: setting.changes.clone(), more_cpu, ..found }));
    }
    let fits = fitting.iter().any(|(far, _)| *far == Far::default());
    Ok(FitSearch { fits, tried: all.len(), least: least(fitting) })
}

/// Those that no other goes less far than, the quickest first.
fn least<const KNOBS: usize>(fitting: Vec<([u8; KNOBS], Fit)>) -> Vec<Fit> {
    let no_further =
        |a: &[u8; KNOBS], b: &[u8; KNOBS]| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let is_least = |far| !fitting.iter().any(|(other, _)| no_further(other, far));
    let all = fitting.iter().filter(|(far, _)| is_least(far));
    let mut least: Vec<Fit> = all.map(|(_, fit)| fit.clone()).collect();
    let known = |fit: &Fit| fit.slowdown.unwrap_or(f64::INFINITY);
    least.sort_by(|a, b| {
        let moved = |fit: &Fit| (fit.cost.between_gpus, fit.cost.host + fit.cost.nvme);
        known(a)
            .total_cmp(&known(b))
            .then(moved(a).cmp(&moved(b)))
            .then(a.changes.len().cmp(&b.changes.len()))
    });
    least
}
