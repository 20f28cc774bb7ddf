//! Which slot is whose at this moment, and slots to spare.
//!
//! Making a slot costs page faults or a file, so a slot that is given back is kept for the next
//! object of its size, contents and all: what is read there without an arrival is somebody else's.
//! Invariant: capacity is not counted here. Spare slots are limited, room in use is not.

use crate::fault::Result;
use crate::host::room::{Folder, Slot, is_file};
use crate::options::{Failing, Live, Options};
use crate::pattern::PAGE;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tiersim_models::hardware::{Capacity, Hardware, TierKind};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_policies::command::Allocation;

/// All tiers' rooms.
pub(crate) struct Store {
    tiers: Vec<(TierKind, Capacity)>,
    table: Mutex<Table>,
    live: Live,
    pub(crate) failing: Failing,
    /// Goes last, when its files have.
    folder: Folder,
}

struct Table {
    /// Slots in use, and the bytes of the room that each is for.
    held: BTreeMap<(ObjectId, TierId), (Arc<Slot>, u64)>,
    /// Bytes of rooms in use, by tier, and the most there ever were.
    in_use: Vec<u64>,
    peak: Vec<u64>,
    /// Slots to spare, by tier and pages.
    spare: BTreeMap<(TierId, usize), Vec<Arc<Slot>>>,
    spare_bytes: Vec<u64>,
    /// Slots made, by tier, and how many of them are locked or unbuffered.
    made: Vec<(u64, u64)>,
}

impl Store {
    pub(crate) fn new(hardware: &Hardware, options: &Options) -> Result<Store> {
        let folder = Folder::new(&options.scratch, &options.live)?;
        let tiers: Vec<_> = hardware.tiers.iter().map(|t| (t.kind, t.capacity)).collect();
        let table = Table {
            held: BTreeMap::new(),
            in_use: vec![0; tiers.len()],
            peak: vec![0; tiers.len()],
            spare: BTreeMap::new(),
            spare_bytes: vec![0; tiers.len()],
            made: vec![(0, 0); tiers.len()],
        };
        Ok(Store {
            tiers,
            table: Mutex::new(table),
            live: options.live.clone(),
            failing: Failing::new(options.fail),
            folder,
        })
    }

    /// Takes room.
    pub(crate) fn allocate(&self, room: &Allocation) -> Result<()> {
        self.failing.room()?;
        let pages = (room.bytes.get() as usize).div_ceil(PAGE);
        let spare = self.table().take_spare(room.tier, pages);
        let slot = match spare {
            Some(slot) => slot,
            // Without the lock: it takes long.
            None => self.make(room.tier, pages)?,
        };
        let replaced = self.table().hold(room, slot);
        // Without the lock: it may take a file's removal.
        drop(replaced);
        Ok(())
    }

    fn make(&self, tier: TierId, pages: usize) -> Result<Arc<Slot>> {
        let slot = if is_file(self.tiers[tier.index()].0) {
            self.folder.file(pages)?
        } else {
            Slot::memory(pages, self.live.clone())
        };
        let made = &mut self.table().made[tier.index()];
        made.0 += 1;
        made.1 += u64::from(slot.as_wished());
        Ok(Arc::new(slot))
    }

    /// Gives room back. Room that is not there is a missing edge's doing, and shows as a mismatch.
    pub(crate) fn free(&self, room: &Allocation) {
        let mut table = self.table();
        let tier = room.tier.index();
        let Some((slot, held)) = table.held.remove(&(room.object, room.tier)) else { return };
        table.in_use[tier] -= held;
        let bytes = (slot.pages * PAGE) as u64;
        let spare = &mut table.spare_bytes[tier];
        if *spare + bytes <= self.tiers[tier].1.most().get() {
            *spare += bytes;
            table.spare.entry((room.tier, slot.pages)).or_default().push(slot);
            return;
        }
        // Without the lock: it may take a file's removal.
        drop(table);
        drop(slot);
    }

    /// The slot of an object in a tier.
    pub(crate) fn get(&self, object: ObjectId, tier: TierId) -> Option<Arc<Slot>> {
        self.table().held.get(&(object, tier)).map(|(slot, _)| slot.clone())
    }

    /// Everything that is held.
    pub(crate) fn held(&self) -> Vec<(ObjectId, TierId)> {
        self.table().held.keys().copied().collect()
    }

    /// Slots made by tier, and how many of them are locked memory or unbuffered files.
    pub(crate) fn made(&self) -> Vec<(u64, u64)> {
        self.table().made.clone()
    }

    /// The most bytes of rooms held at once, by tier.
    pub(crate) fn peak(&self) -> Vec<Bytes> {
        self.table().peak.iter().map(|&bytes| Bytes::new(bytes)).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // The table is whole between any two statements, so a panic elsewhere does not harm it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Puts a slot into use. Returns the one that was there, which is a missing edge's doing.
    fn hold(&mut self, room: &Allocation, slot: Arc<Slot>) -> Option<Arc<Slot>> {
        let (tier, bytes) = (room.tier.index(), room.bytes.get());
        let replaced = self.held.insert((room.object, room.tier), (slot, bytes));
        self.in_use[tier] += bytes;
        if let Some((_, bytes)) = &replaced {
            self.in_use[tier] -= bytes;
        }
        self.peak[tier] = self.peak[tier].max(self.in_use[tier]);
        replaced.map(|(slot, _)| slot)
    }

    fn take_spare(&mut self, tier: TierId, pages: usize) -> Option<Arc<Slot>> {
        let slot = self.spare.get_mut(&(tier, pages))?.pop()?;
        self.spare_bytes[tier.index()] -= (pages * PAGE) as u64;
        Some(slot)
    }
}
