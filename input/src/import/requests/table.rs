//! Requests as a table: `object`, `bytes`, `at_ns` and `mode`, in any order, with a header.
//!
//! `object` is a whole number. `bytes` may be left out where sizes do not count. `at_ns` and
//! `mode` are checked where they are; a cache sees the order of requests only.
//! Invariant: at most one line is in memory at a time, see [`crate::trace::tables`].

use super::Seen;
use crate::trace::rows::{Row, Rows};
use crate::trace::tables::{Findings, Limits, Source};
use std::path::Path;
use tiersim_models::block_trace::{BATCH, MOST_BYTES, NEVER, Request};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::Mode;

const COLUMNS: &str = "at_ns? object bytes? mode?";
/// The table of a trace's folder.
const NAME: &str = "accesses.csv";
/// Problems of a table after which it is not read on.
const ENOUGH: u64 = 50;

/// The requests of a table.
pub(super) struct Table {
    rows: Rows,
    /// `at_ns` of the row before, in picoseconds.
    at: u64,
    findings: Findings,
}

impl Table {
    pub(super) fn open(path: &Path, sizes: bool, limits: Limits) -> Result<Table, Diagnostics> {
        let source = if path.is_dir() {
            Source::open(path, NAME, true, limits)?
        } else {
            Source::by_magic(path.to_owned(), true, limits)?
        };
        let mut findings = Findings::default();
        let Ok(rows) = Rows::open(source, COLUMNS, None, &mut findings) else {
            return Err(findings.finish());
        };
        if sizes && !rows.has("bytes") {
            let place = Some(Place { line: 1, column: 0 });
            let remedy = "add it, or give --unit: every object then counts 1";
            return Err(Diagnostics::one(&rows.path, place, "missing column bytes", "", remedy));
        }
        Ok(Table { rows, at: 0, findings })
    }

    pub(super) fn next_batch(
        &mut self,
        batch: &mut Vec<Request>,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> Result<(), Diagnostics> {
        let [bytes, mode] = ["bytes", "mode"].map(|column| self.rows.has(column));
        while batch.len() < BATCH && self.findings.count() < ENOUGH {
            let Some(row) = self.rows.next(&mut self.findings) else { break };
            let Some((request, one)) =
                row.and_then(|row| request(row, &mut self.at, (bytes, mode)))
            else {
                continue;
            };
            batch.push(request);
            if let Some(seen) = &mut seen {
                seen.push(one);
            }
        }
        let over = batch.len() < BATCH || self.findings.count() >= ENOUGH;
        if over && !self.findings.is_empty() {
            return Err(std::mem::take(&mut self.findings).finish());
        }
        Ok(())
    }
}

/// The request of a row, or none where something is wrong with it or with one before it: others
/// would be handed out under a wrong number. `before`: `at_ns` of the row before.
fn request(mut row: Row<'_>, before: &mut u64, has: (bool, bool)) -> Option<(Request, Seen)> {
    let count = row.findings.count();
    let object = row.whole("object");
    let bytes = if has.0 { row.whole("bytes") } else { 1 };
    let said = row.findings.count() > count;
    if !said && (bytes == 0 || bytes > MOST_BYTES) {
        let remedy = "remove the row, or write the size of the object";
        row.problem("bytes is from 1 to 2^44", bytes.to_string(), remedy);
    }
    let at = row.picoseconds_or_none("at_ns");
    if let Some(at) = at {
        if at < *before {
            let found = row.text("at_ns").to_owned();
            row.problem("at_ns is not before that of the row before", found, "sort the rows");
        }
        *before = at;
    }
    let words = Mode::ALL.map(|mode| (mode.word(), mode));
    let mode = has.1.then(|| row.word("mode", &words, Mode::Read));
    let seen = Seen { at_ps: at.map(u128::from), mode };
    row.findings.is_empty().then_some((Request { object, bytes, next: NEVER }, seen))
}
