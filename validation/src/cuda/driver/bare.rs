//! What calibration asks of a device beyond what the machine does: its attributes, plain memory of
//! the host, pinned memory as a buffer, and a stream's handle for libraries.
//!
//! Invariant: memory is borrowed as Rust values only while nothing runs on the device and the
//! borrower is the only one who could give it work.

use super::*;

impl Device {
    /// One of the device's numbers.
    pub(crate) fn attribute(&self, which: Attribute) -> Result<u64> {
        let mut value = 0;
        call!(self.calls, cuDeviceGetAttribute(&mut value, which as c_uint, self.device))?;
        Ok(u64::try_from(value).unwrap_or(0))
    }

    /// The newest CUDA that the driver speaks: 12040 is 12.4.
    pub(crate) fn cuda_version(&self) -> Result<i32> {
        let mut version = 0;
        call!(self.calls, cuDriverGetVersion(&mut version))?;
        Ok(version)
    }
}

impl Stream {
    /// Its handle, for libraries that queue work by themselves.
    pub(crate) fn handle(&self) -> sys::CUstream {
        self.stream
    }
}

impl PinnedMemory {
    /// All of it as bytes, once nothing runs on the device any more.
    pub(crate) fn bytes(&mut self) -> Result<&mut [u8]> {
        self.device.synchronize()?;
        // SAFETY: the allocation is this long, holds plain bytes and lives as long as `self`; the
        // device has nothing to do, and whoever has `self` alone gives it nothing meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.host.cast(), self.bytes as usize) })
    }
}

/// Memory as any program has it, whose address a copy may name.
pub(crate) struct Pageable(Vec<AtomicU64>);

impl Pageable {
    /// Of so many bytes, each page written once so that it is a page of its own.
    pub(crate) fn new(bytes: u64) -> Pageable {
        Pageable((0..bytes.div_ceil(8)).map(AtomicU64::new).collect())
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    /// Where it starts.
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}
