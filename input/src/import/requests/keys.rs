//! Requests for objects that have names and no addresses: libCacheSim's lists (`txt`) and tables
//! (`csv`), and the traces of Twitter's caches (github.com/twitter/cache-trace).
//!
//! A name of digits is that number; another is stood for by 64 bits made of it, as in libCacheSim:
//! of ten million names two are taken for one in one file of 370,000.
//! Invariant: one row of the file is in memory at a time.

use super::columns::Columns;
use super::head::OPERATIONS;
use super::rows::ForeignRows;
use super::{Reader, Seen, first_line, shown, sizes_missing};
use crate::trace::layout::{Layout, Width};
use crate::trace::rows::{Row, whole_number};
use std::path::Path;
use tiersim_models::block_trace::{BATCH, MOST_BYTES, NEVER, Request};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::Mode;

const PS_PER_S: u128 = 1_000_000_000_000;

/// The requests of a file.
pub(super) struct Keys {
    rows: ForeignRows,
    reader: Reader,
    /// Requests that neither read nor write.
    pub(super) left_out: u64,
}

impl Keys {
    pub(super) fn open(path: &Path, reader: Reader, sizes: bool) -> Result<Keys, Diagnostics> {
        let layout = match reader {
            Reader::Csv(columns) => {
                let object = columns.object.ok_or_else(|| {
                    let rule = "a table of libCacheSim's is read by its columns";
                    let remedy = "say which they are, such as -t 'time-col=2, obj-id-col=5, \
                                  obj-size-col=4, has-header=true'";
                    Diagnostics::one(path, None, rule, "", remedy)
                })?;
                let header = match columns.header {
                    Some(header) => header,
                    None => has_header(path, &columns, object, &first_line(path)?)?,
                };
                let place = |column: Option<u16>| column.map(|column| usize::from(column) - 1);
                Layout {
                    columns: "obj-id obj-size? time?",
                    places: vec![place(Some(object)), place(columns.size), place(columns.time)],
                    width: Width::First,
                    delimiter: columns.delimiter.unwrap_or(b','),
                    header,
                    quotes: true,
                }
            }
            Reader::Twitter => Layout {
                columns: "time obj-id key-size value-size client operation ttl",
                places: (0..7).map(Some).collect(),
                width: Width::Of(7),
                delimiter: b',',
                header: false,
                quotes: false,
            },
            _ => Layout {
                columns: "obj-id",
                places: vec![Some(0)],
                width: Width::Of(1),
                delimiter: b',',
                header: false,
                quotes: false,
            },
        };
        if sizes && matches!(reader, Reader::Txt | Reader::Csv(Columns { size: None, .. })) {
            return Err(sizes_missing(path));
        }
        Ok(Keys { rows: ForeignRows::open(path, layout)?, reader, left_out: 0 })
    }

    pub(super) fn next_batch(
        &mut self,
        batch: &mut Vec<Request>,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> Result<(), Diagnostics> {
        let Keys { rows, reader, left_out } = self;
        while batch.len() < BATCH {
            let next = rows.next(|row| match reader {
                Reader::Twitter => twitter(row, left_out),
                Reader::Csv(columns) => listed(row, columns),
                _ => listed(row, &Columns::NONE),
            })?;
            let Some((request, one)) = next else { break };
            batch.push(request);
            if let Some(seen) = &mut seen {
                seen.push(one);
            }
        }
        Ok(())
    }
}

/// Whether a table has a header where nobody says it: a number is wanted, and none is there.
fn has_header(
    path: &Path,
    columns: &Columns,
    object: u16,
    first: &str,
) -> Result<bool, Diagnostics> {
    let delimiter = char::from(columns.delimiter.unwrap_or(b','));
    let field = |column: u16| first.split(delimiter).nth(usize::from(column) - 1).unwrap_or("");
    let is_number = |column: u16| field(column).trim_matches('"').parse::<f64>().is_ok();
    match columns.size.or(columns.time) {
        Some(column) => Ok(!is_number(column)),
        None if is_number(object) => Ok(false),
        // A name, or the name of names.
        None => {
            let rule = "whether the first line is a header cannot be told";
            let place = Some(Place { line: 1, column: 0 });
            let remedy = "say it behind -t: has-header=true, or has-header=false";
            Err(Diagnostics::one(path, place, rule, shown(first), remedy))
        }
    }
}

fn listed(row: &mut Row<'_>, columns: &Columns) -> Option<(Request, Seen)> {
    let object = name(row)?;
    let bytes = match columns.size {
        Some(_) => row.whole("obj-size"),
        None => 1,
    };
    let text = row.text("time");
    let at_ps = seconds(text);
    if columns.time.is_some() && at_ps.is_none() {
        let found = text.to_owned();
        row.problem("time is seconds, at most 12 decimals", found, "write them in digits");
    }
    sized(row, object, bytes, Seen { at_ps, mode: None })
}

/// A key and its value are what takes room.
fn twitter(row: &mut Row<'_>, left_out: &mut u64) -> Option<(Request, Seen)> {
    let object = name(row)?;
    let [at, key, value]: [u64; 3] =
        ["time", "key-size", "value-size"].map(|column| row.whole(column));
    let mode = match row.text("operation") {
        "get" | "gets" => Mode::Read,
        "set" | "add" | "replace" | "cas" => Mode::Write,
        "append" | "prepend" | "incr" | "decr" => Mode::ReadWrite,
        // What is forgotten is not asked for.
        "delete" => {
            *left_out += 1;
            return None;
        }
        other => {
            let (found, rule) = (format!("{other:?}"), OPERATIONS.join(", "));
            row.problem(format!("operation is one of {rule}"), found, "write one of them");
            return None;
        }
    };
    let at_ps = Some(u128::from(at) * PS_PER_S);
    sized(row, object, key.saturating_add(value), Seen { at_ps, mode: Some(mode) })
}

fn sized(row: &mut Row<'_>, object: u64, bytes: u64, seen: Seen) -> Option<(Request, Seen)> {
    if row.findings.is_empty() && !(1..=MOST_BYTES).contains(&bytes) {
        let remedy = "remove the row, or write the size of the object";
        row.problem("a size is from 1 to 2^44 bytes", bytes.to_string(), remedy);
    }
    Some((Request { object, bytes, next: NEVER }, seen))
}

/// The number that an object's name is, or that stands for it (FNV-1a).
fn name(row: &mut Row<'_>) -> Option<u64> {
    let text = row.text("obj-id");
    if text.is_empty() || text.contains(char::is_whitespace) {
        let found = format!("{text:?}");
        row.problem(
            "obj-id is a number or a name, without spaces",
            found,
            "name the object, or check the columns",
        );
        return None;
    }
    // 017 is another name than 17.
    let number = whole_number(text).filter(|_| text == "0" || !text.starts_with('0'));
    let hashed = || {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |all: u64, byte| {
            (all ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    Some(number.unwrap_or_else(hashed))
}

/// Seconds with up to twelve decimals, in ps.
fn seconds(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = u32::try_from(part.len()).ok().filter(|digits| *digits <= 12)?;
    let part = u128::from(whole_number(part)?) * 10u128.pow(12 - digits);
    Some(u128::from(whole_number(whole)?) * PS_PER_S + part)
}
