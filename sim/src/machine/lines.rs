//! Who is served when on a channel that serves one piece after the other: lines and turns.
//!
//! Copies between the same two tiers of one device are one *line*: they are let in and served in
//! the order of submission, as the copies of one stream of a real device are. Lines with a piece
//! ready take turns, in the order in which they became ready. A turn is one piece, or one chunk of
//! a larger one if another line waits. Nothing is cut while nobody waits: a piece is given the time
//! for all its bytes, and its end is set to the next boundary between chunks when another line
//! comes.
//! Invariant: the time that a piece is served until so many bytes have crossed is the same in one
//! turn and in many, to the picosecond.

use super::moment::Piece;
use crate::engine::EventId;
use smallvec::SmallVec;
use std::collections::VecDeque;
use tiersim_models::units::{Bytes, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::remember;

/// The name of a line: from where, to where, of which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineName {
    pub(crate) number: u32,
}

/// A piece that waits for its turn, and how much of it has crossed in turns before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) piece: Piece,
    pub(super) crossed: Bytes,
}

/// A piece under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) piece: Piece,
    /// How much of it had crossed before this turn.
    pub(super) crossed: Bytes,
    /// How much of it will have crossed when its event comes.
    pub(super) until: Bytes,
    pub(super) since: Time,
    /// When its event comes.
    pub(super) end: Time,
    pub(super) event: EventId,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: LineName,
    /// Copies in the order of submission that were not let in yet.
    pub(super) gate: VecDeque<Ticket>,
    /// Pieces to copy, those of the first submitted copy first.
    pub(super) ready: VecDeque<Waiting>,
}

/// The lines of a channel, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) lines: SmallVec<[Line; 2]>,
    /// Lines with a piece ready, in turn.
    pub(super) turns: VecDeque<usize>,
    /// Whom the channel serves.
    pub(super) served: SmallVec<[Served; 1]>,
}

remember! {
    LineName { number };
    Lines { lines, turns, served };
    Line { name, gate, ready };
    Waiting { piece, crossed };
    Served { piece, crossed, until, since, line } skip { end, event };
}

impl Lines {
    pub(super) fn line(&mut self, name: LineName) -> usize {
        let known = self.lines.iter().position(|line| line.name == name);
        known.unwrap_or_else(|| {
            let (gate, ready) = (VecDeque::new(), VecDeque::new());
            self.lines.push(Line { name, gate, ready });
            self.lines.len() - 1
        })
    }

    /// The copies of a line that were not let in yet.
    pub(super) fn gate(&mut self, name: LineName) -> &mut VecDeque<Ticket> {
        let line = self.line(name);
        &mut self.lines[line].gate
    }

    /// A piece is ready.
    pub(super) fn join(&mut self, name: LineName, waiting: Waiting) {
        let line = self.line(name);
        self.wait(line, waiting);
    }

    pub(super) fn wait(&mut self, line: usize, waiting: Waiting) {
        let ready = &mut self.lines[line].ready;
        let before = |other: &Waiting| other.piece.ticket < waiting.piece.ticket;
        let place = ready.iter().rposition(before).map_or(0, |before| before + 1);
        ready.insert(place, waiting);
        if ready.len() == 1 {
            self.turns.push_back(line);
        }
    }

    /// Takes the piece whose turn it is; and whether another line waits.
    pub(super) fn next(&mut self) -> Option<(Waiting, bool)> {
        let line = self.turns.pop_front()?;
        let next = self.lines[line].ready.pop_front().expect("it is ready");
        let others = !self.turns.is_empty();
        if !self.lines[line].ready.is_empty() {
            self.turns.push_back(line);
        }
        Some((next, others))
    }

    /// Notes who is served.
    pub(super) fn serve(&mut self, name: LineName, of: Waiting, at: (Bytes, Time, Time, EventId)) {
        let (Waiting { piece, crossed }, line) = (of, self.line(name));
        let (until, since, end, event) = at;
        self.served.push(Served { piece, crossed, until, since, end, event, line });
    }

    /// The event of a piece under way has come: its turn ends, unless it goes on
    /// ([`Lines::goes_on`]).
    pub(super) fn comes(&mut self, piece: Piece) -> Served {
        let place = self.served.iter().position(|served| served.piece.is(piece));
        self.served.remove(place.expect("it is under way"))
    }

    /// Whether another line than that of `served` waits.
    pub(super) fn others_wait(&self, served: &Served) -> bool {
        self.turns.iter().any(|&line| line != served.line)
    }

    /// A turn goes on until all has crossed.
    pub(super) fn goes_on(&mut self, served: Served, (end, event): (Time, EventId)) {
        self.served.push(Served { until: served.piece.part.bytes, end, event, ..served });
    }

    /// Whoever is served to the end, though this line waits.
    pub(super) fn in_the_way(&mut self, name: LineName) -> impl Iterator<Item = &mut Served> {
        let waits = self.line(name);
        let uncut = |served: &&mut Served| served.until == served.piece.part.bytes;
        self.served.iter_mut().filter(move |served| served.line != waits).filter(uncut)
    }

    /// A turn is over; what is left of the piece waits for the next one.
    pub(super) fn over(&mut self, served: &Served) {
        if let Some(place) = self.turns.iter().position(|&line| line == served.line) {
            self.turns.remove(place);
            self.turns.push_back(served.line);
        }
        if served.until < served.piece.part.bytes {
            self.wait(served.line, Waiting { piece: served.piece, crossed: served.until });
        }
    }
}
