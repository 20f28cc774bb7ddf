//! All points of a sweep, in parallel, as one record.
//!
//! Points that share hardware, workload and seed share one bench: durations and the baseline are
//! worked out once, and dropped when the bench's last case has run. Results come in the sweep's
//! order whatever the number of threads. What is finished is handed to a journal at once, and what
//! a journal has is not simulated again.

mod jobs;
mod shard;

use crate::run::{CaseRunner, Kin, Options, RunError, conditions, in_order, record, within};
use jobs::{Job, Jobs, jobs};
pub(crate) use jobs::{draws, key};
use rayon::prelude::*;
pub use shard::Shard;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::lint::lint_hardware;
use tiersim_models::results::{CaseRecord, Conditions, MACHINE, MachineFacts, RunRecord};
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::traces::Traces;
use tiersim_policies::scenario::{Case, labelled};

/// What is known of a sweep from before, and where it is put as it comes. Cases are numbered from 0
/// to [`count`], benches likewise: the same for the same sweep.
pub trait Journal: Sync {
    /// The result of a case, if it is known; it is asked for once.
    fn case(&self, _case: usize) -> Option<CaseRecord> {
        None
    }

    /// What cases of a bench are held against, if it is known.
    fn conditions(&self, _bench: usize) -> Option<Conditions> {
        None
    }

    /// A case has been simulated.
    fn keep_case(&self, _case: usize, _record: &CaseRecord) -> Result<(), Stop> {
        Ok(())
    }

    /// A bench has been made ready.
    fn keep_conditions(&self, _bench: usize, _conditions: &Conditions) -> Result<(), Stop> {
        Ok(())
    }
}

/// Nothing is known and nothing is kept.
impl Journal for () {}

/// Results cannot be kept, so none is worked out that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

impl From<Stop> for RunError {
    fn from(_: Stop) -> RunError {
        RunError::Stopped
    }
}

/// How many cases a sweep runs.
pub fn count(sweep: &Sweep) -> usize {
    jobs(sweep).jobs.len()
}

/// Runs every case of every point, those that an axis does not touch once for all of its values.
///
/// # Errors
/// That of the first bench, else of the first case, that cannot be run.
pub fn run_sweep(
    sweep: &Sweep,
    traces: &Traces,
    fingerprint: String,
    options: Options,
    journal: &impl Journal,
) -> Result<RunRecord, RunError> {
    let all = jobs(sweep);
    let wanted: Vec<usize> = (0..all.jobs.len()).collect();
    let Ran { conditions, results } =
        Work::new(sweep, &all, traces, options, journal)?.run(wanted)?;
    let mut record = record(&sweep.base, fingerprint, conditions, results);
    record.axes = sweep.axes.iter().map(|axis| axis.name.clone()).collect();
    record.skipped.clone_from(&sweep.skipped);
    record.machines = machines(&all);
    let of_machines: Vec<Vec<Warning>> =
        all.benches.par_iter().map(|bench| lint_hardware(&bench.hardware)).collect();
    for (scenario, of_machine) in all.benches.iter().zip(of_machines) {
        for warning in of_machine.into_iter().chain(scenario.warnings.clone()) {
            if !record.warnings.contains(&warning) {
                record.warnings.push(warning);
            }
        }
    }
    record.warnings.extend(all.warnings);
    Ok(record)
}

/// The numbers of each machine that cases are compared on, as the first of its cases has it.
fn machines(all: &Jobs<'_>) -> Vec<MachineFacts> {
    let mut machines: Vec<MachineFacts> = Vec::new();
    for job in &all.jobs {
        let on = job.params.iter().find(|(axis, _)| axis == MACHINE);
        let Some(name) = on.map(|(_, name)| name.to_string()) else { continue };
        if machines.iter().all(|known| known.machine != name) {
            let hardware = &all.benches[job.bench].hardware;
            machines.push(MachineFacts {
                machine: name,
                hardware: hardware.name.clone(),
                power_and_price: hardware.economics.facts.clone(),
                assumed: hardware.assumed_facts().cloned().collect(),
                assumed_numbers: hardware.assumed(),
            });
        }
    }
    machines
}

/// Runs the cases of one shard ([`cases_of`]), whose results only the journal has.
///
/// # Errors
/// As [`run_sweep`].
pub fn run_shard(
    sweep: &Sweep,
    traces: &Traces,
    cases: Vec<usize>,
    options: Options,
    journal: &impl Journal,
) -> Result<(), RunError> {
    let all = jobs(sweep);
    let work = Work::new(sweep, &all, traces, Options { bound_curve: false, ..options }, journal)?;
    work.run(cases)?;
    Ok(())
}

/// The cases that a shard runs, by number.
///
/// # Errors
/// A policy that cannot be told what it comes to.
pub fn cases_of(sweep: &Sweep, traces: &Traces, shard: Shard) -> Result<Vec<usize>, RunError> {
    shard.cases(&jobs(sweep), traces)
}

/// What came of a sweep.
struct Ran {
    conditions: Vec<Conditions>,
    /// In the sweep's order.
    results: Vec<CaseRecord>,
}

/// A sweep on its way.
struct Work<'a, J> {
    all: &'a Jobs<'a>,
    traces: &'a Traces,
    options: Options,
    journal: &'a J,
    kin: Kin<'a>,
    compacted: BTreeSet<usize>,
    /// The only bench that cases run on, if there is but one: it has a curve.
    alone: Option<usize>,
    stopped: AtomicBool,
}

/// What came of the cases of one bench.
struct OfBench {
    conditions: Result<Conditions, RunError>,
    results: Vec<(usize, Result<CaseRecord, RunError>)>,
}

impl<'a, J: Journal> Work<'a, J> {
    fn new(
        sweep: &Sweep,
        all: &'a Jobs<'a>,
        traces: &'a Traces,
        options: Options,
        journal: &'a J,
    ) -> Result<Work<'a, J>, RunError> {
        comparable(sweep)?;
        let compacted = within::compacted(sweep.points.iter().map(|point| &point.scenario));
        let mut used = all.jobs.iter().map(|job| job.bench);
        let alone = used.next().filter(|first| used.all(|other| other == *first));
        let stopped = AtomicBool::new(false);
        let kin = Kin::default();
        Ok(Work { all, traces, options, journal, kin, compacted, alone, stopped })
    }

    /// Runs these cases, by rising number.
    fn run(&self, wanted: Vec<usize>) -> Result<Ran, RunError> {
        let mut of_bench: Vec<Vec<usize>> = vec![Vec::new(); self.all.benches.len()];
        let count = wanted.len();
        wanted.into_iter().for_each(|case| of_bench[self.all.jobs[case].bench].push(case));
        let ran: Vec<OfBench> = of_bench
            .into_par_iter()
            .enumerate()
            .map(|(bench, cases)| self.bench(bench, &cases))
            .collect();
        let (mut conditions, mut results) = (Vec::new(), Vec::with_capacity(count));
        for of in ran {
            conditions.push(of.conditions);
            results.extend(of.results);
        }
        let conditions = in_order(conditions)?;
        results.sort_by_key(|(case, _)| *case);
        let results = in_order(results.into_iter().map(|(_, result)| result).collect())?;
        Ok(Ran { conditions, results })
    }

    /// Runs these cases of a bench, which is made only if one of them is not known.
    fn bench(&self, bench: usize, cases: &[usize]) -> OfBench {
        let known: Vec<Option<CaseRecord>> =
            cases.iter().map(|&case| self.journal.case(case)).collect();
        let curved = self.options.bound_curve && self.alone == Some(bench);
        if !curved
            && known.iter().all(Option::is_some)
            && let Some(conditions) = self.journal.conditions(bench)
        {
            let known = known.into_iter().flatten().map(Ok);
            return OfBench {
                conditions: Ok(conditions),
                results: cases.iter().copied().zip(known).collect(),
            };
        }
        match self.ready(bench) {
            Err(error) => OfBench { conditions: Err(error), results: Vec::new() },
            Ok((runner, conditions)) => {
                let each = cases.par_iter().zip(known);
                let run = |(&case, known): (&usize, Option<CaseRecord>)| {
                    let run = match known {
                        // Only the curve asks.
                        Some(known) if curved => {
                            runner.has_run(self.all.jobs[case].case).map(|()| known)
                        }
                        Some(known) => Ok(known),
                        None => self.case(&runner, case),
                    };
                    (case, run)
                };
                let results: Vec<_> = each.map(run).collect();
                let conditions = match curved {
                    true => self.curved(&runner, conditions, &results),
                    false => Ok(conditions),
                };
                OfBench { conditions, results }
            }
        }
    }

    fn ready(&self, bench: usize) -> Result<(CaseRunner<'a>, Conditions), RunError> {
        self.going_on()?;
        let scenario = self.all.benches[bench];
        let workload = self.traces.of(scenario);
        let runner = CaseRunner::among(&self.kin, scenario, workload, self.options)?;
        let conditions = conditions(scenario, &runner, &self.compacted);
        if self.journal.conditions(bench).is_none() {
            self.kept(self.journal.keep_conditions(bench, &conditions))?;
        }
        Ok((runner, conditions))
    }

    fn case(&self, runner: &CaseRunner<'_>, number: usize) -> Result<CaseRecord, RunError> {
        self.going_on()?;
        let Job { bench, case, params } = &self.all.jobs[number];
        let record = runner.run_once(case, self.options, &self.compacted)?;
        let (label, params) = (labelled(case.name(), params), params.clone());
        let record = CaseRecord { label, params, conditions: *bench, ..record };
        self.kept(self.journal.keep_case(number, &record))?;
        Ok(record)
    }

    /// One machine and one workload have one curve.
    fn curved(
        &self,
        runner: &CaseRunner<'_>,
        mut conditions: Conditions,
        results: &[(usize, Result<CaseRecord, RunError>)],
    ) -> Result<Conditions, RunError> {
        let cases: Vec<&Case> = results.iter().map(|(case, _)| self.all.jobs[*case].case).collect();
        let done: Vec<&CaseRecord> = results.iter().flat_map(|(_, result)| result).collect();
        // What went wrong is told by the case.
        if done.len() == cases.len() {
            conditions.bound_curve = runner.curve(&cases, done.into_iter())?;
        }
        Ok(conditions)
    }

    fn going_on(&self) -> Result<(), RunError> {
        if self.stopped.load(Ordering::Relaxed) { Err(RunError::Stopped) } else { Ok(()) }
    }

    fn kept(&self, kept: Result<(), Stop>) -> Result<(), RunError> {
        if kept.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        Ok(kept?)
    }
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
