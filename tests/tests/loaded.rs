//! Latency under load, replayed: injectors in a closed loop at each bandwidth of each measured
//! curve must see the curve's own latency, within 2 %.
//!
//! An injector is a stream that uses the loaded tier in place, again and again, with a pause that
//! would give the point's bandwidth at the point's latency. Nothing tells the machine which point
//! is meant: bandwidth and latency have to find each other.

use tiersim_policies::command::ObjectAccess;
use tiersim_tests::files::{root, table};
use tiersim_tests::prelude::*;

const INJECTORS: usize = 400;
const ROUNDS: usize = 6;
const BYTES: u64 = 16 << 20;
/// A memory whose own rate does not matter beside the pauses.
const RATE: u64 = 1_000_000_000_000_000_000;

type Points = Vec<(Bandwidth, Span)>;

/// Points by memory and share of reads, in the order of the file.
fn measured() -> BTreeMap<String, BTreeMap<u8, Points>> {
    let mut memories: BTreeMap<String, BTreeMap<u8, Points>> = BTreeMap::new();
    for row in table(&root().join("tests/data/loaded_latency.csv")) {
        let number = |column: &str| row[column].parse::<f64>().expect("a number");
        let rate = Bandwidth::new((number("gb_per_s") * 1e9).round() as u64).expect("above zero");
        // Cycles stand for nanoseconds: the shape is what is replayed.
        let latency = Span::from_ps((number("latency") * 1e3).round() as u64);
        let curves = memories.entry(row["memory"].clone()).or_default();
        curves.entry(number("reads_percent") as u8).or_default().push((rate, latency));
    }
    memories
}

fn machine(loaded: Loaded, idle: Span) -> Hardware {
    let near = (TierKind::Hbm, Capacity::Unlimited, law(0, RATE));
    let far = (TierKind::Dram, Capacity::Unlimited, law(idle.ps(), RATE));
    let mut machine = hardware(&[near, far], &[(0, 1, law(0, RATE))]);
    machine.tiers[1].loaded = Some(loaded);
    // Injectors have as many requests under way as they like.
    let (granule, depth) = (Some(Bytes::new(1 << 20)), NonZeroU32::new(u32::MAX));
    machine.tiers[1].requests = DeviceRequests { granule, depth };
    machine
}

/// Bytes that a use of an object writes.
fn written(mode: Mode) -> Bytes {
    Bytes::new(if mode.writes() { BYTES } else { 0 })
}

/// One use of the tier in place by an injector.
fn injection(ticket: usize, stream: usize, mode: Mode) -> Command {
    let (object, tier) = (ObjectId(0), TierId(1));
    let touch = ObjectAccess { object, tier, mode, written: written(mode) };
    let (touches, charges) = ([touch], [(tier, Bytes::new(BYTES))]);
    command(ticket, computing(0, stream as u16, touches, charges), None)
}

/// Bandwidth (bytes per second) and latency (picoseconds) that the injectors see.
fn replay(machine: &Hardware, reads: u8, pause: Span) -> (f64, f64) {
    let mut traced = Traced::new();
    traced.object(BYTES, true);
    traced.op(0, 0, Span::ZERO, &[]);
    let world = World::of(machine.clone(), traced.0, vec![pause]);
    let mut sim = world.unplanned();
    for ticket in 0..INJECTORS * ROUNDS {
        let stream = ticket % INJECTORS;
        let reading = stream * 100 < usize::from(reads) * INJECTORS;
        let mode = if reading { Mode::Read } else { Mode::Write };
        sim.submit(injection(ticket, stream, mode)).expect("it takes an op");
    }
    let mut last = vec![Time::ZERO; INJECTORS];
    let (mut taken, mut count) = (0u128, 0u64);
    while let Some((now, ticket)) = sim.next().expect("no fault") {
        let (round, stream) = (ticket.0 as usize / INJECTORS, ticket.0 as usize % INJECTORS);
        if round >= 2 {
            taken += u128::from(now.since(last[stream]).ps());
            count += 1;
        }
        last[stream] = now;
    }
    let mean = taken as f64 / count as f64;
    let transfer = Bandwidth::new(RATE).expect("above zero").span_of(BYTES);
    let bandwidth = INJECTORS as f64 * BYTES as f64 / (mean / 1e12);
    (bandwidth, mean - pause.ps() as f64 - transfer.ps() as f64)
}

#[test]
fn injection_at_each_bandwidth_finds_each_point_of_each_curve_within_2_per_cent() {
    let mut points = 0;
    let mut worst = 0.0f64;
    for (memory, curves) in measured() {
        let all = curves.iter().map(|(&reads, points)| Curve { reads, points: points.clone() });
        let loaded = Loaded { curves: all.collect() };
        for (&reads, curve) in &curves {
            let machine = machine(loaded.clone(), curve[0].1);
            for &(rate, latency) in curve {
                let period = Span::from_ps(rate.span_of(INJECTORS as u64 * BYTES).ps());
                let transfer = Bandwidth::new(RATE).expect("above zero").span_of(BYTES);
                let pause = period.ps() - latency.ps() - transfer.ps();
                let (bandwidth, seen) = replay(&machine, reads, Span::from_ps(pause));
                let off = |found: f64, stated: u64| (found / stated as f64 - 1.0).abs();
                let (rate_off, latency_off) = (off(bandwidth, rate.get()), off(seen, latency.ps()));
                worst = worst.max(rate_off).max(latency_off);
                let what = format!("{memory}, {reads} % reads, {rate:?}");
                assert!(rate_off <= 0.02, "{what}: {bandwidth} B/s");
                assert!(latency_off <= 0.02, "{what}: {seen} ps against {latency}");
                points += 1;
            }
        }
    }
    eprintln!("{points} points, the worst {:.3} % off", worst * 100.0);
    assert_eq!(points, 111);
}

#[test]
fn an_idle_memory_and_one_without_curves_take_the_same() {
    let curve = Curve {
        reads: 100,
        points: [(1u64 << 30, 100_000u64), (1 << 40, 900_000)]
            .map(|(rate, ps)| (Bandwidth::new(rate).expect("above zero"), Span::from_ps(ps)))
            .to_vec(),
    };
    let with = machine(Loaded { curves: vec![curve] }, Span::from_ps(100_000));
    let mut without = with.clone();
    without.tiers[1].loaded = None;
    // 0.67 GB/s, below the first point.
    let idle = Span::from_us(10_000_000);
    assert_eq!(replay(&with, 100, idle), replay(&without, 100, idle));
    let busy = Span::from_us(100);
    assert!(replay(&with, 100, busy).1 > replay(&without, 100, busy).1 + 100_000.0);
}

/// Bandwidth and latency of one op that reads or writes, with so many bytes under way: GB/s and ns.
fn reached(loaded: &Loaded, reads: u8, curve: &Points, under_way: u64) -> (f64, f64) {
    let mut machine = machine(loaded.clone(), curve[0].1);
    // No memory is faster than its last point.
    machine.tiers[1].access.rate = curve[curve.len() - 1].0;
    // Requests of a byte, so that a depth is a number of bytes.
    let (granule, depth) = (Some(Bytes::new(1)), NonZeroU32::new(under_way as u32));
    machine.tiers[1].requests = DeviceRequests { granule, depth };
    let mut traced = Traced::new();
    // A hundred objects, of which so many are read.
    let uses: Vec<(ObjectId, Mode)> = (0..100)
        .map(|number| {
            let mode = if number < reads { Mode::Read } else { Mode::Write };
            (traced.object(BYTES, true), mode)
        })
        .collect();
    traced.op(0, 0, Span::ZERO, &uses);
    let world = World::of(machine, traced.0, vec![Span::ZERO]);
    let mut sim = world.unplanned();
    let tier = TierId(1);
    let touch = |&(object, mode)| ObjectAccess { object, tier, mode, written: written(mode) };
    let touches = uses.iter().map(touch);
    let work = computing(0, 0, touches, [(tier, Bytes::new(100 * BYTES))]);
    sim.submit(command(0, work, None)).expect("an op");
    let (end, _) = sim.next().expect("no fault").expect("it ends");
    let rate = 100.0 * BYTES as f64 * 1000.0 / end.ps() as f64;
    (rate, under_way as f64 / rate)
}

/// Bytes under way in the columns of the page.
const COLUMNS: [u64; 3] = [2_000, 8_000, 32_000];

/// Every published point: as many bytes under way as it has by Little's law must reach its
/// bandwidth and its latency; and what other numbers of bytes reach is what the page says.
#[test]
fn docs_loaded_latency_is_what_requests_under_way_reach_on_every_published_curve() {
    let mut rows = Vec::new();
    for (memory, curves) in measured() {
        let all = curves.iter().map(|(&reads, points)| Curve { reads, points: points.clone() });
        let loaded = Loaded { curves: all.collect() };
        for (&reads, curve) in &curves {
            let mut worst = 0.0f64;
            for &(rate, latency) in curve {
                let (rate, latency) = (rate.get() as f64 / 1e9, latency.ps() as f64 / 1e3);
                let under_way = (rate * latency).round() as u64;
                let found = reached(&loaded, reads, curve, under_way);
                let off = |found: f64, stated: f64| (100.0 * (found / stated - 1.0)).abs();
                worst = worst.max(off(found.0, rate)).max(off(found.1, latency));
            }
            assert!(worst <= 2.0, "{memory}, {reads} % reads: {worst} % off");
            let cells = COLUMNS.map(|bytes| {
                let (rate, latency) = reached(&loaded, reads, curve, bytes);
                format!("{rate:.1} at {latency:.0}")
            });
            let points = curve.len();
            rows.push(format!(
                "| {memory} | {reads} | {points} | {worst:.2} | {} |",
                cells.join(" | ")
            ));
        }
    }
    let page = include_str!("../../docs/explanation/loaded-latency.md");
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(*row)).collect();
    assert!(missing.is_empty(), "rows of docs/explanation/loaded-latency.md:\n{missing:#?}");
}

/// Random accesses that somebody published, and what the same requests under way reach here.
#[test]
fn docs_loaded_latency_has_published_random_accesses() {
    // What, bytes of a request, under way, latency in ns, and the bandwidth that was measured, in
    // GB/s.
    let published = [
        ("fio, 4 KiB, 512 under way", 4096, 512, 2_966_000, Some(180_000.0 * 4096.0 / 1e9)),
        ("PM1743, 4 KiB, 64 threads", 4096, 64, 34_712, Some(5.606)),
        ("GPU reads the host's memory", 128, 300, 1_090, Some(35.2)),
        ("GPU reads a pool at 750 ns", 128, 300, 1_730, Some(26.0)),
        ("pointer chase, x8 expander", 64, 1, 271, None),
    ];
    let page = include_str!("../../docs/explanation/loaded-latency.md");
    for (what, granule, depth, latency, measured) in published {
        let mut machine = machine(Loaded { curves: Vec::new() }, Span::from_ns(latency));
        machine.tiers[1].loaded = None;
        let (granule, depth) = (Some(Bytes::new(granule)), NonZeroU32::new(depth));
        machine.tiers[1].requests = DeviceRequests { granule, depth };
        let rate = machine.tiers[1].pace(Default::default(), [1, 0], 1).get() as f64 / 1e9;
        let off = measured.map_or("-".to_owned(), |measured: f64| {
            format!("{:+.1}", 100.0 * (rate / measured - 1.0))
        });
        let measured = measured.map_or("-".to_owned(), |measured| format!("{measured:.3}"));
        let row = format!("| {what} | {measured} | {rate:.3} | {off} |");
        assert!(page.contains(&row), "docs/explanation/loaded-latency.md lacks: {row}");
    }
}
