//! All points of a sweep, in parallel, as one record.
//!
//! Points that share hardware, workload and seed share one bench: durations and the baseline are
//! worked out once. Results come in the sweep's order whatever the number of threads.

use crate::lint::lint_hardware;
use crate::record::RunRecord;
use crate::run::{Bench, Options, RunError, in_order, record, within};
use crate::scenario::sweep::Sweep;
use crate::scenario::{Case, Scenario};
use crate::traces::Traces;
use rayon::prelude::*;
use std::collections::BTreeMap;
use tiersim_models::hardware::{Hardware, TierKind};

/// How many cases a sweep runs.
pub fn count(sweep: &Sweep) -> usize {
    sweep.points.iter().map(|point| point.scenario.cases.len()).sum()
}

/// Runs every case of every point. `done` hears of every case that is finished.
pub fn run_sweep(
    sweep: &Sweep,
    traces: &Traces,
    fingerprint: String,
    options: Options,
    done: impl Fn() + Sync,
) -> Result<RunRecord, RunError> {
    let mut keys: BTreeMap<String, usize> = BTreeMap::new();
    let mut scenarios: Vec<&Scenario> = Vec::new();
    let mut bench_of = |scenario| {
        *keys.entry(key(scenario)).or_insert_with(|| {
            scenarios.push(scenario);
            scenarios.len() - 1
        })
    };
    let base = bench_of(&sweep.base);
    for point in &sweep.points {
        same_shape(&sweep.base.hardware, &point.scenario.hardware)?;
    }
    let mut jobs: Vec<(usize, &Case)> = Vec::new();
    for point in &sweep.points {
        let bench = bench_of(&point.scenario);
        jobs.extend(point.scenario.cases.iter().map(|case| (bench, case)));
    }
    let benches = scenarios.par_iter();
    let benches = benches.map(|scenario| Bench::new(scenario, traces.of(scenario), options));
    let benches = in_order(benches.collect())?;
    let run = |&(bench, case): &(usize, &Case)| {
        let record = benches[bench].run(case, options);
        done();
        record
    };
    let results = in_order(jobs.par_iter().map(run).collect())?;
    let points = sweep.points.iter().map(|point| &point.scenario);
    let compacted = within::compacted(points);
    // One machine and one workload have one curve.
    let mut used = jobs.iter().map(|job| job.0);
    let first = used.next().filter(|first| used.all(|other| other == *first));
    let cases: Vec<&Case> = jobs.iter().map(|job| job.1).collect();
    let curve = first.map(|bench| benches[bench].curve(&cases, &results)).transpose()?;
    let mut record = record(&sweep.base, &benches[base], fingerprint, results, &compacted);
    record.bound_curve = curve.unwrap_or_default();
    record.skipped.clone_from(&sweep.skipped);
    for scenario in &scenarios {
        for warning in lint_hardware(&scenario.hardware) {
            if !record.warnings.contains(&warning) {
                record.warnings.push(warning);
            }
        }
    }
    Ok(record)
}

/// Points share one table of tiers and links, so these must be the same in all of them.
fn same_shape(base: &Hardware, other: &Hardware) -> Result<(), RunError> {
    let tiers = |hardware: &Hardware| -> Vec<(String, TierKind)> {
        hardware.tiers.iter().map(|tier| (tier.name.clone(), tier.kind)).collect()
    };
    let lanes = |hardware: &Hardware| -> Vec<String> {
        hardware.lanes().map(|lane| hardware.lane_name(lane)).collect()
    };
    if tiers(base) == tiers(other) && lanes(base) == lanes(other) {
        return Ok(());
    }
    Err(RunError::Input(format!(
        "a sweep compares machines with the same tiers and links, and {} differs from {} in them; \
         run one scenario for each machine",
        other.name, base.name
    )))
}

/// What a bench depends on.
fn key(scenario: &Scenario) -> String {
    format!("{:?} {:?} {}", scenario.hardware, scenario.workload, scenario.seed)
}
