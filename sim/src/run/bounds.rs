//! What a run can come to at best.
//!
//! The bound of a case is that of its workload on its hardware with its memory, whatever the policy
//! ([`tiersim_policies::bound`]); the curve of a record is the same by HBM.
//! Invariant: means of the measured steps, rounded down.

use crate::durations::Durations;
use crate::run::stretches::Stretches;
use crate::run::{CaseRunner, RunError, StepBound};
use rayon::prelude::*;
use std::sync::atomic::Ordering;
use tiersim_models::hardware::{Capacity, HBM, Memory};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::CaseRecord;
use tiersim_models::units::{Bytes, Span};
use tiersim_policies::bound::Bound;
use tiersim_policies::scenario::Case;

/// Points of the curve of the bound over HBM.
const CURVE: u64 = 24;

impl CaseRunner<'_> {
    /// The bound of a workload with this memory. That of the workload of
    /// all cases is kept: points of a sweep have few different memories.
    pub(super) fn bound_of(
        &self,
        workload: &Workload,
        durations: &Durations,
        memory: &Memory,
    ) -> StepBound {
        let shared = std::ptr::eq(workload, self.workload) && memory.stores().is_none();
        let known = || self.bounds.lock().expect("nobody panics with it");
        if let Some(bound) = known().get(memory.all_usable()).filter(|_| shared) {
            return bound.clone();
        }
        let bound = match shared {
            true => {
                let prepare = || Stretches::of((self.repeat, self.warmup), workload, durations);
                self.least(self.kind.stretches.get_or_init(prepare), workload, memory)
            }
            false => self.least(
                &Stretches::of((self.repeat, self.warmup), workload, durations),
                workload,
                memory,
            ),
        };
        if shared {
            known().insert(memory.all_usable().to_vec(), bound.clone());
        }
        bound
    }

    /// The mean step of a run in stretches.
    fn least(&self, stretches: &Stretches, workload: &Workload, memory: &Memory) -> StepBound {
        let Bound { ps, cause } = stretches.least_time(workload, self.hardware, memory);
        let step = u64::try_from(ps / stretches.steps.max(1)).expect("a mean step fits the clock");
        let by = cause.words(self.hardware);
        StepBound { step: Span::from_ps(step), by, cause, worths: Vec::new() }
    }

    /// The bound by bytes of HBM for objects, by rising bytes, from the least that a case held to
    /// what the workload holds without limit; all other tiers have the most that they have for a
    /// case. Empty where cases have other workloads of their own. Asked after all of them have run.
    ///
    /// Errors as a case that asks for more memory than there is.
    pub(crate) fn curve<'r>(
        &self,
        cases: &[&Case],
        results: impl Iterator<Item = &'r CaseRecord>,
    ) -> Result<Vec<(Bytes, Span)>, RunError> {
        let batches = |case: &&Case| {
            case.micro_batch.is_some()
                || case.pressure.as_ref().is_some_and(|config| config.micro_batch.is_some())
        };
        // With ops that run again a case may do with less traffic than the workload of all cases.
        // Nor does what is packed fit the curve of what is not.
        let packed = cases.iter().any(|case| !case.compress.is_none());
        let other = packed || cases.iter().any(batches) || self.repeats.load(Ordering::Relaxed);
        if other || cases.is_empty() {
            return Ok(Vec::new());
        }
        let mut most = vec![Capacity::from(Bytes::ZERO); self.hardware.tiers.len()];
        for case in cases {
            let memory = self.memory_of(case)?;
            most.iter_mut()
                .zip(memory.all_usable())
                .for_each(|(most, room)| *most = (*most).max(*room));
        }
        let held = |case: &CaseRecord| {
            let peak = case.outcome.figures().map(|figures| figures.peak[HBM.index()]);
            let budget = case.hbm_budget.most();
            peak.map_or(budget, |peak| peak.min(budget)).get()
        };
        let peak = self.baseline.peak[HBM.index()].get();
        let least = results.map(held).min().unwrap_or(peak).min(peak);
        let rise = |part: u64| u128::from(peak - least) * u128::from(part) / u128::from(CURVE);
        let mut budgets: Vec<u64> = (0..=CURVE).map(|part| least + rise(part) as u64).collect();
        budgets.dedup();
        let point = |hbm: u64| {
            let mut capacities = most.clone();
            capacities[HBM.index()] = Bytes::new(hbm).into();
            let memory = Memory::of(capacities);
            let bound = self.bound_of(self.workload, &self.durations, &memory);
            (Bytes::new(hbm), bound.step)
        };
        Ok(budgets.into_par_iter().map(point).collect())
    }
}
