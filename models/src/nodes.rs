//! Nodes without memory, what links are made of, and routes that a file prescribes.
//!
//! A copy only passes a switch, a socket or a root complex; in a tier it is stored and forwarded.
//! Kinds are for drawing, for the lint and for the choice of routes: they imply no numbers.
//! Invariant: nodes are numbered behind the tiers, so a [`TierId`] is a [`NodeId`] too.

use crate::ids::{NodeId, TierId};
use crate::units::Bandwidth;
use serde::Deserialize;
use std::fmt;

/// Most nodes that one machine may have, its tiers among them.
pub const MAX_NODES: usize = 64;

/// Most links that one machine may have: those of all devices of a server are numbered in 16 bits.
pub const MAX_LINKS: usize = 96;

crate::words! {
    /// What a node without memory is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NodeKind {
        /// A peer device, whose memory is no tier. It forwards nothing by itself.
        Gpu = "gpu",
        /// A CPU socket, or one NUMA node of it.
        Socket = "socket",
        /// The root complex of a host's PCIe.
        RootComplex = "root_complex",
        /// A PCIe switch.
        PcieSwitch = "pcie_switch",
        /// A CXL switch.
        CxlSwitch = "cxl_switch",
        /// A switch of NVLink or of another fabric between devices.
        NvlinkSwitch = "nvlink_switch",
        /// A network adapter.
        Nic = "nic",
        /// A switch of the network.
        NetworkSwitch = "network_switch",
        /// Another host.
        Host = "host",
    }
}

/// A node without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name in hardware files and drawings, such as `socket0`; no tier has the same.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
}

/// What a link is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// PCI Express.
    Pcie {
        /// Generation.
        ///
        /// Values: 1 to 7.
        #[serde(rename = "gen")]
        generation: u8,
        /// Lanes of the bus.
        ///
        /// Values: 1 to 32.
        width: u8,
    },
    /// CXL over PCIe 5 (generations 1 and 2), 6 (3) and 7 (4).
    Cxl {
        /// Generation.
        ///
        /// Values: 1 to 4.
        #[serde(rename = "gen")]
        generation: u8,
        /// Lanes of the bus.
        ///
        /// Values: 1 to 32.
        width: u8,
    },
    /// NVLink between devices.
    Nvlink {
        /// Generation.
        ///
        /// Values: 1 to 6.
        #[serde(rename = "gen")]
        generation: u8,
    },
    /// NVLink between a CPU and a device of one package.
    NvlinkC2c,
    /// Between sockets of one maker.
    Upi,
    /// Between sockets of another maker.
    Xgmi,
    /// Between devices, or chiplets.
    InfinityFabric,
    /// Between memory and its socket.
    MemoryBus,
    /// Between hosts.
    Network,
}

impl LinkKind {
    /// Bytes per second in one direction that the standard allows; `None` where no public standard
    /// fixes it.
    ///
    /// GT/s x lanes x encoding / 8. Source: PCI-SIG, PCI Express Base Specification: 2.5 and 5 GT/s
    /// with 8b/10b (1.x, 2.x), 8 to 32 GT/s with 128b/130b (3.0 to 5.0), 64 and 128 GT/s in flits
    /// without an encoding (6.x, 7.0). CXL runs over PCIe: 1.x and 2.0 over 5.0, 3.x over 6.x, 4.0
    /// over 7.0 (CXL Consortium). Headers and error correction come on top, so less is reached.
    pub fn limit(self) -> Option<Bandwidth> {
        let (pcie, width) = match self {
            LinkKind::Pcie { generation, width } => (generation, width),
            LinkKind::Cxl { generation: 1 | 2, width } => (5, width),
            LinkKind::Cxl { generation, width } => (generation + 3, width),
            _ => return None,
        };
        // Megabit per second and lane.
        let (line, data, coded) = match pcie {
            1 => (2_500, 8, 10),
            2 => (5_000, 8, 10),
            3 => (8_000, 128, 130),
            4 => (16_000, 128, 130),
            5 => (32_000, 128, 130),
            6 => (64_000, 1, 1),
            7 => (128_000, 1, 1),
            _ => return None,
        };
        // Rounded up: a rate at the limit is not above it.
        Bandwidth::new((line * 1_000_000 * u64::from(width) * data).div_ceil(coded * 8))
    }
}

impl fmt::Display for LinkKind {
    /// As hardware files say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkKind::Pcie { generation, width } => {
                write!(f, "pcie(gen: {generation}, width: {width})")
            }
            LinkKind::Cxl { generation, width } => {
                write!(f, "cxl(gen: {generation}, width: {width})")
            }
            LinkKind::Nvlink { generation } => write!(f, "nvlink(gen: {generation})"),
            LinkKind::NvlinkC2c => f.write_str("nvlink_c2c"),
            LinkKind::Upi => f.write_str("upi"),
            LinkKind::Xgmi => f.write_str("xgmi"),
            LinkKind::InfinityFabric => f.write_str("infinity_fabric"),
            LinkKind::MemoryBus => f.write_str("memory_bus"),
            LinkKind::Network => f.write_str("network"),
        }
    }
}

/// A way that the file prescribes for copies between two tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrescribedRoute {
    /// Where the copies start.
    pub from: TierId,
    /// Where they end.
    pub to: TierId,
    /// What they pass, in this order; each stretch between is found.
    pub via: Vec<NodeId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_standards() {
        let pcie = |generation, width| LinkKind::Pcie { generation, width }.limit();
        let cxl = |generation, width| LinkKind::Cxl { generation, width }.limit();
        let mb = |mb: u64| Bandwidth::new(mb * 1_000_000);
        assert_eq!([pcie(1, 1), pcie(2, 16)], [mb(250), mb(8_000)]);
        assert_eq!(pcie(3, 16).map(|rate| rate.get() / 1_000_000), Some(15_753));
        assert_eq!(pcie(5, 16).map(|rate| rate.get() / 1_000_000), Some(63_015));
        assert_eq!([pcie(6, 16), pcie(7, 16)], [mb(128_000), mb(256_000)]);
        assert_eq!([cxl(1, 8), cxl(2, 8), cxl(3, 16)], [pcie(5, 8), pcie(5, 8), mb(128_000)]);
        assert_eq!([pcie(0, 16), pcie(8, 16), cxl(9, 16)], [None, None, None]);
        assert_eq!(LinkKind::Nvlink { generation: 4 }.limit(), None);
    }
}
