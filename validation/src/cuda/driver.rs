//! The CUDA driver: found at run time, called through one table, wrapped in types that own.
//!
//! The calls are looked up by name in the library that `cudarc` finds and given `cudarc`'s types.
//! They are not made through its functions, because those panic where a driver lacks a name and
//! turn a status into an enum that a newer driver's status need not be in.
//! Invariant: this module and those below it are the only ones of the machine with `unsafe`. Every
//! status is looked at; whatever is made here is given back when it is dropped; and no memory that
//! the device can reach is ever borrowed as Rust values, so a plan with a missing edge shows as a
//! wrong pattern.

#![expect(unsafe_code, reason = "driver calls; the driver's handles are pointers")]

use crate::fault::{Fault, Result};
use crate::options::Live;
use cudarc::driver::sys;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tiersim_models::units::Bytes;

/// Declares the table: this list is every call that the machine makes.
macro_rules! calls {
    ($($name:ident($($of:ty),*);)*) => {
        #[expect(non_snake_case, reason = "the driver's names")]
        struct Calls { $($name: unsafe extern "C" fn($($of),*) -> c_uint,)* }

        impl Calls {
            fn find() -> Result<Calls, &'static str> {
                // SAFETY: the library is the one that `is_culib_present` has just opened, so this
                // does not panic; it stays open for the rest of the process.
                let library = unsafe { sys::culib() };
                // SAFETY: the types are those of the driver's header, cuda.h of CUDA 12.0, with the
                // status as the unsigned number that it is.
                Ok(Calls { $($name: *unsafe {
                    library.get::<unsafe extern "C" fn($($of),*) -> c_uint>(
                        concat!(stringify!($name), "\0").as_bytes(),
                    )
                }.map_err(|_| stringify!($name))?,)* })
            }
        }
    };
}

calls! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(c_uint, *mut *const c_char);
    cuGetErrorString(c_uint, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut sys::CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, sys::CUdevice);
    cuDeviceGetAttribute(*mut c_int, c_uint, sys::CUdevice);
    cuDevicePrimaryCtxRetain(*mut sys::CUcontext, sys::CUdevice);
    cuDevicePrimaryCtxRelease_v2(sys::CUdevice);
    cuCtxSetCurrent(sys::CUcontext);
    cuCtxSynchronize();
    cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
    cuStreamCreateWithPriority(*mut sys::CUstream, c_uint, c_int);
    cuStreamDestroy_v2(sys::CUstream);
    cuStreamWaitEvent(sys::CUstream, sys::CUevent, c_uint);
    cuStreamSynchronize(sys::CUstream);
    cuEventCreate(*mut sys::CUevent, c_uint);
    cuEventDestroy_v2(sys::CUevent);
    cuEventRecord(sys::CUevent, sys::CUstream);
    cuEventQuery(sys::CUevent);
    cuEventSynchronize(sys::CUevent);
    cuEventElapsedTime(*mut f32, sys::CUevent, sys::CUevent);
    cuMemAlloc_v2(*mut sys::CUdeviceptr, usize);
    cuMemFree_v2(sys::CUdeviceptr);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut sys::CUdeviceptr, *mut c_void, c_uint);
    cuMemcpyAsync(sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
    cuModuleLoadData(*mut sys::CUmodule, *const c_void);
    cuModuleUnload(sys::CUmodule);
    cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
    cuLaunchKernel(
        sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, sys::CUstream,
        *mut *mut c_void, *mut *mut c_void
    );
}

const NOT_READY: c_uint = sys::CUresult::CUDA_ERROR_NOT_READY as c_uint;
const NON_BLOCKING: c_uint = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
const PORTABLE_MAPPED: c_uint = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
/// Threads of a block, and blocks that a multiprocessor runs at once.
const THREADS: u64 = 256;
const BLOCKS: u64 = 8;
const REMEDY: &str =
    "use --machine host, or a machine with an NVIDIA driver of version 525 or later";

const COUNTED: &str = "give --device a smaller number; devices are counted from 0";

impl Calls {
    /// A status as a fault that names the call.
    fn check(&self, call: &'static str, status: c_uint) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        Err(Fault::Device { call, found: self.words(status) })
    }

    /// The driver's name for a status, and its text.
    fn words(&self, status: c_uint) -> String {
        let word = |call: unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint| {
            let mut text = std::ptr::null();
            // SAFETY: the call takes any number and writes one pointer, which is null or that of a
            // constant string of the driver.
            unsafe {
                (call(status, &mut text) == 0 && !text.is_null())
                    .then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        let name = word(self.cuGetErrorName).unwrap_or_else(|| format!("status {status}"));
        let text = word(self.cuGetErrorString).unwrap_or_else(|| "no text".to_owned());
        format!("{name} ({text})")
    }
}

/// Makes a call of the table and turns a status that is not 0 into a fault.
///
/// Each use is one line whose arguments are either plain numbers, handles that their owner keeps
/// alive, or addresses of locals that outlive the call: that is what makes it sound.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),*)) => {{
        let calls: &Calls = $calls;
        // SAFETY: handles and memory are those of live owners in this module, and what is written
        // to are locals of the caller, or memory that only the device and atomics reach.
        let status = unsafe { (calls.$name)($($argument),*) };
        calls.check(stringify!($name), status)
    }};
}

fn no_device(found: String) -> Fault {
    Fault::NoDevice { machine: "cuda", found, remedy: REMEDY }
}

fn calls() -> Result<&'static Calls> {
    static CALLS: OnceLock<Result<Calls, String>> = OnceLock::new();
    let find = || {
        // SAFETY: it opens the system's CUDA driver, as every CUDA program does.
        let present = unsafe { sys::is_culib_present() };
        if !present {
            let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
            return Err(format!("no CUDA driver: {name} was looked for and cannot be loaded"));
        }
        Calls::find().map_err(|name| format!("the CUDA driver is too old: it has no {name}"))
    };
    CALLS.get_or_init(find).as_ref().map_err(|found| no_device(found.clone()))
}

mod bare;
mod keep;
mod memory;
mod module;

pub(crate) use bare::Pageable;
pub(crate) use cudarc::driver::sys::CUdevice_attribute as Attribute;
pub use keep::Keep;
pub(crate) use memory::{DeviceMemory, PinnedMemory};
pub(crate) use module::{Function, Module};

/// A device and its context, shared by everything that was made on it.
pub(crate) struct Device {
    calls: &'static Calls,
    device: sys::CUdevice,
    context: sys::CUcontext,
    live: Live,
    /// What the driver calls it.
    pub(crate) name: String,
    /// How many multiprocessors it has.
    pub(crate) multiprocessors: u32,
}

// SAFETY: a context may be used from every thread that has made it current; the driver locks.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The device of a number, with its primary context current on this thread.
    pub(crate) fn open(index: usize, live: Live) -> Result<Arc<Device>> {
        let calls = calls()?;
        let (mut version, mut count) = (0, 0);
        let started = call!(calls, cuInit(0));
        let driver = "the CUDA driver finds no device it can use: cuInit says";
        started.map_err(|fault| no_device(format!("{driver} {}", said(&fault))))?;
        call!(calls, cuDriverGetVersion(&mut version))?;
        call!(calls, cuDeviceGetCount(&mut count))?;
        let number = c_int::try_from(index).ok().filter(|number| *number < count);
        let Some(number) = number else {
            let found = format!("there is no device {index}: the driver sees {count}");
            let remedy = if count > 0 { COUNTED } else { REMEDY };
            return Err(Fault::NoDevice { machine: "cuda", found, remedy });
        };
        if version < 12_000 {
            let found = format!("the driver's CUDA version is {version}; 12000 is needed");
            return Err(no_device(found));
        }
        let (mut device, mut context, mut multiprocessors) = (0, null_mut(), 0);
        let which = Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_uint;
        let mut name = [0 as c_char; 256];
        call!(calls, cuDeviceGet(&mut device, number))?;
        call!(calls, cuDeviceGetName(name.as_mut_ptr(), 255, device))?;
        call!(calls, cuDeviceGetAttribute(&mut multiprocessors, which, device))?;
        call!(calls, cuDevicePrimaryCtxRetain(&mut context, device))?;
        let bytes = name.map(|letter| letter as u8);
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        let device = Arc::new(Device {
            calls,
            device,
            context,
            live,
            name: name.to_string_lossy().into_owned(),
            multiprocessors: u32::try_from(multiprocessors).unwrap_or(1).max(1),
        });
        device.enter()?;
        Ok(device)
    }

    /// Threads of a kernel of which every multiprocessor runs so many blocks.
    pub(crate) fn threads(&self, blocks: u64) -> u64 {
        u64::from(self.multiprocessors) * blocks * THREADS
    }

    /// Makes its context current on this thread.
    pub(crate) fn enter(&self) -> Result<()> {
        call!(self.calls, cuCtxSetCurrent(self.context))
    }

    /// Memory of the device that is free, and all of it.
    pub(crate) fn memory(&self) -> Result<(Bytes, Bytes)> {
        let (mut free, mut total) = (0, 0);
        call!(self.calls, cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((Bytes::new(free as u64), Bytes::new(total as u64)))
    }

    /// Waits until everything that was enqueued has ended.
    pub(crate) fn synchronize(&self) -> Result<()> {
        call!(self.calls, cuCtxSynchronize())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = call!(self.calls, cuDevicePrimaryCtxRelease_v2(self.device));
    }
}

fn said(fault: &Fault) -> String {
    match fault {
        Fault::Device { found, .. } => found.clone(),
        other => other.to_string(),
    }
}

/// An in-order queue of the device.
pub(crate) struct Stream {
    device: Arc<Device>,
    stream: sys::CUstream,
}

// SAFETY: a stream may be used from every thread on which its context is current.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream; one that is `urgent` goes before one that is not.
    pub(crate) fn new(device: &Arc<Device>, urgent: bool) -> Result<Stream> {
        let (mut least, mut most, mut stream) = (0, 0, null_mut());
        call!(device.calls, cuCtxGetStreamPriorityRange(&mut least, &mut most))?;
        let priority = if urgent { most } else { least };
        call!(device.calls, cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, priority))?;
        Ok(Stream { device: device.clone(), stream })
    }

    /// What is enqueued from now on waits for what the event was last recorded after.
    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        call!(self.device.calls, cuStreamWaitEvent(self.stream, event.event, 0))
    }

    /// Copies between any two addresses that the device can reach.
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        call!(self.device.calls, cuMemcpyAsync(to, from, bytes as usize, self.stream))
    }

    /// Blocks and threads of a kernel with so much work: as many as it can use.
    pub(crate) fn grid(&self, work: u64) -> (u32, u32) {
        self.grid_of(work, BLOCKS)
    }

    /// The same of a kernel of which a multiprocessor runs so many blocks.
    pub(crate) fn grid_of(&self, work: u64, blocks: u64) -> (u32, u32) {
        let most = u64::from(self.device.multiprocessors) * blocks;
        let blocks = work.div_ceil(THREADS).clamp(1, most);
        (u32::try_from(blocks).expect("a multiprocessor has few blocks"), THREADS as u32)
    }

    /// Runs a kernel; each argument fills eight bytes, of which the kernel takes what it needs.
    pub(crate) fn launch(
        &self,
        function: Function,
        (blocks, threads): (u32, u32),
        arguments: &[u64],
    ) -> Result<()> {
        let address = |argument: &u64| (argument as *const u64).cast_mut().cast();
        self.launch_list(function, (blocks, threads), arguments.iter().map(address).collect())
    }

    /// Runs a kernel that takes one argument of so many words.
    pub(crate) fn launch_whole<const N: usize>(
        &self,
        function: Function,
        grid: (u32, u32),
        argument: &[u64; N],
    ) -> Result<()> {
        self.launch_list(function, grid, vec![argument.as_ptr().cast_mut().cast()])
    }

    fn launch_list(
        &self,
        function: Function,
        (blocks, threads): (u32, u32),
        mut list: Vec<*mut c_void>,
    ) -> Result<()> {
        let (f, stream, list) = (function.0, self.stream, list.as_mut_ptr());
        let none = null_mut();
        call!(
            self.device.calls,
            cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, list, none)
        )
    }

    /// Waits until everything on it has ended.
    pub(crate) fn synchronize(&self) -> Result<()> {
        call!(self.device.calls, cuStreamSynchronize(self.stream))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = call!(self.device.calls, cuStreamDestroy_v2(self.stream));
    }
}

/// A point in a stream, with the time at which it was passed.
pub(crate) struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

impl Event {
    pub(crate) fn new(device: &Arc<Device>) -> Result<Event> {
        let mut event = null_mut();
        call!(device.calls, cuEventCreate(&mut event, 0))?;
        Ok(Event { device: device.clone(), event })
    }

    /// Marks the end of what is in the stream now.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        call!(self.device.calls, cuEventRecord(self.event, stream.stream))
    }

    /// Whether it has been passed.
    pub(crate) fn passed(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        match unsafe { (self.device.calls.cuEventQuery)(self.event) } {
            NOT_READY => Ok(false),
            status => self.device.calls.check("cuEventQuery", status).map(|()| true),
        }
    }

    /// Waits until it has been passed.
    pub(crate) fn synchronize(&self) -> Result<()> {
        call!(self.device.calls, cuEventSynchronize(self.event))
    }

    /// Milliseconds from an earlier event to this one; both have been passed.
    pub(crate) fn since(&self, earlier: &Event) -> Result<f32> {
        let mut ms = 0.0;
        call!(self.device.calls, cuEventElapsedTime(&mut ms, earlier.event, self.event))?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = call!(self.device.calls, cuEventDestroy_v2(self.event));
    }
}
