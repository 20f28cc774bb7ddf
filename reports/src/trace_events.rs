//! Events of the Chrome trace format that all timelines have: names of threads, and steps.

use crate::ChartError;
use serde_json::{Value, json};

/// The thread of steps: behind all streams, before all channels.
pub(crate) const STEPS: usize = 90_000;

/// Names a thread of a timeline, and its place.
pub(crate) fn name_thread(
    events: &mut Vec<String>,
    pid: usize,
    tid: usize,
    name: &str,
) -> Result<(), ChartError> {
    let pairs = [
        ("thread_name", json!({ "name": name })),
        ("thread_sort_index", json!({ "sort_index": tid })),
    ];
    for (what, args) in pairs {
        let event = json!({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args});
        events.push(serde_json::to_string(&event)?);
    }
    Ok(())
}

/// The slice of a step, from a picosecond on and so many long.
pub(crate) fn step(pid: usize, number: u64, (start, span): (u64, u64), args: &Value) -> String {
    format!(
        "{{\"name\":\"step {number}\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":{pid},\"tid\":{STEPS},\"ts\":{},\"dur\":{},\"args\":{args}}}",
        microseconds(start),
        microseconds(span),
    )
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
