//! A plan as a plain machine carries it out: every name is resolved once, whatever the rates.
//!
//! It grows as commands come, or is made at once of a plan that others carry out too.
//! Invariant: nothing in here depends on a rate, a set-up or a duration, so runs that share a plan
//! share this.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::PathPart;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Unit;
use tiersim_policies::command::{Allocating, Command, Work};

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Run an op; `own` is what its time is spent on, and `launched` whether it is launched.
    Op { occurrence: u64, stream: u16, own: PathPart, launched: bool },
    /// Copy bytes of an object one of the [ways](Digest::ways).
    Copy { object: ObjectId, way: u32, bytes: Bytes },
    /// End.
    Release,
}

/// A command; of what it needs beside this, where the next one's begins in the lists of the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) delay: Span,
    /// Which op of the trace it is, if it is one.
    pub(super) op: u32,
    edges: u32,
    takes: u32,
    gives: u32,
    used: u32,
    charges: u32,
}

/// Bytes that an op uses in a tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) tier: usize,
    pub(super) read: u128,
    pub(super) written: u128,
}

/// Commands whose tickets follow each other.
#[derive(Debug)]
pub(crate) struct Digest {
    /// The ticket of the first.
    pub(super) first: u32,
    /// One more than there are commands: the last says where lists end.
    steps: Vec<Step>,
    edges: Vec<u32>,
    takes: Vec<(TierId, Bytes)>,
    gives: Vec<(TierId, Bytes)>,
    used: Vec<Used>,
    charges: Vec<(TierId, Bytes)>,
    pub(super) ways: Vec<(TierId, TierId)>,
}

impl Digest {
    /// Of no command yet; `first` is the ticket of the one that comes next, and some `commands` will
    /// come.
    pub(super) fn new(first: u32, commands: usize) -> Digest {
        let mut digest = Digest {
            first,
            steps: Vec::with_capacity(commands + 1),
            // As many as are usual: lists that grow are copied.
            edges: Vec::with_capacity(2 * commands),
            takes: Vec::with_capacity(commands),
            gives: Vec::with_capacity(commands),
            used: Vec::with_capacity(2 * commands),
            charges: Vec::new(),
            ways: Vec::new(),
        };
        digest.close();
        digest
    }

    /// `None` if the plan asks for what plain machines do not have.
    fn of(plan: &[Command], workload: &Workload) -> Option<Digest> {
        let mut digest = Digest::new(plan.first()?.ticket.0, plan.len());
        plan.iter().try_for_each(|command| digest.push(command, workload))?;
        Some(digest)
    }

    /// The next command; `None` if it asks for what plain machines do not have.
    pub(super) fn push(&mut self, command: &Command, workload: &Workload) -> Option<()> {
        assert_eq!(command.ticket.0 - self.first, self.len() as u32, "tickets come in order");
        let (what, delay) = self.resolved(&command.work, workload)?;
        let step = self.steps.last_mut().expect("where lists end");
        (step.what, step.delay) = (what, delay);
        if let What::Op { occurrence, .. } = what {
            step.op = (occurrence % workload.trace.ops.len() as u64) as u32;
        }
        self.edges.extend(command.after.iter().map(|edge| edge.ticket.0));
        self.takes.extend(command.allocates.iter().map(|room| (room.tier, room.bytes)));
        self.gives.extend(command.frees.iter().map(|room| (room.tier, room.bytes)));
        if let Work::Compute { touches, charges, .. } = &command.work {
            for touch in touches {
                let bytes = workload.trace.objects[touch.object.index()].bytes.get();
                let read = if touch.mode.reads() { bytes } else { 0 };
                let written = if touch.mode.writes() { bytes } else { 0 };
                self.uses(touch.tier.index(), read.into(), written.into());
            }
            self.charges.extend(charges.iter().copied());
        }
        self.close();
        Some(())
    }

    /// What a command comes to, and what a policy delays it by.
    fn resolved(&mut self, work: &Work, workload: &Workload) -> Option<(What, Span)> {
        let trace = &workload.trace;
        match *work {
            Work::Compute { occurrence, stream, delay, allocating, .. } => {
                let op = &trace.ops[(occurrence % trace.ops.len() as u64) as usize];
                let (own, launched) = match op.unit {
                    Unit::Device if op.runs_again() => (PathPart::Recompute, true),
                    Unit::Device => (PathPart::Compute(op.phase), true),
                    Unit::Idle => (PathPart::Bubble, false),
                    Unit::Cpu | Unit::Network(_) => return None,
                };
                let plain = op.release.is_none() && allocating == Allocating::default();
                plain.then_some((What::Op { occurrence, stream, own, launched }, delay))
            }
            Work::Copy { object, bytes, from, to } => {
                let known = self.ways.iter().position(|&way| way == (from, to));
                let way = known.unwrap_or_else(|| {
                    self.ways.push((from, to));
                    self.ways.len() - 1
                });
                let way = u32::try_from(way).expect("few pairs of tiers");
                Some((What::Copy { object, way, bytes }, Span::ZERO))
            }
            Work::Compact { .. } => None,
            Work::Release => Some((What::Release, Span::ZERO)),
        }
    }

    /// The next command begins where lists end by now.
    fn close(&mut self) {
        let end = |length: usize| u32::try_from(length).expect("a plan that is kept is short");
        self.steps.push(Step {
            what: What::Release,
            delay: Span::ZERO,
            op: 0,
            edges: end(self.edges.len()),
            takes: end(self.takes.len()),
            gives: end(self.gives.len()),
            used: end(self.used.len()),
            charges: end(self.charges.len()),
        });
    }

    fn uses(&mut self, tier: usize, read: u128, written: u128) {
        let start = self.steps.last().expect("it has begun").used as usize;
        match self.used[start..].iter_mut().find(|used| used.tier == tier) {
            Some(used) => {
                used.read += read;
                used.written += written;
            }
            None => self.used.push(Used { tier, read, written }),
        }
    }

    /// How many commands there are.
    pub(super) fn len(&self) -> usize {
        self.steps.len() - 1
    }

    #[inline]
    pub(super) fn step(&self, at: usize) -> &Step {
        &self.steps[at]
    }

    /// Tickets that must end before a command starts.
    #[inline]
    pub(super) fn edges(&self, at: usize) -> &[u32] {
        &self.edges[self.steps[at].edges as usize..self.steps[at + 1].edges as usize]
    }

    /// Room that it takes when it starts.
    #[inline]
    pub(super) fn takes(&self, at: usize) -> &[(TierId, Bytes)] {
        &self.takes[self.steps[at].takes as usize..self.steps[at + 1].takes as usize]
    }

    /// Room that it gives back when it ends.
    #[inline]
    pub(super) fn gives(&self, at: usize) -> &[(TierId, Bytes)] {
        &self.gives[self.steps[at].gives as usize..self.steps[at + 1].gives as usize]
    }

    /// What an op uses.
    #[inline]
    pub(super) fn used(&self, at: usize) -> &[Used] {
        &self.used[self.steps[at].used as usize..self.steps[at + 1].used as usize]
    }

    /// What it uses in place outside of device memory, by tier.
    #[inline]
    pub(super) fn charges(&self, at: usize) -> &[(TierId, Bytes)] {
        &self.charges[self.steps[at].charges as usize..self.steps[at + 1].charges as usize]
    }

    /// Whether some op uses a tier in place.
    pub(super) fn charges_any(&self) -> bool {
        !self.charges.is_empty()
    }
}

/// What is made once of plans that are carried out more than once.
#[derive(Debug, Default)]
pub struct Digests(Mutex<BTreeMap<usize, Known>>);

/// A plan, which is held so that no other has its address.
type Known = (Arc<[Command]>, Option<Arc<Digest>>);

impl Digests {
    pub(super) fn of(&self, plan: &Arc<[Command]>, workload: &Workload) -> Option<Arc<Digest>> {
        let address = plan.as_ptr().addr();
        let mut known = self.0.lock().expect("nobody panics with it");
        let make = || (plan.clone(), Digest::of(plan, workload).map(Arc::new));
        known.entry(address).or_insert_with(make).1.clone()
    }

    /// Forgets all: what others carry out stays theirs.
    pub(crate) fn clear(&self) {
        self.0.lock().expect("nobody panics with it").clear();
    }
}
