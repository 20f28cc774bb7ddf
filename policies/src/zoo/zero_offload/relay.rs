//! Store and forward: what is fetched from beyond a tier is put together there before it goes on.
//!
//! A copy over several links goes in chunks, and the links work at the same time. A library that
//! reads files into pinned buffers and copies from those to the device cannot do that: an object
//! must be in the buffer as a whole. So each fetch from beyond the relay becomes two copies, and
//! the buffer is free again when the second has ended. The policy inside decides all else.
//! Invariant: an object for which the relay has no room goes straight, so nothing fails for its
//! sake.

use crate::policy::{Action, Policy, Sight};
use crate::state::State;
use crate::step::Step;
use crate::view::View;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};

/// A policy whose fetches to HBM stop over in a tier.
pub(super) struct Relayed {
    inner: Box<dyn Policy>,
    relay: TierId,
}

impl Relayed {
    pub(super) fn new(inner: Box<dyn Policy>, relay: TierId) -> Relayed {
        Relayed { inner, relay }
    }

    /// Whether a fetch of the object stops over.
    fn stops(&self, object: ObjectId, view: &View<'_>) -> bool {
        view.is_exact(self.relay)
            && !view.has_room(object, self.relay)
            && !view.in_hbm(object)
            && view.fits(self.relay, view.object(object).bytes)
    }
}

impl Policy for Relayed {
    fn keeps_to(&self) -> Option<&[TierId]> {
        self.inner.keeps_to()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn sight(&self) -> Sight {
        self.inner.sight()
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.inner.initial_tier(object, view)
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.inner.allocate_in(object, view)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let mut inner = Step::new(view);
        self.inner.plan_op(&mut inner);
        let (asked, refused) = inner.done();
        step.refuse(refused);
        // What leaves for the relay before the same op may take the room that a stop would need.
        let full = asked.iter().any(|a| matches!(a, Action::Evict { to, .. } if *to == self.relay));
        for action in asked {
            let (Action::Fetch { object, to } | Action::Prefetch { object, to }) = action else {
                step.take(action);
                continue;
            };
            if full || to != HBM || !self.stops(object, view) {
                step.take(action);
                continue;
            }
            step.fetch(object, self.relay);
            step.take(action);
            // The room is given back when the copy to HBM has ended. A prefetch may be given up.
            step.drop_copy(object, self.relay);
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        self.inner.spill_tier(object, view)
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        self.inner.make_room(view, tier)
    }

    fn host(&self) -> &[TierId] {
        self.inner.host()
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        let Relayed { inner, relay: _ } = self;
        inner.state(view, out)
    }

    fn leave_out(&mut self, replays: u64) {
        self.inner.leave_out(replays);
    }
}
