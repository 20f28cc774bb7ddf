//! Reads what joins what: nodes without memory, ends of links, prescribed routes.
//!
//! Invariant: every tier of a returned machine has a route to every other, and every prescribed
//! route is one.

use super::raw::{RawHardware, RawLink, RawNode, RawRoute};
use super::resolver::Resolver;
use std::collections::BTreeMap;
use tiersim_models::hardware::{Hardware, Link, MAX_TIERS};
use tiersim_models::ids::{NodeId, TierId};
use tiersim_models::nodes::{MAX_NODES, Node, PrescribedRoute};
use tiersim_models::routes::{NoRoute, RouteFault};

/// More routes than pairs of tiers are never needed.
const MAX_ROUTES: usize = MAX_TIERS * (MAX_TIERS - 1);

/// More than any copy passes.
const MAX_VIA: usize = 16;

impl Resolver<'_> {
    /// The nodes without memory.
    pub(super) fn nodes(&mut self, raw: &RawHardware) -> Vec<Node> {
        let most = MAX_NODES - MAX_TIERS;
        let nodes = self.check.at_most("nodes", "nodes", &raw.nodes, most);
        self.names(("nodes", "node"), nodes.iter().map(|node| &node.name));
        for (index, node) in nodes.iter().enumerate() {
            if raw.tiers.iter().take(MAX_TIERS).any(|tier| tier.name == node.name) {
                let rule = "a tier has this name: a tier is a node already";
                self.check.fault(&format!("nodes.{index}.name"), rule, "choose another name");
            }
            let named = |link: &RawLink| link.near == node.name || link.far == node.name;
            if self.whole && !raw.links.iter().any(named) {
                let remedy = "add a link to it, or leave it out";
                self.check.fault(&format!("nodes.{index}.name"), "no link names this node", remedy);
            }
        }
        let node = |raw: &RawNode| Node { name: raw.name.clone(), kind: raw.kind };
        nodes.iter().map(node).collect()
    }

    /// The node called `name`: a tier, or one without memory.
    pub(super) fn end(&mut self, path: &str, name: &str, raw: &RawHardware) -> Option<NodeId> {
        let nodes = raw.nodes.iter().take(MAX_NODES - MAX_TIERS).map(|node| node.name.as_str());
        let all: Vec<&str> = tiers(raw).chain(nodes).collect();
        let rule = match raw.nodes.is_empty() {
            true => "no tier has this name",
            false => "no tier or node has this name",
        };
        self.named(path, rule, name, &all).map(NodeId::at)
    }

    /// The prescribed routes.
    pub(super) fn routes(&mut self, raw: &RawHardware) -> Option<Vec<PrescribedRoute>> {
        let raw_routes = self.check.at_most("routes", "routes", &raw.routes, MAX_ROUTES);
        let mut given = BTreeMap::new();
        let mut routes = Vec::new();
        for (index, route) in raw_routes.iter().enumerate() {
            let resolved = self.resolve_route(index, route, raw);
            if let Some(route) = &resolved
                && given.insert((route.from, route.to), index).is_some()
            {
                let rule = "the route between these tiers is given twice";
                self.check.fault(&format!("routes.{index}"), rule, "keep one of them");
            }
            routes.push(resolved);
        }
        routes.into_iter().collect()
    }

    fn resolve_route(
        &mut self,
        index: usize,
        route: &RawRoute,
        raw: &RawHardware,
    ) -> Option<PrescribedRoute> {
        let here = format!("routes.{index}");
        let known: Vec<&str> = tiers(raw).collect();
        let mut tier = |end: &str, name: &str| {
            let path = format!("{here}.{end}");
            self.named(&path, "no tier has this name", name, &known).map(TierId::at)
        };
        let (from, to) = (tier("from", &route.from), tier("to", &route.to));
        if from.is_some() && from == to {
            let rule = "a route leads from one tier to another";
            self.check.fault(&format!("{here}.to"), rule, "name two different tiers");
            return None;
        }
        let path = format!("{here}.via");
        if route.via.is_empty() {
            let remedy = "name what copies pass, or leave the route out: it is found";
            self.check.fault(&path, "a route that is given passes something", remedy);
            return None;
        }
        let mut via = Vec::new();
        let names = self.check.at_most(&path, "nodes of a route", &route.via, MAX_VIA);
        for (stop, name) in names.iter().enumerate() {
            let path = format!("{path}.{stop}");
            let node = self.end(&path, name, raw);
            if node == Some(NodeId(0)) {
                let rule = "no copy between others passes the device's own memory";
                self.check.fault(&path, rule, "name another node, or leave the route out");
            }
            via.push(node.filter(|node| *node != NodeId(0)));
        }
        let via = via.into_iter().collect::<Option<Vec<_>>>()?;
        Some(PrescribedRoute { from: from?, to: to?, via })
    }

    /// Joins tiers that no link mentions to the first one, and checks that all can be reached.
    pub(super) fn join(&mut self, hardware: &mut Hardware) {
        for id in hardware.tier_ids().skip(1) {
            let node = NodeId::from(id);
            if hardware.links.iter().any(|link| link.near == node || link.far == node) {
                continue;
            }
            let tier = &hardware.tiers[id.index()];
            let name = tier.name.clone();
            if hardware.links.iter().any(|link| link.name == name) {
                let rule = format!("tier `{name}` gets a link of its own name, which is taken");
                let remedy = "rename the link, or write a link for the tier";
                self.check.fault(&format!("tiers.{}.name", id.index()), rule, remedy);
            }
            let law = tier.access;
            hardware.links.push(Link::new(name, (TierId(0), id), [law; 2]));
        }
        if let Err(none) = hardware.routes() {
            self.no_route(hardware, &none);
        }
    }

    /// Says why there is no route, at the tier or at the prescribed route.
    fn no_route(&mut self, hardware: &Hardware, none: &NoRoute) {
        let &NoRoute { from, to, route } = none;
        let Some(fault) = route else {
            let unreached = if from == TierId(0) { to } else { from };
            let tier = &hardware.tiers[unreached.index()].name;
            let rule = format!("no links lead from tier `{tier}` to the first tier");
            let remedy = "add a link; a tier without any is joined to the first one";
            self.check.fault(&format!("tiers.{}", unreached.index()), rule, remedy);
            return;
        };
        let name = |node: NodeId| hardware.node_name(node);
        let (rule, remedy) = match fault {
            RouteFault::Unjoined(one, other) => (
                format!("no links lead from `{}` to `{}`", name(one), name(other)),
                "add a link, or name what is joined",
            ),
            RouteFault::Loop(node) => (
                format!("the route comes to `{}` twice", name(node)),
                "name each node once, in the order in which a copy passes them",
            ),
            RouteFault::Twice(link) => (
                format!(
                    "the route crosses `{}` twice in one direction",
                    hardware.links[link.index()].name
                ),
                "name a route without a detour",
            ),
        };
        let pair = |route: &PrescribedRoute| (route.from, route.to);
        let routes = || hardware.routes.iter();
        let index = routes().position(|route| pair(route) == (from, to));
        let index = index.or_else(|| routes().position(|route| pair(route) == (to, from)));
        let index = index.expect("only a prescribed route has a fault");
        self.check.fault(&format!("routes.{index}.via"), rule, remedy);
    }
}

/// The names of the tiers.
fn tiers(raw: &RawHardware) -> impl Iterator<Item = &str> {
    raw.tiers.iter().take(MAX_TIERS).map(|tier| tier.name.as_str())
}
