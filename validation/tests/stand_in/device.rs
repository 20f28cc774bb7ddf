//! The stand-in, loaded by its path, with a function for each thing that the tests do to it.
//!
//! Invariant: every status is looked at; what returns no status expects success.

use libloading::Library;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernels as they ship.
pub(crate) const KERNELS: &str = include_str!("../../kernels/kernels.ptx");

/// A loaded module's handle.
pub(crate) struct Ptx(usize);

/// The stand-in's device, with its context current on the thread that opened it.
pub(crate) struct Device {
    turn: Option<MutexGuard<'static, ()>>,
    module: usize,
    abandoned: bool,
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

/// Calls a function of the stand-in, all of whose arguments are numbers or pointers.
macro_rules! cu {
    ($name:ident($($argument:expr => $kind:ty),*)) => {{
        let name = concat!(stringify!($name), "\0").as_bytes();
        // SAFETY: the types are those of cuda.h; pointers are to locals that outlive the call.
        unsafe {
            let function = library().get::<unsafe extern "C" fn($($kind),*) -> u32>(name);
            function.expect("the stand-in has it")($($argument),*)
        }
    }};
}

fn good(what: &str, status: u32) {
    assert_eq!(status, 0, "{what}");
}

impl Device {
    pub(crate) fn open() -> Device {
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed left a device that this one begins anew.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut context = 0usize;
        good("cuInit", cu!(cuInit(0 => u32)));
        let retained = cu!(cuDevicePrimaryCtxRetain(&mut context => *mut usize, 0 => i32));
        good("cuDevicePrimaryCtxRetain", retained);
        good("cuCtxSetCurrent", cu!(cuCtxSetCurrent(context => usize)));
        let mut device = Device { turn: Some(turn), module: 0, abandoned: false };
        device.module = device.load(KERNELS).0;
        device
    }

    /// Leaves all as it is: after an error nothing can be given back.
    pub(crate) fn abandon(mut self) {
        self.abandoned = true;
    }

    pub(crate) fn try_alloc(&self, bytes: u64) -> Result<u64, u32> {
        let mut address = 0;
        match cu!(cuMemAlloc_v2(&mut address => *mut u64, bytes as usize => usize)) {
            0 => Ok(address),
            code => Err(code),
        }
    }

    pub(crate) fn alloc(&self, bytes: u64) -> u64 {
        self.try_alloc(bytes).expect("there is room")
    }

    pub(crate) fn try_free(&self, address: u64) -> u32 {
        cu!(cuMemFree_v2(address => u64))
    }

    pub(crate) fn free(&self, addresses: &[u64]) {
        addresses.iter().for_each(|address| good("cuMemFree", self.try_free(*address)));
    }

    /// Pinned memory: the device's address and the host's.
    pub(crate) fn pinned(&self, bytes: usize) -> (u64, u64) {
        let (mut host, mut address) = (0usize, 0u64);
        good("alloc", cu!(cuMemHostAlloc(&mut host => *mut usize, bytes => usize, 3 => u32)));
        let got = cu!(cuMemHostGetDevicePointer_v2(
            &mut address => *mut u64, host => usize, 0 => u32
        ));
        good("cuMemHostGetDevicePointer", got);
        (address, host as u64)
    }

    pub(crate) fn free_pinned(&self, address: u64) {
        good("cuMemFreeHost", cu!(cuMemFreeHost(address as usize => usize)));
    }

    pub(crate) fn memory(&self) -> (u64, u64) {
        let (mut free, mut total) = (0usize, 0usize);
        let got = cu!(cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize));
        good("cuMemGetInfo", got);
        (free as u64, total as u64)
    }

    pub(crate) fn write(&self, to: u64, words: &[u64]) {
        let (from, bytes) = (words.as_ptr().cast(), size_of_val(words));
        good("write", cu!(cuMemcpyHtoD_v2(to => u64, from => *const c_void, bytes => usize)));
    }

    pub(crate) fn write_f32(&self, to: u64, values: &[f32]) {
        let (from, bytes) = (values.as_ptr().cast(), size_of_val(values));
        good("write", cu!(cuMemcpyHtoD_v2(to => u64, from => *const c_void, bytes => usize)));
    }

    pub(crate) fn read(&self, from: u64, count: usize) -> Vec<u64> {
        let mut words = vec![0u64; count];
        let to = words.as_mut_ptr().cast();
        good("read", cu!(cuMemcpyDtoH_v2(to => *mut c_void, from => u64, count * 8 => usize)));
        words
    }

    pub(crate) fn read_f32(&self, from: u64, count: usize) -> Vec<f32> {
        let mut values = vec![0f32; count];
        let to = values.as_mut_ptr().cast();
        good("read", cu!(cuMemcpyDtoH_v2(to => *mut c_void, from => u64, count * 4 => usize)));
        values
    }

    /// Reads in a stream's turn.
    pub(crate) fn read_on(&self, stream: usize, from: u64, count: usize) -> Vec<u64> {
        let mut words = vec![0u64; count];
        let to = words.as_mut_ptr().cast();
        let read = cu!(cuMemcpyDtoHAsync_v2(
            to => *mut c_void, from => u64, count * 8 => usize, stream => usize
        ));
        good("read", read);
        words
    }

    pub(crate) fn try_copy(&self, stream: usize, to: u64, from: u64, bytes: usize) -> u32 {
        cu!(cuMemcpyAsync(to => u64, from => u64, bytes => usize, stream => usize))
    }

    pub(crate) fn copy(&self, stream: usize, to: u64, from: u64, bytes: usize) {
        good("cuMemcpyAsync", self.try_copy(stream, to, from, bytes));
    }

    fn make_stream(&self, flags: u32) -> usize {
        let mut stream = 0usize;
        good("stream", cu!(cuStreamCreate(&mut stream => *mut usize, flags => u32)));
        stream
    }

    pub(crate) fn stream(&self) -> usize {
        self.make_stream(1)
    }

    pub(crate) fn blocking_stream(&self) -> usize {
        self.make_stream(0)
    }

    pub(crate) fn destroy_stream(&self, stream: usize) {
        good("cuStreamDestroy", cu!(cuStreamDestroy_v2(stream => usize)));
    }

    pub(crate) fn synchronize(&self, stream: usize) -> u32 {
        cu!(cuStreamSynchronize(stream => usize))
    }

    pub(crate) fn synchronize_all(&self) -> u32 {
        cu!(cuCtxSynchronize())
    }

    pub(crate) fn wait(&self, stream: usize, event: usize) {
        good("wait", cu!(cuStreamWaitEvent(stream => usize, event => usize, 0 => u32)));
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
        type Function = unsafe extern "C" fn(*mut c_void);
        let held = cu!(cuLaunchHostFunc(
            stream => usize, wait => Function, gate => *mut c_void
        ));
        good("cuLaunchHostFunc", held);
        Held(Some(open))
    }

    pub(crate) fn event(&self) -> usize {
        let mut event = 0usize;
        good("event", cu!(cuEventCreate(&mut event => *mut usize, 0 => u32)));
        event
    }

    pub(crate) fn record(&self, event: usize, stream: usize) {
        good("cuEventRecord", cu!(cuEventRecord(event => usize, stream => usize)));
    }

    pub(crate) fn query(&self, event: usize) -> u32 {
        cu!(cuEventQuery(event => usize))
    }

    pub(crate) fn synchronize_event(&self, event: usize) -> u32 {
        cu!(cuEventSynchronize(event => usize))
    }

    pub(crate) fn elapsed(&self, start: usize, end: usize) -> Result<f32, u32> {
        let mut ms = 0.0;
        match cu!(cuEventElapsedTime(&mut ms => *mut f32, start => usize, end => usize)) {
            0 => Ok(ms),
            code => Err(code),
        }
    }

    pub(crate) fn destroy_event(&self, event: usize) {
        good("cuEventDestroy", cu!(cuEventDestroy_v2(event => usize)));
    }

    fn try_module(&self, ptx: &str) -> Result<Ptx, u32> {
        let text = CString::new(ptx).expect("PTX is text");
        let mut module = 0usize;
        match cu!(cuModuleLoadData(&mut module => *mut usize, text.as_ptr() => *const c_char)) {
            0 => Ok(Ptx(module)),
            code => Err(code),
        }
    }

    pub(crate) fn try_load(&self, ptx: &str) -> u32 {
        self.try_module(ptx).map_or_else(|code| code, |ptx| panic!("{} was loaded", ptx.0))
    }

    pub(crate) fn load(&self, ptx: &str) -> Ptx {
        self.try_module(ptx).unwrap_or_else(|code| panic!("cuModuleLoadData: {code}"))
    }

    pub(crate) fn unload(&self, ptx: Ptx) {
        good("cuModuleUnload", cu!(cuModuleUnload(ptx.0 => usize)));
    }

    fn function(&self, module: usize, name: &str) -> Result<usize, u32> {
        let name = CString::new(name).expect("a name is text");
        let mut function = 0usize;
        let got = cu!(cuModuleGetFunction(
            &mut function => *mut usize, module => usize, name.as_ptr() => *const c_char
        ));
        if got == 0 { Ok(function) } else { Err(got) }
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
        mut list: Vec<*const u64>,
    ) -> u32 {
        let function = self.function(self.module, name).expect("a kernel");
        cu!(cuLaunchKernel(
            function => usize, blocks => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32,
            1 => u32, 0 => u32, stream => usize, list.as_mut_ptr() => *mut *const u64,
            null_mut() => *mut *mut c_void
        ))
    }

    pub(crate) fn launch(&self, stream: usize, name: &str, arguments: &[u64]) {
        good(name, self.try_launch(stream, name, 2, 64, arguments));
    }

    /// Launches and waits.
    pub(crate) fn run(&self, name: &str, arguments: &[u64]) {
        self.launch(0, name, arguments);
        good(name, self.synchronize(0));
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
        good("cublasCreate", cu!(cublasCreate_v2(&mut handle => *mut usize)));
        let (one, zero) = (1.0f32, 0.0f32);
        let status = cu!(cublasGemmEx(
            handle => usize, 0 => i32, 0 => i32, m => i32, n => i32, k => i32, &one => *const f32,
            a => u64, kind => i32, m => i32, b => u64, kind => i32, k => i32, &zero => *const f32,
            c => u64, kind => i32, m => i32, compute => i32, -1 => i32
        ));
        good("synchronize", self.synchronize(0));
        good("cublasDestroy", cu!(cublasDestroy_v2(handle => usize)));
        status as i32
    }

    /// Launches a kernel whose one argument is a structure, and waits.
    pub(crate) fn run_whole(&self, name: &str, argument: &[u64]) {
        good(name, self.launch_list(0, name, (2, 64), vec![argument.as_ptr()]));
        good(name, self.synchronize(0));
    }

    pub(crate) fn fail(&self, what: &str) {
        let what = CString::new(what).expect("text");
        // SAFETY: the stand-in's own function, with a text that ends with 0.
        unsafe {
            let fail =
                library().get::<unsafe extern "C" fn(*const c_char)>(b"tiersim_stand_in_fail\0");
            fail.expect("the stand-in has it")(what.as_ptr());
        }
    }

    pub(crate) fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("text");
        // SAFETY: the stand-in's own function, with a text that ends with 0.
        unsafe {
            let calls = library()
                .get::<unsafe extern "C" fn(*const c_char) -> u64>(b"tiersim_stand_in_calls\0");
            calls.expect("the stand-in has it")(name.as_ptr())
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let quiet = self.abandoned || std::thread::panicking();
        if !quiet {
            good("cuModuleUnload", cu!(cuModuleUnload(self.module => usize)));
            let mut live = [0u64; 7];
            good("live", cu!(tiersim_stand_in_live(&mut live => *mut [u64; 7])));
            assert_eq!(live[..6], [0; 6], "device, bytes, host, streams, events, modules");
        }
        let released = cu!(cuDevicePrimaryCtxRelease_v2(0 => i32));
        self.turn.take();
        assert!(quiet || released == 0, "cuDevicePrimaryCtxRelease: {released}");
    }
}
