//! What every machine of real memory has in common: how it is set up and what it reports.
//!
//! Whoever drives one need not know which it is; `tests/` and the command run the same bodies on
//! all of them.

use crate::contents::Written;
use crate::fault::{Fault, Result};
use crate::options::Options;
use crate::truth::Truth;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
pub use tiersim_models::results::comparison::DeviceMemory;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Op;
use tiersim_policies::command::{Allocation, Command, Machine, Ticket, Work};
use tiersim_policies::transit::Transit;

/// How long op `occurrence` of a run is to last, without the delays of use in place.
pub type Spans<'a> = Box<dyn Fn(u64) -> Span + 'a>;

/// What a machine is made for.
pub struct Setup<'a> {
    /// Its tiers, links and laws.
    pub hardware: &'a Hardware,
    /// The hardware's routes.
    pub routes: Routes,
    /// What will run.
    pub workload: &'a Workload,
    /// How long ops are to last.
    pub spans: Spans<'a>,
    /// What lies where before the first op.
    pub start: Vec<Allocation>,
}

/// What the thread that plans knows of a run, on every machine.
pub(crate) struct Run<'a> {
    pub(crate) hardware: &'a Hardware,
    pub(crate) workload: &'a Workload,
    routes: Routes,
    spans: Spans<'a>,
    pub(crate) emulate: bool,
    pub(crate) patience: Span,
    /// Writes submitted so far, by object: what the order of the plan makes the truth.
    pub(crate) written: Written,
    submitted: (u64, Span),
}

/// How long an op is to last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planned {
    /// Without the delays.
    pub(crate) span: Span,
    /// Those of use in place, where they are emulated, and what the policy states.
    pub(crate) delay: Span,
}

impl<'a> Run<'a> {
    /// A run that begins, and what lies where before it. A real machine carries copies from memory
    /// to memory: nodes without memory would be channels from nowhere.
    pub(crate) fn new(setup: Setup<'a>, options: &Options) -> Result<(Run<'a>, Vec<Allocation>)> {
        let Setup { hardware, routes, workload, spans, start } = setup;
        if let Some(node) = hardware.nodes.first() {
            let name = &node.name;
            return Err(Fault::Machine {
                hardware: hardware.name.clone(),
                found: format!("node `{name}` has no memory, and real copies go from tier to tier"),
                remedy: "write links between tiers for a machine that is run on real memory",
            });
        }
        let Options { emulate, patience, .. } = *options;
        let written = Written::new(workload.trace.objects.iter().map(|object| object.bytes));
        let submitted = (0, Span::ZERO);
        let run = Run { hardware, workload, routes, spans, emulate, patience, written, submitted };
        Ok((run, start))
    }

    /// How many compute streams there are.
    pub(crate) fn streams(&self) -> usize {
        let streams = self.workload.trace.ops.iter().map(|op| usize::from(op.stream) + 1);
        streams.max().unwrap_or(0)
    }

    /// The op of the trace that is run.
    pub(crate) fn op(&self, occurrence: u64) -> &'a Op {
        let ops = &self.workload.trace.ops;
        &ops[(occurrence % ops.len() as u64) as usize]
    }

    /// How long an op is to last. What its policy states as a delay is kept by the clock whether
    /// use in place is emulated or not: nothing real stands for it.
    pub(crate) fn planned(&self, command: &Command) -> Planned {
        let Work::Compute { occurrence, charges, delay, .. } = &command.work else {
            return Planned::default();
        };
        let law = |&(tier, bytes): &(TierId, Bytes)| {
            self.hardware.tiers[tier.index()].access.span_of(bytes)
        };
        let charged = if self.emulate { charges.iter().map(law).sum() } else { Span::ZERO };
        Planned { span: (self.spans)(*occurrence), delay: *delay + charged }
    }

    /// The way of a copy, and how many times it is stored in between; none of what is no copy.
    pub(crate) fn transit(&self, command: &Command) -> (Option<Transit>, usize) {
        let Work::Copy { bytes, from, to, .. } = command.work else { return (None, 0) };
        let route: Vec<usize> =
            self.routes.between(from, to).iter().map(|channel| channel.index()).collect();
        let between = route.len() - 1;
        (Some(Transit::new(route, bytes, self.hardware.chunk)), between)
    }

    /// A command was submitted, which took so long.
    pub(crate) fn submitted(&mut self, took: Span) {
        self.submitted.0 += 1;
        self.submitted.1 += took;
    }

    /// What it knows of a run, beside what is in the book.
    pub(crate) fn report(&self, book: Report) -> Report {
        Report { submitted: self.submitted, ..book }
    }
}

/// Which real machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This computer's memory and files.
    Host,
    /// A CUDA device with this computer's memory and files.
    Cuda,
}

impl Kind {
    /// The word used in commands and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Cuda => "cuda",
        }
    }

    /// What a sentence calls it.
    pub const fn place(self) -> &'static str {
        match self {
            Kind::Host => "the host",
            Kind::Cuda => "a CUDA GPU",
        }
    }
}

/// A machine that moves real bytes.
pub trait RealMachine: Machine<Fault = Fault> {
    /// What was done so far; complete once [`Machine::next`] has said `None`.
    fn report(&self) -> Report;

    /// Every room that is held, with the writes that it has seen: all of them if it holds the
    /// object's present contents; else the version that all of it has, if it has one. Meaningful
    /// when nothing is under way.
    fn holdings(&self) -> Result<Vec<(ObjectId, TierId, Option<u64>)>>;

    /// Writes submitted so far, by object.
    fn written(&self) -> &[u64];
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Checks of contents.
    pub truth: Truth,
    /// Bytes copied, by channel.
    pub moved: Vec<Bytes>,
    /// Every op, in the order of their ends.
    pub ops: Vec<OpRun>,
    /// Copies that have ended.
    pub copies: u64,
    /// Every copy, in the order of their ends; empty on a machine that does not time them.
    pub copies_run: Vec<CopyRun>,
    /// The most bytes of rooms held at once, by tier, from the start of the run on; empty on a
    /// machine that does not meter them.
    pub peak: Vec<Bytes>,
    /// Commands submitted, and the time that took on the thread that plans.
    pub submitted: (u64, Span),
    /// Slots made, by tier, and how many of them are locked memory or unbuffered files.
    pub slots: Vec<(u64, u64)>,
    /// Memory of the device, where there is one.
    pub device: Option<DeviceMemory>,
}

/// An op that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRun {
    /// Which op of the run.
    pub occurrence: u64,
    /// How long it was to last, with the delays of use in place.
    pub planned: Span,
    /// When it could start: it was at the head of its stream and its edges were satisfied.
    pub ready: Time,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
}

/// A copy that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// Its command.
    pub ticket: Ticket,
    /// What was copied.
    pub object: ObjectId,
    /// How much of it.
    pub bytes: Bytes,
    /// From where; its channels are those of the hardware's route between the two tiers.
    pub from: TierId,
    /// To where.
    pub to: TierId,
    /// When it could start: its edges and those of all copies before it on its first channel were
    /// satisfied.
    pub ready: Time,
    /// When the first channel began with it.
    pub start: Time,
    /// When all of it had arrived.
    pub end: Time,
}
