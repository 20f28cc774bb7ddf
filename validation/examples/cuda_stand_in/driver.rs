//! The state behind all calls: what exists, what has failed, and what is told to fail.
//!
//! Every exported function goes through [`enter`]: it counts the call, fails it if told so, and
//! checks that the driver is initialised, a context is current and no error has stuck.
//! Invariant: the state is locked for moments only; whoever waits for a stream has let go of it.

use crate::codes::{
    Code, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_INITIALIZED, OUT_OF_MEMORY, SUCCESS,
    UNKNOWN,
};
use crate::memory::{Kind, Memory};
use crate::ptx::Entries;
use crate::stream::{Event, Mark, Stream, THREADS, Work};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The only context's handle.
pub(crate) const CONTEXT: usize = 0xC0DE;
/// `CU_STREAM_LEGACY`; the null stream is the same one.
const LEGACY: usize = 1;

/// A kernel of a loaded module.
pub(crate) struct Function {
    pub(crate) module: usize,
    pub(crate) name: String,
    /// Bytes of each parameter.
    pub(crate) widths: Vec<Option<usize>>,
}

/// What exists.
pub(crate) struct State {
    pub(crate) initialised: bool,
    /// Holds on the primary context.
    retained: u32,
    pub(crate) memory: Memory,
    legacy: Option<Arc<Stream>>,
    pub(crate) streams: BTreeMap<usize, Arc<Stream>>,
    /// Streams that were destroyed with work in them.
    closing: Vec<Arc<Stream>>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) modules: BTreeMap<usize, Entries>,
    pub(crate) functions: BTreeMap<usize, Arc<Function>>,
    next: usize,
    /// How often each function was called.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    fail: Option<(String, u64, Option<Code>)>,
}

/// The driver.
pub(crate) struct Driver {
    state: Mutex<State>,
    /// An error inside a stream, which stays until the context goes; 0 while there is none.
    stuck: AtomicU32,
}

thread_local! {
    /// Whether the context is current on this thread.
    static CURRENT: Cell<bool> = const { Cell::new(false) };
}

/// What must hold for a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// cuInit was called.
    Driver,
    /// The context is current and without an error.
    Context,
}

/// Makes a call: the body's code, or that of what stands in its way.
pub(crate) fn enter(
    name: &'static str,
    needs: Needs,
    body: impl FnOnce(&Driver) -> Result<(), Code>,
) -> Code {
    let driver = Driver::get();
    match driver.admit(name, needs).and_then(|()| body(driver)) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

/// Declares functions of the driver: what must hold, and a body that has the driver.
macro_rules! export {
    ($(
        $needs:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?) |$driver:ident| $body:block
    )*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $crate::codes::Code {
                use $crate::driver::{Needs, enter};
                enter(stringify!($name), Needs::$needs, |$driver| $body)
            }
        )*
    };
}
pub(crate) use export;

/// Writes a result to where the caller wants it.
pub(crate) fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of the driver says that it points to room for this type.
    unsafe { to.write(value) };
    Ok(())
}

impl Driver {
    pub(crate) fn get() -> &'static Driver {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        DRIVER.get_or_init(|| {
            let limit = std::env::var("TIERSIM_STAND_IN_MEMORY").ok();
            let limit = limit.and_then(|bytes| bytes.parse().ok()).unwrap_or(1 << 30);
            let state = State {
                initialised: false,
                retained: 0,
                memory: Memory::new(limit),
                legacy: None,
                streams: BTreeMap::new(),
                closing: Vec::new(),
                events: BTreeMap::new(),
                modules: BTreeMap::new(),
                functions: BTreeMap::new(),
                next: 16,
                calls: BTreeMap::new(),
                fail: std::env::var("TIERSIM_STAND_IN_FAIL").ok().and_then(|text| failure(&text)),
            };
            Driver { state: Mutex::new(state), stuck: AtomicU32::new(SUCCESS) }
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, name: &'static str, needs: Needs) -> Result<(), Code> {
        let mut state = self.lock();
        let calls = state.calls.entry(name).or_default();
        *calls += 1;
        let calls = *calls;
        if let Some((failing, number, code)) = &state.fail
            && failing == name
            && *number == calls
        {
            let allocates = name.contains("Alloc");
            return Err(code.unwrap_or(if allocates { OUT_OF_MEMORY } else { UNKNOWN }));
        }
        if needs == Needs::Nothing {
            return Ok(());
        }
        if !state.initialised {
            return Err(NOT_INITIALIZED);
        }
        if needs == Needs::Context {
            if !CURRENT.get() || state.retained == 0 {
                return Err(INVALID_CONTEXT);
            }
            self.error().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// The error that has stuck.
    pub(crate) fn error(&self) -> Option<Code> {
        Some(self.stuck.load(Relaxed)).filter(|code| *code != SUCCESS)
    }

    /// An error inside a stream: the first one stays.
    pub(crate) fn poison(&self, code: Code) {
        // A failed exchange means that an earlier error is there.
        let _ = self.stuck.compare_exchange(SUCCESS, code, Relaxed, Relaxed);
    }

    /// Takes hold of the primary context.
    pub(crate) fn retain(&self) -> Result<(), Code> {
        let mut state = self.lock();
        if state.legacy.is_none() {
            state.legacy = Some(Stream::open(true).ok_or(OUT_OF_MEMORY)?);
        }
        state.retained += 1;
        Ok(())
    }

    /// Lets go of it; the last one ends the context with all that it holds.
    pub(crate) fn release(&self) -> Result<(), Code> {
        {
            let mut state = self.lock();
            if state.retained == 0 {
                return Err(INVALID_CONTEXT);
            }
            state.retained -= 1;
            if state.retained > 0 {
                return Ok(());
            }
        }
        self.drain();
        let mut state = self.lock();
        add_to("TIERSIM_STAND_IN_LEAKS", &state.leaks(self.error()));
        add_to("TIERSIM_STAND_IN_CALLS", &state.counts());
        let (_, limit) = state.memory.info();
        state.memory = Memory::new(limit);
        let streams = std::mem::take(&mut state.streams);
        streams.into_values().chain(state.legacy.take()).for_each(|stream| stream.close());
        state.closing.clear();
        state.events.clear();
        state.modules.clear();
        state.functions.clear();
        self.stuck.store(SUCCESS, Relaxed);
        Ok(())
    }

    pub(crate) fn set_current(&self, current: bool) -> Result<(), Code> {
        if current && self.lock().retained == 0 {
            return Err(INVALID_CONTEXT);
        }
        CURRENT.set(current);
        Ok(())
    }

    /// Waits for all that is queued anywhere.
    pub(crate) fn drain(&self) {
        let marks: Vec<Mark> = self.lock().all_streams().map(Stream::tail).collect();
        marks.iter().for_each(Mark::wait);
    }

    /// Waits for a point and says how it came out.
    pub(crate) fn finish(&self, mark: &Mark) -> Result<(), Code> {
        mark.wait();
        self.error().map_or(Ok(()), Err)
    }

    /// Tells a call to fail, as the environment does.
    pub(crate) fn fail(&self, text: &str) {
        let mut state = self.lock();
        state.fail = failure(text);
        state.calls.clear();
    }
}

impl State {
    /// A handle that no other object has or had.
    pub(crate) fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    fn all_streams(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.streams.values().chain(&self.closing).chain(&self.legacy)
    }

    /// Destroys a stream: what is in it still runs, and whoever drains the device waits for it.
    pub(crate) fn close(&mut self, handle: usize) -> Result<(), Code> {
        let stream = self.streams.remove(&handle).ok_or(INVALID_HANDLE)?;
        stream.close();
        self.closing.retain(|stream| !stream.tail().reached());
        self.closing.push(stream);
        Ok(())
    }

    pub(crate) fn stream(&self, handle: usize) -> Result<&Arc<Stream>, Code> {
        let stream = match handle {
            0 | LEGACY => self.legacy.as_ref(),
            _ => self.streams.get(&handle),
        };
        stream.ok_or(INVALID_HANDLE)
    }

    pub(crate) fn event(&mut self, handle: usize) -> Result<&mut Event, Code> {
        self.events.get_mut(&handle).ok_or(INVALID_HANDLE)
    }

    /// Queues work behind what its stream must wait for by itself: the legacy stream and all
    /// streams that are not made non-blocking keep order with each other.
    pub(crate) fn enqueue(&self, handle: usize, work: Work) -> Result<Mark, Code> {
        let stream = self.stream(handle)?;
        let legacy = self.legacy.as_ref().expect("a stream means a context");
        if Arc::ptr_eq(stream, legacy) {
            for other in self.streams.values().filter(|other| other.blocking) {
                wait_for(stream, other);
            }
        } else if stream.blocking {
            wait_for(stream, legacy);
        }
        Ok(stream.push(work))
    }

    /// What is alive, by name.
    pub(crate) fn live(&self) -> [(&'static str, u64); 7] {
        let (device, bytes) = self.memory.live(Kind::Device);
        [
            ("device_allocations", device),
            ("device_bytes", bytes),
            ("host_allocations", self.memory.live(Kind::Pinned).0),
            ("streams", self.streams.len() as u64),
            ("events", self.events.len() as u64),
            ("modules", self.modules.len() as u64),
            ("threads", THREADS.load(Relaxed)),
        ]
    }

    fn leaks(&self, error: Option<Code>) -> String {
        let mut text = String::new();
        // The threads of streams that are closed end by themselves.
        for (name, count) in &self.live()[..6] {
            let _ = writeln!(text, "{name} {count}");
        }
        let _ = writeln!(text, "error {}", error.unwrap_or(SUCCESS));
        text
    }

    fn counts(&self) -> String {
        self.calls.iter().map(|(name, count)| format!("{name} {count}\n")).collect()
    }
}

fn wait_for(stream: &Arc<Stream>, other: &Arc<Stream>) {
    let mark = other.tail();
    if !mark.reached() {
        stream.push(Work::Wait(mark));
    }
}

/// `NAME:N` or `NAME:N:CODE`.
fn failure(text: &str) -> Option<(String, u64, Option<Code>)> {
    let mut parts = text.split(':');
    let (name, number) = (parts.next()?, parts.next()?.parse().ok()?);
    let code = parts.next().and_then(|code| code.parse().ok());
    Some((name.to_owned(), number, code))
}

fn add_to(variable: &str, text: &str) {
    let Some(path) = std::env::var_os(variable) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("stand-in driver: {variable}: {error}");
    }
}
