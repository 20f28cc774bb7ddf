//! Shared links and links with several copies in flight in the whole machine: oracles, random
//! worlds under audit, and decisions that do not depend on who is served how.

use tiersim_models::service::{Cache, Tail};
use tiersim_sim::machine::Fault;
use tiersim_tests::prelude::*;

fn fifo(channels: u32) -> Option<Service> {
    Some(Service { max_in_flight: NonZeroU32::new(channels), ..Service::default() })
}

/// When the ops end that read one object each, on a stream of its own each; all objects are
/// prefetched before the first op.
fn fetched_together(mut hardware: Hardware, service: Option<Service>, sizes: &[u64]) -> Vec<u64> {
    hardware.links[0].service = service;
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = sizes.iter().map(|&bytes| traced.object(bytes, true)).collect();
    for (stream, &object) in objects.iter().enumerate() {
        traced.op(0, stream as u16, Span::ZERO, &[(object, Mode::Read)]);
    }
    let mut first: Vec<Action> = vec![fetch(objects[0])];
    first.extend(objects[1..].iter().copied().map(prefetch));
    let world = World::of(hardware, traced.0, vec![Span::ZERO; sizes.len()]);
    world.scripted(vec![FAR; sizes.len()], vec![first])
}

#[test]
fn a_copy_alone_takes_the_same_under_every_discipline() {
    for (setup, rate, bytes) in
        [(5_000_000, 150_000_000_000, 67_108_864), (0, 3, 1), (1, 7_000_000_000_001, 999_999_937)]
    {
        let machine = || two_tiers(Capacity::Unlimited, law(setup, rate));
        let alone = fetched_together(machine(), None, &[bytes]);
        for service in [fair(None, None), fair(Some(1), None), fifo(1), fifo(8)] {
            assert_eq!(fetched_together(machine(), service, &[bytes]), alone);
        }
        // A total that leaves room for one direction is not felt.
        assert_eq!(fetched_together(machine(), fair(None, Some(rate)), &[bytes]), alone);
    }
}

#[test]
fn who_shares_ends_as_worked_out_by_hand() {
    let machine = || two_tiers(Capacity::Unlimited, law(10, 6 * ONE));
    // 6 bytes per ps. One after the other: 10 + 30, then 10 + 10, then 10 + 20.
    assert_eq!(fetched_together(machine(), None, &[180, 60, 120]), [40, 60, 90]);
    assert_eq!(fetched_together(machine(), fifo(1), &[180, 60, 120]), [40, 60, 90]);
    // Two channels at full rate each: the third takes the place of the second.
    assert_eq!(fetched_together(machine(), fifo(2), &[180, 60, 120]), [40, 20, 50]);
    // Set-ups at once; a third each until 30 ps have given 60 each, then halves, then all.
    assert_eq!(fetched_together(machine(), fair(None, None), &[180, 60, 120]), [70, 40, 60]);
    // One at a time is first come first served, whatever it is called.
    assert_eq!(fetched_together(machine(), fair(Some(1), None), &[180, 60, 120]), [40, 60, 90]);
    // Two at a time: 20 ps at a half each end the second; the third sets up until 40 while the
    // first has all; then halves again.
    assert_eq!(fetched_together(machine(), fair(Some(2), None), &[180, 60, 120]), [60, 30, 70]);
}

/// One fetch against one write-back of the same size, at the same time, over one link.
fn both_ways(service: Option<Service>) -> u64 {
    let mut hardware = two_tiers(Capacity::Unlimited, law(0, 55 * ONE));
    hardware.links[0].service = service;
    let mut traced = Traced::new();
    let (out, back) = (traced.object(8300, true), traced.object(8300, true));
    traced.op(0, 0, Span::ZERO, &[(out, Mode::ReadWrite)]);
    traced.op(0, 0, Span::ZERO, &[(back, Mode::Read)]);
    traced.op(0, 0, Span::ZERO, &[(out, Mode::Read)]);
    let world = World::of(hardware, traced.0, vec![Span::ZERO; 3]);
    let evict = Action::Evict { object: out, from: HBM, to: FAR };
    let script = vec![Vec::new(), vec![evict, fetch(back)], vec![fetch(out)]];
    world.scripted(vec![HBM, FAR], script)[1]
}

#[test]
fn two_directions_share_what_both_together_reach() {
    let alone = 8300u64.div_ceil(55);
    assert_eq!(both_ways(None), alone);
    assert_eq!(both_ways(fair(None, None)), alone);
    // 83 for both: 41.5 each.
    assert_eq!(both_ways(fair(None, Some(83 * ONE))), 200);
    assert_eq!(both_ways(fair(Some(1), Some(83 * ONE))), 200);
}

#[test]
fn a_mix_of_directions_has_its_own_total() {
    let mix = vec![(0, rate(20)), (50, rate(83)), (100, rate(40))];
    let service = fair(None, Some(83 * ONE)).map(|service| Service { mix, ..service });
    assert_eq!(both_ways(service.clone()), 200);
    // Fetches alone stay below what the direction could do.
    let machine = || two_tiers(Capacity::Unlimited, law(0, 55 * ONE));
    assert_eq!(fetched_together(machine(), service, &[4000, 4000]), [200, 200]);
}

/// A fetch over two links; `services` near and far.
fn over_two_links(services: [Option<Service>; 2], rates: [u64; 2], chunks: u64) -> u64 {
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
    let links = [(0, 1, law(13, rates[0])), (1, 2, law(13, rates[1]))];
    let mut hardware = hardware(&tiers, &links);
    hardware.chunk = Bytes::new(1000);
    for (link, service) in hardware.links.iter_mut().zip(services) {
        link.service = service;
    }
    let (traced, [object]) = Traced::reads([1000 * chunks], false);
    let world = World::of(hardware, traced.0, vec![Span::ZERO]);
    world.scripted(vec![TierId(2)], vec![vec![fetch(object)]])[0]
}

#[test]
fn what_is_stored_between_two_links_goes_in_chunks_whoever_shares_them() {
    let shared = || fair(None, None);
    // Each pays its set-up on each link, whether one of the links is shared, both or none.
    let services = [
        [None, None],
        [shared(), None],
        [None, shared()],
        [fifo(4), shared()],
        [shared(), shared()],
    ];
    for services in services {
        assert_eq!(over_two_links(services, [ONE, ONE], 10), 11 * (13 + 1000));
    }
}

/// What a channel has beyond its law, in the whole machine.
fn with_fetch(discipline: Discipline, fetch: Detail) -> Option<Service> {
    Some(Service { discipline, read: fetch, ..Service::default() })
}

#[test]
fn a_size_table_sets_the_time_of_a_copy_alone_and_is_a_set_up_to_one_that_shares() {
    // 60 bytes at 1 byte per ps take 60 ps, where the law would take 10.
    let sizes = vec![(Bytes::new(60), rate(1)), (Bytes::new(600), rate(5))];
    let detail = Detail { sizes, ..Detail::default() };
    for discipline in [Discipline::Fifo, Discipline::FairShare] {
        let machine = || two_tiers(Capacity::Unlimited, law(10, 6 * ONE));
        let service = || with_fetch(discipline, detail.clone());
        assert_eq!(fetched_together(machine(), service(), &[60]), [10 + 60]);
        assert_eq!(fetched_together(machine(), service(), &[330]), [10 + 90]);
        assert_eq!(fetched_together(machine(), service(), &[1200]), [10 + 240]);
    }
    // Two that share pay the 50 ps beyond the law side by side, and then 60 bytes each at 3.
    let machine = two_tiers(Capacity::Unlimited, law(10, 6 * ONE));
    let shared = with_fetch(Discipline::FairShare, detail);
    assert_eq!(fetched_together(machine, shared, &[60, 60]), [80, 80]);
}

#[test]
fn a_ramp_gives_more_to_more_copies() {
    let depths = vec![(1, rate(2)), (3, rate(6)), (4, rate(7))];
    let detail = Detail { depths, ..Detail::default() };
    for (copies, each) in [(1, 2), (2, 2), (3, 2)] {
        let machine = two_tiers(Capacity::Unlimited, law(0, 8 * ONE));
        let service = with_fetch(Discipline::FairShare, detail.clone());
        let ends = fetched_together(machine, service, &vec![840; copies]);
        assert_eq!(ends, vec![840 / each; copies], "{copies} copies");
    }
    // Eight copies reach no more than four do.
    let machine = two_tiers(Capacity::Unlimited, law(0, 8 * ONE));
    let service = with_fetch(Discipline::FairShare, detail);
    assert_eq!(fetched_together(machine, service, &[7; 8]), [8; 8]);
}

#[test]
fn a_delay_depends_on_the_place_in_the_plan_and_not_on_when_it_is_drawn() {
    let tail = Some(Tail { p50: Span::from_ps(1000), p99: Span::from_ps(9000) });
    let detail = Detail { tail, ..Detail::default() };
    let alone = |discipline| {
        let machine = two_tiers(Capacity::Unlimited, law(0, ONE));
        fetched_together(machine, with_fetch(discipline, detail.clone()), &[5])[0]
    };
    let many = |discipline, sizes: &[u64]| {
        let machine = two_tiers(Capacity::Unlimited, law(0, ONE));
        fetched_together(machine, with_fetch(discipline, detail.clone()), sizes)
    };
    assert!(alone(Discipline::Fifo) > 5, "a delay was drawn");
    assert_eq!(alone(Discipline::Fifo), alone(Discipline::FairShare));
    // First come first served: the gaps between ends are the delays; shared: the ends are.
    let fifo = many(Discipline::Fifo, &[5, 5, 5]);
    let shared = many(Discipline::FairShare, &[5, 5, 5]);
    assert_eq!(fifo[0], alone(Discipline::Fifo));
    let gaps = [fifo[0], fifo[1] - fifo[0], fifo[2] - fifo[1]];
    for (gap, end) in gaps.into_iter().zip(shared) {
        // Sharing may cost the bytes of the others on top, 10 ps at most.
        assert!((gap..=gap + 10).contains(&end), "{gap} and {end}");
    }
}

/// What a machine was told, beside its own work.
struct Told<'a> {
    machine: SimMachine<'a>,
    commands: Vec<Command>,
}

impl Machine for Told<'_> {
    type Fault = Fault;

    fn submit(&mut self, command: Command) -> Result<(), Fault> {
        self.commands.push(command.clone());
        self.machine.submit(command)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, Fault> {
        self.machine.next()
    }
}

/// Commands, bytes by channel and busy time by channel of a world under audit; `None` if it does
/// not fit.
fn told(world: &World) -> Option<(Vec<Command>, Vec<Bytes>, Vec<Span>)> {
    let mut planner = world.planner(world.chaos()).ok()?;
    let machine = world.audited(&planner);
    let mut told = Told { machine, commands: Vec::new() };
    match drive(&mut planner, &mut told, 1000, |_, _, _| ()) {
        Ok(()) => {}
        Err(DriveError::Plan(_)) => return None,
        Err(DriveError::Machine(fault)) => panic!("{fault}"),
    }
    let meters = told.machine.meters();
    Some((told.commands, meters.moved.clone(), meters.busy.clone()))
}

/// Everything that can be peculiar to a direction at once; `rate` is its law's.
fn peculiar(rate: u64, fair: bool) -> Detail {
    let per = |part: u64| Bandwidth::new(rate / part).expect("above zero");
    Detail {
        sizes: vec![(Bytes::new(100), per(3)), (Bytes::new(800), per(2))],
        depths: if fair { vec![(1, per(4)), (3, per(1))] } else { Vec::new() },
        tail: Some(Tail { p50: Span::from_ps(20), p99: Span::from_ps(90) }),
        cache: None,
    }
}

/// A memory that slows down under load.
fn curves(rate: Bandwidth) -> Loaded {
    let per = |part: u64| Bandwidth::new(rate.get() / part).expect("above zero");
    let points = |rise: u64| vec![(per(9), Span::from_ps(5)), (per(1), Span::from_ps(5 + rise))];
    let curves = [(40, 60), (100, 20)];
    Loaded { curves: curves.map(|(reads, rise)| Curve { reads, points: points(rise) }).to_vec() }
}

/// A service by number: from none to shared with a total.
fn service(number: u64, rate: u64) -> Option<Service> {
    let with = |service: Option<Service>| {
        service.map(|service| {
            let fetch = peculiar(rate, service.discipline == Discipline::FairShare);
            Service { write: fetch.clone(), read: fetch, ..service }
        })
    };
    match number % 13 {
        12 => {
            let per = |part: u64| Bandwidth::new(rate / part).expect("above zero");
            let mix = vec![(0, per(3)), (60, per(1)), (100, per(2))];
            fair(None, Some(rate)).map(|service| Service { mix, ..service })
        }
        7 => with(fifo(1)),
        8 => with(fifo(2)),
        9 => with(fair(None, Some(rate + rate / 3))),
        10 => with(fair(Some(1), None)),
        11 => {
            let drain = Bandwidth::new(rate / 5).expect("above zero");
            let cache = Some(Cache { size: Bytes::new(700), drain });
            let evict = Detail { cache, ..Detail::default() };
            Some(Service { write: evict, ..Service::default() })
        }
        0 => None,
        1 => fifo(1),
        2 => fifo(3),
        3 => fair(None, None),
        4 => fair(Some(1), Some(rate + rate / 2)),
        5 => fair(Some(2), None),
        _ => fair(None, Some(rate + rate / 3)),
    }
}

#[test]
fn decisions_and_bytes_do_not_depend_on_who_is_served_how() {
    let (mut compared, mut moved_any) = (0, 0);
    for seed in 0..2500 {
        let mut world = World::new(seed);
        let Some((commands, moved, _)) = told(&world) else { continue };
        for variant in 0..3 {
            for (index, link) in world.hardware.links.iter_mut().enumerate() {
                let number = seed / 3 + variant * 3 + index as u64 * (seed % 5);
                link.service = service(number, link.read.rate.get());
            }
            for tier in &mut world.hardware.tiers {
                tier.loaded = (variant > 0).then(|| curves(tier.access.rate));
            }
            let (told, carried, busy) = told(&world).expect("it fits as before");
            assert_eq!(told, commands, "seed {seed}");
            assert_eq!(carried, moved, "seed {seed}");
            for (channel, (bytes, busy)) in world.hardware.channels().zip(carried.iter().zip(busy))
            {
                let link = &world.hardware.links[channel.link.index()];
                if link.service.as_ref().is_some_and(|s| s.discipline == Discipline::FairShare) {
                    let least = world.hardware.channel_law(channel).rate.span_of(bytes.get());
                    assert!(busy >= least, "seed {seed}: {busy} for {bytes}");
                }
            }
            moved_any += usize::from(carried.iter().any(|bytes| *bytes > Bytes::ZERO));
        }
        compared += 1;
    }
    assert_eq!((compared, moved_any), (1097, 3270), "worlds, and runs that moved anything");
}
