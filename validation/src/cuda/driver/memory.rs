//! Memory of the device and pinned memory of the host, both owned.
//!
//! Pinned memory is read and written by the host through atomics and system calls only: the device
//! and other threads reach it too, and a plan with a missing edge makes them meet.
//! Invariant: whatever is made here counts in `Live` until it is dropped, and is kept beyond that
//! only while a [`Keep`] lives.

use super::*;
use crate::pattern;

/// Memory of the device.
pub(crate) struct DeviceMemory {
    device: Arc<Device>,
    /// Its address, for kernels and copies.
    pub(crate) address: u64,
}

impl DeviceMemory {
    /// Memory of so many bytes.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64) -> Result<DeviceMemory> {
        let mut address = 0;
        call!(device.calls, cuMemAlloc_v2(&mut address, bytes as usize))?;
        device.live.rooms.fetch_add(1, Relaxed);
        Ok(DeviceMemory { device: device.clone(), address })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _ = call!(self.device.calls, cuMemFree_v2(self.address));
        self.device.live.rooms.fetch_sub(1, Relaxed);
    }
}

/// Memory of the host that is locked in place and that the device reaches too.
pub(crate) struct PinnedMemory {
    pub(super) device: Arc<Device>,
    pub(super) host: *mut c_void,
    pub(super) bytes: u64,
    /// Its address for kernels and copies.
    pub(crate) address: u64,
    /// Whether it may be kept for another machine.
    pub(super) lasting: bool,
}

// SAFETY: the memory belongs to no thread; the host reaches it through atomics and system calls.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Memory of so many bytes, which any context may use.
    pub(crate) fn new(device: &Arc<Device>, bytes: u64) -> Result<PinnedMemory> {
        let (mut host, mut address) = (null_mut(), 0);
        call!(device.calls, cuMemHostAlloc(&mut host, bytes as usize, PORTABLE_MAPPED))?;
        device.live.rooms.fetch_add(1, Relaxed);
        let lasting = false;
        let mut memory = PinnedMemory { device: device.clone(), host, bytes, address, lasting };
        call!(device.calls, cuMemHostGetDevicePointer_v2(&mut address, host, 0))?;
        memory.address = address;
        Ok(memory)
    }

    /// Memory of at least so many bytes, kept from another machine if there is any that will do.
    /// What it holds is what that machine left there.
    pub(crate) fn lasting(device: &Arc<Device>, bytes: u64) -> Result<PinnedMemory> {
        if let Some(mut kept) = Keep::take(bytes) {
            let before = std::mem::replace(&mut kept.device, device.clone());
            before.live.rooms.fetch_sub(1, Relaxed);
            device.live.rooms.fetch_add(1, Relaxed);
            return Ok(kept);
        }
        let mut memory = PinnedMemory::new(device, bytes)?;
        memory.lasting = true;
        Ok(memory)
    }

    /// The word at byte `at`, which the device may write at the same time.
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "a word of this memory");
        // SAFETY: the address lies within the allocation, which is aligned to pages and lives as
        // long as `self`; the host reaches it through atomics only.
        unsafe { AtomicU64::from_ptr(self.host.cast::<u8>().add(at as usize).cast()) }
    }

    /// Reads a word.
    pub(crate) fn get(&self, at: u64) -> u64 {
        self.word(at).load(Relaxed)
    }

    /// Writes a word.
    pub(crate) fn set(&self, at: u64, value: u64) {
        self.word(at).store(value, Relaxed);
    }

    /// Reads whole words from byte `from` on.
    pub(crate) fn load(&self, from: u64, into: &mut [u8]) {
        for (index, into) in into.chunks_exact_mut(8).enumerate() {
            into.copy_from_slice(&self.get(from + index as u64 * 8).to_le_bytes());
        }
    }

    /// Writes whole words from byte `from` on.
    pub(crate) fn store(&self, from: u64, bytes: &[u8]) {
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            self.set(from + index as u64 * 8, pattern::read(word));
        }
    }

    /// Reads a file into it, or writes it to a file, without a copy between where the system allows
    /// it.
    #[cfg(target_os = "linux")]
    pub(crate) fn by_file(
        &self,
        (from, len): (u64, u64),
        (file, at): (&File, u64),
        writes: bool,
    ) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        assert!(from + len <= self.bytes, "a range of this memory");
        let mut done = 0;
        while done < len {
            let start = self.host.cast::<u8>().wrapping_add((from + done) as usize).cast();
            let (left, offset) = ((len - done) as usize, (at + done) as libc::off_t);
            // SAFETY: the range lies within this allocation, in which no Rust value lies; the
            // system fills or reads it while the call lasts.
            let moved = unsafe {
                if writes {
                    libc::pwrite(file.as_raw_fd(), start, left, offset)
                } else {
                    libc::pread(file.as_raw_fd(), start, left, offset)
                }
            };
            match moved {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                moved if moved > 0 => done += moved as u64,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Files go through this memory on Linux only.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn by_file(&self, _: (u64, u64), _: (&File, u64), _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.lasting && Keep::put(self) {
            return;
        }
        let _ = call!(self.device.calls, cuMemFreeHost(self.host));
        self.device.live.rooms.fetch_sub(1, Relaxed);
    }
}
