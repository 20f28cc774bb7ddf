//! How the thread of a framework lets ops and copies begin, and what is done with what has come
//! ([`super::framework`]).

use super::entry::Held;
use super::framework::{Framework, Thread};
use super::timed::ENDS;
use super::{Event, Fault, SimMachine};
use tiersim_models::hardware::HBM;
use tiersim_models::runtime::Runtime;
use tiersim_models::units::{Span, Time};
use tiersim_models::workload::Unit;
use tiersim_policies::command::{Edge, Hazard, Ticket, Work};

/// Whether a command brings an object into device memory.
fn fetches(work: &Work) -> bool {
    matches!(work, Work::Copy { from, to, .. } if *to == HBM && *from != HBM)
}

/// Whether a command takes an object out of device memory.
fn takes_out(work: &Work) -> bool {
    matches!(work, Work::Copy { from, to, .. } if *from == HBM && *to != HBM)
}

/// Whether the thread stands still until a command has ended; `unit` is that of an op.
fn holds(runtime: &Runtime, work: &Work, unit: Option<Unit>) -> bool {
    runtime.blocking && fetches(work)
        || runtime.blocking_out && takes_out(work)
        || runtime.ahead && unit == Some(Unit::Cpu)
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
    pub(super) fn waits_for_thread(&mut self, command: &mut Held) {
        if self.framework.is_none() {
            return;
        }
        let (rank, unit) = (self.ranks.rank(command.ticket) as usize, self.unit(&command.work));
        let framework = self.framework.as_mut().expect("looked at above");
        let Framework { runtime, threads, .. } = &mut **framework;
        let out = runtime.blocking_out && takes_out(&command.work);
        if unit.is_none() && !fetches(&command.work) && !out {
            return;
        }
        let waits_for = &mut threads[rank].waits_for;
        if let Some(ticket) = *waits_for
            && command.after.iter().all(|edge| edge.ticket != ticket)
        {
            command.own().after.push(Edge { ticket, hazard: Hazard::IssueOrder });
        }
        if holds(runtime, &command.work, unit) {
            *waits_for = Some(command.ticket);
        }
    }

    /// What runs the op of a command; `None` for what is no op.
    fn unit(&self, work: &Work) -> Option<Unit> {
        let &Work::Compute { occurrence, .. } = work else { return None };
        let ops = &self.workload.trace.ops;
        Some(ops[(occurrence % ops.len() as u64) as usize].unit)
    }

    /// A command has ended that a thread which runs ahead may have waited for.
    pub(super) fn waited(&mut self, ticket: Ticket) {
        let Some(framework) = &self.framework else { return };
        let (now, rank) = (self.engine.now(), self.ranks.rank(ticket) as usize);
        let work = &self.entries.get(ticket).command.work;
        if !framework.runtime.ahead || !holds(&framework.runtime, work, self.unit(work)) {
            return;
        }
        let framework = self.framework.as_mut().expect("looked at above");
        let free = &mut framework.threads[rank].free;
        *free = (*free).max(now);
    }

    /// The thread sees to an object whose copy could begin now; `false` if that is done or takes
    /// no time.
    pub(super) fn is_seen_to(&mut self, copy: Ticket, cause: Option<Ticket>) -> bool {
        let (now, path) = (self.engine.now(), self.paths.last());
        let rank = self.ranks.rank(copy) as usize;
        let Some(framework) = &mut self.framework else { return false };
        let Framework { runtime: Runtime { per_object, ahead, .. }, threads, .. } =
            &mut **framework;
        let entry = self.entries.get_mut(copy);
        if entry.issued || !fetches(&entry.command.work) || (*per_object == Span::ZERO && !*ahead) {
            return false;
        }
        let free = &mut threads[rank].free;
        *free = if *ahead { *free } else { (*free).max(now) } + *per_object;
        if *free <= now {
            entry.issued = true;
            return false;
        }
        // It stands at the gate of its channel as if an edge were open.
        (entry.indegree, entry.blocker) = (1, cause);
        (entry.path, entry.ready_at) = (Some(path), now);
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

    /// What an op that could start now waits for the host; its stream has been idle since then.
    pub(super) fn host_time(&mut self, ticket: Ticket, idle_since: Time) -> Span {
        if self.framework.is_none() {
            return Span::ZERO;
        }
        let (now, rank) = (self.engine.now(), self.ranks.rank(ticket) as usize);
        let Some(op) = self.op(ticket) else { return Span::ZERO };
        let begins = self.begins_step(ticket);
        let framework = self.framework.as_mut().expect("looked at above");
        let takes = match op.unit {
            Unit::Idle => Span::ZERO,
            _ => framework.runtime.per_op,
        };
        if !framework.runtime.ahead {
            return takes;
        }
        let free = &mut framework.threads[rank].free;
        if begins {
            *free = (*free).max(idle_since);
        }
        *free = *free + takes;
        if *free > now { free.since(now) } else { Span::ZERO }
    }

    /// Whether an op is the first of its step.
    fn begins_step(&self, op: Ticket) -> bool {
        let Work::Compute { occurrence, .. } = self.entries.get(op).command.work else {
            return false;
        };
        let ops = &self.workload.trace.ops;
        let index = (occurrence % ops.len() as u64) as usize;
        index == 0 || ops[index - 1].step != ops[index].step
    }
}
