//! What the planner does for an op on the CPU: its objects are used in memory of the
//! host, and what it overwrites whole need not be copied there.
//!
//! Invariant: an op of the device is planned as if nothing here existed.

use crate::action::{Found, Refusal};
use crate::command::{Edges, Hazard, add_edge};
use crate::plan_error::PlanError;
use crate::planner::Planner;
use smallvec::SmallVec;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::workload::{Mode, Unit};

impl Planner<'_> {
    /// Whether an op runs on the host's processors.
    pub(super) fn is_on_host(&self, op: OpId) -> bool {
        self.workload.trace.ops[op.index()].unit == Unit::Cpu
    }

    fn held_by_host(&self, object: ObjectId) -> Option<TierId> {
        let holders = self.ledger.tiers_of(object);
        holders.into_iter().find(|tier| self.host.contains(tier))
    }

    /// What an op on the CPU overwrites whole and the host does not hold: its contents are lost,
    /// so it is created anew.
    pub(super) fn overwritten(&self, op: OpId) -> SmallVec<[ObjectId; 2]> {
        if !self.is_on_host(op) {
            return SmallVec::new();
        }
        let uses = self.workload.trace.uses_of(op).iter();
        let written = uses.filter(|touched| touched.mode == Mode::Write).map(|used| used.object);
        let lost =
            |&object: &ObjectId| self.ledger.exists(object) && self.held_by_host(object).is_none();
        written.filter(lost).collect()
    }

    /// Gives up every room of an object. What overwrites it comes behind what wrote it, though not
    /// in the same place.
    pub(super) fn forget(&mut self, object: ObjectId, after: &mut Edges) {
        let valid = self.ledger.slots(object).iter().filter(|slot| slot.valid);
        for filled in valid.filter_map(|slot| slot.filled) {
            if !self.tickets.covered(filled.ticket, self.stream) {
                add_edge(after, filled.ticket, Hazard::WriteAfterRead);
            }
        }
        while let Some(tier) = self.ledger.slots(object).first().map(|slot| slot.tier) {
            self.give_up(object, tier);
        }
    }

    /// Where the op uses an object: in memory of the host if it runs there; else in HBM, or where
    /// it is if the policy said so or bore it there.
    pub(super) fn tier_of_use(&self, op: OpId, object: ObjectId) -> Result<TierId, PlanError> {
        let name = || &self.workload.trace.objects[object.index()].name;
        if self.is_on_host(op) {
            return self.held_by_host(object).ok_or_else(|| {
                self.refused(Refusal {
                    found: Found::Words(format!("object {} elsewhere", name())),
                    rule: "what an op on the CPU uses must be in the host's memory",
                    remedy: "copy it there before the op",
                })
            });
        }
        let nearest = self.ledger.nearest(object).expect("an object that is used exists");
        let allowed = nearest == HBM
            || self.in_place.contains(&object)
            || self.workload.births(op).contains(&object);
        if allowed {
            return Ok(nearest);
        }
        Err(self.refused(Refusal {
            found: Found::Words(format!("object {} outside HBM without use in place", name())),
            rule: "what an op uses must be in HBM when it begins, or be used in place",
            remedy: "fetch it, or use it in place",
        }))
    }
}
