//! `soak`: a great many random worlds ([`tiersim_tests::soak`]), or one of them again.
//!
//! Worlds run in blocks; a block is done by all threads before the next one begins, and of the
//! failures of a block the one with the lowest number is told.
//! Invariant: which worlds run, and what is told of them, does not depend on the number of threads.

use crate::say;
use crate::watchdog::{Watchdog, seconds_of};
use clap::Args;
use rayon::prelude::*;
use std::sync::Arc;
use tiersim_tests::soak::{Failure, Trial, attempt, seed_of};
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

pub(crate) fn soak(args: &SoakArgs) -> Result<String, String> {
    match args.replay {
        Some(seed) => replay(seed, args),
        None => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs.unwrap_or(0)).build();
            pool.map_err(|error| error.to_string())?.install(|| many(args))
        }
    }
}

/// Who ends a world that runs without end.
fn watchdog(args: &SoakArgs) -> Arc<Watchdog> {
    let longest = args.longest;
    Watchdog::start(longest, move |seed| {
        let what = format!("it has not ended after {longest} s");
        told(&Failure { seed, ops: usize::MAX, what })
    })
}

fn replay(seed: u64, args: &SoakArgs) -> Result<String, String> {
    if args.verbose {
        say(&Trial::new(seed, args.ops).to_string());
    }
    match watchdog(args).watch(seed, || attempt(seed, args.ops, None)) {
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
    let clock = Clock::start();
    let watchdog = watchdog(args);
    let (mut done, mut fitted, mut ops, mut copies, mut events) = (0, 0, 0, 0, 0);
    while done < args.worlds {
        if args.minutes.is_some_and(|minutes| seconds_of(clock) >= minutes as f64 * 60.0) {
            break;
        }
        let block = done..args.worlds.min(done + BLOCK);
        done = block.end;
        let one = |index: u64| {
            let seed = seed_of(args.seed, index);
            let ran = watchdog.watch(seed, || attempt(seed, usize::MAX, None));
            ran.map(|ran| ran.map(|ran| (ran.ends.len(), ran.copies, ran.events)))
        };
        let found: Vec<_> = block.clone().into_par_iter().map(one).collect();
        for (index, ran) in block.zip(found) {
            let ran = ran.map_err(|failure| {
                format!("number {index} of seed {}: {}", args.seed, told(&failure))
            })?;
            if let Some(ran) = ran {
                (fitted, ops) = (fitted + 1, ops + ran.0);
                (copies, events) = (copies + ran.1, events + ran.2);
            }
        }
    }
    let seconds = seconds_of(clock);
    Ok(format!(
        "{done} worlds of seed {} passed, {fitted} of them to their end, {} out of memory: \
         {ops} ops, {copies} copies, {events} events in {seconds:.1} s, {:.0} worlds/s",
        args.seed,
        done - fitted,
        done as f64 / seconds
    ))
}
