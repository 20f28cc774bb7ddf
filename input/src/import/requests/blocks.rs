//! Requests of disks cut into blocks of one size: what a cache of blocks is asked for.
//!
//! A request asks for every block of which it touches a byte, one after the other, and each counts
//! whole: a cache that misses a block fetches all of it.
//! Invariant: two blocks have one number only if they are one block.

use super::Seen;
use super::io::{END, Io, Ios, MOST_VOLUMES};
use std::path::Path;
use tiersim_models::block_trace::{BATCH, MOST_BYTES, NEVER, Request};
use tiersim_models::diagnostic::Diagnostics;

/// Bytes of a block where nobody says how many: a page, and a sector of today's drives.
pub(crate) const BLOCK: u64 = 4 << 10;
/// Sizes that blocks of addresses may have.
const SIZES: std::ops::RangeInclusive<u64> = SMALLEST..=1 << 30;
const SMALLEST: u64 = 64;

/// Blocks of one volume.
const SHIFT: u32 = (END / SMALLEST).ilog2();
const _: () = assert!(MOST_VOLUMES.ilog2() + SHIFT <= u64::BITS);

/// Whether objects may be so large: blocks of addresses, or objects that a file names.
///
/// # Errors
/// The rule that is broken.
pub(crate) fn check_size(path: &Path, bytes: u64, addressed: bool) -> Result<(), Diagnostics> {
    let rule = match addressed {
        true if !bytes.is_power_of_two() || !SIZES.contains(&bytes) => {
            "objects have a power of two of bytes, from 64 B to 1 GiB"
        }
        false if !(1..=MOST_BYTES).contains(&bytes) => "an object has 1 to 2^44 bytes",
        _ => return Ok(()),
    };
    let remedy = "give another --object-bytes";
    Err(Diagnostics::one(path, None, rule, bytes.to_string(), remedy))
}

/// The blocks of a file.
pub(super) struct Blocks {
    pub(super) ios: Ios,
    size: u64,
    /// Blocks of the latest request that are to come.
    left: std::ops::Range<u64>,
    seen: Seen,
}

impl Blocks {
    pub(super) fn new(ios: Ios, size: u64) -> Blocks {
        Blocks { ios, size, left: 0..0, seen: Seen::default() }
    }

    pub(super) fn next_batch(
        &mut self,
        batch: &mut Vec<Request>,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> Result<(), Diagnostics> {
        while batch.len() < BATCH {
            let Some(object) = self.left.next() else {
                let Some(Io { at_ps, volume, offset, bytes, mode }) = self.ios.next()? else {
                    break;
                };
                let (first, last) = (offset / self.size, (offset + (bytes - 1)) / self.size);
                let before = volume << SHIFT;
                self.left = before + first..before + last + 1;
                self.seen = Seen { at_ps, mode: Some(mode) };
                continue;
            };
            batch.push(Request { object, bytes: self.size, next: NEVER });
            if let Some(seen) = &mut seen {
                seen.push(self.seen);
            }
        }
        Ok(())
    }
}
