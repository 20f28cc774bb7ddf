//! Which links a copy takes from one tier to another, and where it bounces.
//!
//! Found is the widest of the shortest routes: fewest links, among these the largest bottleneck
//! rate (of the slower direction of each link, so that both ways are the same), among these the
//! lowest numbers of links, from the tier with the lower number on. Source: Guerin, Orda, Williams,
//! "QoS Routing Mechanisms and OSPF Extensions", GLOBECOM 1997, and Apostolopoulos et al.,
//! RFC 2676. Before all that comes what is passed: nodes that only forward rather than memory,
//! memory of the host rather than drives and other devices, and the device's own memory only if
//! there is no other route. A file may prescribe what is passed ([`PrescribedRoute`]).
//!
//! Invariant: a route crosses no channel twice, and between two tiers in which it bounces no node
//! twice.

use crate::hardware::{Channel, HBM, Hardware, Law, TierKind};
use crate::ids::{LinkId, NodeId, TierId};
use crate::nodes::{NodeKind, PrescribedRoute};
use crate::service::Discipline;
use crate::units::{Bytes, Span};
use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::{Bfs, EdgeRef, NodeFiltered};
use std::fmt;

/// The channels that a copy takes, for every pair of tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    tiers: usize,
    routes: Vec<Route>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Route {
    channels: Vec<Channel>,
    /// The ends of its hops, as positions in `channels`.
    ends: Vec<usize>,
}

/// Why two tiers have no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoute {
    /// Where copies start.
    pub from: TierId,
    /// Where they end.
    pub to: TierId,
    /// What is wrong with the route that the file prescribes; `None` if the tiers are not joined.
    pub route: Option<RouteFault>,
}

/// What is wrong with a prescribed route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteFault {
    /// No links lead from the one node to the other.
    Unjoined(NodeId, NodeId),
    /// The node is passed twice though the copy is not stored in between.
    Loop(NodeId),
    /// The link is crossed twice in the same direction.
    Twice(LinkId),
}

impl Routes {
    /// The channels from one tier to another, in order; empty only for `from == to`.
    pub fn between(&self, from: TierId, to: TierId) -> &[Channel] {
        &self.route(from, to).channels
    }

    /// The same channels by hops: those of one hop are crossed at the same time, and between two
    /// hops a copy is stored. Shared links that meet in a node without memory are one hop, any
    /// other link is one by itself.
    pub fn hops(
        &self,
        from: TierId,
        to: TierId,
    ) -> impl ExactSizeIterator<Item = &[Channel]> + Clone {
        let Route { channels, ends } = self.route(from, to);
        let start = |hop: usize| if hop == 0 { 0 } else { ends[hop - 1] };
        (0..ends.len()).map(move |hop| &channels[start(hop)..ends[hop]])
    }

    fn route(&self, from: TierId, to: TierId) -> &Route {
        &self.routes[from.index() * self.tiers + to.index()]
    }
}

/// How long copies take that are alone, for every pair of tiers: what a choice of the copy to fetch
/// goes by.
#[derive(Clone, Debug)]
pub struct CopyTimes {
    tiers: usize,
    chunk: Bytes,
    /// By pair: a law per hop.
    hops: Vec<Vec<Law>>,
}

impl CopyTimes {
    /// The times over these routes, which must be the hardware's.
    pub fn new(hardware: &Hardware, routes: &Routes) -> CopyTimes {
        let law = |hop: &[Channel]| {
            let laws = || hop.iter().map(|channel| hardware.channel_law(*channel));
            let rate = laws().map(|law| law.rate).min().expect("a hop crosses something");
            Law { setup: laws().map(|law| law.setup).sum(), rate }
        };
        let pairs = hardware.tier_ids().flat_map(|a| hardware.tier_ids().map(move |b| (a, b)));
        let hops = pairs.map(|(from, to)| routes.hops(from, to).map(law).collect()).collect();
        CopyTimes { tiers: hardware.tiers.len(), chunk: hardware.chunk, hops }
    }

    /// Time of a copy of `bytes` that is alone, by the laws: whole over one hop; over several the
    /// first chunk crosses all of them, and then the slowest hop carries the rest.
    #[inline]
    pub fn span(&self, from: TierId, to: TierId, bytes: Bytes) -> Span {
        let hops = &self.hops[from.index() * self.tiers + to.index()];
        if hops.len() < 2 || bytes <= self.chunk {
            return hops.iter().map(|law| law.span_of(bytes)).sum();
        }
        let first: Span = hops.iter().map(|law| law.span_of(self.chunk)).sum();
        let (chunks, last) = (bytes.get() / self.chunk.get(), bytes.get() % self.chunk.get());
        let rest = |law: &Law| {
            let whole = law.span_of(self.chunk).ps().saturating_mul(chunks - 1);
            let last = if last > 0 { law.span_of(Bytes::new(last)).ps() } else { 0 };
            whole.saturating_add(last)
        };
        let rest = hops.iter().map(rest).max().unwrap_or(0);
        Span::from_ps(first.ps().saturating_add(rest))
    }
}

impl Hardware {
    /// Finds the route between every two tiers.
    ///
    /// Errors with the first pair of tiers that has none, or whose prescribed route is none.
    pub fn routes(&self) -> Result<Routes, NoRoute> {
        let finder = Finder::new(self);
        let tiers = self.tiers.len();
        let mut routes = vec![Route::default(); tiers * tiers];
        for from in self.tier_ids() {
            for to in self.tier_ids().filter(|&to| to != from) {
                let channels = match self.prescribed_route(from, to) {
                    None => finder.find(from.into(), to.into()).ok_or(NoRoute {
                        from,
                        to,
                        route: None,
                    })?,
                    Some((route, reversed)) => {
                        let channels = finder.prescribed(route);
                        let channels =
                            channels.map_err(|fault| NoRoute { from, to, route: Some(fault) })?;
                        if reversed { back(channels) } else { channels }
                    }
                };
                let ends = finder.ends(&channels);
                routes[from.index() * tiers + to.index()] = Route { channels, ends };
            }
        }
        Ok(Routes { tiers, routes })
    }

    /// The channels from the device to where collectives meet, by the rules of routes; `None` if no
    /// links lead there. The way back crosses the other channels of the same links.
    pub fn way_out(&self, meeting: NodeId) -> Option<Vec<Channel>> {
        Finder::new(self).find(HBM.into(), meeting)
    }

    /// Whether what the device uses in place in a tier flows over shared links: the route there and
    /// the one back are one hop each, and all their links are shared. `routes` must be this
    /// machine's.
    pub fn uses_flow(&self, routes: &Routes, tier: TierId) -> bool {
        [(tier, HBM), (HBM, tier)].into_iter().all(|(from, to)| {
            let mut channels = routes.between(from, to).iter();
            routes.hops(from, to).len() == 1 && channels.all(|&channel| self.is_shared(channel))
        })
    }

    /// Whether those under way on a channel share its rate.
    pub fn is_shared(&self, channel: Channel) -> bool {
        let service = self.links[channel.link.index()].service.as_ref();
        service.is_some_and(|service| service.discipline == Discipline::FairShare)
    }

    /// The way prescribed between two tiers, and whether it is the one of the other direction.
    fn prescribed_route(&self, from: TierId, to: TierId) -> Option<(&PrescribedRoute, bool)> {
        let given =
            |from, to| self.routes.iter().find(move |route| (route.from, route.to) == (from, to));
        let there = given(from, to).map(|route| (route, false));
        there.or_else(|| given(to, from).map(|route| (route, true)))
    }

    /// How unlike a switch a node is: the routes avoid the higher numbers first.
    fn rank(&self, node: NodeId) -> u8 {
        match self.tier_of(node).map(|tier| self.tiers[tier.index()].kind) {
            Some(TierKind::Hbm) => 3,
            Some(TierKind::Nvme | TierKind::Remote) => 2,
            Some(TierKind::Dram | TierKind::Cxl) => 1,
            None if self.nodes[node.index() - self.tiers.len()].kind == NodeKind::Gpu => 2,
            None => 0,
        }
    }
}

/// The way back.
fn back(channels: Vec<Channel>) -> Vec<Channel> {
    let back = |channel: Channel| Channel { evicting: !channel.evicting, ..channel };
    channels.into_iter().rev().map(back).collect()
}

struct Finder<'h> {
    hardware: &'h Hardware,
    graph: UnGraph<(), LinkId>,
}

impl Finder<'_> {
    fn new(hardware: &Hardware) -> Finder<'_> {
        let mut graph = UnGraph::default();
        let nodes: Vec<NodeIndex> = hardware.node_ids().map(|_| graph.add_node(())).collect();
        for (index, link) in hardware.links.iter().enumerate() {
            graph.add_edge(nodes[link.near.index()], nodes[link.far.index()], LinkId::at(index));
        }
        Finder { hardware, graph }
    }

    /// The channels from one node to another; `None` if nothing leads there.
    fn find(&self, from: NodeId, to: NodeId) -> Option<Vec<Channel>> {
        if from > to {
            return self.find(to, from).map(back);
        }
        (0..=3).find_map(|rank| self.widest_shortest(from, to, rank))
    }

    /// The slower direction of a link, in bytes per second.
    fn width(&self, link: LinkId) -> u64 {
        let link = &self.hardware.links[link.index()];
        link.read.rate.min(link.write.rate).get()
    }

    /// The widest of the shortest routes that pass nodes of at most this rank.
    fn widest_shortest(&self, from: NodeId, to: NodeId, rank: u8) -> Option<Vec<Channel>> {
        let (start, goal) = (NodeIndex::new(from.index()), NodeIndex::new(to.index()));
        let hardware = self.hardware;
        let passes = |node: NodeIndex| {
            node == start || node == goal || hardware.rank(NodeId::at(node.index())) <= rank
        };
        let allowed = NodeFiltered(&self.graph, passes);
        // By node: links to the goal, and the widest way of so many.
        let mut far: Vec<Option<usize>> = vec![None; self.graph.node_count()];
        let mut wide = vec![0; self.graph.node_count()];
        (far[goal.index()], wide[goal.index()]) = (Some(0), u64::MAX);
        let mut nodes = Bfs::new(&allowed, goal);
        while let Some(node) = nodes.next(&allowed) {
            let nearer = || self.graph.edges(node).map(|edge| (edge.target(), *edge.weight()));
            let least = nearer().filter_map(|(next, _)| far[next.index()]).min();
            let Some(least) = least.filter(|_| node != goal) else { continue };
            far[node.index()] = Some(least + 1);
            let widths = nearer()
                .filter(|(next, _)| far[next.index()] == Some(least))
                .map(|(next, link)| self.width(link).min(wide[next.index()]));
            wide[node.index()] = widths.max().unwrap_or(0);
        }
        let (mut left, width) = (far[start.index()]?, wide[start.index()]);
        let mut channels = Vec::with_capacity(left);
        let mut here = start;
        while here != goal {
            left -= 1;
            let wide_enough = |next: NodeIndex, link: LinkId| {
                far[next.index()] == Some(left) && self.width(link).min(wide[next.index()]) >= width
            };
            let (link, next) = self
                .graph
                .edges(here)
                .map(|edge| (*edge.weight(), edge.target()))
                .filter(|&(link, next)| wide_enough(next, link))
                .min()
                .expect("a node on a shortest way has one that is nearer");
            let near = self.hardware.links[link.index()].near.index();
            channels.push(Channel { link, evicting: near == here.index() });
            here = next;
        }
        Some(channels)
    }

    /// The channels of a prescribed route.
    fn prescribed(&self, route: &PrescribedRoute) -> Result<Vec<Channel>, RouteFault> {
        let stops: Vec<NodeId> = std::iter::once(NodeId::from(route.from))
            .chain(route.via.iter().copied())
            .chain([NodeId::from(route.to)])
            .collect();
        let mut channels = Vec::new();
        for pair in stops.windows(2) {
            if pair[0] == pair[1] {
                return Err(RouteFault::Loop(pair[0]));
            }
            let stretch = self.find(pair[0], pair[1]);
            channels.extend(stretch.ok_or(RouteFault::Unjoined(pair[0], pair[1]))?);
        }
        self.no_loop(NodeId::from(route.from), &channels)?;
        Ok(channels)
    }

    fn no_loop(&self, from: NodeId, channels: &[Channel]) -> Result<(), RouteFault> {
        let mut tiers = vec![from];
        let mut passed = vec![from];
        for (index, channel) in channels.iter().enumerate() {
            if channels[..index].contains(channel) {
                return Err(RouteFault::Twice(channel.link));
            }
            let (_, to) = self.hardware.channel_ends(*channel);
            if passed.contains(&to) || tiers.contains(&to) {
                return Err(RouteFault::Loop(to));
            }
            passed.push(to);
            if self.hardware.tier_of(to).is_some() {
                tiers.push(to);
                passed = vec![to];
            }
        }
        Ok(())
    }

    /// Where hops end: in every tier, and before and behind every link that is not shared.
    fn ends(&self, channels: &[Channel]) -> Vec<usize> {
        let shared = |channel: Channel| self.hardware.is_shared(channel);
        let passes = |pair: &[Channel]| {
            let (_, between) = self.hardware.channel_ends(pair[0]);
            self.hardware.tier_of(between).is_none() && shared(pair[0]) && shared(pair[1])
        };
        let pairs = channels.windows(2).enumerate();
        let inner = pairs.filter(|(_, pair)| !passes(pair)).map(|(index, _)| index + 1);
        inner.chain((!channels.is_empty()).then_some(channels.len())).collect()
    }
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoute { from, to, route } = self;
        match route {
            None => write!(f, "no links lead from {from:?} to {to:?}"),
            Some(fault) => write!(f, "the route from {from:?} to {to:?} is none: {fault:?}"),
        }
    }
}
