//! How long kernels take on this device, measured once per process, and what fills an op's time.
//!
//! Every kernel is measured at two sizes, several launches in a row, the quickest of several goes:
//! what disturbs one only makes it longer. A straight line through the two gives the work that a
//! time is worth, so that an op is kernels of calibrated length and no clock is read on the way.
//! Invariant: what is left of an op's time after its touches is filled by one kind of kernel, the
//! one on the op's side of the device's roofline.

use crate::cuda::driver::{Device, DeviceMemory, PinnedMemory, Stream};
use crate::cuda::kernels::{FINDING, Kernels, Range};
use crate::cuda::mark::Marks;
use crate::fault::Result;
use crate::pattern::Key;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use tiersim_models::hardware::Compute;
use tiersim_models::ids::ObjectId;
use tiersim_models::workload::Op;

/// Launches between two events, so that the cost of a launch counts as it does in an op.
const LAUNCHES: u64 = 8;
/// Goes per measurement.
const GOES: usize = 5;
/// The most scratch memory for the memory-bound kernel: several times what caches hold. A 64th of
/// what is free at most, so that it takes no room from the plan.
const SCRATCH: u64 = 256 << 20;
/// Pinned memory by which use in place is measured.
const PINNED: u64 = 4 << 20;
/// The compute-bound kernel is measured at this length.
const LONG_NS: f64 = 50_000.0;
/// Floating-point operations per thread and iteration of the compute-bound kernel.
const FLOPS: f64 = 256.0;

/// Memory for the memory-bound kernel, which copies one half to the other.
pub(crate) struct Scratch {
    memory: DeviceMemory,
    half: u64,
    /// Where the next kernel starts in either half: on from the one before, so that a short one
    /// does not find in a cache what the last one left there.
    next: Cell<u64>,
}

impl Scratch {
    pub(crate) fn new(device: &Arc<Device>) -> Result<Scratch> {
        let (free, _) = device.memory()?;
        let half = (free.get() / 128).clamp(1 << 16, SCRATCH / 2).next_multiple_of(1 << 16);
        let memory = DeviceMemory::new(device, 2 * half)?;
        Ok(Scratch { memory, half, next: Cell::new(0) })
    }
}

/// Nanoseconds by work: a part per kernel and a part per unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    setup: f64,
    unit: f64,
}

impl Line {
    /// Through two measurements. Noise may make the shorter one as long as the longer: then an
    /// eighth of the longer is taken to be its units, so that no time is worth more than eight
    /// times what was measured.
    fn through((few, short): (u64, f64), (many, long): (u64, f64)) -> Line {
        let unit = ((long - short) / (many - few) as f64).max(long / many as f64 / 8.0);
        Line { setup: (short - unit * few as f64).max(0.0), unit }
    }

    /// Time of so many units.
    pub(crate) fn ns(&self, units: u64) -> f64 {
        self.setup + self.unit * units as f64
    }

    /// Units that a time is worth; 0 if it is shorter than a kernel is.
    fn units(&self, ns: f64) -> u64 {
        // Saturates; a negative time is worth nothing.
        ((ns - self.setup) / self.unit) as u64
    }
}

/// Kernel times of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paces {
    /// By iterations of the compute-bound kernel on all multiprocessors, and its FLOP per ns.
    compute: Line,
    flops: f64,
    /// By bytes copied by the memory-bound kernel.
    stream: Line,
    /// By bytes read and written where they are: on the device, and in pinned memory.
    read: [Line; 2],
    write: [Line; 2],
}

/// What fills time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filler {
    /// Iterations of the compute-bound kernel.
    Compute(u64),
    /// Bytes that the memory-bound kernel copies.
    Stream(u64),
}

/// What a measurement needs.
pub(crate) struct KernelBench<'a> {
    pub(crate) device: &'a Arc<Device>,
    pub(crate) kernels: &'a Kernels,
    pub(crate) scratch: &'a Scratch,
    pub(crate) stream: &'a Stream,
    pub(crate) marks: &'a Rc<Marks>,
}

impl Paces {
    /// Those of a device by its number, measured when this process first asks.
    pub(crate) fn of(number: usize, bench: &KernelBench<'_>) -> Result<Paces> {
        static PACES: Mutex<BTreeMap<usize, Paces>> = Mutex::new(BTreeMap::new());
        let mut paces = PACES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(paces) = paces.get(&number) {
            return Ok(*paces);
        }
        let measured = Paces::measure(bench)?;
        paces.insert(number, measured);
        Ok(measured)
    }

    fn measure(bench: &KernelBench<'_>) -> Result<Paces> {
        let KernelBench { device, kernels, scratch, stream, .. } = *bench;
        let pinned = PinnedMemory::new(device, PINNED + FINDING)?;
        let (places, finding) =
            ([(scratch.memory.address, scratch.half), (pinned.address, PINNED)], PINNED);
        let key = Key { object: ObjectId(0), version: 0 };
        let finding = pinned.address + finding;
        // In this order: what is read is what was written.
        let write = |(address, most): (u64, u64)| {
            bench.line([most / 64, most], |bytes| {
                kernels.fill(stream, &Range::new(address, bytes, key))
            })
        };
        let write = [write(places[0])?, write(places[1])?];
        let read = |(address, most): (u64, u64)| {
            bench.line([most / 64, most], |bytes| {
                kernels.check(stream, &Range { finding, ..Range::new(address, bytes, key) })
            })
        };
        let read = [read(places[0])?, read(places[1])?];
        let compute = |rounds| kernels.multiply_add(stream, rounds);
        // Long enough that its rounds are most of it, on any device.
        let mut rounds = 64;
        while bench.quickest(rounds, compute)? < LONG_NS && rounds < 1 << 20 {
            rounds *= 2;
        }
        let compute = bench.line([rounds / 4, rounds], compute)?;
        let copy = |bytes| scratch.stream(kernels, stream, bytes);
        let streaming = bench.line([scratch.half / 64, scratch.half], copy)?;
        let flops = FLOPS * device.all_threads() as f64 / compute.unit;
        Ok(Paces { compute, flops, stream: streaming, read, write })
    }

    /// What an op's touches take, in nanoseconds: those of the device's memory, and those of pinned
    /// memory, each given as bytes read and written in the device's and in pinned memory. All reads
    /// are one launch, and so are all writes; what is in both memories costs the launch once.
    pub(crate) fn touches(&self, read: [Option<u64>; 2], written: [Option<u64>; 2]) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for (lines, [near, far]) in [(&self.read, read), (&self.write, written)] {
            sums[0] += near.map_or(0.0, |bytes| lines[0].ns(bytes));
            let setup = if near.is_some() { 0.0 } else { lines[1].setup };
            sums[1] += far.map_or(0.0, |bytes| setup + lines[1].unit * bytes as f64);
        }
        sums
    }

    /// What fills a time of an op, if the time is worth a kernel. The roofline is that of the
    /// hardware's spec, or of these measurements where the spec names no device. An op of which
    /// nothing is known is compute-bound.
    pub(crate) fn filler(
        &self,
        ns: f64,
        op: &Op,
        precision: &str,
        compute: Option<&Compute>,
    ) -> Option<Filler> {
        let (flops, bytes) = (op.flops as f64, op.bytes.get() as f64);
        let spec = compute.and_then(|compute| {
            let (_, peak) = compute.flops.iter().find(|(name, _)| name == precision)?;
            Some((peak.get() as f64, compute.memory.get() as f64))
        });
        // A copied byte is one read and one written.
        let (peak, memory) = spec.unwrap_or((self.flops, 2.0 / self.stream.unit));
        let filler = if bytes / memory > flops / peak {
            Filler::Stream(self.stream.units(ns))
        } else {
            Filler::Compute(self.compute.units(ns))
        };
        (!matches!(filler, Filler::Stream(0) | Filler::Compute(0))).then_some(filler)
    }
}

impl Filler {
    /// The first half, or what is left of it.
    pub(crate) fn halves(self) -> [Filler; 2] {
        match self {
            Filler::Compute(n) => [Filler::Compute(n / 2), Filler::Compute(n - n / 2)],
            Filler::Stream(n) => [Filler::Stream(n / 2), Filler::Stream(n - n / 2)],
        }
    }

    /// Enqueues it.
    pub(crate) fn launch(
        self,
        kernels: &Kernels,
        scratch: &Scratch,
        stream: &Stream,
    ) -> Result<()> {
        match self {
            Filler::Compute(0) => Ok(()),
            Filler::Compute(iterations) => kernels.multiply_add(stream, iterations),
            Filler::Stream(bytes) => scratch.stream(kernels, stream, bytes),
        }
    }
}

impl Scratch {
    /// Copies so many bytes within it, in passes of equal size.
    fn stream(&self, kernels: &Kernels, stream: &Stream, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let passes = bytes.div_ceil(self.half);
        let each = bytes / passes;
        let start = if self.next.get() + each <= self.half { self.next.get() } else { 0 };
        self.next.set((start + each).next_multiple_of(256));
        let to = self.memory.address + start;
        kernels.stream_copy(stream, (to, to + self.half), each, passes)
    }
}

impl KernelBench<'_> {
    /// Nanoseconds per launch of the quickest of several goes.
    fn quickest(&self, size: u64, launch: impl Fn(u64) -> Result<()>) -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..GOES {
            let start = self.marks.record(self.stream, 0)?;
            for _ in 0..LAUNCHES {
                launch(size)?;
            }
            let end = self.marks.record(self.stream, 0)?;
            // An event has steps: nothing takes no time at all.
            let ns = (f64::from(end.ms_since(&start)?) * 1e6).max(1.0);
            least = least.min(ns / LAUNCHES as f64);
        }
        Ok(least)
    }

    /// Measures a kernel at two sizes.
    fn line(&self, sizes: [u64; 2], launch: impl Fn(u64) -> Result<()>) -> Result<Line> {
        let [few, many] = sizes;
        let short = self.quickest(few, &launch)?;
        Ok(Line::through((few, short), (many, self.quickest(many, &launch)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::units::Bytes;
    use tiersim_models::workload::Phase;

    #[test]
    fn a_line_gives_back_the_work_of_a_time() {
        let line = Line::through((10, 2_000.0), (110, 3_000.0));
        assert_eq!(line, Line { setup: 1_900.0, unit: 10.0 });
        for units in [1, 10, 12_345] {
            assert_eq!(line.units(line.ns(units)), units);
        }
        assert_eq!(line.units(1_000.0), 0, "shorter than a kernel");
        // Noise: more takes less.
        let line = Line::through((10, 2_000.0), (110, 1_000.0));
        assert_eq!(line, Line { setup: 2_000.0 - 1_000.0 / 88.0, unit: 1_000.0 / 880.0 });
    }

    #[test]
    fn touches_cost_their_bytes_and_each_launch_once() {
        let line = |setup: u32, unit: u32| Line { setup: setup.into(), unit: unit.into() };
        let none = line(0, 1);
        let (read, write) = ([line(10, 1), line(100, 3)], [line(20, 2), line(200, 5)]);
        let paces = Paces { compute: none, flops: 1.0, stream: none, read, write };
        assert_eq!(paces.touches([None; 2], [None; 2]), [0.0, 0.0]);
        assert_eq!(paces.touches([Some(7), None], [Some(4), None]), [17.0 + 28.0, 0.0]);
        assert_eq!(paces.touches([None, Some(7)], [None; 2]), [0.0, 121.0]);
        let both = paces.touches([Some(7), Some(7)], [None, Some(4)]);
        assert_eq!(both, [17.0, 21.0 + 220.0]);
    }

    #[test]
    fn an_op_is_filled_on_its_side_of_the_roofline() {
        let free = Line { setup: 0.0, unit: 1.0 };
        // 100 FLOP per ns, 2 bytes per ns: the ridge is at 50 FLOP per byte.
        let (read, write) = ([free; 2], [free; 2]);
        let paces = Paces { compute: free, flops: 100.0, stream: free, read, write };
        let op = |flops, bytes| Op {
            flops,
            bytes: Bytes::new(bytes),
            ..Op::new(0, Phase::Other, "", 0..0)
        };
        let filler = |flops, bytes| paces.filler(1_000.0, &op(flops, bytes), "bf16", None);
        assert_eq!(filler(5_000, 100), Some(Filler::Compute(1_000)));
        assert_eq!(filler(4_900, 100), Some(Filler::Stream(1_000)));
        assert_eq!(filler(0, 0), Some(Filler::Compute(1_000)), "nothing is known of it");
        assert_eq!(paces.filler(0.0, &op(1, 1), "bf16", None), None);
    }
}
