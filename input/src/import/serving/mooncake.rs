//! Mooncake's traces (Qin et al., FAST 2025): one JSON object per line.
//!
//! `timestamp` is in milliseconds, `input_length` and `output_length` are tokens, and `hash_ids`
//! are the names of the prompt's blocks, from its start on. Other keys are left alone: other traces
//! of this format have some.
//! Invariant: one line is in memory at a time.

use super::{ENOUGH, LIMITS, MOST_REQUESTS, refused};
use crate::trace::tables::{Findings, Guard, Source, describe};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;

/// Picoseconds of a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;

/// A line.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    timestamp: u64,
    input_length: u64,
    output_length: u64,
    pub(crate) hash_ids: Vec<u64>,
}

/// The lines of a file.
pub(crate) struct Lines {
    path: PathBuf,
    reader: BufReader<Guard>,
    buffer: Vec<u8>,
    /// Lines read so far.
    pub(crate) count: u64,
    pub(crate) findings: Findings,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Lines, Diagnostics> {
        let Source { path, text } = Source::at(path.to_owned(), false, LIMITS)?.open_ended();
        let (reader, buffer) = (BufReader::new(text), Vec::new());
        Ok(Lines { path, reader, buffer, count: 0, findings: Findings::default() })
    }

    /// The next line that can be read; none at the end of the file.
    ///
    /// # Errors
    /// All problems so far, at the end of the file or when they are many.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, Diagnostics> {
        loop {
            if self.findings.count() >= ENOUGH {
                return Err(std::mem::take(&mut self.findings).finish());
            }
            self.buffer.clear();
            match self.reader.read_until(b'\n', &mut self.buffer) {
                Ok(0) => {
                    let findings = std::mem::take(&mut self.findings);
                    return if findings.is_empty() { Ok(None) } else { Err(findings.finish()) };
                }
                Ok(_) => self.count += 1,
                Err(error) => {
                    self.findings.extend(describe(&self.path, &error));
                    return Err(std::mem::take(&mut self.findings).finish());
                }
            }
            match serde_json::from_slice(self.buffer.trim_ascii_end()) {
                Ok(line) => return Ok(Some(line)),
                Err(error) => self.not_a_request(&error),
            }
        }
    }

    fn not_a_request(&mut self, error: &serde_json::Error) {
        let place = Place { line: self.count, column: error.column() as u64 };
        let mut rule = error.to_string();
        // The error's own text ends with a place that counts from the start of its line.
        if let Some(end) = rule.rfind(" at line ") {
            rule.truncate(end);
        }
        let remedy = "write {\"timestamp\": 0, \"input_length\": 600, \"output_length\": 50, \
                      \"hash_ids\": [0, 1]} with whole numbers";
        self.findings.push(&self.path, Some(place), rule, "", remedy);
    }
}

pub(super) fn read(path: &Path, block_tokens: u32) -> Result<ServingRequests, Diagnostics> {
    let mut lines = Lines::open(path)?;
    let mut requests = ServingRequests::new(Some(block_tokens));
    while let Some(line) = lines.next()? {
        let place = Some(Place { line: lines.count, column: 0 });
        if lines.count > MOST_REQUESTS {
            let rule = format!("a trace has at most {MOST_REQUESTS} requests");
            lines.findings.push(path, place, rule, "more", "split it");
            return Err(lines.findings.finish());
        }
        let Some(at) = line.timestamp.checked_mul(PS_PER_MS) else {
            let rule = "timestamp is milliseconds, less than 213 days";
            let remedy = "count from the first request";
            lines.findings.push(path, place, rule, line.timestamp.to_string(), remedy);
            continue;
        };
        let (prompt, output) = (line.input_length, line.output_length);
        let pushed = requests.push(Time::from_ps(at), prompt, output, &line.hash_ids);
        if let Err(problem) = pushed {
            let found = (prompt, output, line.hash_ids.len());
            refused(problem, found, (path, lines.count), &mut lines.findings);
        }
    }
    Ok(requests)
}
