//! Ops that may not start before a moment, as what they work for arrives then.
//!
//! Invariant: the time in which a stream waits for a release is nobody's stall.

use super::{ENDS, Event, SimMachine};
use tiersim_models::units::Time;
use tiersim_policies::command::{Ticket, Work};

impl SimMachine<'_> {
    /// From when to when the op at the head of a stream, which might start now, was held up; none if
    /// it may not start yet, and the stream is looked at again when it may.
    pub(super) fn released(&mut self, stream: usize, ticket: Ticket) -> Option<(Time, Time)> {
        let Work::Compute { occurrence, .. } = self.entries.get(ticket).command.work else {
            unreachable!("streams run ops only")
        };
        let ops = &self.workload.trace.ops;
        let release = ops[(occurrence % ops.len() as u64) as usize].release;
        let release = release.unwrap_or(Time::ZERO);
        let now = self.engine.now();
        if release <= now {
            return Some((self.streams[stream].idle_since.max(release), now));
        }
        let stream = u16::try_from(stream).expect("ops name streams in 16 bits");
        self.engine.schedule_at(release, ENDS, Event::Released(stream));
        None
    }
}
