//! `trace.ron`: where a trace comes from, and how many rows its tables must have.
//!
//! The row counts are there because a table that lost its last rows is otherwise a valid table.
//! Invariant: unknown fields, another schema and files over 1 MiB are refused.

use super::SCHEMA;
use super::tables::{Findings, open};
use ron::ser::PrettyConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::{Recorded, Trace, TraceMeta};

/// The file's name.
pub(super) const HEADER_FILE: &str = "trace.ron";
/// The largest header that is read.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// The file, field by field.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// Version of the format.
    ///
    /// Values: 1.
    schema: u32,
    /// The trace's name in results.
    name: String,
    /// What it holds and what its durations are.
    about: String,
    /// How it was recorded; empty texts for a generated trace.
    recorded: Recorded,
    /// Format of the recorded run; a label, the scenario chooses its own.
    precision: String,
    /// Sequences per step.
    batch: u32,
    /// Tokens per sequence; tokens per step are `batch` times this.
    sequence: u32,
    /// How many different steps `ops.csv` holds.
    pub(super) steps: u32,
    /// Rows of each table; a table that was cut off is noticed.
    pub(super) rows: Rows,
}

/// How many rows each table has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename = "rows", deny_unknown_fields)]
pub(super) struct Rows {
    /// Of `objects.csv`.
    pub(super) objects: u64,
    /// Of `ops.csv`.
    pub(super) ops: u64,
    /// Of `uses.csv`.
    pub(super) uses: u64,
    /// Of `statistics.csv`; 0 where there is no such table.
    ///
    /// Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) statistics: u64,
}

impl Header {
    /// The header of `trace`.
    pub(super) fn of(trace: &Trace) -> Header {
        let TraceMeta { name, about, precision, batch, sequence, recorded } = trace.meta.clone();
        Header {
            schema: SCHEMA,
            name,
            about,
            recorded,
            precision,
            batch,
            sequence,
            steps: count_steps(trace),
            rows: Rows {
                objects: trace.objects.len() as u64,
                ops: trace.ops.len() as u64,
                uses: trace.uses.len() as u64,
                statistics: statistics_rows(trace),
            },
        }
    }

    /// The part that a [`Trace`] keeps.
    pub(super) fn into_meta(self) -> TraceMeta {
        TraceMeta {
            name: self.name,
            about: self.about,
            precision: self.precision,
            batch: self.batch,
            sequence: self.sequence,
            recorded: self.recorded,
        }
    }

    /// The text of the file.
    pub(super) fn to_text(&self) -> Result<String, ron::Error> {
        let text = ron::ser::to_string_pretty(self, PrettyConfig::new().new_line("\n"))?;
        Ok(text + "\n")
    }

    /// Reads the file; the problems go to `findings`.
    pub(super) fn read(folder: &Path, findings: &mut Findings) -> Option<Header> {
        let path = folder.join(HEADER_FILE);
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(problems) => {
                findings.extend(problems);
                return None;
            }
        };
        match ron::from_str::<Header>(&text) {
            Ok(header) if header.schema == SCHEMA => Some(header),
            Ok(header) => {
                let remedy = format!("this program reads schema {SCHEMA}: convert the trace");
                findings.push(&path, None, "unknown schema", header.schema.to_string(), remedy);
                None
            }
            Err(error) => {
                let start = error.span.start;
                let place = Place { line: start.line as u64, column: start.col as u64 };
                let remedy = "write the fields as the format's description lists them";
                findings.push(&path, Some(place), error.code.to_string(), "", remedy);
                None
            }
        }
    }
}

/// How many rows the table of statistics has.
fn statistics_rows(trace: &Trace) -> u64 {
    let histories = trace.objects.iter().filter_map(|object| object.history.as_ref());
    histories.map(|history| history.len() as u64).sum()
}

fn is_zero(rows: &u64) -> bool {
    *rows == 0
}

/// How many different steps the ops belong to.
pub(super) fn count_steps(trace: &Trace) -> u32 {
    let steps: BTreeSet<u32> = trace.ops.iter().map(|op| op.step).collect();
    u32::try_from(steps.len()).unwrap_or(u32::MAX)
}

fn read_text(path: &Path) -> Result<String, Diagnostics> {
    let (_, file) = open(path, MAX_HEADER_BYTES)?;
    let mut text = String::new();
    let read = file.take(MAX_HEADER_BYTES).read_to_string(&mut text);
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            Err(Diagnostics::one(path, None, "cannot be read", error.to_string(), "check the file"))
        }
    }
}
