//! Takes the place of the crate `web-time`, which the solver of linear programs asks for the time.
//!
//! On a computer it is `std::time`, as that crate is. Inside a page that crate asks the browser,
//! through imports that only generated JavaScript can give; here the clock stands still there
//! instead. The solver is given no limit of time, so nothing it answers rests on its clock, and a
//! module without imports can ask nobody anything.
//! Invariant: no result depends on the clock, with which a page could differ from the command.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use std::time::*;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use std::time::Duration;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use still::Instant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod still {
    use std::ops::Add;
    use std::time::Duration;

    /// A moment of a clock that stands still.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Instant(Duration);

    impl Instant {
        /// The only moment that there is.
        pub fn now() -> Instant {
            Instant(Duration::ZERO)
        }

        /// None at all.
        pub fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        /// From another moment to this one; nothing if that is later.
        pub fn duration_since(&self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        /// From another moment to this one; nothing if that is later.
        pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        /// A later moment, if it can be told.
        pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
            self.0.checked_add(duration).map(Instant)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;

        fn add(self, duration: Duration) -> Instant {
            Instant(self.0 + duration)
        }
    }
}
