//! Ends the process when a piece of work runs without end, before it has taken all memory.

use crate::say;
use std::collections::BTreeMap;
use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tiersim_models::units::PS_PER_S;
use tiersim_validation::clock::Clock;

/// Who looks, as long as anybody holds it.
pub(crate) struct Watchdog {
    /// Seconds.
    longest: u64,
    clock: Clock,
    /// By seed: when the work under way began, in seconds.
    since: Mutex<BTreeMap<u64, f64>>,
}

impl Watchdog {
    /// `told` says what is printed of the seed whose work takes longer.
    pub(crate) fn start(
        longest: u64,
        told: impl Fn(u64) -> String + Send + 'static,
    ) -> Arc<Watchdog> {
        let dog = Arc::new(Watchdog { longest, clock: Clock::start(), since: Mutex::default() });
        let watching = Arc::downgrade(&dog);
        thread::spawn(move || {
            while let Some(dog) = watching.upgrade() {
                if let Some(seed) = dog.too_long() {
                    say(&told(seed));
                    exit(1);
                }
                drop(dog);
                thread::sleep(Duration::from_millis(500));
            }
        });
        dog
    }

    fn too_long(&self) -> Option<u64> {
        let now = seconds_of(self.clock);
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let long = |(_, began): &(&u64, &f64)| now - **began > self.longest as f64;
        since.iter().find(long).map(|(&seed, _)| seed)
    }

    /// Does the work of a seed.
    pub(crate) fn watch<T>(&self, seed: u64, work: impl FnOnce() -> T) -> T {
        let since = || self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since().insert(seed, seconds_of(self.clock));
        let done = work();
        since().remove(&seed);
        done
    }
}

/// Seconds on a clock.
pub(crate) fn seconds_of(clock: Clock) -> f64 {
    clock.now().ps() as f64 / PS_PER_S as f64
}
