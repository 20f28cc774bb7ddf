//! What ops run on: streams, the threads that ask for their memory, and the host's processors.
//!
//! The program's thread of each device asks for memory on behalf of one op after the other and is
//! ahead of the device: what it takes is felt only by an op that could start before the thread is
//! done. Where a segment comes or goes, the op waits for that too, and the thread goes on from
//! there. With exact allocators nothing is added to any op.
//!
//! Ops on the CPU share them: each pays its launch, and then its work is a flow over
//! one resource, the processors' time in picoseconds. One that bytes hold up is not told from one
//! that FLOPs hold up, as every kernel takes all cores. What bytes in memory beyond DRAM take longer
//! is work like the rest where all devices share that memory, and a wait before it where each has
//! its own. Alone an op takes exactly its duration, and of R that run at once none less than its
//! share of the time that all take in turn.
//! Invariant: of a stream at most one op runs, and they start in the order of submission.

use super::timed::Timed;
use crate::fair_share::ClassId;
use std::collections::VecDeque;
use tiersim_models::hardware::Hardware;
use tiersim_models::host_memory::FarMemory;
use tiersim_models::ids::TierId;
use tiersim_models::routes::Routes;
use tiersim_models::units::{Bandwidth, PS_PER_S, Span, Time};
use tiersim_models::workload::{Trace, Unit};
use tiersim_policies::command::{Allocating, Ticket};
use tiersim_policies::state::remember;

/// An in-order queue of a device.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) waiting: VecDeque<Ticket>,
    pub(super) running: bool,
    /// Whether an event is to come that lets its first op start.
    pub(super) awaits_release: bool,
    /// When its last op ended.
    pub(super) idle_since: Time,
}

/// When the thread of each device is done with what it was asked for so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(Vec<Time>);

impl Threads {
    /// How long an op waits that could start at `now`.
    pub(super) fn wait(&mut self, rank: usize, asked: Allocating, now: Time) -> Span {
        if asked == Allocating::default() {
            return Span::ZERO;
        }
        if self.0.len() <= rank {
            self.0.resize(rank + 1, Time::ZERO);
        }
        let done = &mut self.0[rank];
        *done = *done + asked.thread;
        let late = if *done > now { done.since(now) } else { Span::ZERO };
        if asked.device == Span::ZERO {
            return late;
        }
        let wait = late + asked.device;
        *done = now + wait;
        wait
    }
}

/// The processors of the host.
#[derive(Debug)]
pub(super) struct Processors {
    pub(super) time: Timed<Ticket>,
    pub(super) class: ClassId,
    pub(super) launch: Span,
    pub(super) far: Vec<(TierId, FarMemory)>,
}

remember! { Processors { time } skip { class, launch, far }; }

impl Processors {
    /// `None` if no op runs there.
    pub(super) fn new(
        hardware: &Hardware,
        routes: &Routes,
        trace: &Trace,
    ) -> Option<Box<Processors>> {
        if trace.ops.iter().all(|op| op.unit != Unit::Cpu) {
            return None;
        }
        let second = Bandwidth::new(PS_PER_S).expect("above zero");
        let mut time = Timed::new(vec![second]);
        let class = time.fair.class(&[0]);
        let launch = hardware.cpu.as_ref().map_or(Span::ZERO, |cpu| cpu.launch);
        let far = hardware.far_memory(routes);
        Some(Box::new(Processors { time, class, launch, far }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(thread: u64, device: u64) -> Allocating {
        Allocating { thread: Span::from_us(thread), device: Span::from_us(device) }
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn a_thread_that_is_ahead_costs_nothing_and_one_that_is_behind_its_rest() {
        let mut threads = Threads::default();
        // The first op waits for all of its request; the thread goes on while it runs.
        assert_eq!(threads.wait(0, asked(4, 0), at(0)), Span::from_us(4));
        assert_eq!(threads.wait(0, asked(4, 0), at(10)), Span::ZERO);
        // 8 us of 12 were done by then.
        assert_eq!(threads.wait(0, asked(4, 0), at(11)), Span::from_us(1));
        assert_eq!(threads.wait(1, asked(4, 0), at(1)), Span::from_us(3), "another device");
    }

    #[test]
    fn a_segment_is_waited_for_whole_and_the_thread_goes_on_from_there() {
        let mut threads = Threads::default();
        assert_eq!(threads.wait(0, asked(4, 335), at(100)), Span::from_us(335));
        assert_eq!(threads.wait(0, asked(4, 0), at(435)), Span::from_us(4));
        assert_eq!(threads.wait(0, asked(0, 0), at(436)), Span::ZERO, "nothing is asked for");
    }
}
