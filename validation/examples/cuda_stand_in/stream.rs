//! Streams and events: queues with a thread each, and points in them.
//!
//! Work is numbered in the order of queueing; a [`Mark`] names a stream and a number, and is
//! reached when all up to it has ended. Waiting for an event is work too: it waits for the mark
//! that the event had when the wait was queued.
//! Invariant: a mark names work that is queued before whoever waits for it, so no wait is circular.

use crate::codes::Code;
use crate::driver::Driver;
use crate::kernels::{Launch, now};
use crate::memory::Place;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Threads of streams that have not ended.
pub(crate) static THREADS: AtomicU64 = AtomicU64::new(0);

/// `CUhostFn`.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// One piece of work.
pub(crate) enum Work {
    /// Copy bytes.
    Copy { to: Place, from: Place, bytes: usize },
    /// Run a kernel.
    Kernel(Launch),
    /// Note the time for an event.
    Note(Arc<OnceLock<Instant>>),
    /// Wait for a point in another stream.
    Wait(Mark),
    /// Call the host.
    Call { function: HostFunction, data: usize },
}

impl Work {
    fn run(self) -> Result<(), Code> {
        match self {
            Work::Copy { to, from, bytes } => {
                // SAFETY: both ranges were checked against their allocations, which they keep
                // alive; pageable ones are the caller's, who waits. They may overlap.
                unsafe { std::ptr::copy(from.pointer(), to.pointer(), bytes) };
                Ok(())
            }
            Work::Kernel(launch) => launch.run(),
            Work::Note(moment) => {
                // A record is queued once, so it is noted once.
                let _ = moment.set(now());
                Ok(())
            }
            Work::Wait(mark) => {
                mark.wait();
                Ok(())
            }
            Work::Call { function, data } => {
                // SAFETY: the caller of cuLaunchHostFunc promised that it may be called with this.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data)) };
                Ok(())
            }
        }
    }
}

/// An in-order queue.
pub(crate) struct Stream {
    /// Whether it keeps order with the legacy stream.
    pub(crate) blocking: bool,
    queue: Mutex<Queue>,
    more: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    queued: u64,
    ended: u64,
    closing: bool,
}

impl Stream {
    /// A stream with its thread; `None` if the system gives none.
    pub(crate) fn open(blocking: bool) -> Option<Arc<Stream>> {
        let stream = Arc::new(Stream {
            blocking,
            queue: Mutex::default(),
            more: Condvar::new(),
            done: Condvar::new(),
        });
        let mine = stream.clone();
        let thread = std::thread::Builder::new().name("stand-in stream".to_owned());
        THREADS.fetch_add(1, Relaxed);
        if thread.spawn(move || mine.work()).is_err() {
            THREADS.fetch_sub(1, Relaxed);
            return None;
        }
        Some(stream)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            let Some(work) = queue.work.pop_front() else {
                if queue.closing {
                    break;
                }
                queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let driver = Driver::get();
            // After an error nothing runs any more, but queues go on to their ends.
            if driver.error().is_none()
                && let Err(code) = work.run()
            {
                driver.poison(code);
            }
            queue = self.lock();
            queue.ended += 1;
            self.done.notify_all();
        }
        THREADS.fetch_sub(1, Relaxed);
    }

    /// Queues work; the point behind it.
    pub(crate) fn push(self: &Arc<Stream>, work: Work) -> Mark {
        let mut queue = self.lock();
        queue.work.push_back(work);
        queue.queued += 1;
        self.more.notify_one();
        Mark { stream: self.clone(), number: queue.queued }
    }

    /// The point behind all that is queued.
    pub(crate) fn tail(self: &Arc<Stream>) -> Mark {
        Mark { stream: self.clone(), number: self.lock().queued }
    }

    /// Lets the thread end once all is done.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.more.notify_one();
    }
}

/// A point in a stream.
#[derive(Clone)]
pub(crate) struct Mark {
    stream: Arc<Stream>,
    number: u64,
}

impl Mark {
    /// Whether all before it has ended.
    pub(crate) fn reached(&self) -> bool {
        self.stream.lock().ended >= self.number
    }

    /// Waits until it is.
    pub(crate) fn wait(&self) {
        let mut queue = self.stream.lock();
        while queue.ended < self.number {
            queue = self.stream.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// An event: its last record, if there is one.
pub(crate) struct Event {
    /// Whether it notes times.
    pub(crate) timing: bool,
    /// Where it was recorded, and when that point was passed.
    pub(crate) last: Option<(Mark, Arc<OnceLock<Instant>>)>,
}
