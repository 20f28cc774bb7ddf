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

/// Ranges that one launch of `op_few` takes, and of `op_many`, and words of each.
const FEW: usize = 6;
const MANY: usize = 46;
const RANGE: usize = 8;
/// Words of an op's parameter besides its ranges.
const REST: usize = 2 * FILLER + 2;
const FILLER: usize = 5;
/// Blocks of an op per multiprocessor: as many as it runs at once.
pub(crate) const OP_BLOCKS: u64 = 4;
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

/// `Filler` of kernels.cu: rounds of multiply-adds, or where to and from how many times 16 bytes
/// are copied how often. All 0 is nothing.
pub(crate) type FillerWords = [u64; FILLER];

/// The kernels, compiled.
pub(crate) struct Kernels {
    fill: Function,
    check: Function,
    op_few: Function,
    op_many: Function,
    pub(crate) stream_read: Function,
    pub(crate) stream_write: Function,
    stream_copy: Function,
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
            op_few: find(c"op_few")?,
            op_many: find(c"op_many")?,
            stream_read: find(c"stream_read")?,
            stream_write: find(c"stream_write")?,
            stream_copy: find(c"stream_copy")?,
            gemm: find(c"gemm_f32")?,
            delay: find(c"delay")?,
            sink: DeviceMemory::new(device, 256)?,
            _module: module,
        })
    }

    /// Compares ranges with what they should hold and fills them with what they are to, in no order.
    /// None overlaps another.
    pub(crate) fn use_all(&self, stream: &Stream, ranges: &[Range]) -> Result<()> {
        match ranges {
            [] => Ok(()),
            [range @ Range { held: None, next: Some(next), .. }] => {
                let arguments = [range.address, range.bytes / 8, next.word(), range.from / 8];
                stream.launch(self.fill, stream.grid(range.work()), &arguments)
            }
            [range @ Range { held: Some(_), next: None, .. }] => {
                stream.launch(self.check, stream.grid(range.work()), &range.words()[..6])
            }
            ranges => self.op(stream, &[[0; FILLER]; 2], ranges),
        }
    }

    /// Works, uses ranges as above, and works again: by one launch, if there are no more than 46.
    pub(crate) fn op(
        &self,
        stream: &Stream,
        [before, after]: &[FillerWords; 2],
        ranges: &[Range],
    ) -> Result<()> {
        let nothing = [0; FILLER];
        let (mut left, mut before) = (ranges, before);
        loop {
            let (now, later) = left.split_at(left.len().min(MANY));
            let after = if later.is_empty() { after } else { &nothing };
            let works = *before != nothing || *after != nothing;
            let work = if works { u64::MAX } else { now.iter().map(Range::work).sum() };
            let grid = stream.grid_of(work, OP_BLOCKS);
            let rest = before.iter().chain(after).copied();
            let rest = rest.chain([self.sink.address, now.len() as u64]);
            let words = rest.chain(now.iter().flat_map(Range::words));
            if now.len() <= FEW {
                stream.launch_whole(self.op_few, grid, &whole::<{ REST + FEW * RANGE }>(words))?;
            } else {
                stream.launch_whole(
                    self.op_many,
                    grid,
                    &whole::<{ REST + MANY * RANGE }>(words),
                )?;
            }
            if later.is_empty() {
                return Ok(());
            }
            (left, before) = (later, &nothing);
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

/// A kernel's own argument, which the driver copies when it is called: so nobody keeps it, and the
/// device does not look for it in the host's memory.
fn whole<const N: usize>(words: impl Iterator<Item = u64>) -> [u64; N] {
    let mut argument = [0; N];
    argument.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    argument
}
