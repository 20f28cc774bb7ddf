//! Which node of host memory an object goes to.
//!
//! A policy says *that* an object goes to DRAM; on a machine with several tiers of kind dram, one per
//! NUMA node, this wrapper around any policy says *which*: near the GPU, interleaved, where the
//! thread runs that touches it first, or where the object is pinned. What the far node costs follows
//! from routes and links alone.
//! Invariant: an object keeps its node until it is freed or leaves DRAM, so it is in one at most; and
//! tiers of other kinds are named as the policy names them.

use crate::config::PolicyConfig;
use crate::lru::LruConfig;
use crate::policy::{Action, Policy, Sight};
use crate::view::View;
use std::cmp::Reverse;
use std::fmt;
use tiersim_models::hardware::{HBM, Hardware, MAX_TIERS, TierKind};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Object, ObjectKind, Trace};

/// Where objects in DRAM go that are not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To the node with the fewest links to the device, among these the widest; to the next one when
    /// it is full.
    NearGpu,
    /// Object by object to the node that was given the fewest bytes so far. The kernel interleaves
    /// pages of 4 KiB, which is finer: there one copy comes from all nodes.
    Interleave,
    /// To the node where the thread runs that writes it first; to others, nearest first, when it is
    /// full.
    FirstTouch(TierId),
}

/// Objects that are bound to a node: those of these kinds, in these modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Of which kinds; all if empty.
    pub kinds: Vec<ObjectKind>,
    /// Of modules whose name matches this, where `*` stands for any text; all objects if `None`.
    pub module: Option<String>,
    /// A tier of kind dram.
    pub node: TierId,
}

/// What a case says about nodes; nothing by default, and then policies choose tiers themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaConfig {
    /// For objects without a pin; `None` leaves them where the policy puts them, and on another
    /// node, nearest first, where that is full.
    pub placement: Option<Placement>,
    /// The first that matches an object counts.
    pub pins: Vec<Pin>,
}

impl NumaConfig {
    /// Whether nothing is said.
    pub fn is_none(&self) -> bool {
        self.placement.is_none() && self.pins.is_empty()
    }

    /// The policy for a workload, on the nodes that this says.
    ///
    /// Errors in words if the trace lacks what the policy or a pin needs.
    pub fn build(
        &self,
        policy: &PolicyConfig,
        trace: &Trace,
        hardware: &Hardware,
    ) -> Result<Box<dyn Policy>, String> {
        if self.is_none() {
            return policy.build(trace, hardware);
        }
        let (policy, beyond) = match policy {
            PolicyConfig::Lru(config) => {
                let (spill, beyond) = pooled(&config.spill, &near_first(hardware)?);
                (PolicyConfig::Lru(LruConfig { spill }), beyond)
            }
            other => (other.clone(), Vec::new()),
        };
        self.around(policy.build(trace, hardware)?, beyond, trace, hardware)
    }

    /// Any policy, on the nodes that this says; the policy itself where nothing is said or the
    /// machine has fewer than two. `beyond`: where objects go that DRAM has no room for, in order.
    ///
    /// Errors in words if the trace lacks what a pin needs.
    pub fn around(
        &self,
        policy: Box<dyn Policy>,
        beyond: Vec<TierId>,
        trace: &Trace,
        hardware: &Hardware,
    ) -> Result<Box<dyn Policy>, String> {
        let nodes = near_first(hardware)?;
        let pinned = self.pinned(trace)?;
        if self.is_none() || nodes.len() < 2 {
            return Ok(policy);
        }
        Ok(Box::new(Numa {
            inner: policy,
            nodes,
            placement: self.placement,
            pinned,
            beyond,
            given: [Bytes::ZERO; MAX_TIERS],
            unborn: Vec::new(),
        }))
    }

    /// The node of every object that is bound to one.
    fn pinned(&self, trace: &Trace) -> Result<Vec<Option<TierId>>, String> {
        for pattern in self.pins.iter().filter_map(|pin| pin.module.as_deref()) {
            if !trace.modules.iter().any(|module| matches(pattern, module)) {
                return Err(format!(
                    "a pin names modules {pattern:?}, and the trace has none such"
                ));
            }
        }
        let module = |object: &Object| object.module.map(|id| trace.modules[id.index()].as_str());
        let takes = |pin: &Pin, object: &Object| {
            let of_module = |pattern| module(object).is_some_and(|name| matches(pattern, name));
            (pin.kinds.is_empty() || pin.kinds.contains(&object.kind))
                && pin.module.as_deref().is_none_or(of_module)
        };
        let node = |object| self.pins.iter().find(|pin| takes(pin, object)).map(|pin| pin.node);
        Ok(trace.objects.iter().map(node).collect())
    }

    /// In words, such as `DRAM near the GPU, 1 pin`.
    pub fn details(&self, hardware: &Hardware) -> String {
        let placement = match self.placement {
            None => "DRAM".to_owned(),
            Some(Placement::NearGpu) => "DRAM near the GPU".to_owned(),
            Some(Placement::Interleave) => "DRAM interleaved".to_owned(),
            Some(Placement::FirstTouch(node)) => {
                format!("DRAM first touched at {}", hardware.tiers[node.index()].name)
            }
        };
        match self.pins.len() {
            0 => placement,
            1 => format!("{placement}, 1 pin"),
            pins => format!("{placement}, {pins} pins"),
        }
    }
}

/// The tiers of kind dram, the one nearest to the device first.
fn near_first(hardware: &Hardware) -> Result<Vec<TierId>, String> {
    let routes = hardware.routes().map_err(|none| none.to_string())?;
    let is_dram = |tier: &TierId| hardware.tiers[tier.index()].kind == TierKind::Dram;
    let mut nodes: Vec<TierId> = hardware.tier_ids().filter(is_dram).collect();
    nodes.sort_by_cached_key(|&tier| {
        let lanes = routes.between(tier, HBM);
        let laws = || lanes.iter().map(|lane| hardware.lane_law(*lane));
        let width = laws().map(|law| law.rate).min();
        let setup: Span = laws().map(|law| law.setup).sum();
        (lanes.len(), Reverse(width), setup, tier)
    });
    Ok(nodes)
}

/// A list of tiers in which one node stands for all, and what comes behind them.
fn pooled(spill: &[TierId], nodes: &[TierId]) -> (Vec<TierId>, Vec<TierId>) {
    let Some(first) = spill.iter().position(|tier| nodes.contains(tier)) else {
        return (spill.to_vec(), Vec::new());
    };
    let behind = spill[first..].iter().filter(|tier| !nodes.contains(tier));
    let beyond: Vec<TierId> = behind.copied().collect();
    let pool = spill[..first].iter().chain(nodes).chain(&beyond).copied().collect();
    (pool, beyond)
}

/// Whether a name is what a pattern says, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    // The earliest place of each part leaves the most for those behind it.
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

/// A policy whose DRAM has nodes.
struct Numa {
    inner: Box<dyn Policy>,
    /// Nearest to the device first.
    nodes: Vec<TierId>,
    placement: Option<Placement>,
    /// By object.
    pinned: Vec<Option<TierId>>,
    /// Where the policy would put an object that DRAM has no room for.
    beyond: Vec<TierId>,
    /// Bytes that were placed on each node so far, by tier.
    given: [Bytes; MAX_TIERS],
    /// Objects that the next op creates in DRAM and pays for, with the node that they will get.
    unborn: Vec<(ObjectId, TierId)>,
}

/// What the actions of one op change, by tier.
#[derive(Default)]
struct Change {
    claimed: [Bytes; MAX_TIERS],
    freed: [Bytes; MAX_TIERS],
}

impl Change {
    /// Whether an object fits after the actions so far.
    fn leaves_room(&self, tier: TierId, bytes: Bytes, view: &View<'_>) -> bool {
        let need = (self.claimed[tier.index()] + bytes).get();
        view.fits(tier, Bytes::new(need.saturating_sub(self.freed[tier.index()].get())))
    }
}

impl Numa {
    fn is_node(&self, tier: TierId) -> bool {
        self.nodes.contains(&tier)
    }

    /// The node in which an object has room.
    fn node_of(&self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.nodes.iter().copied().find(|&node| view.has_room(object, node))
    }

    /// The tier in which an object is that the policy names: any node of DRAM stands for its own.
    fn held(&self, object: ObjectId, named: TierId, view: &View<'_>) -> TierId {
        let node = if self.is_node(named) { self.node_of(object, view) } else { None };
        node.unwrap_or(named)
    }

    /// The nodes that an object may get, best first.
    fn order(&self, object: ObjectId, named: TierId) -> Vec<TierId> {
        if let Some(node) = self.pinned[object.index()] {
            return vec![node];
        }
        let mut order = self.nodes.clone();
        match self.placement {
            None => order.sort_by_key(|&node| node != named),
            Some(Placement::NearGpu) => {}
            Some(Placement::Interleave) => order.sort_by_key(|node| self.given[node.index()]),
            Some(Placement::FirstTouch(first)) => order.sort_by_key(|&node| node != first),
        }
        order
    }

    /// The tier that an object goes to where the policy names one. With no room anywhere it is the
    /// one that it should get, and the ledger says that it is full.
    fn place(
        &mut self,
        object: ObjectId,
        named: TierId,
        change: &mut Change,
        view: &View<'_>,
    ) -> TierId {
        let bytes = view.object(object).bytes;
        let to = if self.is_node(named) {
            if let Some(node) = self.node_of(object, view) {
                return node;
            }
            let order = self.order(object, named);
            let mut tiers = order.iter().chain(&self.beyond);
            let roomy = tiers.find(|&&tier| change.leaves_room(tier, bytes, view));
            *roomy.unwrap_or(&order[0])
        } else {
            named
        };
        if !view.has_room(object, to) {
            change.claimed[to.index()] += bytes;
            self.given[to.index()] += bytes;
        }
        to
    }

    /// The node that a charge for the use of an object falls on; it is chosen now if the op creates
    /// the object.
    fn charged(
        &mut self,
        object: ObjectId,
        named: TierId,
        change: &mut Change,
        view: &View<'_>,
    ) -> TierId {
        if view.exists(object) {
            return self.held(object, named, view);
        }
        let known = self.unborn.iter().find(|(unborn, _)| *unborn == object);
        if let Some(&(_, node)) = known {
            return node;
        }
        let node = self.place(object, named, change, view);
        self.unborn.push((object, node));
        node
    }

    /// The node with most bytes of the objects that an op uses in place, the nearest of several.
    fn most_used(&self, actions: &[Action], named: TierId, view: &View<'_>) -> TierId {
        let mut bytes = [Bytes::ZERO; MAX_TIERS];
        for action in actions {
            if let Action::InPlace { object } = action
                && let Some(node) = self.node_of(*object, view)
            {
                bytes[node.index()] += view.object(*object).bytes;
            }
        }
        let used = self.nodes.iter().rev().filter(|node| bytes[node.index()] > Bytes::ZERO);
        *used.max_by_key(|node| bytes[node.index()]).unwrap_or(match self.placement {
            Some(Placement::FirstTouch(ref node)) => node,
            Some(_) => &self.nodes[0],
            None => return named,
        })
    }

    /// An action with the nodes that it means; `None` if it moves an object to where it is.
    fn meant(&mut self, action: Action, change: &mut Change, view: &View<'_>) -> Option<Action> {
        Some(match action {
            Action::Fetch { object, to } => {
                Action::Fetch { object, to: self.place(object, to, change, view) }
            }
            Action::Prefetch { object, to } => {
                Action::Prefetch { object, to: self.place(object, to, change, view) }
            }
            Action::Evict { object, from, to } => {
                let from = self.held(object, from, view);
                let to = self.place(object, to, change, view);
                change.freed[from.index()] += view.object(object).bytes;
                (from != to).then_some(Action::Evict { object, from, to })?
            }
            Action::Drop { object, tier } => {
                let tier = self.held(object, tier, view);
                change.freed[tier.index()] += view.object(object).bytes;
                Action::Drop { object, tier }
            }
            Action::InPlace { .. } | Action::Charge { .. } => action,
        })
    }
}

impl Policy for Numa {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn sight(&self) -> Sight {
        self.inner.sight()
    }

    fn start(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let named = self.inner.start(object, view);
        self.place(object, named, &mut Change::default(), view)
    }

    fn birth(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let named = self.inner.birth(object, view);
        let promised = self.unborn.iter().position(|(unborn, _)| *unborn == object);
        if let Some(index) = promised {
            return self.unborn.swap_remove(index).1;
        }
        let mut change = Change::default();
        for &(unborn, node) in &self.unborn {
            change.claimed[node.index()] += view.object(unborn).bytes;
        }
        self.place(object, named, &mut change, view)
    }

    fn before(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        self.inner.before(view, actions);
        self.unborn.clear();
        let mut change = Change::default();
        let mut meant = Vec::with_capacity(actions.len());
        for (index, &action) in actions.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| actions[before]);
            meant.extend(match (action, before) {
                (Action::Charge { tier, bytes }, Some(Action::InPlace { object }))
                    if self.is_node(tier) =>
                {
                    let tier = self.charged(object, tier, &mut change, view);
                    Some(Action::Charge { tier, bytes })
                }
                (Action::Charge { tier, bytes }, _) if self.is_node(tier) => {
                    Some(Action::Charge { tier: self.most_used(actions, tier, view), bytes })
                }
                _ => self.meant(action, &mut change, view),
            });
        }
        *actions = meant;
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let action = self.inner.make_room(view, tier)?;
        self.meant(action, &mut Change::default(), view).filter(|action| match action {
            Action::Evict { from, .. } => *from == tier,
            Action::Drop { tier: from, .. } => *from == tier,
            _ => true,
        })
    }
}

impl fmt::Debug for Numa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Numa({}, {:?})", self.inner.name(), self.placement)
    }
}
