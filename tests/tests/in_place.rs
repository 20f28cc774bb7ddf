//! Use in place over shared links: oracles worked out by hand, and equality with the law alone.
//!
//! Links and tiers have rates of whole bytes per picosecond, so every time is a whole number.

use tiersim_tests::prelude::*;

/// HBM, and a tier used in place at `access` behind one link of law `link`.
fn machine(access: Law, link: Law, service: Option<Service>) -> Hardware {
    let tiers = [free(TierKind::Hbm), (TierKind::Dram, Capacity::Unlimited, access)];
    let mut hardware = hardware(&tiers, &[(0, 1, link)]);
    hardware.links[0].service = service;
    hardware
}

/// What an op does: its stream, how long it computes, whether it uses its object in place or has it
/// fetched, how, and bytes.
#[derive(Clone, Copy)]
struct Does {
    compute: u64,
    in_place: bool,
    mode: Mode,
    bytes: u64,
}

const fn used(mode: Mode, bytes: u64) -> Does {
    Does { compute: 0, in_place: true, mode, bytes }
}

const fn fetched(bytes: u64) -> Does {
    Does { compute: 0, in_place: false, mode: Mode::Read, bytes }
}

/// When ops that begin at once on a stream of their own each end, and the delays by use in place.
fn together(hardware: Hardware, ops: &[Does]) -> (Vec<u64>, u64) {
    let mut traced = Traced::new();
    let mut script: Vec<Vec<Action>> = Vec::new();
    for (stream, does) in ops.iter().enumerate() {
        let object = traced.object(does.bytes, true);
        traced.op(0, stream as u16, Span::ZERO, &[(object, does.mode)]);
        let charge = Action::Charge { tier: FAR, bytes: Bytes::new(does.bytes) };
        script.push(match does.in_place {
            true => vec![Action::InPlace { object }, charge],
            false => vec![Action::Fetch { object, to: HBM }],
        });
    }
    let spans = ops.iter().map(|does| Span::from_ps(does.compute)).collect();
    measured(&World::of(hardware, traced.0, spans), vec![FAR; ops.len()], script)
}

/// When each op of a world ends, under audit, and the delay by use in place of the far tier.
fn measured(world: &World, start: Vec<TierId>, script: Vec<Vec<Action>>) -> (Vec<u64>, u64) {
    let (ends, meters) = world.scripted_on(1, start, script);
    (ends, meters.in_place[FAR.index()].ps())
}

#[test]
fn alone_it_takes_what_the_law_says_whatever_the_links_are_called() {
    for (setup, tier, link, bytes, compute) in [
        (5_000_000, 35_200_000_000, 51_200_000_000, 67_108_864, 3),
        (0, 3, 3, 1, 0),
        (1, 7_000_000_000_001, 7_000_000_000_001, 999_999_937, 0),
        (17, 1_000_000_000_000, u64::MAX, 12_345, 999),
    ] {
        let run = |service, mode| {
            let hardware = machine(law(setup, tier), law(13, link), service);
            together(hardware, &[Does { compute, ..used(mode, bytes) }])
        };
        let expected = law(setup, tier).span_of(Bytes::new(bytes)).ps();
        for mode in [Mode::Read, Mode::ReadWrite, Mode::Write] {
            for service in [None, fair(None, None), fair(Some(1), Some(link.saturating_mul(2)))] {
                assert_eq!(run(service, mode), (vec![compute + expected], expected));
            }
        }
    }
}

#[test]
fn alone_it_takes_what_the_law_says_for_any_numbers() {
    let mut modes = [Mode::Read, Mode::Write, Mode::ReadWrite].into_iter().cycle();
    for world in 0..1000 {
        let draw = |number, below| seed_of(world, number) % below;
        let access = law(draw(0, 1_000_000), 1000 + draw(1, 10 * ONE));
        let link = law(draw(2, 1_000_000), access.rate.get() + draw(3, 2) * draw(4, ONE));
        let (bytes, compute) = (1 + draw(5, 100_000_000), draw(6, 2) * draw(7, 1_000_000));
        let channels = (draw(8, 2) == 0).then_some(1);
        let total = (draw(9, 2) == 0).then(|| 2 * link.rate.get() + draw(10, ONE));
        let does = Does { compute, ..used(modes.next().expect("for ever"), bytes) };
        let found = together(machine(access, link, fair(channels, total)), &[does]);
        let delay = access.span_of(Bytes::new(bytes)).ps();
        assert_eq!(found, (vec![compute + delay], delay), "world {world}");
    }
}

#[test]
fn a_narrower_link_sets_the_pace() {
    let run = |service| {
        let hardware = machine(law(10, 8 * ONE), law(7, 6 * ONE), service);
        together(hardware, &[used(Mode::Read, 240)])
    };
    assert_eq!(run(None), (vec![10 + 30], 40));
    assert_eq!(run(fair(None, None)), (vec![10 + 40], 50));
    // A ramp counts it as one copy: two bytes per ps for one.
    let depths = vec![(1, rate(2)), (2, rate(4))];
    let fetch = Detail { depths, ..Detail::default() };
    let ramp = fair(None, None).map(|service| Service { read: fetch, ..service });
    assert_eq!(run(ramp), (vec![10 + 120], 130));
}

#[test]
fn an_op_in_place_and_a_fetch_share_a_link() {
    let ops = [used(Mode::Read, 240), fetched(180)];
    let run = |service| together(machine(law(10, 6 * ONE), law(10, 6 * ONE), service), &ops);
    assert_eq!(run(None), (vec![10 + 40, 10 + 30], 50));
    // Both set up until 10 and have 3 each: 180 are through at 70, and the other 60 at 6 at 80.
    assert_eq!(run(fair(None, None)), (vec![80, 70], 80));
    // It takes no place in the channel.
    assert_eq!(run(fair(Some(1), None)), (vec![80, 70], 80));
    // A slower tier leaves the copy more: 1 and 5 until 46, then 1 alone: 240 take 240.
    let slow = machine(law(10, ONE), law(10, 6 * ONE), fair(None, None));
    assert_eq!(together(slow, &ops), (vec![10 + 240, 10 + 36], 250));
}

#[test]
fn two_ops_in_place_share_the_tier_and_a_copy_does_not() {
    // The link would carry 10; the tier gives 4, 2 to each of two: 80 and then the rest of 160.
    let shared = || machine(law(5, 4 * ONE), law(0, 10 * ONE), fair(None, None));
    let two = [used(Mode::Read, 80), used(Mode::Read, 160)];
    assert_eq!(together(shared(), &two), (vec![5 + 40, 5 + 40 + 20], 45 + 65));
    // A copy beside them: 10 alone until 5, then 6 beside their 2 and 2.
    let three = [two[0], two[1], fetched(50 + 120)];
    assert_eq!(together(shared(), &three), (vec![45, 65, 5 + 20], 110));
    // A reader and a writer share the tier, too, though not the channels.
    let both = [used(Mode::Read, 80), used(Mode::Write, 160)];
    assert_eq!(together(shared(), &both), (vec![45, 65], 110));
    // Without shared links each has the tier to itself.
    let apart = machine(law(5, 4 * ONE), law(0, 10 * ONE), None);
    assert_eq!(together(apart, &two), (vec![5 + 20, 5 + 40], 25 + 45));
}

#[test]
fn what_both_directions_reach_together_holds_for_use_in_place() {
    // 6 each way, 8 both ways: a fetch and writes in place have 4 each.
    let total = || machine(law(0, 6 * ONE), law(0, 6 * ONE), fair(None, Some(8 * ONE)));
    let writes = [used(Mode::Write, 120), fetched(120)];
    assert_eq!(together(total(), &writes), (vec![30, 30], 30));
    // Reads in place go the same way as a fetch: 3 each.
    let reads = [used(Mode::Read, 120), fetched(120)];
    assert_eq!(together(total(), &reads), (vec![40, 40], 40));
    // What is read and written goes both ways: 9 for three are 3 each.
    let both = [used(Mode::ReadWrite, 120), fetched(120)];
    let wider = machine(law(0, 6 * ONE), law(0, 6 * ONE), fair(None, Some(9 * ONE)));
    assert_eq!(together(wider, &both), (vec![40, 40], 40));
}

#[test]
fn others_on_the_link_slow_use_in_place() {
    let mut hardware = machine(law(0, 6 * ONE), law(0, 6 * ONE), fair(None, None));
    hardware.links[0].background[0] = Some(rate(2));
    assert_eq!(together(hardware.clone(), &[used(Mode::Read, 120)]), (vec![30], 30));
    assert_eq!(together(hardware, &[used(Mode::Write, 120)]), (vec![20], 20));
}

#[test]
fn charges_of_an_op_come_one_after_the_other() {
    // Two tiers: one over a shared link, one behind a link of its own.
    let tier = |access| (TierKind::Dram, Capacity::Unlimited, access);
    let tiers = [free(TierKind::Hbm), tier(law(3, 2 * ONE)), tier(law(7, ONE))];
    let links = [(0, 1, law(0, 4 * ONE)), (0, 2, law(0, ONE))];
    let mut hardware = hardware(&tiers, &links);
    hardware.links[0].service = fair(None, None);
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = [100, 100].map(|bytes| traced.object(bytes, true)).to_vec();
    let uses: Vec<_> = objects.iter().map(|&object| (object, Mode::Read)).collect();
    traced.op(0, 0, Span::ZERO, &uses);
    let mut actions: Vec<Action> =
        objects.iter().map(|&object| Action::InPlace { object }).collect();
    for (tier, bytes) in [(1, 100), (2, 100), (1, 40), (1, 0)] {
        actions.push(Action::Charge { tier: TierId(tier), bytes: Bytes::new(bytes) });
    }
    let world = World::of(hardware, traced.0, vec![Span::from_ps(11)]);
    let (ends, in_place) = measured(&world, vec![TierId(1), TierId(2)], vec![actions]);
    let first = (3 + 50) + (3 + 20) + 3;
    assert_eq!((ends[0], in_place), (11 + first + (7 + 100), first));
}

/// As many requests at once as there are.
fn any() -> DeviceRequests {
    DeviceRequests { granule: Some(Bytes::new(1)), depth: NonZeroU32::new(u32::MAX) }
}

#[test]
fn latency_under_load_comes_before_the_bytes_and_counts_no_byte_twice() {
    // 10 ps more at 4 bytes per ps or above, none at 1 or below.
    let points = vec![(rate(1), Span::from_ps(100)), (rate(4), Span::from_ps(130))];
    let run = |service, ops: &[Does]| {
        let mut hardware = machine(law(0, 4 * ONE), law(0, 4 * ONE), service);
        let curves = vec![Curve { reads: 100, points: points.clone() }];
        hardware.tiers[1].loaded = Some(Loaded { curves });
        hardware.tiers[1].requests = any();
        together(hardware, ops)
    };
    // Alone: 100 bytes over 100 ps load the tier with 1: no rise.
    let slow = Does { compute: 75, ..used(Mode::Read, 100) };
    // Beside it the same again: 2 in use, a rise of 10.
    let next = Does { compute: 75, ..used(Mode::Read, 100) };
    assert_eq!(run(None, &[slow, next]), (vec![100, 110], 25 + 35));
    // The first flows at 4 from 75 on, alone for 10 ps; the rest of its 60 goes at 2 in 30, and the
    // second then has 40 left for 4.
    assert_eq!(run(fair(None, None), &[slow, next]), (vec![115, 125], 40 + 50));
}

#[test]
fn bytes_in_place_load_their_tier_once_while_they_flow() {
    let points = vec![(rate(1), Span::from_ps(100)), (rate(4), Span::from_ps(130))];
    let mut hardware = machine(law(0, 4 * ONE), law(0, 4 * ONE), fair(None, None));
    let curves = vec![Curve { reads: 100, points }];
    hardware.tiers[1].loaded = Some(Loaded { curves });
    hardware.tiers[1].requests = any();
    let mut traced = Traced::new();
    let objects = [100, 100].map(|bytes| traced.object(bytes, true));
    traced.op(0, 0, Span::ZERO, &[(objects[0], Mode::Read)]);
    traced.op(0, 1, Span::ZERO, &[]);
    traced.op(0, 1, Span::ZERO, &[(objects[1], Mode::Read)]);
    let uses = |object| {
        vec![Action::InPlace { object }, Action::Charge { tier: FAR, bytes: Bytes::new(100) }]
    };
    let spans = [75, 80, 75].map(Span::from_ps).to_vec();
    let world = World::of(hardware, traced.0, spans);
    let script = vec![uses(objects[0]), Vec::new(), uses(objects[1])];
    let (ends, _) = measured(&world, vec![FAR; 2], script);
    // When the last op starts, at 80, the first flows at 4, which is 1 over its whole time: 2 in
    // use with its own, a rise of 10. The channel's 4 on top would make it 30.
    assert_eq!(ends, [100, 80, 80 + 75 + 10 + 25]);
}

/// When one op ends that uses an object in place: all of it, or so many pieces of so many bytes.
fn gathered(hardware: Hardware, bytes: u64, pieces: Option<(u128, u128)>) -> u64 {
    let (mut traced, [object]) = Traced::reads([bytes], false);
    let used = &mut traced.0.uses[0];
    used.part = pieces.and_then(|(pieces, piece)| PartialUse::of(pieces, piece, Bytes::new(bytes)));
    let charge = Action::Charge { tier: FAR, bytes: used.charged(Bytes::new(bytes)) };
    let script = vec![vec![Action::InPlace { object }, charge]];
    let world = World::of(hardware, traced.0, vec![Span::ZERO]);
    measured(&world, vec![FAR], script).0[0]
}

/// A tier of eight bytes per ps behind `setup`, with requests of `granule` bytes, `depth` at once.
fn asked(setup: u64, granule: u64, depth: u32) -> Hardware {
    let mut hardware = machine(law(setup, 8 * ONE), law(0, 8 * ONE), None);
    let (granule, depth) = (Some(Bytes::new(granule)), NonZeroU32::new(depth));
    hardware.tiers[1].requests = DeviceRequests { granule, depth };
    hardware
}

/// Latency of 100 ps at 1 byte per ps, and 10 more for every byte per ps up to `last`.
fn rising(last: u64) -> Option<Loaded> {
    let points = [(1, 100), (last, 90 + 10 * last)];
    let points = points.map(|(bytes, ps)| (rate(bytes), Span::from_ps(ps))).to_vec();
    Some(Loaded { curves: vec![Curve { reads: 100, points }] })
}

#[test]
fn bandwidth_or_latency_whichever_binds() {
    for service in [None, fair(None, None)] {
        let run = |depth, pieces| {
            let hardware = asked(1000, 64, depth);
            let links = [hardware.links[0].clone()].map(|l| Link { service: service.clone(), ..l });
            gathered(Hardware { links: links.to_vec().into(), ..hardware }, 6400, pieces)
        };
        // A pointer chase: ten lines of 64 bytes, each 1000 ps, for 8 bytes of each.
        assert_eq!(run(1, Some((10, 8))), 1000 + 10 * 1000);
        // Four at once; and so many that the lines' bytes bind, not those that are needed.
        assert_eq!(run(4, Some((10, 8))), 1000 + 10 * 1000 / 4);
        assert_eq!(run(1000, Some((10, 8))), 1000 + 10 * 64 / 8);
        // A piece of 100 bytes is two lines.
        assert_eq!(run(1, Some((10, 100))), 1000 + 20 * 1000);
        // All of it, one end to the other: at its bandwidth, or line by line.
        assert_eq!(run(1000, None), 1000 + 6400 / 8);
        assert_eq!(run(1, None), 1000 + 100 * 1000);
    }
}

#[test]
fn without_a_curve_times_in_place_are_others() {
    let hardware = |loaded| {
        let mut hardware = asked(100, 52, 10);
        hardware.tiers[1].loaded = loaded;
        hardware
    };
    // 520 bytes under way are 5.2 per ps at 100 ps. At x per ps a request takes 90 + 10 x: 4 per ps
    // at 130 ps, which the first one takes, too.
    assert_eq!(gathered(hardware(None), 5200, None), 100 + 1000);
    assert_eq!(gathered(hardware(rising(9)), 5200, None), 130 + 1300);
    // Nothing stated: what 8 per ps need at 100 ps is under way, and is not enough under load.
    let usual = |loaded| {
        let mut hardware = hardware(loaded);
        hardware.tiers[1].requests = DeviceRequests::default();
        gathered(hardware, 5200, None)
    };
    assert_eq!(usual(None), 100 + 5200 / 8);
    assert!(usual(rising(9)) > usual(None) + 150, "{}", usual(rising(9)));
}

#[test]
fn without_a_mix_times_in_place_are_others() {
    let run = |mix: &[(u8, u64)], ops: &[Does], evict: u64| {
        let mix = mix.iter().map(|&(share, bytes)| (share, rate(bytes))).collect();
        let service = fair(None, Some(8 * ONE)).map(|service| Service { mix, ..service });
        let mut hardware = machine(law(0, 6 * ONE), law(0, 6 * ONE), service);
        hardware.links[0].write = law(0, evict * ONE);
        together(hardware, ops).0
    };
    // 120 bytes are read and written: 4 each way, or 3 where half and half reach 6.
    let changed = [used(Mode::ReadWrite, 120)];
    assert_eq!(run(&[], &changed, 6), [30]);
    assert_eq!(run(&[(0, 2), (50, 6), (100, 4)], &changed, 6), [40]);
    // By bytes: writes have 2, so a fetch has T - 2 of T = 6 + 4 (s - 1/2), with s = (T - 2) / T:
    // T = 4 + 8^(1/2), and 240 bytes at 4.83 take 49.7. By the number of flows it would be 4
    // and 60.
    let beside = [used(Mode::Write, 120), fetched(240)];
    assert_eq!(run(&[(50, 6), (100, 8)], &beside, 2), [60, 50]);
}

#[test]
fn copies_are_slower_beside_use_in_place_where_there_is_a_curve() {
    let run = |loaded| {
        let mut hardware = asked(100, 128, 1000);
        hardware.tiers[1].loaded = loaded;
        let mut traced = Traced::new();
        let objects = [2000, 800].map(|bytes| traced.object(bytes, true));
        traced.op(0, 0, Span::ZERO, &[(objects[0], Mode::Read)]);
        traced.op(0, 1, Span::ZERO, &[]);
        traced.op(0, 1, Span::ZERO, &[(objects[1], Mode::Read)]);
        let charge = Action::Charge { tier: FAR, bytes: Bytes::new(2000) };
        let in_place = vec![Action::InPlace { object: objects[0] }, charge];
        let fetch = vec![Action::Fetch { object: objects[1], to: HBM }];
        let world = World::of(hardware, traced.0, [150, 50, 0].map(Span::from_ps).to_vec());
        measured(&world, vec![FAR; 2], vec![in_place, Vec::new(), fetch]).0[2]
    };
    assert_eq!(run(None), 50 + 100);
    // 2000 bytes over 500 ps are 4 per ps. The copy alone has 8 x 170 bytes under way, so beside
    // them x (90 + 10 (4 + x)) = 1360: 6.851 per ps, and 800 bytes take 116.8.
    assert_eq!(run(rising(40)), 50 + 117);
}
