//! How fast this computer does what ops do, measured once per process, and what that makes of an
//! op.
//!
//! An op's planned time is filled with what it touches and with a kernel for the rest. How many
//! iterations the rest is worth is said by paces. A core that computes is alone, so its pace is
//! that of the quickest of several goes: what disturbs one only makes it longer. Memory is shared,
//! with caches that sometimes help, so its paces are those of the middle go: the quickest is a
//! stroke of luck. Touches cost a part per touch and a part per byte, so their paces are tables of
//! time by size. Files are not calibrated: an op that uses one in place takes the file's time on
//! top.
//! Invariant: once an op is planned, its work is fixed; only an emulated delay looks at the clock.

use crate::clock::Clock;
use crate::host::kernels::{self, BLOCK, FLOPS, LINE, Scratch};
use crate::host::room::{Buffer, Slot, is_file};
use crate::options::Live;
use crate::pattern::{Key, PAGE};
use crate::real::{Planned, Run};
use std::sync::OnceLock;
use tiersim_models::ids::ObjectId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Op;
use tiersim_policies::command::{Command, ObjectAccess, Work};

/// Sizes of touches, in pages, between which the time is taken to be a straight line.
const SIZES: [usize; 3] = [1, 16, 256];
/// Pages that are touched in turn while touches are measured, so that a core's own cache holds
/// little of what comes next, as between two uses of an object.
const POOL: usize = 1024;
/// Goes per measurement.
const GOES: usize = 33;
/// The middle one of them.
const MIDDLE: usize = GOES / 2;

/// What a kernel is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// So many iterations of multiply-adds.
    Compute(u64),
    /// So many lines of scratch memory.
    Stream(u64),
}

/// What an op is to do besides touching its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpPlan {
    /// How long the op is to last; its delay is kept by the clock.
    pub(crate) planned: Planned,
    kernel: Kernel,
}

impl OpPlan {
    /// For what is no op.
    pub(crate) const NONE: OpPlan = OpPlan {
        planned: Planned { span: Span::ZERO, delay: Span::ZERO },
        kernel: Kernel::Compute(0),
    };

    /// Runs the first half of the kernel, or the second.
    pub(crate) fn run_half(&self, second: bool) {
        match self.kernel {
            Kernel::Compute(_) => kernels::compute(self.half(second)),
            Kernel::Stream(_) => streaming().0.stream(self.half(second)),
        }
    }

    fn half(&self, second: bool) -> u64 {
        let (Kernel::Compute(whole) | Kernel::Stream(whole)) = self.kernel;
        if second { whole - whole / 2 } else { whole / 2 }
    }
}

/// Measures what the ops of a run will need, if this process has not yet.
pub(crate) fn calibrate(workload: &Workload) {
    Paces::measured();
    if workload.trace.ops.iter().any(|op| op.bytes > Bytes::ZERO) {
        streaming();
    }
}

impl OpPlan {
    /// What a command is to do, if it is an op.
    pub(crate) fn of(run: &Run<'_>, command: &Command) -> OpPlan {
        let Work::Compute { occurrence, touches, .. } = &command.work else { return OpPlan::NONE };
        let (planned, paces) = (run.planned(command), Paces::measured());
        let touched: Span = touches.iter().map(|touch| paces.touch(run, touch)).sum();
        let rest = Span::from_ps(planned.span.ps().saturating_sub(touched.ps()));
        let kernel = paces.kernel(rest, run.op(*occurrence), || streaming().1);
        OpPlan { planned, kernel }
    }
}

/// What things take on this computer.
#[derive(Clone, Debug)]
pub(crate) struct Paces {
    /// Picoseconds per thousand iterations of the compute-bound kernel.
    compute: u64,
    read: Table,
    write: Table,
}

/// Picoseconds by pages, a straight line between any two points.
#[derive(Clone, Debug)]
struct Table([(u64, u64); SIZES.len()]);

impl Paces {
    /// Those of this computer, measured when first asked for.
    pub(crate) fn measured() -> &'static Paces {
        static PACES: OnceLock<Paces> = OnceLock::new();
        PACES.get_or_init(Paces::measure)
    }

    fn measure() -> Paces {
        let compute = goes(|| kernels::compute(20_000))[0] / 20;
        let mut buffer = Buffer::new(BLOCK * PAGE);
        let key = Key { object: ObjectId(0), version: 1 };
        let slots = |pages| (0..POOL / pages).map(move |_| Slot::memory(pages, Live::default()));
        let pools: Vec<Vec<Slot>> = SIZES.iter().map(|&pages| slots(pages).collect()).collect();
        let mut write = |slot: &Slot| drop(kernels::fill(slot, 0..slot.pages, key, &mut buffer));
        // The first touch of memory costs page faults, which ops do not meet again and again.
        pools.iter().flatten().for_each(&mut write);
        let write = Table::measure(&pools, write);
        let read = |slot: &Slot| drop(kernels::check(slot, 0..slot.pages, 1, key, &mut buffer));
        Paces { compute: compute.max(1), read: Table::measure(&pools, read), write }
    }

    /// What touching an object takes; nothing is known of files.
    fn touch(&self, run: &Run<'_>, touch: &ObjectAccess) -> Span {
        if is_file(run.hardware.tiers[touch.tier.index()].kind) {
            return Span::ZERO;
        }
        let bytes = run.workload.trace.objects[touch.object.index()].bytes.get();
        let pages = bytes.div_ceil(PAGE as u64);
        let read = if touch.mode.reads() { self.read.at(pages) } else { 0 };
        let written = touch.written.get().div_ceil(PAGE as u64);
        let write = if touch.mode.writes() { self.write.at(written) } else { 0 };
        Span::from_ps(read + write)
    }

    /// The kernel that fills a time, on the op's side of the roofline. An op of which nothing is
    /// known is compute-bound. `per_thousand_lines` is the pace of streaming, in picoseconds.
    fn kernel(&self, time: Span, op: &Op, per_thousand_lines: impl FnOnce() -> u64) -> Kernel {
        let iterations = || Kernel::Compute(scale(time.ps(), 1000, self.compute));
        if op.bytes == Bytes::ZERO {
            return iterations();
        }
        let per_thousand_lines = per_thousand_lines();
        let memory = scale(op.bytes.get(), per_thousand_lines, 1000 * LINE);
        if memory > scale(op.flops, self.compute, 1000 * FLOPS) {
            return Kernel::Stream(scale(time.ps(), 1000, per_thousand_lines));
        }
        iterations()
    }
}

/// Scratch memory and the picoseconds that a thousand of its lines take. Made and measured when an
/// op first needs it: it is larger than all caches.
fn streaming() -> &'static (Scratch, u64) {
    static STREAMING: OnceLock<(Scratch, u64)> = OnceLock::new();
    STREAMING.get_or_init(|| {
        let scratch = Scratch::new();
        // One round to start from where all rounds start: the caches are full of what was written.
        scratch.stream(scratch.lines());
        let pace = goes(|| scratch.stream(80_000))[MIDDLE] / 80;
        (scratch, pace.max(1))
    })
}

impl Table {
    /// Each size on the slots of its pool in turn.
    fn measure(pools: &[Vec<Slot>], mut touch: impl FnMut(&Slot)) -> Table {
        let mut points = [(0, 0); SIZES.len()];
        for ((point, pool), pages) in points.iter_mut().zip(pools).zip(SIZES) {
            let mut slots = pool.iter().cycle();
            let times = goes(|| touch(slots.next().expect("a pool has slots")));
            *point = (pages as u64, times[MIDDLE]);
        }
        Table(points)
    }

    fn at(&self, pages: u64) -> u64 {
        let ahead = self.0.windows(2).position(|pair| pages <= pair[1].0);
        let first = ahead.unwrap_or(self.0.len() - 2);
        let [(p0, t0), (p1, t1)] = [self.0[first], self.0[first + 1]];
        t0 + scale(pages.saturating_sub(p0), t1.saturating_sub(t0), p1 - p0)
    }
}

/// `a * b / c`, whatever their sizes.
fn scale(a: u64, b: u64, c: u64) -> u64 {
    let exact = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Picoseconds of each go, sorted; never zero.
fn goes(mut go: impl FnMut()) -> [u64; GOES] {
    let mut times = [0; GOES];
    for time in &mut times {
        let clock = Clock::start();
        go();
        *time = clock.now().ps().max(1);
    }
    times.sort_unstable();
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::workload::Phase;

    fn op(flops: u64, bytes: u64) -> Op {
        Op { flops, bytes: Bytes::new(bytes), ..Op::new(0, Phase::Other, "", 0..0) }
    }

    /// An iteration of 2 ns, so 32 flops per ns; a line of 4 ns, so 16 bytes per ns.
    fn kernel(flops: u64, bytes: u64) -> Kernel {
        let none = Table([(1, 0), (2, 0), (3, 0)]);
        let paces = Paces { compute: 2_000_000, read: none.clone(), write: none };
        paces.kernel(Span::from_us(1), &op(flops, bytes), || 4_000_000)
    }

    #[test]
    fn an_op_gets_the_kernel_of_its_side_of_the_roofline_for_all_of_its_time() {
        let (compute, stream) = (Kernel::Compute(500), Kernel::Stream(250));
        // The ridge is at two flops per byte.
        assert_eq!(kernel(2_001, 1_000), compute);
        assert_eq!(kernel(2_000, 1_000), compute);
        assert_eq!(kernel(1_900, 1_000), stream);
        assert_eq!(kernel(0, 1_000), stream);
        assert_eq!(kernel(1_000, 0), compute);
        assert_eq!(kernel(0, 0), compute, "nothing is known of it");
    }

    #[test]
    fn touches_between_and_beyond_the_measured_sizes_lie_on_straight_lines() {
        let table = Table([(1, 100), (16, 400), (256, 2_800)]);
        let at = [(1, 100), (6, 200), (16, 400), (116, 1_400), (256, 2_800), (512, 5_360)];
        for (pages, time) in at {
            assert_eq!(table.at(pages), time, "{pages} pages");
        }
        // A noisy measurement by which more takes less time does not make time run backwards.
        assert_eq!(Table([(1, 100), (16, 90), (256, 300)]).at(8), 100);
    }

    #[test]
    fn both_halves_of_a_kernel_are_all_of_it() {
        for whole in [0, 1, 2, 7] {
            let plan = OpPlan { kernel: Kernel::Compute(whole), ..OpPlan::NONE };
            assert_eq!(plan.half(false) + plan.half(true), whole);
        }
    }

    #[test]
    fn this_computer_has_paces() {
        let paces = Paces::measured();
        assert!(paces.compute > 0 && streaming().1 > 0);
        for table in [&paces.read, &paces.write] {
            assert!(table.0.iter().all(|&(_, time)| time > 0));
        }
    }
}
