//! What a text of accesses is, by its first lines.
//!
//! Invariant: the first line that says anything decides.

use super::{damon, lackey, perf};

/// A kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    Lackey,
    Perf,
    DamonTracepoint,
    DamonReport,
}

/// The kind of a text that begins so, if that can be told.
pub(crate) fn of_text(text: &str) -> Option<TextKind> {
    let mut banner = false;
    for line in text.lines() {
        if lackey::is_own(line) || line.starts_with("==") {
            // Valgrind names its tool first.
            banner |= line.contains("Lackey");
            continue;
        }
        if line.trim_ascii().is_empty() || line.starts_with('#') {
            continue;
        }
        if lackey::line(line).is_some() {
            return Some(TextKind::Lackey);
        }
        if damon::tracepoint(line).is_some() {
            return Some(TextKind::DamonTracepoint);
        }
        if line.starts_with("base_time_absolute:") || line.starts_with("monitoring_start:") {
            return Some(TextKind::DamonReport);
        }
        if perf::sample(line).is_some() {
            return Some(TextKind::Perf);
        }
        break;
    }
    banner.then_some(TextKind::Lackey)
}
