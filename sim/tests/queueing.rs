//! The engine against queueing theory: one server, a million customers.
//!
//! The service takes 1 us on average. Theory gives the mean time in system; Little's law ties two
//! independent counts of it together exactly; and without randomness the answer is exact too.

use tiersim_models::units::{Bytes, Span, Time};
use tiersim_sim::engine::Engine;
use tiersim_sim::station::Station;

const CUSTOMERS: u64 = 1_000_000;
const SERVICE: Span = Span::from_us(1);

/// Departures come before arrivals of the same moment.
const DEPARTURE: u8 = 0;
const ARRIVAL: u8 = 1;

enum Event {
    Arrival,
    Departure,
}

/// Runs `customers` through one server and returns it empty.
fn serve(
    customers: u64,
    mut next_gap: impl FnMut() -> Span,
    mut next_service: impl FnMut() -> Span,
) -> Station {
    let mut engine = Engine::new();
    let mut station = Station::new();
    let mut to_come = customers - 1;
    engine.schedule_in(next_gap(), ARRIVAL, Event::Arrival);
    while let Some((now, event)) = engine.next() {
        let starts = match event {
            Event::Arrival => {
                if to_come > 0 {
                    to_come -= 1;
                    engine.schedule_in(next_gap(), ARRIVAL, Event::Arrival);
                }
                station.arrive(0, Bytes::ZERO, now)
            }
            Event::Departure => {
                station.leave(0, now);
                station.in_system() > 0
            }
        };
        if starts {
            engine.schedule_in(next_service(), DEPARTURE, Event::Departure);
        }
    }
    assert_eq!(engine.events(), 2 * customers);
    assert_eq!((station.served(), station.in_system()), (customers, 0));
    assert_eq!(station.area(), station.sojourns(), "Little's law");
    station
}

/// Exponential spans of the given mean, in picoseconds.
fn exponential(seed: u64, mean: f64) -> impl FnMut() -> Span {
    let mut draw = crate::sharing::exponential(seed, mean);
    move || Span::from_ps(draw())
}

fn mean_sojourn(station: &Station) -> f64 {
    station.sojourns() as f64 / station.served() as f64
}

fn assert_within(measured: f64, theory: f64, per_cent: f64, rho: f64) {
    let error = 100.0 * (measured / theory - 1.0);
    assert!(
        error.abs() <= per_cent,
        "rho {rho}: {measured:.0} ps, theory {theory:.0} ps, off by {error:.2} %"
    );
}

#[test]
fn m_m_1_spends_one_over_mu_minus_lambda() {
    let service = SERVICE.ps() as f64;
    for (rho, per_cent) in [(0.3, 1.0), (0.7, 3.0), (0.9, 6.0)] {
        let station = serve(CUSTOMERS, exponential(1, service / rho), exponential(2, service));
        let theory = service / (1.0 - rho);
        assert_within(mean_sojourn(&station), theory, per_cent, rho);
    }
}

#[test]
fn m_d_1_follows_pollaczek_and_khinchine() {
    let service = SERVICE.ps() as f64;
    for (rho, per_cent) in [(0.3, 0.4), (0.7, 1.5), (0.9, 5.0)] {
        let station = serve(CUSTOMERS, exponential(3, service / rho), || SERVICE);
        let theory = service * (1.0 + rho / (2.0 * (1.0 - rho)));
        assert_within(mean_sojourn(&station), theory, per_cent, rho);
    }
}

#[test]
fn d_d_1_below_capacity_never_waits() {
    let station = serve(100_000, || Span::from_ps(1_000_001), || SERVICE);
    assert_eq!(station.sojourns(), 100_000 * u128::from(SERVICE.ps()));
    // At capacity to the picosecond the server is never idle and still nobody waits.
    let station = serve(100_000, || SERVICE, || SERVICE);
    assert_eq!(station.sojourns(), 100_000 * u128::from(SERVICE.ps()));
}

#[test]
fn d_d_1_above_capacity_waits_for_everyone_ahead() {
    // Customer k waits k times the 300_000 ps by which a service outlasts a gap.
    let station = serve(10_000, || Span::from_ps(700_000), || SERVICE);
    let waits: u128 = (0..10_000).map(|k| k * 300_000).sum();
    assert_eq!(station.sojourns(), 10_000 * u128::from(SERVICE.ps()) + waits);
}

#[test]
fn the_same_seeds_give_the_same_picoseconds() {
    let run = || serve(10_000, exponential(4, 1.3e6), exponential(5, 1e6)).sojourns();
    assert_eq!(run(), run());
}

#[test]
fn the_clock_ends_with_the_last_departure() {
    let mut engine = Engine::new();
    engine.schedule_at(Time::from_ps(3), ARRIVAL, ());
    while engine.next().is_some() {}
    assert_eq!(engine.now(), Time::from_ps(3));
}
