//! Flows, and the event of the one that ends next.
//!
//! Invariant: one event is pending for all of them, and it is set anew only when flows came or
//! went.

use crate::engine::Engine;
use crate::fair_share::FairShare;
use crate::queue::EventId;
use tiersim_models::units::{Bandwidth, Time};
use tiersim_policies::state::{Remembered, State, remember};

/// Ends come first at equal times: room is freed before it is asked for.
pub(super) const ENDS: u8 = 0;

/// Flows of type `T`, and when the next one ends.
#[derive(Debug)]
pub(super) struct Timed<T> {
    pub(super) fair: FairShare<T>,
    next_end: Option<EventId>,
    /// Memory for those that end.
    ended: Vec<T>,
}

impl<T: Ord> Timed<T> {
    /// Resources of the given rates, and no flows.
    pub(super) fn new(rates: Vec<Bandwidth>) -> Timed<T> {
        Timed { fair: FairShare::new(rates), next_end: None, ended: Vec::new() }
    }

    /// Sets the event of the next end, if flows came or went since it was set; whether it did.
    pub(super) fn retime<E>(&mut self, engine: &mut Engine<E>, event: E) -> bool {
        let changed = self.fair.has_changed();
        if changed {
            self.next_end.take().and_then(|pending| engine.cancel(pending));
            let next = self.fair.next_end();
            self.next_end = next.map(|at| engine.schedule_at(at, ENDS, event));
        }
        changed
    }

    /// The event has come: the flows that end now, in memory to be given back.
    pub(super) fn ended(&mut self, now: Time) -> Vec<T> {
        self.next_end = None;
        let mut ended = std::mem::take(&mut self.ended);
        self.fair.ended(now, &mut ended);
        ended
    }

    /// Memory for those that end next.
    pub(super) fn give_back(&mut self, mut ended: Vec<T>) {
        ended.clear();
        self.ended = ended;
    }
}

impl<T: Remembered + Ord> Remembered for Timed<T> {
    fn state(&self, out: &mut State) {
        remember!(out, self as Timed { fair } skip { next_end, ended });
        out.flag(self.next_end.is_some());
    }
}
