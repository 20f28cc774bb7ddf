//! What ops on the CPU take longer because of bytes in CXL memory, worked out by hand.

use crate::cpu_ops::{BYTE, DRAM};
use tiersim_tests::prelude::*;

const CXL: TierId = TierId(2);
const PLENTY: u64 = 1 << 40;

/// Processors that reach a byte per ps in DRAM, and CXL memory behind a link with a quarter of it
/// in each direction, whose both directions together reach `total`; for so many devices.
fn machine(total: Option<u64>, (devices, are_shared): (u32, bool)) -> Hardware {
    let tier = |kind| (kind, Bytes::new(PLENTY), law(0, BYTE));
    let tiers = [tier(TierKind::Hbm), tier(TierKind::Dram), tier(TierKind::Cxl)];
    let mut hardware = hardware(&tiers, &[(0, 1, law(0, BYTE)), (1, 2, law(0, BYTE / 4))]);
    hardware.links[1].service = total.map(|total| fair(None, Some(total)).expect("it is shared"));
    hardware.cpu = Some(Cpu {
        name: "processors".to_owned(),
        flops: FlopRate::new(1).expect("above zero"),
        memory: Bandwidth::new(BYTE).expect("above zero"),
        launch: Span::ZERO,
    });
    hardware.server.devices = devices;
    if are_shared {
        hardware.server.tiers = vec![(DRAM, devices), (CXL, devices)];
    }
    hardware
}

/// An op on the CPU of 1000 ps that uses 400 B, which start in `home`.
fn workload(mode: Mode) -> Workload {
    let mut traced = Traced::new();
    let state = traced.object(400, true);
    traced.on(Unit::Cpu, Span::from_ps(1000), &[(state, mode)]);
    Workload::new(traced.0)
}

/// When the op ends, and what of it the use of each tier took.
fn ends(hardware: Hardware, mode: Mode, home: TierId) -> (u64, Vec<u64>) {
    let workload = workload(mode);
    let (ranks, config) = (hardware.server.devices, DemandConfig::lru(vec![home]));
    let policy = with_setting(&workload, &hardware, 1, |setting| {
        cpu_ops::build(setting, |setting| config.build(setting))
    });
    let world = World::recorded(hardware, workload.trace.clone(), 1);
    let planner = world.planner(policy.expect("there is memory of the host")).expect("it fits");
    let (ends, meters) = world.measured(planner, ranks);
    (ends[0], meters.in_place.iter().map(|span| span.ps()).collect())
}

#[test]
fn bytes_in_cxl_memory_take_what_its_link_needs_and_those_in_dram_what_the_op_has() {
    let one = (1, false);
    assert_eq!(ends(machine(None, one), Mode::ReadWrite, DRAM), (1000, vec![0; 3]));
    // 400 B there and 400 B back at a quarter of the rate, at the same time: 1600, of which the
    // op's own duration has 800.
    assert_eq!(ends(machine(None, one), Mode::ReadWrite, CXL), (1800, vec![0, 0, 800]));
    // One way: 1600, and 400 are in the duration.
    assert_eq!(ends(machine(None, one), Mode::Read, CXL), (2200, vec![0, 0, 1200]));
    // Both directions together as fast as one alone: 3200 less 800.
    let both = machine(Some(BYTE / 4), one);
    assert_eq!(ends(both, Mode::ReadWrite, CXL), (3400, vec![0, 0, 2400]));
    // A link as fast as DRAM costs nothing.
    let mut quick = machine(None, one);
    (quick.links[1].read, quick.links[1].write) = (law(0, BYTE), law(0, BYTE));
    assert_eq!(ends(quick, Mode::ReadWrite, CXL), (1000, vec![0; 3]));
}

#[test]
fn devices_that_share_the_memory_wait_for_each_other_and_others_do_not() {
    // Two ops of 1800 that share all of it.
    assert_eq!(ends(machine(None, (2, true)), Mode::ReadWrite, CXL).0, 3600);
    // Each waits for memory of its own, 800, and then they share the processors.
    assert_eq!(ends(machine(None, (2, false)), Mode::ReadWrite, CXL).0, 2800);
}
