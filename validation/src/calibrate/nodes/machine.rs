//! A calibrated machine with its host memory taken apart: a tier for every node.
//!
//! The device's link ends at the socket next to it; each socket has its memory, sockets are joined
//! pair by pair, and memory without cores hangs on the socket that is nearest to it. What a pair
//! was measured at stands on the link between its sockets, whatever lies between them.
//! Invariant: a number is measured, the firmware's, or says the distance that it was worked out
//! from; the set-up of the device's link holds the latency of the near memory, so that of others
//! is only what they take longer.

use crate::calibrate::fit::rounded;
use crate::calibrate::nodes::bench::Pair;
use crate::calibrate::nodes::topology::Topology;
use std::num::NonZeroU32;
use tiersim_models::hardware::{Fact, HBM, Hardware, Law, Link, MAX_TIERS, Source, Tier, TierKind};
use tiersim_models::ids::{NodeId, TierId};
use tiersim_models::nodes::{Node, NodeKind};
use tiersim_models::service::{Discipline, Service};
use tiersim_models::units::{Bandwidth, Bytes, Span};

/// Latency of a node's own memory where nothing says it: only differences reach the machine.
const USUAL: Span = Span::from_ns(100);
/// The tier that is taken apart, as calibration calls it.
const DRAM: &str = "dram";
/// Where a node's memory is read.
const MEMORY: &str = "MemTotal of";
/// Source of set-ups of 0.
const WITHIN: &str = "the latency of the near memory is in the set-up of the device's link, which \
                      was fitted to whole copies";
/// Where `max_in_flight` comes from, where calibration said nothing.
const ONE: &str = "copies of one direction were given to one queue, which does one at a time";

/// What one node's cores make of another's memory, and how that is known.
#[derive(Clone, Debug)]
struct Way {
    latency: Span,
    rates: [Bandwidth; 2],
    source: Source,
}

/// The machine of a calibrated one whose host has several nodes; `address` is the device's on the
/// PCI bus, if it has one. With the notes that a reader of it needs.
///
/// `None` where there are fewer than two nodes with memory.
pub fn machine_of_nodes(
    calibrated: &Hardware,
    topology: &Topology,
    pairs: &[Pair],
    address: Option<&str>,
) -> Option<(Hardware, Vec<String>)> {
    let with_memory = topology.nodes.iter().filter(|node| node.memory > Bytes::ZERO).count();
    let dram = calibrated.tier(DRAM)?;
    let near = topology.near(address)?;
    if with_memory < 2 {
        return None;
    }
    let mut made = Made { topology, pairs, near, dram, calibrated, notes: Vec::new() };
    let hardware = made.hardware();
    Some((hardware, made.notes))
}

struct Made<'a> {
    topology: &'a Topology,
    pairs: &'a [Pair],
    /// Position of the device's node.
    near: usize,
    dram: TierId,
    calibrated: &'a Hardware,
    notes: Vec<String>,
}

impl Made<'_> {
    fn hardware(&mut self) -> Hardware {
        let mut hardware = self.calibrated.clone();
        hardware.name += "-nodes";
        hardware.about.push_str("; host memory by node");
        let place = format!("tiers.{DRAM}.");
        hardware.facts.all().retain(|fact| !fact.path.starts_with(&place));
        let memories = self.memories();
        let tiers: Vec<TierId> =
            memories.iter().map(|&node| self.tier(&mut hardware, node, memories[0])).collect();
        let sockets: Vec<usize> = self.sockets(&memories);
        let first = hardware.tiers.len();
        let socket = |node: usize| {
            let place = sockets.iter().position(|&other| other == node);
            NodeId::at(first + place.expect("every node with cores is there"))
        };
        hardware.nodes = sockets
            .iter()
            .map(|&node| Node { name: self.socket_name(node), kind: NodeKind::Socket })
            .collect();
        self.lead_to_socket(&mut hardware, socket(self.near_socket()));
        for (&node, &tier) in memories.iter().zip(&tiers) {
            let hub = self.hub(node);
            let own = self.way(hub, hub);
            let way = self.way(hub, node);
            let (name, more) = match hub == node {
                true => (format!("memory{}", self.id(node)), Span::ZERO),
                false => (
                    format!("expander{}", self.id(node)),
                    Span::from_ps(way.latency.ps().saturating_sub(own.latency.ps())),
                ),
            };
            self.link(&mut hardware, name, (socket(hub), tier.into()), more, &way);
        }
        for (index, &one) in sockets.iter().enumerate() {
            for &other in &sockets[index + 1..] {
                let (own, way) = (self.way(one, one), self.way(one, other));
                let more = Span::from_ps(way.latency.ps().saturating_sub(own.latency.ps()));
                let name = format!("between{}-{}", self.id(one), self.id(other));
                self.link(&mut hardware, name, (socket(one), socket(other)), more, &way);
            }
        }
        hardware
    }

    fn id(&self, node: usize) -> u32 {
        self.topology.nodes[node].id
    }

    fn socket_name(&self, node: usize) -> String {
        format!("socket{}", self.id(node))
    }

    fn distance(&self, from: usize, to: usize) -> u32 {
        self.topology.nodes[from].distances[to]
    }

    /// The node with cores that stands next to the device.
    fn near_socket(&self) -> usize {
        self.hub(self.near)
    }

    /// A node itself if it has cores, else the nearest that has.
    fn hub(&self, node: usize) -> usize {
        let cores = |other: &usize| !self.topology.nodes[*other].cores.is_empty();
        let all = (0..self.topology.nodes.len()).filter(cores);
        let nearest = all.min_by_key(|&other| (other != node, self.distance(node, other), other));
        nearest.unwrap_or(node)
    }

    /// The nodes with memory, the device's first, then by distance from it; no more than fit.
    fn memories(&mut self) -> Vec<usize> {
        let near = self.near_socket();
        let has = |node: &usize| self.topology.nodes[*node].memory > Bytes::ZERO;
        let mut all: Vec<usize> = (0..self.topology.nodes.len()).filter(has).collect();
        all.sort_by_key(|&node| (node != near, self.distance(near, node), node));
        let room = MAX_TIERS - (self.calibrated.tiers.len() - 1);
        if all.len() > room {
            let left: Vec<String> = all[room..].iter().map(|n| self.id(*n).to_string()).collect();
            self.notes.push(format!(
                "memory of nodes {} is left out: a machine has {MAX_TIERS} tiers",
                left.join(", ")
            ));
            all.truncate(room);
        }
        all
    }

    /// The nodes with cores that the device's way or a memory needs.
    fn sockets(&self, memories: &[usize]) -> Vec<usize> {
        let mut all: Vec<usize> = memories.iter().map(|&node| self.hub(node)).collect();
        all.push(self.near_socket());
        all.sort_by_key(|&node| (node != self.near_socket(), node));
        all.dedup();
        all
    }

    /// Fills in or adds the tier of a node.
    fn tier(&mut self, hardware: &mut Hardware, node: usize, first: usize) -> TierId {
        let Made { topology, dram, calibrated, .. } = *self;
        let id = self.id(node);
        let expander = self.hub(node) != node;
        let (name, kind) = match (node == first, expander) {
            (true, _) => (DRAM.to_owned(), TierKind::Dram),
            (_, true) => (format!("cxl-node{id}"), TierKind::Cxl),
            (_, false) => (format!("dram-node{id}"), TierKind::Dram),
        };
        if expander {
            self.notes.push(format!(
                "node {id} has memory and no cores: taken for an expander at node {}",
                self.id(self.hub(node))
            ));
        }
        let (access, source) = self.access(node);
        let whole = |bytes: Bytes| Bytes::new((bytes.get() >> 20 << 20).max(1 << 20));
        let made = Tier {
            name: name.clone(),
            kind,
            capacity: whole(topology.nodes[node].memory).into(),
            access,
            ..calibrated.tiers[dram.index()].clone()
        };
        let place = format!("tiers.{name}");
        let memory = Source::Measured(format!("{MEMORY} node {id}, as the system says it"));
        self.fact(hardware, format!("{place}.capacity"), memory);
        self.fact(hardware, format!("{place}.setup"), source[0].clone());
        self.fact(hardware, format!("{place}.bandwidth"), source[1].clone());
        if node == first {
            hardware.tiers[dram.index()] = made;
            return dram;
        }
        hardware.tiers.push(made);
        TierId::at(hardware.tiers.len() - 1)
    }

    /// What the device pays to use an object on a node: as calibrated, and what the way there takes
    /// longer; no faster than its cores read there.
    fn access(&self, node: usize) -> (Law, [Source; 2]) {
        let law = self.calibrated.tiers[self.dram.index()].access;
        let of = |field: &str| {
            let path = format!("tiers.{DRAM}.{field}");
            let fact = self.calibrated.facts.iter().find(|fact| fact.path == path);
            fact.map_or_else(|| Source::Assumed("not said".to_owned()), |fact| fact.source.clone())
        };
        let near = self.near_socket();
        if node == near {
            return (law, [of("setup"), of("bandwidth")]);
        }
        let (own, way) = (self.way(near, near), self.way(near, node));
        let more = Span::from_ps(way.latency.ps().saturating_sub(own.latency.ps()));
        let rate = law.rate.min(way.rates[0]);
        let source = |text: String| match &way.source {
            Source::Assumed(known) => Source::Assumed(format!("{text}; {known}")),
            Source::Datasheet(known) => Source::Datasheet(format!("{text}; {known}")),
            known => Source::Measured(format!("{text}; {}", known.text())),
        };
        let setup = source(format!("as {DRAM} and {more} more"));
        let bandwidth = source(format!("as {DRAM}, and no more than is read there"));
        (Law { setup: law.setup + more, rate }, [setup, bandwidth])
    }

    /// Lets the device's link end at a socket, where its copies pass without being stored.
    fn lead_to_socket(&mut self, hardware: &mut Hardware, socket: NodeId) {
        let dram = NodeId::from(self.dram);
        let ends = |link: &Link| link.near == NodeId::from(HBM) && link.far == dram;
        let Some(index) = hardware.links.iter().position(ends) else { return };
        let link = &mut hardware.links[index];
        link.far = socket;
        let service = link.service.get_or_insert_with(Service::default);
        let silent = service.max_in_flight.is_none();
        service.discipline = Discipline::FairShare;
        if silent {
            service.max_in_flight = Some(NonZeroU32::MIN);
            let path = format!("links.{}.max_in_flight", link.name);
            self.fact(hardware, path, Source::Measured(ONE.to_owned()));
        }
    }

    fn link(
        &mut self,
        hardware: &mut Hardware,
        name: String,
        ends: (NodeId, NodeId),
        setup: Span,
        way: &Way,
    ) {
        let setup = Span::from_ps(rounded(setup.ps() as f64, 4) as u64);
        let laws = way.rates.map(|rate| Law { setup, rate });
        let within = setup == Span::ZERO;
        let latency = if within { Source::Assumed(WITHIN.to_owned()) } else { way.source.clone() };
        for (field, source) in [
            ("setup", &latency),
            ("read", &way.source),
            ("write_setup", &latency),
            ("write", &way.source),
        ] {
            self.fact(hardware, format!("links.{name}.{field}"), source.clone());
        }
        let service = Service { discipline: Discipline::FairShare, ..Service::default() };
        let link = Link { service: Some(service), ..Link::new(name, ends, laws) };
        hardware.links.push(link);
    }

    fn fact(&self, hardware: &mut Hardware, path: String, source: Source) {
        hardware.facts.all().push(Fact::new(path, String::new(), source));
    }

    /// What the cores of a node make of the memory of another.
    fn way(&self, from: usize, to: usize) -> Way {
        if let Some(pair) = self.pairs.iter().find(|pair| pair.nodes == (from, to)) {
            return self.measured(pair);
        }
        let firmware = self.topology.nodes[to].firmware.as_ref();
        if let Some(row) = firmware.filter(|row| row.from.contains(&self.id(from))) {
            let text = format!(
                "the firmware's table of memory (HMAT) for accesses from node {} to node {}",
                self.id(from),
                self.id(to)
            );
            return Way { latency: row.latency, rates: row.rates, source: Source::Datasheet(text) };
        }
        if from == to {
            // No slower than the device's copies, which end here.
            let link = self.calibrated.links.iter().find(|link| link.near == NodeId::from(HBM));
            let own = self.calibrated.tiers[self.dram.index()].access.rate;
            let rates = link.map_or([own; 2], |link| [link.read.rate, link.write.rate]);
            let text = format!(
                "nothing measured it and the firmware does not say it: {USUAL}, and rates as the \
                 device's link"
            );
            let rates = rates.map(|rate| rate.max(own));
            return Way { latency: USUAL, rates, source: Source::Assumed(text) };
        }
        self.by_distance(from, to)
    }

    fn measured(&self, pair: &Pair) -> Way {
        let middle = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
        };
        let rate = |values: &[f64]| {
            let rounded = rounded(middle(values), 4).round().clamp(1e6, 1e18) as u64;
            Bandwidth::new(rounded).expect("at least a million")
        };
        let seconds = middle(&pair.latencies);
        let (from, to) = (&self.topology.nodes[pair.nodes.0], self.id(pair.nodes.1));
        let text = format!(
            "{} cores of node {} on memory of node {to}: reads {:.4} GB/s, writes {:.4} GB/s, a \
             dependent read {:.1} ns; medians of {} repeats",
            from.cores.len(),
            from.id,
            middle(&pair.reads) / 1e9,
            middle(&pair.writes) / 1e9,
            seconds * 1e9,
            pair.reads.len()
        );
        Way {
            latency: Span::from_ps(rounded(seconds * 1e12, 4).round().clamp(0.0, 1e9) as u64),
            rates: [rate(&pair.reads), rate(&pair.writes)],
            source: Source::Measured(text),
        }
    }

    /// The own memory of the cores, further and slower by the ratio of the distances.
    fn by_distance(&self, from: usize, to: usize) -> Way {
        let own = self.way(from, from);
        let (far, near) =
            (u64::from(self.distance(from, to)), u64::from(self.distance(from, from)));
        let scale = |value: u64, by: u64, over: u64| {
            u64::try_from(u128::from(value) * u128::from(by) / u128::from(over)).unwrap_or(u64::MAX)
        };
        let rate = |rate: Bandwidth| {
            Bandwidth::new(scale(rate.get(), near, far).max(1_000_000)).expect("above zero")
        };
        let text = format!(
            "distance {far} from node {} to node {}, {near} to its own memory, and what that has \
             by the ratio",
            self.id(from),
            self.id(to)
        );
        Way {
            latency: Span::from_ps(scale(own.latency.ps(), far, near)),
            rates: own.rates.map(rate),
            source: Source::Assumed(text),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
