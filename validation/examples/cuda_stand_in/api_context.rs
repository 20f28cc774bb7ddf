//! Start, the device and its context; and what only the stand-in has, for tests in one process.
//!
//! Invariant: what the device says of itself fits what the stand-in enforces.

use crate::codes::{Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, words};
use crate::driver::{CONTEXT, Driver, export, put};
use crate::ptx::CAPABILITY;
use std::ffi::{CStr, c_char, c_int, c_uint};

const NAME: &CStr = c"stand-in (no GPU)";
/// CUDA 12.0's driver.
const VERSION: c_int = 12_000;

/// `CUdevice_attribute` numbers of cuda.h.
fn attribute(number: c_uint) -> Option<c_int> {
    let capability = CAPABILITY as c_int;
    Some(match number {
        // Threads per block; block by x, y, z; grid by x, y, z.
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        // Bytes of shared memory per block, channels of a warp, registers per block.
        8 => 49_152,
        10 => 32,
        12 => 65_536,
        // Multiprocessors, threads of each, copy engines.
        16 => 2,
        39 => 1024,
        40 => 2,
        // Maps host memory, runs kernels at the same time, has one address space.
        19 | 31 | 41 => 1,
        75 => capability / 10,
        76 => capability % 10,
        _ if (1..=130).contains(&number) => 0,
        _ => return None,
    })
}

fn device(number: c_int) -> Result<(), Code> {
    if number == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

fn write_text(to: *mut c_char, room: c_int, text: &CStr) -> Result<(), Code> {
    let room = usize::try_from(room).ok().filter(|room| *room > 0).ok_or(INVALID_VALUE)?;
    let bytes = text.to_bytes();
    let length = bytes.len().min(room - 1);
    for (index, byte) in bytes[..length].iter().chain([&0]).enumerate() {
        // The caller says that there is room for so many bytes.
        put(to.wrapping_add(index), *byte as c_char)?;
    }
    Ok(())
}

export! {
    Nothing fn cuInit(flags: c_uint) |driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.lock().initialised = true;
        Ok(())
    }

    Nothing fn cuDriverGetVersion(version: *mut c_int) |_driver| { put(version, VERSION) }

    Driver fn cuDeviceGetCount(count: *mut c_int) |_driver| { put(count, 1) }

    Driver fn cuDeviceGet(to: *mut c_int, number: c_int) |_driver| {
        device(number)?;
        put(to, number)
    }

    Driver fn cuDeviceGetName(to: *mut c_char, room: c_int, number: c_int) |_driver| {
        device(number)?;
        write_text(to, room, NAME)
    }

    Driver fn cuDeviceGetAttribute(to: *mut c_int, which: c_uint, number: c_int) |_driver| {
        device(number)?;
        put(to, attribute(which).ok_or(INVALID_VALUE)?)
    }

    Driver fn cuDevicePrimaryCtxRetain(context: *mut usize, number: c_int) |driver| {
        device(number)?;
        put(context, CONTEXT)?;
        driver.retain()
    }

    Driver fn cuDevicePrimaryCtxRelease_v2(number: c_int) |driver| {
        device(number)?;
        driver.release()
    }

    Driver fn cuCtxSetCurrent(context: usize) |driver| {
        match context {
            0 => driver.set_current(false),
            CONTEXT => driver.set_current(true),
            _ => Err(INVALID_CONTEXT),
        }
    }

    Context fn cuCtxSynchronize() |driver| {
        driver.drain();
        driver.error().map_or(Ok(()), Err)
    }

    Context fn cuCtxGetStreamPriorityRange(least: *mut c_int, most: *mut c_int) |_driver| {
        put(least, 0)?;
        put(most, -5)
    }

    Nothing fn cuGetErrorName(code: c_uint, to: *mut *const c_char) |_driver| {
        let found = words(code).ok_or(INVALID_VALUE);
        put(to, found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ())
    }

    Nothing fn cuGetErrorString(code: c_uint, to: *mut *const c_char) |_driver| {
        let found = words(code).ok_or(INVALID_VALUE);
        put(to, found.map_or(std::ptr::null(), |(_, text)| text.as_ptr()))?;
        found.map(|_| ())
    }
}

/// Writes what is alive: device allocations and their bytes, host allocations, streams, events,
/// modules, threads of streams.
#[unsafe(no_mangle)]
extern "C" fn tiersim_stand_in_live(to: *mut [u64; 7]) -> Code {
    let live = Driver::get().lock().live().map(|(_, count)| count);
    put(to, live).err().unwrap_or(0)
}

/// Tells a call to fail, as TIERSIM_STAND_IN_FAIL does, and counts calls from 0 again; an empty
/// text tells none to.
///
/// # Safety
///
/// `text` points to a text that ends with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn tiersim_stand_in_fail(text: *const c_char) -> Code {
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    Driver::get().fail(&text.to_string_lossy());
    0
}

/// How often a function was called since the last [`tiersim_stand_in_fail`].
///
/// # Safety
///
/// `name` points to a text that ends with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn tiersim_stand_in_calls(name: *const c_char) -> u64 {
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    let state = Driver::get().lock();
    state.calls.get(&*name.to_string_lossy()).copied().unwrap_or(0)
}
