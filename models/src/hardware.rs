//! The hardware: tiers that hold objects, links that copy them, a device that computes.
//!
//! An access or a copy of b bytes takes `setup + ceil(b / rate)`, exactly ([`Law`]). Tiers and
//! nodes without memory are the nodes of a graph, links its edges; a copy between tiers that share
//! no link goes over a route ([`crate::routes`]).
//! Invariant: tier 0 is the tier that the device computes from (HBM), every tier has a route to
//! it, and every number knows its source.

pub(crate) mod capacity;
mod collectives;
pub(crate) mod fact;
pub(crate) mod law;
mod memory;
mod profile;
mod requests;
pub(crate) mod tier_kind;
mod uncertainty;

use crate::efficiency::Efficiency;
use crate::energy::Economics;
use crate::hidden::Hidden;
use crate::ids::{LinkId, NodeId, TierId};
use crate::kernel::Kernel;
use crate::loaded::Loaded;
use crate::nodes::{LinkKind, Node, PrescribedRoute};
use crate::op_times::{Around, AttentionKernel, OpTimes, PricedBy, Throttle};
use crate::raid0::Raid0;
use crate::server::{Cpu, Server};
use crate::service::Service;
use crate::shared::{Few, Shared};
use crate::units::{Bandwidth, Bytes, FlopRate, Span};
use std::sync::Arc;

pub use capacity::Capacity;
pub use collectives::CollectiveLaws;
pub use fact::{Fact, Source};
pub use law::Law;
pub use memory::Memory;
pub use profile::Profile;
pub use requests::DeviceRequests;
pub use tier_kind::TierKind;
pub use uncertainty::{Spread, Uncertainty};

/// The tier that the device computes from.
pub const HBM: TierId = TierId(0);

/// Most tiers that one machine may have: a set of tiers fits one byte.
pub const MAX_TIERS: usize = 8;

/// Memory of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Name in scenarios and charts, such as `dram`.
    pub name: String,
    /// What it is.
    pub kind: TierKind,
    /// What it has: all of the server's, if devices share it.
    pub capacity: Capacity,
    /// What the device pays to use an object where it lies.
    pub access: Law,
    /// How the set-up of that grows with the bandwidth in use; `None` if it does not.
    pub loaded: Option<Loaded>,
    /// What the device asks for there at once.
    pub requests: DeviceRequests,
}

/// A path between two nodes, with a copy engine per direction. One from a tier to itself is no path:
/// there a format packs (`write`) and unpacks (`read`), see [`crate::compression`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name in charts, such as `pcie`.
    pub name: String,
    /// The node nearer to the device.
    pub near: NodeId,
    /// The node further from the device.
    pub far: NodeId,
    /// What it is made of, if the file says so.
    pub kind: Option<LinkKind>,
    /// Reads of the far node: copies from `far` to `near`.
    pub read: Law,
    /// Writes of the far node: copies from `near` to `far`.
    pub write: Law,
    /// How several copies share it; `None` for one at a time in each direction.
    pub service: Option<Service>,
    /// The set of drives at its far end; its laws are those of all of them together.
    pub raid0: Option<Raid0>,
    /// Bytes per second that background traffic wants to send in the direction of `read` and of
    /// `write`, all the time; only where copies share the link.
    pub background: [Option<Bandwidth>; 2],
    /// What reads and writes reach that name pageable memory of the host, if the file says so.
    pub pageable: Option<[Bandwidth; 2]>,
}

impl Link {
    /// A link with the laws of reads and writes of its far node, and nothing said beyond them.
    pub fn new(
        name: impl Into<String>,
        (near, far): (impl Into<NodeId>, impl Into<NodeId>),
        [read, write]: [Law; 2],
    ) -> Link {
        let (near, far) = (near.into(), far.into());
        let (kind, service, raid0, background) = (None, None, None, [None; 2]);
        let (name, pageable) = (name.into(), None);
        Link { name, near, far, kind, read, write, service, raid0, background, pageable }
    }

    /// Whether it is where a format packs and unpacks.
    pub fn is_format(&self) -> bool {
        self.near == self.far
    }

    /// The same with copies that name pageable memory: no size goes faster than these do. `None`
    /// where nothing says what they reach.
    pub fn with_pageable(&self) -> Option<Link> {
        let [read, write] = self.pageable?;
        let slower = |law: Law, rate: Bandwidth| Law { rate: law.rate.min(rate), ..law };
        let mut link = self.clone();
        (link.read, link.write) = (slower(self.read, read), slower(self.write, write));
        if let Some(service) = &mut link.service {
            let limits =
                [(&mut service.read, link.read.rate), (&mut service.write, link.write.rate)];
            for (detail, most) in limits {
                detail.sizes.iter_mut().for_each(|(_, rate)| *rate = most.min(*rate));
                detail.depths.iter_mut().for_each(|(_, rate)| *rate = most.min(*rate));
            }
        }
        Some(link)
    }

    /// No more than the copies of a run reach together where others have their share of `rate`:
    /// one copy has at least as much as each direction of the others.
    pub fn left_by_background(&self, rate: Bandwidth) -> Bandwidth {
        let background = 1 + self.background.iter().flatten().count() as u64;
        Bandwidth::new((rate.get() / background).max(1)).expect("above zero")
    }
}

/// One direction of a link: a copy engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// The link.
    pub link: LinkId,
    /// Away from the device (near to far)?
    pub evicting: bool,
}

impl Channel {
    /// Position in a table with two rows per link.
    pub const fn index(self) -> usize {
        self.link.0 as usize * 2 + self.evicting as usize
    }
}

/// The device that computes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compute {
    /// Name of the device.
    pub name: String,
    /// FLOP per second that large matrix products reach, by precision (`fp32`, `tf32`, `bf16`,
    /// ...).
    pub flops: Vec<(String, FlopRate)>,
    /// Bytes per second that a large kernel reaches in the device's own memory.
    pub memory: Bandwidth,
    /// Cost of one kernel, whatever its size.
    pub launch: Span,
    /// What small products and small transfers reach of these rates.
    pub efficiency: Efficiency,
    /// What kernels take by measurement; `None` where the roofline prices all of them.
    pub op_times: Option<Arc<OpTimes>>,
    /// Which kernel runs attention of many new tokens and its gradients; `None` where that is the
    /// engine's that op times were measured with.
    pub attention: Option<AttentionKernel>,
}

impl Compute {
    /// Time of an op by the roofline: `launch + max(flops / peak, bytes / memory)`, of each rate
    /// the share that an op of this size reaches.
    ///
    /// Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009, plus a fixed cost per
    /// kernel; shares by size as in Isaev et al., "Calculon", SC 2023. `None` if the device has no
    /// peak for `precision`, or the op outlasts the clock.
    pub fn roofline(&self, precision: &str, flops: u64, bytes: Bytes) -> Option<Span> {
        let (_, peak) = self.flops.iter().find(|(name, _)| name == precision)?;
        let Efficiency { products, memory } = &self.efficiency;
        let memory = memory.reached(self.memory, bytes.get()).checked_span_of(bytes.get())?;
        let products = products.reached(*peak, flops).checked_span_of(flops)?;
        self.launch.ps().checked_add(products.max(memory).ps()).map(Span::from_ps)
    }

    /// Time of one kernel, and how that is known: by its own formula where there is one with
    /// numbers, by the roofline elsewhere.
    ///
    /// `None` as for [`Compute::roofline`].
    pub fn kernel(
        &self,
        precision: &str,
        kernel: &Kernel,
        throttle: Throttle,
    ) -> Option<(Span, PricedBy)> {
        let measured = self.op_times.as_ref().and_then(|of| {
            of.seconds_on(self.attention, precision, kernel, Around::Step(throttle))
        });
        if let Some((seconds, by)) = measured {
            let ps = (seconds * 1e12).round();
            return (ps < u64::MAX as f64).then(|| (Span::from_ps(ps as u64), by));
        }
        Some((self.roofline(precision, kernel.flops, kernel.bytes)?, PricedBy::Roofline))
    }
}

/// A machine: what a `hardware-specs/*.ron` file means.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Name of the file, such as `h100-sxm-pcie5`.
    pub name: String,
    /// What it stands for.
    pub about: Shared<String>,
    /// Tier 0 is the device's own memory.
    pub tiers: Shared<Vec<Tier>>,
    /// Nodes without memory: the node of number `tiers.len()` and those behind it.
    pub nodes: Vec<Node>,
    /// Joins of nodes.
    pub links: Shared<Vec<Link>>,
    /// Ways that are prescribed; all others are found.
    pub routes: Vec<PrescribedRoute>,
    /// The device, if the file describes one.
    pub compute: Option<Shared<Compute>>,
    /// Copies over more than one link travel in pieces of this size.
    pub chunk: Bytes,
    /// Memory that no object can have, as the file says.
    pub hidden: Vec<Hidden>,
    /// Every number that times rest on, with its source.
    pub facts: Few<Fact>,
    /// What it draws and what it costs.
    pub economics: Shared<Economics>,
    /// How many devices a server has, and what they share.
    pub server: Server,
    /// The host's processors, if the file describes them.
    pub cpu: Option<Cpu>,
    /// The thresholds of cases that watch memory pressure and name none; `None` for the usual ones.
    pub pressure: Option<Profile>,
}

impl Hardware {
    /// The tier called `name`.
    pub fn tier(&self, name: &str) -> Option<TierId> {
        self.tiers.iter().position(|tier| tier.name == name).map(TierId::at)
    }

    /// The same with copies that name pageable memory of the host, on links that say what these
    /// reach.
    pub fn with_pageable(&self) -> Hardware {
        let links = self.links.iter().map(|link| link.with_pageable().unwrap_or(link.clone()));
        Hardware { links: links.collect(), ..self.clone() }
    }

    /// Holds what it has as `other` has it together with that one.
    pub fn share(&mut self, other: &Hardware) {
        let Hardware { about, tiers, links, compute, facts, economics, .. } = self;
        about.share(&other.about);
        tiers.share(&other.tiers);
        links.share(&other.links);
        if let (Some(compute), Some(other)) = (compute, &other.compute) {
            compute.share(other);
        }
        facts.share(&other.facts);
        economics.share(&other.economics);
    }

    /// Every tier id.
    pub fn tier_ids(&self) -> impl DoubleEndedIterator<Item = TierId> + use<> {
        (0..self.tiers.len()).map(TierId::at)
    }

    /// Every node: the tiers, then the nodes without memory.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.tiers.len() + self.nodes.len()).map(NodeId::at)
    }

    /// The node called `name`, a tier or not.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.node_ids().find(|&node| self.node_name(node) == name)
    }

    /// The tier that a node is; `None` if it has no memory.
    pub fn tier_of(&self, node: NodeId) -> Option<TierId> {
        (node.index() < self.tiers.len()).then(|| TierId::at(node.index()))
    }

    /// The name of a tier or node.
    pub fn node_name(&self, node: NodeId) -> &str {
        match node.index().checked_sub(self.tiers.len()) {
            None => &self.tiers[node.index()].name,
            Some(behind) => &self.nodes[behind].name,
        }
    }

    /// Where a channel leads from and to.
    pub fn channel_ends(&self, channel: Channel) -> (NodeId, NodeId) {
        let link = &self.links[channel.link.index()];
        if channel.evicting { (link.near, link.far) } else { (link.far, link.near) }
    }

    /// How many of the numbers that times rest on are assumed.
    pub fn assumed(&self) -> usize {
        self.assumed_facts().count()
    }

    /// The assumed ones.
    pub fn assumed_facts(&self) -> impl Iterator<Item = &Fact> {
        self.facts.iter().filter(|fact| matches!(fact.source, Source::Assumed(_)))
    }

    /// `near->far` names of a channel's ends, in the direction of the copy, such as `dram->hbm`; of
    /// a format what it does there, such as `unpack-zstd`.
    pub fn channel_name(&self, channel: Channel) -> String {
        let link = &self.links[channel.link.index()];
        if link.is_format() {
            let does = if channel.evicting { "pack" } else { "unpack" };
            return format!("{does}-{}", link.name);
        }
        let (from, to) = self.channel_ends(channel);
        format!("{}->{}", self.node_name(from), self.node_name(to))
    }

    /// The law of one direction of a link.
    pub fn channel_law(&self, channel: Channel) -> Law {
        let link = &self.links[channel.link.index()];
        if channel.evicting { link.write } else { link.read }
    }

    /// A law that is never faster than a channel is with all that is peculiar to it.
    pub fn slowest(&self, channel: Channel) -> Law {
        let (link, law) = (&self.links[channel.link.index()], self.channel_law(channel));
        let service = link.service.as_ref();
        let mut law = service.map_or(law, |service| service.detail(channel.evicting).slowest(law));
        if let Some(raid0) = link.raid0 {
            // The busiest drive has no more than its share and a stripe.
            law.setup += raid0.drive(law.rate).span_of(raid0.stripe.get());
        }
        law.rate = link.left_by_background(law.rate);
        law
    }

    /// Whether a channel serves one copy after the other, in the order in which they came.
    pub fn is_in_order(&self, channel: Channel) -> bool {
        let service = self.links[channel.link.index()].service.as_ref();
        service.is_none_or(|service| service.at_once() == 1)
    }

    /// Where collectives of devices of one server meet, and where those of several do.
    pub fn meetings(&self) -> [Option<NodeId>; 2] {
        [self.server.within, self.server.between]
    }

    /// Whether some link delays copies by chance.
    pub fn draws(&self) -> bool {
        let services = self.links.iter().filter_map(|link| link.service.as_ref());
        services.flat_map(|service| [&service.read, &service.write]).any(|d| d.tail.is_some())
    }

    /// Every channel, two per link, by [`Channel::index`].
    pub fn channels(&self) -> impl Iterator<Item = Channel> + use<> {
        (0..self.links.len()).flat_map(|link| {
            [false, true].map(|evicting| Channel { link: LinkId::at(link), evicting })
        })
    }
}
