//! What allocators take of an op's time.
//!
//! The program's thread of each device asks for memory on behalf of one op after the other and is
//! ahead of the device: what it takes is felt only by an op that could start before the thread is
//! done. Where a segment comes or goes, the op waits for that too, and the thread goes on from
//! there.
//! Invariant: with exact allocators nothing is added to any op.

use super::SimMachine;
use tiersim_models::units::{Span, Time};
use tiersim_policies::command::{Allocating, Ticket};

/// When the thread of each device is done with what it was asked for so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(Vec<Time>);

impl Threads {
    /// How long an op waits that could start at `now`.
    fn wait(&mut self, rank: usize, asked: Allocating, now: Time) -> Span {
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

impl SimMachine<'_> {
    /// What an op that could start now waits for its memory.
    pub(super) fn allocate(&mut self, op: Ticket, asked: Allocating) -> Span {
        if self.placed_elsewhere {
            return Span::ZERO;
        }
        self.threads.wait(self.ranks.rank(op) as usize, asked, self.engine.now())
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
