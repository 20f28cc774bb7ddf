//! Device memory and pinned host memory: allocations, and which of them an address lies in.
//!
//! Every allocation is one of the host's. Device addresses are made up and lie beyond any host
//! address, so that a host that uses one as a pointer of its own crashes, as with a real driver;
//! pinned memory has one address on both sides, as under unified addressing.
//! Invariant: an address resolves only if the whole range lies in one allocation.

use crate::codes::{Code, INVALID_VALUE, OUT_OF_MEMORY};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Device addresses start here: 2^49 is beyond what a process of x86-64 or AArch64 maps.
const DEVICE: u64 = 1 << 49;
/// What sizes on the device are rounded up to; also the gap after each allocation.
const GRAIN: u64 = 512;
const PAGE: usize = 4096;

/// Whose an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The device's.
    Device,
    /// Made by the driver on the host.
    Pinned,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct DeviceBlock {
    /// Its address as callers and kernels see it.
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// Where it really is.
    host: usize,
}

impl DeviceBlock {
    fn layout(bytes: u64) -> Option<Layout> {
        Layout::from_size_align(usize::try_from(bytes).ok()?.max(1), PAGE).ok()
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        let layout = DeviceBlock::layout(self.bytes).expect("it was allocated with it");
        // SAFETY: made by `alloc_zeroed` with this layout, and nobody else frees it.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(self.host), layout) };
    }
}

/// A range that may be read and written, in an allocation that lives as long as this does.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The allocation; none for pageable host memory, which the caller answers for.
    pub(crate) block: Option<Arc<DeviceBlock>>,
    host: usize,
}

impl Place {
    /// The range's first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.host)
    }

    /// Whether the host may touch it only while a call lasts.
    pub(crate) fn pageable(&self) -> bool {
        self.block.is_none()
    }
}

/// All allocations.
#[derive(Debug)]
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Arc<DeviceBlock>>,
    next: u64,
    used: u64,
    limit: u64,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Memory {
        Memory { blocks: BTreeMap::new(), next: DEVICE, used: 0, limit }
    }

    /// Free and all bytes of the device.
    pub(crate) fn info(&self) -> (u64, u64) {
        (self.limit - self.used, self.limit)
    }

    /// Allocations of a kind, and their bytes.
    pub(crate) fn live(&self, kind: Kind) -> (u64, u64) {
        let blocks = self.blocks.values().filter(|block| block.kind == kind);
        blocks.fold((0, 0), |(count, bytes), block| (count + 1, bytes + block.bytes))
    }

    /// Takes memory; its address.
    pub(crate) fn allocate(&mut self, bytes: u64, kind: Kind) -> Result<u64, Code> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let rounded = bytes.checked_next_multiple_of(GRAIN).ok_or(OUT_OF_MEMORY)?;
        if kind == Kind::Device && rounded > self.limit - self.used {
            return Err(OUT_OF_MEMORY);
        }
        let layout = DeviceBlock::layout(bytes).ok_or(OUT_OF_MEMORY)?;
        // SAFETY: the layout is not empty.
        let host = unsafe { alloc_zeroed(layout) }.expose_provenance();
        if host == 0 {
            return Err(OUT_OF_MEMORY);
        }
        for page in (0..layout.size()).step_by(PAGE) {
            // SAFETY: within the allocation. A page that was never written is given by the system
            // when it is first used; a device's memory and pinned memory are there from the start.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(host + page).write_volatile(0) };
        }
        let base = if kind == Kind::Device {
            self.used += rounded;
            let base = self.next;
            self.next += rounded + GRAIN;
            base
        } else {
            host as u64
        };
        self.blocks.insert(base, Arc::new(DeviceBlock { base, bytes, kind, host }));
        Ok(base)
    }

    /// Gives an allocation of a kind back, which its first byte names.
    pub(crate) fn free(&mut self, base: u64, kind: Kind) -> Result<(), Code> {
        let known = self.blocks.get(&base).filter(|block| block.kind == kind);
        let bytes = known.ok_or(INVALID_VALUE)?.bytes;
        self.blocks.remove(&base);
        if kind == Kind::Device {
            self.used -= bytes.next_multiple_of(GRAIN);
        }
        Ok(())
    }

    /// What a kernel or a copy means by an address that the driver knows.
    pub(crate) fn known(&self, address: u64, bytes: u64) -> Result<Place, Code> {
        let block = self.around(address).ok_or(INVALID_VALUE)?;
        let offset = address - block.base;
        if bytes > block.bytes - offset {
            return Err(INVALID_VALUE);
        }
        let offset = usize::try_from(offset).expect("it is within an allocation");
        Ok(Place { block: Some(block.clone()), host: block.host + offset })
    }

    /// The same where a copy may also name pageable memory of the host.
    pub(crate) fn any(&self, address: u64, bytes: u64) -> Result<Place, Code> {
        if address == 0 {
            return Err(INVALID_VALUE);
        }
        if address >= DEVICE || self.around(address).is_some() {
            return self.known(address, bytes);
        }
        let host = usize::try_from(address).map_err(|_| INVALID_VALUE)?;
        Ok(Place { block: None, host })
    }

    /// The allocation that holds an address.
    pub(crate) fn around(&self, address: u64) -> Option<&Arc<DeviceBlock>> {
        let (base, block) = self.blocks.range(..=address).next_back()?;
        (address - base < block.bytes).then_some(block)
    }
}
