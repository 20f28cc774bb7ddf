//! How long kernels take on this device, measured once per process, and what fills an op's time.
//!
//! Every kernel is measured at two sizes, several launches in a row behind a delay that lasts until
//! all are queued, the quickest of several goes: what disturbs one only makes it longer. A straight
//! line through the two gives the work that a time is worth, so that an op is kernels of calibrated
//! length and no clock is read on the way.
//! Invariant: what is left of an op's time after its touches is filled by one kind of kernel, the
//! one on the op's side of the device's roofline.

use crate::cuda::driver::{Device, DeviceMemory, PinnedMemory, Stream};
use crate::cuda::kernels::{FINDING, FillerWords, Kernels, OP_BLOCKS, Range};
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

/// Launches in a row, so that the cost of a launch counts as it does in an op.
const LAUNCHES: u64 = 8;
/// More than a thread takes to queue one of them.
const QUEUED_NS: u64 = 20_000;
/// A delay that is measured.
const DELAY_NS: u64 = 10_000;
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
/// No work.
const NOTHING: FillerWords = [0; 5];

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
}

/// Kernel times of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paces {
    /// By iterations of the compute-bound kernel on all multiprocessors, and its FLOP per ns.
    compute: Line,
    flops: f64,
    /// By bytes copied by the memory-bound kernel.
    stream: Line,
    /// By bytes that are read, read and written, or written where they are: on the device, and in
    /// pinned memory.
    touch: [[Line; 2]; 3],
    /// What an event between two kernels takes.
    mark: f64,
    /// By how much a delay lasts longer than asked for.
    late: f64,
}

/// Bytes that an op touches in the device's memory and in pinned memory: those that it only reads,
/// reads and writes, only writes.
pub(crate) type Touched = [[u64; 2]; 3];

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
        let (held, next) = (Some((key, finding)), Some(key));
        // In this order: what is read is what was written.
        let lines = [(None, next), (held, None), (held, next)].map(|(held, next)| {
            places.map(|(address, most)| {
                // On from where the last one was: an op does not find in a cache what it touches.
                let at = Cell::new(0);
                bench.line([most / 64, most], |bytes| {
                    let from = if at.get() + bytes > most { 0 } else { at.get() };
                    at.set(from + bytes);
                    let range = Range { from, held, next, ..Range::new(address + from, bytes) };
                    kernels.op(stream, &[NOTHING; 2], &[range])
                })
            })
        });
        let line = |[near, far]: [Result<Line>; 2]| Ok([near?, far?]);
        let [write, read, both] = lines.map(line);
        let touch = [read?, both?, write?];
        let work = |filler| kernels.op(stream, &[scratch.filler(filler), NOTHING], &[]);
        let multiply = |rounds| work(Filler::Compute(rounds));
        // Long enough that its rounds are most of it, on any device.
        let mut rounds = 64;
        while bench.quickest(rounds, multiply)? < LONG_NS && rounds < 1 << 20 {
            rounds *= 2;
        }
        let compute = bench.line([rounds / 4, rounds], multiply)?;
        let copy = |bytes| work(Filler::Stream(bytes));
        let streaming = bench.line([scratch.half / 64, scratch.half], copy)?;
        let flops = FLOPS * device.threads(OP_BLOCKS) as f64 / compute.unit;
        let marked = |rounds| {
            multiply(rounds)?;
            bench.marks.record(stream, 0).map(drop)
        };
        let mark = bench.quickest(1, marked)? - bench.quickest(1, multiply)?;
        let late = bench.quickest(DELAY_NS, |ns| kernels.delay(stream, ns))? - DELAY_NS as f64;
        let [mark, late] = [mark, late].map(|ns| ns.max(0.0));
        Ok(Paces { compute, flops, stream: streaming, touch, mark, late })
    }

    /// What an op's touches take, in nanoseconds: those of the device's memory, and what pinned
    /// memory adds. All are one launch, which costs its part once.
    pub(crate) fn touches(&self, touched: &Touched) -> [f64; 2] {
        let mut setup = 0.0f64;
        [0, 1].map(|place| {
            let before = setup;
            let each = self.touch.iter().zip(touched).filter(|(_, bytes)| bytes[place] > 0);
            let units = each.map(|(lines, bytes)| {
                setup = setup.max(lines[place].setup);
                lines[place].unit * bytes[place] as f64
            });
            let units: f64 = units.sum();
            setup - before + units
        })
    }

    /// How long a delay to ask for.
    pub(crate) fn delay(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.late as u64)
    }

    /// Work that fills a time of an op, half of it before the op's touches and half behind; the
    /// launch is counted if there are no `touches` that it was counted with. The roofline is that of
    /// the hardware's spec, or of these measurements where the spec names no device. An op of which
    /// nothing is known is compute-bound.
    pub(crate) fn fillers(
        &self,
        (ns, touches): (f64, bool),
        op: &Op,
        precision: &str,
        compute: Option<&Compute>,
    ) -> [Filler; 2] {
        let (flops, bytes) = (op.flops as f64, op.bytes.get() as f64);
        let spec = compute.and_then(|compute| {
            let (_, peak) = compute.flops.iter().find(|(name, _)| name == precision)?;
            Some((peak.get() as f64, compute.memory.get() as f64))
        });
        // A copied byte is one read and one written.
        let (peak, memory) = spec.unwrap_or((self.flops, 2.0 / self.stream.unit));
        let streams = bytes / memory > flops / peak;
        let line = if streams { &self.stream } else { &self.compute };
        let ns = ns - self.mark - if touches { 0.0 } else { line.setup };
        // Saturates; a negative time is worth nothing.
        let units = (ns / line.unit) as u64;
        let of = if streams { Filler::Stream } else { Filler::Compute };
        [of(units / 2), of(units - units / 2)]
    }
}

impl Scratch {
    /// Work as a kernel takes it: copies are within this memory, in passes of equal size.
    pub(crate) fn filler(&self, filler: Filler) -> FillerWords {
        match filler {
            Filler::Stream(bytes) if bytes / 16 > 0 => {
                let passes = bytes.div_ceil(self.half);
                let each = bytes / passes;
                let start = if self.next.get() + each <= self.half { self.next.get() } else { 0 };
                self.next.set((start + each).next_multiple_of(256));
                let to = self.memory.address + start;
                [0, to, to + self.half, each / 16, passes]
            }
            Filler::Stream(_) => [0; 5],
            Filler::Compute(rounds) => [rounds, 0, 0, 0, 0],
        }
    }
}

impl KernelBench<'_> {
    /// Nanoseconds that a launch adds to others before it, of the quickest goes.
    fn quickest(&self, size: u64, launch: impl Fn(u64) -> Result<()>) -> Result<f64> {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..GOES {
            for (least, count) in least.iter_mut().zip([1, 1 + LAUNCHES]) {
                self.kernels.delay(self.stream, count * QUEUED_NS)?;
                let start = self.marks.record(self.stream, 0)?;
                (0..count).try_for_each(|_| launch(size))?;
                let end = self.marks.record(self.stream, 0)?;
                // An event has steps: nothing takes no time at all.
                *least = (f64::from(end.ms_since(&start)?) * 1e6).clamp(1.0, *least);
            }
        }
        let [one, all] = least;
        // Noise may hide what more of them take; they take half of their share at least.
        Ok(((all - one) / LAUNCHES as f64).max(all / (1 + LAUNCHES) as f64 / 2.0))
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
    fn a_line_goes_through_two_times() {
        let line = Line::through((10, 2_000.0), (110, 3_000.0));
        assert_eq!(line, Line { setup: 1_900.0, unit: 10.0 });
        // Noise: more takes less.
        let line = Line::through((10, 2_000.0), (110, 1_000.0));
        assert_eq!(line, Line { setup: 2_000.0 - 1_000.0 / 88.0, unit: 1_000.0 / 880.0 });
    }

    #[test]
    fn touches_cost_their_bytes_and_their_launch_once() {
        let line = |setup: u32, unit: u32| Line { setup: setup.into(), unit: unit.into() };
        let none = line(0, 1);
        let [read, both, write] =
            [[line(10, 1), line(100, 3)], [line(15, 2), line(150, 4)], [line(20, 3), line(200, 5)]];
        let touch = [read, both, write];
        let paces = Paces { compute: none, flops: 1.0, stream: none, touch, mark: 3.0, late: 2.5 };
        let no = [0; 2];
        assert_eq!(paces.touches(&[no; 3]), [0.0, 0.0]);
        assert_eq!(paces.touches(&[[7, 0], no, [4, 0]]), [20.0 + 7.0 + 12.0, 0.0]);
        assert_eq!(paces.touches(&[[0, 7], no, no]), [0.0, 121.0]);
        assert_eq!(paces.touches(&[no, [5, 0], no]), [15.0 + 10.0, 0.0]);
        // One launch: what the slower part costs is beyond what the quicker has cost already.
        assert_eq!(paces.touches(&[[7, 7], no, [0, 4]]), [17.0, 190.0 + 21.0 + 20.0]);
        assert_eq!((paces.delay(10), paces.delay(1)), (8, 0));
    }

    #[test]
    fn an_op_is_filled_on_its_side_of_the_roofline() {
        let free = Line { setup: 0.0, unit: 1.0 };
        // 100 FLOP per ns, 2 bytes per ns: the ridge is at 50 FLOP per byte.
        let touch = [[free; 2]; 3];
        let (mark, late) = (0.0, 0.0);
        let paces = Paces { compute: free, flops: 100.0, stream: free, touch, mark, late };
        let op = |flops, bytes| Op {
            flops,
            bytes: Bytes::new(bytes),
            ..Op::new(0, Phase::Other, "", 0..0)
        };
        let fillers = |ns, of| paces.fillers(ns, &of, "bf16", None);
        let all = (1_000.0, false);
        assert_eq!(fillers(all, op(5_000, 100)), [Filler::Compute(500); 2]);
        assert_eq!(fillers(all, op(4_900, 100)), [Filler::Stream(500); 2]);
        assert_eq!(fillers(all, op(0, 0)), [Filler::Compute(500); 2], "nothing is known of it");
        assert_eq!(fillers((-1.0, true), op(1, 1)), [Filler::Stream(0); 2]);
        let paces = Paces { compute: Line { setup: 300.0, unit: 2.0 }, mark: 100.0, ..paces };
        let fillers = |touches| paces.fillers((1_000.0, touches), &op(0, 0), "bf16", None);
        assert_eq!(fillers(false), [Filler::Compute(150); 2]);
        assert_eq!(fillers(true), [Filler::Compute(225); 2], "a touch's launch is counted");
    }
}
