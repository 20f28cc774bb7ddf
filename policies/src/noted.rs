//! A plan written down: what a policy decides of each op, replay by replay, for others to follow.
//!
//! Decisions depend on the order of ops alone, so no machine is asked: the plan is made without
//! hearing when commands end.
//! Invariant: whoever places what exists as noted and takes these actions in this order has the
//! commands that the policy would have.

use crate::planner::{PlanError, Planner};
use crate::policy::{Action, Lookahead, Policy};
use crate::state::State;
use crate::step::Step;
use crate::view::View;
use std::sync::{Arc, Mutex};
use tiersim_models::hardware::{HBM, Memory};
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::CopyTimes;

/// What a policy decides of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedPlan {
    /// Objects that start out elsewhere than in HBM.
    pub start: Vec<(ObjectId, TierId)>,
    /// In order, those that decide something else than the one before.
    pub replays: Vec<NotedReplay>,
    /// How many replays were planned.
    pub planned: u32,
    /// How far ahead its policy looked.
    pub lookahead: Lookahead,
}

/// What is decided of a replay, and of those behind it up to the next that is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedReplay {
    /// Which of the run, counted from 0.
    pub from: u32,
    /// The ops for which anything is decided.
    pub ops: Vec<NotedOp>,
}

impl NotedPlan {
    /// Whether the last replay decided the same as the one before.
    pub fn repeats(&self) -> bool {
        self.replays.last().is_some_and(|last| last.from + 1 < self.planned)
    }
}

/// What is decided of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedOp {
    /// The op of the trace.
    pub op: OpId,
    /// In the order in which they are carried out, before the op.
    pub actions: Vec<Action>,
    /// What it creates elsewhere than in HBM.
    pub born: Vec<(ObjectId, TierId)>,
}

/// A policy, and what a run of it is planned for.
pub struct Noting<'a> {
    /// The work.
    pub workload: &'a Workload,
    /// Whose plan is noted.
    pub policy: Box<dyn Policy>,
    /// Capacities; all of them exact.
    pub memory: &'a Memory,
    /// Which copy a fetch takes.
    pub copies: CopyTimes,
    /// Replays of which the policy knows.
    pub told: u32,
    /// Replays that are noted.
    pub replays: u32,
}

impl Noting<'_> {
    /// The plan.
    ///
    /// # Errors
    /// As of a run: something does not fit, or an action is refused.
    pub fn plan(self) -> Result<NotedPlan, PlanError> {
        let Noting { workload, policy, memory, copies, told, replays } = self;
        let (notes, lookahead) = (Arc::new(Mutex::new(Notes::default())), policy.lookahead());
        let noter = Box::new(Noter { policy, notes: notes.clone() });
        let mut planner = Planner::new(workload, noter, memory, told)?;
        planner.fetch_the_quickest(copies);
        planner.stop_after(replays.into());
        let taken = || std::mem::take(&mut *notes.lock().expect("one thread plans"));
        let Notes { start, .. } = taken();
        let mut plan = NotedPlan { start, replays: Vec::new(), planned: replays, lookahead };
        let mut commands = Vec::new();
        for from in 0..replays {
            for _ in 0..planner.ops_per_replay() {
                planner.plan_next(&mut commands)?;
                commands.clear();
            }
            let ops: Vec<NotedOp> = taken().ops.into_iter().map(|(_, noted)| noted).collect();
            if plan.replays.last().is_none_or(|last| last.ops != ops) {
                plan.replays.push(NotedReplay { from, ops });
            }
        }
        Ok(plan)
    }
}

#[derive(Debug, Default)]
struct Notes {
    start: Vec<(ObjectId, TierId)>,
    /// Of the replay that is planned, each with its number in the run.
    ops: Vec<(u64, NotedOp)>,
}

impl Notes {
    /// The op that is planned.
    fn now(&mut self, view: &View<'_>) -> &mut NotedOp {
        let occurrence = view.occurrence();
        if self.ops.last().is_none_or(|(last, _)| *last != occurrence) {
            let op = OpId::at((occurrence % view.workload.trace.ops.len() as u64) as usize);
            self.ops.push((occurrence, NotedOp { op, actions: Vec::new(), born: Vec::new() }));
        }
        &mut self.ops.last_mut().expect("it was noted just now").1
    }
}

/// A policy whose decisions are noted.
struct Noter {
    policy: Box<dyn Policy>,
    notes: Arc<Mutex<Notes>>,
}

impl Noter {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().expect("one thread plans")
    }
}

impl Policy for Noter {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn lookahead(&self) -> Lookahead {
        self.policy.lookahead()
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let tier = self.policy.initial_tier(object, view);
        if tier != HBM {
            self.notes().start.push((object, tier));
        }
        tier
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let tier = self.policy.allocate_in(object, view);
        if tier != HBM {
            self.notes().now(view).born.push((object, tier));
        }
        tier
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        self.policy.plan_op(step);
        if !step.actions().is_empty() {
            self.notes().now(&step.view()).actions = step.actions().to_vec();
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.policy.spill_tier(object, view)
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        self.policy.make_room(view, tier)
    }

    fn keeps_to(&self) -> Option<&[TierId]> {
        self.policy.keeps_to()
    }

    fn host(&self) -> &[TierId] {
        self.policy.host()
    }

    fn state(&self, _: &View<'_>, _: &mut State) -> bool {
        false // no replay of what is noted is left out
    }
}
