//! What the simulated machine counts, from the start of the run; figures are differences.

use tiersim_models::units::{Bytes, Span};
use tiersim_policies::command::Room;

/// Running totals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meters {
    /// Bytes held, by tier.
    pub used: Vec<Bytes>,
    /// Most bytes ever held, by tier.
    pub peak: Vec<Bytes>,
    /// Bytes copied, by lane.
    pub moved: Vec<Bytes>,
    /// Time spent copying, by lane.
    pub busy: Vec<Span>,
    /// Time that streams stood still for a copy, by lane.
    pub stall: Vec<Span>,
    /// Delay for use in place, by tier.
    pub in_place: Vec<Span>,
    /// Time that ops computed, without delays.
    pub compute: Span,
}

impl Meters {
    pub(crate) fn new(tiers: usize, lanes: usize) -> Meters {
        Meters {
            used: vec![Bytes::ZERO; tiers],
            peak: vec![Bytes::ZERO; tiers],
            moved: vec![Bytes::ZERO; lanes],
            busy: vec![Span::ZERO; lanes],
            stall: vec![Span::ZERO; lanes],
            in_place: vec![Span::ZERO; tiers],
            compute: Span::ZERO,
        }
    }

    pub(crate) fn claim(&mut self, room: &Room) {
        let tier = room.tier.index();
        self.used[tier] += room.bytes;
        self.peak[tier] = self.peak[tier].max(self.used[tier]);
    }

    pub(crate) fn free(&mut self, room: &Room) {
        self.used[room.tier.index()] -= room.bytes;
    }
}
