//! Blocks in flight by threads: each takes the next block and waits for it with pread or pwrite.
//!
//! Threads live for one call: what is quick goes through io_uring, and a pool would have to be
//! owned by somebody. A range of one block, or a depth of one, needs no thread.
//! Invariant: all threads have ended when the call returns; the first error is the one returned.

use super::{Buffers, Queue};
use crate::clock::Clock;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tiersim_models::units::{Span, Time};

/// What the threads share: the blocks to do, and what came of those done.
struct Shared<'l, I> {
    blocks: I,
    error: Option<io::Error>,
    latencies: Option<&'l mut Vec<Span>>,
}

pub(super) fn transfer(
    file: &File,
    at: u64,
    buffers: Buffers<'_>,
    queue: Queue,
    latencies: Option<&mut Vec<Span>>,
) -> io::Result<()> {
    let offset = |index: usize| at + (index * queue.block) as u64;
    match buffers {
        Buffers::Read(into) => {
            let blocks = into.chunks_mut(queue.block).enumerate();
            run(blocks, queue, latencies, |index, into| read_at(file, into, offset(index)))
        }
        Buffers::Write(bytes) => {
            let blocks = bytes.chunks(queue.block).enumerate();
            run(blocks, queue, latencies, |index, bytes| write_at(file, bytes, offset(index)))
        }
    }
}

fn run<B>(
    blocks: impl ExactSizeIterator<Item = (usize, B)> + Send,
    queue: Queue,
    latencies: Option<&mut Vec<Span>>,
    carry: impl Fn(usize, B) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let threads = queue.depth.min(blocks.len());
    let clock = Clock::start();
    let shared = Mutex::new(Shared { blocks, error: None, latencies });
    let work = || {
        let mut took: Option<Span> = None;
        loop {
            let mut state = lock(&shared);
            if let (Some(took), Some(latencies)) = (took, &mut state.latencies) {
                latencies.push(took);
            }
            if state.error.is_some() {
                return;
            }
            let Some((index, block)) = state.blocks.next() else { return };
            drop(state);
            let start: Time = clock.now();
            if let Err(error) = carry(index, block) {
                lock(&shared).error.get_or_insert(error);
                return;
            }
            took = Some(clock.now().since(start));
        }
    };
    if threads <= 1 {
        work();
    } else {
        std::thread::scope(|scope| {
            // Where the system gives no more threads, the one that is here does the work.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work);
            let spawned: Vec<_> = (1..threads).map_while(|index| spawn(index).ok()).collect();
            work();
            drop(spawned);
        });
    }
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.error.map_or(Ok(()), Err)
}

/// What a thread leaves is whole between any two statements.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
