//! Several devices of a server in hardware files: what is read.

use crate::specs::hardware::{good, read};
use tiersim_models::ids::{LinkId, NodeId, TierId};
use tiersim_models::instances::Instances;

/// Eight devices with four PCIe switches, two nodes of memory and a switch between the devices.
const SERVER: &str = r#"Hardware(
    schema: 2,
    about: "a server",
    tiers: [
        (name: "hbm", kind: hbm, setup: (ns(400), assumed("a")), bandwidth: (gb_per_s(1750), assumed("a"))),
        (name: "dram", kind: dram, capacity: (tb(1), assumed("a")), setup: (us(1), assumed("a")), bandwidth: (gb_per_s(200), assumed("a")), devices: 4),
        (name: "nvme", kind: nvme, setup: (us(70), assumed("a")), bandwidth: (gb_per_s(3), assumed("a")), devices: 8),
    ],
    nodes: [(name: "nvswitch", kind: nvlink_switch), (name: "pcie-switch", kind: pcie_switch), (name: "network", kind: network_switch)],
    links: [
        (name: "nvlink", near: "hbm", far: "nvswitch", kind: nvlink(gen: 3), setup: (us(2), assumed("a")), read: (gb_per_s(250), assumed("a")), write: (gb_per_s(250), assumed("a")), service: fair_share),
        (name: "slot", near: "hbm", far: "pcie-switch", setup: (us(3), assumed("a")), read: (gb_per_s(25), assumed("a")), write: (gb_per_s(25), assumed("a")), service: fair_share),
        (name: "up", near: "pcie-switch", far: "dram", devices: 2, setup: (us(1), assumed("a")), read: (gb_per_s(25), assumed("a")), write: (gb_per_s(25), assumed("a")), service: fair_share),
        (name: "nic", near: "pcie-switch", far: "network", devices: 2, setup: (us(5), assumed("a")), read: (gb_per_s(25), assumed("a")), write: (gb_per_s(25), assumed("a")), service: fair_share),
    ],
    server: (devices: 8, within: "nvswitch", between: "network"),
)"#;

#[test]
fn a_server_means_what_its_file_says() {
    let machine = good(SERVER);
    let server = &machine.server;
    assert_eq!(server.devices, 8);
    assert_eq!((server.within, server.between), (Some(NodeId(3)), Some(NodeId(5))));
    assert_eq!(server.tiers, [(TierId(1), 4), (TierId(2), 8)]);
    // The link that the drive gets by itself is shared as the drive is.
    assert_eq!(server.links, [(LinkId(2), 2), (LinkId(3), 2), (LinkId(4), 8)]);
    let alone =
        SERVER.replace("server: (devices: 8, within: \"nvswitch\", between: \"network\"),", "");
    let alone = alone.replace("devices: 4", "devices: 1").replace("devices: 8", "devices: 1");
    let alone = good(&alone.replace("devices: 2", "devices: 1"));
    assert_eq!(alone.server, Default::default());
    for server in
        ["devices: 8", "devices: 16, within: \"nvswitch\"", "devices: 8, between: \"network\""]
    {
        let all = "devices: 8, within: \"nvswitch\", between: \"network\"";
        good(&SERVER.replace(all, server));
    }
}

#[test]
fn what_devices_share_is_there_once_for_all_of_them() {
    let machine = read(SERVER).unwrap();
    for ranks in [1, 2, 3, 5, 8] {
        let all = Instances::new(&machine, ranks);
        let count = |by: u32| ranks.div_ceil(by) as usize;
        assert_eq!(all.hardware().links.len(), 2 * count(1) + 2 * count(2) + count(8));
        assert_eq!(all.hardware().tiers.len(), count(1) + count(4) + count(8));
        for rank in 0..ranks {
            for channel in machine.channels() {
                let instance = all.channel(channel.index(), rank);
                assert_eq!(all.kind(instance), channel.index());
                assert_eq!(
                    all.is_first(instance),
                    rank / machine.server.sharers_of_link(channel.link) == 0
                );
                let own = &all.hardware().links[instance / 2];
                assert_eq!(own.name, machine.links[channel.link.index()].name);
                // It ends where this device's things are, if it is not shared by more.
                let far = machine.links[channel.link.index()].far;
                match machine.tier_of(far) {
                    Some(tier) => assert_eq!(own.far, NodeId::from(all.tier(tier, rank))),
                    None => assert!(own.far.index() >= all.hardware().tiers.len()),
                }
            }
            for tier in machine.tier_ids() {
                let own = all.tier(tier, rank);
                assert_eq!(all.hardware().tiers[own.index()], machine.tiers[tier.index()]);
                let within = all.channel(2 * machine.links.len() + tier.index(), rank);
                assert_eq!(within, 2 * all.hardware().links.len() + own.index());
            }
        }
    }
    let one = Instances::new(&machine, 1);
    assert_eq!(one.hardware(), &machine);
}
