//! What [`super::super::clairvoyant_offload`] is told about the ops of a step.
//!
//! The other half of the plans: copies are decided op by op, but some objects are used where they
//! are, and some are not copied out early. Where all steps of a trace are the same, that is told
//! for one of them.
//! Invariant: without orders, the policy as it is, but that it learns from copies in vain.

#[cfg(feature = "lp")]
use crate::bound::alike_steps;
use crate::zoo::clairvoyant_offload::{Told, Uses};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;

/// Uses in a step: the row of the object of the first step that does the same, and the op of the
/// step.
pub(super) type StepUses = BTreeSet<(u32, u32)>;

/// Orders for every step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// Uses of objects where they are.
    pub(super) in_place: StepUses,
    /// Uses behind which an object's contents are not copied out early.
    pub(super) kept: StepUses,
}

/// The steps of a trace that are all the same, or all of it.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// Ops of a step.
    pub(super) ops: u32,
    /// By row of the trace: the object of the first step that does the same.
    pub(super) like: Vec<u32>,
}

impl Steps {
    #[cfg(feature = "lp")]
    pub(super) fn new(workload: &Workload) -> Steps {
        let (ops, like) = alike_steps(workload);
        Steps { ops, like }
    }

    fn of_step(&self, object: ObjectId, op: OpId) -> (u32, u32) {
        (self.like[object.index()], op.0 % self.ops)
    }

    /// What the policy is told, and where it says what was of no use.
    pub(super) fn told(
        &self,
        workload: &Workload,
        orders: &Orders,
        wasted: Option<Arc<Mutex<Uses>>>,
    ) -> Told {
        let trace = &workload.trace;
        let ops = (0..trace.ops.len()).map(OpId::at);
        let uses = ops.flat_map(|op| trace.uses_of(op).iter().map(move |used| (used.object, op)));
        // A plan is tried before it is kept, so what learning does to it is seen.
        let mut told = Told { wasted, learns: true, ..Told::default() };
        for (object, op) in uses {
            let own = self.of_step(object, op);
            if orders.in_place.contains(&own) {
                told.in_place.insert((object, op));
            }
            if orders.kept.contains(&own) {
                told.kept.insert((object, op));
            }
        }
        told
    }

    /// The same uses, of a step.
    #[cfg(feature = "lp")]
    pub(super) fn of_steps(&self, uses: &Uses) -> StepUses {
        uses.iter().map(|&(object, op)| self.of_step(object, op)).collect()
    }
}
