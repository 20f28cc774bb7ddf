//! Where a machine says what copies of a road reach.
//!
//! Invariant: the number that `run` compares with a recording is the one that a calibration from it
//! sets.

use tiersim_models::hardware::{Channel, HBM, Hardware, TierKind};
use tiersim_models::nodes::{LinkKind, NodeKind};
use tiersim_models::recorded::{HostMemory, Road, Way};
use tiersim_models::units::Bandwidth;

/// A machine's number for copies of a road.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// The number's path, such as `links.pcie.read`.
    pub path: String,
    /// The number.
    pub rate: Bandwidth,
    /// How often it counts each byte of a copy.
    pub times: f64,
    /// The direction of the link that it belongs to; none for a device's own memory.
    pub channel: Option<Channel>,
    /// Whether it is the link's rate for memory that is not pinned.
    pub pageable: bool,
}

/// The number for copies of a road; `None` where the machine has no such road.
pub fn seat(hardware: &Hardware, road: Road) -> Option<Seat> {
    match road.way {
        Way::Within => {
            let rate = hardware.compute.as_ref()?.memory;
            let path = "compute.memory".to_owned();
            Some(Seat { path, rate, times: 2.0, channel: None, pageable: false })
        }
        Way::ToDevice | Way::FromDevice => of_host(hardware, road),
        Way::Between => of_peer(hardware),
    }
}

/// Copies between the device and the nearest memory of its host. What their own link carries and
/// what they pass behind it: the slowest of these is what they reach.
fn of_host(hardware: &Hardware, road: Road) -> Option<Seat> {
    let dram =
        hardware.tier_ids().find(|tier| hardware.tiers[tier.index()].kind == TierKind::Dram)?;
    let routes = hardware.routes().ok()?;
    let evicting = road.way == Way::FromDevice;
    let (from, to) = if evicting { (HBM, dram) } else { (dram, HBM) };
    let route = routes.between(from, to);
    let stated = |channel: &&Channel| hardware.links[channel.link.index()].pageable.is_some();
    let pageable = road.memory == HostMemory::Pageable;
    if let Some(&channel) = route.iter().find(stated).filter(|_| pageable) {
        let rates = hardware.links[channel.link.index()].pageable?;
        return Some(seated(hardware, channel, rates[usize::from(channel.evicting)], true));
    }
    let slowest = route.iter().min_by_key(|channel| hardware.channel_law(**channel).rate)?;
    Some(seated(hardware, *slowest, hardware.channel_law(*slowest).rate, false))
}

/// Copies to another device: over the link of the device that is made for that.
fn of_peer(hardware: &Hardware) -> Option<Seat> {
    let of_devices = |channel: &Channel| {
        let link = &hardware.links[channel.link.index()];
        let kind = matches!(
            link.kind,
            Some(LinkKind::Nvlink { .. } | LinkKind::InfinityFabric | LinkKind::Xgmi)
        );
        let node = |at: tiersim_models::ids::NodeId| {
            let behind = at.index().checked_sub(hardware.tiers.len())?;
            Some(hardware.nodes[behind].kind)
        };
        let switch = matches!(node(link.far), Some(NodeKind::Gpu | NodeKind::NvlinkSwitch));
        hardware.tier_of(link.near) == Some(HBM) && (kind || switch)
    };
    let channel = hardware.channels().find(of_devices)?;
    Some(seated(hardware, channel, hardware.channel_law(channel).rate, false))
}

fn seated(hardware: &Hardware, channel: Channel, rate: Bandwidth, pageable: bool) -> Seat {
    let link = &hardware.links[channel.link.index()].name;
    let direction = if channel.evicting { "write" } else { "read" };
    let of = if pageable { ".pageable" } else { "" };
    let path = format!("links.{link}{of}.{direction}");
    Seat { path, rate, times: 1.0, channel: Some(channel), pageable }
}
