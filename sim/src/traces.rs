//! The traces that scenarios name, each read once.

use crate::diagnostic::Diagnostics;
use crate::scenario::Scenario;
use crate::trace::{read_trace, trace_hash};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tiersim_models::lifetime::Workload;

/// Workloads by the folder of their trace.
#[derive(Debug, Default)]
pub struct Traces {
    read: BTreeMap<PathBuf, (Workload, String)>,
}

impl Traces {
    /// Reads the traces of all scenarios.
    pub fn read<'a>(
        scenarios: impl IntoIterator<Item = &'a Scenario>,
    ) -> Result<Traces, Diagnostics> {
        let mut traces = Traces::default();
        for scenario in scenarios {
            let folder = &scenario.workload.trace;
            if !traces.read.contains_key(folder) {
                let trace = read_trace(folder)?;
                let hash = trace_hash(&trace);
                traces.read.insert(folder.clone(), (Workload::new(trace), hash));
            }
        }
        Ok(traces)
    }

    /// The workload of a scenario whose trace was read.
    pub fn of(&self, scenario: &Scenario) -> &Workload {
        &self.entry(scenario).0
    }

    /// The hash of that trace's files.
    pub fn hash(&self, scenario: &Scenario) -> &str {
        &self.entry(scenario).1
    }

    fn entry(&self, scenario: &Scenario) -> &(Workload, String) {
        self.read.get(&scenario.workload.trace).expect("the scenario's trace was read")
    }
}
