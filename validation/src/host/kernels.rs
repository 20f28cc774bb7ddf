//! What ops run: reading with a check, writing a pattern, and kernels of a fixed length.
//!
//! A kernel gets a number of iterations and never looks at the clock, so how long it takes is a
//! prediction that can be wrong: `pace.rs` measures what an iteration costs, with these very
//! functions. Two kernels, one for each side of the roofline: multiply-adds in registers, and
//! reading a buffer that no cache holds.
//! Invariant: the work of a kernel depends on its arguments only, and the compiler cannot drop it.

use crate::host::room::{Buffer, Slot};
use crate::pattern::{self, Key, PAGE};
use crate::truth::Contents;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Pages that a worker handles at a time: a quarter of a MiB, which a core's own cache holds.
pub(crate) const BLOCK: usize = 64;

/// Independent sums of the compute-bound kernel: enough to fill vector units and hide latency.
const SUMS: usize = 32;

/// Floating-point operations of one iteration of [`compute`]: a product and a sum each.
pub(crate) const FLOPS: u64 = 2 * SUMS as u64;

/// Bytes of one line of [`Scratch`].
pub(crate) const LINE: u64 = 64;

const WORDS: usize = LINE as usize / 8;

/// The compute-bound kernel: so many iterations of multiply-adds. One copy of its code for all who
/// run it: how a loop lies in memory moves its pace by a tenth.
#[inline(never)]
pub(crate) fn compute(iterations: u64) {
    // Products and sums apart: a fused one is a call into a library where the processor that is
    // compiled for has none. The sums stay close to 1, so no operand is ever a slow special case.
    let (scale, shift) = black_box((0.75f32, 0.25f32));
    let mut sums = black_box([1.0f32; SUMS]);
    for _ in 0..iterations {
        for sum in &mut sums {
            *sum = *sum * scale + shift;
        }
    }
    black_box(sums);
}

/// Memory for the memory-bound kernel, shared by all streams: it is only read.
pub(crate) struct Scratch {
    lines: Vec<[u64; WORDS]>,
    /// Where the next kernel starts: each goes on where the one before stopped.
    next: AtomicUsize,
}

impl Scratch {
    /// Twice as large as the last level of cache, so that each round misses it; as if that were
    /// 32 MiB where the system does not say.
    pub(crate) fn new() -> Scratch {
        let cache = last_cache().unwrap_or(32 << 20).clamp(1 << 20, 128 << 20);
        let lines = (2 * cache / LINE) as usize;
        // Not zeros: those might all be one page of the system's.
        Scratch { lines: vec![[1; WORDS]; lines], next: AtomicUsize::new(0) }
    }

    /// How many lines there are.
    pub(crate) fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    /// The memory-bound kernel: reads so many lines.
    #[inline(never)]
    pub(crate) fn stream(&self, lines: u64) {
        let mut left = usize::try_from(lines).expect("fewer lines than there are addresses");
        let mut at = self.next.fetch_add(left, Relaxed) % self.lines.len();
        let mut sums = [0u64; WORDS];
        while left > 0 {
            let now = left.min(self.lines.len() - at);
            for line in &self.lines[at..at + now] {
                for (sum, word) in sums.iter_mut().zip(line) {
                    *sum = sum.wrapping_add(*word);
                }
            }
            (left, at) = (left - now, 0);
        }
        black_box(sums);
    }
}

/// Bytes of the first core's largest cache, if the system says so.
pub(crate) fn last_cache() -> Option<u64> {
    let size = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        let kib: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        kib.checked_mul(1 << 10)
    };
    (0..8).filter_map(size).max()
}

/// Compares every `stride`-th page, the first and the last with a version's pattern: what was
/// found instead, if anything.
#[inline(never)]
pub(crate) fn check(
    slot: &Slot,
    pages: Range<usize>,
    stride: usize,
    key: Key,
    buffer: &mut Buffer,
) -> io::Result<Option<Contents>> {
    let mut look = |block: Range<usize>| {
        let bytes = buffer.first(block.len() * PAGE);
        slot.load(block.start, bytes)?;
        Ok::<_, io::Error>(pattern::check(bytes, block.start * PAGE, key))
    };
    let last = pages.end - 1;
    let mut found = None;
    if stride <= 1 {
        for block in blocks(pages) {
            found = found.or(look(block)?);
        }
    } else {
        for page in pages.step_by(stride).chain([last]) {
            found = found.or(look(page..page + 1)?);
        }
    }
    Ok(found)
}

/// Fills pages of a slot with a version's pattern.
#[inline(never)]
pub(crate) fn fill(
    slot: &Slot,
    pages: Range<usize>,
    key: Key,
    buffer: &mut Buffer,
) -> io::Result<()> {
    blocks(pages).try_for_each(|block| {
        let bytes = buffer.first(block.len() * PAGE);
        pattern::fill(bytes, block.start * PAGE, key);
        slot.store(block.start, bytes)
    })
}

/// Pages in blocks.
pub(crate) fn blocks(pages: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = pages.end;
    pages.step_by(BLOCK).map(move |start| start..(start + BLOCK).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_goes_on_where_it_stopped_and_around_the_end() {
        let scratch = Scratch { lines: vec![[1; WORDS]; 10], next: AtomicUsize::new(0) };
        scratch.stream(7);
        assert_eq!(scratch.next.load(Relaxed), 7);
        // Twice around and on: no line beyond the end is asked for.
        scratch.stream(25);
        assert_eq!(scratch.next.load(Relaxed), 32);
        scratch.stream(0);
        assert_eq!(scratch.next.load(Relaxed), 32);
    }

    #[test]
    fn blocks_cover_all_pages_once() {
        let pages: Vec<usize> = blocks(3..200).flatten().collect();
        assert_eq!(pages, (3..200).collect::<Vec<_>>());
    }
}
