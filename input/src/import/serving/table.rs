//! A table of requests, one a row: what is common to those that have been published.
//!
//! Invariant: the first request arrives at 0, and a request without an answer is counted and left out
//! only where the table says that it failed.

use super::{ENOUGH, LIMITS, MOST_REQUESTS, refused};
use crate::trace::rows::{Row, read_rows, whole_number};
use crate::trace::tables::{Findings, Source};
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::requests::ServingRequests;
use tiersim_models::units::Time;

/// What a table says of requests.
pub(super) struct Table {
    /// Columns that it is told by.
    pub(super) told_by: &'static [&'static str],
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

/// Seconds from 0 on as nanoseconds: exact of up to nine decimals, of more the nearest.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let exact = || {
        let scale = 10u64.pow(9u32.checked_sub(u32::try_from(decimals.len()).ok()?)?);
        let fraction = whole_number(decimals)? * scale;
        whole_number(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction)
    };
    exact().or_else(|| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || b".e+-".contains(&byte));
        let ns = (text.parse::<f64>().ok().filter(|_| digits)? * 1e9).round();
        (0.0..9e15).contains(&ns).then_some(ns as u64)
    })
}

/// The time of a row in a column of seconds, in nanoseconds.
pub(super) fn seconds(row: &mut Row<'_>, column: &str) -> u64 {
    let text = row.text(column).to_owned();
    nanoseconds(&text).unwrap_or_else(|| {
        let rule = format!("{column} is seconds from 0 on, with decimals or without");
        row.problem(rule, format!("{text:?}"), "write it as in 45 or 45.5");
        0
    })
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
