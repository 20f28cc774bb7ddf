//! How fast this computer does what ops do, measured shortly before a run, and what that makes of
//! an op.
//!
//! An op's planned time is filled with what it touches and with a kernel for the rest. How many
//! iterations the rest is worth is said by paces. All are those of the middle one of several goes:
//! the quickest is a stroke of luck that ops do not have again and again. Kernels and touches cost a
//! part per call and a part per size, so a kernel's pace is a line and a touch's a table of time by
//! size, measured on memory that the nearest caches have long lost, as between two uses of an
//! object. A computer that others share is quicker in one second than in another, so paces do not
//! stay for long. Files are not calibrated: an op that uses one in place takes the file's time on top.
//! Invariant: once an op is planned, its work is fixed; only an emulated delay looks at the clock.

use crate::clock::Clock;
use crate::host::kernels::{self, BLOCK, FLOPS, LINE, Scratch};
use crate::host::room::{Buffer, Slot, is_file};
use crate::options::Live;
use crate::pattern::{Key, PAGE};
use crate::real::{Planned, Run};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tiersim_models::ids::ObjectId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::Op;
use tiersim_policies::command::{Command, ObjectAccess, Work};

/// Sizes of touches, in pages, between which the time is taken to be a straight line.
const SIZES: [usize; 3] = [1, 16, 256];
/// How long paces are taken for those of this time.
const FRESH: Time = Time::from_ps(3_000_000_000_000);
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
            Kernel::Stream(_) => scratch().stream(self.half(second)),
        }
    }

    fn half(&self, second: bool) -> u64 {
        let (Kernel::Compute(whole) | Kernel::Stream(whole)) = self.kernel;
        if second { whole - whole / 2 } else { whole / 2 }
    }
}

impl OpPlan {
    /// What a command is to do, if it is an op.
    pub(crate) fn of(run: &Run<'_>, paces: &Paces, command: &Command) -> OpPlan {
        let Work::Compute { occurrence, touches, .. } = &command.work else { return OpPlan::NONE };
        let planned = run.planned(command);
        let touched: Span = touches.iter().map(|touch| paces.touch(run, touch)).sum();
        let rest = Span::from_ps(planned.span.ps().saturating_sub(touched.ps()));
        let kernel = paces.kernel(rest, run.op(*occurrence));
        OpPlan { planned, kernel }
    }
}

/// What things take on this computer.
#[derive(Clone, Debug)]
pub(crate) struct Paces {
    compute: Pace,
    /// Where it was needed.
    stream: Option<Pace>,
    read: Table,
    write: Table,
}

/// What a kernel takes, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Per call.
    call: u64,
    /// Per thousand iterations or lines; above zero.
    thousand: u64,
}

/// Picoseconds by pages, a straight line between any two points.
#[derive(Clone, Debug)]
struct Table([(u64, u64); SIZES.len()]);

impl Paces {
    /// Those of this computer at this time, with that of streaming where an op of the run streams.
    pub(crate) fn now(workload: &Workload) -> Arc<Paces> {
        static LATEST: Mutex<Option<(Clock, Arc<Paces>)>> = Mutex::new(None);
        let streams = workload.trace.ops.iter().any(|op| op.bytes > Bytes::ZERO);
        // One at a time: two that measure disturb each other.
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, paces)) = &*latest
            && since.now() < FRESH
            && (paces.stream.is_some() || !streams)
        {
            return paces.clone();
        }
        let mut paces = Paces::measure();
        paces.stream = streams.then(|| Pace::measure(|n| scratch().stream(n), (8_000, 80_000)));
        let paces = Arc::new(paces);
        *latest = Some((Clock::start(), paces.clone()));
        paces
    }

    fn measure() -> Paces {
        let compute = Pace::measure(kernels::compute, (2_000, 20_000));
        let mut buffer = Buffer::new(BLOCK * PAGE);
        let key = Key { object: ObjectId(0), version: 1 };
        // Every go has a slot of its own, and the large ones come last: 70 MiB later.
        let slots = |pages| (0..2 * GOES).map(move |_| Slot::memory(pages, Live::default()));
        let pools = SIZES.map(|pages| slots(pages).collect::<Vec<Slot>>());
        let mut write = |slot: &Slot| drop(kernels::fill(slot, 0..slot.pages, key, &mut buffer));
        // The first touch of memory costs page faults, which ops do not meet again and again.
        pools.iter().flatten().for_each(&mut write);
        let write = Table::measure(pools.each_ref().map(|pool| &pool[..GOES]), write);
        let read = |slot: &Slot| drop(kernels::check(slot, 0..slot.pages, 1, key, &mut buffer));
        let read = Table::measure(pools.each_ref().map(|pool| &pool[GOES..]), read);
        Paces { compute, stream: None, read, write }
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
    /// known is compute-bound.
    fn kernel(&self, time: Span, op: &Op) -> Kernel {
        let computing = scale(op.flops, self.compute.thousand, 1000 * FLOPS);
        let streams = |pace: &Pace| scale(op.bytes.get(), pace.thousand, 1000 * LINE) > computing;
        match self.stream.filter(streams) {
            Some(pace) => Kernel::Stream(pace.within(time)),
            None => Kernel::Compute(self.compute.within(time)),
        }
    }
}

impl Pace {
    /// The line through the times of a small and a large amount.
    fn measure(mut kernel: impl FnMut(u64), (small, large): (u64, u64)) -> Pace {
        let [few, many] = [small, large].map(|amount| goes(|| kernel(amount))[MIDDLE]);
        let thousand = scale(many.saturating_sub(few), 1000, large - small).max(1);
        Pace { call: few.saturating_sub(scale(small, thousand, 1000)), thousand }
    }

    /// How much two calls do in so long: an op's kernel is run in two halves.
    fn within(&self, time: Span) -> u64 {
        scale(time.ps().saturating_sub(2 * self.call), 1000, self.thousand)
    }
}

/// Scratch memory, made when an op first needs it: it is larger than all caches.
fn scratch() -> &'static Scratch {
    static SCRATCH: OnceLock<Scratch> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        let scratch = Scratch::new();
        // One round to start from where all rounds start: the caches are full of what was written.
        scratch.stream(scratch.lines());
        scratch
    })
}

impl Table {
    /// Each size on slots of its own.
    fn measure(pools: [&[Slot]; SIZES.len()], mut touch: impl FnMut(&Slot)) -> Table {
        let mut points = [(0, 0); SIZES.len()];
        for ((point, pool), pages) in points.iter_mut().zip(pools).zip(SIZES) {
            let mut slots = pool.iter();
            let times = goes(|| touch(slots.next().expect("one per go")));
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
    use tiersim_models::workload::{Phase, Trace, TraceMeta};

    fn op(flops: u64, bytes: u64) -> Op {
        Op { flops, bytes: Bytes::new(bytes), ..Op::new(0, Phase::Other, "", 0..0) }
    }

    /// An iteration of 2 ns, so 32 flops per ns; a line of 4 ns, so 16 bytes per ns.
    fn kernel(flops: u64, bytes: u64) -> Kernel {
        let none = Table([(1, 0), (2, 0), (3, 0)]);
        let pace = |thousand| Pace { call: 0, thousand };
        let (compute, stream) = (pace(2_000_000), Some(pace(4_000_000)));
        let paces = Paces { compute, stream, read: none.clone(), write: none };
        paces.kernel(Span::from_us(1), &op(flops, bytes))
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
    fn a_pace_is_the_line_through_two_amounts_and_both_calls_of_a_kernel_are_counted() {
        let pace = Pace { call: 300, thousand: 2_000 };
        // 1,000 ps less two calls: 400 ps of 2 ps each.
        assert_eq!(pace.within(Span::from_ps(1_000)), 200);
        assert_eq!(pace.within(Span::from_ps(599)), 0, "two calls take longer");
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
        let paces = Paces::measure();
        assert!(paces.compute.thousand > 0);
        for table in [&paces.read, &paces.write] {
            assert!(table.0.iter().all(|&(_, time)| time > 0));
        }
    }

    #[test]
    fn paces_stay_for_a_while_and_streaming_is_measured_where_an_op_streams() {
        let workload = |bytes| {
            let (modules, objects, uses) = (Vec::new(), Vec::new(), Vec::new());
            let ops = vec![op(1, bytes)];
            Workload::new(Trace { meta: TraceMeta::default(), modules, objects, ops, uses })
        };
        let first = Paces::now(&workload(1));
        assert!(first.stream.is_some());
        assert!(Arc::ptr_eq(&first, &Paces::now(&workload(0))));
    }
}
