//! The policy that names nodes in the place of the one that it wraps.
//!
//! Every answer of the wrapped policy passes here: starts, births, the actions before an op and
//! those that make room. It keeps no books of what is where: an object's node is where the ledger
//! has room for it.
//! Invariant: no action moves an object from one node to another.

use super::placement::Placement;
use crate::policy::{Action, Lookahead, Policy};
use crate::state::{State, remember};
use crate::step::{Buffers, Step};
use crate::view::View;
use std::fmt;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// A policy whose DRAM has nodes.
pub(super) struct Numa {
    pub(super) inner: Box<dyn Policy>,
    /// Nearest to the device first.
    pub(super) nodes: Vec<TierId>,
    pub(super) placement: Option<Placement>,
    /// By object.
    pub(super) pinned: Vec<Option<TierId>>,
    /// Where the policy would put an object that DRAM has no room for.
    pub(super) outer: Vec<TierId>,
    /// Bytes that were placed on each node so far, by tier.
    pub(super) given: [Bytes; MAX_TIERS],
    /// Objects that the next op creates in DRAM and pays for, with the node that they will get.
    pub(super) unborn: Vec<(ObjectId, TierId)>,
    /// Memory for the steps of the policy.
    pub(super) buffers: Buffers,
}

impl Numa {
    fn is_node(&self, tier: TierId) -> bool {
        self.nodes.contains(&tier)
    }

    /// The node in which an object has room.
    fn node_of(&self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.nodes.iter().copied().find(|&node| view.is_allocated(object, node))
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
    fn place(&mut self, object: ObjectId, named: TierId, step: &Step<'_>) -> TierId {
        let view = step.view();
        let to = if self.is_node(named) {
            if let Some(node) = self.node_of(object, &view) {
                return node;
            }
            let order = self.order(object, named);
            let mut tiers = order.iter().chain(&self.outer);
            let roomy = tiers.find(|&&tier| step.fits(tier, step.room_of(object, tier)));
            *roomy.unwrap_or(&order[0])
        } else {
            named
        };
        if !view.is_allocated(object, to) {
            self.given[to.index()] += view.room_of(object, to);
        }
        to
    }

    /// The node that a charge for the use of an object falls on; it is chosen now if the op creates
    /// the object.
    fn charged(&mut self, object: ObjectId, named: TierId, step: &mut Step<'_>) -> TierId {
        if step.view().exists(object) {
            return self.held(object, named, &step.view());
        }
        let known = self.unborn.iter().find(|(unborn, _)| *unborn == object);
        if let Some(&(_, node)) = known {
            return node;
        }
        let node = self.place(object, named, step);
        step.expect(object, node);
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
                bytes[node.index()] += view.room_of(*object, node);
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
    fn meant(&mut self, action: Action, step: &mut Step<'_>) -> Option<Action> {
        let view = &step.view();
        Some(match action {
            Action::Fetch { object, to } => {
                Action::Fetch { object, to: self.place(object, to, step) }
            }
            Action::Prefetch { object, to } => {
                let to = self.place(object, to, step);
                // A copy out that nobody waits for is left out where its node is full: a pin or
                // the placement may mean another one than the policy has looked at.
                if to != HBM
                    && !view.is_allocated(object, to)
                    && !step.fits(to, step.room_of(object, to))
                {
                    step.reserve(to, step.room_of(object, to));
                    return None;
                }
                Action::Prefetch { object, to }
            }
            Action::Evict { object, from, to } => {
                let from = self.held(object, from, view);
                let to = self.place(object, to, step);
                (from != to).then_some(Action::Evict { object, from, to })?
            }
            Action::Drop { object, tier } => {
                Action::Drop { object, tier: self.held(object, tier, view) }
            }
            Action::InPlace { .. } | Action::Charge { .. } | Action::Delay { .. } => action,
        })
    }
}

impl Policy for Numa {
    fn keeps_to(&self) -> Option<&[TierId]> {
        self.inner.keeps_to()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn lookahead(&self) -> Lookahead {
        self.inner.lookahead()
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let named = self.inner.initial_tier(object, view);
        self.place(object, named, &Step::new(view))
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let named = self.inner.allocate_in(object, view);
        let promised = self.unborn.iter().position(|(unborn, _)| *unborn == object);
        if let Some(index) = promised {
            return self.unborn.swap_remove(index).1;
        }
        let mut step = Step::new(view);
        self.unborn.iter().for_each(|&(unborn, node)| step.expect(unborn, node));
        self.place(object, named, &step)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let mut inner = Step::over(view, std::mem::take(&mut self.buffers));
        self.inner.plan_op(&mut inner);
        let (buffers, refused) = inner.done();
        step.refuse(refused);
        let actions = &buffers.actions;
        self.unborn.clear();
        for (index, &action) in actions.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| actions[before]);
            let meant = match (action, before) {
                (Action::Charge { tier, bytes }, Some(Action::InPlace { object }))
                    if self.is_node(tier) =>
                {
                    let tier = self.charged(object, tier, step);
                    Some(Action::Charge { tier, bytes })
                }
                (Action::Charge { tier, bytes }, _) if self.is_node(tier) => {
                    Some(Action::Charge { tier: self.most_used(actions, tier, view), bytes })
                }
                _ => self.meant(action, step),
            };
            meant.into_iter().for_each(|action| step.take(action));
        }
        self.buffers = buffers;
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        let named = self.inner.spill_tier(object, view)?;
        Some(self.place(object, named, &Step::new(view)))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let action = self.inner.make_room(view, tier)?;
        self.meant(action, &mut Step::new(view)).filter(|action| match action {
            Action::Evict { from, .. } => *from == tier,
            Action::Drop { tier: from, .. } => *from == tier,
            _ => true,
        })
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        let Numa { inner, nodes, placement, given, .. } = self;
        if *placement == Some(Placement::Interleave) {
            // Nodes are compared with each other only.
            let least = nodes.iter().map(|node| given[node.index()]).min().unwrap_or(Bytes::ZERO);
            nodes.iter().for_each(|node| out.bytes(given[node.index()] - least));
        }
        remember!(out, self as Numa { unborn }
            skip { inner, nodes, placement, pinned, outer, given, buffers });
        inner.state(view, out)
    }

    fn leave_out(&mut self, replays: u64) {
        self.inner.leave_out(replays);
    }
}

impl fmt::Debug for Numa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Numa({}, {:?})", self.inner.name(), self.placement)
    }
}
