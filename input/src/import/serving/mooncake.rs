//! Mooncake's traces (Qin et al., FAST 2025), and others of that form: one JSON object per line.
//!
//! `timestamp` is in milliseconds, whole or with decimals, `input_length` and `output_length` are tokens, and
//! `hash_ids` are the names of the prompt's blocks, from its start on; a file may leave them out of all its lines.
//! Lines with a `chat_id` are those of Qwen's traces (github.com/alibaba-edu/qwen-bailian-usagetraces-anon), whose
//! times are seconds; LLMServingSim (github.com/casys-kaist/LLMServingSim) writes `input_toks`, `output_toks` and
//! `arrival_time_ns`. Other keys are left alone: other traces of this form have some.
//! Invariant: one line is in memory at a time.

use super::{ENOUGH, LIMITS, MOONCAKE_BLOCK, MOST_REQUESTS, refused};
use crate::json;
use crate::trace::tables::{Findings, Source};
use serde::Deserialize;
use serde::de::{Error, IgnoredAny, Unexpected, Visitor};
use std::fmt;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;

/// Picoseconds of a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;
/// Picoseconds of a nanosecond.
const PS_PER_NS: u64 = 1000;

/// A line.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct Line {
    timestamp: Option<Milliseconds>,
    arrival_time_ns: Option<u64>,
    #[serde(alias = "input_toks")]
    input_length: u64,
    #[serde(alias = "output_toks")]
    output_length: u64,
    pub(crate) hash_ids: Option<Vec<u64>>,
    chat_id: Option<IgnoredAny>,
}

impl Line {
    /// When the request arrives, in ps.
    ///
    /// # Errors
    /// What is wrong with the time, and what was found.
    pub(crate) fn at_ps(&self) -> Result<u64, (&'static str, String)> {
        let rule = "timestamp is milliseconds, less than 213 days";
        match (self.timestamp, self.arrival_time_ns) {
            (Some(at), _) if self.chat_id.is_some() => {
                let rule = "timestamp is seconds where there is a chat_id, less than 213 days";
                at.times(1000).and_then(Milliseconds::ps).ok_or((rule, at.to_string()))
            }
            (Some(at), _) => at.ps().ok_or((rule, at.to_string())),
            (None, Some(ns)) => {
                let rule = "arrival_time_ns is nanoseconds, less than 213 days";
                ns.checked_mul(PS_PER_NS).ok_or((rule, ns.to_string()))
            }
            (None, None) => Err((rule, "none".to_owned())),
        }
    }
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

    fn times(self, factor: u64) -> Option<Milliseconds> {
        match self {
            Milliseconds::Whole(ms) => ms.checked_mul(factor).map(Milliseconds::Whole),
            Milliseconds::Decimal(ms) => Some(Milliseconds::Decimal(ms * factor as f64)),
        }
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Milliseconds::Whole(ms) => ms.fmt(f),
            Milliseconds::Decimal(ms) => write!(f, "{ms:e}"),
        }
    }
}

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Milliseconds, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Milliseconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time from 0 on")
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
                      \"hash_ids\": [0, 1]}, hash_ids in all lines or in none";
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

impl Lines {
    /// What is wrong with the line that was read last.
    pub(crate) fn wrong(&self, rule: &str, found: String, remedy: &str) -> Diagnostics {
        let place = Some(Place { line: self.lines.count, column: 0 });
        Diagnostics::one(&self.lines.path, place, rule, found, remedy)
    }
}

pub(super) fn read(path: &Path, block: Option<u32>) -> Result<ServingRequests, Diagnostics> {
    let mut lines = Lines::open(path)?;
    let mut requests: Option<ServingRequests> = None;
    while let Some(line) = lines.next()? {
        let count = lines.lines.count;
        let place = Some(Place { line: count, column: 0 });
        if count > MOST_REQUESTS {
            let rule = format!("a trace has at most {MOST_REQUESTS} requests");
            lines.findings.push(path, place, rule, "more", "split it");
            return Err(lines.findings.finish());
        }
        let requests = requests.get_or_insert_with(|| {
            let named = line.hash_ids.as_ref();
            ServingRequests::new(
                named
                    .map(|names| block.unwrap_or_else(|| block_of(line.input_length, names.len()))),
            )
        });
        if line.hash_ids.is_some() != requests.block_tokens.is_some() {
            let rule = "hash_ids stand in all lines or in none";
            let found = if line.hash_ids.is_some() { "some" } else { "none" };
            lines.findings.push(path, place, rule, found, "write them in each, or leave them out");
            continue;
        }
        let at = match line.at_ps() {
            Ok(at) => at,
            Err((rule, found)) => {
                lines.findings.push(path, place, rule, found, "count from the first request");
                continue;
            }
        };
        let (prompt, output) = (line.input_length, line.output_length);
        let names = line.hash_ids.unwrap_or_default();
        if let Err(problem) = requests.push(Time::from_ps(at), prompt, output, &names) {
            refused(problem, (prompt, output, names.len()), (path, count), &mut lines.findings);
        }
    }
    Ok(requests.unwrap_or_else(|| ServingRequests::new(None)))
}

/// Tokens of a block where so many names stand for a prompt of so many: a power of 2, of Mooncake's
/// size if that fits.
fn block_of(prompt: u64, names: usize) -> u32 {
    let fits = |block: &u32| prompt.div_ceil(u64::from(*block)) == names as u64;
    let others = (0..=20).map(|power| 1u32 << power);
    [MOONCAKE_BLOCK].into_iter().chain(others).find(fits).unwrap_or(MOONCAKE_BLOCK)
}
