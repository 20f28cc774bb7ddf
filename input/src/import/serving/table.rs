//! A table of requests, one a row: what is common to those that have been published.
//!
//! Invariant: the first request arrives at 0, and a request without an answer is counted and left out
//! only where the table says that it failed.

use super::{ENOUGH, LIMITS, MOST_REQUESTS, refused};
use crate::trace::rows::{Row, read_rows};
use crate::trace::tables::{Findings, Source};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;

/// What a table says of requests.
pub(super) struct Table {
    /// Its columns.
    pub(super) columns: &'static str,
    /// Picoseconds of a unit of its times.
    pub(super) ps: u64,
    /// Whether a request without tokens in its answer is one that failed.
    pub(super) failures: bool,
    /// What a row says.
    pub(super) arrival: fn(&mut Row<'_>) -> Arrival,
}

/// A row: when a request arrives, in the table's units, and tokens of its prompt and answer.
pub(super) struct Arrival {
    pub(super) at: u64,
    pub(super) prompt: u64,
    pub(super) output: u64,
}

pub(super) fn read(path: &Path, table: &Table) -> Result<ServingRequests, Diagnostics> {
    let source = Source::at(path.to_owned(), true, LIMITS)?.open_ended();
    let (mut findings, mut rows) = (Findings::default(), Vec::new());
    let each = |row: &mut Row<'_>| {
        if row.index >= MOST_REQUESTS {
            if row.index == MOST_REQUESTS {
                let rule = format!("a trace has at most {MOST_REQUESTS} requests");
                row.problem(rule, "more".to_owned(), "split it");
            }
        } else if row.findings.count() < ENOUGH {
            rows.push((table.arrival)(row));
        }
    };
    read_rows(source, table.columns, None, &mut findings, each);
    if !findings.is_empty() {
        return Err(findings.finish());
    }
    let first = rows.iter().map(|row| row.at).min().unwrap_or_default();
    let mut requests = ServingRequests::new(None);
    for (index, Arrival { at, prompt, output }) in rows.into_iter().enumerate() {
        if table.failures && output == 0 {
            requests.failed += 1;
            continue;
        }
        let line = index as u64 + 2;
        let Some(at) = (at - first).checked_mul(table.ps) else {
            let place = Some(Place { line, column: 0 });
            let rule = "a request arrives less than 213 days after the first";
            findings.push(path, place, rule, "later", "split the trace");
            continue;
        };
        if let Err(problem) = requests.push(Time::from_ps(at), prompt, output, &[]) {
            refused(problem, (prompt, output, 0), (path, line), &mut findings);
        }
    }
    findings.finish().into_result(requests)
}
