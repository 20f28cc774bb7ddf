//! The only place of the project's libraries that reads a clock, and the kernel that fills time.
//!
//! The compute-bound kernel runs a number of iterations that was calibrated once per process, in
//! slices between which the clock is read, so that an op lasts its planned time however fast the
//! processor happens to run.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;
use tiersim_models::units::{Span, Time};

/// Between two looks at the clock.
const SLICE: u64 = 2_000_000;

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

    /// Computes until a moment.
    pub(crate) fn compute_until(self, end: Time) {
        loop {
            let now = self.now();
            if now >= end {
                return;
            }
            let left = end.since(now).ps().min(SLICE);
            spin((left / picoseconds_per_thousand()).max(1));
        }
    }

    /// Computes for a time.
    pub(crate) fn compute_for(self, span: Span) {
        self.compute_until(Time::from_ps(self.now().ps() + span.ps()));
    }
}

/// A thousand iterations of the kernel, so many times.
fn spin(thousands: u64) {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..thousands * 1000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state = black_box(state);
    }
}

/// Calibration: the quickest of five goes, since what disturbs one only makes it longer.
fn picoseconds_per_thousand() -> u64 {
    static PACE: OnceLock<u64> = OnceLock::new();
    *PACE.get_or_init(|| {
        let go = |_| {
            let clock = Clock::start();
            spin(20);
            clock.now().ps() / 20
        };
        (0..5).map(go).min().unwrap_or(1).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_for_a_time_takes_at_least_that_time() {
        let clock = Clock::start();
        clock.compute_for(Span::from_us(200));
        assert!(clock.now() >= Time::from_ps(200_000_000));
    }
}
