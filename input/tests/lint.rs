//! Every rule with the least machine that trips it, and one at the limit that does not.

use crate::specs::hardware::read;
use tiersim_models::hardware::Hardware;
use tiersim_models::lint::{assumed_note, lint_hardware};
use tiersim_models::units::Bandwidth;

/// A machine of HBM, one more tier and a link between them.
fn machine(kind: &str, tier: &str, link: &str) -> Hardware {
    let text = format!(
        r#"Hardware(schema: 2, about: "a", tiers: [
        (name: "hbm", kind: hbm, setup: (us(1), assumed("a")), bandwidth: (gb_per_s(100), assumed("a"))),
        (name: "far", kind: {kind}, {tier}),
    ], links: [(name: "bus", near: "hbm", far: "far", {link})], chunk: mib(1))"#
    );
    read(&text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn far(setup: &str, rate: &str) -> String {
    format!("setup: ({setup}, assumed(\"a\")), bandwidth: ({rate}, assumed(\"a\"))")
}

fn bus(setup: &str, rate: &str, more: &str) -> String {
    format!(
        "setup: ({setup}, assumed(\"a\")), read: ({rate}, assumed(\"a\")), \
         write: ({rate}, assumed(\"a\")), {more}"
    )
}

/// The rules that a machine trips, with their places.
fn tripped(hardware: &Hardware) -> Vec<(&'static str, String)> {
    let warnings = lint_hardware(hardware);
    for warning in &warnings {
        assert!(
            !warning.reason.is_empty() && !warning.remedy.is_empty() && !warning.found.is_empty()
        );
    }
    warnings.into_iter().map(|warning| (warning.rule, warning.place)).collect()
}

fn one(rule: &'static str, place: &str) -> Vec<(&'static str, String)> {
    vec![(rule, place.to_owned())]
}

#[test]
fn use_in_place_is_no_faster_than_its_link() {
    let at = |rate| machine("dram", &far("us(1)", rate), &bus("us(1)", "gb_per_s(50)", ""));
    assert_eq!(tripped(&at("gb_per_s(50)")), []);
    let rule = one("link-faster-than-bus", "tiers.far.bandwidth");
    assert_eq!(tripped(&at("gb_per_s(50.000000001)")), rule);
}

#[test]
fn a_tier_is_no_faster_than_the_one_before_it() {
    let link = bus("us(1)", "gb_per_s(200)", "");
    let at = |setup, rate| tripped(&machine("dram", &far(setup, rate), &link));
    assert_eq!(at("us(1)", "gb_per_s(100)"), []);
    let rule = "tier-faster-than-nearer";
    assert_eq!(at("us(1)", "gb_per_s(100.000000001)"), one(rule, "tiers.far.bandwidth"));
    assert_eq!(at("ns(999.999)", "gb_per_s(100)"), one(rule, "tiers.far.setup"));
}

#[test]
fn capacities_are_in_the_units_of_what_is_sold() {
    let at = |kind, size: &str| {
        let tier = far("us(1)", "gb_per_s(1)") + &format!(", capacity: ({size}, assumed(\"a\"))");
        tripped(&machine(kind, &tier, &bus("us(1)", "gb_per_s(50)", "")))
    };
    let rule = one("gb-for-gib", "tiers.far.capacity");
    for (kind, size) in [
        ("dram", "gb(512)"),
        ("dram", "gb( 96.0 )"),
        ("dram", "tb(2)"),
        ("cxl", "gb(128)"),
        ("nvme", "tib(3.84)"),
        ("nvme", "gib(960)"),
    ] {
        assert_eq!(at(kind, size), rule, "{kind} {size}");
    }
    for (kind, size) in [
        ("dram", "gib(512)"),
        ("dram", "gb(511)"),
        ("dram", "gb(549.755813888)"),
        ("hbm", "gb(80)"),
        ("hbm", "gb(141)"),
        ("nvme", "tb(3.84)"),
        ("nvme", "tib(3.5)"),
        ("remote", "gb(512)"),
    ] {
        assert_eq!(at(kind, size), [], "{kind} {size}");
    }
}

#[test]
fn a_depth_covers_the_latency() {
    // 1 MiB in 1 us is 1048.576 GB/s; the tier behind may be slower than its link.
    let with = |kind, rate, channels| {
        let link =
            bus("us(100)", rate, &format!("max_in_flight: (copies({channels}), assumed(\"a\"))"));
        tripped(&machine(kind, &far("us(1)", "gb_per_s(1)"), &link))
    };
    let rule = "depth-cannot-reach-rate";
    // Two chunks in 100 us: exactly 20.97152 GB/s.
    assert_eq!(with("nvme", "gb_per_s(20.971520000)", 2), []);
    let twice = [
        (rule, "links.bus.max_in_flight".to_owned()),
        (rule, "links.bus.max_in_flight".to_owned()),
    ];
    assert_eq!(with("nvme", "gb_per_s(20.971520001)", 2), twice);
    assert_eq!(with("remote", "gb_per_s(20.971520001)", 2), twice);
    assert_eq!(with("nvme", "gb_per_s(20.971520001)", 3), []);
    assert_eq!(with("dram", "gb_per_s(20.971520001)", 2), []);
    let ramp = |last| {
        let more = format!(
            "service: fair_share, read_depths: (points: [(copies(1), gb_per_s(1)), \
             (copies(8), {last})], source: assumed(\"a\"))"
        );
        let link = bus("us(100)", "gb_per_s(10)", &more);
        tripped(&machine("nvme", &far("us(1)", "gb_per_s(1)"), &link))
    };
    assert_eq!(ramp("gb_per_s(10)"), []);
    assert_eq!(ramp("gb_per_s(9.999999999)"), one(rule, "links.bus.read_depths"));
}

#[test]
fn a_total_can_bind() {
    let with = |total: &str| {
        let more = format!("service: fair_share, total: ({total}, assumed(\"a\"))");
        machine("dram", &far("us(1)", "gb_per_s(1)"), &bus("us(1)", "gb_per_s(50)", &more))
    };
    let rule = one("both-ways-above-sum", "links.bus.total");
    assert_eq!(tripped(&with("gb_per_s(100)")), []);
    assert_eq!(tripped(&with("gb_per_s(100.000000001)")), rule);
    // The reader refuses this one; a machine may come from elsewhere.
    let mut low = with("gb_per_s(50)");
    assert_eq!(tripped(&low), []);
    low.links[0].write.rate = Bandwidth::new(50_000_000_001).expect("above zero");
    assert_eq!(tripped(&low), rule);
}

/// Copies of this machine use pageable memory or not; the wire is the same.
fn with_pageable(tier: &str, used: bool, pageable: &str, more: &str) -> Hardware {
    let buffers = if used { "pageable" } else { "pinned" };
    let more = format!(
        "buffers: {buffers}, pageable: (read: ({pageable}, assumed(\"a\")), \
         write: (gb_per_s(5), assumed(\"a\"))), {more}"
    );
    machine("dram", tier, &bus("us(1)", "gb_per_s(50)", &more))
}

#[test]
fn the_wire_is_judged_by_pinned_memory_whatever_copies_use() {
    for used in [false, true] {
        let at = |rate| tripped(&with_pageable(&far("us(1)", rate), used, "gb_per_s(5)", ""));
        assert_eq!(at("gb_per_s(50)"), [], "{used}");
        let rule = one("link-faster-than-bus", "tiers.far.bandwidth");
        assert_eq!(at("gb_per_s(50.000000001)"), rule, "{used}");

        let at = |total: &str| {
            let more = format!("service: fair_share, total: ({total}, assumed(\"a\"))");
            let tier = far("us(1)", "gb_per_s(1)");
            tripped(&with_pageable(&tier, used, "gb_per_s(5)", &more))
        };
        assert_eq!(at("gb_per_s(100)"), [], "{used}");
        let rule = one("both-ways-above-sum", "links.bus.total");
        assert_eq!(at("gb_per_s(100.000000001)"), rule, "{used}");
    }
}

#[test]
fn pageable_memory_is_no_faster_than_pinned() {
    for used in [false, true] {
        let tier = far("us(1)", "gb_per_s(1)");
        let at = |rate| tripped(&with_pageable(&tier, used, rate, ""));
        assert_eq!(at("mb_per_s(50000)"), [], "{used}");
        let rule = one("pageable-faster-than-pinned", "links.bus.pageable.read");
        assert_eq!(at("gb_per_s(50.000000001)"), rule, "{used}");
    }
}

#[test]
fn no_link_is_faster_than_its_standard() {
    let at = |kind: &str, rate: &str| {
        let more = format!("kind: {kind}");
        let mut all =
            tripped(&machine("dram", &far("us(1)", "gb_per_s(1)"), &bus("us(1)", rate, &more)));
        // The memory behind it is slow, which is another rule's business.
        all.retain(|(rule, _)| *rule == "faster-than-standard");
        all
    };
    // 32 GT/s x 16 x 128/130 / 8, rounded up.
    assert_eq!(at("pcie(gen: 5, width: 16)", "gb_per_s(63.015384616)"), []);
    let rule = |way: &str| ("faster-than-standard", format!("links.bus.{way}"));
    let both = [rule("read"), rule("write")];
    assert_eq!(at("pcie(gen: 5, width: 16)", "gb_per_s(63.015384617)"), both);
    assert_eq!(at("cxl(gen: 3, width: 8)", "gb_per_s(64)"), []);
    assert_eq!(at("cxl(gen: 3, width: 8)", "gb_per_s(64.000000001)"), both);
    assert_eq!(at("nvlink(gen: 1)", "gb_per_s(9000)"), []);
    // A set of drives has one bus for each.
    let set = |rate: &str| {
        let drives =
            "raid0: (drives: (drives(4), assumed(\"a\")), stripe: (kib(4), assumed(\"a\")))";
        let more = format!("kind: pcie(gen: 5, width: 16), {drives}");
        tripped(&machine("nvme", &far("us(1)", "gb_per_s(1)"), &bus("us(1)", rate, &more)))
    };
    assert_eq!(set("gb_per_s(63.015384615)"), []);
    assert_eq!(set("gb_per_s(63.015384617)"), both);
}

#[test]
fn assumed_numbers_are_a_note() {
    let all = machine("dram", &far("us(1)", "gb_per_s(1)"), &bus("us(1)", "gb_per_s(50)", ""));
    let note = assumed_note(&all).expect("all are assumed");
    assert_eq!(note, "assumed: 7 of 7 numbers of m are assumed");
    assert_eq!(assumed_note(&Hardware { facts: Default::default(), ..all }), None);
}
