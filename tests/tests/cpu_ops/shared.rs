//! How long ops on the CPU take, alone and several at once.

use crate::cpu_ops::machine;
use tiersim_models::hardware::Compute;
use tiersim_policies::scenario::OpTime;
use tiersim_policies::zoo::all_hbm::AllHbm;
use tiersim_tests::prelude::*;

/// 2 TFLOP/s, 100 GB/s, 3 us per op.
fn processors() -> Hardware {
    let mut hardware = machine(1, 1, 1);
    hardware.cpu = Some(Cpu {
        name: "two sockets".to_owned(),
        flops: FlopRate::new(2_000_000_000_000).expect("above zero"),
        memory: Bandwidth::gb_per_s(100),
        launch: Span::from_us(3),
    });
    hardware
}

/// One op per stream: FLOPs and bytes.
fn ops(ops: &[(u64, u64)]) -> Workload {
    let mut traced = Traced::new();
    for (stream, &(flops, bytes)) in ops.iter().enumerate() {
        let id = traced.op(0, stream as u16, Span::ZERO, &[]);
        let op = &mut traced.0.ops[id.index()];
        (op.flops, op.bytes, op.phase) = (flops, Bytes::new(bytes), Phase::Optimizer);
        op.unit = Unit::Cpu;
    }
    Workload::new(traced.0)
}

fn spec(jitter: f64) -> WorkloadSpec {
    let compute = Compute {
        op_times: None,
        attention: None,
        name: "device".to_owned(),
        flops: vec![("fp32".to_owned(), FlopRate::new(1 << 50).expect("above zero"))],
        memory: Bandwidth::new(1 << 50).expect("above zero"),
        launch: Span::ZERO,
        efficiency: Default::default(),
    };
    let time = OpTime::Priced { compute, precision: "fp32".to_owned() };
    WorkloadSpec { time, jitter, ..replays(1) }
}

/// When each op ends, in ps.
fn ends(hardware: &Hardware, workload: &Workload, jitter: f64) -> (Vec<u64>, Durations) {
    let cpu = hardware.cpu.as_ref();
    let durations = Durations::new(&workload.trace, &spec(jitter), cpu, 5).expect("it has a time");
    let policy = with_setting(workload, hardware, 1, |setting| {
        cpu_ops::build(setting, |setting| AllHbm.build(setting))
    });
    let capacities = hardware.memory();
    let policy = policy.expect("there is memory of the host");
    let mut planner = Planner::new(workload, policy, &capacities, 1).expect("it is empty");
    let routes = hardware.routes().expect("every tier is joined");
    let mut machine = SimMachine::new(hardware, routes, workload, &durations, &[]);
    let mut ends = vec![0; workload.trace.ops.len()];
    let driven = drive(&mut planner, &mut machine, 256, |op, at, _| {
        ends[op as usize] = at.since(Time::ZERO).ps();
    });
    driven.expect("nothing can fail");
    (ends, durations)
}

const US: u64 = 1_000_000;

#[test]
fn alone_an_op_takes_launch_and_the_slower_of_flops_and_bytes() {
    let hardware = processors();
    // 1 GB at 100 GB/s is 10 ms, 60 GFLOP at 2 TFLOP/s are 30 ms.
    for (flops, bytes, us) in [(0, 0, 3), (0, 1_000_000_000, 10_003), (60_000_000_000, 7, 30_003)] {
        assert_eq!(ends(&hardware, &ops(&[(flops, bytes)]), 0.0).0, [us * US]);
    }
    // To the picosecond where nothing is even, and with jitter.
    let (found, durations) = ends(&hardware, &ops(&[(123_456_789, 98_765_432)]), 0.3);
    assert_eq!(found, [durations.of(0).ps()]);
    assert_ne!(durations.of(0), durations.nominal()[0]);
}

#[test]
fn several_at_once_take_as_long_as_one_after_the_other() {
    let hardware = processors();
    let one = (0, 1_000_000_000);
    for ranks in 1..=8 {
        let (found, _) = ends(&hardware, &ops(&vec![one; ranks]), 0.0);
        let expected = 3 * US + ranks as u64 * 10_000 * US;
        let close = |end: &u64| end.abs_diff(expected) <= ranks as u64;
        assert!(found.iter().all(close), "{ranks}: {found:?}, not {expected}");
    }
    // A short one leaves the rest to the long one: 2 x 10 ms shared, then 20 ms alone.
    let (found, _) = ends(&hardware, &ops(&[one, (0, 3_000_000_000)]), 0.0);
    let expected = [20_003 * US, 40_003 * US];
    assert!(found.iter().zip(expected).all(|(end, expected)| end.abs_diff(expected) <= 2));
}

#[test]
fn without_processors_a_trace_that_needs_some_has_no_times() {
    let refused = Durations::new(&ops(&[(0, 1)]).trace, &spec(0.0), None, 1).unwrap_err();
    let expected =
        "op 0 \"op0\" of the trace runs on the host's processors, and the hardware has no `cpu`";
    assert_eq!(refused, expected);
}
