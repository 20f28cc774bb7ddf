//! Points in the device's queues, and the moments at which they were passed.
//!
//! Events are kept and used again: making one costs more than recording it. Waiting takes what was
//! recorded last at the time of the call, so an event may be recorded anew as soon as no command
//! asks about it any more.
//! Invariant: times of the device are milliseconds as `f32` from a base that is renewed before half
//! a second has passed, so that they keep steps of well below a microsecond on runs of any length.

use crate::clock::Clock;
use crate::cuda::driver::{Device, Event, Stream};
use crate::fault::Result;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tiersim_models::units::Time;

/// A base older than this is renewed.
const RENEW_MS: f32 = 500.0;
/// Goes at mapping the device's time to the host's; the quickest counts.
const GOES: usize = 16;

/// Events to spare.
pub(crate) struct Marks {
    device: Arc<Device>,
    spare: RefCell<Vec<Event>>,
    /// Marks made.
    count: Cell<u64>,
    /// By stream, and by the stream of a mark, the last that it waits for.
    seen: RefCell<BTreeMap<(usize, usize), u64>>,
}

/// A point in a stream.
pub(crate) struct Mark {
    event: Option<Event>,
    /// Number of the stream, so that nothing waits for its own past.
    stream: usize,
    /// Which one it is of all marks; a stream passes its own in order.
    number: u64,
    passed: Cell<bool>,
    /// When it was passed, once that was asked for.
    at: Cell<Option<Time>>,
    pool: Rc<Marks>,
}

impl Marks {
    pub(crate) fn new(device: &Arc<Device>) -> Rc<Marks> {
        let (count, seen) = (Cell::new(0), RefCell::default());
        Rc::new(Marks { device: device.clone(), spare: RefCell::default(), count, seen })
    }

    /// Marks the end of what is in a stream now.
    pub(crate) fn record(self: &Rc<Marks>, on: &Stream, stream: usize) -> Result<Rc<Mark>> {
        let spare = self.spare.borrow_mut().pop();
        let event = spare.map_or_else(|| Event::new(&self.device), Ok)?;
        event.record(on)?;
        let number = self.count.get() + 1;
        self.count.set(number);
        let (event, pool) = (Some(event), self.clone());
        let (passed, at) = (Cell::new(false), Cell::new(None));
        Ok(Rc::new(Mark { event, stream, number, passed, at, pool }))
    }
}

impl Mark {
    fn event(&self) -> &Event {
        self.event.as_ref().expect("an event goes back to the pool with its mark")
    }

    /// Whether it has been passed.
    pub(crate) fn passed(&self) -> Result<bool> {
        if !self.passed.get() {
            self.passed.set(self.event().passed()?);
        }
        Ok(self.passed.get())
    }

    /// Milliseconds since an earlier mark; waits for this one.
    pub(crate) fn ms_since(&self, earlier: &Mark) -> Result<f32> {
        self.event().synchronize()?;
        self.event().since(earlier.event())
    }

    /// Makes a stream wait for it, unless it lies in that stream, is known to be past, or lies in
    /// another stream before a mark that was waited for. Whether it has to.
    pub(crate) fn hold_up(&self, on: &Stream, stream: usize) -> Result<bool> {
        let mut seen = self.pool.seen.borrow_mut();
        let seen = seen.entry((stream, self.stream)).or_default();
        if self.stream == stream || self.passed.get() || self.number <= *seen {
            return Ok(false);
        }
        *seen = self.number;
        on.wait(self.event()).map(|()| true)
    }

    /// Which of two comes later, if they lie in one stream.
    pub(crate) fn order(&self) -> u64 {
        self.number
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.pool.spare.borrow_mut().extend(self.event.take());
    }
}

/// Where the device's time lies in the run's.
pub(crate) struct Timeline {
    base: Rc<Mark>,
    at: Time,
}

impl Timeline {
    /// Maps the two: the device passes an event between two looks at the host's clock, and of
    /// several goes the one with the least between them counts.
    pub(crate) fn new(
        marks: &Rc<Marks>,
        stream: &Stream,
        number: usize,
        clock: Clock,
    ) -> Result<Timeline> {
        let mut best = None;
        for _ in 0..GOES {
            let before = clock.now();
            let base = marks.record(stream, number)?;
            base.event().synchronize()?;
            let took = clock.now().since(before);
            if best.as_ref().is_none_or(|(least, _)| took < *least) {
                let at = Time::from_ps(before.ps() + took.ps() / 2);
                best = Some((took, Timeline { base, at }));
            }
        }
        Ok(best.expect("at least one go").1)
    }

    /// When a mark was passed.
    pub(crate) fn time(&mut self, mark: &Rc<Mark>) -> Result<Time> {
        if let Some(at) = mark.at.get() {
            return Ok(at);
        }
        let ms = mark.event().since(self.base.event())?;
        // Signed: a stream may be heard of after the base was renewed from another one.
        let ps = (f64::from(ms) * 1e9).round() as i64;
        let at = Time::from_ps(self.at.ps().saturating_add_signed(ps));
        if ms > RENEW_MS {
            (self.base, self.at) = (mark.clone(), at);
        }
        mark.at.set(Some(at));
        Ok(at)
    }
}
