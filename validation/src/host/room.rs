//! Real room for one object: pages of memory, or a file that goes around the page cache.
//!
//! Each slot is an allocation of its own, so that no legal plan can fail by fragmentation. Words of
//! memory are atomics, because a plan with a missing edge makes threads meet in one slot: that must
//! show as a wrong pattern and not be undefined behaviour.
//! Invariant: whatever is made here counts in [`Live`] until it is dropped.

use crate::options::Live;
use crate::pattern::PAGE;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORDS: usize = PAGE / 8;

/// Bytes that start on a page, as O_DIRECT wants them.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Buffer {
        let bytes = vec![0; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Buffer { bytes, start }
    }

    /// The first `len` bytes; what was in a buffer that was smaller is lost.
    pub(crate) fn first(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + PAGE {
            *self = Buffer::new(len);
        }
        &mut self.bytes[self.start..self.start + len]
    }
}

/// Room for one object, in whole pages.
pub(crate) struct Slot {
    media: Media,
    pub(crate) pages: usize,
    live: Live,
}

enum Media {
    Memory { pages: Box<[Page]>, locked: bool },
    File { file: File, path: PathBuf, direct: bool },
}

#[repr(C, align(4096))]
struct Page([AtomicU64; WORDS]);

impl Slot {
    /// Memory, locked where the system allows it.
    pub(crate) fn memory(pages: usize, live: Live) -> Slot {
        let page = |_| Page([const { AtomicU64::new(0) }; WORDS]);
        let memory: Box<[Page]> = (0..pages).map(page).collect();
        let locked = lock(&memory);
        live.rooms.fetch_add(1, Relaxed);
        Slot { media: Media::Memory { pages: memory, locked }, pages, live }
    }

    /// A file, around the page cache where the file system allows it.
    pub(crate) fn file(path: PathBuf, pages: usize, live: Live) -> io::Result<Slot> {
        let (file, direct) = match open(&path, true) {
            Ok(file) => (file, true),
            Err(_) => (open(&path, false)?, false),
        };
        live.rooms.fetch_add(1, Relaxed);
        // From here on, dropping the slot removes the file.
        let slot = Slot { media: Media::File { file, path, direct }, pages, live };
        if let Media::File { file, .. } = &slot.media {
            file.set_len((pages * PAGE) as u64)?;
        }
        Ok(slot)
    }

    /// Whether memory is locked, or a file goes around the page cache.
    pub(crate) fn as_wished(&self) -> bool {
        match self.media {
            Media::Memory { locked, .. } => locked,
            Media::File { direct, .. } => direct,
        }
    }

    /// The file, if it is one.
    pub(crate) fn as_file(&self) -> Option<&File> {
        match &self.media {
            Media::File { file, .. } => Some(file),
            Media::Memory { .. } => None,
        }
    }

    /// Reads whole pages from page `from` on.
    pub(crate) fn load(&self, from: usize, into: &mut [u8]) -> io::Result<()> {
        match &self.media {
            Media::Memory { pages, .. } => {
                for (page, into) in pages[from..].iter().zip(into.chunks_exact_mut(PAGE)) {
                    for (word, into) in page.0.iter().zip(into.chunks_exact_mut(8)) {
                        into.copy_from_slice(&word.load(Relaxed).to_le_bytes());
                    }
                }
                Ok(())
            }
            Media::File { file, .. } => read_at(file, into, (from * PAGE) as u64),
        }
    }

    /// Writes whole pages from page `from` on.
    pub(crate) fn store(&self, from: usize, bytes: &[u8]) -> io::Result<()> {
        match &self.media {
            Media::Memory { pages, .. } => {
                for (page, bytes) in pages[from..].iter().zip(bytes.chunks_exact(PAGE)) {
                    for (word, bytes) in page.0.iter().zip(bytes.chunks_exact(8)) {
                        word.store(crate::pattern::read(bytes), Relaxed);
                    }
                }
                Ok(())
            }
            Media::File { file, .. } => write_at(file, bytes, (from * PAGE) as u64),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match &self.media {
            Media::Memory { pages, locked: true } => unlock(pages),
            Media::Memory { .. } => {}
            // Nobody is left to tell; the folder's removal would fail too.
            Media::File { path, .. } => drop(std::fs::remove_file(path)),
        }
        self.live.rooms.fetch_sub(1, Relaxed);
    }
}

fn open(path: &PathBuf, direct: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(target_os = "linux")]
    if direct {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_DIRECT);
    }
    #[cfg(not(target_os = "linux"))]
    if direct {
        return Err(io::ErrorKind::Unsupported.into());
    }
    options.open(path)
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

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "locking memory is a system call without a safe wrapper")]
fn lock(pages: &[Page]) -> bool {
    // SAFETY: the address and length are those of a live allocation; mlock reads and writes none
    // of it and fails cleanly where the limit does not allow it.
    unsafe { libc::mlock(pages.as_ptr().cast(), size_of_val(pages)) == 0 }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "unlocking memory is a system call without a safe wrapper")]
fn unlock(pages: &[Page]) {
    // SAFETY: as above; the allocation is still live. A failure only leaves the pages locked.
    let _ = unsafe { libc::munlock(pages.as_ptr().cast(), size_of_val(pages)) };
}

#[cfg(not(target_os = "linux"))]
fn lock(_: &[Page]) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn unlock(_: &[Page]) {}
