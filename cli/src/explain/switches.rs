//! `explain --switches`: what every optimisation of a training scenario saves and costs, by runs.
//!
//! The order is that of `tiersim memory --table`. A switch is keys of the scenario, as `--set`
//! takes them, and what they need: what leaves the device needs a policy that has a home for it.
//! What the scenario has already, or has no use for, is no switch of it.

use super::Again;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::results::switched::{SwitchFound, SwitchPair, SwitchRun, SwitchRuns};
use tiersim_policies::scenario::{Case, Scenario, TraceSource};
use tiersim_sim::run::{CaseRunner, Options};
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Optimizer, Training,
};

/// Ops ahead of which offloaded state is fetched.
const PREFETCH: &str = "prefetch_ops: 64";

/// Paths with the values that they are given.
type Changes = Vec<(String, String)>;

/// A switch of a scenario.
pub(super) struct Switch {
    name: &'static str,
    changes: Changes,
}

/// The job of a scenario that trains; `None` of any other.
pub(super) fn trained(scenario: &Scenario) -> Option<&Training> {
    match &scenario.workload.trace {
        TraceSource::Model(Work::Train(training)) => Some(training),
        _ => None,
    }
}

/// A key of the step.
fn key(path: &str, value: impl ToString) -> (String, String) {
    (format!("workload.mode.{path}"), value.to_string())
}

/// The switches of a job on a machine, in their order; `case` is the index of its policy.
pub(super) fn switches(job: &Training, hardware: &Hardware, case: usize) -> Vec<Switch> {
    let mut all: Vec<Switch> = Vec::new();
    let mut add = |name, is_new: bool, changes: Changes| {
        if is_new {
            all.push(Switch { name, changes });
        }
    };
    add("flash attention", job.attention == Attention::Eager, vec![key("attention", "flash")]);
    let ways = job.parallel.pipeline.saturating_mul(job.parallel.interleave).max(1);
    let half = job.card.layers.div_ceil(ways).div_ceil(2);
    let none = job.checkpointing == Checkpointing::None;
    let layers = format!("layers({half})");
    add("half of the blocks computed again", none, vec![key("checkpointing", layers)]);
    let not_full = job.checkpointing != Checkpointing::Full;
    add("all blocks computed again", not_full, vec![key("checkpointing", "full")]);
    let adam = job.optimizer == Optimizer::AdamW;
    add("8-bit optimizer state", adam, vec![key("optimizer", "adam_8bit")]);
    let replicas = job.parallel.data > 1;
    for (stage, name) in [(1, "ZeRO stage 1"), (2, "ZeRO stage 2"), (3, "ZeRO stage 3")] {
        add(name, replicas && job.zero.stage < stage, vec![key("zero.stage", stage)]);
    }
    let bucket = [key("zero.stage", job.zero.stage.max(2)), key("zero.bucket", "mb(50)")];
    add("ZeRO buckets of 50 MB", replicas, bucket.to_vec());
    add("fused loss", job.loss == Loss::Eager, vec![key("loss", "fused")]);
    add("compiled kernels", job.kernels == Kernels::Eager, vec![key("kernels", "compiled")]);
    add("one sequence at a time", job.micro_batch > 1, vec![key("micro_batch", 1)]);
    for (name, homes) in offloads(hardware) {
        let policy =
            (format!("policies.{case}.policy"), format!("ZeroOffload({homes}, {PREFETCH})"));
        add(name, true, vec![key("zero.host_update", 1), policy]);
    }
    all
}

/// What can leave the device on this machine, and the homes that it has then.
fn offloads(hardware: &Hardware) -> Vec<(&'static str, String)> {
    let first = |kind| hardware.tiers.iter().find(|tier| tier.kind == kind);
    let Some(dram) = first(TierKind::Dram).map(|tier| &tier.name) else { return Vec::new() };
    let mut all = vec![
        ("optimizer state in DRAM", format!("optimizer: {dram:?}")),
        ("weights in DRAM too", format!("optimizer: {dram:?}, parameters: {dram:?}")),
    ];
    if let Some(nvme) = first(TierKind::Nvme).map(|tier| &tier.name) {
        let optimizer = format!("optimizer: {nvme:?}, gradients: {dram:?}");
        all.push(("optimizer state on NVMe", optimizer.clone()));
        all.push(("weights on NVMe too", format!("{optimizer}, parameters: {nvme:?}")));
    }
    all
}

/// A later value of a path takes the place of an earlier one.
fn behind(mut changes: Changes, more: &Changes) -> Changes {
    changes.retain(|(path, _)| more.iter().all(|(new, _)| new != path));
    changes.extend(more.iter().cloned());
    changes
}

impl Again<'_> {
    /// What comes of a case with these changes.
    fn switched(&self, label: &str, changes: Changes, options: Options) -> SwitchRun {
        let found = self.with(&changes, |scenario, workload| {
            let bench = CaseRunner::new(scenario, workload, options)?;
            let case = scenario.cases.iter().find(|case| case.label == label);
            let outcome = bench.outcome(case.expect("no change renames cases"), options)?;
            let figures = outcome.figures();
            Ok(SwitchFound {
                needs: bench.baseline().peak[HBM.index()],
                unlimited: bench.baseline().mean_step(),
                step: match (&outcome, figures) {
                    (_, Some(figures)) => Ok(figures.mean_step()),
                    (tiersim_models::results::Outcome::OutOfMemory(full), _) => Err(full.told()),
                    _ => Err("it has no steps".to_owned()),
                },
                held: figures.map_or_else(Vec::new, |figures| figures.peak.clone()),
            })
        });
        SwitchRun { changes, found }
    }

    /// Every switch alone and behind those before it; `done` hears of every run.
    pub(super) fn switches(
        &self,
        (scenario, case, fingerprint): (&Scenario, &Case, String),
        all: &[Switch],
        options: Options,
        done: impl Fn(),
    ) -> SwitchRuns {
        let run = |changes: Changes| {
            let run = self.switched(&case.label, changes, options);
            done();
            run
        };
        let base = run(Vec::new());
        let mut turned = Changes::new();
        let rows = all.iter().map(|switch| {
            let alone = run(switch.changes.clone());
            turned = behind(std::mem::take(&mut turned), &switch.changes);
            SwitchPair { name: switch.name, alone, in_turn: run(turned.clone()) }
        });
        let rows = rows.collect();
        SwitchRuns {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            hardware: scenario.hardware.name.clone(),
            fingerprint,
            seed: scenario.seed,
            case: case.label.clone(),
            tiers: scenario.hardware.tiers.iter().map(|tier| tier.name.clone()).collect(),
            base,
            rows,
        }
    }
}
