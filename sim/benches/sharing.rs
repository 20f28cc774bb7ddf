//! What other services than first come, first served cost: replayed ops per second, planning
//! included, beside those of the same links without a service, round by round in one run.
//!
//! `cargo bench -p tiersim --bench sharing`

mod timing;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::traces::read_traces;
use tiersim_models::hardware::{Link, Tier};
use tiersim_models::loaded::{Curve, Loaded};
use tiersim_models::service::{Detail, Discipline, Service, Tail};
use tiersim_models::units::{Bandwidth, Bytes, Span};
use tiersim_policies::scenario::Scenario;
use tiersim_sim::run::{CaseRunner, Options};
use timing::{median, ratio, seconds};

const ROUNDS: usize = 15;

/// A table, a ramp and a tail that a channel of this rate might have.
fn curves(rate: Bandwidth) -> Detail {
    let per = |part: u64| Bandwidth::new(rate.get() / part).expect("above zero");
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
    let total = Bandwidth::new(link.read.rate.get() * 3 / 2);
    let shared = Service { discipline: Discipline::FairShare, total, ..Service::default() };
    match number {
        0 => None,
        1 => Some(Service { max_in_flight: NonZeroU32::new(1), ..shared }),
        2 => Some(shared),
        _ => {
            let (fetch, evict) = (curves(link.read.rate), curves(link.write.rate));
            Some(Service { read: fetch, write: evict, ..shared })
        }
    }
}

const NAMES: [&str; 4] = [
    "first come, first served",
    "shared, one copy at a time each way",
    "shared, no limit",
    "and all curves",
];

/// Latency at 0, a half and all of the bandwidth, for reads alone and for as many writes.
fn loaded(tier: &Tier) -> Loaded {
    let part =
        |percent: u64| Bandwidth::new(tier.access.rate.get() / 100 * percent).expect("above 0");
    let curve = |reads| {
        let points = vec![
            (part(1), Span::from_ns(100)),
            (part(50), Span::from_ns(150)),
            (part(100), Span::from_ns(400)),
        ];
        Curve { reads, points }
    };
    Loaded { curves: vec![curve(50), curve(100)] }
}

fn with_service(scenario: &Scenario, number: usize) -> Scenario {
    let mut scenario = scenario.clone();
    let hardware = Arc::make_mut(&mut scenario.hardware);
    for link in &mut hardware.links {
        link.service = service(number, link);
    }
    for tier in hardware.tiers.iter_mut().skip(1) {
        tier.loaded = (number == NAMES.len() - 1).then(|| loaded(tier));
    }
    scenario
}

/// The shipped cases, and one that uses what is outside HBM where it is.
fn cases() -> [(String, String); 2] {
    let adam = |name: &str, access: &str| {
        format!(
            "(name: \"{name}\", policy: AdamState(cut: shares(hbm: 0.5, cpu: 0.5), access: {access}))"
        )
    };
    let all = [
        adam("on demand", "migrate(prefetch_ops: 0)"),
        adam("8 ops ahead", "migrate(prefetch_ops: 8)"),
        adam("256 ops ahead", "migrate(prefetch_ops: 256)"),
        adam("in place", "in_place(charge: every_use)"),
    ];
    [
        ("policies".to_owned(), format!("[{}]", all.join(", "))),
        ("expect".to_owned(), "[]".to_owned()),
    ]
}

fn main() {
    // `cargo test --benches` passes flags of the test harness; only `cargo bench` measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's folder");
    let scenario = read_scenario(&root.join("scenarios/gpt2-shared-pcie.ron"), &cases())
        .expect("the shipped scenario reads");
    let traces = read_traces([&scenario]).expect("the shipped trace reads");
    let workload = traces.of(&scenario);
    let options = Options::default();
    let scenarios: Vec<Scenario> = (0..NAMES.len()).map(|n| with_service(&scenario, n)).collect();
    let benches: Vec<CaseRunner<'_>> = scenarios
        .iter()
        .map(|scenario| CaseRunner::new(scenario, workload, options).expect("the baseline runs"))
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
