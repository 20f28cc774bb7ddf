//! Recordings made up here: what they show must be what they were made of.

use super::*;
use crate::options::draw;
use tiersim_models::hardware::{Compute, Law as Service, Link, Source, Tier, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::recorded::{HostMemory, Profile, Value, Way};
use tiersim_models::service::Detail;
use tiersim_models::units::{Bandwidth, FlopRate};
use tiersim_models::workload::{Op, Phase, Recorded, TraceMeta};

const PINNED: &str = "Memcpy HtoD (Pinned -> Device)";
const PAGEABLE: &str = "Memcpy HtoD (Pageable -> Device)";
const BACK: &str = "Memcpy DtoH (Device -> Pinned)";
const WITHIN: &str = "Memcpy DtoD (Device -> Device)";

fn trace(copies: &[(&str, u64, u64)]) -> Trace {
    let op = |&(name, bytes, ps): &(&str, u64, u64)| Op {
        bytes: Bytes::new(bytes),
        duration: Some(Span::from_ps(ps)),
        ..Op::new(0, Phase::Forward, name, 0..0)
    };
    let recorded = Recorded { how: "made up".to_owned(), ..Recorded::default() };
    let meta = TraceMeta { recorded, ..TraceMeta::default() };
    let ops = copies.iter().map(op).collect();
    Trace { meta, modules: Vec::new(), objects: Vec::new(), ops, uses: Vec::new() }
}

/// Copies of a law of so many ns and GB/s, whole nanoseconds, each a share longer or shorter.
fn law(
    name: &'static str,
    (ns, gb_per_s): (f64, f64),
    sizes: &[u64],
    repeats: u64,
    noise: f64,
) -> Vec<(&'static str, u64, u64)> {
    let mut all = Vec::new();
    for (index, &size) in (0..).zip(sizes) {
        for repeat in 0..repeats {
            let unit = draw(7, index * 1000 + repeat) as f64 / u64::MAX as f64;
            let time = (ns + size as f64 / gb_per_s) * (1.0 + noise * (2.0 * unit - 1.0));
            all.push((name, size, time.round() as u64 * 1000));
        }
    }
    all
}

fn sizes(from: u32, to: u32) -> Vec<u64> {
    (from..to).map(|power| 1 << power).collect()
}

/// HBM and DRAM behind a bus of 1 us and 26 GB/s that carries 20 and 10 of pageable memory.
fn machine() -> Hardware {
    let access = |gb: u64| Service { setup: Span::from_ns(400), rate: Bandwidth::gb_per_s(gb) };
    let tier = |name: &str, kind, gb| Tier {
        name: name.to_owned(),
        kind,
        capacity: Bytes::gib(80).into(),
        access: access(gb),
        loaded: None,
        requests: Default::default(),
    };
    let bus = Service { setup: Span::from_us(1), rate: Bandwidth::gb_per_s(26) };
    let mut link = Link::new("pcie", (TierId(0), TierId(1)), [bus; 2]);
    link.pageable = Some([Bandwidth::gb_per_s(20), Bandwidth::gb_per_s(10)]);
    let mut hardware = crate::calibrate::skeleton::of(&[1 << 30; 2], &["pcie"], Bytes::mib(1));
    hardware.name = "base".to_owned();
    hardware.tiers =
        vec![tier("hbm", TierKind::Hbm, 1000), tier("dram", TierKind::Dram, 25)].into();
    hardware.links = vec![link].into();
    let compute = Compute {
        name: "made up".to_owned(),
        flops: vec![("bf16".to_owned(), FlopRate::new(1_000_000_000_000).unwrap())],
        memory: Bandwidth::gb_per_s(1000),
        launch: Span::from_us(3),
        efficiency: Default::default(),
        op_times: None,
        attention: None,
    };
    hardware.compute = Some(compute.into());
    let fact = |path: &str| {
        let source = Source::Measured("somewhere".to_owned());
        tiersim_models::hardware::Fact::new(path.to_owned(), String::new(), source)
    };
    hardware.facts =
        ["links.pcie.setup", "links.pcie.read", "links.pcie.write"].map(fact).to_vec().into();
    hardware
}

fn one(copies: &[(&'static str, u64, u64)]) -> ShownCopies {
    let mut all = shown(&trace(copies));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn a_law_is_found_again_within_what_its_noise_allows() {
    for (ns, gb_per_s) in [(2_000.0, 12.0), (10_000.0, 25.0), (30_000.0, 50.0)] {
        let shown = one(&law(PINNED, (ns, gb_per_s), &sizes(14, 28), 9, 0.05));
        let law = shown.law.expect("a law");
        assert!(shown.has_setup);
        let off = |found: f64, truth: f64| (found / truth - 1.0).abs();
        assert!(off(law.setup.0 * 1e9, ns) < 0.05, "{ns} {gb_per_s}: {law:?}");
        assert!(off(law.rate.0 / 1e9, gb_per_s) < 0.02, "{ns} {gb_per_s}: {law:?}");
        assert_eq!(law.points, (7, 7), "every second size is held out, and not the largest");
        assert_eq!(law.sizes.1, Bytes::new(1 << 27));
        assert!(law.held_out.1 < 0.05, "{law:?}");
    }
}

#[test]
fn single_copies_that_waited_have_little_say() {
    let mut copies = law(PINNED, (5_000.0, 20.0), &sizes(14, 28), 1, 0.0);
    // The largest size is fitted, and so is every second below it.
    copies[5].2 *= 4;
    let law = one(&copies).law.expect("a law");
    assert!((law.rate.0 / 20e9 - 1.0).abs() < 0.05, "{law:?}");
    assert!((law.setup.0 / 5e-6 - 1.0).abs() < 0.05, "{law:?}");
}

#[test]
fn of_few_sizes_only_the_rate_is_told() {
    let copies = law(PINNED, (5_000.0, 10.0), &[1 << 12, 1 << 26], 9, 0.1);
    let shown = one(&copies);
    let mut rates: Vec<f64> = copies
        .iter()
        .filter(|copy| copy.1 == 1 << 26)
        .map(|copy| copy.1 as f64 / copy.2 as f64 * 1e12)
        .collect();
    rates.sort_by(f64::total_cmp);
    let law = shown.law.expect("a rate");
    assert_eq!((shown.has_setup, law.rate.0, law.repeats), (false, rates[4], 9));
    assert_eq!(law.setup, (0.0, 0.0));
    assert!(law.rate.1 > 0.0 && law.rate.1 < 0.1 * law.rate.0, "{law:?}");
    // Of copies that no two of have one size it is the one that half of the bytes go no faster at.
    let mixed: Vec<_> = [(1u64 << 20, 8), (3 << 20, 8), (100 << 20, 4)]
        .into_iter()
        .flat_map(|(size, gb)| (0..4).map(move |more| (PAGEABLE, size + more, size / gb * 1000)))
        .collect();
    let law = one(&mixed).law.expect("a rate");
    assert!((law.rate.0 / 4e9 - 1.0).abs() < 1e-6, "{law:?}");
}

#[test]
fn fewer_copies_than_stated_tell_nothing_and_it_is_said() {
    let seven = law(PINNED, (5_000.0, 10.0), &[1 << 20], 7, 0.0);
    let eight = law(PINNED, (5_000.0, 10.0), &[1 << 20], 8, 0.0);
    let why = one(&seven).law.expect_err("too few");
    assert_eq!(why, "7 copies say their bytes and last 8.000 ns or longer, and 8 are needed");
    assert!(one(&eight).law.is_ok());
    // What a clock of whole microseconds cannot tell, and what says no bytes, do not count.
    let short: Vec<_> = (0..20).map(|_| (PINNED, 4096, 7_000_000)).collect();
    let none: Vec<_> = (0..20).map(|_| (PINNED, 0, 50_000_000)).collect();
    for copies in [short, none] {
        let shown = one(&copies);
        assert_eq!((shown.copies, shown.told, shown.law.is_err()), (20, 0, true));
    }
}

#[test]
fn generated_traces_and_other_ops_show_nothing() {
    let mut made = trace(&law(PINNED, (5_000.0, 10.0), &[1 << 20], 9, 0.0));
    made.meta.recorded = Recorded::default();
    assert_eq!(shown(&made), []);
    assert_eq!(shown(&trace(&[("Memset (Device)", 9, 9), ("gemm", 0, 9)])), []);
}

/// What a recording makes of [`machine`].
fn made(copies: &[(&'static str, u64, u64)], hardware: &Hardware) -> FromTrace {
    let base = Base { hardware, another: false };
    let words = ["t.json", "mine", "calibrate --from-trace t.json", "2026-01-31"];
    from_trace((&trace(copies), &Profile::default()), base, words).expect("it tells something")
}

fn told(made: &FromTrace, path: &str) -> Option<Value> {
    made.told.iter().find(|told| told.path == path).map(|told| told.value.clone())
}

fn rate(made: &FromTrace, path: &str) -> Option<f64> {
    match told(made, path)? {
        Value::Rate(rate) => Some(rate.get() as f64 / 1e9),
        other => panic!("{path} is a rate: {other:?}"),
    }
}

#[test]
fn each_road_tells_its_own_number_and_no_other() {
    let hardware = machine();
    let all = sizes(14, 28);
    let copies = [
        law(PINNED, (5_000.0, 12.0), &all, 3, 0.0),
        law(PAGEABLE, (9_000.0, 6.0), &all, 3, 0.0),
        law(BACK, (7_000.0, 13.0), &all, 3, 0.0),
        law(WITHIN, (2_000.0, 400.0), &all, 3, 0.0),
    ]
    .concat();
    let made = made(&copies, &hardware);
    assert_eq!(rate(&made, "links.pcie.read"), Some(12.0));
    assert_eq!(rate(&made, "links.pcie.write"), Some(13.0));
    assert_eq!(rate(&made, "links.pcie.pageable.read"), Some(6.0));
    assert_eq!(rate(&made, "links.pcie.pageable.write"), None, "the base has one");
    assert_eq!(told(&made, "links.pcie.setup"), Some(Value::Time(Span::from_us(5))));
    assert_eq!(told(&made, "links.pcie.write_setup"), Some(Value::Time(Span::from_us(7))));
    assert_eq!(rate(&made, "compute.memory"), Some(800.0), "bytes read and bytes written");
    assert_eq!(rate(&made, "tiers.dram.bandwidth"), Some(12.0), "use in place goes over the bus");
    for of in &made.told {
        let words = of.source.text();
        let assumed = matches!(of.source, Source::Assumed(_));
        assert_eq!(assumed, of.path.starts_with("tiers."), "{of:?}");
        for part in ["t.json", "error median", "held out", "spread", "2026-01-31"] {
            assert!(assumed || words.contains(part), "{part}: {words}");
        }
    }
    let kept = made.record.notes.join("\n");
    assert!(kept.contains("launch: 0 kernels") && kept.contains("kept from base"), "{kept}");
}

#[test]
fn what_depends_on_a_rate_goes_along_with_it() {
    let mut hardware = machine();
    let link = &mut hardware.links[0];
    link.pageable = None;
    let rate_of = Bandwidth::gb_per_s;
    let read = Detail { sizes: vec![(Bytes::mib(1), rate_of(13))], ..Detail::default() };
    link.service = Some(tiersim_models::service::Service {
        discipline: tiersim_models::service::Discipline::FairShare,
        total: Some(rate_of(40)),
        read,
        ..Default::default()
    });
    // Only rates are told, at half of what the machine has.
    let slow = made(&law(PINNED, (0.0, 13.0), &[1 << 26], 9, 0.0), &hardware);
    let Some(Value::Times(factor)) = told(&slow, "links.pcie.read_sizes.points.*.1") else {
        panic!("{:?}", slow.told)
    };
    assert!((0.4999..=0.5).contains(&factor), "{factor}");
    assert_eq!(rate(&slow, "links.pcie.total"), Some(39.0), "13 of this way and 26 of the other");
    // A set-up that is told takes the place of the table that held it.
    let with = made(&law(PINNED, (9_000.0, 13.0), &sizes(14, 28), 3, 0.0), &hardware);
    assert_eq!(told(&with, "links.pcie.read_sizes"), Some(Value::Nothing));
    // The other direction had that set-up because nothing else was said of it.
    assert_eq!(told(&with, "links.pcie.write_setup"), Some(Value::Time(Span::from_us(1))));
    // Pageable memory faster than the machine's pinned memory, in one direction.
    let fast = made(&law(PAGEABLE, (0.0, 30.0), &[1 << 26], 9, 0.0), &hardware);
    assert_eq!(rate(&fast, "links.pcie.pageable.read"), Some(30.0));
    assert_eq!(rate(&fast, "links.pcie.pageable.write"), Some(26.0), "no faster than pinned");
    assert_eq!(rate(&fast, "links.pcie.read"), Some(30.0));
}

#[test]
fn pageable_memory_that_is_kept_is_no_faster_than_pinned_memory_that_is_told() {
    let hardware = machine();
    let slow =
        [law(PINNED, (0.0, 5.0), &[1 << 26], 9, 0.0), law(BACK, (0.0, 8.0), &[1 << 26], 9, 0.0)];
    let both = made(&slow.concat(), &hardware);
    assert_eq!(rate(&both, "links.pcie.pageable.read"), Some(5.0), "20 is kept no more");
    assert_eq!(rate(&both, "links.pcie.pageable.write"), Some(8.0), "nor is 10");
    let of = |path: &str| both.told.iter().find(|told| told.path == path).map(|told| &told.source);
    let why = "that of base, 20 GB/s, brought down to what pinned memory reaches in t.json";
    assert_eq!(of("links.pcie.pageable.read"), Some(&Source::Assumed(why.to_owned())));
    // What is below it is kept, and so is the other direction.
    let one = made(&law(PINNED, (0.0, 21.0), &[1 << 26], 9, 0.0), &hardware);
    assert_eq!(rate(&one, "links.pcie.pageable.read"), None);
    let one = made(&slow[0], &hardware);
    assert_eq!(rate(&one, "links.pcie.pageable.write"), None);
    // What is told of both stays as it is told, and pinned memory is no slower.
    let fast = [slow[0].clone(), law(PAGEABLE, (0.0, 6.0), &[1 << 26], 9, 0.0)].concat();
    let told = made(&fast, &hardware);
    assert_eq!(rate(&told, "links.pcie.pageable.read"), Some(6.0));
    assert_eq!(rate(&told, "links.pcie.read"), Some(6.0));
    // Where the base has none, the other direction is no faster than what is told of it.
    let mut without = machine();
    without.links[0].pageable = None;
    let way = [law(PAGEABLE, (0.0, 12.0), &[1 << 26], 9, 0.0), slow[1].clone()].concat();
    assert_eq!(rate(&made(&way, &without), "links.pcie.pageable.write"), Some(8.0));
}

#[test]
fn numbers_of_a_set_of_drives_are_those_of_one() {
    let mut hardware = machine();
    let dram = hardware.tiers[1].clone();
    let access = Service { setup: Span::from_us(70), rate: Bandwidth::gb_per_s(24) };
    let kind = TierKind::Nvme;
    hardware.tiers.push(Tier { name: "nvme".to_owned(), kind, access, ..dram });
    let mut bus = Link::new("drives", (TierId(1), TierId(2)), [access; 2]);
    let drives = std::num::NonZeroU32::new(8).expect("above zero");
    bus.raid0 = Some(tiersim_models::raid0::Raid0 { drives, stripe: Bytes::mib(1) });
    hardware.links.push(bus);
    let made = made(&law(PINNED, (5_000.0, 16.0), &sizes(14, 28), 3, 0.0), &hardware);
    assert_eq!(rate(&made, "tiers.dram.bandwidth"), Some(16.0));
    assert_eq!(rate(&made, "tiers.nvme.bandwidth"), Some(2.0), "16 of all eight");
    assert_eq!(rate(&made, "links.drives.read"), None);
    let of = made.told.iter().find(|told| told.path == "tiers.nvme.bandwidth");
    let why = "no more than the link to it carries in t.json; for one of 8 drives";
    assert_eq!(of.map(|told| told.source.text()), Some(why));
    // A set that is slower than the link stays what it is.
    hardware.tiers[2].access.rate = Bandwidth::gb_per_s(8);
    let made = self::made(&law(PINNED, (5_000.0, 16.0), &sizes(14, 28), 3, 0.0), &hardware);
    assert_eq!(rate(&made, "tiers.nvme.bandwidth"), None);
}

#[test]
fn a_machine_that_is_far_off_is_warned_of_and_one_of_the_trace_is_not() {
    let mut hardware = machine();
    let copies = trace(&law(PINNED, (5_000.0, 13.0), &sizes(14, 28), 3, 0.0));
    let warned = unlike(&hardware, &copies, "t.json");
    let words: Vec<String> = warned.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "unlike-recording: links.pcie.read: the trace's copies from host to device (pinned memory) \
          reach 13 GB/s (42 copies of 768.0 MiB) (found 26 GB/s); `tiersim calibrate --from-trace \
          t.json` makes a machine of the trace's own"
        ]
    );
    let mut with = |gb: f64| {
        hardware.links[0].read.rate = Bandwidth::new((gb * 1e9) as u64).unwrap();
        unlike(&hardware, &copies, "t.json").len()
    };
    // A quarter more than the one or the other is no warning; a little more than that is.
    assert_eq!([13.0, 16.2, 10.5, 16.3, 10.3].map(&mut with), [0, 0, 0, 1, 1]);
    let base = machine();
    let within = trace(&law(WITHIN, (0.0, 250.0), &[1 << 26], 9, 0.0));
    let warned = unlike(&base, &within, "t.json");
    assert_eq!(warned[0].place, "compute.memory");
    assert!(warned[0].reason.contains("250 GB/s"), "{}", warned[0]);
}

#[test]
fn a_link_that_the_base_does_not_write_is_only_shown() {
    let mut hardware = machine();
    hardware.facts.all().clear();
    let copies = [
        law(PINNED, (5_000.0, 12.0), &sizes(14, 28), 3, 0.0),
        law(WITHIN, (0.0, 400.0), &[1 << 26], 9, 0.0),
    ];
    let made = made(&copies.concat(), &hardware);
    let paths: Vec<&str> = made.told.iter().map(|told| told.path.as_str()).collect();
    assert_eq!(paths, ["compute.memory"]);
    let said = made.record.notes.iter().any(|note| note.contains("base has no link of its own"));
    assert!(said, "{:?}", made.record.notes);
}

/// Kernels in a row: 1 us between them, the shortest of 2 us.
fn chained(count: usize, shortest: u64) -> Profile {
    let kernel = |index: usize| {
        let work = Span::from_us(shortest + index as u64 % 20);
        (Span::from_us(1), work + Span::from_us(1))
    };
    let late = vec![Span::from_us(9); 3];
    Profile { chained: (0..count).map(kernel).collect(), late, ..Profile::default() }
}

#[test]
fn a_launch_is_the_quickest_of_many_kernels_in_a_row() {
    let (hardware, trace) = (machine(), trace(&[]));
    let words = ["t.json", "mine", "", "2026-01-31"];
    let of = |profile: &Profile| {
        let base = Base { hardware: &hardware, another: false };
        from_trace((&trace, profile), base, words)
    };
    let made = of(&chained(2000, 2)).expect("a launch");
    assert_eq!(told(&made, "compute.launch"), Some(Value::Time(Span::from_us(3))));
    let words = made.told[0].source.text();
    assert!(words.contains("5th percentile of 2000") && words.contains("gaps"), "{words}");
    let NothingTold(why) = of(&chained(99, 2)).expect_err("too few");
    assert!(why.iter().any(|why| why.contains("99 kernels") && why.contains("100 are needed")));
    let NothingTold(why) = of(&chained(2000, 30)).expect_err("none is short");
    assert!(why.iter().any(|why| why.contains("none shows a launch alone")), "{why:?}");
    assert!(why.iter().any(|why| why.contains("the trace has none")), "{why:?}");
    assert!(why.iter().any(|why| why.contains("idle stream: median 9.00 us")), "{why:?}");
}

#[test]
fn what_is_kept_from_another_device_is_assumed() {
    let hardware = machine();
    let base = Base { hardware: &hardware, another: true };
    let device = Some(("Other 3000".to_owned(), Some(Bytes::gib(11))));
    let profile = Profile { device, ..chained(2000, 2) };
    let words = ["t.json", "mine", "", "2026-01-31"];
    let copies = trace(&law(WITHIN, (0.0, 400.0), &[1 << 26], 9, 0.0));
    let made = from_trace((&copies, &profile), base, words).expect("a launch");
    assert_eq!(rate(&made, "tiers.hbm.bandwidth"), Some(800.0));
    assert_eq!(base.mark(), "kept from base, which has another device: ");
    assert_eq!(told(&made, "compute.name"), Some(Value::Name("Other 3000".to_owned())));
    assert_eq!(told(&made, "tiers.hbm.capacity"), Some(Value::Size(Bytes::gib(11))));
    assert_eq!(made.record.device, "Other 3000");
}

#[test]
fn roads_have_seats_where_a_machine_says_what_they_reach() {
    let mut hardware = machine();
    let of = |hardware: &Hardware, way, memory| {
        seat(hardware, Road { way, memory })
            .map(|seat| (seat.path, seat.rate.get() / 1_000_000_000))
    };
    let said = |path: &str, rate| Some((path.to_owned(), rate));
    let (pinned, pageable) = (HostMemory::Pinned, HostMemory::Pageable);
    assert_eq!(of(&hardware, Way::ToDevice, pinned), said("links.pcie.read", 26));
    assert_eq!(of(&hardware, Way::FromDevice, pinned), said("links.pcie.write", 26));
    assert_eq!(of(&hardware, Way::ToDevice, pageable), said("links.pcie.pageable.read", 20));
    assert_eq!(of(&hardware, Way::FromDevice, pageable), said("links.pcie.pageable.write", 10));
    assert_eq!(of(&hardware, Way::Between, HostMemory::Unsaid), None);
    hardware.links[0].pageable = None;
    assert_eq!(of(&hardware, Way::ToDevice, pageable), said("links.pcie.read", 26));
    hardware.compute = None;
    assert_eq!(of(&hardware, Way::Within, HostMemory::Unsaid), None);
}

#[test]
fn copies_between_devices_tell_both_directions_of_the_link_that_is_for_them() {
    let mut hardware = machine();
    let dram = hardware.tiers[1].clone();
    hardware.tiers.push(Tier { name: "peer".to_owned(), kind: TierKind::Remote, ..dram });
    let law_of = Service { setup: Span::from_us(2), rate: Bandwidth::gb_per_s(300) };
    let mut link = Link::new("nvlink", (TierId(0), TierId(2)), [law_of; 2]);
    link.kind = Some(tiersim_models::nodes::LinkKind::Nvlink { generation: 4 });
    hardware.links.push(link);
    let fact = hardware.facts[1].clone();
    hardware
        .facts
        .all()
        .push(tiersim_models::hardware::Fact { path: "links.nvlink.read".to_owned(), ..fact });
    let copies = law("Memcpy PtoP (Device -> Device)", (4_000.0, 250.0), &sizes(14, 28), 3, 0.0);
    let made = made(&copies, &hardware);
    assert_eq!(rate(&made, "links.nvlink.read"), Some(250.0));
    assert_eq!(rate(&made, "links.nvlink.write"), Some(250.0));
    assert_eq!(told(&made, "links.nvlink.setup"), Some(Value::Time(Span::from_us(4))));
    assert_eq!(rate(&made, "links.pcie.read"), None);
}

#[test]
fn sizes_and_times_at_the_ends_of_their_range_end_in_words() {
    let most = i64::MAX as u64;
    for copies in [
        vec![(PINNED, most, 1_000_000); 20],
        vec![(PINNED, most, most); 20],
        vec![(PINNED, 1, most); 20],
        (0..20).map(|power| (WITHIN, 1 << (3 * power), most >> power)).collect(),
    ] {
        let shown = one(&copies);
        assert_eq!(shown.copies, 20);
        assert!(!unlike(&machine(), &trace(&copies), "t.json").is_empty() || shown.law.is_err());
        let hardware = machine();
        let base = Base { hardware: &hardware, another: false };
        let words = ["t.json", "mine", "", "2026-01-31"];
        drop(from_trace((&trace(&copies), &Profile::default()), base, words));
    }
}
