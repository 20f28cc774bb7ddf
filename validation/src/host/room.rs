//! Real room for one object: pages of memory, or a file that goes around the page cache.
//!
//! Each slot is an allocation of its own, so that no legal plan can fail by fragmentation. Words of
//! memory are atomics, because a plan with a missing edge makes threads meet in one slot: that must
//! show as a wrong pattern and not be undefined behaviour.
//! Invariant: whatever is made here counts in [`Live`] until it is dropped.

use crate::fault::{Fault, Result};
pub(crate) use crate::files::Buffer;
use crate::files::{DirectFile, Queue};
use crate::options::Live;
use crate::pattern::PAGE;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tiersim_models::hardware::TierKind;

const WORDS: usize = PAGE / 8;

/// How ranges of files are read and written. A quarter of a MiB is one request, which was quicker
/// than several small ones; longer ranges, as between two channels, have several in flight.
const QUEUE: Queue = Queue { block: 1 << 18, depth: 8 };

/// Whether a tier is files.
pub(crate) fn is_file(kind: TierKind) -> bool {
    matches!(kind, TierKind::Nvme | TierKind::Remote)
}

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
    fn file(path: PathBuf, pages: usize, live: Live) -> io::Result<Slot> {
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

/// The folder of one machine's files; removed with it.
pub(crate) struct Folder {
    path: PathBuf,
    live: Live,
    files: AtomicU64,
}

impl Folder {
    /// A folder below `scratch` that was not there: another machine's is never shared, whoever's
    /// process has this process's number too.
    pub(crate) fn new(scratch: &Path, live: &Live) -> Result<Folder> {
        static MACHINES: AtomicU64 = AtomicU64::new(0);
        let fail = |error| Fault::io("makes a folder in", scratch.display())(error);
        std::fs::create_dir_all(scratch).map_err(fail)?;
        loop {
            let number = MACHINES.fetch_add(1, Relaxed);
            let path = scratch.join(format!("tiersim-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(fail)?,
            }
            return Ok(Folder { path, live: live.clone(), files: AtomicU64::new(0) });
        }
    }

    /// A new file of so many pages.
    pub(crate) fn file(&self, pages: usize) -> Result<Slot> {
        let path = self.path.join(self.files.fetch_add(1, Relaxed).to_string());
        let place = path.display().to_string();
        Slot::file(path, pages, self.live.clone()).map_err(Fault::io("makes file", place))
    }

    /// Removes it with files that nobody will remove any more.
    pub(crate) fn abandon(&self) {
        // Nobody is left to tell.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Should somebody else have put something there, it is theirs and stays.
        let _ = std::fs::remove_dir(&self.path);
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

/// Keeps memory in place; whether the system does.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "locking memory is a system call without a safe wrapper")]
pub(crate) fn lock<T>(memory: &[T]) -> bool {
    // SAFETY: the address and length are those of a live slice; mlock reads and writes none of it
    // and fails cleanly where the limit does not allow it.
    unsafe { libc::mlock(memory.as_ptr().cast(), size_of_val(memory)) == 0 }
}

/// Ends that.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "unlocking memory is a system call without a safe wrapper")]
pub(crate) fn unlock<T>(memory: &[T]) {
    // SAFETY: as above. A failure only leaves the pages locked until they are given back.
    let _ = unsafe { libc::munlock(memory.as_ptr().cast(), size_of_val(memory)) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lock<T>(_: &[T]) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn unlock<T>(_: &[T]) {}
