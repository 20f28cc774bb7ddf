//! Ops that may not start before a moment, as what they work for arrives then.
//!
//! Invariant: the time in which a stream waits for a release is nobody's stall.

use super::{ENDS, Event, SimMachine};
use tiersim_models::units::Time;
use tiersim_policies::command::{Ticket, Work};

impl SimMachine<'_> {
    /// The earliest start of an op.
    pub(super) fn release(&self, ticket: Ticket) -> Time {
        let Work::Compute { occurrence, .. } = self.entries.get(ticket).command.work else {
            unreachable!("streams run ops only")
        };
        let ops = &self.workload.trace.ops;
        ops[(occurrence % ops.len() as u64) as usize].release.unwrap_or(Time::ZERO)
    }

    /// Whether the op at the head of a stream may start; if not, the stream is looked at again when
    /// it may: once, however often something else makes it look before.
    pub(super) fn is_released(&mut self, stream: usize, ticket: Ticket) -> bool {
        let release = self.release(ticket);
        if release <= self.engine.now() {
            return true;
        }
        self.held(ticket);
        if !std::mem::replace(&mut self.streams[stream].awaits_release, true) {
            let stream = u32::try_from(stream).expect("fewer streams than ranks times 2^16");
            self.engine.schedule_at(release, ENDS, Event::Released(stream));
        }
        false
    }
}
