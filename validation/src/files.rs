//! Files around the page cache, with several blocks in flight.
//!
//! A flash drive is quick only when it has several requests at once, so a range is split into
//! blocks of which a number is kept in flight: by io_uring where the kernel allows it, by threads
//! with pread and pwrite where it does not. Both move the same bytes to the same places.
//! Invariant: a call returns when nothing is in flight any more, whether or not it failed.

mod threads;
#[cfg(target_os = "linux")]
mod uring;

use crate::pattern::PAGE;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::OnceLock;
use tiersim_models::units::Span;

/// Most blocks in flight of one call.
pub const MAX_DEPTH: usize = 256;

/// How blocks are put in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// io_uring: one thread, a queue shared with the kernel. Linux only.
    Uring,
    /// One thread per block in flight, each with pread or pwrite.
    Threads,
}

impl Backend {
    /// io_uring where this kernel allows it, threads elsewhere; asked once per process.
    pub fn best() -> Backend {
        static BEST: OnceLock<Backend> = OnceLock::new();
        *BEST.get_or_init(|| if uring_allowed() { Backend::Uring } else { Backend::Threads })
    }

    /// The word used in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Backend::Uring => "io_uring",
            Backend::Threads => "pread and pwrite threads",
        }
    }
}

#[cfg(target_os = "linux")]
fn uring_allowed() -> bool {
    uring::allowed()
}

#[cfg(not(target_os = "linux"))]
fn uring_allowed() -> bool {
    false
}

/// How a range is cut and how much of it is under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Bytes of a block, in whole pages of 4096; the last block of a range may be smaller.
    pub block: usize,
    /// Blocks in flight, 1 to [`MAX_DEPTH`].
    pub depth: usize,
}

/// An open file.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    direct: bool,
    backend: Backend,
}

/// Bytes that start on a page, as O_DIRECT wants them.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// `len` bytes of 0.
    pub fn new(len: usize) -> Buffer {
        let bytes = vec![0; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Buffer { bytes, start }
    }

    /// The first `len` bytes; what was in a buffer that was smaller is lost.
    pub fn first(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + PAGE {
            *self = Buffer::new(len);
        }
        &mut self.bytes[self.start..self.start + len]
    }
}

/// One direction of a transfer, with its buffer.
pub(crate) enum Buffers<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl DirectFile {
    /// Makes a file of `bytes` bytes, which read as 0 at first; one that is there is emptied.
    ///
    /// Where the file system refuses to go around the page cache, the file is buffered:
    /// [`DirectFile::is_direct`] says which it is.
    pub fn create(path: &Path, bytes: u64) -> io::Result<DirectFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let made = DirectFile::first_of(|direct| open(&options, path, direct))?;
        made.file.set_len(bytes)?;
        Ok(made)
    }

    /// Opens around the page cache, or else through it: whatever the reason of the first refusal,
    /// the second attempt meets it again or does not mind.
    fn first_of(open: impl Fn(bool) -> io::Result<File>) -> io::Result<DirectFile> {
        let backend = Backend::best();
        match open(true) {
            Ok(file) => Ok(DirectFile { file, direct: true, backend }),
            Err(_) => Ok(DirectFile { file: open(false)?, direct: false, backend }),
        }
    }

    /// Whether the file goes around the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The file itself, for whoever keeps to the rules of O_DIRECT on its own.
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// How blocks are put in flight.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Reads `into.len()` bytes from byte `at` on; past the end of the file it is an error.
    ///
    /// `at`, the block and the length are multiples of 4096 and the buffer starts on such an
    /// address, as O_DIRECT asks: anything else is refused, whatever the file system would say.
    pub fn read(&self, at: u64, into: &mut [u8], queue: Queue) -> io::Result<()> {
        self.transfer(at, Buffers::Read(into), queue, None)
    }

    /// Writes all of `bytes` from byte `at` on; the same rules as for [`DirectFile::read`].
    pub fn write(&self, at: u64, bytes: &[u8], queue: Queue) -> io::Result<()> {
        self.transfer(at, Buffers::Write(bytes), queue, None)
    }

    /// Reads or writes, and adds each block's time from its submission to its end, in no order, if
    /// asked to.
    pub(crate) fn transfer(
        &self,
        at: u64,
        buffers: Buffers<'_>,
        queue: Queue,
        latencies: Option<&mut Vec<Span>>,
    ) -> io::Result<()> {
        check(at, &buffers, queue)?;
        match self.backend {
            #[cfg(target_os = "linux")]
            Backend::Uring => uring::transfer(&self.file, at, buffers, queue, latencies),
            #[cfg(not(target_os = "linux"))]
            Backend::Uring => Err(ErrorKind::Unsupported.into()),
            Backend::Threads => threads::transfer(&self.file, at, buffers, queue, latencies),
        }
    }
}

/// Refuses what O_DIRECT would refuse, on every file system alike.
fn check(at: u64, buffers: &Buffers<'_>, queue: Queue) -> io::Result<()> {
    let (start, len) = match buffers {
        Buffers::Read(into) => (into.as_ptr(), into.len()),
        Buffers::Write(bytes) => (bytes.as_ptr(), bytes.len()),
    };
    let refuse = |what: String| Err(io::Error::new(ErrorKind::InvalidInput, what));
    if !(1..=MAX_DEPTH).contains(&queue.depth) {
        return refuse(format!("a queue depth of {} is not within 1 to {MAX_DEPTH}", queue.depth));
    }
    if queue.block == 0 || u32::try_from(queue.block).is_err() {
        return refuse(format!("a block of {} bytes is not within 1 B to 4 GiB", queue.block));
    }
    let address = start as usize as u64;
    let figures = [
        ("offset", at),
        ("length", len as u64),
        ("block", queue.block as u64),
        ("buffer's address", address),
    ];
    match figures.into_iter().find(|(_, figure)| figure % PAGE as u64 != 0) {
        Some((name, figure)) => refuse(format!("the {name} {figure} is not a multiple of {PAGE}")),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn open(options: &OpenOptions, path: &Path, direct: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = options.clone();
    options.custom_flags(if direct { libc::O_DIRECT } else { 0 });
    options.open(path)
}

#[cfg(not(target_os = "linux"))]
fn open(options: &OpenOptions, path: &Path, direct: bool) -> io::Result<File> {
    if direct { Err(ErrorKind::Unsupported.into()) } else { options.open(path) }
}

#[cfg(test)]
mod tests;
