//! Reads or makes the traces that scenarios name, each once.

#[cfg(not(target_family = "wasm"))]
use crate::import::any::import_file;
use crate::import::serving::read_requests;
use crate::scenario::{Scenario, ServingSource, TraceSource};
use crate::trace::{hex, read_trace, trace_hash};
use sha2::{Digest, Sha256};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::CollectiveLaws;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Span;
use tiersim_models::workload::{Gaps, Trace};
use tiersim_policies::scenario::traces::Traces;
use tiersim_workloads::transformer::serving::GroupWork;

/// Most ops of all generated traces together: a sweep over a shape keeps one trace per shape.
const MAX_GENERATED_OPS: u64 = 300_000;

/// Reads or makes the traces of all scenarios.
///
/// Errors if one cannot be read, or if more would be made than fits in memory.
pub fn read_traces<'a>(
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Result<Traces, Diagnostics> {
    read_traces_with(Traces::default(), scenarios)
}

/// The same, where `known` has some of them already: what is made counts as if it had not.
pub fn read_traces_with<'a>(
    mut known: Traces,
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Result<Traces, Diagnostics> {
    let mut traces = Traces::default();
    read_from(&mut traces, &mut known, scenarios)?;
    traces.add(known);
    Ok(traces)
}

/// Reads or makes the traces of all scenarios that are not there yet.
///
/// Errors as [`read_traces`]; what is there already does not count.
pub fn read_more_traces<'a>(
    traces: &mut Traces,
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Result<(), Diagnostics> {
    read_from(traces, &mut Traces::default(), scenarios)
}

fn read_from<'a>(
    traces: &mut Traces,
    known: &mut Traces,
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Result<(), Diagnostics> {
    let mut generated = 0;
    for scenario in scenarios {
        let source = &scenario.workload.trace;
        if traces.has(scenario) {
            continue;
        }
        if let Some((workload, hash)) = known.take(scenario) {
            if !source.is_recorded() {
                generated += workload.trace.ops.len() as u64;
                too_many(generated, source)?;
            }
            traces.keep(scenario, workload, hash);
            continue;
        }
        let mut trace = match source {
            TraceSource::Serving(serving) => {
                let spec = &scenario.workload;
                let workload = served(serving, scenario.hardware.collective_laws(spec.ranks))?;
                generated += workload.trace.ops.len() as u64;
                too_many(generated, source)?;
                let hash = served_hash(&workload);
                traces.keep(scenario, workload, hash);
                continue;
            }
            TraceSource::Folder(folder) => read_trace(folder)?,
            TraceSource::Recording { file, gaps } => recorded(file, *gaps)?,
            TraceSource::Training(training) => counted(training.trace(), &mut generated, source)?,
            TraceSource::Model(work) => counted(work.trace(), &mut generated, source)?,
        };
        scenario.workload.statistics.apply(&mut trace).map_err(|module| {
            let rule = "the file of `statistics` has no row for a module with weights";
            let remedy = "add a row for it; `*` stands for any text";
            Diagnostics::one(&source.place(), None, rule, format!("{module:?}"), remedy)
        })?;
        let hash = trace_hash(&trace);
        traces.keep(scenario, Workload::new(trace), hash);
    }
    Ok(())
}

/// The trace that a recording becomes.
#[cfg(not(target_family = "wasm"))]
fn recorded(file: &Path, gaps: Gaps) -> Result<Trace, Diagnostics> {
    Ok(import_file(file, gaps)?.trace)
}

/// A page has no readers of recordings, which are many and large: it is given what they become.
#[cfg(target_family = "wasm")]
fn recorded(file: &Path, _: Gaps) -> Result<Trace, Diagnostics> {
    let rule = "a recording is not read inside of a page";
    let remedy = "report this: it is a fault of the program that made the page";
    Err(Diagnostics::one(file, None, rule, "", remedy))
}

/// The requests of a source, and the trace that serves them over links of these laws.
///
/// # Errors
/// What is wrong with the file of requests, or keeps them from being served.
fn served(source: &ServingSource, laws: CollectiveLaws) -> Result<Workload, Diagnostics> {
    let mut requests = read_requests(&source.requests, source.serving.block_tokens)?;
    if let Some(until) = source.until {
        requests.keep_before(until);
    }
    if let Some(first) = source.first {
        requests.keep_first(usize::try_from(first).unwrap_or(usize::MAX));
    }
    let refused =
        |rule: String, remedy: &str| Diagnostics::one(&source.requests, None, rule, "", remedy);
    if requests.list.is_empty() {
        let rule = "no request arrives that early".to_owned();
        return Err(refused(rule, "raise `until`, or leave it out"));
    }
    let Some((compute, precision)) = &source.device else {
        let rule = "serving has no device to estimate iterations on".to_owned();
        return Err(refused(rule, "write `time: roofline(precision: \"bf16\")`"));
    };
    let pace = |work: &GroupWork| {
        let computing = compute.kernels(precision, &work.kernels)?.ps();
        let sending = work.collectives.iter().map(|one| compute.collective(one, laws));
        let all = sending.into_iter().try_fold(computing, |sum, one| sum.checked_add(one?.ps()));
        all.map(Span::from_ps)
    };
    let served = source.serving.serve(&requests, &pace);
    let served = served.map_err(|problem| refused(problem.to_string(), problem.remedy()))?;
    Ok(Workload::serving(served))
}

/// The hash of a trace and of what its ops do for requests.
fn served_hash(workload: &Workload) -> String {
    let mut digest = Sha256::new_with_prefix(trace_hash(&workload.trace));
    if let Some(plan) = &workload.serving {
        digest.update(format!("{:?}", plan.requests));
    }
    hex(digest)
}

/// A generated trace that is not one too many.
fn counted(trace: Trace, generated: &mut u64, source: &TraceSource) -> Result<Trace, Diagnostics> {
    *generated += trace.ops.len() as u64;
    too_many(*generated, source)?;
    Ok(trace)
}

fn too_many(generated: u64, source: &TraceSource) -> Result<(), Diagnostics> {
    if generated <= MAX_GENERATED_OPS {
        return Ok(());
    }
    let rule = format!("all generated traces together have at most {MAX_GENERATED_OPS} ops");
    let remedy = "take fewer shapes, or smaller ones";
    Err(Diagnostics::one(&source.place(), None, rule, "", remedy))
}
