//! Why a step takes as long as it does, and what would change it: a case with its critical path,
//! and runs of the same case with other numbers.
//!
//! One case is run with its path ([`explained`]); whatever else is said of it comes of runs with
//! other numbers ([`answers`]), which the caller makes, since a number of a file is changed where
//! files are read.
//! Invariant: the record of an explained case is that of the same case in a run of all of them.

pub mod answers;

use crate::run::{CaseRunner, Options, RunError, conditions, record, within};
use tiersim_models::hardware::{Capacity, HBM};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::Outcome;
use tiersim_models::results::explain::{Explanation, MemoryTry};
use tiersim_models::units::Bytes;
use tiersim_policies::scenario::{Budget, Case, Scenario};

/// More HBM that is tried, as per cent of what the case has.
const MORE_MEMORY: [u64; 7] = [105, 110, 125, 150, 200, 300, 400];

/// The case of a scenario that is explained: the one of this name, or without one the first that
/// may move anything.
///
/// Errors in words if there is none of that name, or none at all.
pub fn chosen<'s>(scenario: &'s Scenario, label: Option<&str>) -> Result<&'s Case, String> {
    let cases = &scenario.cases;
    let Some(label) = label else {
        let moves = |case: &&Case| case.policy.name() != "all-hbm";
        let first = cases.iter().find(moves).or(cases.first());
        return first.ok_or_else(|| format!("scenario {:?} has no policies", scenario.name));
    };
    cases.iter().find(|case| case.label == label).ok_or_else(|| {
        let labels: Vec<String> = cases.iter().map(|case| format!("{:?}", case.label)).collect();
        format!(
            "scenario {:?} has no case {label:?}; choose from {}",
            scenario.name,
            labels.join(", ")
        )
    })
}

/// Runs a case with its path, and with more HBM.
///
/// # Errors
/// As a run; and if the case runs out of memory, or its steps take no time.
pub fn explained(
    scenario: &Scenario,
    workload: &Workload,
    fingerprint: String,
    case: &Case,
    options: Options,
) -> Result<Explanation, RunError> {
    let bench = CaseRunner::new(scenario, workload, options)?;
    let options = Options { timeline: true, ..options };
    let walk = bench.walk(case, options)?;
    if let Outcome::OutOfMemory(full) = &walk.record.outcome {
        return Err(RunError::Input(format!(
            "case {:?} {}, so it has no steps to explain; give it more (tiersim memory --fit says \
             what makes a model fit), or name another case with --case",
            case.label,
            full.told()
        )));
    }
    let (path, gap) = walk.path.expect("a case that fits has a path");
    if path.span.ps() == 0 {
        return Err(RunError::Input(format!(
            "case {:?}: its steps take no time, so there is nothing to explain; give its ops \
             durations, or FLOPs and bytes",
            case.label
        )));
    }
    let compacted = within::compacted([scenario]);
    let one = within::kept(walk.record, &scenario.hardware, &compacted);
    let conditions = conditions(scenario, &bench, &compacted);
    let record = record(scenario, fingerprint, vec![conditions], vec![one]);
    let memory = more_memory(&bench, case, options)?;
    let (elasticities, unchanged, tries) = (Vec::new(), Vec::new(), Vec::new());
    Ok(Explanation { record, path, gap, elasticities, change: 0.0, unchanged, tries, memory })
}

/// The case with more and more HBM, up to what the workload holds where there is no limit. Nothing
/// of one that has as much already.
fn more_memory(
    bench: &CaseRunner<'_>,
    case: &Case,
    options: Options,
) -> Result<Vec<MemoryTry>, RunError> {
    let memory = bench.memory_of(case)?;
    let Capacity::Limited(has) = memory.capacities()[HBM.index()] else { return Ok(Vec::new()) };
    let peak = bench.baseline().peak[HBM.index()];
    let hidden = memory.hidden_in(HBM);
    let mut tries = Vec::new();
    if memory.usable(HBM).holds(peak) {
        return Ok(tries);
    }
    let options = Options { timeline: false, ..options };
    for per_cent in MORE_MEMORY {
        let more = u128::from(has.get()) * u128::from(per_cent) / 100;
        // As much as there is to hold is enough.
        let enough = peak + hidden;
        let hbm = Bytes::new(u64::try_from(more).unwrap_or(u64::MAX)).min(enough);
        let mut case = case.clone();
        case.hbm = Budget::Bytes(hbm);
        let step = bench.judged(&case, options)?;
        tries.push(MemoryTry { hbm: Bytes::new(hbm.get() - hidden.get()), step });
        if hbm == enough {
            break;
        }
    }
    Ok(tries)
}
