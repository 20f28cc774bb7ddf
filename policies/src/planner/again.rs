//! A plan that is made once and carried out many times.
//!
//! When commands end changes one thing in a plan: edges to those that have ended are left out. A
//! plan that never hears of an end leaves none out, so it is the same for every machine, and a
//! machine takes an edge to what has ended for satisfied. Only tiers with exact allocators are
//! planned so: others would wait for everything that ever gave memory back.
//! Which copy a fetch takes is the one thing that rates decide: choices are noted, and a run whose
//! rates choose otherwise is told ([`PlanError::Otherwise`]).
//! Invariant: what is planned again has the same actions, copies and edges to what is under way as
//! what the policy would be asked for.

use crate::command::{Allocation, Command, Work};
use crate::ledger::Ledger;
use crate::planner::{PlanError, Planner};
use crate::policy::Policy;
use crate::recorded::{Again, Choice, MOST_COMMANDS, Replay, Replays, quickest};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tiersim_models::hardware::Memory;
use tiersim_models::ids::TierId;
use tiersim_models::lifetime::Workload;

/// A plan as far as somebody has asked for it, replay by replay.
pub struct Recording<'w> {
    start: Vec<Allocation>,
    made: Mutex<Made<'w>>,
    too_long: AtomicBool,
}

struct Made<'w> {
    planner: Planner<'w>,
    replays: Vec<Arc<Replay>>,
    commands: usize,
}

impl<'w> Recording<'w> {
    /// Of a planner that has planned nothing yet, for a workload whose requests do not reuse what
    /// others computed.
    ///
    /// Panics if it watches memory, or if an allocator is not exact.
    pub fn new(mut planner: Planner<'w>) -> Recording<'w> {
        let mut tiers = (0..planner.ledger.tiers()).map(TierId::at);
        assert!(tiers.all(|tier| planner.ledger.is_exact(tier)), "allocators are exact");
        assert!(planner.pressure.is_none() && planner.workload.serving.is_none(), "it is plain");
        let start = planner.start();
        planner.choices = Some(BTreeSet::new());
        let made = Mutex::new(Made { planner, replays: Vec::new(), commands: 0 });
        Recording { start, made, too_long: AtomicBool::new(false) }
    }

    /// How many commands are kept; all there may be while they are made.
    pub fn commands(&self) -> usize {
        self.made.try_lock().map_or(MOST_COMMANDS, |made| made.commands)
    }

    /// Whether more was asked for than is kept.
    pub fn is_too_long(&self) -> bool {
        self.too_long.load(Ordering::Relaxed)
    }
}

/// Which commands of a plan are those of an op.
pub type OfOp<'p> = (&'p Arc<[Command]>, Range<usize>);

impl Replays for Recording<'_> {
    fn start(&self) -> &[Allocation] {
        &self.start
    }

    fn replay(&self, number: u64) -> Result<Arc<Replay>, PlanError> {
        let mut made = self.made.lock().expect("a policy that panics ends the run");
        while made.replays.len() as u64 <= number {
            let ops = made.planner.ops_per_replay();
            if made.commands.saturating_add(ops as usize) > MOST_COMMANDS {
                self.too_long.store(true, Ordering::Relaxed);
                return Err(PlanError::Otherwise);
            }
            let replay = made.planner.whole_replay();
            made.commands += replay.commands.len();
            made.replays.push(Arc::new(replay));
        }
        Ok(made.replays[number as usize].clone())
    }
}

impl<'a> Planner<'a> {
    /// A planner that plans what was recorded for the same decisions; its policy is not asked.
    pub fn again(
        recording: Arc<dyn Replays + 'a>,
        workload: &'a Workload,
        policy: Box<dyn Policy>,
        memory: &Memory,
        repeat: u32,
    ) -> Planner<'a> {
        let total = workload.trace.ops.len() as u64 * u64::from(repeat);
        let ledger = Ledger::new(memory, 0, total);
        let again = Again { recording, replay: Arc::default(), of_op: 0..0 };
        Planner { again: Some(again), ..Planner::empty(workload, policy, ledger, total) }
    }

    /// Where everything is before the first op of what is carried out again.
    pub(super) fn start_again(&self) -> Option<Vec<Allocation>> {
        self.again.as_ref().map(|again| again.recording.start().to_vec())
    }

    /// Whether what is planned was planned once.
    pub fn plans_again(&self) -> bool {
        self.again.is_some()
    }

    /// The commands of the op that was planned last, where they were planned once.
    pub(crate) fn planned_again(&self) -> Option<OfOp<'_>> {
        let Again { replay, of_op, .. } = self.again.as_ref()?;
        Some((&replay.commands, of_op.clone()))
    }

    /// Plans the next op as it was planned once, for a machine that tells of ops by their place in
    /// the run: its commands, which are not noted as under way. `None` at the end of the run.
    ///
    /// Panics if nothing is carried out again.
    pub fn next_again(&mut self) -> Result<Option<OfOp<'_>>, PlanError> {
        if self.next == self.until {
            return Ok(None);
        }
        let mut again = self.again.take().expect("it is planned again");
        let planned = self.step_again(&mut again);
        let again = self.again.insert(again);
        planned.map(|()| Some((&again.replay.commands, again.of_op.clone())))
    }

    /// Plans the next op as it was planned once ([`Planner::planned_again`]).
    pub(super) fn plan_again(&mut self, again: &mut Again<'a>) -> Result<(), PlanError> {
        self.has_names()?;
        self.step_again(again)?;
        for command in &again.replay.commands[again.of_op.clone()] {
            let of_op = match command.work {
                Work::Compute { occurrence, stream, .. } => Some((occurrence, stream)),
                _ => None,
            };
            let ticket = self.tickets.issue(of_op);
            assert_eq!(ticket, command.ticket, "what is planned again has the same names");
        }
        Ok(())
    }

    /// Goes on to the commands of the next op.
    fn step_again(&mut self, again: &mut Again<'a>) -> Result<(), PlanError> {
        let ops = self.ops_per_replay();
        let (replay, op) = (self.next / ops, (self.next % ops) as usize);
        if op == 0 {
            again.replay = again.recording.replay(replay)?;
            let times = self.times.as_ref();
            let same = |choice: &Choice| {
                let Choice { copies, to, bytes, from } = choice;
                quickest(copies, (*to, *bytes), times) == *from
            };
            if !again.replay.choices.iter().all(same) {
                return Err(PlanError::Otherwise);
            }
        }
        let Replay { ends, counts, broke, unpaid, .. } = &*again.replay;
        self.unpaid |= *unpaid;
        let Some(&end) = ends.get(op) else {
            return Err(broke.clone().expect("a replay that ends early says why"));
        };
        let start = if op == 0 { 0 } else { ends[op - 1] };
        again.of_op = start..end;
        if self.next >= self.count_from {
            let [hits, misses] = counts[op];
            self.counts.hits += hits;
            self.counts.misses += misses;
        }
        self.next += 1;
        Ok(())
    }

    /// All commands of the next replay.
    fn whole_replay(&mut self) -> Replay {
        let (mut replay, mut commands) = (Replay::default(), Vec::new());
        for _ in 0..self.ops_per_replay() {
            let before = self.counts;
            if let Err(error) = self.plan_next(&mut commands) {
                replay.broke = Some(error);
                break;
            }
            replay.ends.push(commands.len());
            let (hits, misses) = (self.counts.hits, self.counts.misses);
            replay.counts.push([hits - before.hits, misses - before.misses]);
        }
        replay.unpaid = self.unpaid;
        replay.commands = commands.into();
        replay.choices = self.choices.replace(BTreeSet::new()).unwrap_or_default();
        replay
    }
}
