//! Pieces of copies, and the moment that the state of a machine is relative to.

use tiersim_models::units::Time;
use tiersim_policies::command::Ticket;
use tiersim_policies::state::State;
use tiersim_policies::transit::Part;

/// Part of a copy on one of its lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) ticket: Ticket,
    pub(crate) part: Part,
}

impl Piece {
    /// Whether both are the same piece of the same copy.
    pub(crate) fn is(&self, other: Piece) -> bool {
        let name = |piece: &Piece| (piece.ticket, piece.part.hop, piece.part.number);
        name(self) == name(&other)
    }
}

/// The moment that times and tickets are relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    /// The number of the command that is issued next.
    pub(crate) ticket: u32,
    /// Before this nobody was idle who is so now.
    pub(crate) idle_since: Time,
}

impl Moment {
    /// Writes a time of the past or to come.
    pub(crate) fn time(self, at: Time, out: &mut State) {
        out.word(at.ps().wrapping_sub(self.now.ps()));
    }

    /// Writes which command it is.
    pub(crate) fn ticket(self, ticket: Ticket, out: &mut State) {
        out.word((self.ticket - ticket.0).into());
    }

    /// Writes a part of a copy.
    pub(crate) fn piece(self, piece: Piece, out: &mut State) {
        let Piece { ticket, part: Part { hop, number, from, bytes } } = piece;
        self.ticket(ticket, out);
        for word in [hop as u64, number.into(), from.get(), bytes.get()] {
            out.word(word);
        }
    }
}
