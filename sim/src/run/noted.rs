//! The plan of a case, written down as far as its run goes ([`tiersim_policies::noted`]).
//!
//! Invariant: the plan is that of the run whose figures stand beside it.

use super::{CaseInputs, CaseRunner, Options, RunError};
use tiersim_models::results::{Figures, Outcome};
use tiersim_models::workload::Unit;
use tiersim_policies::noted::{NotedPlan, Noting};
use tiersim_policies::planner::PlanError;
use tiersim_policies::scenario::Case;

impl CaseRunner<'_> {
    /// The plan of a case, of the replays of its run that warm up and those that count, and the
    /// figures of that run.
    ///
    /// # Errors
    /// The case cannot be run or does not fit, or its plan is more than what its policy decides: the
    /// workload is another than the scenario's, it has ops on the CPU or NUMA nodes, memory is
    /// watched, or an allocator is not exact.
    pub fn noted(&self, case: &Case, options: Options) -> Result<(NotedPlan, Figures), RunError> {
        self.with_asked(case, |asked| {
            if let Some(why) = self.beyond_its_policy(asked) {
                return Err(RunError::Input(format!("case {:?}: {why}", case.label)));
            }
            let figures = match self.simulate(&case.label, asked, options)?.outcome {
                Outcome::Done(figures) => *figures,
                Outcome::OutOfMemory(_) => return Err(full(case)),
            };
            let counted = self.repeat - self.warmup;
            let replays = figures.steady.warmup as u32 + counted;
            let setting = self.setting(asked.workload, asked.durations, asked.memory);
            let policy = asked.numa.build(&asked.policy, &setting).map_err(RunError::Input)?;
            let noting = Noting {
                workload: asked.workload,
                policy,
                memory: asked.memory,
                copies: self.copies.clone(),
                told: setting.repeat,
                replays,
            };
            let plan = noting.plan().map_err(|error| match error {
                PlanError::OutOfMemory { .. } => full(case),
                error => RunError::Internal {
                    case: case.label.clone(),
                    seed: self.seed,
                    what: error.to_string(),
                },
            })?;
            Ok((plan, figures))
        })
    }

    /// Why others decide on the plan too, if they do.
    fn beyond_its_policy(&self, asked: &CaseInputs<'_>) -> Option<&'static str> {
        let exact = self.hardware.tier_ids().all(|tier| asked.memory.allocator(tier).is_none());
        if !std::ptr::eq(asked.workload, self.workload) {
            return Some("its workload is not the scenario's; write a plan of a case that has it");
        }
        // Whoever follows the plan is wrapped as its policy was, and what wraps it decides again.
        if !asked.numa.is_none() || asked.workload.trace.ops.iter().any(|op| op.unit == Unit::Cpu) {
            return Some(
                "nodes of memory and ops on the CPU move objects beside the policy; write a plan of a \
                 case without `numa` and `host_update`",
            );
        }
        if asked.watched.is_some() {
            return Some(
                "its memory is watched, and pressure moves objects beside the policy; write a plan \
                         of a case without `pressure`",
            );
        }
        (!exact).then_some("what an allocator has room for is decided while memory is allocated")
    }
}

fn full(case: &Case) -> RunError {
    RunError::Input(format!("case {:?} runs out of memory: there is no plan", case.label))
}
