//! All points of a sweep, in parallel, as one record.
//!
//! Points that share hardware, workload and seed share one bench: durations and the baseline are
//! worked out once. Results come in the sweep's order whatever the number of threads.

mod jobs;

use crate::run::{CaseRunner, Options, RunError, conditions, in_order, record, within};
use jobs::{Job, Jobs, jobs};
pub(crate) use jobs::{draws, key};
use rayon::prelude::*;
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::lint::lint_hardware;
use tiersim_models::results::{CaseRecord, Conditions, RunRecord};
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, labelled};

/// How many cases a sweep runs.
pub fn count(sweep: &Sweep) -> usize {
    jobs(sweep).jobs.len()
}

/// Runs every case of every point, those that an axis does not touch once for all of its values.
/// `done` hears of every case that is finished.
pub fn run_sweep(
    sweep: &Sweep,
    traces: &Traces,
    fingerprint: String,
    options: Options,
    done: impl Fn() + Sync,
) -> Result<RunRecord, RunError> {
    comparable(sweep)?;
    let Jobs { benches: scenarios, jobs, warnings } = jobs(sweep);
    let benches = scenarios.par_iter();
    let benches = benches.map(|scenario| CaseRunner::new(scenario, traces.of(scenario), options));
    let benches = in_order(benches.collect())?;
    let compacted = within::compacted(sweep.points.iter().map(|point| &point.scenario));
    let run = |job: &Job<'_>| {
        let record = benches[job.bench].run_once(job.case, options, &compacted);
        done();
        let (params, conditions) = (job.params.clone(), job.bench);
        let label = labelled(job.case.name(), &params);
        Ok(CaseRecord { label, params, conditions, ..record? })
    };
    let results = in_order(jobs.par_iter().map(run).collect())?;
    let of = |(scenario, bench)| conditions(scenario, bench, &compacted);
    let mut all: Vec<Conditions> = scenarios.iter().copied().zip(&benches).map(of).collect();
    // One machine and one workload have one curve.
    let mut used = jobs.iter().map(|job| job.bench);
    let one = used.next().filter(|first| used.all(|other| other == *first));
    if let Some(first) = one.filter(|_| options.bound_curve) {
        let cases: Vec<&Case> = jobs.iter().map(|job| job.case).collect();
        all[first].bound_curve = benches[first].curve(&cases, results.iter())?;
    }
    let mut record = record(&sweep.base, fingerprint, all, results);
    record.axes = sweep.axes.iter().map(|axis| axis.name.clone()).collect();
    record.skipped.clone_from(&sweep.skipped);
    for scenario in &scenarios {
        let of_point = lint_hardware(&scenario.hardware).into_iter();
        for warning in of_point.chain(scenario.warnings.clone()) {
            if !record.warnings.contains(&warning) {
                record.warnings.push(warning);
            }
        }
    }
    record.warnings.extend(warnings);
    Ok(record)
}

/// What is to be looked at in a sweep, beside its machines and workloads.
pub fn warnings(sweep: &Sweep) -> Vec<Warning> {
    jobs(sweep).warnings
}

/// That what is called alike on two machines of a sweep can stand in one column.
pub fn comparable(sweep: &Sweep) -> Result<(), RunError> {
    let mut machines = sweep.points.iter().map(|point| &point.scenario.hardware);
    machines.try_for_each(|machine| of_like_tiers(&sweep.base.hardware, machine))
}

fn of_like_tiers(base: &Hardware, other: &Hardware) -> Result<(), RunError> {
    let device = |machine: &Hardware| machine.tiers[HBM.index()].name.clone();
    if device(base) != device(other) {
        return Err(RunError::Input(format!(
            "the memory of the device is called `{}` on {} and `{}` on {}; give it one name",
            device(base),
            base.name,
            device(other),
            other.name
        )));
    }
    let unlike = other.tiers.iter().find_map(|tier| {
        let own = &base.tiers[base.tier(&tier.name)?.index()];
        (own.kind != tier.kind).then_some((tier, own))
    });
    unlike.map_or(Ok(()), |(tier, own)| {
        Err(RunError::Input(format!(
            "tier `{}` is of kind {} on {} and of kind {} on {}, and would stand in one column; \
             rename one",
            tier.name,
            own.kind.word(),
            base.name,
            tier.kind.word(),
            other.name
        )))
    })
}
