//! Whether ops pay for what they use outside HBM.
//!
//! A policy says what an op is charged with, and may say less than its uses cost: such a run is no
//! prediction. It is seen here, of any policy, and not taken from what the policy says of itself.
//! Invariant: nothing is decided by it.

use crate::command::ObjectAccess;
use crate::planner::Planner;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::OpId;

impl Planner<'_> {
    /// Whether some op used objects outside HBM without paying for every use of them.
    pub fn is_unpaid(&self) -> bool {
        self.unpaid
    }

    /// Whether what the op is charged with covers what it touches outside HBM, tier by tier; the
    /// host's own memory costs its ops nothing.
    pub(super) fn pays(&self, op: OpId, touches: &[ObjectAccess]) -> bool {
        let outside = |access: &&ObjectAccess| access.tier != HBM;
        if !touches.iter().any(|access| outside(&access)) || self.is_on_host(op) {
            return true;
        }
        let mut owed = [0u128; MAX_TIERS];
        for (used, access) in self.workload.trace.uses_of(op).iter().zip(touches) {
            if outside(&access) {
                let whole = self.workload.trace.objects[access.object.index()].bytes;
                let bytes = self.ledger.room_of(access.object, access.tier, used.charged(whole));
                owed[access.tier.index()] += u128::from(bytes.get());
            }
        }
        for (tier, bytes) in &self.charges {
            owed[tier.index()] = owed[tier.index()].saturating_sub(bytes.get().into());
        }
        owed.iter().all(|bytes| *bytes == 0)
    }
}
