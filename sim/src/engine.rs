//! The clock and the events that move it.
//!
//! A model owns an `Engine<E>` with its own closed enum of events, and runs
//! `while let Some((now, event)) = engine.next() { ... }`. There are no processes, callbacks or
//! threads: what happens on an event is the caller's `match`.
//!
//! Invariant: the clock never goes backwards. Events of one moment come by class, lowest first, and
//! first in first out within a class; an event scheduled for the current moment comes in that same
//! moment, whatever its class.

use tiersim_models::units::{Span, Time};

pub use crate::queue::EventId;
use crate::queue::EventQueue;

/// A simulated clock and its pending events.
#[derive(Debug)]
pub struct Engine<E> {
    now: Time,
    queue: EventQueue<E>,
    events: u64,
}

impl<E> Engine<E> {
    /// An engine at [`Time::ZERO`] with nothing to do.
    pub const fn new() -> Engine<E> {
        Engine { now: Time::ZERO, queue: EventQueue::new(), events: 0 }
    }

    /// The current moment: that of the event taken last.
    #[inline]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Has `event` come at the moment `at`. Panics if that has passed.
    #[inline]
    pub fn schedule_at(&mut self, at: Time, class: u8, event: E) -> EventId {
        assert!(at >= self.now, "scheduled at {at}, but it is already {}", self.now);
        self.queue.push(at, class, event)
    }

    /// Has `event` come `after` from now. Panics beyond the last representable moment.
    #[inline]
    pub fn schedule_in(&mut self, after: Span, class: u8, event: E) -> EventId {
        self.queue.push(self.now + after, class, event)
    }

    /// Takes back a scheduled event, or `None` if it has come or been taken back already.
    pub fn cancel(&mut self, id: EventId) -> Option<E> {
        self.queue.cancel(id)
    }

    /// Advances the clock to the next event and takes it; `None` when nothing is pending.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would invite adaptors that \
        hold the engine while its events need it"
    )]
    pub fn next(&mut self) -> Option<(Time, E)> {
        let (at, event) = self.queue.pop()?;
        assert!(at >= self.now, "the clock went back from {} to {at}", self.now);
        self.now = at;
        self.events += 1;
        Some((at, event))
    }

    /// When the next event is due.
    pub fn next_time(&self) -> Option<Time> {
        self.queue.peek_time()
    }

    /// How many events are pending.
    pub const fn pending(&self) -> usize {
        self.queue.len()
    }

    /// The pending events in the order in which they will come, with their moments and classes.
    pub fn pending_events(&self) -> Vec<(Time, u8, &E)> {
        self.queue.in_order()
    }

    /// Counts the events since there were `start` once more, `times` over; `None` if that is more
    /// than 64 bits count.
    pub fn count_again(&mut self, start: u64, times: u64) -> Option<()> {
        self.events = (self.events - start).checked_mul(times)?.checked_add(self.events)?;
        Some(())
    }

    /// How many events have been taken.
    pub const fn events(&self) -> u64 {
        self.events
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Engine<E> {
        Engine::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    #[test]
    fn the_clock_stands_at_the_event_taken_last() {
        let mut engine = Engine::new();
        engine.schedule_at(at(7), 0, 'b');
        engine.schedule_in(Span::from_ps(5), 0, 'a');
        assert_eq!((engine.now(), engine.next_time()), (Time::ZERO, Some(at(5))));
        assert_eq!(engine.next(), Some((at(5), 'a')));
        assert_eq!((engine.now(), engine.pending(), engine.events()), (at(5), 1, 1));
        engine.schedule_in(Span::from_ps(5), 0, 'c');
        assert_eq!(engine.next(), Some((at(7), 'b')));
        assert_eq!(engine.next(), Some((at(10), 'c')));
        assert_eq!(engine.next(), None);
        assert_eq!((engine.now(), engine.pending(), engine.events()), (at(10), 0, 3));
    }

    #[test]
    fn an_event_scheduled_for_the_current_moment_comes_in_it() {
        let mut engine = Engine::new();
        engine.schedule_at(at(3), 9, 'a');
        engine.schedule_at(at(3), 9, 'b');
        engine.schedule_at(at(4), 0, 'd');
        assert_eq!(engine.next(), Some((at(3), 'a')));
        engine.schedule_in(Span::ZERO, 9, 'c');
        engine.schedule_at(at(3), 1, 'x');
        let rest: String = std::iter::from_fn(|| engine.next()).map(|(_, event)| event).collect();
        assert_eq!(rest, "xbcd", "the lower class first, then first in first out");
    }

    #[test]
    fn a_cancelled_event_does_not_come_and_is_not_counted() {
        let mut engine = Engine::new();
        let id = engine.schedule_at(at(1), 0, 'a');
        engine.schedule_at(at(2), 0, 'b');
        assert_eq!(engine.cancel(id), Some('a'));
        assert_eq!(engine.next(), Some((at(2), 'b')));
        assert_eq!(engine.cancel(id), None);
        assert_eq!((engine.events(), engine.now()), (1, at(2)));
    }

    #[test]
    #[should_panic(expected = "scheduled at 4 ps, but it is already 5 ps")]
    fn the_past_is_refused() {
        let mut engine = Engine::new();
        engine.schedule_at(at(5), 0, ());
        engine.next();
        engine.schedule_at(at(4), 0, ());
    }

    #[test]
    #[should_panic(expected = "time overflows u64 picoseconds")]
    fn a_moment_past_the_last_is_refused_not_wrapped() {
        let mut engine = Engine::new();
        engine.schedule_at(Time::MAX, 0, ());
        engine.next();
        engine.schedule_in(Span::from_ps(1), 0, ());
    }
}
