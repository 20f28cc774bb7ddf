//! Blocks in flight by io_uring: requests and answers lie in memory shared with the kernel.
//!
//! Each thread has one ring, made when it is first needed and kept: a machine's channel threads use
//! theirs for all files. A ring that has failed is thrown away.
//! Invariant: the kernel holds pointers into a buffer only while [`transfer`] borrows it. Nothing
//! leaves that function before every request that the kernel has taken is answered.

use super::{Buffers, MAX_DEPTH, Queue, threads};
use crate::clock::Clock;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use tiersim_models::units::{Span, Time};

thread_local! {
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
}

/// Whether this kernel lets this process make a ring that can read and write.
pub(super) fn allowed() -> bool {
    let Ok(ring) = IoUring::new(2) else { return false };
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok()
        && probe.is_supported(opcode::Read::CODE)
        && probe.is_supported(opcode::Write::CODE)
}

pub(super) fn transfer(
    file: &File,
    at: u64,
    buffers: Buffers<'_>,
    queue: Queue,
    latencies: Option<&mut Vec<Span>>,
) -> io::Result<()> {
    RING.with_borrow_mut(|kept| {
        // This thread may be one too many for the system's limits: then without a ring.
        let Some(mut ring) = kept.take().or_else(|| IoUring::new(MAX_DEPTH as u32).ok()) else {
            return threads::transfer(file, at, buffers, queue, latencies);
        };
        let (start, len, reads) = match buffers {
            Buffers::Read(into) => (into.as_mut_ptr(), into.len(), true),
            // Never written through: a Write request only reads it.
            Buffers::Write(bytes) => (bytes.as_ptr().cast_mut(), bytes.len(), false),
        };
        let mut flight = Flight {
            file: types::Fd(file.as_raw_fd()),
            at,
            start,
            reads,
            clock: Clock::start(),
            blocks: Vec::new(),
            error: None,
            latencies,
        };
        let whole = flight.run(&mut ring, len, queue);
        if whole {
            *kept = Some(ring);
        }
        flight.error.map_or(Ok(()), Err)
    })
}

/// One call's blocks.
struct Flight<'a> {
    file: types::Fd,
    at: u64,
    start: *mut u8,
    reads: bool,
    clock: Clock,
    /// Every block in flight so far: what is left of it, and since when.
    blocks: Vec<ReadBlock>,
    error: Option<io::Error>,
    latencies: Option<&'a mut Vec<Span>>,
}

#[derive(Clone, Copy)]
struct ReadBlock {
    from: usize,
    end: usize,
    since: Time,
}

impl Flight<'_> {
    /// Moves `len` bytes; false if the ring is not fit for another call.
    fn run(&mut self, ring: &mut IoUring, len: usize, queue: Queue) -> bool {
        let (mut next, mut in_flight) = (0, 0);
        let mut again: Vec<usize> = Vec::new();
        loop {
            while self.error.is_none() && in_flight < queue.depth {
                let index = match again.pop() {
                    Some(index) => index,
                    None if next < len => {
                        let end = len.min(next + queue.block);
                        self.blocks.push(ReadBlock { from: next, end, since: self.clock.now() });
                        next = end;
                        self.blocks.len() - 1
                    }
                    None => break,
                };
                self.push(ring, index);
                in_flight += 1;
            }
            if in_flight == 0 {
                return true;
            }
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if passes(&error) => {}
                Err(error) => {
                    self.error.get_or_insert(error);
                    self.drain(ring, in_flight);
                    return false;
                }
            }
            for answer in ring.completion() {
                in_flight -= 1;
                let index = usize::try_from(answer.user_data()).expect("it was an index");
                if self.answered(index, answer.result()) {
                    again.push(index);
                }
            }
        }
    }

    #[expect(unsafe_code, reason = "the kernel is given pointers, which no type can follow there")]
    fn push(&self, ring: &mut IoUring, index: usize) {
        let ReadBlock { from, end, .. } = self.blocks[index];
        let (offset, len) = (self.at + from as u64, (end - from) as u32);
        let start = self.start.wrapping_add(from);
        let request = if self.reads {
            opcode::Read::new(self.file, start, len).offset(offset).build()
        } else {
            opcode::Write::new(self.file, start, len).offset(offset).build()
        };
        let request: squeue::Entry = request.user_data(index as u64);
        // SAFETY: the block lies within the buffer that `start` begins; `transfer` borrows the file
        // and the buffer and waits for every answer, also on failure; blocks do not overlap, and
        // none is in flight twice.
        let pushed = unsafe { ring.submission().push(&request) };
        pushed.expect("the ring has room for the largest depth");
    }

    /// Notes an answer; true if the rest of the block must be asked for again.
    fn answered(&mut self, index: usize, result: i32) -> bool {
        let block = &mut self.blocks[index];
        match usize::try_from(result) {
            Ok(0) if self.reads => {
                let end = "the file ends before the range that was asked for";
                self.error.get_or_insert_with(|| io::Error::new(ErrorKind::UnexpectedEof, end));
            }
            Ok(0) => {
                self.error.get_or_insert_with(|| ErrorKind::WriteZero.into());
            }
            Ok(moved) => {
                block.from += moved;
                if block.from < block.end {
                    return true;
                }
                if let Some(latencies) = &mut self.latencies {
                    latencies.push(self.clock.now().since(block.since));
                }
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(-result);
                if passes(&error) {
                    return true;
                }
                self.error.get_or_insert(error);
            }
        }
        false
    }

    /// Waits for what the kernel has taken, without another system call of the ring's.
    fn drain(&mut self, ring: &mut IoUring, in_flight: usize) {
        let mut taken = in_flight - ring.submission().len();
        while taken > 0 {
            taken -= ring.completion().count();
            std::thread::yield_now();
        }
    }
}

/// What is over when one asks again.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
        || error.raw_os_error() == Some(libc::EBUSY)
}
