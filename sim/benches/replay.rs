//! Replayed ops per second, planning included.
//!
//! `cargo bench -p tiersim --bench replay` replays the shipped trace under each policy and
//! prints ops/s, ns per op and ns per event, each beside the plain event queue's cost measured in
//! the same run, so that a noisy machine shows in both.

mod timing;

use std::hint::black_box;
use std::path::Path;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::text::ron_text::Document;
use tiersim_input::traces::read_traces;
use tiersim_models::hardware::{HBM, Memory};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::bound::Prepared;
use tiersim_policies::scenario::Scenario;
use tiersim_sim::queue::EventQueue;
use tiersim_sim::run::{CaseRunner, Options};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::Training;
use timing::{median, ratio, seconds};

const ROUNDS: usize = 9;

/// Nanoseconds for one pop and one push with 1,000 events pending.
fn queue_ns() -> f64 {
    const TURNS: u64 = 200_000;
    let mut queue = EventQueue::new();
    for event in 0..1000u64 {
        queue.push(Time::from_ps(event * 7919 % 1000), 0, event);
    }
    let elapsed = seconds(|| {
        for turn in 0..TURNS {
            let (at, event) = queue.pop().expect("1,000 are pending");
            let delay = Span::from_ps(black_box(event * 31 + turn * 7919) % 5000);
            queue.push(at + delay, 0, event);
        }
    });
    elapsed * 1e9 / TURNS as f64
}

/// Seconds to scan and parse a list of so many numbers.
fn reading(numbers: usize) -> f64 {
    let text = format!("[{}]", "0.5, ".repeat(numbers));
    seconds(|| {
        let document = Document::from_text(Path::new("list.ron"), text).expect("it scans");
        let parsed = document.parse::<Vec<f64>>().expect("it parses");
        assert_eq!(black_box(parsed.raw).len(), numbers);
    })
}

/// Prints what the bound at 25 budgets of HBM takes, all together and one by one, beside a replay.
fn curve(scenario: &Scenario, workload: &Workload, bench: &CaseRunner<'_>) {
    const BUDGETS: u64 = 25;
    let ops = workload.trace.ops.len() as u64;
    let (from, to) = (ops, ops * u64::from(scenario.workload.repeat));
    let duration = |at| bench.durations().least(at);
    let memory = |budget: u64| {
        let peak = bench.baseline().peak[HBM.index()].get();
        let mut rooms = scenario.hardware.memory().all_usable().to_vec();
        rooms[HBM.index()] = Bytes::new(peak * budget / BUDGETS).into();
        Memory::of(rooms)
    };
    let together = || {
        let prepared = Prepared::new(workload, (from, to), &duration);
        for budget in 0..BUDGETS {
            black_box(prepared.least_time(workload, &scenario.hardware, &memory(budget)));
        }
    };
    let apart = || {
        for budget in 0..BUDGETS {
            let prepared = Prepared::new(workload, (from, to), &duration);
            black_box(prepared.least_time(workload, &scenario.hardware, &memory(budget)));
        }
    };
    let (case, options) = (&scenario.cases[0], Options::default());
    let replay = || _ = black_box(bench.slowdown(case, options).expect("the case runs"));
    let rounds = (0..ROUNDS).map(|_| [seconds(together), seconds(apart), seconds(replay)]);
    let rounds: Vec<[f64; 3]> = rounds.collect();
    let all = |which: usize| rounds.iter().map(|round| round[which]).collect::<Vec<f64>>();
    println!(
        "bound at {BUDGETS} budgets {:.1} ms, {:.2} of the time one by one, {:.1} replays of a case",
        median(all(0)) * 1e3,
        ratio(&all(0), &all(1)),
        ratio(&all(0), &all(2)),
    );
}

fn main() {
    // `cargo test --benches` passes flags of the test harness; only `cargo bench` measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's folder");
    let scenario = read_scenario(&root.join("scenarios/gpt2-adam-tiering.ron"), &[])
        .expect("the shipped scenario reads");
    let traces = read_traces([&scenario]).expect("the shipped trace reads");
    let workload = traces.of(&scenario);
    let options = Options::default();
    let bench = CaseRunner::new(&scenario, workload, options).expect("the baseline runs");
    let ops = workload.trace.ops.len() as f64 * f64::from(scenario.workload.repeat);
    println!(
        "{:<28} {:>12} {:>10} {:>12} {:>14}",
        "case", "ops/s", "ns/op", "ns/event", "events/op"
    );
    for case in &scenario.cases {
        let record = bench.run(case, options).expect("the case runs");
        let events = record.outcome.figures().map_or(0, |figures| figures.events);
        // Without the bound of the case, which is no part of a replay.
        let replay = || _ = black_box(bench.slowdown(case, options).expect("the case runs"));
        let times: Vec<f64> = (0..ROUNDS).map(|_| seconds(replay)).collect();
        if events == 0 {
            println!("{:<28} runs out of memory", case.label);
            continue;
        }
        let time = median(times);
        let per_event = time * 1e9 / events as f64;
        println!(
            "{:<28} {:>12.0} {:>10.0} {:>12.0} {:>14.2}",
            case.label,
            ops / time,
            time * 1e9 / ops,
            per_event,
            events as f64 / ops
        );
    }
    curve(&scenario, workload, &bench);
    let queue = median((0..ROUNDS).map(|_| queue_ns()).collect());
    println!("one pop and push at 1,000 pending, same run: {queue:.1} ns");
    let read = |numbers| median((0..ROUNDS).map(|_| reading(numbers)).collect());
    let (once, twice) = (read(50_000), read(100_000));
    println!(
        "reading 50,000 numbers of RON {:.1} ms, twice as many {:.2} times that",
        once * 1e3,
        twice / once
    );
    let card = known("llama-3-8b").expect("it is known").card();
    let shape = Training::new(card, 2048);
    let made = median((0..ROUNDS).map(|_| seconds(|| drop(black_box(shape.trace())))).collect());
    let trace = shape.trace();
    println!(
        "making a step of Llama-3-8B ({} ops, {} objects, {} uses) {:.2} ms",
        trace.ops.len(),
        trace.objects.len(),
        trace.uses.len(),
        made * 1e3
    );
}
