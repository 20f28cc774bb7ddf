//! The hardware: tiers that hold objects, links that copy them, a device that computes.
//!
//! An access or a copy of b bytes takes `setup + ceil(b / rate)`, exactly ([`Law`]). Tiers are the
//! nodes and links the edges of a graph; a copy between tiers that share no link goes over the
//! quickest route.
//! Invariant: tier 0 is the tier that the device computes from (HBM), every tier has a route to
//! it, and every number knows its source.

use crate::hidden::Hidden;
use crate::ids::{LinkId, TierId};
use crate::loaded::Loaded;
use crate::service::Service;
use crate::units::{Bytes, Rate, Span};
use petgraph::algo::astar;
use petgraph::graph::{NodeIndex, UnGraph};

/// The tier that the device computes from.
pub const HBM: TierId = TierId(0);

/// Most tiers that one machine may have: a set of tiers fits one byte.
pub const MAX_TIERS: usize = 8;

/// What a tier is, for colours and for hint files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TierKind {
    /// The accelerator's own memory.
    Hbm,
    /// Memory behind CXL.
    Cxl,
    /// The host's memory.
    Dram,
    /// Flash.
    Nvme,
    /// Memory of another node.
    Remote,
}

impl TierKind {
    /// The word that training frameworks use in `tier_hints.json`.
    pub const fn hint(self) -> &'static str {
        match self {
            TierKind::Hbm => "HBM",
            TierKind::Cxl => "CXL",
            TierKind::Dram => "CPU",
            TierKind::Nvme => "SSD",
            TierKind::Remote => "REMOTE",
        }
    }

    /// The kind that a hint file's word names.
    pub fn from_hint(word: &str) -> Option<TierKind> {
        [TierKind::Hbm, TierKind::Cxl, TierKind::Dram, TierKind::Nvme, TierKind::Remote]
            .into_iter()
            .find(|kind| kind.hint() == word)
    }
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The maker says so.
    Datasheet(String),
    /// Somebody ran it.
    Measured(String),
    /// The maker says that a future product will.
    Announced(String),
    /// Nobody says so; the text gives the reason for choosing it.
    Assumed(String),
}

/// One number of a spec with its source, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Path in the file, such as `tiers.dram.bandwidth`.
    pub path: String,
    /// The value as written, such as `gb_per_s(25.0)`.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// How long moving b bytes takes: `setup + ceil(b * 10^12 / rate)` picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Cost of one access or copy, whatever its size.
    pub setup: Span,
    /// Bytes per second after that.
    pub rate: Rate,
}

impl Law {
    /// Time for `bytes`.
    pub fn span_of(&self, bytes: Bytes) -> Span {
        self.setup + self.rate.span_of(bytes.get())
    }
}

/// Memory of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Name in scenarios and charts, such as `dram`.
    pub name: String,
    /// What it is.
    pub kind: TierKind,
    /// Room for objects; [`Bytes::MAX`] for no limit.
    pub capacity: Bytes,
    /// What the device pays to use an object where it lies.
    pub access: Law,
    /// How the set-up of that grows with the bandwidth in use; `None` if it does not.
    pub loaded: Option<Loaded>,
}

/// A path between two tiers, with a copy engine per direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name in charts, such as `pcie`.
    pub name: String,
    /// The tier nearer to the device.
    pub near: TierId,
    /// The tier further from the device.
    pub far: TierId,
    /// Copies from `far` to `near`.
    pub fetch: Law,
    /// Copies from `near` to `far`.
    pub evict: Law,
    /// How several copies share it; `None` for one at a time in each direction.
    pub service: Option<Service>,
}

/// One direction of a link: a copy engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The link.
    pub link: LinkId,
    /// Away from the device (near to far)?
    pub evicting: bool,
}

impl Lane {
    /// Position in a table with two rows per link.
    pub const fn index(self) -> usize {
        self.link.0 as usize * 2 + self.evicting as usize
    }
}

/// The device that computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compute {
    /// Name of the device.
    pub name: String,
    /// FLOP per second that matrix products reach, by precision (`fp32`, `tf32`, `bf16`, ...).
    pub flops: Vec<(String, Rate)>,
    /// Bytes per second that a kernel reaches in the device's own memory.
    pub memory: Rate,
    /// Cost of one kernel, whatever its size.
    pub launch: Span,
}

impl Compute {
    /// Time of an op by the roofline: `launch + max(flops / peak, bytes / memory)`.
    ///
    /// Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009, plus a fixed cost per
    /// kernel. `None` if the device has no peak for `precision`, or the op outlasts the clock.
    pub fn roofline(&self, precision: &str, flops: u64, bytes: Bytes) -> Option<Span> {
        let (_, peak) = self.flops.iter().find(|(name, _)| name == precision)?;
        let memory = self.memory.checked_span_of(bytes.get())?;
        Some(self.launch + peak.checked_span_of(flops)?.max(memory))
    }
}

/// A machine: what a `hardware-specs/*.ron` file means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Name of the file, such as `h100-sxm-pcie5`.
    pub name: String,
    /// What it stands for.
    pub about: String,
    /// Tier 0 is the device's own memory.
    pub tiers: Vec<Tier>,
    /// Joins of tiers.
    pub links: Vec<Link>,
    /// The device, if the file describes one.
    pub compute: Option<Compute>,
    /// Copies over more than one link travel in pieces of this size.
    pub chunk: Bytes,
    /// Memory that no object can have, as the file says.
    pub hidden: Vec<Hidden>,
    /// Every number with its source.
    pub facts: Vec<Fact>,
}

impl Hardware {
    /// The tier called `name`.
    pub fn tier(&self, name: &str) -> Option<TierId> {
        self.tiers.iter().position(|tier| tier.name == name).map(TierId::at)
    }

    /// Every tier id.
    pub fn tier_ids(&self) -> impl DoubleEndedIterator<Item = TierId> + use<> {
        (0..self.tiers.len()).map(TierId::at)
    }

    /// How many of the numbers are assumed.
    pub fn assumed(&self) -> usize {
        self.facts.iter().filter(|fact| matches!(fact.source, Source::Assumed(_))).count()
    }

    /// `near->far` names of a lane's ends, in the direction of the copy, such as `dram->hbm`.
    pub fn lane_name(&self, lane: Lane) -> String {
        let link = &self.links[lane.link.index()];
        let (from, to) = if lane.evicting { (link.near, link.far) } else { (link.far, link.near) };
        format!("{}->{}", self.tiers[from.index()].name, self.tiers[to.index()].name)
    }

    /// The law of one direction of a link.
    pub fn lane_law(&self, lane: Lane) -> Law {
        let link = &self.links[lane.link.index()];
        if lane.evicting { link.evict } else { link.fetch }
    }

    /// Whether a lane serves one copy after the other, in the order in which they came.
    pub fn is_in_order(&self, lane: Lane) -> bool {
        let service = self.links[lane.link.index()].service.as_ref();
        service.is_none_or(|service| service.at_once() == 1)
    }

    /// Every lane, two per link, by [`Lane::index`].
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        (0..self.links.len()).flat_map(|link| {
            [false, true].map(|evicting| Lane { link: LinkId::at(link), evicting })
        })
    }

    /// Finds the quickest route for one chunk between every two tiers.
    ///
    /// Errors with the first pair of tiers that no links join.
    pub fn routes(&self) -> Result<Routes, (TierId, TierId)> {
        let mut graph = UnGraph::<TierId, LinkId>::default();
        let nodes: Vec<NodeIndex> = self.tier_ids().map(|tier| graph.add_node(tier)).collect();
        for (index, link) in self.links.iter().enumerate() {
            graph.add_edge(nodes[link.near.index()], nodes[link.far.index()], LinkId::at(index));
        }
        let tiers = self.tiers.len();
        let mut lanes = vec![Vec::new(); tiers * tiers];
        for from in self.tier_ids() {
            for to in self.tier_ids().filter(|&to| to != from) {
                // The cost of an edge does not depend on the direction, so that a fetch and its
                // write-back take the same way.
                let cost = |link: LinkId| {
                    let link = &self.links[link.index()];
                    link.fetch.span_of(self.chunk).ps() + link.evict.span_of(self.chunk).ps()
                };
                let (start, goal) = (nodes[from.index()], nodes[to.index()]);
                let path = astar(&graph, start, |n| n == goal, |e| cost(*e.weight()), |_| 0)
                    .ok_or((from, to))?
                    .1;
                lanes[from.index() * tiers + to.index()] = path
                    .windows(2)
                    .map(|hop| {
                        let link = graph
                            .edges_connecting(hop[0], hop[1])
                            .map(|edge| *edge.weight())
                            .min_by_key(|&link| (cost(link), link))
                            .expect("consecutive nodes of a path are joined");
                        let near = nodes[self.links[link.index()].near.index()];
                        Lane { link, evicting: near == hop[0] }
                    })
                    .collect();
            }
        }
        Ok(Routes { tiers, lanes })
    }
}

/// The lanes that a copy takes, for every pair of tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    tiers: usize,
    lanes: Vec<Vec<Lane>>,
}

impl Routes {
    /// The lanes from one tier to another, in order; empty only for `from == to`.
    pub fn between(&self, from: TierId, to: TierId) -> &[Lane] {
        &self.lanes[from.index() * self.tiers + to.index()]
    }
}
