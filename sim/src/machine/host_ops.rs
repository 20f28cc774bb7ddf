//! Ops on the host's processors, which all that run at once share.
//!
//! Such an op pays its launch, and then its work is a flow over one resource: the processors' time,
//! in picoseconds. One that bytes hold up is not told from one that FLOPs hold up, as every kernel
//! takes all cores.
//! Invariant: alone an op takes exactly its duration, and of R that run at once none less than its
//! share of the time that all take in turn.

use super::state::Moment;
use super::{ENDS, Event, Fault, SimMachine};
use crate::engine::EventId;
use crate::fair_share::{ClassId, FairShare};
use tiersim_models::hardware::Hardware;
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span};
use tiersim_models::workload::{Trace, Unit};
use tiersim_policies::command::{Ticket, Work};
use tiersim_policies::state::State;

/// The processors of the host.
#[derive(Debug)]
pub(super) struct Processors {
    time: FairShare<Ticket>,
    class: ClassId,
    launch: Span,
    next_end: Option<EventId>,
    ended: Vec<Ticket>,
}

impl Processors {
    /// `None` if no op runs there.
    pub(super) fn new(hardware: &Hardware, trace: &Trace) -> Option<Box<Processors>> {
        if trace.ops.iter().all(|op| op.unit != Unit::Cpu) {
            return None;
        }
        let second = Bandwidth::new(PS_PER_S).expect("above zero");
        let mut time = FairShare::new(vec![second]);
        let class = time.class(&[0]);
        let launch = hardware.cpu.as_ref().map_or(Span::ZERO, |cpu| cpu.launch);
        Some(Box::new(Processors { time, class, launch, next_end: None, ended: Vec::new() }))
    }

    /// Writes what runs and how far it is.
    pub(super) fn state(&self, moment: Moment, out: &mut State) {
        let Processors { time, class: _, launch: _, next_end, ended } = self;
        out.flag(next_end.is_some());
        out.list(ended, |out, &op| moment.ticket(op, out));
        time.state(moment.now, out, |out, &op| moment.ticket(op, out));
    }
}

impl SimMachine<'_> {
    /// Whether an op is one of the host's.
    pub(super) fn is_on_host(&self, op: Ticket) -> bool {
        let ops = &self.workload.trace.ops;
        match self.entries.get(op).command.work {
            Work::Compute { occurrence, .. } if self.processors.is_some() => {
                ops[(occurrence % ops.len() as u64) as usize].unit == Unit::Cpu
            }
            _ => false,
        }
    }

    /// An op starts that takes `total` alone, of which it waits `waits` first, without any
    /// processor.
    pub(super) fn start_on_host(
        &mut self,
        op: Ticket,
        total: Span,
        waits: Span,
    ) -> Result<(), Fault> {
        let processors = self.processors.as_ref().expect("an op of the host has processors");
        let launch = (waits + processors.launch).min(total);
        let work = Span::from_ps(total.ps() - launch.ps());
        if launch > Span::ZERO || work == Span::ZERO {
            self.engine.schedule_in(launch, ENDS, Event::Launched { op, work });
            return Ok(());
        }
        self.launched(op, work)
    }

    /// The launch is paid, and the work begins.
    pub(super) fn launched(&mut self, op: Ticket, work: Span) -> Result<(), Fault> {
        if work == Span::ZERO {
            return self.finish(op);
        }
        let now = self.engine.now();
        let processors = self.processors.as_mut().expect("an op of the host has processors");
        processors.time.join(processors.class, Bytes::new(work.ps()), op, now);
        Ok(())
    }

    /// Sets the event of the next end, if ops came or went since it was set.
    pub(super) fn retime_processors(&mut self) {
        let Some(processors) = &mut self.processors else { return };
        if !processors.time.has_changed() {
            return;
        }
        if let Some(pending) = processors.next_end.take() {
            self.engine.cancel(pending);
        }
        let next = processors.time.next_end();
        processors.next_end = next.map(|at| self.engine.schedule_at(at, ENDS, Event::Worked));
    }

    /// One or several ops have ended.
    pub(super) fn worked(&mut self) -> Result<(), Fault> {
        let now = self.engine.now();
        let processors = self.processors.as_mut().expect("an op of the host has processors");
        processors.next_end = None;
        let mut ended = std::mem::take(&mut processors.ended);
        processors.time.ended(now, &mut ended);
        for op in ended.drain(..) {
            self.finish(op)?;
        }
        if let Some(processors) = &mut self.processors {
            processors.ended = ended;
        }
        Ok(())
    }
}
