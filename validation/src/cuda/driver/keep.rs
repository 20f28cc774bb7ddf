//! What stays between machines while a command makes many of them, one after the other.
//!
//! To make a device's context takes some tenths of a second, and to lock memory of the host about
//! as long per gigabyte, both many times what a small plan takes to run.
//! Invariant: nothing is kept unless a [`Keep`] lives, and all of it goes with that. Kept memory is
//! no more than what the machines that lived at one time had.

use super::*;
use std::sync::{Mutex, PoisonError};

/// While it lives, a device's context stays, and pinned memory goes from one machine to the next.
/// One at a time: a second one keeps nothing.
pub struct Keep {
    device: Arc<Device>,
    is_first: bool,
}

struct Spare {
    device: Arc<Device>,
    memory: Vec<PinnedMemory>,
}

static SPARE: Mutex<Option<Spare>> = Mutex::new(None);

fn spare() -> std::sync::MutexGuard<'static, Option<Spare>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keep {
    /// Keeps what belongs to the device of a number. Without a driver or a device: a fault that
    /// says what was looked for.
    pub fn new(number: usize) -> Result<Keep> {
        let device = Device::open(number, Live::default())?;
        let mut spare = spare();
        let is_first = spare.is_none();
        if is_first {
            *spare = Some(Spare { device: device.clone(), memory: Vec::new() });
        }
        drop(spare);
        Ok(Keep { device, is_first })
    }

    /// The smallest piece of at least so many bytes. Where there is none, what is kept makes room
    /// for a larger one.
    pub(super) fn take(bytes: u64) -> Option<PinnedMemory> {
        let (found, mut small) = {
            let mut spare = spare();
            let memory = &mut spare.as_mut()?.memory;
            let enough = (0..memory.len()).filter(|&index| memory[index].bytes >= bytes);
            match enough.min_by_key(|&index| memory[index].bytes) {
                Some(index) => (Some(memory.swap_remove(index)), Vec::new()),
                None => (None, std::mem::take(memory)),
            }
        };
        small.iter_mut().for_each(|memory| memory.lasting = false);
        found
    }

    /// Keeps what a machine gives back; whether it does.
    pub(super) fn put(memory: &mut PinnedMemory) -> bool {
        let mut spare = spare();
        let Some(spare) =
            spare.as_mut().filter(|spare| spare.device.device == memory.device.device)
        else {
            return false;
        };
        let (device, lasting) = (spare.device.clone(), true);
        memory.device.live.rooms.fetch_sub(1, Relaxed);
        device.live.rooms.fetch_add(1, Relaxed);
        let &mut PinnedMemory { host, bytes, address, .. } = memory;
        spare.memory.push(PinnedMemory { device, host, bytes, address, lasting });
        true
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        if self.is_first {
            // The lock is given back before the memory goes, which asks for it.
            let kept = spare().take();
            // Where the device refuses, its memory goes with the process.
            let _ = self.device.enter();
            drop(kept);
        }
    }
}
