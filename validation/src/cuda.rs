//! The CUDA machine: the same commands as the simulator's, on a CUDA device, pinned memory and
//! files.
//!
//! The hbm tier is the device's memory, dram and cxl are pinned memory of the host (cxl stands in
//! for an expander that is not there), nvme and remote are files that go around the page cache.
//! Each compute stream and each channel is a stream of the device, a channel with a file a thread.
//! Commands are enqueued when they are submitted: an edge between two streams is one event that one
//! stream waits for, and the host is asked only where files or pieces of copies are in the way.
//! Invariant: it never validates and never decides; capacity is the ledger's business. Where two
//! commands use the same bytes one after the other, the later one waits, edge or not.

pub(crate) mod allocations;
mod arena;
mod arrivals;
mod copies;
pub(crate) mod driver;
mod entry;
mod findings;
mod floor;
pub(crate) mod kernels;
mod mark;
mod ops;
mod pace;
mod pump;
mod worker;

use crate::cuda::allocations::{Allocations, Place};
use crate::cuda::arena::Tickets;
use crate::cuda::driver::Device;
pub use crate::cuda::driver::Keep;
use crate::cuda::entry::Book;
use crate::cuda::findings::{Arrival, Watch};
use crate::cuda::floor::Floor;
use crate::cuda::kernels::Range;
use crate::cuda::mark::Mark;
use crate::cuda::worker::{FILES, Workers};
use crate::fault::{Fault, Result};
use crate::host::kernels::fill;
use crate::host::room::{Buffer, is_file};
use crate::options::Options;
use crate::pattern::Key;
use crate::real::{RealMachine, Report, Run, Setup};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use tiersim_models::hardware::TierKind;
use tiersim_models::ids::{NodeId, ObjectId, TierId};
use tiersim_models::units::{Bytes, Time};
use tiersim_policies::command::{Allocation, Command, Machine, Ticket};
use tiersim_policies::transit::HopPiece;

/// What new memory is filled with.
const NOBODY: Key = Key { object: ObjectId(u32::MAX), version: u32::MAX as u64 };

/// A CUDA device under a plan.
pub struct CudaMachine<'a> {
    /// `None` only while it is dropped.
    parts: Option<Box<Parts<'a>>>,
}

/// All of a machine. In the order in which it goes: threads, what is under way, rooms, the device.
struct Parts<'a> {
    workers: Workers,
    book: Book,
    streams: Vec<Queue>,
    channels: Vec<Channel>,
    /// Releases, and copies that have arrived, that only wait for the device.
    loose: BTreeSet<Ticket>,
    rooms: Allocations,
    floor: Floor,
    run: Run<'a>,
    arrival_stride: usize,
    /// The thread that uses files in place.
    in_place: Option<usize>,
    fault: Option<Fault>,
    /// The device does not answer: waiting for it again would be for ever.
    is_stuck: bool,
}

/// A compute stream.
#[derive(Default)]
struct Queue {
    /// Ops that are not enqueued.
    waiting: VecDeque<Ticket>,
    /// Ops that are.
    running: VecDeque<Ticket>,
    /// When the last one ended.
    last: Time,
}

/// One direction of a link.
struct Channel {
    /// Copies that start here and have not.
    gate: VecDeque<Ticket>,
    /// The thread that does it, if it is not a stream.
    thread: Option<usize>,
    /// Number of its stream, if it is one, and of the stream for checks of what it brings.
    stream: usize,
    checking: usize,
    /// Whether it ends in the device's memory.
    to_device: bool,
    /// Pieces in its stream, or with its thread.
    flights: VecDeque<Flight>,
    sent: VecDeque<HopPiece>,
    /// Checks of what has arrived: those that are to be enqueued, and those that are.
    unchecked: Vec<Arrival>,
    checks: VecDeque<(Rc<Mark>, Watch)>,
    moved: Bytes,
}

impl Channel {
    /// Whether all checks have ended.
    fn has_checked(&self) -> bool {
        self.unchecked.is_empty() && self.checks.is_empty()
    }
}

/// A piece in a stream.
struct Flight {
    ticket: Ticket,
    part: HopPiece,
    /// Whether the copy ends with it.
    last: bool,
    start: Rc<Mark>,
    end: Rc<Mark>,
}

/// Kinds of the tiers that a channel leads from and to.
type Ends = [TierKind; 2];

/// The device reaches pinned memory but copies within it only at the cost of the bus, and does not
/// reach files.
fn by_thread(ends: &Ends) -> bool {
    ends.iter().copied().any(is_file) || !ends.contains(&TierKind::Hbm)
}

impl<'a> CudaMachine<'a> {
    /// A machine with its objects in place, filled. Without a driver or a device: a fault that says
    /// what was looked for.
    pub fn new(setup: Setup<'a>, options: &Options) -> Result<CudaMachine<'a>> {
        let (run, start) = Run::new(setup, options)?;
        let device = Device::open(options.device, options.live.clone())?;
        let (hardware, streams) = (run.hardware, run.streams());
        let ends = hardware.channels().map(|channel| hardware.channel_ends(channel).into());
        let kind = |tier: NodeId| hardware.tiers[tier.index()].kind;
        let ends: Vec<Ends> = ends.map(|ends: [NodeId; 2]| ends.map(kind)).collect();
        let copying = ends.iter().filter(|ends| !by_thread(ends)).count();
        let floor = Floor::new(&device, streams + copying, copying.max(1), options)?;
        let mut parts = Parts {
            workers: Workers::new(&device, floor.clock, &options.live),
            book: Book::new(),
            streams: (0..streams).map(|_| Queue::default()).collect(),
            channels: Vec::with_capacity(ends.len()),
            loose: BTreeSet::new(),
            rooms: Allocations::new(&device, hardware, run.workload, options)?,
            floor,
            run,
            arrival_stride: options.arrival_stride,
            in_place: None,
            fault: None,
            is_stuck: false,
        };
        start.iter().try_for_each(|room| parts.place(room))?;
        device.synchronize()?;
        parts.floor.restart()?;
        parts.workers = Workers::new(&device, parts.floor.clock, &options.live);
        parts.hire(&ends, (streams, copying))?;
        Ok(CudaMachine { parts: Some(Box::new(parts)) })
    }

    fn parts(&self) -> &Parts<'a> {
        self.parts.as_ref().expect("a machine in use has its parts")
    }

    fn carry_out<T>(&mut self, work: impl FnOnce(&mut Parts<'a>) -> Result<T>) -> Result<T> {
        let parts = self.parts.as_mut().expect("a machine in use has its parts");
        if let Some(fault) = &parts.fault {
            return Err(fault.clone());
        }
        let done = parts.floor.device.enter().and_then(|()| work(parts));
        done.inspect_err(|fault| parts.fault = Some(fault.clone()))
    }
}

impl Parts<'_> {
    /// Puts an object where it lies before the first op.
    fn place(&mut self, room: &Allocation) -> Result<()> {
        self.allocate(room, |_, _| false)?;
        let held = self.rooms.get(room.object, room.tier).expect("it was just allocated");
        let key = Key { object: room.object, version: 0 };
        match &held.place {
            Place::File(slot) => fill(slot, 0..slot.pages, key, &mut Buffer::new(0))
                .map_err(Fault::io("writes", FILES)),
            place => {
                let address = place.address().expect("memory has an address");
                let range = Range { next: Some(key), ..Range::new(address, held.bytes) };
                self.floor.kernels.use_all(&self.floor.streams[0], &[range])
            }
        }
    }

    /// Takes room. Memory that is new to the machine is filled with what no object holds, so that
    /// nothing is right because an earlier machine left it there.
    fn allocate(
        &mut self,
        room: &Allocation,
        under_way: impl Fn(&Book, Ticket) -> bool,
    ) -> Result<Tickets> {
        let book = &self.book;
        let after = self.rooms.allocate(room, |ticket| under_way(book, ticket))?;
        let fresh = self.rooms.fresh();
        if !fresh.is_empty() {
            // The last stream is one for checks: the ops of the plan go on.
            let last = self.floor.streams.len() - 1;
            for (address, bytes) in fresh {
                let range = Range { next: Some(NOBODY), ..Range::new(address, bytes) };
                self.floor.kernels.use_all(&self.floor.streams[last], &[range])?;
            }
            let (filled, since) = (self.floor.record(last)?, self.floor.clock.now());
            while !filled.passed()? {
                let waited = self.floor.clock.now().since(since);
                if waited > self.run.patience {
                    return Err(self.stuck(waited));
                }
                std::thread::yield_now();
            }
        }
        Ok(after)
    }

    /// Makes the channels: with streams, or with threads where the device alone cannot copy.
    fn hire(&mut self, ends: &[Ends], (mut next, copying): (usize, usize)) -> Result<()> {
        for (number, ends) in ends.iter().enumerate() {
            let spawn = || self.workers.spawn(format!("channel {number}"));
            let thread = by_thread(ends).then(spawn).transpose()?;
            let stream = next;
            next += usize::from(thread.is_none());
            self.channels.push(Channel {
                gate: VecDeque::new(),
                thread,
                stream,
                // What threads bring is there already: any stream for checks will do.
                checking: if thread.is_some() {
                    self.streams.len() + copying
                } else {
                    stream + copying
                },
                to_device: ends[1] == TierKind::Hbm,
                flights: VecDeque::new(),
                sent: VecDeque::new(),
                unchecked: Vec::new(),
                checks: VecDeque::new(),
                moved: Bytes::ZERO,
            });
        }
        if self.run.hardware.tiers.iter().any(|tier| is_file(tier.kind)) {
            self.in_place = Some(self.workers.spawn("files in place".to_owned())?);
        }
        Ok(())
    }
}

impl Machine for CudaMachine<'_> {
    type Fault = Fault;

    fn submit(&mut self, command: Command) -> Result<()> {
        self.carry_out(|parts| parts.submit(command))
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>> {
        self.carry_out(Parts::next)
    }
}

impl RealMachine for CudaMachine<'_> {
    fn report(&self) -> Report {
        let parts = self.parts();
        Report {
            moved: parts.channels.iter().map(|channel| channel.moved).collect(),
            peak: parts.rooms.peak(),
            slots: parts.rooms.made(),
            device: Some(parts.rooms.used()),
            ..parts.run.report(parts.book.report())
        }
    }

    fn holdings(&self) -> Result<Vec<(ObjectId, TierId, Option<u64>)>> {
        let parts = self.parts();
        let device: &Arc<Device> = &parts.floor.device;
        device.enter()?;
        let version =
            |(object, tier, held): (ObjectId, TierId, &Rc<allocations::DeviceAllocation>)| {
                let now = parts.run.written.now(object);
                let version = worker::version(device, object, (&held.place, held.bytes), now)?;
                Ok((object, tier, version))
            };
        parts.rooms.held().map(version).collect()
    }

    fn written(&self) -> &[u64] {
        self.parts().run.written.all()
    }
}

impl Drop for CudaMachine<'_> {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if parts.is_stuck {
            // Giving memory back waits for the device, which does not answer. The process's end
            // gives back what stays; files are another matter.
            parts.rooms.folder.abandon();
            std::mem::forget(parts);
            return;
        }
        let device = parts.floor.device.clone();
        // After a fault the device may refuse; its memory goes all the same.
        let _ = device.enter().and_then(|()| device.synchronize());
        drop(parts);
    }
}
