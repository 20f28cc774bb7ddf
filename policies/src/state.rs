//! The state of a plan as words, to see whether it is the same again one or several replays later.
//!
//! Two moments of a run with the same words have the same future: what is written is everything
//! that can influence it, relative to the moment (ops to the next op of the run, tickets to the
//! next ticket, times to now), and nothing else. All words are compared, never a hash of them.
//! Invariant: a list is written with its length and a choice with its number, so different states
//! have different words.

use crate::command::{Allocating, Allocation, Command, ObjectAccess, Ticket, Work};
use smallvec::{Array, SmallVec};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tiersim_models::collective::Exchange;
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::outstanding::Traffic;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Mode;

/// The words of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    words: Vec<u64>,
    occurrence: u64,
    horizon: u64,
    /// Commands under way, each with how many have been issued since.
    commands: BTreeMap<Ticket, u64>,
    /// The moment that times are relative to, and the command that a machine is given next.
    now: Time,
    next: Option<Ticket>,
}

impl State {
    /// Nothing written; op `occurrence` of the run comes next.
    pub fn new(occurrence: u64) -> State {
        State { occurrence, ..State::default() }
    }

    /// What was written.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many ops ahead something looks.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The op of the run that comes next.
    pub fn next_op(&self) -> u64 {
        self.occurrence
    }

    /// From here on times are written relative to `now`, and commands relative to `next`.
    pub fn relative_to(&mut self, now: Time, next: Ticket) {
        (self.now, self.next) = (now, Some(next));
    }

    /// The moment that times are relative to.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Writes a number.
    pub fn word(&mut self, word: u64) {
        self.words.push(word);
    }

    /// Writes a number of 128 bits.
    pub fn wide(&mut self, word: u128) {
        self.words.extend([word as u64, (word >> 64) as u64]);
    }

    /// Writes a size.
    pub fn bytes(&mut self, bytes: Bytes) {
        self.word(bytes.get());
    }

    /// Writes yes or no.
    pub fn flag(&mut self, flag: bool) {
        self.word(flag.into());
    }

    /// Writes an op of the run as its distance from the one that comes next.
    pub fn op(&mut self, occurrence: u64) {
        self.word(occurrence.wrapping_sub(self.occurrence));
    }

    /// The same for ops of the run that are counted from 1; 0 is none.
    pub fn op_from_1(&mut self, number: u64) {
        self.flag(number > 0);
        self.op(if number > 0 { number } else { self.occurrence });
    }

    /// The same for an op of the past of which only matters whether it is more than `most` ops
    /// back.
    pub fn recent_op(&mut self, occurrence: u64, most: u64) {
        self.word(self.occurrence.saturating_sub(occurrence).min(most.saturating_add(1)));
    }

    /// The same for an op of which only matters how far ahead it is: 0 if it is not.
    pub fn coming_op(&mut self, occurrence: u64) {
        self.word(occurrence.saturating_sub(self.occurrence));
    }

    /// The same for the next use of something: there may be none known, or never one again, which
    /// is [`u64::MAX`].
    pub(crate) fn next_use(&mut self, occurrence: Option<u64>) {
        self.word(occurrence.map_or(0, |at| if at == u64::MAX { 1 } else { 2 }));
        self.op(occurrence.filter(|&at| at != u64::MAX).unwrap_or(self.occurrence));
    }

    /// Writes an op of the run and something of it.
    pub(crate) fn of_op<T: Remembered>(&mut self, (occurrence, what): (u64, T)) {
        self.op(occurrence);
        what.state(self);
    }

    /// Writes the second of two, where the first says no more than the order.
    pub(crate) fn second<A, T: Remembered>(&mut self, (_, what): (A, T)) {
        what.state(self);
    }

    /// Commands are written by how far back they were issued, and only these: whoever names one
    /// that has ended waits for nothing.
    pub(crate) fn know_commands(&mut self, under_way: impl Iterator<Item = (Ticket, u64)>) {
        self.commands = under_way.collect();
    }

    /// Whether a command is under way.
    pub(crate) fn is_under_way(&self, ticket: Ticket) -> bool {
        self.commands.contains_key(&ticket)
    }

    /// Writes those items whose command is under way, in their order.
    pub(crate) fn under_way<'a, T: OfCommand + 'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a T>,
    ) {
        let open = |item: &&T| self.is_under_way(item.ticket());
        let items: SmallVec<[&T; 4]> = items.into_iter().filter(open).collect();
        self.list(items, |state, item| item.state(state));
    }

    /// The same for each of several lists.
    pub(crate) fn each_under_way<'a, T: OfCommand + 'a, I: IntoIterator<Item = &'a T>>(
        &mut self,
        lists: impl IntoIterator<Item = I>,
    ) {
        self.list(lists, State::under_way);
    }

    /// Writes all items of a list, in their order.
    pub fn list<I: IntoIterator>(&mut self, items: I, mut each: impl FnMut(&mut State, I::Item)) {
        let length = self.words.len();
        self.words.push(0);
        let mut count = 0;
        for item in items {
            each(self, item);
            count += 1;
        }
        self.words[length] = count;
    }

    /// What follows depends on no op more than `ops` ahead: that the run ends there or later makes
    /// no difference.
    pub fn looks_ahead(&mut self, ops: u64) {
        self.horizon = self.horizon.max(ops);
    }
}

/// Writes the fields of a struct: `remember!(out, self as Lru { order } skip { capacity })`; or has
/// structs be [`Remembered`] so: `remember! { Hop { end }; Transit { hops } skip { chunk }; }`.
///
/// A field is written as it is [`Remembered`], or each item of it by the function of [`State`]
/// behind its name and a colon, or all of it by the one behind an arrow. To skip is what is the
/// same throughout, follows from the others, or is written by hand: a field that is in neither list
/// does not compile.
#[macro_export]
macro_rules! remember {
    ($out:ident, $self:ident as $type:ident
        { $($field:ident $(: $how:ident)? $(=> $whole:ident)?),* $(,)? }
        $(skip { $($skipped:ident),+ $(,)? })?) => {
        #[allow(unused_imports)]
        use $crate::state::Remembered as _;
        let $type { $($field,)* $($($skipped: _,)+)? } = $self;
        $($crate::remember!(@ $out, $field $($how)? $(=> $whole)?);)*
    };
    (@ $out:ident, $field:ident) => { $field.state($out) };
    (@ $out:ident, $field:ident => $whole:ident) => { $out.$whole($field) };
    (@ $out:ident, $field:ident $how:ident) => {
        $out.list($field.iter().copied(), $crate::state::State::$how)
    };
    ($($type:ident { $($field:ident $(: $how:ident)? $(=> $whole:ident)?),* $(,)? }
        $(skip { $($skipped:ident),+ $(,)? })?;)+) => {$(
        impl $crate::state::Remembered for $type {
            fn state(&self, out: &mut $crate::state::State) {
                $crate::remember!(out, self as $type { $($field $(: $how)? $(=> $whole)?),* }
                    $(skip { $($skipped),+ })?);
            }
        }
    )+};
}
pub use remember;

/// What can be written into a state.
pub trait Remembered {
    /// Writes it.
    fn state(&self, out: &mut State);
}

/// What names a command.
pub(crate) trait OfCommand: Remembered {
    fn ticket(&self) -> Ticket;
}

impl OfCommand for Ticket {
    fn ticket(&self) -> Ticket {
        *self
    }
}

impl<T: Remembered> OfCommand for (T, Ticket) {
    fn ticket(&self) -> Ticket {
        self.1
    }
}

macro_rules! words {
    ($($type:ty: |$value:ident, $out:ident| $word:expr;)+) => {$(
        impl Remembered for $type {
            fn state(&self, $out: &mut State) {
                let $value = *self;
                let word = $word;
                $out.word(word);
            }
        }
    )+};
}

words! {
    u8: |number, out| number.into();
    u16: |number, out| number.into();
    u32: |number, out| number.into();
    u64: |number, out| number;
    usize: |number, out| number as u64;
    f64: |number, out| number.to_bits();
    bool: |flag, out| flag.into();
    Bytes: |bytes, out| bytes.get();
    Span: |span, out| span.ps();
    Time: |at, out| at.ps().wrapping_sub(out.now.ps());
    TierId: |tier, out| tier.0.into();
    ObjectId: |object, out| object.0.into();
    OpId: |op, out| op.0.into();
    Mode: |mode, out| u64::from(mode.reads()) + 2 * u64::from(mode.writes());
    Ticket: |ticket, out| match out.next {
        Some(next) => (next.0 - ticket.0).into(),
        None => out.commands.get(&ticket).copied().unwrap_or(0),
    };
}

remember! {
    Traffic { read, written };
    Exchange { bytes, steps, latency };
    ObjectAccess { object, tier, mode, written };
    Allocation { object, tier, bytes };
    Allocating { thread, device };
    // Its edges are where the machine keeps them: in counts and waiters.
    Command { work, allocates, frees } skip { ticket, after };
}

impl Remembered for Work {
    fn state(&self, out: &mut State) {
        match self {
            Work::Compute { occurrence, stream, touches, charges, delay, allocating } => {
                out.word(0);
                out.op(*occurrence);
                (stream, touches, charges).state(out);
                (delay, allocating).state(out);
            }
            Work::Copy { object, bytes, from, to } => {
                (1u8, object, bytes).state(out);
                (from, to).state(out);
            }
            Work::Compact { tier, bytes, objects } => {
                (2u8, tier, bytes).state(out);
                objects.state(out);
            }
            Work::Release => out.word(3),
        }
    }
}

impl<T: Remembered> Remembered for Option<T> {
    fn state(&self, out: &mut State) {
        out.flag(self.is_some());
        self.iter().for_each(|value| value.state(out));
    }
}

macro_rules! lists {
    ($($type:ty;)+) => {$(
        impl<T: Remembered> Remembered for $type {
            fn state(&self, out: &mut State) {
                out.list(self, |out, item| item.state(out));
            }
        }
    )+};
}

lists! {
    [T];
    [T; 2];
    Vec<T>;
    VecDeque<T>;
    BTreeSet<T>;
}

impl<A: Array<Item: Remembered>> Remembered for SmallVec<A> {
    fn state(&self, out: &mut State) {
        self.as_slice().state(out);
    }
}

impl<T: Remembered + ?Sized> Remembered for Box<T> {
    fn state(&self, out: &mut State) {
        (**self).state(out);
    }
}

impl<T: Remembered + ?Sized> Remembered for &T {
    fn state(&self, out: &mut State) {
        (**self).state(out);
    }
}

impl<K: Remembered, V: Remembered> Remembered for BTreeMap<K, V> {
    fn state(&self, out: &mut State) {
        out.list(self, |out, entry| entry.state(out));
    }
}

impl<A: Remembered, B: Remembered> Remembered for (A, B) {
    fn state(&self, out: &mut State) {
        self.0.state(out);
        self.1.state(out);
    }
}

impl<A: Remembered, B: Remembered, C: Remembered> Remembered for (A, B, C) {
    fn state(&self, out: &mut State) {
        (&self.0, &self.1).state(out);
        self.2.state(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_different_lengths_have_different_words() {
        let words = |lists: &[&[u64]]| {
            let mut state = State::new(0);
            for list in lists {
                state.list(*list, |state, &word| state.word(word));
            }
            state.words().to_vec()
        };
        assert_ne!(words(&[&[1, 2], &[]]), words(&[&[1], &[2]]));
        assert_ne!(words(&[&[], &[]]), words(&[&[]]));
        assert_eq!(words(&[&[7, 8]]), [2, 7, 8]);
    }

    #[test]
    fn ops_are_the_same_at_the_same_distance() {
        let words = |now: u64| {
            let mut state = State::new(now);
            state.op(now - 3);
            state.op_from_1(now - 3);
            state.recent_op(now - 30, 20);
            state.coming_op(now + 5);
            state.coming_op(now - 5);
            state.words().to_vec()
        };
        assert_eq!(words(100), words(1_000));
        let never = |now: u64| {
            let mut state = State::new(now);
            state.op_from_1(0);
            state.words().to_vec()
        };
        assert_eq!(never(100), never(1_000));
        let at = |number: u64| {
            let mut state = State::new(100);
            state.op_from_1(number);
            state.words().to_vec()
        };
        assert_ne!(at(0), at(100));
        assert_ne!(at(1), at(2));
    }
}
