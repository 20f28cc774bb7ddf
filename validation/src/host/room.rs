//! Real room for one object: pages of memory, or a file that goes around the page cache.
//!
//! Each slot is an allocation of its own, so that no legal plan can fail by fragmentation. Words of
//! memory are atomics, because a plan with a missing edge makes threads meet in one slot: that must
//! show as a wrong pattern and not be undefined behaviour.
//! Invariant: whatever is made here counts in [`Live`] until it is dropped.

pub(crate) use crate::files::Buffer;
use crate::files::{DirectFile, Queue};
use crate::options::Live;
use crate::pattern::PAGE;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORDS: usize = PAGE / 8;

/// How ranges of files are read and written. A quarter of a MiB is one request, which was quicker
/// than several small ones; longer ranges, as between two lanes, have several in flight.
const QUEUE: Queue = Queue { block: 1 << 18, depth: 8 };

/// Room for one object, in whole pages.
pub(crate) struct Slot {
    media: Media,
    pub(crate) pages: usize,
    live: Live,
}

enum Media {
    Memory { pages: Box<[Page]>, locked: bool },
    File { file: DirectFile, path: PathBuf },
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
        let file = DirectFile::create(&path, (pages * PAGE) as u64).inspect_err(|_| {
            // It may have been made and then not given its size.
            let _ = std::fs::remove_file(&path);
        })?;
        live.rooms.fetch_add(1, Relaxed);
        Ok(Slot { media: Media::File { file, path }, pages, live })
    }

    /// Whether memory is locked, or a file goes around the page cache.
    pub(crate) fn as_wished(&self) -> bool {
        match &self.media {
            Media::Memory { locked, .. } => *locked,
            Media::File { file, .. } => file.is_direct(),
        }
    }

    /// The file, if it is one.
    pub(crate) fn as_file(&self) -> Option<&std::fs::File> {
        match &self.media {
            Media::File { file, .. } => Some(file.as_file()),
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
            Media::File { file, .. } => file.read((from * PAGE) as u64, into, QUEUE),
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
            Media::File { file, .. } => file.write((from * PAGE) as u64, bytes, QUEUE),
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
