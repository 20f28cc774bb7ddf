//! What checks on the device find: places in pinned memory that the kernels write and the host
//! reads.
//!
//! Invariant: a place is read once its check has ended, and given to the next check after that.

use crate::cuda::allocations::DeviceAllocation;
use crate::cuda::driver::{Device, PinnedMemory};
use crate::cuda::kernels::{FINDING, Range};
use crate::cuda::mark::Mark;
use crate::fault::Result;
use crate::pattern::decode;
use crate::truth::{Contents, Meeting, Mismatch};
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// Places that are made at a time.
const BLOCK: usize = 4096;

/// All places.
pub(crate) struct Findings {
    device: Arc<Device>,
    blocks: Vec<PinnedMemory>,
    free: Vec<usize>,
}

/// A check under way.
pub(crate) struct Watch {
    place: usize,
    whose: Meeting,
    expected: u64,
    /// Where in the object the range starts that is checked.
    from: u64,
}

/// What has arrived, or will when a mark is passed, and is to be checked.
pub(crate) struct Arrival {
    pub(crate) held: Rc<DeviceAllocation>,
    pub(crate) after: Option<Rc<Mark>>,
    pub(crate) ranges: SmallVec<[Range; 1]>,
    pub(crate) watches: SmallVec<[Watch; 1]>,
}

impl Findings {
    pub(crate) fn new(device: &Arc<Device>) -> Findings {
        Findings { device: device.clone(), blocks: Vec::new(), free: Vec::new() }
    }

    /// A place for the finding of a check, and its address.
    pub(crate) fn watch(
        &mut self,
        whose: Meeting,
        (expected, from): (u64, u64),
    ) -> Result<(Watch, u64)> {
        if self.free.is_empty() {
            let first = self.blocks.len() * BLOCK;
            self.blocks.push(PinnedMemory::new(&self.device, BLOCK as u64 * FINDING)?);
            self.free.extend((first..first + BLOCK).rev());
        }
        let place = self.free.pop().expect("there is one now");
        let (block, at) = (&self.blocks[place / BLOCK], (place % BLOCK) as u64 * FINDING);
        for (word, value) in [0, u64::MAX, 0, 0].into_iter().enumerate() {
            block.set(at + word as u64 * 8, value);
        }
        Ok((Watch { place, whose, expected, from }, block.address + at))
    }

    /// What a check that has ended found.
    pub(crate) fn read(&mut self, watch: Watch) -> Option<Mismatch> {
        let Watch { place, whose, expected, from } = watch;
        let (block, at) = (&self.blocks[place / BLOCK], (place % BLOCK) as u64 * FINDING);
        let [wrong, index, word] = [0, 8, 16].map(|offset| block.get(at + offset));
        self.free.push(place);
        if wrong == 0 {
            return None;
        }
        let (object, version) = decode(word, from as usize + index as usize * 8);
        Some(Mismatch::new(whose, expected, Contents::Version { object: object.0, version }))
    }
}
