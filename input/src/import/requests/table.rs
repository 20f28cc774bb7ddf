//! Requests as a table: `object`, `bytes`, `at_ns` and `mode`, in any order, with a header.
//!
//! `object` is a whole number. `bytes` may be left out where sizes do not count. `at_ns` and
//! `mode` are checked where they are, and not used: a cache sees the order of requests only.
//! Invariant: at most one line is in memory at a time, see [`crate::trace::tables`].

use crate::trace::rows::{Row, csv_problem, find_columns};
use crate::trace::tables::{Column, Findings, Guard, Limits, Source, optional, required};
use csv::{Reader, ReaderBuilder, StringRecord};
use std::path::{Path, PathBuf};
use tiersim_models::block_trace::{BATCH, MOST_BYTES, NEVER, Request};
use tiersim_models::diagnostic::{Diagnostics, Place};

const COLUMNS: [Column; 4] =
    [optional("at_ns"), required("object"), optional("bytes"), optional("mode")];
/// The table of a trace's folder.
const NAME: &str = "accesses.csv";
/// Problems of a table after which it is not read on.
const ENOUGH: u64 = 50;

/// The rows of a table.
pub(super) struct Rows {
    path: PathBuf,
    reader: Reader<Guard>,
    places: Vec<Option<usize>>,
    width: usize,
    record: StringRecord,
    /// Rows read so far.
    index: u64,
    /// `at_ns` of the row before, in picoseconds.
    at: u64,
    findings: Findings,
}

impl Rows {
    pub(super) fn open(path: &Path, sizes: bool, limits: Limits) -> Result<Rows, Diagnostics> {
        let source = if path.is_dir() {
            Source::open(path, NAME, true, limits)?
        } else {
            Source::at(path.to_owned(), true, limits)?
        };
        let Source { path, text } = source;
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(text);
        let mut findings = Findings::default();
        let found = match reader.headers() {
            Ok(headers) => find_columns(headers, &COLUMNS, &path, &mut findings),
            Err(error) => {
                csv_problem(&path, &error, 1, &mut findings);
                None
            }
        };
        let Some((places, width)) = found else { return Err(findings.finish()) };
        if sizes && places[2].is_none() {
            let place = Some(Place { line: 1, column: 0 });
            let remedy = "add it, or give --unit: every object then counts 1";
            return Err(Diagnostics::one(&path, place, "missing column bytes", "", remedy));
        }
        let record = StringRecord::new();
        Ok(Rows { path, reader, places, width, record, index: 0, at: 0, findings })
    }

    pub(super) fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Diagnostics> {
        while batch.len() < BATCH {
            let line = self.index + 2;
            match self.reader.read_record(&mut self.record) {
                Ok(false) => {
                    let findings = std::mem::take(&mut self.findings);
                    return if findings.is_empty() { Ok(()) } else { Err(findings.finish()) };
                }
                Ok(true) if self.record.len() != self.width => {
                    let rule = format!("a row has {} fields, like the header", self.width);
                    let remedy = "check the commas and quotes, and whether the file was cut off";
                    let place = Some(Place { line, column: 0 });
                    let found = self.record.len().to_string();
                    self.findings.push(&self.path, place, rule, found, remedy);
                }
                Ok(true) => batch.extend(self.request()),
                Err(error) => {
                    csv_problem(&self.path, &error, line, &mut self.findings);
                    if !matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) {
                        return Err(std::mem::take(&mut self.findings).finish());
                    }
                }
            }
            self.index += 1;
            if self.findings.count() >= ENOUGH {
                return Err(std::mem::take(&mut self.findings).finish());
            }
        }
        Ok(())
    }

    /// The request of the row that was read last, or none where something is wrong with it.
    fn request(&mut self) -> Option<Request> {
        let before = self.findings.count();
        let Rows { record, places, path, index, findings, .. } = self;
        let mut row =
            Row { record, places, columns: &COLUMNS, file: path, index: *index, findings };
        let object = row.whole("object");
        let bytes = if places[2].is_some() { row.whole("bytes") } else { 1 };
        let said = row.findings.count() > before;
        if !said && (bytes == 0 || bytes > MOST_BYTES) {
            let remedy = "remove the row, or write the size of the object";
            row.problem("bytes is from 1 to 2^44", bytes.to_string(), remedy);
        }
        if let Some(at) = row.picoseconds_or_none("at_ns") {
            if at < self.at {
                let found = row.text("at_ns").to_owned();
                row.problem("at_ns is not before that of the row before", found, "sort the rows");
            }
            self.at = at;
        }
        if places[3].is_some() {
            let mode = |text: &str| matches!(text, "r" | "w" | "rw").then_some(());
            row.word("mode", mode, "r, w, rw", ());
        }
        // After a bad row, others would be handed out under a wrong number.
        self.findings.is_empty().then_some(Request { object, bytes, next: NEVER })
    }
}
