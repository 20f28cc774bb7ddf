//! How links serve and tiers slow down under load: what may be written.

use crate::specs::hardware::{TWO, good, read};
use tiersim_models::hardware::Hardware;
use tiersim_models::service::Discipline;
use tiersim_models::units::{Bandwidth, Bytes, Span};

/// A machine whose link says more of itself.
fn text(fields: &str) -> String {
    let evict = "write: (mb_per_s(25900), measured(\"m\"))";
    TWO.replacen(evict, &format!("{evict}, {fields}"), 1)
}

fn with(fields: &str) -> Hardware {
    good(&text(fields))
}

const SOURCE: &str = "source: measured(\"m\")";

#[test]
fn a_link_may_say_how_it_serves() {
    assert_eq!(read(TWO).unwrap().links[0].service, None);
    // What is the default anyway is no service.
    assert_eq!(with("service: fifo").links[0].service, None);
    let machine = with(
        "service: fair_share, max_in_flight: (copies(2), datasheet(\"d\")), total: (gb_per_s(37), measured(\"m\"))",
    );
    let service = machine.links[0].service.as_ref().expect("it has one");
    assert_eq!((service.discipline, service.at_once()), (Discipline::FairShare, 2));
    assert_eq!(service.total, Bandwidth::new(37_000_000_000));
    let facts: Vec<&str> = machine.facts.iter().map(|fact| fact.path.as_str()).collect();
    assert!(facts.contains(&"links.pcie.max_in_flight") && facts.contains(&"links.pcie.total"));
}

#[test]
fn a_link_may_have_a_table_of_sizes() {
    let sizes = |points: &str| with(&format!("read_sizes: (points: [{points}], {SOURCE})"));
    let machine = sizes("(kib(4), gb_per_s(1)), (mib(1), gb_per_s(20))");
    let fetch = &machine.links[0].service.as_ref().expect("it has one").read;
    let law = machine.links[0].read;
    let time = |bytes: u64| law.setup + fetch.sized(Bytes::new(bytes)).expect("a table");
    assert_eq!((time(4096).ps(), time(1)), (3_400_000 + 4_096_000, time(4096)));
    let fact = machine.facts.iter().find(|fact| fact.path == "links.pcie.read_sizes");
    assert_eq!(fact.unwrap().value, "[(kib(4), gb_per_s(1)), (mib(1), gb_per_s(20))]");
}

#[test]
fn a_link_may_have_a_ramp_of_depths() {
    let depths = |points: &str| {
        with(&format!("service: fair_share, write_depths: (points: [{points}], {SOURCE})"))
    };
    let machine = depths("(copies(1), gb_per_s(2)), (copies(8), gb_per_s(9))");
    assert_eq!(machine.links[0].service.as_ref().unwrap().write.depths.len(), 2);
}

#[test]
fn a_link_may_have_a_tail_and_a_write_cache() {
    let tail = |p50: &str, p99: &str| {
        with(&format!("read_tail: (p50: ({p50}, measured(\"m\")), p99: ({p99}, measured(\"m\")))"))
    };
    let machine = tail("us(68)", "us(82)");
    let drawn = machine.links[0].service.as_ref().unwrap().read.tail.unwrap();
    assert_eq!((drawn.p50, drawn.p99), (Span::from_us(68), Span::from_us(82)));
    let cache = |more: &str, drain: &str| {
        let size = "size: (gb(20), measured(\"m\"))";
        with(&format!("{more}write_cache: ({size}, drain: ({drain}, measured(\"m\")))"))
    };
    assert!(cache("", "gb_per_s(1)").links[0].service.is_some());
}

#[test]
fn a_link_may_use_pageable_memory() {
    let pageable =
        "pageable: (read: (gb_per_s(10), measured(\"m\")), write: (gb_per_s(9), measured(\"m\")))";
    let rates = |machine: &Hardware| [machine.links[0].read.rate, machine.links[0].write.rate];
    let pinned = rates(&with(pageable));
    assert_eq!(pinned, [26_000_000_000, 25_900_000_000].map(|rate| Bandwidth::new(rate).unwrap()));
    let machine = read(&text(&format!("buffers: pageable, {pageable}"))).unwrap();
    assert_eq!(rates(&machine), [10, 9].map(Bandwidth::gb_per_s));
}

#[test]
fn a_tier_may_have_curves_of_latency_under_load() {
    let with = |curves: &str| {
        let rate = "bandwidth: (gib_per_s(25), announced(\"n\"))";
        assert!(TWO.contains(rate));
        good(&TWO.replacen(rate, &format!("{rate}, loaded: [{curves}]"), 1))
    };
    let curve = |reads: &str, points: &str| {
        format!("(reads: {reads}, points: [{points}], source: measured(\"m\")), ")
    };
    let rising = "(gb_per_s(1), ns(100)), (gb_per_s(20), ns(300))";
    let machine = with(&(curve("0.5", rising) + &curve("1", rising)));
    let loaded = machine.tiers[1].loaded.as_ref().expect("it has curves");
    assert_eq!((loaded.curves[0].reads, loaded.curves[1].reads), (50, 100));
    assert_eq!(loaded.rise(20_000_000_000, 0), Span::from_ns(200));
    assert!(machine.facts.iter().any(|fact| fact.path == "tiers.dram.loaded.1"));
    assert_eq!(machine.tiers[0].loaded, None);
}
