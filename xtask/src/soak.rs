//! `soak`: a great many random worlds ([`tiersim_tests::soak`]), or one of them again.
//!
//! Worlds run in blocks; a block is done by all threads before the next one begins, and of the
//! failures of a block the one with the lowest number is told.
//! Invariant: which worlds run, and what is told of them, does not depend on the number of threads.

use clap::Args;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic;
use std::process::{ExitCode, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tiersim_models::units::PS_PER_S;
use tiersim_tests::soak::{Failure, Ran, Trial, attempt, seed_of};
use tiersim_validation::clock::Clock;

/// Worlds between two looks at the clock.
const BLOCK: u64 = 5000;

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// How many worlds
    #[arg(long, default_value_t = 10_000)]
    worlds: u64,
    /// Seed that the worlds' own seeds are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; as many as there are cores unless said otherwise
    #[arg(long)]
    jobs: Option<usize>,
    /// Stop after so many minutes, and say how many worlds that were
    #[arg(long)]
    minutes: Option<u64>,
    /// Seconds that one world may take: most take a millisecond, a few of a million tens of seconds
    #[arg(long, default_value_t = 120, value_name = "S")]
    longest: u64,
    /// Run the one world of this seed, as a failure names it
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// With --replay: only the first ops of its trace
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true, requires = "replay")]
    ops: usize,
    /// With --replay: print the world
    #[arg(long, requires = "replay")]
    verbose: bool,
}

/// What came of the worlds so far.
#[derive(Debug, Default)]
struct Totals {
    fitted: AtomicU64,
    events: AtomicU64,
    copies: AtomicU64,
    ops: AtomicU64,
}

pub(crate) fn soak(args: &SoakArgs) -> ExitCode {
    // A failure is told once, with its seed, and not by every attempt to make it smaller.
    panic::set_hook(Box::new(|_| ()));
    let told = match args.replay {
        Some(seed) => replay(seed, args),
        None => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs.unwrap_or(0)).build();
            match pool {
                Ok(pool) => pool.install(|| many(args)),
                Err(error) => Err(error.to_string()),
            }
        }
    };
    match told {
        Ok(words) => {
            say(&words);
            ExitCode::SUCCESS
        }
        Err(words) => {
            say(&words);
            ExitCode::FAILURE
        }
    }
}

fn say(words: &str) {
    let _ = writeln!(std::io::stdout(), "{words}");
}

fn replay(seed: u64, args: &SoakArgs) -> Result<String, String> {
    if args.verbose {
        say(&Trial::new(seed, args.ops).to_string());
    }
    match Watchdog::start(args.longest).attempt(seed, args.ops) {
        Ok(Some(ran)) => Ok(format!(
            "world {seed} passed: {} ops, {} copies, {} events",
            ran.ends.len(),
            ran.copies,
            ran.events
        )),
        Ok(None) => Ok(format!("world {seed} passed: it runs out of memory")),
        Err(failure) => Err(told(&failure)),
    }
}

fn told(failure: &Failure) -> String {
    let Failure { seed, ops, what } = failure;
    let fewer = if *ops == usize::MAX { String::new() } else { format!(" --ops {ops}") };
    format!("world {seed} failed: {what}\ncargo xtask soak --replay {seed}{fewer} --verbose")
}

fn many(args: &SoakArgs) -> Result<String, String> {
    let (clock, totals) = (Clock::start(), Totals::default());
    let seconds = || seconds_of(clock);
    let watchdog = Watchdog::start(args.longest);
    let mut done = 0;
    while done < args.worlds {
        if args.minutes.is_some_and(|minutes| seconds() >= minutes as f64 * 60.0) {
            break;
        }
        let block = done..args.worlds.min(done + BLOCK);
        done = block.end;
        let failed =
            |index: u64| totals.note(watchdog.attempt(seed_of(args.seed, index), usize::MAX));
        let found = block.into_par_iter().filter_map(|index| Some((index, failed(index)?)));
        if let Some((index, failure)) = found.min_by_key(|(index, _)| *index) {
            return Err(format!("number {index} of seed {}: {}", args.seed, told(&failure)));
        }
    }
    let Totals { fitted, events, copies, ops } = totals;
    let [fitted, events, copies, ops] = [fitted, events, copies, ops].map(AtomicU64::into_inner);
    let seconds = seconds();
    Ok(format!(
        "{done} worlds of seed {} passed, {fitted} of them to their end, {} out of memory: \
         {ops} ops, {copies} copies, {events} events in {seconds:.1} s, {:.0} worlds/s",
        args.seed,
        done - fitted,
        done as f64 / seconds
    ))
}

fn seconds_of(clock: Clock) -> f64 {
    clock.now().ps() as f64 / PS_PER_S as f64
}

/// Ends the process when a world runs without end, before that world has taken all memory.
struct Watchdog {
    /// Seconds.
    longest: u64,
    clock: Clock,
    /// By seed: when the worlds under way began, in seconds.
    since: Mutex<BTreeMap<u64, f64>>,
}

impl Watchdog {
    fn start(longest: u64) -> Arc<Watchdog> {
        let dog = Arc::new(Watchdog { longest, clock: Clock::start(), since: Mutex::default() });
        let watching = Arc::clone(&dog);
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(500));
                watching.look();
            }
        });
        dog
    }

    fn look(&self) {
        let now = seconds_of(self.clock);
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((&seed, _)) =
            since.iter().find(|(_, began)| now - **began > self.longest as f64)
        {
            let what = format!("it has not ended after {} s", self.longest);
            say(&told(&Failure { seed, ops: usize::MAX, what }));
            exit(1);
        }
    }

    fn attempt(&self, seed: u64, ops: usize) -> Result<Option<Ran>, Failure> {
        let since = || self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since().insert(seed, seconds_of(self.clock));
        let ran = attempt(seed, ops, None);
        since().remove(&seed);
        ran
    }
}

impl Totals {
    fn note(&self, ran: Result<Option<Ran>, Failure>) -> Option<Failure> {
        match ran {
            Ok(None) => None,
            Ok(Some(ran)) => {
                self.fitted.fetch_add(1, Ordering::Relaxed);
                self.events.fetch_add(ran.events, Ordering::Relaxed);
                self.copies.fetch_add(ran.copies, Ordering::Relaxed);
                self.ops.fetch_add(ran.ends.len() as u64, Ordering::Relaxed);
                None
            }
            Err(failure) => Some(failure),
        }
    }
}
