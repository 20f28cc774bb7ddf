//! The kernels by name and signature, as `kernels/kernels.cu` declares them.
//!
//! Invariant: addresses are those of memory that the machine keeps until nothing is under way.

use crate::cuda::driver::{Device, DeviceMemory, Function, Module, Stream};
use crate::fault::Result;
use crate::pattern::{Key, PAGE};
use std::ffi::CStr;
use std::sync::Arc;

/// What every build carries: compiled for the virtual architecture that its first lines name; the
/// driver translates it for its device.
const PTX: &str = include_str!("../../kernels/kernels.ptx");
/// The longest delay that one launch gives: the kernel bounds itself to 10 s.
const LONGEST_NS: u64 = 9_000_000_000;

/// Ranges that one launch of `use_many` takes, and words of each.
const RANGES: usize = 48;
const RANGE: usize = 8;
/// `READS` and `WRITES` of kernels.cu.
const READS: u64 = 1;
const WRITES: u64 = 2;

/// A range of memory that holds an object, or is to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Where in the object it starts.
    pub(crate) from: u64,
    /// What it is compared with, and where the device says what it found: `None` if it is not.
    pub(crate) held: Option<(Key, u64)>,
    /// What it is filled with, behind any comparison: `None` if it is not.
    pub(crate) next: Option<Key>,
    /// Every how many pages one is compared, where nothing is written.
    pub(crate) stride: u64,
}

impl Range {
    /// Memory from an address on, all of which counts.
    pub(crate) fn new(address: u64, bytes: u64) -> Range {
        Range { address, bytes, from: 0, held: None, next: None, stride: 1 }
    }

    /// Pages of an object whose memory has so many bytes from an address on.
    pub(crate) fn of((address, bytes): (u64, u64), pages: &std::ops::Range<usize>) -> Range {
        let from = (pages.start * PAGE) as u64;
        let end = ((pages.end * PAGE) as u64).min(bytes);
        Range { from, ..Range::new(address + from, end.saturating_sub(from)) }
    }

    /// As `Range` of kernels.cu has it.
    fn words(&self) -> [u64; RANGE] {
        let (count, first) = (self.bytes / 8, self.from / 8);
        let (key, finding) = self.held.map_or((0, 0), |(key, finding)| (key.word(), finding));
        let does = if self.held.is_some() { READS } else { 0 }
            | if self.next.is_some() { WRITES } else { 0 };
        let next = self.next.map_or(0, Key::word);
        [self.address, count, key, first, self.stride, finding, next, does]
    }

    /// Pairs of words that threads go through, or a few more.
    fn work(&self) -> u64 {
        self.bytes / 16 / self.stride.max(1) + 1
    }
}

/// The kernels, compiled.
pub(crate) struct Kernels {
    fill: Function,
    check: Function,
    use_many: Function,
    pub(crate) stream_read: Function,
    pub(crate) stream_write: Function,
    stream_copy: Function,
    fma: Function,
    pub(crate) gemm: Function,
    pub(crate) delay: Function,
    /// A word that kernels claim to write, so that their work is not optimized away.
    pub(crate) sink: DeviceMemory,
    _module: Module,
}

/// Room for what a check finds: four words, set to 0, `u64::MAX`, 0 and 0 before it.
pub(crate) const FINDING: u64 = 32;

impl Kernels {
    pub(crate) fn load(device: &Arc<Device>) -> Result<Kernels> {
        let module = Module::load(device, PTX)?;
        let find = |name: &CStr| module.function(name);
        Ok(Kernels {
            fill: find(c"fill")?,
            check: find(c"check")?,
            use_many: find(c"use_many")?,
            stream_read: find(c"stream_read")?,
            stream_write: find(c"stream_write")?,
            stream_copy: find(c"stream_copy")?,
            fma: find(c"fma_f32")?,
            gemm: find(c"gemm_f32")?,
            delay: find(c"delay")?,
            sink: DeviceMemory::new(device, 256)?,
            _module: module,
        })
    }

    /// Compares ranges with what they should hold and fills them with what they are to: by one
    /// launch, if there are no more than 48, and in no order. None overlaps another.
    pub(crate) fn use_all(&self, stream: &Stream, ranges: &[Range]) -> Result<()> {
        let grid = |work: u64| stream.grid(work);
        match ranges {
            [] => Ok(()),
            [range @ Range { held: None, next: Some(next), .. }] => {
                let arguments = [range.address, range.bytes / 8, next.word(), range.from / 8];
                stream.launch(self.fill, grid(range.work()), &arguments)
            }
            [range @ Range { held: Some(_), next: None, .. }] => {
                stream.launch(self.check, grid(range.work()), &range.words()[..6])
            }
            ranges => ranges.chunks(RANGES).try_for_each(|ranges| {
                // The kernel's own argument, which the driver copies when it is called: so nobody
                // keeps it, and the device does not look for it in the host's memory.
                let mut argument = [0; 1 + RANGES * RANGE];
                argument[0] = ranges.len() as u64;
                for (to, range) in argument[1..].chunks_exact_mut(RANGE).zip(ranges) {
                    to.copy_from_slice(&range.words());
                }
                let work = ranges.iter().map(Range::work).sum();
                stream.launch_whole(self.use_many, grid(work), &argument)
            }),
        }
    }

    /// Copies `bytes`, so many times over: memory-bound.
    pub(crate) fn stream_copy(
        &self,
        stream: &Stream,
        (to, from): (u64, u64),
        bytes: u64,
        passes: u64,
    ) -> Result<()> {
        let count = bytes / 16;
        stream.launch(self.stream_copy, stream.grid(count), &[to, from, count, passes])
    }

    /// Multiplies and adds on every multiprocessor: compute-bound.
    pub(crate) fn multiply_add(&self, stream: &Stream, iterations: u64) -> Result<()> {
        let arguments = [iterations.min(u64::from(u32::MAX - 1)), self.sink.address];
        stream.launch(self.fma, stream.grid(u64::MAX), &arguments)
    }

    /// Does nothing for a time.
    pub(crate) fn delay(&self, stream: &Stream, ns: u64) -> Result<()> {
        let mut left = ns;
        while left > 0 {
            let now = left.min(LONGEST_NS);
            stream.launch(self.delay, (1, 1), &[now])?;
            left -= now;
        }
        Ok(())
    }
}
