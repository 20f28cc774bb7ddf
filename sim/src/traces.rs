//! The traces that scenarios name, each read or made once.

use crate::diagnostic::Diagnostics;
use crate::scenario::{Scenario, TraceSource};
use crate::trace::{read_trace, trace_hash};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tiersim_models::lifetime::Workload;
use tiersim_models::transformer::Work;
use tiersim_models::workload::Trace;

/// Most ops of all generated traces together: a sweep over a shape keeps one trace per shape.
const MAX_GENERATED_OPS: u64 = 400_000;

/// Workloads by where their trace comes from.
#[derive(Debug, Default)]
pub struct Traces {
    read: BTreeMap<Key, (Workload, String)>,
}

/// A source, and what its statistics are.
type Key = (TraceSource, String);

fn key(scenario: &Scenario) -> Key {
    let spec = &scenario.workload;
    (spec.trace.clone(), format!("{:?}", spec.statistics))
}

impl Traces {
    /// Reads or makes the traces of all scenarios.
    ///
    /// Errors if one cannot be read, or if more would be made than fits in memory.
    pub fn read<'a>(
        scenarios: impl IntoIterator<Item = &'a Scenario>,
    ) -> Result<Traces, Diagnostics> {
        let mut traces = Traces::default();
        let mut generated = 0;
        for scenario in scenarios {
            let source = &scenario.workload.trace;
            let key = key(scenario);
            if traces.read.contains_key(&key) {
                continue;
            }
            let mut trace = match source {
                TraceSource::Serving(serving) => {
                    let workload = serving.workload()?;
                    generated += workload.trace.ops.len() as u64;
                    too_many(generated, source)?;
                    let hash = served_hash(&workload);
                    traces.read.insert(key, (workload, hash));
                    continue;
                }
                TraceSource::Folder(folder) => read_trace(folder)?,
                TraceSource::Layered(shape) => {
                    generated += shape.ops();
                    too_many(generated, source)?;
                    shape.trace()
                }
                TraceSource::Training(training) => {
                    generated += training.ops(training.micro_batch);
                    too_many(generated, source)?;
                    training.trace()
                }
                TraceSource::Model(work) => {
                    let trace = trace_of(work);
                    generated += trace.ops.len() as u64;
                    too_many(generated, source)?;
                    trace
                }
            };
            scenario.workload.statistics.apply(&mut trace).map_err(|module| {
                let rule = "the file of `statistics` has no row for a module with weights";
                let remedy = "add a row for it; `*` stands for any text";
                Diagnostics::one(&source.place(), None, rule, format!("{module:?}"), remedy)
            })?;
            let hash = trace_hash(&trace);
            traces.read.insert(key, (Workload::new(trace), hash));
        }
        Ok(traces)
    }

    /// The workload of a scenario whose trace was read.
    pub fn of(&self, scenario: &Scenario) -> &Workload {
        &self.entry(scenario).0
    }

    /// The hash of what that trace holds.
    pub fn hash(&self, scenario: &Scenario) -> &str {
        &self.entry(scenario).1
    }

    fn entry(&self, scenario: &Scenario) -> &(Workload, String) {
        self.read.get(&key(scenario)).expect("the scenario's trace was read")
    }
}

/// The hash of a trace and of what its ops do for requests.
fn served_hash(workload: &Workload) -> String {
    let mut digest = Sha256::new_with_prefix(trace_hash(&workload.trace));
    if let Some(plan) = &workload.serving {
        digest.update(format!("{:?}", plan.requests));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The trace of one rank of work without problems.
pub fn trace_of(work: &Work) -> Trace {
    match work {
        Work::Train(training) => training.trace(),
        Work::Generate(generation) => generation.trace(),
        Work::Operators(operators) => operators.trace(),
    }
}

/// Tokens of one step of all ranks together.
pub fn tokens_of(work: &Work) -> u64 {
    match work {
        Work::Train(training) => {
            let sequences = u64::from(training.batch) * u64::from(training.parallel.data);
            sequences.saturating_mul(training.sequence)
        }
        // One token per sequence, whether it comes of the prompt or of the token before it.
        Work::Generate(generation) => u64::from(generation.batch) * u64::from(generation.batches),
        // A vector stands for a token; every rank has some of its own.
        Work::Operators(operators) => u64::from(operators.batch) * u64::from(operators.ranks),
    }
}

fn too_many(generated: u64, source: &TraceSource) -> Result<(), Diagnostics> {
    if generated <= MAX_GENERATED_OPS {
        return Ok(());
    }
    let rule = format!("all generated traces together have at most {MAX_GENERATED_OPS} ops");
    let remedy = "take fewer shapes, or smaller ones";
    Err(Diagnostics::one(&source.place(), None, rule, "", remedy))
}
