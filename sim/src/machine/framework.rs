//! What a framework adds ([`Runtime`]): the host's time for ops and objects, copies that its thread
//! waits for, and passes over device memory.
//!
//! Each device has one thread. It sees to one fetched object after the other, in the order in which
//! their edges are satisfied, and only then their copies may enter their channels. Where copies are
//! blocking, what the plan has behind one of a device, ops and fetches, has one edge more: to the
//! last of them. The passes over what has come are made on the device, one object after the other,
//! beside its ops and other copies; until they are over the copy has not ended.
//! Invariant: without a runtime nothing in here does anything.

use super::timed::ENDS;
use super::{Event, Fault, SimMachine};
use tiersim_models::hardware::HBM;
use tiersim_models::runtime::Runtime;
use tiersim_models::units::{Bandwidth, Span, Time};
use tiersim_models::workload::Unit;
use tiersim_policies::command::{Command, Edge, Hazard, Ticket, Work};
use tiersim_policies::state::{Remembered, State};

/// A framework on every device.
#[derive(Debug)]
pub(super) struct Framework {
    runtime: Runtime,
    /// Of device memory.
    rate: Bandwidth,
    /// By rank.
    threads: Vec<Thread>,
}

/// The framework's thread of one device.
#[derive(Clone, Debug, Default)]
struct Thread {
    /// When it has seen to all objects so far.
    free: Time,
    /// When the device has gone over all objects so far.
    passed: Time,
    /// The blocking copy that was submitted last.
    waits_for: Option<Ticket>,
}

impl Framework {
    /// Writes what may come of the past.
    pub(super) fn write(&self, is_under_way: impl Fn(Ticket) -> bool, out: &mut State) {
        let Framework { runtime: _, rate: _, threads } = self;
        out.list(threads, |out, thread| {
            let Thread { free, passed, waits_for } = thread;
            let now = out.now();
            ((*free).max(now), (*passed).max(now)).state(out);
            waits_for.filter(|&ticket| is_under_way(ticket)).state(out);
        });
    }
}

/// Whether a command brings an object into device memory.
fn fetches(work: &Work) -> bool {
    matches!(work, Work::Copy { from, to, .. } if *to == HBM && *from != HBM)
}

impl SimMachine<'_> {
    /// From now on a framework runs the plan; before the first command.
    pub fn run_by(&mut self, runtime: &Runtime) {
        if !runtime.is_none() {
            let (runtime, rate) = (runtime.clone(), self.accesses[HBM.index()].rate);
            let threads = vec![Thread::default(); self.ranks.count() as usize];
            self.framework = Some(Box::new(Framework { runtime, rate, threads }));
        }
    }

    /// What the thread of its device lets a command wait for.
    pub(super) fn waits_for_thread(&mut self, command: &mut Command) {
        let rank = self.ranks.rank(command.ticket) as usize;
        let Some(framework) = &mut self.framework else { return };
        let fetches = fetches(&command.work);
        let issued = fetches || matches!(command.work, Work::Compute { .. });
        if !framework.runtime.blocking || !issued {
            return;
        }
        let waits_for = &mut framework.threads[rank].waits_for;
        if let Some(ticket) = *waits_for
            && command.after.iter().all(|edge| edge.ticket != ticket)
        {
            command.after.push(Edge { ticket, hazard: Hazard::IssueOrder });
        }
        if fetches {
            *waits_for = Some(command.ticket);
        }
    }

    /// The thread sees to an object whose copy could begin now; `false` if that is done or takes
    /// no time.
    pub(super) fn is_seen_to(&mut self, copy: Ticket, cause: Option<Ticket>) -> bool {
        let (now, path) = (self.engine.now(), self.paths.last());
        let rank = self.ranks.rank(copy) as usize;
        let Some(framework) = &mut self.framework else { return false };
        let (entry, takes) = (self.entries.get_mut(copy), framework.runtime.per_object);
        if entry.issued || takes == Span::ZERO || !fetches(&entry.command.work) {
            return false;
        }
        // It stands at the gate of its channel as if an edge were open.
        (entry.indegree, entry.blocker) = (1, cause);
        (entry.path, entry.ready_at) = (Some(path), now);
        let free = &mut framework.threads[rank].free;
        *free = (*free).max(now) + takes;
        self.engine.schedule_at(*free, ENDS, Event::Issued(copy));
        true
    }

    /// The thread has seen to an object: its copy may begin.
    pub(super) fn issued(&mut self, copy: Ticket) -> Result<(), Fault> {
        let entry = self.entries.get_mut(copy);
        (entry.indegree, entry.issued) = (0, true);
        let (cause, from) = (entry.blocker, entry.ready_at);
        let path = entry.path.take().expect("it waited for the thread");
        self.waited_for_thread(path, from);
        self.ready(copy, cause)
    }

    /// The device goes over what has come whole; `false` if that takes no time.
    pub(super) fn is_gone_over(&mut self, copy: Ticket) -> bool {
        let (now, path) = (self.engine.now(), self.paths.last());
        let rank = self.ranks.rank(copy) as usize;
        let Some(framework) = &mut self.framework else { return false };
        let entry = self.entries.get_mut(copy);
        let Work::Copy { bytes, .. } = entry.command.work else { return false };
        let takes = framework.runtime.passing(bytes, framework.rate);
        if takes == Span::ZERO || !fetches(&entry.command.work) {
            return false;
        }
        (entry.path, entry.ready_at) = (Some(path), now);
        let passed = &mut framework.threads[rank].passed;
        *passed = (*passed).max(now) + takes;
        self.engine.schedule_at(*passed, ENDS, Event::Passed(copy));
        true
    }

    /// The host's time before an op.
    pub(super) fn host_time(&self, op: Ticket) -> Span {
        let Some(framework) = &self.framework else { return Span::ZERO };
        match self.op(op).map(|op| op.unit) {
            None | Some(Unit::Idle) => Span::ZERO,
            Some(_) => framework.runtime.per_op,
        }
    }
}
