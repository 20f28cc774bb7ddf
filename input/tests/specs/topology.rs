//! Nodes, kinds of links, routes, sets of drives and the traffic of others in hardware files.

use crate::specs::hardware::{good, read, shipped_hardware};
use tiersim_models::hardware::HBM;
use tiersim_models::ids::NodeId;
use tiersim_models::nodes::{LinkKind, NodeKind};
use tiersim_models::units::{Bandwidth, Bytes};

/// A GPU and a set of drives behind a switch, DRAM at a socket.
const HOST: &str = r#"Hardware(
    schema: 2,
    about: "a host",
    tiers: [
        (name: "hbm", kind: hbm, setup: (ns(400), assumed("a")), bandwidth: (gb_per_s(1750), assumed("a"))),
        (name: "dram", kind: dram, setup: (us(1), assumed("a")), bandwidth: (gb_per_s(25), assumed("a"))),
        (name: "nvme", kind: nvme, capacity: (tb(2), assumed("a")), setup: (us(70), assumed("a")), bandwidth: (gb_per_s(3), assumed("a"))),
    ],
    nodes: [(name: "switch", kind: pcie_switch), (name: "socket", kind: socket)],
    links: [
        (name: "slot", near: "hbm", far: "switch", kind: pcie(gen: 5, width: 16), setup: (us(3), assumed("a")), read: (gb_per_s(50), assumed("a")), write: (gb_per_s(50), assumed("a"))),
        (name: "up", near: "socket", far: "switch", setup: (us(0), assumed("a")), read: (gb_per_s(50), assumed("a")), write: (gb_per_s(50), assumed("a")), service: fair_share, background: (write: (gb_per_s(9), assumed("a")))),
        (name: "bus", near: "socket", far: "dram", kind: memory_bus, setup: (us(0), assumed("a")), read: (gb_per_s(200), assumed("a")), write: (gb_per_s(200), assumed("a"))),
        (name: "drives", near: "switch", far: "nvme", setup: (us(70), assumed("a")), read: (gb_per_s(3), assumed("a")), write: (gb_per_s(2), assumed("a")), raid0: (drives: (drives(4), assumed("a")), stripe: (kib(128), assumed("a")))),
    ],
    routes: [(from: "nvme", to: "hbm", via: ["socket", "dram"])],
)"#;

#[test]
fn a_host_means_what_its_file_says() {
    let host = good(HOST);
    let kinds: Vec<NodeKind> = host.nodes.iter().map(|node| node.kind).collect();
    assert_eq!(kinds, [NodeKind::PcieSwitch, NodeKind::Socket]);
    assert_eq!((host.links[1].near, host.links[1].far), (NodeId(4), NodeId(3)));
    assert_eq!(host.links[0].kind, Some(LinkKind::Pcie { generation: 5, width: 16 }));
    assert_eq!(host.links[2].kind, Some(LinkKind::MemoryBus));
    assert_eq!(host.links[1].background, [None, Some(Bandwidth::gb_per_s(9))]);
    let routes = host.routes().unwrap();
    let drives = host.tier("nvme").unwrap();
    let channels = routes.between(drives, HBM).iter();
    let names: Vec<String> = channels.map(|channel| host.channel_name(*channel)).collect();
    let way = ["nvme->switch", "switch->socket", "socket->dram", "dram->socket"];
    assert_eq!(names[..4], way);
}

#[test]
fn numbers_of_a_set_are_written_for_one_drive() {
    let host = read(HOST).unwrap();
    let tier = &host.tiers[2];
    assert_eq!(
        (tier.capacity, tier.access.rate),
        (Bytes::new(8_000_000_000_000).into(), Bandwidth::gb_per_s(12))
    );
    let link = &host.links[3];
    assert_eq!(
        [link.read.rate, link.write.rate],
        [Bandwidth::gb_per_s(12), Bandwidth::gb_per_s(8)]
    );
    assert!(host.facts.iter().any(|fact| fact.path == "links.drives.raid0.drives"));
}

#[test]
fn every_kind_of_node_and_link_is_read() {
    for kind in NodeKind::ALL {
        let host = good(&HOST.replace("kind: socket", &format!("kind: {}", kind.word())));
        assert_eq!(host.nodes[1].kind, kind);
    }
    for kind in [
        "pcie(gen: 7, width: 1)",
        "cxl(gen: 2, width: 8)",
        "nvlink(gen: 4)",
        "nvlink_c2c",
        "upi",
        "xgmi",
        "infinity_fabric",
        "network",
    ] {
        let host = good(&HOST.replace("memory_bus", kind));
        assert_eq!(host.links[2].kind.map(|kind| kind.to_string()).as_deref(), Some(kind));
    }
}

#[test]
fn each_direction_may_have_a_route() {
    let route = "(from: \"nvme\", to: \"hbm\", via: [\"socket\", \"dram\"])";
    let both = format!("{route}, (from: \"hbm\", to: \"nvme\", via: [\"switch\"])");
    let host = good(&HOST.replace(route, &both));
    let routes = host.routes().unwrap();
    let drives = host.tier("nvme").unwrap();
    assert_eq!(routes.between(HBM, drives).len(), 2);
    assert_eq!(routes.between(drives, HBM).len(), 6);
}

#[test]
fn expanders_are_reached_in_one_flow_that_leaves_dram_alone() {
    for name in ["cxl2-x8-direct", "cxl2-x16-direct", "cxl2-switched-220ns", "cxl2-switched-750ns"]
    {
        let machine = shipped_hardware(name);
        let (routes, tier) = (machine.routes().unwrap(), |name| machine.tier(name).unwrap());
        let hops = |from, to| -> Vec<Vec<String>> {
            let name = |channel: &_| machine.channel_name(*channel);
            routes.hops(from, to).map(|hop| hop.iter().map(name).collect()).collect()
        };
        let direct = vec!["cxl->root", "root->hbm"];
        let switched = vec!["cxl->switch", "switch->root", "root->hbm"];
        let way = if machine.node("switch").is_some() { switched } else { direct };
        assert_eq!(hops(tier("cxl"), HBM), [way], "{name}");
        assert_eq!(hops(HBM, tier("dram")), [["hbm->root", "root->dram"]], "{name}");
        let bounced = [["nvme->root", "root->dram"], ["dram->root", "root->hbm"]];
        assert_eq!(hops(tier("nvme"), HBM), bounced, "{name}");
    }
}
