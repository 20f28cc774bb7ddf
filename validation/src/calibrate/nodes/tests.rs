//! Planted hosts: what their files say, what a made-up measurement says, and what a copy then pays.

use super::*;
use crate::calibrate::nodes::bench::{Bound, pairs};
use crate::calibrate::nodes::topology::{Numa, read};
use crate::calibrate::skeleton;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_models::results::calibration::HostDevice;

const LINK: Law = Law { setup: Span::from_us(10), rate: Bandwidth::gb_per_s(25) };

/// What calibration knows of a device: HBM, DRAM and a drive.
fn calibrated() -> Hardware {
    let mut hardware = skeleton::of(&[1 << 34; 3], &["bus", "drive"], Bytes::mib(1));
    hardware.name = "planted".to_owned();
    for tier in &mut hardware.tiers {
        tier.access = Law { setup: Span::from_us(1), rate: Bandwidth::gb_per_s(30) };
        for field in ["capacity", "setup", "bandwidth"] {
            let path = format!("tiers.{}.{field}", tier.name);
            let fact = Fact::new(path, String::new(), Source::Measured("before".to_owned()));
            hardware.facts.all().push(fact);
        }
    }
    for link in &mut hardware.links {
        (link.read, link.write) = (LINK, LINK);
    }
    hardware
}

fn write(root: &Path, file: &str, text: &str) {
    let file = root.join("sys").join(file);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder of the test");
    fs::write(file, text).expect("a file of the test");
}

/// Two sockets, an expander at the second, and a GPU at the second; a console that is none.
fn planted(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("tiersim-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    for (id, cores, kib, distances) in [
        (0, "0-3", 64 << 20, "10 21 31"),
        (1, "4-7", 32 << 20, "21 10 14"),
        (2, "", 128 << 20, "31 14 10"),
    ] {
        let node = format!("devices/system/node/node{id}");
        write(&root, &format!("{node}/cpulist"), &format!("{cores}\n"));
        let text = format!("Node {id} MemTotal:  {kib} kB\nNode {id} MemFree: 1 kB\n");
        write(&root, &format!("{node}/meminfo"), &text);
        write(&root, &format!("{node}/distance"), &format!("{distances}\n"));
    }
    let near = "devices/system/node/node2/access0/initiators";
    for (name, value) in
        [("read_latency", "250"), ("read_bandwidth", "30000"), ("write_bandwidth", "28000")]
    {
        write(&root, &format!("{near}/{name}"), value);
    }
    write(&root, &format!("{near}/node1/id"), "");
    for (address, class, vendor, node) in [
        ("0000:03:00.0", "0x030000", "0x1a03", "0"),
        ("0000:81:00.0", "0x030200", "0x10de", "1"),
        ("0000:82:00.0", "0x020000", "0x15b3", "1"),
    ] {
        let device = format!("bus/pci/devices/{address}");
        write(&root, &format!("{device}/class"), class);
        write(&root, &format!("{device}/vendor"), vendor);
        write(&root, &format!("{device}/device"), "0x2330");
        write(&root, &format!("{device}/numa_node"), node);
    }
    root
}

/// A host whose pairs take what the distance says, and whose node 2 cannot be bound.
struct Scripted;

impl Bound for Scripted {
    fn pair(
        &mut self,
        cores: &[u32],
        memory: u32,
        _: usize,
        repeats: usize,
    ) -> Result<[Vec<f64>; 3], String> {
        let own = cores.contains(&(4 * memory));
        let (reads, writes, latency) =
            if own { (200e9, 100e9, 100e-9) } else { (60e9, 40e9, 180e-9) };
        // One disturbed repeat, which a median forgives.
        let mut latencies = vec![latency; repeats];
        latencies[0] = 1e-3;
        match memory {
            2 => Err("not kept".to_owned()),
            _ => Ok([vec![reads; repeats], vec![writes; repeats], latencies]),
        }
    }
}

fn time(hardware: &Hardware, from: &str, bytes: u64) -> Span {
    let tier = hardware.tier(from).expect("a tier");
    let routes = hardware.routes().expect("every tier leads to the device");
    let laws = routes.between(tier, HBM).iter().map(|channel| hardware.channel_law(*channel));
    let laws: Vec<Law> = laws.collect();
    let setup: Span = laws.iter().map(|law| law.setup).sum();
    let rate = laws.iter().map(|law| law.rate).min().expect("a way");
    setup + rate.span_of(bytes)
}

#[test]
fn a_planted_host_is_read_as_it_stands() {
    let root = planted("read");
    let read = read(&root).expect("a good copy");
    let node = |id, cores: &[u32], gib, distances: [u32; 3]| Numa {
        id,
        cores: cores.to_vec(),
        memory: Bytes::gib(gib),
        distances: distances.to_vec(),
        firmware: None,
    };
    assert_eq!(read.nodes[0], node(0, &[0, 1, 2, 3], 64, [10, 21, 31]));
    assert_eq!(read.nodes[1], node(1, &[4, 5, 6, 7], 32, [21, 10, 14]));
    let firmware = read.nodes[2].firmware.as_ref().expect("a row of the table");
    assert_eq!((firmware.from.as_slice(), firmware.latency), (&[1][..], Span::from_ns(250)));
    assert_eq!(firmware.rates.map(Bandwidth::get), [30_000_000_000, 28_000_000_000]);
    let gpu = HostDevice {
        address: "0000:81:00.0".to_owned(),
        what: "10de:2330".to_owned(),
        node: Some(1),
    };
    assert_eq!(read.devices, [gpu], "neither a console nor a network adapter");
    assert_eq!((read.near(None), read.near(Some("0000:81:00.0"))), (Some(1), Some(1)));
    fs::remove_dir_all(root).expect("the test's own");
}

#[test]
fn files_that_say_something_else_are_problems_with_their_path() {
    let root = planted("wrong");
    for (file, text, like) in [
        ("node0/cpulist", "0-", "0-3,8"),
        ("node1/meminfo", "nothing", "MemTotal"),
        ("node1/distance", "10 x 3", "10 21"),
        ("node1/distance", "21 10", "2 distances, and there are 3 nodes"),
        ("node2/access0/initiators/read_latency", "slow", "90"),
    ] {
        let path = root.join("sys/devices/system/node").join(file);
        let before = fs::read(&path).expect("there");
        fs::write(&path, text).expect("the test's own");
        let problem = read(&root).expect_err(file);
        assert!(problem.contains(&path.display().to_string()), "{problem}");
        assert!(problem.contains(like), "{problem}");
        fs::write(&path, before).expect("the test's own");
    }
    assert!(read(&root).is_ok());
    fs::remove_dir_all(root).expect("the test's own");
}

#[test]
fn a_far_node_is_found_by_measuring_and_a_copy_pays_for_it() {
    let root = planted("measured");
    let topology = read(&root).expect("a good copy");
    fs::remove_dir_all(root).expect("the test's own");
    let (pairs, refused) = pairs(&topology, &mut Scripted, 1 << 20);
    assert_eq!((pairs.len(), refused.len()), (4, 2), "{refused:?}");
    assert!(refused[0].contains("memory of node 2 was not measured from node 0: not kept"));
    let made = machine_of_nodes(&calibrated(), &topology, &pairs, Some("0000:81:00.0"));
    let (hardware, notes) = made.expect("three nodes");
    let tiers: Vec<&str> = hardware.tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(tiers, ["hbm", "dram", "nvme", "cxl-node2", "dram-node0"], "by distance");
    assert_eq!(notes, ["node 2 has memory and no cores: taken for an expander at node 1"]);

    let bytes = 25_000_000;
    // The near node's copies take what was calibrated, the far one's 80 ns more.
    assert_eq!(time(&hardware, "dram", bytes), LINK.span_of(Bytes::new(bytes)));
    let far = LINK.span_of(Bytes::new(bytes)) + Span::from_ns(80);
    assert_eq!(time(&hardware, "dram-node0", bytes), far);
    // The expander by the firmware's table: 250 ns less the 100 ns of the own memory.
    let expander = LINK.span_of(Bytes::new(bytes)) + Span::from_ns(150);
    assert_eq!(time(&hardware, "cxl-node2", bytes), expander);
    let between = hardware.links.iter().find(|link| link.name == "between1-0").expect("a link");
    assert_eq!([between.read, between.write].map(|l| l.rate.get() / 1_000_000), [60_000, 40_000]);
    let access = |tier: &str| hardware.tiers[hardware.tier(tier).expect("it").index()].access;
    assert_eq!(access("dram"), Law { setup: Span::from_us(1), rate: Bandwidth::gb_per_s(30) });
    assert_eq!(access("dram-node0").setup, Span::from_us(1) + Span::from_ns(80));
    assert_eq!(access("cxl-node2").setup, Span::from_us(1) + Span::from_ns(150));

    let source = |path: &str| {
        let fact = hardware.facts.iter().find(|fact| fact.path == path).expect(path);
        (fact.source.confidence().word(), fact.source.text().to_owned())
    };
    let (word, text) = source("links.between1-0.read");
    assert!(word == "measured" && text.contains("4 cores of node 1 on memory of node 0"), "{text}");
    assert_eq!(source("links.expander2.read").0, "datasheet");
    assert_eq!(source("tiers.cxl-node2.setup").0, "datasheet");
    let mut paths: Vec<&str> = hardware.facts.iter().map(|fact| fact.path.as_str()).collect();
    let count = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), count, "no number has two sources");
}

#[test]
fn what_nobody_measured_follows_from_distances_and_is_assumed() {
    let root = planted("assumed");
    let topology = read(&root).expect("a good copy");
    fs::remove_dir_all(root).expect("the test's own");
    let (hardware, _) = machine_of_nodes(&calibrated(), &topology, &[], None).expect("nodes");
    let between = hardware.links.iter().find(|link| link.name == "between1-0").expect("a link");
    // 100 ns x 21 / 10 less 100 ns, and 30 GB/s x 10 / 21.
    assert_eq!(between.read.setup, Span::from_ns(110));
    assert_eq!(between.read.rate.get(), 30_000_000_000 * 10 / 21);
    let fact = hardware.facts.iter().find(|fact| fact.path == "links.between1-0.read");
    let source = &fact.expect("a source").source;
    assert_eq!(source.confidence().word(), "assumed");
    assert!(source.text().contains("distance 21 from node 1 to node 0"), "{}", source.text());
}

#[test]
fn a_host_with_one_node_has_no_machine_of_nodes() {
    let topology = Topology {
        nodes: vec![Numa {
            id: 0,
            cores: vec![0],
            memory: Bytes::gib(1),
            distances: vec![10],
            firmware: None,
        }],
        devices: Vec::new(),
    };
    assert!(machine_of_nodes(&calibrated(), &topology, &[], None).is_none());
    assert!(machine_of_nodes(&calibrated(), &Topology::default(), &[], None).is_none());
}

#[test]
fn more_nodes_than_tiers_leave_out_the_furthest_and_say_so() {
    let node = |id: u32| Numa {
        id,
        cores: vec![id],
        memory: Bytes::gib(8),
        distances: (0..8)
            .map(|other| if other == id { 10 } else { 11 + other.abs_diff(id) })
            .collect(),
        firmware: None,
    };
    let topology = Topology { nodes: (0..8).map(node).collect(), devices: Vec::new() };
    let (hardware, notes) =
        machine_of_nodes(&calibrated(), &topology, &[], None).expect("eight nodes");
    assert_eq!(hardware.tiers.len(), MAX_TIERS);
    assert_eq!(notes, ["memory of nodes 6, 7 is left out: a machine has 8 tiers"]);
    assert!(hardware.routes().is_ok());
}
