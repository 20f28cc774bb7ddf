//! What runs on the device: its streams, kernels, events and memory that is no object's.
//!
//! Streams by number: compute streams first, then one per channel that the device copies over, then
//! as many for checks of what has arrived, which go after everything else. No more than these: a
//! device has few queues, and streams that share one wait for each other.
//! Invariant: whatever is enqueued here finds its memory alive until the machine has been waited
//! for.

use crate::clock::Clock;
use crate::cuda::allocations::Place;
use crate::cuda::driver::{Device, DeviceMemory, PinnedMemory, Stream};
use crate::cuda::findings::Findings;
use crate::cuda::kernels::Kernels;
use crate::cuda::mark::{Mark, Marks, Timeline};
use crate::cuda::pace::{KernelBench, Paces, Scratch};
use crate::fault::Result;
use crate::options::{Delay, Options, lateness};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tiersim_models::units::Span;
use tiersim_policies::command::Ticket;

/// The device at work.
pub(crate) struct Floor {
    pub(crate) streams: Vec<Stream>,
    pub(crate) marks: Rc<Marks>,
    pub(crate) timeline: Timeline,
    pub(crate) clock: Clock,
    pub(crate) kernels: Kernels,
    pub(crate) scratch: Scratch,
    pub(crate) paces: Paces,
    pub(crate) findings: Findings,
    pub(crate) bounces: Bounces,
    pub(crate) late: Option<Delay>,
    /// The last end that was marked, by stream.
    ends: RefCell<BTreeMap<usize, Rc<Mark>>>,
    pub(crate) device: Arc<Device>,
}

impl Floor {
    /// So many streams for work and for checks, with kernels measured.
    pub(crate) fn new(
        device: &Arc<Device>,
        working: usize,
        checking: usize,
        options: &Options,
    ) -> Result<Floor> {
        let stream = |number| Stream::new(device, number < working);
        let streams: Vec<Stream> = (0..working + checking).map(stream).collect::<Result<_, _>>()?;
        let (kernels, scratch) = (Kernels::load(device)?, Scratch::new(device)?);
        let (marks, clock) = (Marks::new(device), Clock::start());
        let (first, scratch_ref) = (&streams[0], &scratch);
        let bench = KernelBench {
            device,
            kernels: &kernels,
            scratch: scratch_ref,
            stream: first,
            marks: &marks,
        };
        let paces = Paces::of(options.device, &bench)?;
        let timeline = Timeline::new(&marks, first, 0, clock)?;
        Ok(Floor {
            streams,
            marks,
            timeline,
            clock,
            kernels,
            scratch,
            paces,
            findings: Findings::new(device),
            bounces: Bounces { device: device.clone(), memory: Vec::new(), spare: BTreeMap::new() },
            late: options.delay,
            ends: RefCell::default(),
            device: device.clone(),
        })
    }

    /// Starts the run's clock anew.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.clock = Clock::start();
        self.timeline = Timeline::new(&self.marks, &self.streams[0], 0, self.clock)?;
        Ok(())
    }

    /// Marks the end of what is in a stream now.
    pub(crate) fn record(&self, number: usize) -> Result<Rc<Mark>> {
        self.marks.record(&self.streams[number], number)
    }

    /// Makes a stream wait for marks; whether it has to for any.
    pub(crate) fn hold_up<'m>(
        &self,
        number: usize,
        marks: impl IntoIterator<Item = &'m Rc<Mark>>,
    ) -> Result<bool> {
        // Of the marks of a stream the last is enough.
        let mut marks: SmallVec<[&Rc<Mark>; 4]> = marks.into_iter().collect();
        marks.sort_unstable_by_key(|mark| Reverse(mark.order()));
        let stream = &self.streams[number];
        let mut waits = marks.into_iter().map(|mark| mark.hold_up(stream, number));
        waits.try_fold(false, |any, waits| Ok(any | waits?))
    }

    /// Marks the start of work. What begins as soon as what is before it in its stream ends begins
    /// at that end: one event is less for the host to queue and for the device to pass.
    pub(crate) fn start(&self, number: usize, waits: bool) -> Result<Rc<Mark>> {
        match self.ends.borrow().get(&number) {
            Some(end) if !waits && !end.passed()? => Ok(end.clone()),
            _ => self.record(number),
        }
    }

    /// Marks the end of work.
    pub(crate) fn end(&self, number: usize) -> Result<Rc<Mark>> {
        let end = self.record(number)?;
        self.ends.borrow_mut().insert(number, end.clone());
        Ok(end)
    }

    /// How late a piece of work starts, if a test asks for it.
    pub(crate) fn lateness(&self, ticket: Ticket, hop: usize) -> Span {
        lateness(self.late, ticket, hop)
    }

    /// Makes a stream start late, if a test asks for it; whether it does.
    pub(crate) fn dawdle(&self, number: usize, ticket: Ticket, hop: usize) -> Result<bool> {
        let ns = self.lateness(ticket, hop).ps() / 1000;
        self.kernels.delay(&self.streams[number], ns).map(|()| ns > 0)
    }
}

/// Buffers between the channels of copies, in the memory of the tier between.
pub(crate) struct Bounces {
    device: Arc<Device>,
    memory: Vec<DeviceMemory>,
    spare: BTreeMap<(bool, u64), Vec<Place>>,
}

impl Bounces {
    /// A buffer; whether a new one had to be made on the device.
    pub(crate) fn take(&mut self, on_device: bool, bytes: u64) -> Result<(Place, bool)> {
        let spare = self.spare.get_mut(&(on_device, bytes)).and_then(Vec::pop);
        if let Some(place) = spare {
            return Ok((place, false));
        }
        if on_device {
            let memory = DeviceMemory::new(&self.device, bytes)?;
            let place = Place::Device(memory.address);
            self.memory.push(memory);
            return Ok((place, true));
        }
        Ok((Place::Pinned(Arc::new(PinnedMemory::new(&self.device, bytes)?), 0), false))
    }

    /// Takes a buffer back that nothing uses any more.
    pub(crate) fn give_back(&mut self, place: Place, bytes: u64) {
        let on_device = matches!(place, Place::Device(_));
        self.spare.entry((on_device, bytes)).or_default().push(place);
    }
}
