//! Rows of the same work in one stream, timed by the device's events.
//!
//! A delay holds the stream until the whole row is queued, so that the time from one end to the
//! next is the device's and not that of whoever queues. The first of a row is not counted.
//! Invariant: nothing runs on the device when a row has been read.

use crate::calibrate::cuda::kernels::Kernels;
use crate::calibrate::probe::Way;
use crate::clock::Clock;
use crate::cuda::driver::{Device, Event, Pageable, Stream};
use crate::fault::{Fault, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tiersim_models::units::Span;

/// The first delay lasts this long per call queued behind it: some times what queueing takes.
const PER_CALL_NS: u64 = 20_000;
/// Calls queued besides the row itself.
const MORE: u64 = 20;

/// Streams and events for rows.
pub(super) struct Rows {
    device: Arc<Device>,
    main: Stream,
    other: Stream,
    events: Vec<Event>,
}

/// A copy between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) to: u64,
    pub(super) from: u64,
    pub(super) bytes: u64,
}

impl Rows {
    pub(super) fn new(device: &Arc<Device>) -> Result<Rows> {
        let (main, other) = (Stream::new(device, false)?, Stream::new(device, false)?);
        Ok(Rows { device: device.clone(), main, other, events: Vec::new() })
    }

    pub(super) fn main(&self) -> &Stream {
        &self.main
    }

    fn events(&mut self, count: usize) -> Result<()> {
        while self.events.len() < count {
            self.events.push(Event::new(&self.device)?);
        }
        Ok(())
    }

    /// Times between the ends of `repeats` pieces of work and the end of the one before each.
    pub(super) fn ends(
        &mut self,
        kernels: &Kernels,
        repeats: usize,
        mut work: impl FnMut(&Stream) -> Result<()>,
    ) -> Result<Vec<Span>> {
        self.events(repeats + 1)?;
        kernels.delay(&self.main, (repeats as u64 + MORE) * PER_CALL_NS)?;
        for event in &self.events[..=repeats] {
            work(&self.main)?;
            event.record(&self.main)?;
        }
        self.main.synchronize()?;
        self.events[..=repeats].windows(2).map(|pair| between(&pair[0], &pair[1])).collect()
    }

    /// Times from start to end of `repeats` pieces of work, each measured by itself.
    pub(super) fn single(
        &mut self,
        kernels: &Kernels,
        repeats: usize,
        mut work: impl FnMut(&Stream) -> Result<()>,
    ) -> Result<Vec<Span>> {
        self.events(2 * repeats)?;
        kernels.delay(&self.main, (2 * repeats as u64 + MORE) * PER_CALL_NS)?;
        work(&self.main)?;
        for pair in self.events[..2 * repeats].chunks(2) {
            pair[0].record(&self.main)?;
            work(&self.main)?;
            pair[1].record(&self.main)?;
        }
        self.main.synchronize()?;
        self.events[..2 * repeats].chunks(2).map(|pair| between(&pair[0], &pair[1])).collect()
    }

    /// Copies of pinned memory back to back; meanwhile twice as many the other way, if asked, so
    /// that the other direction is busy to the end unless it is more than twice as fast.
    pub(super) fn copies(
        &mut self,
        kernels: &Kernels,
        ours: Ends,
        other: Option<Ends>,
        repeats: usize,
    ) -> Result<Vec<Span>> {
        let Some(theirs) = other else {
            return self.ends(kernels, repeats, |stream| ours.copy(stream));
        };
        self.events(repeats + 2)?;
        let (gate, events) = self.events.split_last().expect("there are two at least");
        kernels.delay(&self.main, (3 * repeats as u64 + MORE) * PER_CALL_NS)?;
        gate.record(&self.main)?;
        self.other.wait(gate)?;
        for event in &events[..=repeats] {
            ours.copy(&self.main)?;
            event.record(&self.main)?;
            theirs.copy(&self.other)?;
            theirs.copy(&self.other)?;
        }
        self.main.synchronize()?;
        self.other.synchronize()?;
        events[..=repeats].windows(2).map(|pair| between(&pair[0], &pair[1])).collect()
    }

    /// Copies that name pageable memory, each waited for and timed by the host's clock; meanwhile a
    /// second thread does `other` the same way.
    pub(super) fn pageable(
        &self,
        ours: Ends,
        other: Option<Ends>,
        repeats: usize,
    ) -> Result<Vec<Span>> {
        let (started, over) = (AtomicBool::new(other.is_none()), AtomicBool::new(false));
        let device = &self.device;
        let keep_busy = |theirs: Ends| -> Result<()> {
            device.enter()?;
            let stream = Stream::new(device, false)?;
            while !over.load(Relaxed) {
                theirs.copy(&stream)?;
                stream.synchronize()?;
                started.store(true, Relaxed);
            }
            Ok(())
        };
        let died = || Fault::Died("the thread that copies the other way".to_owned());
        std::thread::scope(|scope| {
            let work = |theirs| {
                let done = keep_busy(theirs);
                // Whatever came of it, nobody has to wait for it any longer.
                started.store(true, Relaxed);
                done
            };
            let spawn =
                |theirs| std::thread::Builder::new().spawn_scoped(scope, move || work(theirs));
            let busy = other.map(spawn).transpose().map_err(|_| died())?;
            while !started.load(Relaxed) {
                std::thread::yield_now();
            }
            let clock = Clock::start();
            let once = |_| {
                let start = clock.now();
                ours.copy(&self.main)?;
                self.main.synchronize()?;
                Ok(clock.now().since(start))
            };
            let spans: Result<Vec<Span>> = (0..=repeats).map(once).collect();
            over.store(true, Relaxed);
            busy.map_or(Ok(Ok(())), |thread| thread.join().map_err(|_| died()))??;
            Ok(spans?.split_off(1))
        })
    }
}

impl Ends {
    fn copy(self, stream: &Stream) -> Result<()> {
        stream.copy(self.to, self.from, self.bytes)
    }

    /// Between a place of the device and one of the host.
    pub(super) fn of(way: Way, device: u64, host: u64, bytes: u64) -> Ends {
        match way {
            Way::ToDevice => Ends { to: device, from: host, bytes },
            Way::FromDevice => Ends { to: host, from: device, bytes },
        }
    }
}

/// Pageable memory of at least a size, kept between calls.
pub(super) fn at_least(memory: &mut Pageable, bytes: u64) -> u64 {
    if memory.len() < bytes {
        *memory = Pageable::new(bytes);
    }
    memory.address()
}

fn between(first: &Event, second: &Event) -> Result<Span> {
    let ms = f64::from(second.since(first)?).max(0.0);
    Ok(Span::from_ps((ms * 1e9).round() as u64))
}
