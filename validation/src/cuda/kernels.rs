//! The kernels by name and signature, as `kernels/kernels.cu` declares them.
//!
//! Invariant: addresses are those of memory that the machine keeps until nothing is under way.

use crate::cuda::driver::{Device, DeviceMemory, Function, Module, Stream};
use crate::fault::Fault;
use crate::pattern::Key;
use std::ffi::CStr;
use std::sync::Arc;

/// What every build carries: compiled for the virtual architecture that its first lines name; the
/// driver translates it for its device.
pub(crate) const PTX: &str = include_str!("../../kernels/kernels.ptx");
const THREADS: u32 = 256;
/// Blocks of 256 threads that a multiprocessor runs at once.
const BLOCKS: u32 = 8;
/// The longest delay that one launch gives: the kernel bounds itself to 10 s.
const LONGEST_NS: u64 = 9_000_000_000;

/// The kernels, compiled.
pub(crate) struct Kernels {
    fill: Function,
    check: Function,
    stream_copy: Function,
    fma: Function,
    delay: Function,
    most_blocks: u32,
    /// A word that kernels claim to write, so that their work is not optimized away.
    sink: DeviceMemory,
    _module: Module,
}

/// Room for what a check finds: three words, set to 0, `u64::MAX` and 0 before it.
pub(crate) const FINDING: u64 = 32;

impl Kernels {
    pub(crate) fn load(device: &Arc<Device>) -> Result<Kernels, Fault> {
        let module = Module::load(device, PTX)?;
        let find = |name: &CStr| module.function(name);
        Ok(Kernels {
            fill: find(c"fill")?,
            check: find(c"check")?,
            stream_copy: find(c"stream_copy")?,
            fma: find(c"fma_f32")?,
            delay: find(c"delay")?,
            most_blocks: device.multiprocessors * BLOCKS,
            sink: DeviceMemory::new(device, 256)?,
            _module: module,
        })
    }

    /// Threads of the compute-bound kernel.
    pub(crate) fn all_threads(&self) -> u64 {
        u64::from(self.most_blocks) * u64::from(THREADS)
    }

    /// As many blocks as the work can use.
    fn grid(&self, threads: u64) -> (u32, u32) {
        let blocks = threads.div_ceil(u64::from(THREADS)).clamp(1, u64::from(self.most_blocks));
        (u32::try_from(blocks).expect("bounded above"), THREADS)
    }

    /// Fills an object's memory with a version.
    pub(crate) fn fill(
        &self,
        stream: &Stream,
        address: u64,
        bytes: u64,
        key: Key,
    ) -> Result<(), Fault> {
        let words = bytes / 8;
        stream.launch(self.fill, self.grid(words), &[address, words, key.word(), 0])
    }

    /// Compares pages of an object's memory with a version: those whose number is a multiple of
    /// `stride`, and the last.
    pub(crate) fn check(
        &self,
        stream: &Stream,
        (address, bytes): (u64, u64),
        key: Key,
        stride: u64,
        finding: u64,
    ) -> Result<(), Fault> {
        let words = bytes / 8;
        let grid = self.grid(words / stride.max(1) + 1);
        let arguments = [address, words, key.word(), 0, stride, finding];
        stream.launch(self.check, grid, &arguments)
    }

    /// Copies `bytes`, so many times over: memory-bound.
    pub(crate) fn stream_copy(
        &self,
        stream: &Stream,
        (to, from): (u64, u64),
        bytes: u64,
        passes: u64,
    ) -> Result<(), Fault> {
        let count = bytes / 16;
        stream.launch(self.stream_copy, self.grid(count), &[to, from, count, passes])
    }

    /// Multiplies and adds on every multiprocessor: compute-bound.
    pub(crate) fn multiply_add(&self, stream: &Stream, iterations: u64) -> Result<(), Fault> {
        let arguments = [iterations.min(u64::from(u32::MAX - 1)), self.sink.address];
        stream.launch(self.fma, (self.most_blocks, THREADS), &arguments)
    }

    /// Does nothing for a time.
    pub(crate) fn delay(&self, stream: &Stream, ns: u64) -> Result<(), Fault> {
        let mut left = ns;
        while left > 0 {
            let now = left.min(LONGEST_NS);
            stream.launch(self.delay, (1, 1), &[now])?;
            left -= now;
        }
        Ok(())
    }
}
