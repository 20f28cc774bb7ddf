//! The only place of the project's libraries that reads a clock, and exact delays.
//!
//! A delay keeps its thread busy until a moment has come, like a delay kernel on a device: that is
//! how the delays of emulated tiers are kept. Nothing else waits for the clock; ops take as long
//! as their work takes.

use std::hint::spin_loop;
use std::time::Instant;
use tiersim_models::units::{Span, Time};

/// Time since the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    #[expect(clippy::disallowed_methods, reason = "a machine of real memory measures real time")]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// How long ago it was started.
    pub fn now(self) -> Time {
        let ns = u64::try_from(self.0.elapsed().as_nanos()).expect("a run of less than 213 days");
        Time::from_ps(ns * 1000)
    }

    /// Keeps the thread busy for a time: at least that long, and longer only by one look at the
    /// clock, or by what else the system gives the processor to.
    pub(crate) fn delay(self, span: Span) {
        if span == Span::ZERO {
            return;
        }
        let end = Time::from_ps(self.now().ps() + span.ps());
        while self.now() < end {
            spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_takes_at_least_its_time() {
        let clock = Clock::start();
        clock.delay(Span::from_us(200));
        assert!(clock.now() >= Time::from_ps(200_000_000));
    }
}
