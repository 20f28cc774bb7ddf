//! `explain --switches`: what every optimisation of a training scenario saves and costs, by runs.
//!
//! The order is that of `tiersim memory --table`. A switch is keys of the scenario, as `--set`
//! takes them, and what they need: what leaves the device needs a policy that has a home for it.
//! What the scenario has already, or has no use for, is no switch of it.

use super::Again;
use tiersim_models::hardware::{HBM, Hardware, TierKind};
use tiersim_models::results::Outcome;
use tiersim_models::results::switched::{SwitchFound, SwitchPair, SwitchRun, SwitchRuns};
use tiersim_models::units::Bytes;
use tiersim_policies::scenario::{Case, Scenario, TraceSource};
use tiersim_sim::run::{CaseRunner, Options};
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::training::{
    Attention, Checkpointing, Kernels, Loss, Optimizer, Training, Zero,
};

/// Ops ahead of which offloaded state is fetched.
const PREFETCH: &str = "prefetch_ops: 64";

/// Paths with the values that they are given.
type Changes = Vec<(String, String)>;

/// A switch of a scenario: keys, and what becomes of `zero`, which need not be written.
pub(super) struct Switch {
    name: &'static str,
    changes: Changes,
    zero: fn(&mut Zero),
}

/// A scenario with some switches turned.
#[derive(Clone)]
struct Turned {
    changes: Changes,
    zero: Zero,
}

impl Turned {
    /// With one switch more: a later value of a path takes the place of an earlier one.
    fn with(mut self, switch: &Switch) -> Turned {
        let more = &switch.changes;
        self.changes.retain(|(path, _)| more.iter().all(|(new, _)| new != path));
        self.changes.extend(more.iter().cloned());
        (switch.zero)(&mut self.zero);
        self
    }

    /// All that is changed of a scenario whose own is `zero`.
    fn said(&self, zero: &Zero) -> Changes {
        let mut all = self.changes.clone();
        if self.zero != *zero {
            let Zero { stage, host_update, bucket, prefetch, reshard, overlap } = self.zero;
            let share = f64::from(host_update) / 1000.0;
            let value = format!(
                "(stage: {stage}, host_update: {share}, bucket: b({}), prefetch: {prefetch}, \
                 reshard: {reshard}, overlap: {overlap})",
                bucket.get()
            );
            all.push(key("zero", value));
        }
        all
    }
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

/// What a scenario has written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Which policy is that of the case.
    pub(super) case: usize,
    /// Whether the model is spelled out, so that it may become another one.
    pub(super) card: bool,
    /// Whether formats are.
    pub(super) formats: bool,
}

/// The switches of a job on a machine, in their order.
pub(super) fn switches(
    job: &Training,
    hardware: &Hardware,
    Written { case, card, formats }: Written,
) -> Vec<Switch> {
    let mut all: Vec<Switch> = Vec::new();
    let mut add = |name, is_new: bool, changes: Changes, zero: fn(&mut Zero)| {
        if is_new {
            all.push(Switch { name, changes, zero });
        }
    };
    let mut step = |name, is_new, path, value: &str| {
        add(name, is_new, vec![key(path, value)], |_| {});
    };
    step("flash attention", job.attention == Attention::Eager, "attention", "flash");
    let ways = job.parallel.pipeline.saturating_mul(job.parallel.interleave).max(1);
    let half = format!("layers({})", job.card.layers.div_ceil(ways).div_ceil(2));
    let (not_any, not_all) =
        [Checkpointing::None, Checkpointing::Full].map(|other| job.checkpointing == other).into();
    step("half of the blocks computed again", not_any, "checkpointing", &half);
    step("all blocks computed again", !not_all, "checkpointing", "full");
    let is_whole = job.formats.activations.bytes() > 1 && job.kernels != Kernels::Eager;
    let small = match formats {
        true => ("workload.formats.activations", "int8"),
        false => ("workload.formats", "(activations: int8)"),
    };
    let small = vec![(small.0.to_owned(), small.1.to_owned())];
    add("8-bit activations", is_whole, small, |_| {});
    let mut step = |name, is_new, path, value: &str| {
        add(name, is_new, vec![key(path, value)], |_| {});
    };
    step("8-bit optimizer state", job.optimizer == Optimizer::AdamW, "optimizer", "adam_8bit");
    step("fused loss", job.loss == Loss::Eager, "loss", "fused");
    step("compiled kernels", job.kernels == Kernels::Eager, "kernels", "compiled");
    step("one sequence at a time", job.micro_batch > 1, "micro_batch", "1");
    let window = ("workload.card.window".to_owned(), (job.sequence / 4).max(1).to_string());
    let is_wide = card && job.card.window.is_none_or(|own| u64::from(own) > job.sequence / 4);
    add("a window of a quarter of the sequence", is_wide, vec![window], |_| {});
    let below = |stage| job.parallel.data > 1 && job.zero.stage < stage;
    add("ZeRO stage 1", below(1), Changes::new(), |zero| zero.stage = 1);
    add("ZeRO stage 2", below(2), Changes::new(), |zero| zero.stage = 2);
    add("ZeRO buckets of 50 MB", job.parallel.data > 1, Changes::new(), |zero| {
        (zero.stage, zero.bucket) = (zero.stage.max(2), Bytes::new(50_000_000));
    });
    add("ZeRO stage 3", below(3), Changes::new(), |zero| zero.stage = 3);
    for (name, homes) in offloads(hardware) {
        let policy = format!("ZeroOffload({homes}, {PREFETCH})");
        let changes = vec![(format!("policies.{case}.policy"), policy)];
        add(name, true, changes, |zero| zero.host_update = 1000);
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

impl Again<'_> {
    /// What comes of a case with these changes.
    fn switched(&self, label: &str, changes: Changes, options: Options) -> SwitchRun {
        let found = self.with(&changes, |scenario, workload, kin| {
            let bench = CaseRunner::among(kin, scenario, workload, options)?;
            let case = scenario.cases.iter().find(|case| case.label == label);
            let (outcome, _) = bench.outcome(case.expect("no change renames cases"), options)?;
            let figures = outcome.figures();
            Ok(SwitchFound {
                needs: bench.baseline().peak[HBM.index()],
                unlimited: bench.baseline().mean_step(),
                step: match (&outcome, figures) {
                    (_, Some(figures)) => Ok(figures.mean_step()),
                    (Outcome::OutOfMemory(full), _) => Err(full.told()),
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
        (zero, all): (&Zero, &[Switch]),
        options: Options,
        done: impl Fn(),
    ) -> SwitchRuns {
        let run = |changes: Changes| {
            let run = self.switched(&case.label, changes, options);
            done();
            run
        };
        let base = run(Vec::new());
        let plain = Turned { changes: Changes::new(), zero: *zero };
        let mut turned = plain.clone();
        let rows = all.iter().map(|switch| {
            let alone = run(plain.clone().with(switch).said(zero));
            turned = turned.clone().with(switch);
            SwitchPair { name: switch.name, alone, in_turn: run(turned.said(zero)) }
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
