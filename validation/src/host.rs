//! The host machine: the same commands as the simulator's, on real memory and files.
//!
//! Tiers of kinds hbm, dram and cxl are memory, locked where the system allows it; nvme and remote
//! are files that go around the page cache where the file system allows it. One thread per compute
//! stream and per channel works off its queue; a thread with nothing to do is parked.
//! Invariant: it never validates and never decides. An edge is an indegree, the start of a command
//! allocates its memory and its end frees them; capacity is the ledger's business.

pub(crate) mod kernels;
mod pace;
pub(crate) mod room;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod work;

use crate::clock::Clock;
use crate::fault::{Fault, Result};
use crate::host::pace::{OpPlan, Paces};
use crate::host::state::State;
use crate::host::store::Store;
use crate::host::work::{Floor, Worker};
use crate::options::{Live, Options};
use crate::pattern::PAGE;
use crate::real::{RealMachine, Report, Run, Setup};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Time};
use tiersim_policies::command::{Command, Machine, Ticket};

/// Real memory under a plan.
pub struct HostMachine<'a> {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    live: Live,
    channels: usize,
    paces: Arc<Paces>,
    run: Run<'a>,
}

struct Shared {
    state: Mutex<State>,
    /// One per queue, and one for the thread that plans.
    bells: Vec<Condvar>,
    floor: Floor,
}

impl<'a> HostMachine<'a> {
    /// A machine with its objects in place, filled.
    pub fn new(setup: Setup<'a>, options: &Options) -> Result<HostMachine<'a>> {
        let (run, start) = Run::new(setup, options)?;
        let objects = &run.workload.trace.objects;
        let pages = |bytes: Bytes| (bytes.get() as usize).div_ceil(PAGE);
        let mut floor = Floor {
            store: Store::new(run.hardware, options)?,
            clock: Clock::start(),
            pages: objects.iter().map(|object| pages(object.bytes)).collect(),
            arrival_stride: options.arrival_stride,
            delay: options.delay,
        };
        let mut worker = Worker::new(&floor);
        for room in &start {
            floor.store.allocate(room)?;
            let all = 0..floor.pages[room.object.index()];
            worker.write(room.object, room.tier, 0, &[all])?;
        }
        let paces = Paces::now(run.workload);
        floor.clock = Clock::start();
        let (streams, channels) = (run.streams(), run.hardware.channels().count());
        let bells = (0..=channels + streams).map(|_| Condvar::new()).collect();
        let state = Mutex::new(State::new(streams, channels));
        let mut machine = HostMachine {
            shared: Arc::new(Shared { state, bells, floor }),
            threads: Vec::new(),
            live: options.live.clone(),
            channels,
            paces,
            run,
        };
        let names = (0..streams).map(|stream| (channels + stream, format!("stream {stream}")));
        for (queue, name) in
            names.chain((0..channels).map(|channel| (channel, format!("channel {channel}"))))
        {
            machine.spawn(queue, name)?;
        }
        Ok(machine)
    }

    fn spawn(&mut self, queue: usize, name: String) -> Result<()> {
        let (shared, threads) = (self.shared.clone(), self.live.threads.clone());
        let work = move || {
            threads.fetch_add(1, Relaxed);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| shared.run(queue))) {
                shared.lock().fail(Fault::died(panic), &shared.bells);
            }
            threads.fetch_sub(1, Relaxed);
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(work);
        self.threads.push(thread.map_err(Fault::io("starts thread", name))?);
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panics under the lock ends the run; what it left is not used again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a bell, or wakes whoever has to be woken first.
    fn wait<'s>(&'s self, state: MutexGuard<'s, State>, bell: &Condvar) -> MutexGuard<'s, State> {
        if state.rings.is_empty() {
            return bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.ring(state);
        self.lock()
    }

    /// Lets go of the lock and wakes whoever has to be woken: who works before who plans.
    fn ring(&self, mut state: MutexGuard<'_, State>) {
        let mut rings = std::mem::take(&mut state.rings);
        drop(state);
        rings.sort_unstable();
        rings.dedup();
        rings.into_iter().for_each(|queue| self.bells[queue].notify_one());
    }

    /// Carries out releases until none is left.
    fn release(&self, state: &mut State, mut due: Vec<Ticket>) {
        while let Some(ticket) = due.pop() {
            let command = state.book.entry(ticket).command.clone();
            command.frees.iter().for_each(|room| self.floor.store.free(room));
            due.extend(state.finish(ticket, self.floor.clock.now()));
        }
    }

    /// What the thread of a queue does.
    fn run(&self, queue: usize) {
        let mut worker = Worker::new(&self.floor);
        let mut state = self.lock();
        while !state.stop {
            let Some(job) = state.take(queue) else {
                state = self.wait(state, &self.bells[queue]);
                continue;
            };
            let entry = state.book.entry_mut(job.ticket);
            let (command, plan) = (entry.command.clone(), entry.own.plan);
            // Every piece of a copy meets the same.
            let met = match &job.piece {
                Some(_) => entry.met.clone(),
                None => std::mem::take(&mut entry.met),
            };
            self.ring(state);
            let done = match &job.piece {
                Some(piece) => worker.piece(piece, &command, &met[0]),
                None => worker.op(&command, &met, &plan),
            };
            if done.is_ok() && job.piece.as_ref().is_none_or(|piece| piece.ends) {
                command.frees.iter().for_each(|room| self.floor.store.free(room));
            }
            let end = self.floor.clock.now();
            state = self.lock();
            match done {
                Ok((start, checks)) => {
                    state.book.note(checks);
                    let due = state.done(queue, &job, (start, end));
                    self.release(&mut state, due);
                }
                Err(fault) => state.fail(fault, &self.bells),
            }
        }
    }
}

impl Machine for HostMachine<'_> {
    type Fault = Fault;

    fn submit(&mut self, command: Command) -> Result<()> {
        let began = self.shared.floor.clock.now();
        let (met, plan) =
            (self.run.written.meets(&command), OpPlan::of(&self.run, &self.paces, &command));
        let transit = self.run.transit(&command);
        let mut state = self.shared.lock();
        if let Some(fault) = &state.fault {
            return Err(fault.clone());
        }
        state.add(command, met, plan, transit);
        let due = state.start_due(self.shared.floor.clock.now());
        self.shared.release(&mut state, due);
        self.shared.ring(state);
        self.run.submitted(self.shared.floor.clock.now().since(began));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>> {
        // Looks twice: a process that was stopped and goes on may find its time up before its
        // workers have had a chance to run.
        let half = Duration::from_nanos(self.run.patience.ps() / 2000);
        let mut looked = None;
        let mut state = self.shared.lock();
        loop {
            if let Some(fault) = &state.fault {
                return Err(fault.clone());
            }
            if let Some(ended) = state.book.ended.pop_front() {
                return Ok(Some(ended));
            }
            if state.book.entries.is_empty() {
                return Ok(None);
            }
            let main = self.shared.bells.last().expect("one for this thread");
            let waited = main.wait_timeout(state, half);
            let (after, time) = waited.unwrap_or_else(PoisonError::into_inner);
            state = after;
            if !time.timed_out() {
                continue;
            }
            match state.stuck(self.run.patience) {
                Some(fault) if looked == Some(state.taken) => state.fail(fault, &self.shared.bells),
                stuck => looked = stuck.map(|_| state.taken),
            }
        }
    }
}

impl RealMachine for HostMachine<'_> {
    fn report(&self) -> Report {
        let state = self.shared.lock();
        Report {
            moved: state.queues[..self.channels].iter().map(|queue| queue.moved).collect(),
            peak: self.shared.floor.store.peak(),
            slots: self.shared.floor.store.made(),
            ..self.run.report(state.book.report())
        }
    }

    fn holdings(&self) -> Result<Vec<(ObjectId, TierId, Option<u64>)>> {
        let mut worker = Worker::new(&self.shared.floor);
        let held = self.shared.floor.store.held().into_iter();
        let seen = |(object, tier)| {
            let version = worker.version((object, tier), self.run.written.now(object))?;
            Ok((object, tier, version))
        };
        held.map(seen).collect()
    }

    fn written(&self) -> &[u64] {
        self.run.written.all()
    }
}

impl Drop for HostMachine<'_> {
    fn drop(&mut self) {
        self.shared.lock().stop(&self.shared.bells);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so through the fault.
            let _ = thread.join();
        }
    }
}
