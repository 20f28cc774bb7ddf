//! What a plan tells a machine to do, and what a machine is.
//!
//! A [`Machine`] honours the `after` edges and measures. It never validates and never decides: a
//! command whose edges are satisfied must simply work.
//! Invariant: tickets count up from 0 and edges only name earlier tickets, so no plan can deadlock.

use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Mode;

/// Names one command of a plan; counts up from 0 in planning order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u32);

/// Why one command must wait for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hazard {
    /// The data that a command needs must be there: arrival before use.
    ReadAfterWrite,
    /// Nobody may still use what is moved out, overwritten or given back: last use before
    /// eviction.
    WriteAfterRead,
    /// What was written back must be complete before it is fetched again.
    WriteBack,
    /// The room must be free: what leaves a tier before what enters it.
    Capacity,
    /// A decision takes effect when its op's turn comes: after the op before it on its stream.
    ///
    /// Not a hazard of data, but what makes a fetch on demand one: without it a copy would start
    /// as early as the plan is known.
    IssueOrder,
}

/// One `after` edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The command that must end first.
    pub ticket: Ticket,
    /// Why.
    pub hazard: Hazard,
}

/// What must end before a command starts.
pub type Edges = SmallVec<[Edge; 6]>;

/// The room of one object in one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Whose.
    pub object: ObjectId,
    /// Where.
    pub tier: TierId,
    /// How much.
    pub bytes: Bytes,
}

/// Where an op finds an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectAccess {
    /// The object.
    pub object: ObjectId,
    /// The tier in which the op uses it.
    pub tier: TierId,
    /// How.
    pub mode: Mode,
    /// Bytes of it that are new after the op: none where it is only read.
    pub written: Bytes,
}

/// What the memory that an op asks for, and what was given back since the op before, takes of
/// allocators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocating {
    /// Of the program's thread, which is ahead of the device: the op starts later only where the
    /// thread is not.
    pub thread: Span,
    /// Of thread and device, which wait for each other: before the op, with nothing beside it on
    /// its stream.
    pub device: Span,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Run an op on its stream.
    Compute {
        /// Which replay of which op: replay number times ops per trace plus op.
        occurrence: u64,
        /// The in-order queue that it runs on.
        stream: u16,
        /// Where its objects are.
        touches: SmallVec<[ObjectAccess; 4]>,
        /// Delays for use in place, one after the other: each costs the tier's set-up plus bytes
        /// over its bandwidth, or more where a simulated machine shares links.
        charges: SmallVec<[(TierId, Bytes); 2]>,
        /// A delay that the policy states, beside the charges.
        delay: Span,
        /// What allocators take for it. Machines that place objects by their own means pay their
        /// own.
        allocating: Allocating,
    },
    /// Copy an object.
    Copy {
        /// What.
        object: ObjectId,
        /// How much: all of it, or, where the tier has an older copy, the bytes that were
        /// written last and are not in that.
        bytes: Bytes,
        /// From where.
        from: TierId,
        /// To where.
        to: TierId,
    },
    /// Move objects to other addresses of the tier that they are in, as one piece of work. Machines
    /// that place objects by their own means have nothing to do.
    Compact {
        /// Where.
        tier: TierId,
        /// Bytes of all moves; each is read once and written once.
        bytes: Bytes,
        /// Who moves: nobody uses them meanwhile.
        objects: Box<[ObjectId]>,
    },
    /// Do nothing but end, and so give room back.
    Release,
}

/// One unit of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Its name.
    pub ticket: Ticket,
    /// What it does.
    pub work: Work,
    /// What must end before it starts.
    pub after: Edges,
    /// Room that it takes when it starts.
    pub allocates: SmallVec<[Allocation; 2]>,
    /// Room that it gives back when it ends.
    pub frees: SmallVec<[Allocation; 4]>,
}

/// Something that carries out commands: a simulator or real hardware.
pub trait Machine {
    /// What can go wrong that no plan can foresee.
    type Fault: std::error::Error;

    /// Takes a command. Commands come in the order of their tickets.
    fn submit(&mut self, command: Command) -> Result<(), Self::Fault>;

    /// Takes several, and leaves none; a machine that keeps none of them need not move them.
    fn submit_all(&mut self, commands: &mut Vec<Command>) -> Result<(), Self::Fault> {
        commands.drain(..).try_for_each(|command| self.submit(command))
    }

    /// Takes those of a plan that is carried out again; a machine may keep the plan and copy none.
    fn submit_again(
        &mut self,
        plan: &Arc<[Command]>,
        which: Range<usize>,
    ) -> Result<(), Self::Fault> {
        plan[which].iter().try_for_each(|command| self.submit(command.clone()))
    }

    /// Waits for the next command to end; `None` when none is under way.
    fn next(&mut self) -> Result<Option<(Time, Ticket)>, Self::Fault>;
}

impl<M: Machine + ?Sized> Machine for Box<M> {
    type Fault = M::Fault;

    fn submit(&mut self, command: Command) -> Result<(), M::Fault> {
        (**self).submit(command)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, M::Fault> {
        (**self).next()
    }
}

/// Adds an edge unless there is one to that command already.
pub(crate) fn add_edge(after: &mut Edges, ticket: Ticket, hazard: Hazard) {
    if !after.iter().any(|edge| edge.ticket == ticket) {
        after.push(Edge { ticket, hazard });
    }
}

/// The same for many commands, each named once: their number does not multiply with the edges there
/// are.
pub(crate) fn add_edges(after: &mut Edges, tickets: &[Ticket], hazard: Hazard) {
    if tickets.is_empty() {
        return;
    }
    let mut known: Vec<Ticket> = after.iter().map(|edge| edge.ticket).collect();
    known.sort_unstable();
    let new = tickets.iter().filter(|ticket| known.binary_search(ticket).is_err());
    after.extend(new.map(|&ticket| Edge { ticket, hazard }));
}
