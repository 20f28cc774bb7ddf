//! A server with several devices: what each has of its own, what they share, and where they meet.
//!
//! A hardware file describes the machine as one device sees it. Every device has tier 0, and the
//! links up to what is shared, of its own; a link or tier that `k` devices share exists once per
//! `k` devices. Collectives go from a device to where the devices meet and from there to another.
//! Invariant: every number of sharers divides the number of devices.

use crate::ids::{LinkId, NodeId, TierId};
use crate::op_times::collectives::CollectiveTimes;
use crate::units::{Bandwidth, Bytes, FlopRate, Span};

/// Most devices of one server.
pub const MAX_DEVICES: u32 = 16;

/// The devices of one server. By default there is one, which shares nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Devices of one server.
    pub devices: u32,
    /// Tiers that several devices share, and how many do; in the order of tiers.
    pub tiers: Vec<(TierId, u32)>,
    /// Links that several devices share, and how many do; in the order of links.
    pub links: Vec<(LinkId, u32)>,
    /// Where collectives of devices of one server meet: an NVLink switch, or a node of the host.
    pub within: Option<NodeId>,
    /// Where those of several servers meet: the network.
    pub between: Option<NodeId>,
    /// What collectives within the server take by measurement, where ops are priced so.
    pub collective_times: Option<CollectiveTimes>,
}

impl Default for Server {
    fn default() -> Server {
        let (within, between, collective_times) = (None, None, None);
        let (tiers, links) = Default::default();
        Server { devices: 1, tiers, links, within, between, collective_times }
    }
}

impl Server {
    /// How many devices share one instance of a tier.
    pub fn sharers_of_tier(&self, tier: TierId) -> u32 {
        self.tiers.iter().find(|(shared, _)| *shared == tier).map_or(1, |&(_, by)| by)
    }

    /// How many devices share one instance of a link.
    pub fn sharers_of_link(&self, link: LinkId) -> u32 {
        self.links.iter().find(|(shared, _)| *shared == link).map_or(1, |&(_, by)| by)
    }
}

/// The host's processors, as ops see them that run there. All devices of the server share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Name of the processors.
    pub name: String,
    /// FLOP per second that they reach.
    pub flops: FlopRate,
    /// Bytes per second that their kernels reach in the host's memory.
    pub memory: Bandwidth,
    /// Cost of one op, whatever its size.
    pub launch: Span,
}

impl Cpu {
    /// Time of an op that has the processors to itself:
    /// `launch + max(flops / peak, bytes / memory)`. `None` if it outlasts the clock.
    pub fn roofline(&self, flops: u64, bytes: Bytes) -> Option<Span> {
        let memory = self.memory.checked_span_of(bytes.get())?;
        Some(self.launch + self.flops.checked_span_of(flops)?.max(memory))
    }
}
