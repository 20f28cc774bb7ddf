//! A machine on paper: as a drawing, as text and as JSON, each number with its kind of source.
//!
//! Invariant: everything shown comes from the [`Hardware`](tiersim_models::hardware::Hardware), so
//! the drawing, the text and a run cannot disagree about it.

mod drawing;
mod layout;
mod listing;
mod server;
#[cfg(test)]
#[path = "../tests/drawn/mod.rs"]
mod tests;

pub use drawing::drawing;
pub use listing::{hardware_json, hardware_list, hardware_list_json, hardware_text};

use crate::words::number;
use tiersim_models::hardware::TierKind;
use tiersim_models::nodes::{LinkKind, NodeKind};
use tiersim_models::units::Bandwidth;

fn gb_per_s(rate: Bandwidth) -> String {
    number(rate.get() as f64 / 1e9)
}

/// The name of a kind of memory.
fn tier_word(kind: TierKind) -> &'static str {
    match kind {
        TierKind::Hbm => "device memory",
        TierKind::Cxl => "CXL memory",
        TierKind::Dram => "host DRAM",
        TierKind::Nvme => "NVMe",
        TierKind::Remote => "remote memory",
    }
}

/// The name of a kind of node.
fn node_word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Gpu => "peer GPU",
        NodeKind::Socket => "CPU socket",
        NodeKind::RootComplex => "root complex",
        NodeKind::PcieSwitch => "PCIe switch",
        NodeKind::CxlSwitch => "CXL switch",
        NodeKind::NvlinkSwitch => "NVLink switch",
        NodeKind::Nic => "network adapter",
        NodeKind::NetworkSwitch => "network switch",
        NodeKind::Host => "another host",
    }
}

/// What a link is made of.
fn link_word(kind: LinkKind) -> String {
    match kind {
        LinkKind::Pcie { generation, width } => format!("PCIe {generation}.0 x{width}"),
        LinkKind::Cxl { generation, width } => format!("CXL {generation} x{width}"),
        LinkKind::Nvlink { generation } => format!("NVLink {generation}"),
        LinkKind::NvlinkC2c => "NVLink-C2C".to_owned(),
        LinkKind::Upi => "UPI".to_owned(),
        LinkKind::Xgmi => "xGMI".to_owned(),
        LinkKind::InfinityFabric => "Infinity Fabric".to_owned(),
        LinkKind::MemoryBus => "memory bus".to_owned(),
        LinkKind::Network => "network".to_owned(),
    }
}
