//! The workload of a case that has micro-batches of its own.
//!
//! A fixed micro-batch is another split of the same steps. One that changes under pressure is found
//! step by step: the run is planned, without a machine, with the micro-batch of now in all steps to
//! come, up to the first step whose pressure asks for another; that is fixed from the next step on,
//! and the run is planned again. What is fixed is never changed again, so a training of S steps is
//! planned at most S + 1 times. A policy that does not look ahead decides the same in every one of
//! these plans; one that does had, when a step was judged, to take the next ones to be like it.
//! Invariant: every case covers the same samples in every step.

use crate::durations::Durations;
use crate::run::{CaseRunner, RunError};
use std::sync::atomic::Ordering;
use tiersim_models::hardware::{Hardware, Memory};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_policies::chunks::chunked;
use tiersim_policies::planner::Planner;
use tiersim_policies::pressure::{MILLION, MicroBatch, PressureConfig, StepPressure, Thresholds};
use tiersim_policies::recipe::{PolicyConfig, Setting};
use tiersim_policies::scenario::{Case, TraceSource};

/// A workload of a case's own.
pub(super) struct Own {
    pub(super) workload: Workload,
    pub(super) durations: Durations,
}

/// What a case runs.
pub(super) struct Planned {
    /// Its own workload, unless it is the one of all cases.
    pub(super) own: Option<Own>,
    /// Its policy, which knows what it decided when it rewrote the workload.
    pub(super) policy: PolicyConfig,
    /// Whether some op runs more than once.
    pub(super) repeats: bool,
}

/// What a case says about chunks, its micro-batches and its memory pressure, if anything.
pub(super) fn words(case: &Case, hardware: &Hardware) -> Option<String> {
    let chunk = case.chunk.map(|chunk| format!("chunks of {chunk}"));
    let fixed = case.micro_batch.map(|samples| format!("micro-batches of {samples}"));
    let watched = case.pressure.as_ref().map(|config| watched(config, hardware));
    let words: Vec<String> = [chunk, fixed, watched].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn watched(config: &PressureConfig, hardware: &Hardware) -> String {
    let Thresholds(at) = config.thresholds;
    let share = |millionths: u32| (f64::from(millionths) / f64::from(MILLION)).to_string();
    let tier = &hardware.tiers[config.tier.index()].name;
    let mut words = format!("pressure of {tier} at {}", at.map(share).join("/"));
    if let Some(MicroBatch { min, max, target, every, smooth }) = config.micro_batch {
        words += &format!(", micro-batches of {min} to {max}");
        words += &target.map(|at| format!(" for {} of it", share(at))).unwrap_or_default();
        if every.get() > 1 {
            words += &format!(", changed every {every} steps");
        }
        words += if smooth { "" } else { ", at once" };
    }
    if let Some(every) = config.clear_cache_frequency {
        words += &format!(", cache cleared every {every} steps");
    }
    words
}

impl CaseRunner<'_> {
    /// The most samples of a micro-batch, by step of the run; `None` for a workload that has no
    /// micro-batches.
    pub(super) fn micro_batches(
        &self,
        case: &Case,
        memory: &Memory,
    ) -> Result<Option<Vec<u32>>, RunError> {
        let TraceSource::Training(training) = &self.spec.trace else { return Ok(None) };
        let steps = training.sequences.len();
        let bounds = case.pressure.as_ref().and_then(|config| Some((config, config.micro_batch?)));
        let Some((config, bounds)) = bounds else {
            let fixed = case.micro_batch.unwrap_or(training.training.micro_batch);
            // The log of a tier that is watched has them for every step of the run.
            let replays = case.pressure.as_ref().map_or(1, |_| self.spec.repeat as usize);
            return Ok(Some(vec![fixed; steps * replays]));
        };
        let mut batches = vec![bounds.max; steps];
        let mut fixed = 0;
        while let Some((step, next)) = self.first_change(case, config, memory, (&batches, fixed))? {
            batches[step..].fill(next);
            fixed = step;
        }
        Ok(Some(batches))
    }

    /// A case's own workload and times, or those of all cases.
    pub(super) fn of_case<'o>(&'o self, own: Option<&'o Own>) -> (&'o Workload, &'o Durations) {
        own.map_or((self.workload, &self.durations), |own| (&own.workload, &own.durations))
    }

    /// The workload of these micro-batches, in chunks if the case has any, unless it is the one of
    /// all cases.
    pub(super) fn own(
        &self,
        batches: Option<&[u32]>,
        chunk: Option<Bytes>,
    ) -> Result<Option<Own>, RunError> {
        let mut own = self.batched(batches)?;
        if let Some(chunk) = chunk {
            let workload = own.as_ref().map_or(self.workload, |own| &own.workload);
            // The ops are the same, and so are their times.
            if let Some(rewrite) = chunked(workload, chunk).map_err(RunError::Input)? {
                let durations = own.map_or_else(|| (*self.durations).clone(), |own| own.durations);
                own = Some(Own { workload: rewrite.workload, durations });
            }
        }
        Ok(own)
    }

    /// The workload of a case: with these micro-batches, then in chunks, then as its policy
    /// rewrites it, which so sees the pieces that it places.
    pub(super) fn planned(
        &self,
        case: &Case,
        batches: Option<&[u32]>,
        memory: &Memory,
    ) -> Result<Planned, RunError> {
        let own = self.own(batches, case.chunk)?;
        let (workload, durations) = self.of_case(own.as_ref());
        let setting = self.setting(workload, durations, memory);
        let rewrite = case.policy.rewrite(&setting).map_err(RunError::Input)?;
        let Some(rewrite) = rewrite else {
            return Ok(Planned { own, policy: case.policy.clone(), repeats: false });
        };
        let repeats = rewrite.repeats(workload);
        let durations = durations.repeating(&rewrite.source, workload.trace.ops.len());
        let policy = rewrite.policy.unwrap_or_else(|| case.policy.clone());
        Ok(Planned { own: Some(Own { workload: rewrite.workload, durations }), policy, repeats })
    }

    /// Whether the policy of a case has ops run more than once.
    pub fn repeats_ops(&self, case: &Case) -> Result<bool, RunError> {
        Ok(self.planned(case, None, &self.memory_of(case)?)?.repeats)
    }

    /// What is to be known of a case that ran before, in another process.
    pub(crate) fn has_run(&self, case: &Case) -> Result<(), RunError> {
        self.repeats.fetch_or(self.repeats_ops(case)?, Ordering::Relaxed);
        Ok(())
    }

    fn batched(&self, batches: Option<&[u32]>) -> Result<Option<Own>, RunError> {
        let TraceSource::Training(training) = &self.spec.trace else { return Ok(None) };
        let Some(batches) = batches else { return Ok(None) };
        if batches.iter().all(|&most| most == training.training.micro_batch) {
            return Ok(None);
        }
        let trace = training.trace_of(&batches[..training.sequences.len()]);
        let durations = Durations::new(&trace, self.spec, self.hardware.cpu.as_ref(), self.seed)
            .map_err(RunError::Input)?;
        Ok(Some(Own { workload: Workload::new(trace), durations }))
    }

    /// The first step, behind the `fixed` ones, that is to have another micro-batch, and which.
    fn first_change(
        &self,
        case: &Case,
        config: &PressureConfig,
        memory: &Memory,
        (batches, fixed): (&[u32], usize),
    ) -> Result<Option<(usize, u32)>, RunError> {
        let Planned { own, policy, .. } = self.planned(case, Some(batches), memory)?;
        let (workload, durations) = self.of_case(own.as_ref());
        let setting = Setting { repeat: 1, ..self.setting(workload, durations, memory) };
        let policy = case.numa.build(&policy, &setting).map_err(RunError::Input)?;
        let planner = Planner::new(workload, policy, memory, 1);
        // What goes wrong here goes wrong in the run, which says so.
        let Ok(mut planner) = planner else { return Ok(None) };
        planner.watch(config.clone(), batches.to_vec());
        planner.fetch_the_quickest(self.copies.clone());
        let capacity = planner.ledger().capacity(config.tier).most();
        let bounds = config.micro_batch.unwrap_or(MicroBatch::between(1, u32::MAX));
        // Since the batch could change last.
        let mut since: Option<StepPressure> = None;
        let mut commands = Vec::new();
        for (step, end) in workload.step_ends().iter().enumerate() {
            while planner.planned() <= u64::from(end.0) {
                if planner.plan_next(&mut commands).is_err() {
                    return Ok(None);
                }
                // As if on a machine that takes no time: when commands end changes no decision.
                for command in commands.drain(..) {
                    planner.ended(command.ticket);
                }
            }
            let Some(done) = planner.last_step() else { continue };
            let done = since.map_or(done, |before| before.and(done));
            since = Some(done).filter(|_| !bounds.is_due(step));
            if since.is_some() || step < fixed {
                continue;
            }
            let Some(&is) = batches.get(step + 1) else { break };
            let next = config.next_micro_batch(batches[step], &done, capacity);
            if next != is {
                return Ok(Some((step + 1, next)));
            }
        }
        Ok(None)
    }
}
