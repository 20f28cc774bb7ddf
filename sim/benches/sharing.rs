//! What other services than first come, first served cost: replayed ops per second, planning
//! included, beside those of the same links without a service, round by round in one run.
//!
//! `cargo bench -p tiersim --bench sharing`

mod timing;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use tiersim_models::hardware::Link;
use tiersim_models::service::{Detail, Discipline, Service, Tail};
use tiersim_models::units::{Bytes, Rate, Span};
use tiersim_sim::run::{Bench, Options};
use tiersim_sim::scenario::Scenario;
use tiersim_sim::scenario::read::read_scenario;
use tiersim_sim::traces::Traces;
use timing::{median, ratio, seconds};

const ROUNDS: usize = 15;

/// A table, a ramp and a tail that a lane of this rate might have.
fn curves(rate: Rate) -> Detail {
    let per = |part: u64| Rate::new(rate.get() / part).expect("above zero");
    Detail {
        sizes: vec![
            (Bytes::new(1 << 16), per(4)),
            (Bytes::new(1 << 20), per(2)),
            (Bytes::new(1 << 24), per(1)),
        ],
        depths: vec![(1, per(4)), (8, per(2)), (64, per(1))],
        tail: Some(Tail { p50: Span::from_us(68), p99: Span::from_us(82) }),
        cache: None,
    }
}

fn service(number: usize, link: &Link) -> Option<Service> {
    let total = Rate::new(link.fetch.rate.get() * 3 / 2);
    let shared = Service { discipline: Discipline::FairShare, total, ..Service::default() };
    match number {
        0 => None,
        1 => Some(Service { lanes: NonZeroU32::new(1), ..shared }),
        2 => Some(shared),
        _ => {
            let (fetch, evict) = (curves(link.fetch.rate), curves(link.evict.rate));
            Some(Service { fetch, evict, ..shared })
        }
    }
}

const NAMES: [&str; 4] =
    ["first come, first served", "shared, one lane each way", "shared, no limit", "and all curves"];

fn with_service(scenario: &Scenario, number: usize) -> Scenario {
    let mut scenario = scenario.clone();
    for link in &mut Arc::make_mut(&mut scenario.hardware).links {
        link.service = service(number, link);
    }
    scenario
}

fn main() {
    // `cargo test --benches` passes flags of the test harness; only `cargo bench` measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's folder");
    let scenario = read_scenario(&root.join("scenarios/gpt2-shared-pcie.ron"), &[])
        .expect("the shipped scenario reads");
    let traces = Traces::read([&scenario]).expect("the shipped trace reads");
    let workload = traces.of(&scenario);
    let options = Options::default();
    let scenarios: Vec<Scenario> = (0..NAMES.len()).map(|n| with_service(&scenario, n)).collect();
    let benches: Vec<Bench<'_>> = scenarios
        .iter()
        .map(|scenario| Bench::new(scenario, workload, options).expect("the baseline runs"))
        .collect();
    let ops = workload.trace.ops.len() as f64 * f64::from(scenario.workload.repeat);
    println!("{:<16} {:<28} {:>12} {:>10} {:>8}", "case", "links", "ops/s", "events/op", "ratio");
    for case in &scenario.cases {
        let mut times = vec![Vec::new(); NAMES.len()];
        let mut events = vec![0; NAMES.len()];
        for _ in 0..ROUNDS {
            for (number, bench) in benches.iter().enumerate() {
                times[number].push(seconds(|| {
                    let record = bench.run(case, options).expect("the case runs");
                    events[number] = record.outcome.figures().map_or(0, |figures| figures.events);
                }));
            }
        }
        for (number, name) in NAMES.iter().enumerate() {
            let time = median(times[number].clone());
            println!(
                "{:<16} {:<28} {:>12.0} {:>10.2} {:>8.2}",
                case.label,
                name,
                ops / time,
                events[number] as f64 / ops,
                ratio(&times[0], &times[number])
            );
        }
    }
}
