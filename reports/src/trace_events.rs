//! Events of the Chrome trace format that all timelines have: names of threads, and steps.

use crate::ChartError;
use serde_json::{Value, json};

/// The thread of steps: behind all streams, before all channels.
pub(crate) const STEPS: usize = 90_000;

/// Says something of a process or of one of its threads.
pub(crate) fn describe(
    events: &mut Vec<String>,
    (pid, tid): (usize, usize),
    what: &str,
    args: Value,
) -> Result<(), ChartError> {
    let event = json!({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args});
    events.push(serde_json::to_string(&event)?);
    Ok(())
}

/// Names a thread of a timeline, and its place.
pub(crate) fn name_thread(
    events: &mut Vec<String>,
    place: (usize, usize),
    name: &str,
) -> Result<(), ChartError> {
    describe(events, place, "thread_name", json!({ "name": name }))?;
    describe(events, place, "thread_sort_index", json!({ "sort_index": place.1 }))
}

/// A slice of a thread, from a picosecond on and so many long. `name` is JSON.
///
/// The numbers are written by hand: serde_json would make floats of them.
pub(crate) fn slice(
    (pid, tid): (usize, usize),
    (name, category): (&str, &str),
    (start, span): (u64, u64),
    args: &Value,
) -> String {
    let (ts, dur) = (microseconds(start), microseconds(span));
    format!(
        "{{\"name\":{name},\"cat\":\"{category}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{args}}}"
    )
}

/// The slice of a step.
pub(crate) fn step(pid: usize, number: u64, times: (u64, u64), args: &Value) -> String {
    slice((pid, STEPS), (&format!("\"step {number}\""), "step"), times, args)
}

/// Picoseconds as a decimal number of microseconds, exactly.
pub(crate) fn microseconds(ps: u64) -> String {
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picoseconds_are_exact() {
        assert_eq!(microseconds(1), "0.000001");
        assert_eq!(microseconds(u64::MAX), "18446744073709.551615");
    }
}
