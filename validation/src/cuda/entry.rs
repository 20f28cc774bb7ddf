//! What a device's machine knows of a command under way: its marks, its rooms and its checks.
//!
//! Invariant: a command that is queued has its marks.

use crate::book;
use crate::cuda::allocations::{DeviceAllocation, Place};
use crate::cuda::findings::Watch;
use crate::cuda::mark::Mark;
use crate::real::Planned;
use smallvec::SmallVec;
use std::rc::Rc;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::Ticket;

/// Marks that others wait for.
pub(crate) type MarkList = SmallVec<[Rc<Mark>; 2]>;

/// A command under way.
pub(crate) type Entry = book::Entry<Own>;
/// All of them.
pub(crate) type Book = book::Book<Own>;

/// What only this machine knows of a command.
#[derive(Default)]
pub(crate) struct Own {
    /// How long an op is to last.
    pub(crate) planned: Planned,
    /// Where its touches are, or a copy's source and target.
    pub(crate) places: SmallVec<[Option<Rc<DeviceAllocation>>; 4]>,
    /// Room that it gives back.
    pub(crate) freed: SmallVec<[Rc<DeviceAllocation>; 4]>,
    /// What of it others wait for, once it is queued; its own end is the first.
    pub(crate) marks: MarkList,
    /// Where it starts on the device.
    pub(crate) start: Option<Rc<Mark>>,
    /// When it ended, of what the device has no mark of.
    pub(crate) over: Option<Time>,
    pub(crate) watches: SmallVec<[Watch; 4]>,
    /// Buffers between a copy's channels, made when they are first used.
    pub(crate) bounces: Vec<SmallVec<[Option<Place>; 4]>>,
    pub(crate) files: Files,
}

/// How far an op has come with the files that it uses in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Files {
    #[default]
    None,
    ToDo,
    Asked,
    /// They took this long.
    Done(Span),
}

impl Book {
    /// Marks of everything that a command waits for and that has not ended.
    pub(crate) fn waits(&self, ticket: Ticket) -> Vec<Rc<Mark>> {
        self.before(ticket).flat_map(|before| before.own.marks.iter().cloned()).collect()
    }

    /// A command has marks that others can wait for.
    pub(crate) fn marked(&mut self, ticket: Ticket, marks: MarkList) {
        self.entry_mut(ticket).own.marks = marks;
        self.queued(ticket);
    }
}
