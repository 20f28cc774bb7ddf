//! The same M/M/1 queue on tiersim's engine and on NeXosim, against the clock.
//!
//! Both simulate the same million customers: the gaps and service times are drawn beforehand, in
//! whole nanoseconds (NeXosim's tick), so what is timed is the engines and not the dice, and both
//! must arrive at the same total time in system to the nanosecond. Both keep the same books, the
//! `Station` of tiersim-sim. An event is an arrival or a departure: two per customer. NeXosim is
//! run on one thread, in two shapes: as one model that schedules everything for itself, which is
//! the least that it can be asked to do, and as a source that sends to a server, which is how its
//! examples are written. The ratio is taken to the faster. The runs take turns; medians count.
//!
//! The comparison is about small events on one thread, which is all that tiersim needs. NeXosim
//! does things that tiersim does not: it runs models in parallel, saves and restores, and connects
//! to the outside world.

mod on_nexosim;
mod on_tiersim;

use std::time::Instant;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::Exp;
use tiersim_sim::station::Station;

const CUSTOMERS: usize = 1_000_000;
const ROUNDS: usize = 7;
const MEAN_SERVICE_NS: f64 = 1_000.0;
const RHO: f64 = 0.7;
const REQUIRED: f64 = 6.0;

/// When the customers come and how long each is served, in nanoseconds.
struct Workload {
    gaps: Vec<u64>,
    services: Vec<u64>,
}

/// Builds a model, runs it, and returns its results and the seconds of the run alone.
type Run = fn(&Workload) -> (Totals, f64);

/// What a run reports: who was served, and the time that all of them spent, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Totals {
    served: u64,
    sojourns: u128,
}

impl From<&Station> for Totals {
    fn from(station: &Station) -> Totals {
        assert_eq!(station.area(), station.sojourns(), "Little's law");
        Totals { served: station.served(), sojourns: station.sojourns() }
    }
}

fn main() {
    let workload = Workload {
        gaps: exponential(1, MEAN_SERVICE_NS / RHO),
        services: exponential(2, MEAN_SERVICE_NS),
    };
    let engines: [(&str, Run); 3] = [
        ("tiersim", |w| timed(on_tiersim::prepare(w))),
        ("NeXosim, one model", |w| timed(on_nexosim::prepare_one_model(w))),
        ("NeXosim, source and server", |w| timed(on_nexosim::prepare_source_and_server(w))),
    ];
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let runs = engines.map(|(_, run)| run(&workload));
        for ((totals, seconds), rates) in runs.iter().zip(&mut rates) {
            assert_eq!(*totals, runs[0].0, "the engines disagree");
            rates.push(2.0 * CUSTOMERS as f64 / seconds);
        }
        check(&runs[0].0);
    }
    let medians = rates.map(median);
    println!("M/M/1, rho {RHO}, {CUSTOMERS} customers, 2 events each, medians of {ROUNDS} runs:");
    for ((name, _), rate) in engines.iter().zip(medians) {
        println!("{name:<28}{:8.2} M events/s {:8.1} ns/event", rate / 1e6, 1e9 / rate);
    }
    let ratio = medians[0] / medians[1].max(medians[2]);
    println!("tiersim to the faster NeXosim: {ratio:.1}  (required: at least {REQUIRED:.1})");
}

/// Exponential times of the given mean in whole nanoseconds; none is zero, which NeXosim refuses.
fn exponential(seed: u64, mean_ns: f64) -> Vec<u64> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let law = Exp::new(1.0 / mean_ns).expect("a mean above zero");
    (0..CUSTOMERS).map(|_| (rng.sample(law).round() as u64).max(1)).collect()
}

/// Times the run alone; `prepare` has built the model.
#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn timed(run: impl FnOnce() -> Totals) -> (Totals, f64) {
    let start = Instant::now();
    let totals = run();
    (totals, start.elapsed().as_secs_f64())
}

/// Everybody was served, and the mean time in system is within 3 % of theory.
fn check(totals: &Totals) {
    assert_eq!(totals.served, CUSTOMERS as u64);
    let mean_ns = totals.sojourns as f64 / 1e3 / CUSTOMERS as f64;
    let error = mean_ns / (MEAN_SERVICE_NS / (1.0 - RHO)) - 1.0;
    assert!(error.abs() < 0.03, "mean time in system {mean_ns:.0} ns, off by {error:.3}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
