//! Memory: taking it, giving it back and copying it.
//!
//! Copies that name pageable memory end before their call returns, which the driver's rules allow.
//! Invariant: a range is checked when the call is made, and kept alive until the work is done.

use crate::codes::{Code, INVALID_VALUE};
use crate::driver::{Driver, export, put};
use crate::memory::Kind;
use crate::stream::Work;
use std::ffi::c_uint;

/// Gives memory back once nothing runs that could still use it, as the driver in effect does.
fn free(driver: &Driver, base: u64, kind: Kind) -> Result<(), Code> {
    driver.drain();
    driver.error().map_or(Ok(()), Err)?;
    driver.lock().memory.free(base, kind)
}

export! {
    Context fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |driver| {
        let (left, all) = driver.lock().memory.info();
        put(free, left as usize)?;
        put(total, all as usize)
    }

    Context fn cuMemAlloc_v2(to: *mut u64, bytes: usize) |driver| {
        if to.is_null() {
            return Err(INVALID_VALUE);
        }
        let base = driver.lock().memory.allocate(bytes as u64, Kind::Device)?;
        put(to, base)
    }

    Context fn cuMemFree_v2(base: u64) |driver| {
        if base == 0 { Ok(()) } else { free(driver, base, Kind::Device) }
    }

    Context fn cuMemHostAlloc(to: *mut usize, bytes: usize, flags: c_uint) |driver| {
        // Portable, mapped, write-combined.
        if flags > 7 || to.is_null() {
            return Err(INVALID_VALUE);
        }
        let base = driver.lock().memory.allocate(bytes as u64, Kind::Pinned)?;
        put(to, usize::try_from(base).map_err(|_| INVALID_VALUE)?)
    }

    Context fn cuMemFreeHost(base: usize) |driver| { free(driver, base as u64, Kind::Pinned) }

    Context fn cuMemHostGetDevicePointer_v2(to: *mut u64, host: usize, flags: c_uint) |driver| {
        let place = driver.lock().memory.known(host as u64, 1)?;
        let block = place.block.ok_or(INVALID_VALUE)?;
        if flags != 0 || block.kind == Kind::Device {
            return Err(INVALID_VALUE);
        }
        put(to, host as u64)
    }

    Context fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) |driver| {
        let state = driver.lock();
        if bytes == 0 {
            return state.stream(stream).map(|_| ());
        }
        let [to, from] = [to, from].map(|address| state.memory.any(address, bytes as u64));
        let (to, from) = (to?, from?);
        let wait = to.pageable() || from.pageable();
        let mark = state.enqueue(stream, Work::Copy { to, from, bytes })?;
        drop(state);
        if wait { driver.finish(&mark) } else { Ok(()) }
    }
}
