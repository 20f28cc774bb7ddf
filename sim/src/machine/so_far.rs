//! What was measured up to a moment, with the part of it that is still under way.
//!
//! The meters count a piece when it has crossed its lane, and the time that a lane was busy when
//! something leaves it. Between two moments that is not what happened between them: a copy of a
//! minute that ends behind the first of them would all be counted there. So at such a moment what
//! has gone so far is added, by the time that has passed of a piece's own, and by the bytes that a
//! flow has sent.
//! Invariant: between two moments no lane is busy for longer than the time between them, and no
//! bytes are counted that its rate does not allow in that time.

use super::SimMachine;
use super::meters::Meters;
use super::sharing::{Cargo, Flight};
use tiersim_models::units::Bytes;
use tiersim_policies::command::Ticket;

impl SimMachine<'_> {
    /// What was measured until now, copies and exchanges under way included for the part that has
    /// gone.
    pub fn so_far(&self) -> Meters {
        let now = self.engine.now();
        let mut all = self.meters.clone();
        for (index, lane) in self.lanes.iter().enumerate() {
            let kind = self.ranks.kind(index);
            if lane.busy + lane.crossing > 0 && self.ranks.instances.is_first(index) {
                all.busy[kind] += now.since(lane.counted);
            }
            for served in &lane.lines.served {
                // What others in the memory make it take longer comes first: its bytes begin to go
                // then.
                let gone = self.gone(index, served);
                self.has_gone(served.piece.ticket, [index], (gone, true), &mut all);
            }
        }
        let flows = self.sharing.iter().flat_map(|sharing| sharing.under_way(now));
        for (&Flight { cargo, .. }, lanes, left) in flows {
            let (ticket, bytes, copied) = match cargo {
                Cargo::Piece(piece) => (piece.ticket, piece.part.bytes, true),
                Cargo::Sent { op, bytes } => (op, bytes, false),
                Cargo::Use { .. } => continue,
            };
            let gone = Bytes::new(bytes.get().saturating_sub(left.get()));
            self.has_gone(ticket, lanes.iter().copied(), (gone, copied), &mut all);
        }
        all
    }

    fn has_gone(
        &self,
        entry: Ticket,
        lanes: impl IntoIterator<Item = usize>,
        (bytes, copied): (Bytes, bool),
        all: &mut Meters,
    ) {
        for lane in lanes.into_iter().filter(|_| self.ranks.is_first(entry)) {
            let kind = self.ranks.kind(lane);
            all.moved[kind] += bytes;
            if copied {
                all.copied[kind] += bytes;
            }
        }
    }
}
