//! Which node of host memory an object goes to.
//!
//! A policy says *that* an object goes to DRAM; on a machine with several tiers of kind dram, one
//! per NUMA node, this wrapper around any policy says *which*: near the GPU, interleaved, where the
//! thread runs that touches it first, or where the object is pinned. What the far node costs
//! follows from routes and links alone.
//! Invariant: an object keeps its node until it is freed or leaves DRAM, so it is in one at most;
//! and tiers of other kinds are named as the policy names them.

mod placement;
mod wrapper;

use crate::cpu_ops;
pub use crate::numa::placement::Placement;
use crate::numa::wrapper::Numa;
use crate::policy::Policy;
use crate::recipe::{PolicyConfig, Setting};
use std::cmp::Reverse;
use tiersim_models::hardware::{HBM, Hardware, MAX_TIERS, TierKind};
use tiersim_models::ids::TierId;
use tiersim_models::statistics::matches;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Object, ObjectKind, Trace};

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
    /// Errors in words if the trace has no module that a pin names.
    pub fn check(&self, trace: &Trace) -> Result<(), String> {
        self.pinned(trace).map(|_| ())
    }

    /// Whether nothing is said.
    pub fn is_none(&self) -> bool {
        self.placement.is_none() && self.pins.is_empty()
    }

    /// The policy for a setting, on the nodes that this says, with ops on the CPU
    /// served as [`crate::cpu_ops`] does.
    ///
    /// Errors in words if the trace lacks what the policy or a pin needs.
    pub fn build(
        &self,
        policy: &PolicyConfig,
        setting: &Setting<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        cpu_ops::build(setting, |setting| self.build_for_device(policy, setting))
    }

    fn build_for_device(
        &self,
        policy: &PolicyConfig,
        setting: &Setting<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        let Setting { workload, hardware, .. } = *setting;
        if self.is_none() {
            return policy.build(setting);
        }
        let pooled = match policy.spill() {
            Some(spill) => Some(pooled(spill, &near_first(hardware)?)),
            None => None,
        };
        let pooled = pooled.and_then(|(spill, outer)| Some((policy.with_spill(spill)?, outer)));
        let (policy, outer) = pooled.unwrap_or_else(|| (policy.clone(), Vec::new()));
        self.around(policy.build(setting)?, outer, &workload.trace, hardware)
    }

    /// Any policy, on the nodes that this says; the policy itself where nothing is said or the
    /// machine has fewer than two. `outer`: where objects go that DRAM has no room for, in order.
    ///
    /// Errors in words if the trace lacks what a pin needs.
    pub fn around(
        &self,
        policy: Box<dyn Policy>,
        outer: Vec<TierId>,
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
            outer,
            given: [Bytes::ZERO; MAX_TIERS],
            unborn: Vec::new(),
            buffers: Default::default(),
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
        let channels = routes.between(tier, HBM);
        let laws = || channels.iter().map(|channel| hardware.channel_law(*channel));
        let width = laws().map(|law| law.rate).min();
        let setup: Span = laws().map(|law| law.setup).sum();
        (channels.len(), Reverse(width), setup, tier)
    });
    Ok(nodes)
}

/// A list of tiers in which one node stands for all, and what comes behind them.
fn pooled(spill: &[TierId], nodes: &[TierId]) -> (Vec<TierId>, Vec<TierId>) {
    let Some(first) = spill.iter().position(|tier| nodes.contains(tier)) else {
        return (spill.to_vec(), Vec::new());
    };
    let behind = spill[first..].iter().filter(|tier| !nodes.contains(tier));
    let outer: Vec<TierId> = behind.copied().collect();
    let pool = spill[..first].iter().chain(nodes).chain(&outer).copied().collect();
    (pool, outer)
}
