//! Threads for what the device cannot do by itself: files, and copies within the host's memory.
//!
//! One thread per channel that has such an end, and one for files used in place. Between a file and
//! pinned memory nothing else is copied: the system reads and writes pinned memory itself. A
//! channel that joins files to the device's memory goes through pinned memory of its thread.
//! Invariant: a thread starts what it is sent in that order and says so when it is done; whether it
//! may start is for whoever sends it to know.

use crate::clock::Clock;
use crate::contents::ObjectContents;
use crate::cuda::allocations::Place;
use crate::cuda::driver::{Device, PinnedMemory, Stream};
use crate::fault::{Fault, Result};
use crate::host::kernels::{self, BLOCK};
use crate::host::room::{Buffer, Slot};
use crate::options::Live;
use crate::pattern::{Key, PAGE};
use crate::truth::Mismatch;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::Ticket;

/// Bytes that go through a thread's own memory at a time.
const STEP: u64 = (BLOCK * PAGE) as u64;

/// What a fault calls any tier of files.
pub(super) const FILES: &str = "a tier of files";

/// One end of a piece: where, and from which byte of it on.
pub(crate) type End = (Place, u64);

/// What a thread is to do.
pub(crate) struct Job {
    pub(crate) ticket: Ticket,
    /// Number of the queue that waits for it, of the sender's own counting.
    pub(crate) queue: usize,
    /// Late start, for tests.
    pub(crate) late: Span,
    pub(crate) task: Task,
    /// Files that are compared with a version in the end, every so many pages.
    pub(crate) checks: Vec<Look>,
}

/// The part that takes the time of the command.
pub(crate) enum Task {
    /// Copies so many bytes from one end to the other, row by row.
    Carry(Vec<(End, End, u64)>),
    /// Uses files in place: compares what is read, then writes what is written.
    Use { reads: Vec<Look>, writes: Vec<(Arc<Slot>, Key, Range<usize>)> },
}

/// A comparison of pages of a file with a version.
pub(crate) struct Look {
    pub(crate) slot: Arc<Slot>,
    pub(crate) pages: Range<usize>,
    pub(crate) object: ObjectId,
    pub(crate) tier: TierId,
    pub(crate) version: u64,
    pub(crate) stride: usize,
}

/// What a thread has done.
pub(crate) struct Done {
    pub(crate) ticket: Ticket,
    pub(crate) queue: usize,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) checks: Result<Vec<Option<Mismatch>>>,
}

/// All threads of a machine.
pub(crate) struct Workers {
    device: Arc<Device>,
    clock: Clock,
    live: Live,
    threads: Vec<(Sender<Job>, JoinHandle<()>)>,
    tell: Sender<Done>,
    told: Receiver<Done>,
}

impl Workers {
    pub(crate) fn new(device: &Arc<Device>, clock: Clock, live: &Live) -> Workers {
        let (tell, told) = channel();
        let (device, live) = (device.clone(), live.clone());
        Workers { device, clock, live, threads: Vec::new(), tell, told }
    }

    /// Starts a thread; returns its number.
    pub(crate) fn spawn(&mut self, name: String) -> Result<usize> {
        let (sender, jobs) = channel();
        let (tell, threads) = (self.tell.clone(), self.live.threads.clone());
        let (device, clock) = (self.device.clone(), self.clock);
        let run = move || {
            let mut bench =
                WorkerState { device, clock, buffer: Buffer::new(STEP as usize), via: None };
            for job in jobs {
                let done = bench.work(job);
                if tell.send(done).is_err() {
                    break;
                }
            }
            // The memory that it made goes before the count that says so.
            drop(bench);
            threads.fetch_sub(1, Relaxed);
        };
        self.live.threads.fetch_add(1, Relaxed);
        match std::thread::Builder::new().name(name.clone()).spawn(run) {
            Ok(thread) => self.threads.push((sender, thread)),
            Err(error) => {
                self.live.threads.fetch_sub(1, Relaxed);
                return Err(Fault::io("starts thread", name)(error));
            }
        }
        Ok(self.threads.len() - 1)
    }

    /// Gives a thread something to do.
    pub(crate) fn send(&self, thread: usize, job: Job) -> Result<()> {
        let sent = self.threads[thread].0.send(job);
        sent.map_err(|_| Fault::Died("it takes no more work".to_owned()))
    }

    /// What has been done since the last call.
    pub(crate) fn done(&self) -> Option<Done> {
        self.told.try_recv().ok()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (sender, thread) in self.threads.drain(..) {
            drop(sender);
            // A thread that panicked has said so through its job.
            let _ = thread.join();
        }
    }
}

/// What a thread works with.
struct WorkerState {
    device: Arc<Device>,
    clock: Clock,
    buffer: Buffer,
    /// A stream and pinned memory for ends on the device, made when first needed.
    via: Option<(Stream, PinnedMemory)>,
}

impl WorkerState {
    fn work(&mut self, job: Job) -> Done {
        let (ticket, queue) = (job.ticket, job.queue);
        let mut times = (Time::ZERO, Time::ZERO);
        let worked = catch_unwind(AssertUnwindSafe(|| self.carry_out(job, &mut times)));
        let checks = worked.unwrap_or_else(|panic| Err(Fault::died(panic)));
        Done { ticket, queue, start: times.0, end: times.1, checks }
    }

    fn carry_out(
        &mut self,
        job: Job,
        (start, end): &mut (Time, Time),
    ) -> Result<Vec<Option<Mismatch>>> {
        let ticket = job.ticket;
        self.device.enter()?;
        self.clock.delay(job.late);
        *start = self.clock.now();
        let mut checks = Vec::new();
        match job.task {
            Task::Carry(rows) => {
                rows.iter().try_for_each(|(from, to, bytes)| self.carry(from, to, *bytes))?;
            }
            Task::Use { reads, writes } => {
                for look in reads {
                    checks.push(self.look(ticket, &look)?);
                }
                for (slot, key, pages) in writes {
                    let filled = kernels::fill(&slot, pages, key, &mut self.buffer);
                    filled.map_err(Fault::io("writes", FILES))?;
                }
            }
        }
        *end = self.clock.now();
        for look in job.checks {
            checks.push(self.look(ticket, &look)?);
        }
        Ok(checks)
    }

    fn look(&mut self, ticket: Ticket, look: &Look) -> Result<Option<Mismatch>> {
        let &Look { ref slot, ref pages, object, tier, version, stride } = look;
        let key = Key { object, version };
        let found = kernels::check(slot, pages.clone(), stride, key, &mut self.buffer);
        let found = found.map_err(Fault::io("reads", FILES))?;
        Ok(found.map(|found| Mismatch::new((ticket, object, tier), version, found)))
    }

    fn carry(&mut self, from: &End, to: &End, bytes: u64) -> Result<()> {
        let direct = match (from, to) {
            ((Place::File(slot), at), (Place::Pinned(memory, start), offset)) => {
                Some((slot, *at, memory, start + offset, false))
            }
            ((Place::Pinned(memory, start), offset), (Place::File(slot), at)) => {
                Some((slot, *at, memory, start + offset, true))
            }
            _ => None,
        };
        if let Some((slot, at, memory, start, writes)) = direct {
            let file = slot.as_file().expect("a slot of a tier of files");
            let moved = memory.by_file((start, bytes), (file, at), writes);
            let what = if writes { "writes" } else { "reads" };
            return moved.map_err(Fault::io(what, FILES));
        }
        let mut done = 0;
        while done < bytes {
            let now = STEP.min(bytes - done);
            let mut buffer = std::mem::replace(&mut self.buffer, Buffer::new(0));
            let carried = self.load((&from.0, from.1 + done), buffer.first(now as usize));
            let carried =
                carried.and_then(|()| self.store((&to.0, to.1 + done), buffer.first(now as usize)));
            self.buffer = buffer;
            carried?;
            done += now;
        }
        Ok(())
    }

    fn load(&mut self, (place, at): (&Place, u64), into: &mut [u8]) -> Result<()> {
        match place {
            Place::Device(address) => {
                let (stream, memory) = self.via()?;
                stream.copy(memory.address, address + at, into.len() as u64)?;
                stream.synchronize()?;
                memory.load(0, into);
                Ok(())
            }
            Place::Pinned(memory, start) => {
                memory.load(start + at, into);
                Ok(())
            }
            Place::File(slot) => {
                slot.load(at as usize / PAGE, into).map_err(Fault::io("reads", FILES))
            }
        }
    }

    fn store(&mut self, (place, at): (&Place, u64), bytes: &[u8]) -> Result<()> {
        match place {
            Place::Device(address) => {
                let (stream, memory) = self.via()?;
                memory.store(0, bytes);
                stream.copy(address + at, memory.address, bytes.len() as u64)?;
                stream.synchronize()
            }
            Place::Pinned(memory, start) => {
                memory.store(start + at, bytes);
                Ok(())
            }
            Place::File(slot) => {
                slot.store(at as usize / PAGE, bytes).map_err(Fault::io("writes", FILES))
            }
        }
    }

    fn via(&mut self) -> Result<&(Stream, PinnedMemory)> {
        if self.via.is_none() {
            let memory = PinnedMemory::new(&self.device, STEP)?;
            self.via = Some((Stream::new(&self.device, true)?, memory));
        }
        Ok(self.via.as_ref().expect("it was just made"))
    }
}

/// The writes that a place has seen: those of an object's present contents, or the version that it
/// holds throughout; `None` if it is neither.
pub(crate) fn version(
    device: &Arc<Device>,
    object: ObjectId,
    (place, bytes): (&Place, u64),
    now: &ObjectContents,
) -> Result<Option<u64>> {
    let clock = Clock::start();
    let mut bench =
        WorkerState { device: device.clone(), clock, buffer: Buffer::new(0), via: None };
    let mut buffer = Buffer::new(STEP as usize);
    let mut is_present = true;
    for layer in now.layers.iter() {
        let key = Key { object, version: layer.version };
        for block in kernels::blocks(layer.pages.clone()) {
            let (at, end) = (block.start * PAGE, (block.end * PAGE).min(bytes as usize));
            let read = buffer.first(end.saturating_sub(at));
            bench.load((place, at as u64), read)?;
            is_present &= crate::pattern::check(read, at, key).is_none();
        }
    }
    if is_present {
        return Ok(Some(now.version));
    }
    let mut version = None;
    let mut at = 0;
    while at < bytes {
        let block = buffer.first(STEP.min(bytes - at) as usize);
        bench.load((place, at), block)?;
        let found = crate::pattern::decode(crate::pattern::read(&block[..8]), at as usize).1;
        let key = Key { object, version: *version.get_or_insert(found) };
        if crate::pattern::check(block, at as usize, key).is_some() {
            return Ok(None);
        }
        at += STEP;
    }
    Ok(version)
}
