//! Events of the Chrome trace format that all timelines have: names of threads, and steps.

use serde_json::{Value, json};

/// The thread of steps: behind all streams, before all channels.
pub(crate) const STEPS: usize = 90_000;

/// The process of a case on a timeline, and the events that are written so far.
pub(crate) struct Process<'e> {
    pub(crate) events: &'e mut Vec<String>,
    pub(crate) pid: usize,
}

impl Process<'_> {
    /// Says something of it or of one of its threads.
    pub(crate) fn describe(&mut self, tid: usize, what: &str, args: Value) {
        let event = json!({"name": what, "ph": "M", "pid": self.pid, "tid": tid, "args": args});
        self.events.push(event.to_string());
    }

    /// Names a thread, and its place.
    pub(crate) fn name_thread(&mut self, tid: usize, name: &str) {
        self.describe(tid, "thread_name", json!({ "name": name }));
        self.describe(tid, "thread_sort_index", json!({ "sort_index": tid }));
    }

    /// An event of a thread, at a picosecond; `kind` is what stands for its phase and with it.
    ///
    /// The numbers are written by hand: serde_json would make floats of them.
    pub(crate) fn event(
        &mut self,
        tid: usize,
        (name, category, kind): (&str, &str, &str),
        at: u64,
        args: &Value,
    ) {
        let (name, pid, ts) = (Value::from(name), self.pid, microseconds(at));
        self.events.push(format!(
            "{{\"name\":{name},\"cat\":\"{category}\",{kind},\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"args\":{args}}}"
        ));
    }

    /// The slice of a thread from a picosecond on and so many long.
    pub(crate) fn slice(
        &mut self,
        tid: usize,
        (name, category): (&str, &str),
        (start, span): (u64, u64),
        args: &Value,
    ) {
        let (name, pid) = (Value::from(name), self.pid);
        let (ts, dur) = (microseconds(start), microseconds(span));
        self.events.push(format!(
            "{{\"name\":{name},\"cat\":\"{category}\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{args}}}"
        ));
    }

    /// The slice of a step.
    pub(crate) fn step(&mut self, number: u64, times: (u64, u64), args: &Value) {
        self.slice(STEPS, (&format!("step {number}"), "step"), times, args);
    }
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
