//! Notices that a run repeats itself, and leaves out what would only be the same again.
//!
//! Between two replays the state of plan, policy, machine and stopwatch is written as words,
//! relative to that moment. If they are the words of an earlier such moment, everything from there
//! on happens again: what is still to come is the same as that many replays ago. So replays that
//! are still to come are taken out of the run, what one round has counted is counted once more for
//! each round taken out, and the rest is simulated: nothing is moved in time and no ticket is used
//! up. As many replays stay as anything looks ahead, and two more, so the end of the run is the
//! true one.
//!
//! One earlier moment is kept, and a new one taken after 1, 2, 4, ... comparisons (Brent's search
//! for a cycle), so any period is found in the end. A search that goes on pauses for far longer
//! than it compares, so a run that never repeats itself costs little more.
//! Invariant: all figures are those of the run without this, to the last bit.

use crate::machine::SimMachine;
use crate::machine::meters::Meters;
use crate::machine::plain::{Ended, Plain};
use crate::machine::watched::Watched;
use crate::run::stopwatch::Stopwatch;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::Machine;
use tiersim_policies::drive::{DriveError, Follow};
use tiersim_policies::planner::{Counts, PlanError, Planner};
use tiersim_policies::state::State;

/// Replays that stay beyond what anything looks ahead.
const STAYS: u64 = 2;
/// The first replay that is compared with: one in which nothing is as it was at the start.
const FIRST: u64 = 2;
/// After a search of so many replays or more there is a pause before the next.
const PAUSES_FROM: u64 = 64;
/// A pause is so many times as long as the search was, in replays of many ops.
const PAUSE: u64 = 32;
/// A state has about so many words of commands under way, whatever the trace: what a replay of so
/// many ops costs to simulate is far more than writing it.
const MANY_OPS: u64 = 256;
/// The most that a pause is as long as a search.
const MOST_PAUSE: u64 = 512;
/// Picoseconds that a run may take: half of what the clock counts.
const LONGEST: u64 = u64::MAX / 2;

/// Follows one run.
pub(super) struct Steady<'w> {
    pub(super) stopwatch: Stopwatch<'w>,
    /// Whether replays may be left out.
    extends: bool,
    anchor: Option<Anchor>,
    /// States compared with the anchor, and how many will be.
    compared: u64,
    limit: u64,
    /// The replay before which nothing is compared.
    pause: u64,
    /// Replays that were left out.
    left_out: u64,
    /// How long they took.
    span: u64,
}

/// The run at an earlier moment.
struct Anchor {
    state: State,
    /// Whether all that was planned by then is warm-up.
    warms: bool,
    now: Time,
    meters: Meters,
    counts: Counts,
    events: u64,
    measured: u64,
}

impl<'w> Steady<'w> {
    /// Leaves nothing out unless `extends`, and looks at nothing before replay `pause`.
    pub(super) fn new(stopwatch: Stopwatch<'w>, extends: bool, pause: u64) -> Steady<'w> {
        let (anchor, compared, limit) = (None, 0, 1);
        let pause = pause.max(FIRST);
        Steady { stopwatch, extends, anchor, compared, limit, pause, left_out: 0, span: 0 }
    }

    /// Whether a run of so many replays is too short for any of them to be left out.
    pub(super) fn leaves_none_out(&self, replays: u32) -> bool {
        !self.extends || u64::from(replays) <= self.pause + STAYS + 1
    }

    /// Replays that were left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// That the clock and all sums count on.
    fn is_in_time(&self, machine: &impl Watched) -> Result<(), PlanError> {
        let most = machine.meters().largest().max(machine.now().ps().saturating_add(self.span));
        if most > LONGEST { Err(PlanError::TooLong { what: CLOCK }) } else { Ok(()) }
    }

    /// The present state, or `None` if it cannot be told.
    fn state(&self, planner: &Planner<'_>, machine: &SimMachine<'_>, open: u64) -> Option<State> {
        let mut state = State::new(planner.planned());
        state.word(open);
        let told = planner.state(&mut state) && machine.state(planner.next_ticket(), &mut state);
        self.stopwatch.state(&mut state);
        told.then_some(state)
    }

    /// Looks whether everything is as it was, and leaves out what that allows.
    fn look(
        &mut self,
        planner: &mut Planner<'_>,
        machine: &mut SimMachine<'_>,
        open: u64,
    ) -> Result<(), PlanError> {
        let ops = planner.ops_per_replay();
        let replay = planner.planned() / ops;
        let warms = planner.left_uncounted() > 0;
        // Between warm-up and measurement counting changes, so nothing can be counted again.
        if replay < self.pause || !(warms || self.stopwatch.is_warm()) {
            return Ok(());
        }
        if planner.left() / ops <= STAYS {
            self.extends = false;
            return Ok(());
        }
        let Some(state) = self.state(planner, machine, open) else {
            self.extends = false;
            return Ok(());
        };
        let stays = state.horizon().div_ceil(ops).saturating_add(STAYS);
        let mut may_go = (planner.left() / ops).saturating_sub(stays);
        if warms {
            may_go = may_go.min(planner.left_uncounted() / ops);
        }
        if may_go == 0 {
            // Later there is less to leave out, but for what follows the warm-up.
            self.extends = warms;
            return Ok(());
        }
        let anchor = self.anchor.take().filter(|anchor| anchor.warms == warms);
        let Some(anchor) = anchor else {
            self.anchor = Some(Anchor::new(state, warms, planner, machine, &self.stopwatch));
            self.compared = 0;
            return Ok(());
        };
        if anchor.state.words() == state.words() {
            let round = replay - anchor.state.next_op() / ops;
            self.extends = warms;
            return self.leave_out(&anchor, (round, may_go / round), planner, machine);
        }
        self.anchor = Some(anchor);
        self.compared += 1;
        if self.compared == self.limit {
            if self.limit >= PAUSES_FROM {
                self.pause = replay + self.limit * (PAUSE * MANY_OPS.div_ceil(ops)).min(MOST_PAUSE);
                self.anchor = None;
            } else {
                let anchor = Anchor::new(state, warms, planner, machine, &self.stopwatch);
                self.anchor = Some(anchor);
            }
            (self.compared, self.limit) = (0, self.limit * 2);
        }
        Ok(())
    }

    /// Leaves `times` rounds of `round` replays out.
    fn leave_out(
        &mut self,
        anchor: &Anchor,
        (round, times): (u64, u64),
        planner: &mut Planner<'_>,
        machine: &mut SimMachine<'_>,
    ) -> Result<(), PlanError> {
        let replays = round * times;
        let once = machine.now().since(anchor.now).ps();
        let span = once.checked_mul(times).filter(|&span| span <= LONGEST - self.span);
        let span = span.ok_or(PlanError::TooLong { what: CLOCK })?;
        let counted = machine.count_again(&anchor.meters, anchor.events, times);
        counted.ok_or(PlanError::TooLong { what: CLOCK })?;
        let (now, then) = (planner.counts(), anchor.counts);
        let counts = Counts {
            hits: (now.hits - then.hits).saturating_mul(times),
            misses: (now.misses - then.misses).saturating_mul(times),
        };
        planner.leave_out(replays, counts);
        let measured = self.stopwatch.measured() - anchor.measured;
        self.stopwatch.leave_out(replays, Span::from_ps(span), (measured, times));
        self.left_out += replays;
        self.span += span;
        Ok(())
    }
}

const CLOCK: &str = "it takes more simulated time than the clock counts (107 days)";

impl Anchor {
    fn new(
        state: State,
        warms: bool,
        planner: &Planner<'_>,
        machine: &SimMachine<'_>,
        stopwatch: &Stopwatch<'_>,
    ) -> Anchor {
        Anchor {
            state,
            warms,
            now: machine.now(),
            meters: machine.meters().clone(),
            counts: planner.counts(),
            events: machine.events(),
            measured: stopwatch.measured(),
        }
    }
}

impl<'m> Follow<SimMachine<'m>> for Steady<'_> {
    fn op_ended(&mut self, occurrence: u64, at: Time, machine: &mut SimMachine<'m>) {
        self.stopwatch.op_ended(occurrence, at, machine);
    }

    fn replayed(
        &mut self,
        planner: &mut Planner<'_>,
        machine: &mut SimMachine<'m>,
        under_way: u64,
    ) -> Result<(), PlanError> {
        self.is_in_time(machine)?;
        if self.extends {
            self.look(planner, machine, under_way)?;
        }
        self.stopwatch.replayed(planner.planned(), machine);
        Ok(())
    }

    fn caught_up(&mut self, planner: &mut Planner<'_>, machine: &mut SimMachine<'m>) {
        self.stopwatch.goes_on(planner, machine);
    }
}

/// A run on a plain machine is so short that no replay is left out.
impl Follow<Plain<'_>> for Steady<'_> {
    fn op_ended(&mut self, occurrence: u64, at: Time, machine: &mut Plain<'_>) {
        self.stopwatch.op_ended(occurrence, at, machine);
    }

    fn replayed(
        &mut self,
        planner: &mut Planner<'_>,
        machine: &mut Plain<'_>,
        _: u64,
    ) -> Result<(), PlanError> {
        self.is_in_time(machine)?;
        self.stopwatch.replayed(planner.planned(), machine);
        Ok(())
    }

    fn caught_up(&mut self, planner: &mut Planner<'_>, machine: &mut Plain<'_>) {
        self.stopwatch.goes_on(planner, machine);
    }
}

impl<'w> Steady<'w> {
    /// Carries out a plan that was made once, as [`follow`](tiersim_policies::drive::follow) does.
    pub(super) fn follow_again(
        &mut self,
        planner: &mut Planner<'_>,
        machine: &mut Plain<'_>,
        window: u64,
    ) -> Result<(), DriveError<Ended>> {
        let mut ops_ended = 0;
        loop {
            while planner.planned() - ops_ended < window.max(1) {
                let Some((plan, which)) = planner.next_again()? else { break };
                machine.submit_again(plan, which).map_err(DriveError::Machine)?;
                if planner.is_between_replays() {
                    let under_way = planner.planned() - ops_ended;
                    self.replayed(planner, machine, under_way)?;
                }
            }
            let next = machine.next_op().map_err(DriveError::Machine)?;
            let Some((at, occurrence)) = next else { return Ok(()) };
            ops_ended += 1;
            self.op_ended(occurrence, at, machine);
            if ops_ended == planner.planned() {
                self.caught_up(planner, machine);
            }
        }
    }
}
