//! Pieces of copies, and the moment that the state of a machine is relative to.
//!
//! Invariant: a struct whose state is written by [`remember!`] is taken apart field by field: one
//! that is neither written nor said not to matter does not compile.

use smallvec::{Array, SmallVec};
use std::collections::{BTreeMap, VecDeque};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::outstanding::Traffic;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_policies::command::Ticket;
use tiersim_policies::state::State;
use tiersim_policies::transit::HopPiece;

/// Part of a copy on one of its channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) ticket: Ticket,
    pub(crate) part: HopPiece,
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
}

/// What is written into the state of a machine, relative to a moment.
pub(super) trait Remembered {
    fn state(&self, moment: Moment, out: &mut State);
}

/// Writes the state of a struct: the fields that matter, and those that do not (`skip`), as they
/// never change, follow from others or are only counted.
macro_rules! remember {
    ($($type:ident { $($field:ident),+ } $(skip { $($skipped:ident),+ })?;)+) => {$(
        impl $crate::machine::moment::Remembered for $type {
            fn state(&self, moment: Moment, out: &mut State) {
                #[allow(unused_imports)]
                use $crate::machine::moment::Remembered as _;
                let $type { $($field,)+ $($($skipped: _,)+)? } = self;
                $($field.state(moment, out);)+
            }
        }
    )+};
}
pub(super) use remember;

macro_rules! words {
    ($($type:ty: |$value:ident, $moment:ident| $word:expr;)+) => {$(
        impl Remembered for $type {
            fn state(&self, $moment: Moment, out: &mut State) {
                let $value = *self;
                out.word($word);
            }
        }
    )+};
}

words! {
    bool: |flag, _moment| flag.into();
    u32: |number, _moment| number.into();
    u64: |number, _moment| number;
    usize: |number, _moment| number as u64;
    ObjectId: |object, _moment| object.0.into();
    TierId: |tier, _moment| tier.0.into();
    Bytes: |bytes, _moment| bytes.get();
    Span: |span, _moment| span.ps();
    Time: |at, moment| at.ps().wrapping_sub(moment.now.ps());
    Ticket: |ticket, moment| (moment.ticket - ticket.0).into();
}

remember! {
    Piece { ticket, part };
    HopPiece { hop, number, from, bytes };
    Traffic { read, written };
}

impl<A: Remembered, B: Remembered> Remembered for (A, B) {
    fn state(&self, moment: Moment, out: &mut State) {
        self.0.state(moment, out);
        self.1.state(moment, out);
    }
}

impl<A: Remembered, B: Remembered, C: Remembered> Remembered for (A, B, C) {
    fn state(&self, moment: Moment, out: &mut State) {
        let (one, two, three) = self;
        one.state(moment, out);
        two.state(moment, out);
        three.state(moment, out);
    }
}

impl<T: Remembered> Remembered for [T] {
    fn state(&self, moment: Moment, out: &mut State) {
        out.list(self, |out, item| item.state(moment, out));
    }
}

impl<A: Array<Item: Remembered>> Remembered for SmallVec<A> {
    fn state(&self, moment: Moment, out: &mut State) {
        self.as_slice().state(moment, out);
    }
}

impl<T: Remembered> Remembered for VecDeque<T> {
    fn state(&self, moment: Moment, out: &mut State) {
        out.list(self, |out, item| item.state(moment, out));
    }
}

impl<T: Remembered> Remembered for BTreeMap<Ticket, T> {
    fn state(&self, moment: Moment, out: &mut State) {
        out.list(self, |out, (ticket, item)| {
            ticket.state(moment, out);
            item.state(moment, out);
        });
    }
}
