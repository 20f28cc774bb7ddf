//! Pieces of copies.

use tiersim_policies::command::Ticket;
use tiersim_policies::state::remember;
use tiersim_policies::transit::HopPiece;

/// Part of a copy on one of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) ticket: Ticket,
    pub(crate) part: HopPiece,
}

remember! { Piece { ticket, part }; }

impl Piece {
    /// Whether both are the same piece of the same copy.
    pub(crate) fn is(&self, other: Piece) -> bool {
        let name = |piece: &Piece| (piece.ticket, piece.part.hop, piece.part.number);
        name(self) == name(&other)
    }
}
