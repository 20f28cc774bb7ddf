//! Cases whose answer is a formula: 0 ps off.

use tiersim_tests::prelude::*;

/// `setup + ceil(bytes * 10^12 / rate)`, worked out apart from the library.
fn formula(setup: u64, rate: u64, bytes: u64) -> u64 {
    let product = u128::from(bytes) * 1_000_000_000_000;
    let quotient = product / u128::from(rate);
    setup + (quotient + u128::from(product % u128::from(rate) > 0)) as u64
}

#[test]
fn one_copy_takes_setup_plus_bytes_over_rate_rounded_up() {
    for (setup, rate, bytes) in [
        (5_000_000, 150_000_000_000, 67_108_864),
        (30_000_000, 10_000_000_000, 67_108_864),
        (2_000_000, 400_000_000_000, 67_108_864),
        (0, 3, 1),
        (1, 7_000_000_000_001, 999_999_937),
        (0, 1_000_000_000_000, 12_345),
    ] {
        let (traced, [object]) = Traced::reads([bytes], false);
        let hardware = two_tiers(Capacity::Unlimited, law(setup, rate));
        let world = World::of(hardware, traced.0, vec![Span::from_ps(11)]);
        let ends = world.scripted(vec![FAR], vec![vec![fetch(object)]]);
        assert_eq!(ends[0], formula(setup, rate, bytes) + 11);
    }
}

#[test]
fn k_chunks_over_two_links_take_k_plus_1_times_one() {
    for chunks in [1u64, 2, 3, 7, 100] {
        let (traced, [object]) = Traced::reads([1000 * chunks], false);
        let link = law(13, 1_000_000_000_000);
        let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
        let mut hardware = hardware(&tiers, &[(0, 1, link), (1, 2, link)]);
        hardware.chunk = Bytes::new(1000);
        let world = World::of(hardware, traced.0, vec![Span::ZERO]);
        let ends = world.scripted(vec![TierId(2)], vec![vec![fetch(object)]]);
        assert_eq!(ends[0], (chunks + 1) * (13 + 1000));
    }
}

#[test]
fn a_slow_second_link_holds_the_first_back_but_not_the_copy() {
    // 10 chunks of 100 ps on the first link, 300 ps on the second: 100 + 10 x 300.
    let (traced, [object]) = Traced::reads([1000], false);
    let rate = |bytes_per_ns: u64| law(0, bytes_per_ns * 1_000_000_000);
    let tiers = [TierKind::Hbm, TierKind::Dram, TierKind::Nvme].map(free);
    let mut hardware = hardware(&tiers, &[(0, 1, rate(1000)), (1, 2, rate(3000))]);
    hardware.links[0].read.rate = Bandwidth::new(333_333_333_334).expect("above zero");
    hardware.links[1].read.rate = Bandwidth::new(1_000_000_000_000).expect("above zero");
    hardware.chunk = Bytes::new(100);
    let world = World::of(hardware, traced.0, vec![Span::ZERO]);
    let ends = world.scripted(vec![TierId(2)], vec![vec![fetch(object)]]);
    assert_eq!(ends[0], 100 + 10 * 300);
}

#[test]
fn double_buffering_takes_the_longer_of_compute_and_copy_for_each_op() {
    let computes = [500u64, 20, 700, 700, 1, 300];
    let sizes = [100u64, 400, 30, 900, 700, 5];
    let (traced, objects) = Traced::reads(sizes, false);
    let mut script = vec![vec![fetch(objects[0])]];
    for index in 0..objects.len() {
        if index > 0 {
            script.push(Vec::new());
        }
        if let Some(&next) = objects.get(index + 1) {
            script[index].push(prefetch(next));
        }
    }
    let copy = |bytes: u64| formula(7, 1_000_000_000_000, bytes);
    let hardware = two_tiers(Capacity::Unlimited, law(7, 1_000_000_000_000));
    let spans = computes.map(Span::from_ps).to_vec();
    let world = World::of(hardware, traced.0, spans);
    let ends = world.scripted(vec![FAR; 6], script);
    // The first op waits for its own copy; behind it on the same engine comes the second copy.
    let mut expected = copy(sizes[0]);
    for index in 0..computes.len() {
        let next = sizes.get(index + 1).map_or(0, |&bytes| copy(bytes));
        let this_end = expected + computes[index];
        assert_eq!(ends[index], this_end, "op {index}");
        expected += computes[index].max(next);
    }
}

#[test]
fn deterministic_arrivals_and_service_never_wait() {
    // D/D/1 through the machine: stream 0 is the clock, stream 1 the server.
    let (gap, service, customers) = (10u64, 9u64, 1000usize);
    let mut traced = Traced::new();
    let mut spans = Vec::new();
    for _ in 0..customers {
        let clock = traced.op(0, 0, Span::ZERO, &[]);
        let served = traced.op(0, 1, Span::ZERO, &[]);
        traced.0.ops[served.index()].after.push(clock);
        spans.extend([Span::from_ps(gap), Span::from_ps(service)]);
    }
    let world = World::of(two_tiers(Capacity::Unlimited, law(0, 1)), traced.0, spans);
    let ends = world.scripted(Vec::new(), Vec::new());
    for customer in 0..customers {
        let arrival = gap * (customer as u64 + 1);
        assert_eq!(ends[2 * customer], arrival);
        assert_eq!(ends[2 * customer + 1], arrival + service);
    }
}

#[test]
fn use_in_place_delays_an_op_by_the_tiers_law() {
    let (traced, [object]) = Traced::reads([64 << 20], false);
    let access = Law { setup: Span::from_us(5), rate: Bandwidth::gb_per_s(150) };
    let mut hardware = two_tiers(Capacity::Unlimited, law(1, 1));
    hardware.tiers[1].access = access;
    let world = World::of(hardware, traced.0, vec![Span::from_ps(3)]);
    let charge = Action::Charge { tier: FAR, bytes: Bytes::mib(64) };
    let ends = world.scripted(vec![FAR], vec![vec![Action::InPlace { object }, charge]]);
    assert_eq!(ends[0], 3 + 5_000_000 + 447_392_427);
}

#[test]
fn a_changed_object_is_written_back_and_an_unchanged_one_is_not() {
    let link = law(0, 1_000_000_000_000);
    for (mode, evicting) in [(Mode::ReadWrite, 500u64), (Mode::Read, 0)] {
        let mut traced = Traced::new();
        let first = traced.object(500, true);
        let second = traced.object(500, true);
        traced.op(0, 0, Span::ZERO, &[(first, mode)]);
        traced.op(0, 0, Span::ZERO, &[(second, Mode::Read)]);
        let world = World::of(two_tiers(Bytes::new(500), link), traced.0, vec![Span::ZERO; 2]);
        let evict = Action::Evict { object: first, from: HBM, to: FAR };
        let script = vec![vec![fetch(first)], vec![evict, fetch(second)]];
        let ends = world.scripted(vec![FAR, FAR], script);
        // The second fetch waits for the room that the first object leaves.
        assert_eq!(ends[1], 500 + evicting + 500, "{mode:?}");
    }
}

#[test]
fn room_is_free_at_exactly_the_moment_it_is_given_back() {
    // Two temporaries that fit one at a time: the second op starts when the first ends, not
    // 1 ps later.
    let mut traced = Traced::new();
    let first = traced.object(10, false);
    let second = traced.object(10, false);
    traced.op(0, 0, Span::ZERO, &[(first, Mode::Write)]);
    traced.op(0, 1, Span::ZERO, &[(second, Mode::Write)]);
    let spans = vec![Span::from_ps(100), Span::from_ps(50)];
    let world = World::of(two_tiers(Bytes::new(10), law(0, 1)), traced.0, spans);
    let ends = world.scripted(vec![FAR; 2], Vec::new());
    assert_eq!((ends[0], ends[1]), (100, 150));
}
