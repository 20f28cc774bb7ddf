//! Streams and events.
//!
//! Invariant: a wait means what the event was recorded after when the wait is called; an event that
//! was never recorded is waited for by nobody.

use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, OUT_OF_MEMORY};
use crate::driver::{Driver, export, put};
use crate::stream::{Event, HostFunction, Stream, Work};
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, OnceLock};

const NON_BLOCKING: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

fn create(driver: &Driver, to: *mut usize, flags: c_uint) -> Result<(), crate::codes::Code> {
    if to.is_null() || flags > NON_BLOCKING {
        return Err(INVALID_VALUE);
    }
    let stream = Stream::open(flags != NON_BLOCKING).ok_or(OUT_OF_MEMORY)?;
    let mut state = driver.lock();
    let handle = state.handle();
    state.streams.insert(handle, stream);
    put(to, handle)
}

export! {
    Context fn cuStreamCreate(to: *mut usize, flags: c_uint) |driver| {
        create(driver, to, flags)
    }

    Context fn cuStreamCreateWithPriority(to: *mut usize, flags: c_uint, _priority: c_int) |driver| {
        create(driver, to, flags)
    }

    Context fn cuStreamDestroy_v2(handle: usize) |driver| {
        driver.lock().close(handle)
    }

    Context fn cuStreamSynchronize(handle: usize) |driver| {
        let mark = driver.lock().stream(handle)?.tail();
        driver.finish(&mark)
    }

    Context fn cuStreamWaitEvent(handle: usize, event: usize, _flags: c_uint) |driver| {
        let mut state = driver.lock();
        state.stream(handle)?;
        let Some((mark, _)) = state.event(event)?.last.clone() else { return Ok(()) };
        state.enqueue(handle, Work::Wait(mark)).map(|_| ())
    }

    Context fn cuLaunchHostFunc(handle: usize, function: Option<HostFunction>, data: usize) |driver| {
        let function = function.ok_or(INVALID_VALUE)?;
        driver.lock().enqueue(handle, Work::Call { function, data }).map(|_| ())
    }

    Context fn cuEventCreate(to: *mut usize, flags: c_uint) |driver| {
        if to.is_null() || flags > 7 {
            return Err(INVALID_VALUE);
        }
        let mut state = driver.lock();
        let handle = state.handle();
        state.events.insert(handle, Event { timing: flags & DISABLE_TIMING == 0, last: None });
        put(to, handle)
    }

    Context fn cuEventDestroy_v2(event: usize) |driver| {
        driver.lock().events.remove(&event).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    Context fn cuEventRecord(event: usize, handle: usize) |driver| {
        let mut state = driver.lock();
        state.event(event)?;
        let moment = Arc::new(OnceLock::new());
        let mark = state.enqueue(handle, Work::Note(moment.clone()))?;
        state.event(event)?.last = Some((mark, moment));
        Ok(())
    }

    Context fn cuEventQuery(event: usize) |driver| {
        let Some((mark, _)) = driver.lock().event(event)?.last.clone() else { return Ok(()) };
        if mark.reached() { driver.finish(&mark) } else { Err(NOT_READY) }
    }

    Context fn cuEventSynchronize(event: usize) |driver| {
        let Some((mark, _)) = driver.lock().event(event)?.last.clone() else { return Ok(()) };
        driver.finish(&mark)
    }

    Context fn cuEventElapsedTime(to: *mut f32, start: usize, end: usize) |driver| {
        let mut state = driver.lock();
        let mut moment = |handle| {
            let event = state.event(handle)?;
            let (_, moment) = event.last.as_ref().filter(|_| event.timing).ok_or(INVALID_HANDLE)?;
            moment.get().copied().ok_or(NOT_READY)
        };
        let (start, end) = (moment(start)?, moment(end)?);
        let seconds = match end.checked_duration_since(start) {
            Some(span) => span.as_secs_f64(),
            None => -start.duration_since(end).as_secs_f64(),
        };
        put(to, (seconds * 1e3) as f32)
    }
}
