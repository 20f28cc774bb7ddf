//! The traces that scenarios name, each once however many cases and points replay it.

use crate::scenario::{Scenario, TraceSource};
use std::collections::BTreeMap;
use tiersim_models::lifetime::Workload;

/// Workloads by where their trace comes from.
#[derive(Debug, Default)]
pub struct Traces {
    all: BTreeMap<Key, (Workload, String)>,
}

/// A source, what its statistics are, and what collectives take where these say when requests are
/// served.
type Key = (TraceSource, String, Option<String>);

fn key(scenario: &Scenario) -> Key {
    let spec = &scenario.workload;
    let laws = match &spec.trace {
        TraceSource::Serving(source) if source.serving.tensor > 1 => {
            Some(format!("{:?}", scenario.hardware.collective_laws(spec.ranks)))
        }
        _ => None,
    };
    (spec.trace.clone(), format!("{:?}", spec.statistics), laws)
}

impl Traces {
    /// Whether a scenario's trace is there.
    pub fn has(&self, scenario: &Scenario) -> bool {
        self.all.contains_key(&key(scenario))
    }

    /// Keeps the workload of a scenario, with the hash of what its trace holds.
    pub fn keep(&mut self, scenario: &Scenario, workload: Workload, hash: String) {
        self.all.insert(key(scenario), (workload, hash));
    }

    /// Takes what is kept for a scenario.
    pub fn take(&mut self, scenario: &Scenario) -> Option<(Workload, String)> {
        self.all.remove(&key(scenario))
    }

    /// Keeps what another one has, too.
    pub fn add(&mut self, other: Traces) {
        self.all.extend(other.all);
    }

    /// Forgets all traces but a scenario's.
    pub fn keep_only(&mut self, scenario: &Scenario) {
        let own = key(scenario);
        self.all.retain(|key, _| *key == own);
    }

    /// The workload of a scenario whose trace is there.
    pub fn of(&self, scenario: &Scenario) -> &Workload {
        &self.entry(scenario).0
    }

    /// The hash of what that trace holds.
    pub fn hash(&self, scenario: &Scenario) -> &str {
        &self.entry(scenario).1
    }

    fn entry(&self, scenario: &Scenario) -> &(Workload, String) {
        self.all.get(&key(scenario)).expect("the scenario's trace was read")
    }
}
