//! A file that is read and written in blocks: the same for every bench, whatever memory it goes to.
//!
//! Invariant: the file is gone when this is.

use crate::calibrate::probe::{Kind, Limits};
use crate::clock::Clock;
use crate::fault::{Fault, Result};
use crate::files::{Buffers, DirectFile, Queue};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tiersim_models::units::{Bytes, Span};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Blocks and depths.
const BLOCKS: [u64; 6] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB];
const DEPTHS: [u16; 6] = [1, 2, 4, 8, 16, 32];
/// The most that one transfer takes.
const LARGEST: u64 = 64 * MIB;
/// Size of the file.
const FILE: u64 = 128 * MIB;
/// How it is written first.
const FIRST: Queue = Queue { block: MIB as usize, depth: 8 };

/// Every measurement of files, with its size.
pub(crate) fn kinds() -> Vec<(Kind, Limits)> {
    let mut kinds = Vec::new();
    for writes in [false, true] {
        for block in BLOCKS {
            // Enough blocks for percentiles, and enough of them for every depth.
            let size = Bytes::new((64 * block).clamp(MIB, LARGEST));
            let fits = |depth: &u16| u64::from(*depth) * block <= size.get();
            for depth in DEPTHS.into_iter().filter(fits) {
                let block = u32::try_from(block).expect("a block is small");
                kinds.push((Kind::File { writes, block, depth }, Limits::new(size, size)));
            }
        }
    }
    kinds
}

/// The file, and where in it the next transfer starts.
pub(crate) struct Blocks {
    file: DirectFile,
    path: PathBuf,
    at: u64,
    written: bool,
}

impl Blocks {
    /// A file below `scratch`.
    pub(crate) fn create(scratch: &Path) -> Result<Blocks> {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let number = FILES.fetch_add(1, Relaxed);
        let path = scratch.join(format!("tiersim-calibrate-{}-{number}", std::process::id()));
        let file =
            DirectFile::create(&path, FILE).map_err(Fault::io("makes file", path.display()))?;
        Ok(Blocks { file, path, at: 0, written: false })
    }

    /// Writes all of it once: blocks that were never written may be read without the drive.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        for at in (0..FILE).step_by(bytes.len()) {
            let part = &bytes[..bytes.len().min((FILE - at) as usize)];
            let written = self.file.write(at, part, FIRST);
            written.map_err(Fault::io("writes", self.path.display()))?;
        }
        self.written = true;
        Ok(())
    }

    /// The file.
    pub(crate) fn file(&self) -> &DirectFile {
        &self.file
    }

    /// Transfers all of `bytes`, so many times and once before that; the time of each transfer, and
    /// of every block of them.
    pub(crate) fn run(
        &mut self,
        writes: bool,
        bytes: &mut [u8],
        queue: Queue,
        repeats: usize,
    ) -> Result<(Vec<Span>, Vec<Span>)> {
        if !self.written {
            self.write_all(bytes)?;
        }
        let (mut spans, mut latencies) = (Vec::new(), Vec::new());
        let clock = Clock::start();
        for repeat in 0..=repeats {
            // On through the file, so that no repeat reads what a drive has just had in hand.
            if self.at + bytes.len() as u64 > FILE {
                self.at = 0;
            }
            let at = self.at;
            self.at += bytes.len() as u64;
            let start = clock.now();
            let mut times = Vec::new();
            let (what, buffers) = match writes {
                false => ("reads", Buffers::Read(bytes)),
                true => ("writes", Buffers::Write(bytes)),
            };
            let done = self.file.transfer(at, buffers, queue, Some(&mut times));
            done.map_err(Fault::io(what, self.path.display()))?;
            if repeat > 0 {
                spans.push(clock.now().since(start));
                latencies.append(&mut times);
            }
        }
        Ok((spans, latencies))
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = std::fs::remove_file(&self.path);
    }
}
