//! Which changes make a training job fit, and what each is estimated to cost.
//!
//! A job has six knobs: the stage, where optimizer state and weights live, checkpointing, the kernel of
//! attention, and the micro-batch. All settings that take no more memory than the job's are tried. A set of
//! changes is *least* if it fits and no other that fits goes less far on some knob and no further on any.
//! The estimate ([`cost()`]) has no overlap and no collectives; ties go to fewer bytes between GPUs.
//! Invariant: what is found depends on the job, the room and the rates alone, in this order.

pub mod cost;

use super::Overflow;
use super::account::{Account, Training, training};
use super::zero::Place;
use crate::transformer::training::{Attention, Checkpointing};
use cost::{Cost, Rates, cost};

/// Room for a job; `None` where nothing is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of each GPU.
    pub gpu: u128,
    /// Of each node's host memory.
    pub cpu: Option<u128>,
    /// Of each node's drives.
    pub nvme: Option<u128>,
}

impl Room {
    fn holds(&self, account: &Account) -> bool {
        account.gpu <= self.gpu
            && self.cpu.is_none_or(|room| account.cpu_per_node <= room)
            && self.nvme.is_none_or(|room| account.nvme_per_node <= room)
    }
}

/// A set of changes that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// What is changed, as options of the command.
    pub changes: Vec<String>,
    /// What it needs then, of a GPU, of a node's host and of its drives.
    pub bytes: [u128; 3],
    /// The step's estimated time over the job's own; `None` where rates are missing for it.
    pub slowdown: Option<f64>,
    /// What a step does.
    pub cost: Cost,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Whether the job fits as it is.
    pub fits: bool,
    /// Settings that were tried.
    pub tried: usize,
    /// Least sets of changes, the quickest first.
    pub least: Vec<Fit>,
}

impl Found {
    /// The set with the fewest changes; of several the quickest.
    pub fn smallest(&self) -> Option<usize> {
        (0..self.least.len()).min_by_key(|&at| (self.least[at].changes.len(), at))
    }
}

/// How far a setting goes on each knob, counted from the job's own.
type Far = [u8; 6];

/// A setting: the job with its knobs turned, and how far.
struct Setting {
    job: Training,
    far: Far,
    changes: Vec<String>,
}

/// A job with one knob turned as far as it goes, step by step, each with the option that says so.
type Knob = fn(&Training) -> Vec<(Training, String)>;

/// Every setting that is no larger than the job on any knob; the first is the job itself.
fn settings(job: &Training) -> Vec<Setting> {
    let mut all = vec![Setting { job: job.clone(), far: Far::default(), changes: Vec::new() }];
    let knobs: [Knob; 6] = [stages, optimizers, weights, checkpoints, kernels, micro_batches];
    for (knob, turned) in knobs.into_iter().enumerate() {
        let mut more = Vec::new();
        for setting in &all {
            for (steps, (job, change)) in turned(&setting.job).into_iter().enumerate() {
                let mut far = setting.far;
                far[knob] = steps as u8 + 1;
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
fn beyond(from: Place) -> impl Iterator<Item = Place> {
    Place::ALL.into_iter().filter(move |&place| place > from)
}

fn optimizers(job: &Training) -> Vec<(Training, String)> {
    let turned = |place: Place| {
        let mut job = job.clone();
        job.offload.optimizer = place;
        (job, format!("--offload-optimizer {}", place.word()))
    };
    beyond(job.offload.optimizer).filter(|_| job.stage >= 1).map(turned).collect()
}

fn weights(job: &Training) -> Vec<(Training, String)> {
    let turned = |place: Place| {
        let mut job = job.clone();
        job.offload.weights = place;
        (job, format!("--offload-param {}", place.word()))
    };
    beyond(job.offload.weights).filter(|_| job.stage >= 3).map(turned).collect()
}

fn checkpoints(job: &Training) -> Vec<(Training, String)> {
    let Some(step) = &job.step else { return Vec::new() };
    let all: &[_] = match step.checkpointing {
        Checkpointing::None => {
            &[(Checkpointing::Selective, "selective"), (Checkpointing::Full, "full")]
        }
        Checkpointing::Selective | Checkpointing::Every(_) => &[(Checkpointing::Full, "full")],
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
    let materialised = |step: &super::account::Step| step.attention == Attention::Materialised;
    if !job.step.as_ref().is_some_and(materialised) {
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
    while micro_batch % 2 == 0 {
        micro_batch /= 2;
        let mut turned = job.clone();
        turned.step.iter_mut().for_each(|step| step.micro_batch = micro_batch);
        all.push((turned, format!("--micro-batch {micro_batch}")));
    }
    all
}

/// What makes `job` fit into `room`.
pub fn fit(job: &Training, room: &Room, rates: &Rates) -> Result<Found, Overflow> {
    let all = settings(job);
    let own = cost(job)?;
    let mut fitting: Vec<(Far, Fit)> = Vec::new();
    for setting in &all {
        let account = training(&setting.job)?;
        if !room.holds(&account) {
            continue;
        }
        let cost = cost(&setting.job)?;
        let bytes = [account.gpu, account.cpu_per_node, account.nvme_per_node];
        let slowdown = cost.slowdown(&own, rates);
        fitting
            .push((setting.far, Fit { changes: setting.changes.clone(), bytes, slowdown, cost }));
    }
    let fits = fitting.iter().any(|(far, _)| *far == Far::default());
    let no_further = |a: &Far, b: &Far| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let is_least = |far: &Far| !fitting.iter().any(|(other, _)| no_further(other, far));
    let mut least: Vec<Fit> =
        fitting.iter().filter(|(far, _)| is_least(far)).map(|(_, fit)| fit.clone()).collect();
    let known = |fit: &Fit| fit.slowdown.unwrap_or(f64::INFINITY);
    least.sort_by(|a, b| {
        let moved = |fit: &Fit| (fit.cost.between_gpus, fit.cost.host + fit.cost.nvme);
        known(a)
            .total_cmp(&known(b))
            .then(moved(a).cmp(&moved(b)))
            .then(a.changes.len().cmp(&b.changes.len()))
    });
    Ok(Found { fits, tried: all.len(), least })
}
