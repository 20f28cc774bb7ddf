//! What ops within the lookahead will use: the window that slides along the trace.
//!
//! Invariant: a use within the window is wanted until it is fetched or its object is there, and
//! again once that has left before it.

use super::StaticPlacement;
use crate::access::Access;
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::ObjectId;
use tiersim_models::units::Bytes;

impl StaticPlacement {
    /// Slides the window: learns the uses of the op that has come into the lookahead.
    pub(super) fn look_ahead(&mut self, prefetch_ops: u32, view: &View<'_>) {
        let window = u64::from(prefetch_ops);
        let anew = std::mem::take(&mut self.rescan) || view.occurrence() == 0;
        let first = if anew { 0 } else { window };
        self.born -= self.births.pop_front().unwrap_or(Bytes::ZERO);
        if anew {
            self.births.clear();
            self.wanted.clear();
            self.born = Bytes::ZERO;
        }
        for ahead in first..=window {
            let Some(uses) = view.ahead(ahead) else { break };
            let births = view.births_ahead(ahead).unwrap_or(Bytes::ZERO);
            self.births.push_back(births);
            self.born += births;
            // A resident may yet have to leave, and its uses must be known then.
            let matters =
                |object: ObjectId| self.homes[object.index()] != HBM || !self.spill.is_empty();
            for touched in uses.iter().filter(|touched| matters(touched.object)) {
                let occurrence = view.occurrence() + ahead;
                self.needed_until[touched.object.index()] = occurrence;
                if ahead > 0 {
                    self.wanted.push_back((occurrence, touched.object));
                }
            }
        }
    }

    /// What leaves for want of room is wanted again for its next use, which may have come into the
    /// window while the object was in HBM.
    pub(super) fn want_again(&mut self, object: ObjectId, view: &View<'_>) {
        let Access::Migrate { prefetch_ops } = self.access else { return };
        let row = |ahead: u64, object| {
            let uses = view.ahead(ahead).unwrap_or_default();
            uses.iter().position(|touched| touched.object == object)
        };
        let mut window = 1..=u64::from(prefetch_ops);
        let Some(ahead) = window.find(|&ahead| row(ahead, object).is_some()) else { return };
        let next = (view.occurrence() + ahead, row(ahead, object));
        let of = |&(occurrence, object): &(u64, ObjectId)| match occurrence == next.0 {
            true => (occurrence, row(ahead, object)),
            false => (occurrence, None),
        };
        let at = self.wanted.partition_point(|wanted| of(wanted) < next);
        if self.wanted.get(at).map(of) != Some(next) {
            self.wanted.insert(at, (next.0, object));
        }
    }
}
