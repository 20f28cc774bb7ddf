//! Modules of PTX, and launches of what they define.
//!
//! Invariant: a launch reads its parameters, by the widths that the PTX gives, before it returns.

use crate::codes::{INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED};
use crate::driver::{Function, State, export, put};
use crate::kernels::{Launch, find};
use crate::ptx::entries;
use crate::stream::Work;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::Arc;

fn text<'a>(from: *const c_char) -> Result<&'a str, crate::codes::Code> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the driver says that it is a text that ends with 0.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| INVALID_IMAGE)
}

/// The arguments that a launch points to, as numbers; a structure is as many as it has words.
fn read(parameters: *const *const u8, widths: &[usize]) -> Result<Vec<u64>, crate::codes::Code> {
    if parameters.is_null() && !widths.is_empty() {
        return Err(INVALID_VALUE);
    }
    let one = |(index, width): (usize, &usize)| {
        // SAFETY: there is a pointer for every parameter of the kernel, says the caller.
        let from = unsafe { parameters.add(index).read() };
        if from.is_null() {
            return Err(INVALID_VALUE);
        }
        let mut words = vec![0u64; width.div_ceil(8)];
        let to = words.as_mut_ptr().cast::<u8>();
        // SAFETY: it points to a value of the parameter's width, for which there are words enough.
        unsafe { std::ptr::copy_nonoverlapping(from, to, *width) };
        Ok(words)
    };
    let words: Result<Vec<Vec<u64>>, _> = widths.iter().enumerate().map(one).collect();
    words.map(|words| words.concat())
}

fn fits(grid: [c_uint; 3], block: [c_uint; 3], shared: c_uint) -> bool {
    let threads: u64 = block.iter().map(|side| u64::from(*side)).product();
    let within = |sides: [c_uint; 3], most: [c_uint; 3]| {
        sides.iter().zip(most).all(|(side, most)| (1..=most).contains(side))
    };
    within(grid, [i32::MAX as u32, 65_535, 65_535])
        && within(block, [1024, 1024, 64])
        && threads <= 1024
        && shared <= 49_152
}

fn function(state: &State, handle: usize) -> Result<Arc<Function>, crate::codes::Code> {
    state.functions.get(&handle).cloned().ok_or(INVALID_HANDLE)
}

export! {
    Context fn cuModuleLoadData(to: *mut usize, image: *const c_char) |driver| {
        let entries = entries(text(image)?)?;
        let mut state = driver.lock();
        let handle = state.handle();
        put(to, handle)?;
        state.modules.insert(handle, entries);
        Ok(())
    }

    Context fn cuModuleUnload(module: usize) |driver| {
        driver.drain();
        let mut state = driver.lock();
        state.functions.retain(|_, function| function.module != module);
        state.modules.remove(&module).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    Context fn cuModuleGetFunction(to: *mut usize, module: usize, name: *const c_char) |driver| {
        let name = text(name)?;
        let mut state = driver.lock();
        let entries = state.modules.get(&module).ok_or(INVALID_HANDLE)?;
        let widths = entries.get(name).ok_or(NOT_FOUND)?.clone();
        let known = state.functions.iter();
        let mut known = known.filter(|(_, f)| f.module == module && f.name == name);
        if let Some((handle, _)) = known.next() {
            return put(to, *handle);
        }
        let handle = state.handle();
        let function = Arc::new(Function { module, name: name.to_owned(), widths });
        state.functions.insert(handle, function);
        put(to, handle)
    }

    Context fn cuLaunchKernel(
        handle: usize,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: usize,
        parameters: *const *const u8,
        extra: *const *const c_void,
    ) |driver| {
        let function = function(&driver.lock(), handle)?;
        if !fits([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared) {
            return Err(INVALID_VALUE);
        }
        let told: Option<Vec<usize>> = function.widths.iter().copied().collect();
        let kernel = find(&function.name);
        let Some((kernel, _)) = kernel.filter(|(_, widths)| told.as_deref() == Some(*widths)) else {
            eprintln!("stand-in driver: {} with {told:?} is not in kernels.rs", function.name);
            return Err(NOT_SUPPORTED);
        };
        if !extra.is_null() {
            return Err(NOT_SUPPORTED);
        }
        let arguments = read(parameters, &told.unwrap_or_default())?;
        let work = Work::Kernel(Launch { kernel, arguments });
        driver.lock().enqueue(stream, work).map(|_| ())
    }
}
