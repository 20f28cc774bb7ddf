//! Copies through nodes without memory and through memory: what is one flow, what bounces and what
//! that costs others; random worlds under audit; and which copy a fetch takes.

use tiersim_models::nodes::PrescribedRoute;
use tiersim_models::raid0::Raid0;
use tiersim_tests::prelude::*;
use tiersim_tests::world::commands;

const DRAM: TierId = TierId(1);
const DRIVE: TierId = TierId(2);

/// The service of a link that copies share, with what both directions reach.
fn shared(total: Option<u64>) -> Option<Service> {
    fair(None, total)
}

/// HBM, DRAM and a drive around a socket: links `pcie`, `memory bus` and `drive`.
fn host(laws: [(u64, u64); 3], services: [Option<Service>; 3]) -> Hardware {
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
    let link = |(near, far): (usize, usize), (setup, rate)| (near, far, law(setup, rate));
    let links = [link((0, 3), laws[0]), link((3, 1), laws[1]), link((3, 2), laws[2])];
    let mut host = hardware(&tiers, &links);
    host.nodes.push(Node { name: "socket".to_owned(), kind: NodeKind::Socket });
    host.links.iter_mut().zip(services).for_each(|(link, service)| link.service = service);
    host
}

/// When the ops end that read one object each; all are fetched before the first op.
fn fetched<const N: usize>(hardware: Hardware, objects: [(u64, TierId); N]) -> Vec<u64> {
    let (traced, ids) = Traced::reads(objects.map(|(bytes, _)| bytes), true);
    let world = World::of(hardware, traced.0, vec![Span::ZERO; N]);
    world.scripted(objects.map(|(_, tier)| tier).to_vec(), vec![ids.map(fetch).to_vec()])
}

#[test]
fn shared_links_that_meet_in_a_node_are_one_flow_and_others_go_in_chunks() {
    let end = |services: [Option<Service>; 3]| {
        let mut host = host([(13, 4 * ONE), (7, ONE), (0, ONE)], services);
        host.chunk = Bytes::new(1000);
        fetched(host, [(10_000, DRAM)])
    };
    assert_eq!(end([shared(None), shared(None), None]), [20 + 10_000]);
    // In chunks: the first over both links, the others behind it over the slower.
    let chunks = 13 + 250 + 10 * (7 + 1000);
    for services in [[None, None, None], [shared(None), None, None], [None, shared(None), None]] {
        assert_eq!(end(services), [chunks]);
    }
}

#[test]
fn a_copy_that_bounces_in_memory_crosses_its_bus_twice_and_slows_who_uses_it() {
    let services = || [shared(None), shared(Some(10 * ONE)), shared(None)];
    let mut host = host([(0, 100 * ONE), (0, 10 * ONE), (0, 4 * ONE)], services());
    assert_eq!(fetched(host.clone(), [(20_000, DRAM)]), [2000]);
    // Past memory: the drive's own rate, and nobody is slowed.
    assert_eq!(fetched(host.clone(), [(20_000, DRAM), (4000, DRIVE)]), [2000, 1000]);
    host.routes.push(PrescribedRoute { from: DRIVE, to: HBM, via: vec![DRAM.into()] });
    // In at 4 of 10 for 1000 ps, out at 5 of 10 for 800 ps; the other has 6, 5 and then 10.
    assert_eq!(fetched(host.clone(), [(20_000, DRAM), (4000, DRIVE)]), [2800, 1800]);
    // In chunks the way in and the way out go on at the same time: all three share the bus.
    host.chunk = Bytes::new(1000);
    let [other, bounced] = fetched(host, [(20_000, DRAM), (4000, DRIVE)])[..] else {
        panic!("two ops")
    };
    // 28000 bytes at 10, and a picosecond here and there: rates are rounded down.
    assert!((2800..=2810).contains(&other), "{other}");
    assert!((1250..1800).contains(&bounced), "{bounced}");
}

#[test]
fn a_copy_from_a_set_of_drives_takes_as_long_as_its_busiest_drive() {
    let drives = NonZeroU32::new(4).expect("above zero");
    let raid0 = Some(Raid0 { drives, stripe: Bytes::new(100) });
    for (bytes, busiest) in [(40, 40), (400, 100), (401, 101), (999, 300), (1000, 300)] {
        for shared in [None, shared(None)] {
            let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
            let mut host = hardware(&tiers, &[(0, 1, law(0, ONE)), (0, 2, law(7, 12 * ONE))]);
            host.links[1] = Link { raid0, service: shared, ..host.links[1].clone() };
            // Three bytes per ps and drive.
            let span = 7 + u64::div_ceil(busiest, 3);
            assert_eq!(fetched(host, [(bytes, DRIVE)]), [span], "{bytes} bytes");
        }
    }
}

#[test]
fn others_slow_a_copy_down_to_their_fair_share() {
    let end = |asked: [u64; 2], total| {
        let services = [shared(total), shared(None), None];
        let mut host = host([(0, 10 * ONE), (0, 100 * ONE), (0, ONE)], services);
        host.links[0].background = asked.map(|asked| Bandwidth::new(asked * ONE));
        fetched(host, [(6000, DRAM)])[0]
    };
    assert_eq!(end([0, 0], None), 600);
    // What they ask for, and never more than half.
    assert_eq!([end([4, 0], None), end([90, 0], None)], [1000, 1200]);
    // The other direction disturbs only where both share a total.
    assert_eq!([end([0, 9], None), end([0, 9], Some(12 * ONE))], [600, 1000]);
}

/// The same machine with a node in the middle of every link.
fn halved(machine: &Hardware, services: impl Fn(usize) -> Option<Service>) -> Hardware {
    let mut halved = Hardware { links: Vec::new().into(), ..machine.clone() };
    for (index, link) in machine.links.iter().enumerate() {
        let middle = NodeId::at(halved.tiers.len() + halved.nodes.len());
        halved.nodes.push(Node { name: format!("n{index}"), kind: NodeKind::PcieSwitch });
        for (part, ends) in [(link.near, middle), (middle, link.far)].into_iter().enumerate() {
            let laws = [link.read, link.write];
            let half = Link::new(format!("{}-{part}", link.name), ends, laws);
            halved.links.push(Link { service: services(2 * index + part), ..half });
        }
    }
    halved
}

#[test]
fn random_machines_with_nodes_pass_the_audit_and_are_deterministic() {
    let (mut ran, mut shared_hops) = (0, 0);
    for seed in 0..800 {
        let mut world = World::new(seed);
        if world.ends(world.chaos()).is_none() {
            continue;
        }
        let kind = |link: usize| match (seed as usize + link) % 4 {
            0 => None,
            1 | 2 => shared(None),
            _ => shared(world.hardware.links.first().map(|link| link.read.rate.get())),
        };
        let machine = halved(&world.hardware, kind);
        let routes = machine.routes().expect("it is joined as before");
        let plain = world.hardware.routes().expect("it is joined");
        for from in machine.tier_ids() {
            for to in machine.tier_ids() {
                let halves: Vec<u16> =
                    plain.between(from, to).iter().map(|channel| channel.link.0).collect();
                let found: Vec<u16> =
                    routes.between(from, to).iter().step_by(2).map(|l| l.link.0 / 2).collect();
                assert_eq!(found, halves, "seed {seed}");
                shared_hops += usize::from(routes.hops(from, to).any(|hop| hop.len() > 1));
            }
        }
        world.hardware = machine;
        let ends = world.ends(world.chaos());
        assert!(ends.is_some(), "seed {seed}: it fits as before");
        assert_eq!(world.ends(world.chaos()), ends);
        ran += 1;
    }
    assert_eq!((ran, shared_hops), (362, 1660), "worlds, and hops over several links");
}

/// Where a fetch of so many bytes comes from, with copies in both far tiers.
fn source(bytes: u64, told: bool) -> TierId {
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Cxl].map(free);
    let links = [(0, 1, law(5, ONE)), (0, 2, law(500, 4 * ONE)), (1, 2, law(0, ONE))];
    let machine = hardware(&tiers, &links);
    let mut traced = Traced::new();
    let object = traced.object(bytes, true);
    let other = traced.object(1, true);
    traced.op(0, 0, Span::ZERO, &[(other, Mode::Read)]);
    traced.op(0, 0, Span::ZERO, &[(object, Mode::Read)]);
    let copy = Action::Fetch { object, to: TierId(2) };
    let script = vec![vec![copy], vec![Action::Fetch { object, to: HBM }]];
    let policy = Scripted::of(vec![DRAM, HBM], script);
    let world = World::recorded(machine, traced.0, 1);
    let mut planner = world.planner(policy).expect("it fits");
    if told {
        let routes = world.hardware.routes().expect("it is joined");
        planner.fetch_the_quickest(CopyTimes::new(&world.hardware, &routes));
    }
    let source = commands(planner).0.iter().find_map(|command| match command.work {
        Work::Copy { from, to: HBM, .. } => Some(from),
        _ => None,
    });
    source.expect("it is fetched")
}

#[test]
fn a_fetch_takes_the_copy_that_is_there_first() {
    // 5 + b against 500 + ceil(b / 4): equal at 661 bytes, where the lower tier is taken.
    assert_eq!([source(661, true), source(662, true)].map(|tier| tier.0), [1, 2]);
    assert_eq!(source(662, false), DRAM);
}

/// HBM, DRAM and a drive in a row, in chunks of 1000 bytes.
fn row(pcie: (u64, u64), drive: (u64, u64)) -> Hardware {
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
    let links = [(0, 1, law(pcie.0, pcie.1)), (1, 2, law(drive.0, drive.1))];
    let mut row = hardware(&tiers, &links);
    row.chunk = Bytes::new(1000);
    row
}

#[test]
fn a_long_copy_lets_one_from_elsewhere_pass_at_the_next_border_between_chunks() {
    let slow = (3, ONE / 4);
    // The drive's copy is at the bus at 3 + 4000. There the border after 4000 bytes is crossed at
    // 4007; what is left of the long copy pays no set-up again.
    let both = [(10_000, DRAM), (1000, DRIVE)];
    assert_eq!(fetched(row((7, ONE), slow), both), [10_007 + 1007, 4007 + 1007]);
    // A copy that comes at a border is served there; a picosecond later it waits for the next one.
    assert_eq!(fetched(row((3, ONE), slow), both)[1], 4003 + 1003);
    assert_eq!(fetched(row((2, ONE), slow), both)[1], 5002 + 1002);
    // Behind the last border it waits for the end.
    assert_eq!(fetched(row((7, ONE), slow), [(4000, DRAM), (1000, DRIVE)]), [4007, 5014]);
    // Chunks in turn: 2, 4 and 6 are the drive's, which is faster here.
    let turns = fetched(row((0, ONE), (0, 10 * ONE)), [(10_000, DRAM), (3000, DRIVE)]);
    assert_eq!(turns, [13_000, 6000]);
    // One chunk for all objects: as if nothing were cut.
    let mut whole = row((7, ONE), slow);
    whole.chunk = Bytes::new(10_000);
    assert_eq!(fetched(whole, both), [10_007, 10_007 + 1007]);
}

#[test]
fn copies_between_the_same_two_tiers_go_one_after_the_other() {
    let row = || row((7, ONE), (0, 4 * ONE));
    assert_eq!(fetched(row(), [(10_000, DRAM), (10, DRAM)]), [10_007, 10_024]);
    // Over two hops as well: the second has sent what the bounce buffers hold, and no more.
    let first = 250 + 3 * 1007;
    assert_eq!(fetched(row(), [(3000, DRIVE), (3000, DRIVE)]), [first, first + 3 * 1007]);
}

#[test]
fn a_copy_that_is_cut_often_loses_no_picosecond() {
    // Borders at no whole picosecond: the remainders must not add up.
    for rate in [700_000_000_003, 333_333_333_333, 12_345_678_901_234] {
        let span =
            |bytes: u64| (u128::from(bytes) * u128::from(ONE)).div_ceil(u128::from(rate)) as u64;
        let row = || row((11, rate), (0, 100 * ONE));
        let alone = fetched(row(), [(1_234_567, DRAM)]);
        assert_eq!(alone, [11 + span(1_234_567)]);
        // 40 chunks of the other copy, each with its own set-up, in the place of as many turns.
        let ends = fetched(row(), [(1_234_567, DRAM), (40_000, DRIVE)]);
        let other = 40 * (11 + span(1000));
        assert_eq!(ends[0], alone[0] + other, "no time is lost and none won");
        assert_eq!(ends[1], 11 + span(40_000) + other, "turn by turn");
    }
}
