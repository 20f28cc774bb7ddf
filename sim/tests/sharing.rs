//! One resource shared by all who are there, against queueing theory.
//!
//! A million customers per run, fixed seeds. At a load of 0.8 single runs scatter by more than one
//! per cent of the mean, so every figure is the mean of four independent runs.

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::Exp;
use tiersim_models::units::{Bandwidth, Bytes, Span, Time};
use tiersim_sim::engine::{Engine, EventId};
use tiersim_sim::fair_share::FairShare;

const CUSTOMERS: u64 = 1_000_000;
const RUNS: u64 = 4;
/// Mean service alone: 1 us, as so many bytes at a byte per picosecond.
const SERVICE: f64 = 1e6;

/// Departures come before arrivals of the same moment.
const DEPARTURE: u8 = 0;
const ARRIVAL: u8 = 1;

/// Exponential numbers of the given mean.
pub(crate) fn exponential(seed: u64, mean: f64) -> impl FnMut() -> u64 {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let law = Exp::new(1.0 / mean).expect("a mean above zero");
    move || rng.sample(law).round() as u64
}

/// Two exponential phases of the same total mean: squared coefficient of variation 4.
///
/// Balanced means: p = (1 + sqrt((c2 - 1) / (c2 + 1))) / 2, rates 2p and 2(1-p) per mean.
fn hyperexponential(seed: u64, mean: f64) -> impl FnMut() -> u64 {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let p = (1.0 + (3.0f64 / 5.0).sqrt()) / 2.0;
    let law = Exp::new(1.0).expect("a mean above zero");
    move || {
        let share = if rng.random_bool(p) { p } else { 1.0 - p };
        (rng.sample(law) * mean / (2.0 * share)).round() as u64
    }
}

enum Shared {
    Arrival,
    End,
}

/// Mean time in system, in units of the mean service, of one resource shared by all who are there.
fn processor_sharing(mut gap: impl FnMut() -> u64, mut size: impl FnMut() -> u64) -> f64 {
    let mut engine = Engine::new();
    let mut fair = FairShare::new(vec![Bandwidth::new(1_000_000_000_000).expect("above zero")]);
    let class = fair.class(&[0]);
    let (mut to_come, mut sojourns, mut served) = (CUSTOMERS - 1, 0u128, 0u64);
    let mut end: Option<EventId> = None;
    let mut gone = Vec::new();
    engine.schedule_in(Span::from_ps(gap()), ARRIVAL, Shared::Arrival);
    while let Some((now, event)) = engine.next() {
        match event {
            Shared::Arrival => {
                if to_come > 0 {
                    to_come -= 1;
                    engine.schedule_in(Span::from_ps(gap()), ARRIVAL, Shared::Arrival);
                }
                fair.join(class, Bytes::new(size()), now, now);
            }
            Shared::End => {
                end = None;
                fair.ended(now, &mut gone);
                served += gone.len() as u64;
                let sojourn = |arrived: Time| u128::from(now.since(arrived).ps());
                sojourns += gone.drain(..).map(sojourn).sum::<u128>();
            }
        }
        if fair.has_changed() {
            end.and_then(|end| engine.cancel(end));
            end = fair.next_end().map(|at| engine.schedule_at(at, DEPARTURE, Shared::End));
        }
    }
    assert_eq!((served, fair.flows()), (CUSTOMERS, 0));
    sojourns as f64 / CUSTOMERS as f64 / SERVICE
}

fn assert_within(what: &str, measured: f64, theory: f64, per_cent: f64) {
    let error = 100.0 * (measured / theory - 1.0);
    eprintln!("{what}: {measured:.4}, theory {theory:.4}, off by {error:.2} %");
    assert!(error.abs() <= per_cent, "{what}: {measured:.4} against {theory:.4}: {error:.2} %");
}

/// M/G/1 processor sharing: E[T] = E[S] / (1 - rho) whatever the distribution of S.
///
/// Source: Kleinrock, "Queueing Systems II", 1976, section 4.4.
fn check(what: &str, seed: u64, mut service: impl FnMut(u64) -> Box<dyn FnMut() -> u64>) {
    for rho in [0.5, 0.8] {
        let run = |run: u64| {
            let gaps = exponential(seed + 2 * run, SERVICE / rho);
            processor_sharing(gaps, service(seed + 2 * run + 1))
        };
        let runs: Vec<f64> = (0..RUNS).map(run).collect();
        let mean = runs.iter().sum::<f64>() / RUNS as f64;
        eprintln!("{what} at {rho}: runs {runs:.3?}");
        assert_within(&format!("{what} at {rho}"), mean, 1.0 / (1.0 - rho), 1.5);
    }
}

#[test]
fn sharing_feels_the_mean_of_exponential_services_only() {
    check("exponential", 100, |seed| Box::new(exponential(seed, SERVICE)));
}

#[test]
fn sharing_feels_the_mean_of_equal_services_only() {
    check("deterministic", 200, |_| Box::new(|| SERVICE as u64));
}

#[test]
fn sharing_feels_the_mean_of_very_unequal_services_only() {
    check("hyperexponential", 300, |seed| Box::new(hyperexponential(seed, SERVICE)));
}
