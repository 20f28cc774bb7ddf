//! Whose room is where: arenas of device and pinned memory, and files.
//!
//! Rooms are taken and given back when commands are submitted, in that order, and so lie where they
//! will lie before anything runs. What a command may only do after another has ended, because both
//! use the same bytes, is returned as tickets to wait for.
//! Invariant: capacity is not counted here. An arena starts with the room that the plan can use and
//! grows where no piece is large enough.

use crate::cuda::arena::{Arena, Spot, Tickets, padded};
use crate::cuda::driver::{Device, DeviceMemory, PinnedMemory};
use crate::cuda::mark::Mark;
use crate::fault::Result;
use crate::host::room::{Folder, Slot, is_file};
use crate::options::{Failing, Options};
use crate::pattern::PAGE;
use crate::real::DeviceMemory as Used;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tiersim_models::hardware::{Capacity, Hardware, TierKind};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_policies::command::{Allocation, Ticket};

/// An arena that has to grow grows by at least this much.
const GROWTH: u64 = 2 << 20;

/// Where bytes are.
#[derive(Clone)]
pub(crate) enum Place {
    /// In the device's memory, at an address.
    Device(u64),
    /// In pinned memory, from a byte on.
    Pinned(Arc<PinnedMemory>, u64),
    /// In a file.
    File(Arc<Slot>),
}

impl Place {
    /// Its address on the device, if the device can reach it.
    pub(crate) fn address(&self) -> Option<u64> {
        match self {
            Place::Device(address) => Some(*address),
            Place::Pinned(memory, from) => Some(memory.address + from),
            Place::File(_) => None,
        }
    }
}

/// The room of an object, from its allocation on.
pub(crate) struct DeviceAllocation {
    pub(crate) place: Place,
    /// Bytes of it, in whole pages.
    pub(crate) bytes: u64,
    /// A check of an arrival that must not be overtaken by what overwrites the room.
    pub(crate) guard: RefCell<Option<Rc<Mark>>>,
    /// Whether such a check is still to be enqueued.
    pub(crate) unchecked: Cell<bool>,
    spot: Option<Spot>,
    tier: TierId,
    room: Bytes,
}

/// All tiers' rooms.
pub(crate) struct Allocations {
    // In the order in which they go: the tiers' memory, then the folder, when its files have gone.
    held: BTreeMap<(ObjectId, TierId), Rc<DeviceAllocation>>,
    tiers: Vec<Tier>,
    pub(crate) folder: Folder,
    device: Arc<Device>,
    pub(crate) failing: Failing,
    used: Used,
    before: Bytes,
    /// Address and bytes of memory that has just been taken.
    fresh: Vec<(u64, u64)>,
}

struct Tier {
    kind: TierKind,
    capacity: Capacity,
    /// The room that a plan can use: what all objects take, within the tier's capacity.
    planned: u64,
    arena: Arena,
    regions: Vec<Region>,
    /// Files to spare by pages, and who must have ended before they are used.
    spare: BTreeMap<usize, Vec<(Arc<Slot>, Ticket)>>,
    spare_bytes: u64,
    in_use: Bytes,
    peak: Bytes,
    made: (u64, u64),
}

enum Region {
    Device(DeviceMemory),
    Pinned(Arc<PinnedMemory>),
}

impl Allocations {
    pub(crate) fn new(
        device: &Arc<Device>,
        hardware: &Hardware,
        workload: &Workload,
        options: &Options,
    ) -> Result<Allocations> {
        let folder = Folder::new(&options.scratch, &options.live)?;
        let objects = &workload.trace.objects;
        let all: u64 = objects.iter().map(|object| padded(object.bytes.get())).sum();
        let padding = PAGE as u64 * objects.len() as u64;
        let tier = |tier: &tiersim_models::hardware::Tier| Tier {
            kind: tier.kind,
            capacity: tier.capacity,
            planned: all.min(tier.capacity.most().get().saturating_add(padding)),
            arena: Arena::default(),
            regions: Vec::new(),
            spare: BTreeMap::new(),
            spare_bytes: 0,
            in_use: Bytes::ZERO,
            peak: Bytes::ZERO,
            made: (0, 0),
        };
        let (free, total) = device.memory()?;
        Ok(Allocations {
            device: device.clone(),
            tiers: hardware.tiers.iter().map(tier).collect(),
            held: BTreeMap::new(),
            folder,
            failing: Failing::new(options.fail),
            used: Used { peak: Bytes::ZERO, rooms: Bytes::ZERO },
            before: Bytes::new(total.get() - free.get()),
            fresh: Vec::new(),
        })
    }

    /// Takes room. Returns commands that must end before it is written.
    pub(crate) fn allocate(
        &mut self,
        room: &Allocation,
        under_way: impl Fn(Ticket) -> bool,
    ) -> Result<Tickets> {
        self.failing.room()?;
        let (bytes, index) = (padded(room.bytes.get()), room.tier.index());
        let (place, spot, after) = if is_file(self.tiers[index].kind) {
            let (slot, after) = self.file(index, bytes, under_way)?;
            (Place::File(slot), None, after)
        } else {
            let (spot, after) = match self.tiers[index].arena.allocate(bytes) {
                Some(found) => found,
                None => {
                    self.grow(index, bytes)?;
                    let found = self.tiers[index].arena.allocate(bytes);
                    found.expect("a region of that size was added")
                }
            };
            let place = match &self.tiers[index].regions[spot.region] {
                Region::Device(memory) => Place::Device(memory.address + spot.at),
                Region::Pinned(memory) => Place::Pinned(memory.clone(), spot.at),
            };
            (place, Some(spot), after)
        };
        let held = DeviceAllocation {
            place,
            bytes,
            guard: RefCell::new(None),
            unchecked: Cell::new(false),
            spot,
            tier: room.tier,
            room: room.bytes,
        };
        let tier = &mut self.tiers[index];
        tier.in_use += room.bytes;
        tier.peak = tier.peak.max(tier.in_use);
        // Room that is allocated twice is a mistake of the plan, and shows in the contents.
        self.held.insert((room.object, room.tier), Rc::new(held));
        Ok(after)
    }

    fn grow(&mut self, index: usize, bytes: u64) -> Result<()> {
        let tier = &mut self.tiers[index];
        let first = if tier.regions.is_empty() { tier.planned } else { GROWTH };
        let bytes = bytes.max(first).next_multiple_of(PAGE as u64);
        let region = match tier.kind {
            TierKind::Hbm => Region::Device(DeviceMemory::new(&self.device, bytes)?),
            _ => Region::Pinned(Arc::new(PinnedMemory::lasting(&self.device, bytes)?)),
        };
        let address = match &region {
            Region::Device(memory) => memory.address,
            Region::Pinned(memory) => memory.address,
        };
        self.fresh.push((address, bytes));
        tier.arena.grow(bytes);
        tier.regions.push(region);
        // Both kinds are locked in place.
        tier.made = (tier.made.0 + 1, tier.made.1 + 1);
        self.meter()
    }

    /// Memory that was taken since this was last asked, and that nobody has written to.
    pub(crate) fn fresh(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.fresh)
    }

    /// Asks the driver how much memory is in use; to be called whenever some has been taken.
    pub(crate) fn meter(&mut self) -> Result<()> {
        let (free, total) = self.device.memory()?;
        let now = total.get().saturating_sub(free.get()).saturating_sub(self.before.get());
        self.used.peak = self.used.peak.max(Bytes::new(now));
        Ok(())
    }

    fn file(
        &mut self,
        index: usize,
        bytes: u64,
        under_way: impl Fn(Ticket) -> bool,
    ) -> Result<(Arc<Slot>, Tickets)> {
        let pages = bytes as usize / PAGE;
        let tier = &mut self.tiers[index];
        if let Some(spare) = tier.spare.get_mut(&pages).filter(|spare| !spare.is_empty()) {
            // The first is the one given back longest ago.
            let (slot, ticket) = spare.remove(0);
            tier.spare_bytes -= bytes;
            let after = [ticket].into_iter().filter(|ticket| under_way(*ticket)).collect();
            return Ok((slot, after));
        }
        let slot = self.folder.file(pages)?;
        tier.made = (tier.made.0 + 1, tier.made.1 + u64::from(slot.as_wished()));
        Ok((Arc::new(slot), Tickets::new()))
    }

    /// Gives room back, free once `ticket` has ended; returns it, if it was there.
    pub(crate) fn free(
        &mut self,
        room: &Allocation,
        ticket: Ticket,
    ) -> Option<Rc<DeviceAllocation>> {
        let held = self.held.remove(&(room.object, room.tier))?;
        let tier = &mut self.tiers[room.tier.index()];
        tier.in_use = Bytes::new(tier.in_use.get() - held.room.get());
        match (&held.place, held.spot) {
            (Place::File(slot), _) => {
                if tier.spare_bytes.saturating_add(held.bytes) <= tier.capacity.most().get() {
                    tier.spare_bytes += held.bytes;
                    tier.spare.entry(slot.pages).or_default().push((slot.clone(), ticket));
                }
            }
            (_, Some(spot)) => tier.arena.free(spot, held.bytes, ticket),
            (_, None) => unreachable!("memory comes from an arena"),
        }
        Some(held)
    }

    /// A command has ended that gave a room back.
    pub(crate) fn ended(&mut self, held: &DeviceAllocation, ticket: Ticket) {
        if let Some(spot) = held.spot {
            self.tiers[held.tier.index()].arena.ended(spot, held.bytes, ticket);
        }
    }

    /// The room of an object in a tier.
    pub(crate) fn get(&self, object: ObjectId, tier: TierId) -> Option<Rc<DeviceAllocation>> {
        self.held.get(&(object, tier)).cloned()
    }

    /// Everything that is held.
    pub(crate) fn held(&self) -> impl Iterator<Item = (ObjectId, TierId, &Rc<DeviceAllocation>)> {
        self.held.iter().map(|(&(object, tier), held)| (object, tier, held))
    }

    /// Blocks of memory and files made by tier, and how many are locked or unbuffered.
    pub(crate) fn made(&self) -> Vec<(u64, u64)> {
        self.tiers.iter().map(|tier| tier.made).collect()
    }

    /// The most bytes of rooms held at once, by tier.
    pub(crate) fn peak(&self) -> Vec<Bytes> {
        self.tiers.iter().map(|tier| tier.peak).collect()
    }

    /// The device's memory by the driver, and by the plan.
    pub(crate) fn used(&self) -> Used {
        let hbm = self.tiers.iter().filter(|tier| tier.kind == TierKind::Hbm);
        Used { rooms: hbm.map(|tier| tier.peak).sum(), ..self.used }
    }
}
