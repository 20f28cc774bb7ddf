//! Where requests find keys and values that were computed for others.
//!
//! Counted when the op that reads them first comes, before its policy acts for it: in the nearest
//! tier that holds them. A policy that sees ahead may have brought them nearer by then.
//! Invariant: each reuse of the plan is counted once, as the replays of such a trace are one.

use crate::planner::Planner;
use tiersim_models::ids::OpId;
use tiersim_models::results::served::PrefixHits;

impl Planner<'_> {
    /// What requests have found so far.
    pub fn found(&self) -> &PrefixHits {
        &self.found
    }

    pub(super) fn find_reuses(&mut self, op: OpId) {
        let Some(plan) = &self.workload.serving else { return };
        let (ledger, found) = (&self.ledger, &mut self.found);
        while let Some(reuse) = plan.reuses.get(self.next_reuse).filter(|reuse| reuse.op <= op) {
            self.next_reuse += 1;
            let bytes = self.workload.trace.objects[reuse.object.index()].bytes.get();
            match ledger.nearest(reuse.object) {
                None => found.in_the_op += bytes,
                Some(tier) => {
                    let tiers = found.tiers.len().max(tier.index() + 1);
                    found.tiers.resize(tiers, 0);
                    found.tiers[tier.index()] += bytes;
                }
            }
        }
    }
}
