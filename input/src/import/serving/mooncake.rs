//! Mooncake's traces (Qin et al., FAST 2025): one JSON object per line.
//!
//! `timestamp` is in milliseconds, whole or with decimals, `input_length` and `output_length` are tokens, and `hash_ids`
//! are the names of the prompt's blocks, from its start on. Other keys are left alone: other traces
//! of this format have some.
//! Invariant: one line is in memory at a time.

use super::{ENOUGH, LIMITS, MOST_REQUESTS, refused};
use crate::json;
use crate::trace::tables::{Findings, Source};
use serde::Deserialize;
use serde::de::{Error, Unexpected, Visitor};
use std::fmt;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;

/// Picoseconds of a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;

/// A line.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    timestamp: Milliseconds,
    input_length: u64,
    output_length: u64,
    pub(crate) hash_ids: Vec<u64>,
}

/// A time in milliseconds: whole in Mooncake's own traces, with decimals in those that others make.
#[derive(Clone, Copy, Debug)]
enum Milliseconds {
    Whole(u64),
    Decimal(f64),
}

impl Milliseconds {
    fn ps(self) -> Option<u64> {
        match self {
            Milliseconds::Whole(ms) => ms.checked_mul(PS_PER_MS),
            // A nanosecond is more than clocks of servers tell, and less than doubles of a year do.
            Milliseconds::Decimal(ms) => {
                let ns = (ms * 1e6).round();
                (0.0..9e15).contains(&ns).then(|| (ns as u64).checked_mul(1000)).flatten()
            }
        }
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Milliseconds::Whole(ms) => ms.fmt(f),
            Milliseconds::Decimal(ms) => ms.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Milliseconds, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Milliseconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("u64")
            }

            fn visit_u64<E: Error>(self, ms: u64) -> Result<Milliseconds, E> {
                Ok(Milliseconds::Whole(ms))
            }

            fn visit_i64<E: Error>(self, ms: i64) -> Result<Milliseconds, E> {
                Err(E::invalid_value(Unexpected::Signed(ms), &self))
            }

            fn visit_f64<E: Error>(self, ms: f64) -> Result<Milliseconds, E> {
                Ok(Milliseconds::Decimal(ms))
            }
        }
        from.deserialize_any(Number)
    }
}

/// The lines of a file, and what is wrong with them.
pub(crate) struct Lines {
    lines: json::Lines<Line>,
    pub(crate) findings: Findings,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Lines, Diagnostics> {
        let source = Source::at(path.to_owned(), false, LIMITS)?.open_ended();
        let remedy = "write {\"timestamp\": 0, \"input_length\": 600, \"output_length\": 50, \
                      \"hash_ids\": [0, 1]} with whole numbers";
        Ok(Lines { lines: json::Lines::of(source, remedy), findings: Findings::default() })
    }

    /// The next line that can be read; none at the end of the file.
    ///
    /// # Errors
    /// All problems so far, at the end of the file or when they are many.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, Diagnostics> {
        match self.lines.next(ENOUGH, &mut self.findings) {
            Some((line, _)) => Ok(Some(line)),
            None if self.findings.is_empty() => Ok(None),
            None => Err(std::mem::take(&mut self.findings).finish()),
        }
    }
}

pub(super) fn read(path: &Path, block_tokens: u32) -> Result<ServingRequests, Diagnostics> {
    let mut lines = Lines::open(path)?;
    let mut requests = ServingRequests::new(Some(block_tokens));
    while let Some(line) = lines.next()? {
        let count = lines.lines.count;
        let place = Some(Place { line: count, column: 0 });
        if count > MOST_REQUESTS {
            let rule = format!("a trace has at most {MOST_REQUESTS} requests");
            lines.findings.push(path, place, rule, "more", "split it");
            return Err(lines.findings.finish());
        }
        let Some(at) = line.timestamp.ps() else {
            let rule = "timestamp is milliseconds, less than 213 days";
            let remedy = "count from the first request";
            lines.findings.push(path, place, rule, line.timestamp.to_string(), remedy);
            continue;
        };
        let (prompt, output) = (line.input_length, line.output_length);
        let pushed = requests.push(Time::from_ps(at), prompt, output, &line.hash_ids);
        if let Err(problem) = pushed {
            let found = (prompt, output, line.hash_ids.len());
            refused(problem, found, (path, count), &mut lines.findings);
        }
    }
    Ok(requests)
}
