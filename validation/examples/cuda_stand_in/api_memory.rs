//! Memory: taking it, giving it back, copying and setting it.
//!
//! Copies that name pageable memory end before their call returns, which the driver's rules allow.
//! Invariant: a range is checked when the call is made, and kept alive until the work is done.

use crate::codes::{Code, INVALID_VALUE, NOT_SUPPORTED};
use crate::driver::{Driver, export, put};
use crate::memory::{Kind, Place};
use crate::stream::Work;
use std::ffi::c_uint;

/// Which side of a copy is the device's by the call's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Device,
    Host,
    /// Told from the address.
    Either,
}

fn place(driver: &Driver, address: u64, bytes: usize, side: Side) -> Result<Place, Code> {
    let state = driver.lock();
    match side {
        Side::Device => state.memory.known(address, bytes as u64),
        Side::Either => state.memory.any(address, bytes as u64),
        Side::Host => {
            let place = state.memory.any(address, bytes as u64)?;
            let device = place.block.as_ref().is_some_and(|block| block.kind == Kind::Device);
            if device { Err(INVALID_VALUE) } else { Ok(place) }
        }
    }
}

fn copy(
    driver: &Driver,
    (to, to_side): (u64, Side),
    (from, from_side): (u64, Side),
    bytes: usize,
    stream: Option<usize>,
) -> Result<(), Code> {
    if bytes == 0 {
        return driver.lock().stream(stream.unwrap_or(0)).map(|_| ());
    }
    let to = place(driver, to, bytes, to_side)?;
    let from = place(driver, from, bytes, from_side)?;
    let wait = stream.is_none() || to.pageable() || from.pageable();
    let work = Work::Copy { to, from, bytes };
    let mark = driver.lock().enqueue(stream.unwrap_or(0), work)?;
    if wait { driver.finish(&mark) } else { Ok(()) }
}

fn set(
    driver: &Driver,
    (to, count): (u64, usize),
    (value, width): (u32, usize),
    stream: Option<usize>,
) -> Result<(), Code> {
    let bytes = count.checked_mul(width).ok_or(INVALID_VALUE)?;
    if !to.is_multiple_of(width as u64) {
        return Err(INVALID_VALUE);
    }
    if count == 0 {
        return Ok(());
    }
    let to = place(driver, to, bytes, Side::Device)?;
    let work = Work::Set { to, value, width, count };
    let mark = driver.lock().enqueue(stream.unwrap_or(0), work)?;
    if stream.is_none() { driver.finish(&mark) } else { Ok(()) }
}

/// Gives memory back once nothing runs that could still use it, as the driver in effect does.
fn free(driver: &Driver, base: u64, kind: Kind) -> Result<(), Code> {
    driver.drain();
    driver.error().map_or(Ok(()), Err)?;
    driver.lock().memory.free(base, kind)
}

fn pin(driver: &Driver, to: *mut usize, bytes: usize) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let base = driver.lock().memory.allocate(bytes as u64, Kind::Pinned)?;
    put(to, usize::try_from(base).map_err(|_| INVALID_VALUE)?)
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
        if flags > 7 { Err(INVALID_VALUE) } else { pin(driver, to, bytes) }
    }

    Context fn cuMemAllocHost_v2(to: *mut usize, bytes: usize) |driver| { pin(driver, to, bytes) }

    Context fn cuMemFreeHost(base: usize) |driver| { free(driver, base as u64, Kind::Pinned) }

    Context fn cuMemHostRegister_v2(base: usize, bytes: usize, flags: c_uint) |driver| {
        if flags > 15 {
            return Err(INVALID_VALUE);
        }
        driver.lock().memory.register(base as u64, bytes as u64)
    }

    Context fn cuMemHostUnregister(base: usize) |driver| {
        free(driver, base as u64, Kind::Registered)
    }

    Context fn cuMemHostGetDevicePointer_v2(to: *mut u64, host: usize, flags: c_uint) |driver| {
        let place = driver.lock().memory.known(host as u64, 1)?;
        let block = place.block.ok_or(INVALID_VALUE)?;
        if flags != 0 || block.kind == Kind::Device {
            return Err(INVALID_VALUE);
        }
        put(to, host as u64)
    }

    Context fn cuPointerGetAttribute(to: *mut c_uint, which: c_uint, address: u64) |driver| {
        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE is the only one; 1 is the host, 2 the device.
        if which != 2 {
            return Err(NOT_SUPPORTED);
        }
        let block = driver.lock().memory.around(address).cloned().ok_or(INVALID_VALUE)?;
        put(to, if block.kind == Kind::Device { 2 } else { 1 })
    }

    Context fn cuMemcpy(to: u64, from: u64, bytes: usize) |driver| {
        copy(driver, (to, Side::Either), (from, Side::Either), bytes, None)
    }

    Context fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) |driver| {
        copy(driver, (to, Side::Either), (from, Side::Either), bytes, Some(stream))
    }

    Context fn cuMemcpyHtoD_v2(to: u64, from: usize, bytes: usize) |driver| {
        copy(driver, (to, Side::Device), (from as u64, Side::Host), bytes, None)
    }

    Context fn cuMemcpyHtoDAsync_v2(to: u64, from: usize, bytes: usize, stream: usize) |driver| {
        copy(driver, (to, Side::Device), (from as u64, Side::Host), bytes, Some(stream))
    }

    Context fn cuMemcpyDtoH_v2(to: usize, from: u64, bytes: usize) |driver| {
        copy(driver, (to as u64, Side::Host), (from, Side::Device), bytes, None)
    }

    Context fn cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: usize) |driver| {
        copy(driver, (to as u64, Side::Host), (from, Side::Device), bytes, Some(stream))
    }

    Context fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) |driver| {
        copy(driver, (to, Side::Device), (from, Side::Device), bytes, None)
    }

    Context fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) |driver| {
        copy(driver, (to, Side::Device), (from, Side::Device), bytes, Some(stream))
    }

    Context fn cuMemsetD8_v2(to: u64, value: u8, count: usize) |driver| {
        set(driver, (to, count), (u32::from(value), 1), None)
    }

    Context fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: usize) |driver| {
        set(driver, (to, count), (u32::from(value), 1), Some(stream))
    }

    Context fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) |driver| {
        set(driver, (to, count), (value, 4), None)
    }

    Context fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, stream: usize) |driver| {
        set(driver, (to, count), (value, 4), Some(stream))
    }
}
