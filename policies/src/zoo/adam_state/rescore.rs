//! Ranks that follow the training: modules are scored again every so many steps of the run.
//!
//! The static rule ranks once, by what was known before the run. Here the first step is ranked by
//! what the trace knows of the first step ([`Object::history`]), and every `every` steps, before
//! the first op on the device, the list is ranked and cut again by what is known then. What has
//! changed its part of the list moves (`StaticPlacement::rehome`). Where a list that was cut by
//! modules has more bytes than HBM, what was used longest ago leaves, as for `gradient-aware`.
//! Nothing is free: moves are copies like any other, and scoring reads what it scores, Adam's state
//! or as many bytes as the gradients have, once from the tier where the object is.
//! Invariant: statistics of a step are looked at when that step begins, never before.

use super::{AdamStateConfig, Score};
use crate::access::Access;
use crate::policy::{Action, Lookahead, Policy};
use crate::recipe::{Recipe, Setting};
use crate::residents::spill_through;
use crate::state::State;
use crate::static_placement::StaticPlacement;
use crate::step::Step;
use crate::view::View;
use std::collections::BTreeMap;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, ObjectKind, Trace, Unit};

/// Parameters of `adam-state` and `gradient-aware` that are scored again.
#[derive(Clone, Debug, PartialEq)]
pub struct RescoredConfig {
    /// The rule.
    pub rule: AdamStateConfig,
    /// Steps of the run from one scoring to the next.
    pub every: u64,
}

impl RescoredConfig {
    /// The tier of every module by what is known when a step of the run begins.
    ///
    /// Errors in words if nothing is known step by step, or a weight lacks a statistic.
    pub fn place(&self, trace: &Trace, step: u64) -> Result<Vec<TierId>, String> {
        let ranked =
            |object: &&Object| object.kind == ObjectKind::Weight && object.module.is_some();
        // Without anything to rank nothing needs to be known.
        if trace.objects.iter().filter(ranked).any(|object| object.history.is_none()) {
            return Err(format!(
                "{} with `rescore` needs statistics of every step (statistics.csv of the trace), \
                 and {} has none",
                self.name(),
                trace.meta.name
            ));
        }
        self.rule.place_by(trace, |object: &Object| {
            let steps = object.history.as_deref()?;
            let at = usize::try_from(step).unwrap_or(usize::MAX).min(steps.len() - 1);
            Some(steps[at])
        })
    }
}

/// How many steps are known.
fn history(trace: &Trace) -> Option<usize> {
    trace.objects.iter().find_map(|object| Some(object.history.as_ref()?.len()))
}

impl Recipe for RescoredConfig {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn details(&self) -> String {
        format!("{}, scored again every {} steps", self.rule.details(), self.every)
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let trace = &setting.workload.trace;
        let AdamStateConfig { kinds, access, tiers, .. } = &self.rule;
        let modules = self.place(trace, 0)?;
        let placed = StaticPlacement::new(self.name(), trace, modules, kinds, *access)
            .spilling(&spill_through(tiers, setting.hardware));
        let mut steps: Vec<u32> = trace.ops.iter().map(|op| op.step).collect();
        steps.dedup();
        Ok(Box::new(Rescored { config: self.clone(), placed, steps, scored: 0 }))
    }

    fn placement(&self, trace: &Trace, _: &Hardware) -> Result<Option<Vec<TierId>>, String> {
        self.place(trace, 0).map(Some)
    }

    fn uses_statistics(&self) -> bool {
        true
    }

    fn access(&self) -> Option<Access> {
        self.rule.access()
    }

    fn nearest_first(&self) -> Option<&[TierId]> {
        self.rule.nearest_first()
    }

    fn empty_part(&self) -> Option<String> {
        self.rule.empty_part()
    }
}

/// A placement whose homes change.
#[derive(Debug)]
struct Rescored {
    config: RescoredConfig,
    placed: StaticPlacement,
    /// The steps of the trace, in order.
    steps: Vec<u32>,
    /// The step of the run that was scored last.
    scored: u64,
}

impl Rescored {
    /// The step of the run that an op belongs to, replays counted.
    fn step_of(&self, view: &View<'_>) -> u64 {
        let within = self.steps.partition_point(|&step| step < view.op().step);
        view.replay() * self.steps.len() as u64 + within as u64
    }

    /// Ranks again by what is known now.
    fn score(&mut self, now: u64, step: &mut Step<'_>) {
        let trace = &step.view().workload.trace;
        let modules = self.config.place(trace, now);
        let modules = modules.expect("every step has the statistics of the first");
        self.placed.rehome(modules, &self.config.rule.kinds, trace);
        for (tier, bytes) in self.read(&step.view()) {
            step.charge(tier, bytes);
        }
        self.scored = now;
    }

    /// What scoring reads, by tier.
    fn read(&self, view: &View<'_>) -> BTreeMap<TierId, Bytes> {
        let (adam, gradient) = match self.config.rule.score {
            Score::Adam => (true, false),
            Score::GradientAware { adam, gradient } => (adam > 0.0, gradient > 0.0),
        };
        let mut read: BTreeMap<TierId, Bytes> = BTreeMap::new();
        for (index, object) in view.workload.trace.objects.iter().enumerate() {
            let counts = match object.kind {
                ObjectKind::Optimizer => adam,
                // A gradient has as many numbers as its weight, and may be gone by now.
                ObjectKind::Weight => gradient,
                _ => false,
            };
            if let Some(tier) = view.nearest(ObjectId::at(index)).filter(|_| counts) {
                *read.entry(tier).or_default() += object.bytes;
            }
        }
        read
    }
}

impl Policy for Rescored {
    fn name(&self) -> &'static str {
        self.placed.name()
    }

    fn lookahead(&self) -> Lookahead {
        self.placed.lookahead()
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.placed.initial_tier(object, view)
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.placed.allocate_in(object, view)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let now = self.step_of(&step.view());
        let due = now / self.config.every > self.scored / self.config.every;
        if due && step.view().op().unit == Unit::Device {
            self.score(now, step);
        }
        self.placed.plan_op(step);
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.placed.spill_tier(object, view)
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        self.placed.make_room(view, tier)
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        // Once all steps that are known are over, every scoring has the same result.
        let now = view.replay() * self.steps.len() as u64;
        let known = history(&view.workload.trace).map_or(0, |steps| steps as u64 - 1);
        out.word(now.min(known));
        out.word(now % self.config.every);
        out.word(now - self.scored.min(now));
        self.placed.state(view, out)
    }
}
