//! The kernels by name and signature, as `kernels/kernels.cu` declares them.
//!
//! Invariant: addresses are those of memory that the machine keeps until nothing is under way.

use crate::cuda::driver::{Device, DeviceMemory, Function, Module, Stream};
use crate::fault::Result;
use crate::pattern::{Key, PAGE};
use std::ffi::CStr;
use std::sync::Arc;
use tiersim_models::ids::ObjectId;

/// What every build carries: compiled for the virtual architecture that its first lines name; the
/// driver translates it for its device.
const PTX: &str = include_str!("../../kernels/kernels.ptx");
/// The longest delay that one launch gives: the kernel bounds itself to 10 s.
const LONGEST_NS: u64 = 9_000_000_000;

/// Ranges that one launch of `fill_many` or `check_many` takes, and words of each.
const RANGES: usize = 64;
const RANGE: usize = 6;

/// A range of memory that holds an object, or is to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Where in the object it starts.
    pub(crate) from: u64,
    pub(crate) key: Key,
    /// For a check: every how many pages one is compared, and where it says what it found.
    pub(crate) stride: u64,
    pub(crate) finding: u64,
}

impl Range {
    /// Memory from an address on, all of which counts.
    pub(crate) fn new(address: u64, bytes: u64, key: Key) -> Range {
        Range { address, bytes, from: 0, key, stride: 1, finding: 0 }
    }

    /// Pages of an object whose memory has so many bytes from an address on.
    pub(crate) fn of((address, bytes): (u64, u64), pages: &std::ops::Range<usize>) -> Range {
        let from = (pages.start * PAGE) as u64;
        let end = ((pages.end * PAGE) as u64).min(bytes);
        let nobody = Key { object: ObjectId(0), version: 0 };
        let own = Range::new(address + from, end.saturating_sub(from), nobody);
        Range { from, ..own }
    }

    /// As `Range` of kernels.cu has it.
    fn words(&self) -> [u64; RANGE] {
        let (count, first) = (self.bytes / 8, self.from / 8);
        [self.address, count, self.key.word(), first, self.stride, self.finding]
    }

    /// Words that a check of it compares, or a few more.
    fn compared(&self) -> u64 {
        self.bytes / 8 / self.stride.max(1) + 1
    }
}

/// The kernels, compiled.
pub(crate) struct Kernels {
    fill: Function,
    fill_many: Function,
    check: Function,
    check_many: Function,
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

/// Room for what a check finds: three words, set to 0, `u64::MAX` and 0 before it.
pub(crate) const FINDING: u64 = 32;

impl Kernels {
    pub(crate) fn load(device: &Arc<Device>) -> Result<Kernels> {
        let module = Module::load(device, PTX)?;
        let find = |name: &CStr| module.function(name);
        Ok(Kernels {
            fill: find(c"fill")?,
            fill_many: find(c"fill_many")?,
            check: find(c"check")?,
            check_many: find(c"check_many")?,
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

    /// Fills an object's memory with a version.
    pub(crate) fn fill(&self, stream: &Stream, range: &Range) -> Result<()> {
        stream.launch(self.fill, stream.grid(range.bytes / 8), &range.words()[..4])
    }

    /// Compares pages of an object's memory with a version: those whose number is a multiple of
    /// the range's stride, and the last.
    pub(crate) fn check(&self, stream: &Stream, range: &Range) -> Result<()> {
        stream.launch(self.check, stream.grid(range.compared()), &range.words())
    }

    /// Fills several ranges: by one launch, if there are no more than 64.
    pub(crate) fn fill_many(&self, stream: &Stream, ranges: &[Range]) -> Result<()> {
        if let [range] = ranges {
            return self.fill(stream, range);
        }
        self.many(stream, self.fill_many, ranges, |range| range.bytes / 8)
    }

    /// Checks several ranges, likewise.
    pub(crate) fn check_many(&self, stream: &Stream, ranges: &[Range]) -> Result<()> {
        if let [range] = ranges {
            return self.check(stream, range);
        }
        self.many(stream, self.check_many, ranges, Range::compared)
    }

    /// Hands ranges over as the kernel's own argument, which the driver copies when it is called:
    /// so nobody keeps them, and the device does not look for them in the host's memory.
    fn many(
        &self,
        stream: &Stream,
        kernel: Function,
        ranges: &[Range],
        work: impl Fn(&Range) -> u64,
    ) -> Result<()> {
        ranges.chunks(RANGES).try_for_each(|ranges| {
            let mut argument = [0; 1 + RANGES * RANGE];
            argument[0] = ranges.len() as u64;
            for (to, range) in argument[1..].chunks_exact_mut(RANGE).zip(ranges) {
                to.copy_from_slice(&range.words());
            }
            stream.launch_whole(kernel, stream.grid(ranges.iter().map(&work).sum()), &argument)
        })
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
