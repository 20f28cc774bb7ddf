//! The stand-in, loaded by its path, with a function for each thing that the tests do to it.
//!
//! Invariant: every status is looked at; what returns no status expects success.

use libloading::Library;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernels as they ship.
pub(crate) const KERNELS: &str = include_str!("../../kernels/kernels.ptx");

/// A loaded module's handle.
pub(crate) struct Ptx(usize);

/// Gives back what a call has made.
type GiveBack = fn(u64) -> u32;

/// The stand-in's device, with its context current on the thread that opened it.
pub(crate) struct Device {
    turn: Option<MutexGuard<'static, ()>>,
    module: usize,
    abandoned: bool,
    /// What was made, as calls that give it back.
    made: Mutex<Vec<(u64, GiveBack)>>,
}

/// A stream that is kept from going on.
pub(crate) struct Held(Option<Sender<()>>);

impl Held {
    pub(crate) fn release(mut self) {
        self.0.take();
    }
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let exe = std::env::current_exe().expect("a test knows where it is");
        let profile = exe.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
        let path = profile.join("examples/libcuda_stand_in.so");
        // SAFETY: it is this package's own example, and loading it runs nothing.
        let loaded = unsafe { Library::new(&path) };
        loaded.unwrap_or_else(|error| {
            panic!("{error}; `cargo build -p tiersim-validation --examples` makes it")
        })
    })
}

/// Declares functions of the stand-in with their types; all of them return a number.
macro_rules! functions {
    ($($name:ident($($argument:ident: $of:ty),*) -> $number:ty;)*) => {$(
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "as the driver has them")]
        pub(crate) fn $name($($argument: $of),*) -> $number {
            type Function = unsafe extern "C" fn($($of),*) -> $number;
            let name = concat!(stringify!($name), "\0").as_bytes();
            // SAFETY: the types are those of cuda.h and cublas_v2.h, and of the stand-in's own
            // functions; pointers are to locals that outlive the call.
            unsafe {
                library().get::<Function>(name).expect("the stand-in has it")($($argument),*)
            }
        }
    )*};
}

functions! {
    cuInit(flags: u32) -> u32;
    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> u32;
    cuDevicePrimaryCtxRelease_v2(device: i32) -> u32;
    cuCtxSetCurrent(context: usize) -> u32;
    cuCtxSynchronize() -> u32;
    cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32;
    cuMemFree_v2(address: u64) -> u32;
    cuMemHostAlloc(host: *mut usize, bytes: usize, flags: u32) -> u32;
    cuMemHostGetDevicePointer_v2(address: *mut u64, host: usize, flags: u32) -> u32;
    cuMemFreeHost(host: usize) -> u32;
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32;
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) -> u32;
    cuStreamCreate(stream: *mut usize, flags: u32) -> u32;
    cuStreamDestroy_v2(stream: usize) -> u32;
    cuStreamSynchronize(stream: usize) -> u32;
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> u32;
    cuLaunchHostFunc(
        stream: usize, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void
    ) -> u32;
    cuEventCreate(event: *mut usize, flags: u32) -> u32;
    cuEventDestroy_v2(event: usize) -> u32;
    cuEventRecord(event: usize, stream: usize) -> u32;
    cuEventQuery(event: usize) -> u32;
    cuEventSynchronize(event: usize) -> u32;
    cuEventElapsedTime(ms: *mut f32, start: usize, end: usize) -> u32;
    cuModuleLoadData(module: *mut usize, text: *const c_char) -> u32;
    cuModuleUnload(module: usize) -> u32;
    cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> u32;
    cuLaunchKernel(
        function: usize, x: u32, y: u32, z: u32, threads: u32, b: u32, c: u32, shared: u32,
        stream: usize, list: *const *const u64, extra: *const c_void
    ) -> u32;
    cublasCreate_v2(handle: *mut usize) -> i32;
    cublasDestroy_v2(handle: usize) -> i32;
    cublasGemmEx(
        handle: usize, a_turned: i32, b_turned: i32, m: i32, n: i32, k: i32, alpha: *const f32,
        a: u64, a_kind: i32, a_step: i32, b: u64, b_kind: i32, b_step: i32, beta: *const f32,
        c: u64, c_kind: i32, c_step: i32, compute: i32, algorithm: i32
    ) -> i32;
    tiersim_stand_in_live(live: *mut [u64; 7]) -> u32;
    tiersim_stand_in_fail(what: *const c_char) -> u32;
    tiersim_stand_in_calls(name: *const c_char) -> u64;
}

/// Tells a call to fail, such as `cuMemAlloc_v2:2`, and counts from 0 again.
pub(crate) fn fail(what: &str) {
    tiersim_stand_in_fail(text(what).as_ptr());
}

/// How often a function was called since the last [`fail`].
pub(crate) fn calls(name: &str) -> u64 {
    tiersim_stand_in_calls(text(name).as_ptr())
}

/// Device allocations and their bytes, host allocations, streams, events, modules.
pub(crate) fn live() -> [u64; 6] {
    let mut live = [0u64; 7];
    good("live", tiersim_stand_in_live(&mut live));
    std::array::from_fn(|index| live[index])
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zero in it")
}

fn good(what: &str, status: u32) {
    assert_eq!(status, 0, "{what}");
}

/// What a function writes, or its status.
fn got<T: Default>(call: impl FnOnce(*mut T) -> u32) -> Result<T, u32> {
    let mut value = T::default();
    match call(&mut value) {
        0 => Ok(value),
        code => Err(code),
    }
}

impl Device {
    pub(crate) fn open() -> Device {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed left a device that this one begins anew.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        good("cuInit", cuInit(0));
        let context = got(|to| cuDevicePrimaryCtxRetain(to, 0)).expect("cuDevicePrimaryCtxRetain");
        good("cuCtxSetCurrent", cuCtxSetCurrent(context));
        let mut device =
            Device { turn: Some(turn), module: 0, abandoned: false, made: Mutex::default() };
        device.module = device.load(KERNELS).0;
        device
    }

    /// Leaves all as it is: after an error nothing can be given back.
    pub(crate) fn abandon(mut self) {
        self.abandoned = true;
    }

    pub(crate) fn try_alloc(&self, bytes: u64) -> Result<u64, u32> {
        got(|to| cuMemAlloc_v2(to, bytes as usize))
    }

    fn keep(&self, what: u64, give_back: GiveBack) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push((what, give_back));
    }

    /// Memory, which goes with the device.
    pub(crate) fn alloc(&self, bytes: u64) -> u64 {
        let address = self.try_alloc(bytes).expect("there is room");
        self.keep(address, cuMemFree_v2);
        address
    }

    /// Pinned memory: the device's address and the host's.
    pub(crate) fn pinned(&self, bytes: usize) -> (u64, u64) {
        let host = got(|to| cuMemHostAlloc(to, bytes, 3)).expect("cuMemHostAlloc");
        let address = got(|to| cuMemHostGetDevicePointer_v2(to, host, 0));
        (address.expect("cuMemHostGetDevicePointer"), host as u64)
    }

    pub(crate) fn memory(&self) -> (u64, u64) {
        let (mut free, mut total) = (0usize, 0usize);
        good("cuMemGetInfo", cuMemGetInfo_v2(&mut free, &mut total));
        (free as u64, total as u64)
    }

    pub(crate) fn write(&self, to: u64, words: &[u64]) {
        self.copy(0, to, words.as_ptr().expose_provenance() as u64, size_of_val(words));
    }

    pub(crate) fn write_f32(&self, to: u64, values: &[f32]) {
        self.copy(0, to, values.as_ptr().expose_provenance() as u64, size_of_val(values));
    }

    pub(crate) fn read(&self, from: u64, count: usize) -> Vec<u64> {
        self.read_on(0, from, count)
    }

    /// Reads in a stream's turn.
    pub(crate) fn read_on(&self, stream: usize, from: u64, count: usize) -> Vec<u64> {
        let mut words = vec![0u64; count];
        let to = words.as_mut_ptr().expose_provenance() as u64;
        self.copy(stream, to, from, count * 8);
        words
    }

    pub(crate) fn read_f32(&self, from: u64, count: usize) -> Vec<f32> {
        let mut values = vec![0f32; count];
        let to = values.as_mut_ptr().expose_provenance() as u64;
        self.copy(0, to, from, count * 4);
        values
    }

    /// Copies; with memory of the test on either side it is done when the call returns.
    pub(crate) fn copy(&self, stream: usize, to: u64, from: u64, bytes: usize) {
        good("cuMemcpyAsync", cuMemcpyAsync(to, from, bytes, stream));
    }

    /// A stream, which goes with the device; it blocks without the flag 1.
    pub(crate) fn stream(&self, flags: u32) -> usize {
        let stream = got(|to| cuStreamCreate(to, flags)).expect("cuStreamCreate");
        self.keep(stream as u64, |stream| cuStreamDestroy_v2(stream as usize));
        stream
    }

    /// Queues work that does not end before it is released.
    pub(crate) fn hold(&self, stream: usize) -> Held {
        unsafe extern "C" fn wait(data: *mut c_void) {
            // SAFETY: a box of this type, made below for this one call.
            let gate = unsafe { Box::from_raw(data.cast::<Receiver<()>>()) };
            // It ends when the other side is dropped.
            let _ = gate.recv();
        }
        let (open, gate) = channel::<()>();
        let gate = Box::into_raw(Box::new(gate)).cast();
        good("cuLaunchHostFunc", cuLaunchHostFunc(stream, wait, gate));
        Held(Some(open))
    }

    /// An event, which goes with the device.
    pub(crate) fn event(&self) -> usize {
        let event = got(|to| cuEventCreate(to, 0)).expect("cuEventCreate");
        self.keep(event as u64, |event| cuEventDestroy_v2(event as usize));
        event
    }

    pub(crate) fn elapsed(&self, start: usize, end: usize) -> Result<f32, u32> {
        got(|to| cuEventElapsedTime(to, start, end))
    }

    fn try_module(&self, ptx: &str) -> Result<Ptx, u32> {
        let ptx = text(ptx);
        got(|to| cuModuleLoadData(to, ptx.as_ptr())).map(Ptx)
    }

    pub(crate) fn try_load(&self, ptx: &str) -> u32 {
        self.try_module(ptx).map_or_else(|code| code, |ptx| panic!("{} was loaded", ptx.0))
    }

    pub(crate) fn load(&self, ptx: &str) -> Ptx {
        self.try_module(ptx).expect("cuModuleLoadData")
    }

    pub(crate) fn unload(&self, ptx: Ptx) {
        good("cuModuleUnload", cuModuleUnload(ptx.0));
    }

    fn function(&self, module: usize, name: &str) -> Result<usize, u32> {
        let name = text(name);
        got(|to| cuModuleGetFunction(to, module, name.as_ptr()))
    }

    pub(crate) fn function_of(&self, ptx: &Ptx, name: &str) -> u32 {
        self.function(ptx.0, name).err().unwrap_or(0)
    }

    pub(crate) fn try_function(&self, name: &str) -> u32 {
        self.function(self.module, name).err().unwrap_or(0)
    }

    pub(crate) fn try_launch(
        &self,
        stream: usize,
        name: &str,
        blocks: u32,
        threads: u32,
        arguments: &[u64],
    ) -> u32 {
        let list = arguments.iter().map(|word| word as *const u64).collect();
        self.launch_list(stream, name, (blocks, threads), list)
    }

    fn launch_list(
        &self,
        stream: usize,
        name: &str,
        (blocks, threads): (u32, u32),
        list: Vec<*const u64>,
    ) -> u32 {
        let function = self.function(self.module, name).expect("a kernel");
        let list = list.as_ptr();
        cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, list, null())
    }

    pub(crate) fn launch(&self, stream: usize, name: &str, arguments: &[u64]) {
        good(name, self.try_launch(stream, name, 2, 64, arguments));
    }

    /// Launches and waits.
    pub(crate) fn run(&self, name: &str, arguments: &[u64]) {
        self.launch(0, name, arguments);
        good(name, cuStreamSynchronize(0));
    }

    /// A product of matrices by cuBLAS, column by column, on the legacy stream: their sides m, n
    /// and k, and what they are made of and multiplied in, by cuBLAS's numbers. The status.
    pub(crate) fn gemm(
        &self,
        [m, n, k]: [i32; 3],
        [a, b, c]: [u64; 3],
        (kind, compute): (i32, i32),
    ) -> i32 {
        let mut handle = 0usize;
        assert_eq!(cublasCreate_v2(&mut handle), 0);
        let (one, zero, turned) = (1.0f32, 0.0f32, 0);
        let status = cublasGemmEx(
            handle, turned, turned, m, n, k, &one, a, kind, m, b, kind, k, &zero, c, kind, m,
            compute, -1,
        );
        good("synchronize", cuStreamSynchronize(0));
        assert_eq!(cublasDestroy_v2(handle), 0);
        status
    }

    /// Launches a kernel whose one argument is a structure, and waits.
    pub(crate) fn run_whole(&self, name: &str, argument: &[u64]) {
        good(name, self.launch_list(0, name, (2, 64), vec![argument.as_ptr()]));
        good(name, cuStreamSynchronize(0));
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let quiet = self.abandoned || std::thread::panicking();
        if !quiet {
            let made = std::mem::take(self.made.get_mut().unwrap_or_else(PoisonError::into_inner));
            made.into_iter().rev().for_each(|(what, give_back)| good("it goes", give_back(what)));
            good("cuModuleUnload", cuModuleUnload(self.module));
            assert_eq!(live(), [0; 6], "device, bytes, host, streams, events, modules");
        }
        let released = cuDevicePrimaryCtxRelease_v2(0);
        self.turn.take();
        assert!(quiet || released == 0, "cuDevicePrimaryCtxRelease: {released}");
    }
}
