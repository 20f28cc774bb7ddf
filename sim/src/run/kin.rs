//! What benches have in common whose machines differ in rates alone: how long ops take, what bounds
//! count, and the baseline.
//!
//! A sweep over the rate of a link has a bench for each value, and so has every draw of uncertain
//! numbers. The ops of a device neither copy nor use anything outside HBM in the baseline, so
//! nothing of that depends on links or on other tiers.
//! Invariant: what is said of a bench does not depend on which of its like was made before.

use super::plans::Plans;
use super::stretches::Stretches;
use crate::durations::Durations;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::ModuleId;
use tiersim_models::lifetime::Workload;
use tiersim_models::results::economics::CaseEconomics;
use tiersim_models::results::{Conditions, Figures};
use tiersim_models::workload::{Trace, Unit};
use tiersim_policies::scenario::Scenario;

/// Most uses of objects in the workloads of all that is kept: what is known of one takes some 100
/// bytes.
const MOST_USES: usize = 1 << 21;
/// Most kinds of machines that are kept, however small their workload.
const MOST_KINDS: usize = 64;

/// What is known of the benches of one run of the program, all with the same options; workloads
/// live for `'w`.
#[derive(Default)]
pub struct Kin<'w> {
    kinds: Mutex<Kinds>,
    /// Plans of runs that decide the same.
    pub(super) plans: Arc<Plans<'w>>,
}

/// By workload, and by what is said of the machine.
type Kinds = BTreeMap<(usize, String), Arc<Kind>>;

/// What machines of one kind have in common.
#[derive(Debug, Default)]
pub(super) struct Kind {
    /// How long ops take.
    pub(super) durations: OnceLock<Result<Arc<Durations>, String>>,
    /// What bounds of the workload of all cases have in common.
    pub(super) stretches: OnceLock<Stretches>,
    /// Everything in an unlimited HBM, and on the device.
    pub(super) baseline: OnceLock<Figures>,
    /// Which modules own weights.
    pub(super) owners: OnceLock<Owners>,
    /// Of some case: others rest on the same numbers.
    pub(super) economics: OnceLock<CaseEconomics>,
    /// Of some machine: others are called the same.
    pub(super) conditions: OnceLock<Conditions>,
}

/// Modules that own weights, by rising number, and their names.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) ids: Vec<ModuleId>,
    pub(super) names: Arc<[String]>,
}

impl<'w> Kin<'w> {
    /// What is known of machines like that of a scenario, with this workload.
    pub(super) fn kind(
        &self,
        scenario: &Scenario,
        workload: &'w Workload,
        options: &str,
    ) -> Arc<Kind> {
        // The workload outlives what is kept of it, so no other one has its address.
        let key = (std::ptr::from_ref(workload).addr(), kind_of(scenario, workload, options));
        let mut kinds = self.kinds.lock().expect("nobody panics with it");
        let most = (MOST_USES / workload.trace.uses.len().max(1)).clamp(1, MOST_KINDS);
        if kinds.len() >= most && !kinds.contains_key(&key) {
            // What others work with stays theirs.
            kinds.clear();
        }
        kinds.entry(key).or_default().clone()
    }
}

/// In words, all that a baseline, the durations of ops and what bounds count depend on.
fn kind_of(scenario: &Scenario, workload: &Workload, options: &str) -> String {
    let (hardware, spec) = (&scenario.hardware, &scenario.workload);
    let drawn = spec.jitter > 0.0 || hardware.draws();
    let seed = drawn.then_some(scenario.seed);
    let machine = match stays_in_hbm(&workload.trace) {
        true => within_device(hardware),
        false => format!("{hardware:?}"),
    };
    format!("{machine} {spec:?} {seed:?} {options}")
}

/// Whether no op of a trace needs anything but HBM: neither the host's memory nor other devices.
fn stays_in_hbm(trace: &Trace) -> bool {
    trace.ops.iter().all(|op| matches!(op.unit, Unit::Device | Unit::Idle))
}

/// In words, what counts of a machine where nothing leaves HBM.
fn within_device(hardware: &Hardware) -> String {
    let Hardware { tiers, nodes, links, compute, server, cpu, .. } = hardware;
    let Hardware { name: _, about: _, routes: _, chunk: _, hidden: _, facts: _, .. } = hardware;
    let Hardware { economics: _, pressure: _, .. } = hardware;
    let counts = (tiers.len(), nodes.len(), links.len());
    format!("{counts:?} {server:?} {compute:?} {cpu:?} {}", hardware.draws())
}
