//! How the thread of a framework lets ops and copies begin, and what is done with what has come
//! ([`super::framework`]).

use super::framework::{Framework, Thread};
use super::timed::ENDS;
use super::{Event, Fault, SimMachine};
use tiersim_models::hardware::HBM;
use tiersim_models::runtime::Runtime;
use tiersim_models::units::Span;
use tiersim_models::workload::Unit;
use tiersim_policies::command::{Command, Edge, Hazard, Ticket, Work};

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
        self.waited_for_thread(copy, path, from);
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
