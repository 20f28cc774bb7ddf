//! What those ask of a simulated machine who watch a run on it.
//!
//! Invariant: nothing that is asked changes a time.

use super::SimMachine;
use super::meters::Meters;
use super::trail::WalkedStep;
use tiersim_models::results::Timeline;
use tiersim_models::units::{Bytes, Time};

/// A simulated machine, to those who watch it.
pub trait Watched {
    /// The time.
    fn now(&self) -> Time;

    /// Events processed so far.
    fn events(&self) -> u64;

    /// What was measured so far.
    fn meters(&self) -> &Meters;

    /// The same, with what copies under way have done.
    fn so_far(&self) -> Meters;

    /// The op of which the plan has just heard was the last of a step.
    fn step_ended(&mut self);

    /// Most bytes held in the first tier since this was last asked.
    fn peak_since(&mut self) -> Bytes;

    /// From now on, remembers what runs when; one that cannot is never asked.
    fn record_timeline(&mut self) {}

    /// What ran when since then.
    fn take_timeline(&mut self) -> Timeline {
        Timeline::default()
    }

    /// From now on, remembers the critical path of every step; one that cannot is never asked.
    fn record_path(&mut self) {}

    /// The path of the step that has ended last.
    fn take_walked(&mut self) -> Option<WalkedStep> {
        None
    }
}

impl Watched for SimMachine<'_> {
    fn now(&self) -> Time {
        self.now()
    }

    fn events(&self) -> u64 {
        self.events()
    }

    fn meters(&self) -> &Meters {
        self.meters()
    }

    fn so_far(&self) -> Meters {
        self.so_far()
    }

    fn step_ended(&mut self) {
        self.step_ended();
    }

    fn peak_since(&mut self) -> Bytes {
        self.peak_since()
    }

    fn record_timeline(&mut self) {
        self.record_timeline();
    }

    fn take_timeline(&mut self) -> Timeline {
        self.take_timeline()
    }

    fn record_path(&mut self) {
        self.record_path();
    }

    fn take_walked(&mut self) -> Option<WalkedStep> {
        self.take_walked()
    }
}
