//! The whole machine as a queue: a stream as the source, a stream as the server.
//!
//! Service mean 1 us, 1 M customers, fixed seeds: measured against Pollaczek and Khinchine.

use crate::channels::exponential;
use tiersim_tests::prelude::*;

const CUSTOMERS: usize = 1_000_000;
const SERVICE_PS: f64 = 1e6;

fn source_and_server() -> Trace {
    let mut traced = Traced::new();
    for _ in 0..CUSTOMERS {
        let arrival = traced.op(0, 0, Span::ZERO, &[]);
        let service = traced.op(0, 1, Span::ZERO, &[]);
        traced.0.ops[service.index()].after.push(arrival);
    }
    traced.0
}

/// Mean sojourn in units of the mean service, at load `rho`.
fn sojourn(rho: f64, exponential_service: bool, seed: u64) -> f64 {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut spans = Vec::with_capacity(2 * CUSTOMERS);
    for _ in 0..CUSTOMERS {
        spans.push(Span::from_ps(exponential(&mut rng, SERVICE_PS / rho)));
        spans.push(match exponential_service {
            true => Span::from_ps(exponential(&mut rng, SERVICE_PS)),
            false => Span::from_ps(SERVICE_PS as u64),
        });
    }
    let world = World::of(two_tiers(Capacity::Unlimited, law(0, 1)), source_and_server(), spans);
    let policy = Scripted::of(Vec::new(), Vec::new());
    // The source must be able to run far ahead of a server with a long queue.
    let ends = world.run(policy, None, 10_000).expect("no rule is broken").expect("it fits");
    let total: u128 = ends.chunks(2).map(|pair| u128::from(pair[1].since(pair[0]).ps())).sum();
    total as f64 / CUSTOMERS as f64 / SERVICE_PS
}

fn check(exponential_service: bool, gates: [f64; 3]) {
    for (rho, gate) in [0.3, 0.7, 0.9].into_iter().zip(gates) {
        // Pollaczek-Khinchine: T = 1 + rho (1 + c^2) / (2 (1 - rho)), c^2 = 1 or 0.
        let variability = if exponential_service { 2.0 } else { 1.0 };
        let theory = 1.0 + rho * variability / (2.0 * (1.0 - rho));
        let error = (sojourn(rho, exponential_service, 42) / theory - 1.0).abs();
        eprintln!("rho {rho}: {:.3} % from theory, gate {} %", error * 100.0, gate * 100.0);
        assert!(error <= gate, "rho {rho}: {error} above {gate}");
    }
}

#[test]
fn m_m_1_through_the_machine_is_within_1_3_and_6_per_cent() {
    check(true, [0.01, 0.03, 0.06]);
}

#[test]
fn m_d_1_through_the_machine_is_within_0_4_1_5_and_5_per_cent() {
    check(false, [0.004, 0.015, 0.05]);
}
