//! Made-up points with laws that are known: every number of a spec must come from its own.

use super::*;
use crate::calibrate::skeleton;
use tiersim_models::hardware::Channel;
use tiersim_models::ids::{LinkId, TierId};
use tiersim_models::units::{Bandwidth, Bytes, FlopRate};

fn device() -> Device {
    Device {
        name: "made up".to_owned(),
        driver: String::new(),
        clocks: Vec::new(),
        notes: Vec::new(),
        skeleton: skeleton::of(&[1 << 30; 2], &["bus"], Bytes::mib(1)),
        capacities: vec![Source::Measured("asked".to_owned()); 2],
        parks: false,
    }
}

fn made(points: &[Point]) -> Calibration {
    calibration("host", &device(), points, Vec::new(), "made", "2026-01-31").expect("a spec")
}

/// Points of a law, exact to the picosecond: powers of two, and three of them held out.
fn points(kind: Kind, setup_us: u64, gb_per_s: u64) -> Vec<Point> {
    let law = law(setup_us, gb_per_s);
    let sizes = (12..20).map(|power| (1u64 << power, false));
    let sizes = sizes.chain([(3 << 12, true), (3 << 14, true), (3 << 16, true)]);
    let point = |(size, held_out)| Point {
        kind,
        size: Bytes::new(size),
        held_out,
        shown_only: false,
        spans: vec![law.span_of(Bytes::new(size)); 9],
        latencies: Vec::new(),
        flops: 0,
    };
    sizes.map(point).collect()
}

fn channel(evicting: bool, start: Start) -> Kind {
    Kind::Channel { channel: Channel { link: LinkId(0), evicting }, start }
}

/// Everything that a spec of [`device`] needs, each with a law of its own.
fn all() -> Vec<Point> {
    let mut all = Vec::new();
    for (tier, gb_per_s) in [(0, 7), (1, 8)] {
        for writes in [false, true] {
            let kind = Kind::InPlace { tier: TierId(tier), writes };
            all.extend(points(kind, 1 + u64::from(tier), gb_per_s));
        }
    }
    all.extend(points(channel(false, Start::Busy), 1, 20));
    all.extend(points(channel(false, Start::Idle), 10, 19));
    all.extend(points(channel(true, Start::Busy), 2, 30));
    all.extend(points(channel(true, Start::Idle), 12, 29));
    all
}

fn law(setup_us: u64, gb_per_s: u64) -> Law {
    Law { setup: Span::from_us(setup_us), rate: Bandwidth::gb_per_s(gb_per_s) }
}

#[test]
fn every_number_comes_from_its_own_measurement() {
    let made = made(&all());
    let Hardware { tiers, links, compute, facts, name, .. } = made.hardware;
    assert_eq!((name.as_str(), compute, made.record.launch), ("made", None, None));
    assert_eq!([tiers[0].access, tiers[1].access], [law(1, 7), law(2, 8)]);
    // Of copies back to back; what a lone one takes beyond that is no part of a link.
    assert_eq!((links[0].read, links[0].write), (law(1, 20), law(2, 30)));
    assert_eq!(facts.len(), 2 * 3 + 4);
    for fact in facts.iter().filter(|fact| !fact.path.ends_with("capacity")) {
        let Source::Measured(words) = &fact.source else { panic!("{fact:?} is measured") };
        for part in ["8", "error median 0.0 %", "held out", "spread 0.0 %", "2026-01-31"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
    assert_eq!(made.record.laws.len(), 8);
}

#[test]
fn a_device_that_computes_has_its_peak_its_memory_and_its_launch() {
    let mut points = all();
    points.extend(self::points(Kind::Stream(Access::Copy), 3, 100));
    for (precision, gb_per_s) in [(Precision::Bf16, 400), (Precision::Fp32, 50)] {
        for mut point in self::points(Kind::Gemm(precision), 5, gb_per_s) {
            // Twice the FLOP of bytes: the rate counts FLOP.
            point.flops = point.size.get() * 2;
            points.push(point);
        }
    }
    let launch =
        Point { kind: Kind::Launch, spans: vec![Span::from_us(4); 9], ..points[0].clone() };
    points.push(launch);
    let made = made(&points);
    let compute = made.hardware.compute.expect("a device");
    // In the order of a spec, and only what was measured.
    let flops = [("fp32", 100), ("bf16", 800)];
    let flops =
        flops.map(|(name, rate)| (name.to_owned(), FlopRate::new(rate * 1_000_000_000).unwrap()));
    assert_eq!(compute.flops, flops);
    for name in ["fp32", "bf16"] {
        let path = format!("compute.flops.{name}");
        let fact = made.hardware.facts.iter().find(|fact| fact.path == path).expect("it is said");
        let Source::Measured(words) = &fact.source else { panic!("{fact:?} is measured") };
        assert!(words.starts_with(&format!("products of square matrices in {name}: ")), "{words}");
    }
    assert_eq!((compute.memory, compute.launch), (Bandwidth::gb_per_s(100), Span::from_us(4)));
    assert_eq!(compute.name, "made up");
}

#[test]
fn points_that_are_only_shown_or_held_out_have_no_say() {
    let mut points = all();
    for point in &mut points {
        if point.held_out || point.size < Bytes::new(1 << 14) {
            point.shown_only = !point.held_out;
            point.spans = vec![Span::from_us(100_000); 9];
        }
    }
    let made = made(&points);
    assert_eq!(made.hardware.links[0].read, law(1, 20));
    let (_, fitted) = &made.record.laws[0];
    let fitted = fitted.as_ref().expect("a law");
    assert_eq!(fitted.points, (6, 3));
    assert!(fitted.error.2 < 1e-6 && fitted.held_out.0 > 0.9, "{fitted:?}");
}

#[test]
fn what_was_not_measured_makes_no_spec() {
    let mut points = all();
    points.retain(|point| point.kind != channel(true, Start::Busy));
    let refused = calibration("host", &device(), &points, Vec::new(), "made", "2026-01-31")
        .expect_err("no spec");
    let what = "links.bus".to_owned();
    assert_eq!(refused, NoSpec { what, refusal: Refusal::OneSize });
}

/// Times that do not grow until the bytes of a copy take longer than to ask for it.
fn plateau(kind: Kind, ask_us: u64, gb_per_s: u64) -> Vec<Point> {
    let law = Law { setup: Span::ZERO, rate: Bandwidth::gb_per_s(gb_per_s) };
    let mut points = points(kind, 0, gb_per_s);
    points.extend(
        points
            .clone()
            .into_iter()
            .map(|point| Point { size: Bytes::new(point.size.get() << 8), ..point }),
    );
    for point in &mut points {
        point.spans = vec![law.span_of(point.size).max(Span::from_us(ask_us)); 9];
    }
    points
}

#[test]
fn the_rate_of_copies_back_to_back_is_that_of_large_ones() {
    let mut points = all();
    points.retain(|point| point.kind != channel(false, Start::Busy));
    points.extend(plateau(channel(false, Start::Busy), 15, 50));
    let made = made(&points);
    assert_eq!(made.hardware.links[0].read.rate, Bandwidth::gb_per_s(50));
    // A line through all of them, which is what is reported of the kind, would be another.
    let kind = channel(false, Start::Busy).probe(&device().skeleton);
    let (_, all) = made.record.laws.iter().find(|(of, _)| *of == kind).expect("it was measured");
    let all = all.as_ref().expect("a law").rate.0;
    assert!((all / 50e9 - 1.0).abs() > 0.01, "{all}");
}

#[test]
fn both_ways_at_once_share_a_total_only_where_they_reach_less_than_the_sum() {
    let made = |gb_per_s: [u64; 2]| {
        let mut points = all();
        for (evicting, gb_per_s) in [false, true].into_iter().zip(gb_per_s) {
            points.extend(self::points(channel(evicting, Start::Both), 3, gb_per_s));
        }
        made(&points).hardware
    };
    // Alone they reach 20 and 30.
    for (both, total) in [
        ([16, 26], Some(42)),
        ([20, 30], None),
        ([20, 29], None),
        ([20, 28], Some(48)),
        ([10, 12], Some(30)),
    ] {
        let service = made(both).links[0].service.clone();
        let found = service.as_ref().and_then(|service| service.total);
        assert_eq!(found, total.map(Bandwidth::gb_per_s), "{both:?}");
        if let Some(service) = service {
            assert_eq!((service.discipline, service.at_once()), (Discipline::FairShare, 1));
        }
    }
    let one_way = self::points(channel(false, Start::Both), 3, 1);
    let points: Vec<Point> = all().into_iter().chain(one_way).collect();
    let made = self::made(&points);
    assert_eq!(made.hardware.links[0].service, None, "of one way nothing is known together");
}

#[test]
fn a_number_carries_the_standard_error_of_its_fit_as_its_spread() {
    let exact = made(&all()).hardware;
    assert!(exact.facts.iter().all(|fact| fact.uncertainty.is_none()), "nothing scatters");
    // Copies back to back that are a tenth too slow and a tenth too quick in turn.
    let mut points = all();
    let busy = channel(false, Start::Busy);
    for (at, point) in points.iter_mut().filter(|point| point.kind == busy).enumerate() {
        let share = if at % 2 == 0 { 1.1 } else { 0.9 };
        let off = |span: &mut Span| *span = Span::from_ps((span.ps() as f64 * share) as u64);
        point.spans.iter_mut().for_each(off);
    }
    let made = made(&points);
    let of = |path: &str| {
        let fact = made.hardware.facts.iter().find(|fact| fact.path == path).expect("it is said");
        fact.uncertainty.as_ref().and_then(Uncertainty::relative)
    };
    let law = of_large(&points, busy).expect("a law");
    let name = &made.hardware.links[0].name;
    assert_eq!(of(&format!("links.{name}.read")), Some(law.rate.1 / law.rate.0));
    assert!((0.01..0.2).contains(&(law.rate.1 / law.rate.0)), "{law:?}");
    let all = fitted(&points, &[busy]).expect("a law");
    let setup = all.setup.1 / all.setup.0;
    assert_eq!(of(&format!("links.{name}.setup")), Some(setup.min(1.0)));
    assert_eq!(of(&format!("links.{name}.write_setup")), None, "the other way is exact");
    assert_eq!(of(&format!("links.{name}.write")), None);
}

#[test]
fn on_a_device_only_a_copy_that_an_op_waits_for_adds_to_a_run() {
    let mut points = all();
    points.retain(|point| point.kind != channel(false, Start::Idle));
    points.extend(self::points(channel(false, Start::Idle), 10, 20));
    let runtime = made(&points).record.runtime.expect("lone copies were measured");
    let told = (runtime.per_op, runtime.per_object);
    assert_eq!(told, (Span::ZERO, Span::from_us(9)), "10 us, of which 1 is the copy's own");
    assert!(runtime.source.starts_with("measured: a lone copy beyond its own time, median of 11"));
    points.retain(|point| !matches!(point.kind, Kind::Channel { start: Start::Idle, .. }));
    assert_eq!(made(&points).record.runtime, None, "no lone copy was measured");
}

#[test]
fn where_threads_are_parked_waking_them_is_in_the_runtime_and_in_no_law() {
    let device = Device { parks: true, ..device() };
    let mut points = all();
    // Alone a copy takes 9 us more than its own 1 us and its bytes; 4 us of these between any ops.
    points.retain(|point| point.kind != channel(false, Start::Idle));
    points.extend(self::points(channel(false, Start::Idle), 10, 20));
    let between =
        Point { kind: Kind::Between, spans: vec![Span::from_us(4); 9], ..points[0].clone() };
    let made = |points: &[Point]| {
        calibration("host", &device, points, Vec::new(), "made", "2026-01-31").expect("a spec")
    };
    assert_eq!(made(&points).record.runtime, None, "nothing was measured between ops");
    points.push(between);
    let made = made(&points);
    let link = &made.hardware.links[0];
    assert_eq!((link.read, link.write), (law(1, 20), law(2, 30)), "their own times alone");
    let runtime = made.record.runtime.expect("threads are parked");
    let told = (runtime.per_op, runtime.per_object);
    assert_eq!(told, (Span::from_us(4), Span::from_us(5)));
    assert!(runtime.source.contains("median of 9") && runtime.source.contains("of 11 sizes"));
    assert!(!runtime.blocking && !runtime.pageable && runtime.passes == 0);
}
