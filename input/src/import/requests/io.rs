//! Reads and writes of disks and files, as block traces list them: MSR Cambridge's, Alibaba's,
//! Tencent's, and logs of fio (`fio`).
//!
//! | | a row | time | offset and size |
//! |---|---|---|---|
//! | MSR | timestamp, host, disk, type, offset, size, response | 100 ns since 1601 | bytes |
//! | Alibaba | device, opcode, offset, length, timestamp | µs since 1970 | bytes |
//! | Tencent | timestamp, offset, size, type, volume | s since 1970 | sectors of 512 bytes |
//! | fio 2 | file, action, offset, length | µs of its waits | bytes |
//! | fio 3 | timestamp, file, action, offset, length | µs since it began | bytes |
//!
//! Each disk, device, volume or file has addresses of its own; they are numbered in the order in
//! which they come. How long a request took is not used.
//! Invariant: what is handed out lies below [`END`], and within [`MOST_IO`] bytes.

use super::head::FIO;
use super::rows::ForeignRows;
use super::{Reader, first_line, shown};
use crate::trace::layout::{Layout, Width};
use crate::trace::rows::Row;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::Mode;

/// Where addresses end.
pub(super) const END: u64 = 1 << 56;
/// The most that one request reads or writes: drives take less in one.
const MOST_IO: u64 = 64 << 20;
/// The most disks, devices, volumes or files of a trace; Tencent's have 5,584.
pub(super) const MOST_VOLUMES: usize = (1 << 14) - 1;
const MOST_NAME: usize = 256;
const SECTOR: u64 = 512;

const PS_PER_S: u128 = 1_000_000_000_000;
const PS_PER_US: u128 = 1_000_000;
/// Of Windows' file times.
const PS_PER_100_NS: u128 = 100_000;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) at_ps: Option<u128>,
    pub(crate) volume: u64,
    pub(crate) offset: u64,
    /// 1 or more.
    pub(crate) bytes: u64,
    pub(crate) mode: Mode,
}

/// What a row says.
enum Said {
    Io {
        at_ps: Option<u128>,
        offset: u64,
        bytes: u64,
        mode: Option<Mode>,
    },
    /// What is no request, such as that a file was opened.
    Nothing,
}

/// The requests of a file.
pub(crate) struct Ios {
    rows: ForeignRows,
    reader: Reader,
    volumes: Volumes,
    /// What fio has waited so far, in µs.
    waited: u64,
    /// Requests that neither read nor write, or nothing.
    pub(crate) left_out: u64,
}

impl Ios {
    pub(crate) fn open(path: &Path, reader: Reader) -> Result<Ios, Diagnostics> {
        let fio = reader == Reader::Fio;
        let first = if fio { first_line(path)? } else { String::new() };
        let timed = first == FIO[1];
        if fio && !FIO.contains(&first.as_str()) {
            let rule = format!("a log of fio begins with {:?} or {:?}", FIO[0], FIO[1]);
            let place = Some(Place { line: 1, column: 0 });
            let remedy = "write it with fio's write_iolog";
            return Err(Diagnostics::one(path, place, rule, shown(&first), remedy));
        }
        let (columns, width, delimiter) = match reader {
            Reader::Msr => ("timestamp host disk type offset size response", 7, b','),
            Reader::Alibaba => ("device_id type offset size timestamp", 5, b','),
            Reader::Tencent => ("timestamp offset size type volume_id", 5, b','),
            _ if timed => ("timestamp file action offset size", 5, b' '),
            _ => ("file action offset size", 4, b' '),
        };
        let layout = Layout {
            columns,
            places: (0..width).map(Some).collect(),
            width: if fio { Width::Any } else { Width::Of(width) },
            delimiter,
            header: fio,
            quotes: false,
        };
        let rows = ForeignRows::open(path, layout)?;
        Ok(Ios { rows, reader, volumes: Volumes::default(), waited: 0, left_out: 0 })
    }

    /// The next request; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Io>, Diagnostics> {
        let Ios { rows, reader, volumes, waited, left_out } = self;
        rows.next(|row| {
            let said = match reader {
                Reader::Msr => msr(row),
                Reader::Alibaba => alibaba(row),
                Reader::Tencent => tencent(row),
                _ => fio(row, waited),
            };
            let Said::Io { at_ps, offset, bytes, mode } = said else { return None };
            let (Some(mode), 1..) = (mode, bytes) else {
                *left_out += 1;
                return None;
            };
            let within = offset.checked_add(bytes).is_some_and(|end| end <= END);
            if !within || bytes > MOST_IO {
                let rule = "a request is of at most 64 MiB and ends below 2^56";
                let found = format!("{bytes} bytes at {offset}");
                row.problem(rule, found, "check the columns, or split the request");
            }
            let volume = volumes.number(row, reader)?;
            Some(Io { at_ps, volume, offset, bytes, mode })
        })
    }
}

fn msr(row: &mut Row<'_>) -> Said {
    let at: u64 = row.whole("timestamp");
    Said::Io {
        at_ps: Some(u128::from(at) * PS_PER_100_NS),
        offset: row.whole("offset"),
        bytes: row.whole("size"),
        mode: Some(row.word("type", &[("Read", Mode::Read), ("Write", Mode::Write)], Mode::Read)),
    }
}

fn alibaba(row: &mut Row<'_>) -> Said {
    let at: u64 = row.whole("timestamp");
    Said::Io {
        at_ps: Some(u128::from(at) * PS_PER_US),
        offset: row.whole("offset"),
        bytes: row.whole("size"),
        mode: Some(row.word("type", &[("R", Mode::Read), ("W", Mode::Write)], Mode::Read)),
    }
}

fn tencent(row: &mut Row<'_>) -> Said {
    let [at, offset, sectors]: [u64; 3] =
        ["timestamp", "offset", "size"].map(|column| row.whole(column));
    Said::Io {
        at_ps: Some(u128::from(at) * PS_PER_S),
        offset: offset.saturating_mul(SECTOR),
        bytes: sectors.saturating_mul(SECTOR),
        mode: Some(row.word("type", &[("0", Mode::Read), ("1", Mode::Write)], Mode::Read)),
    }
}

/// What is done with files themselves says nothing of their bytes.
fn fio(row: &mut Row<'_>, waited: &mut u64) -> Said {
    const ACTIONS: &str = "add, open, close, read, write, trim, sync, datasync, sync_file_range, \
                           wait";
    let at: Option<u64> = row.whole_or_none("timestamp");
    let mode = match row.text("action") {
        "add" | "open" | "close" => return Said::Nothing,
        "wait" => {
            let more: u64 = row.whole("offset");
            *waited = waited.saturating_add(more);
            return Said::Nothing;
        }
        "trim" | "sync" | "datasync" | "sync_file_range" => None,
        "read" => Some(Mode::Read),
        "write" => Some(Mode::Write),
        other => {
            let found = format!("{other:?}");
            row.problem(format!("action is one of {ACTIONS}"), found, "write one of them");
            return Said::Nothing;
        }
    };
    let at_ps = Some(u128::from(at.unwrap_or(*waited)) * PS_PER_US);
    let (offset, bytes) = match mode {
        Some(_) => (row.whole("offset"), row.whole("size")),
        None => (0, 0),
    };
    Said::Io { at_ps, offset, bytes, mode }
}

/// The numbers of what has addresses of its own.
#[derive(Default)]
struct Volumes {
    numbers: BTreeMap<String, u64>,
    /// The name of the latest, which is mostly the next.
    name: String,
    latest: Option<u64>,
}

impl Volumes {
    fn number(&mut self, row: &mut Row<'_>, reader: &Reader) -> Option<u64> {
        let (first, second) = match reader {
            Reader::Msr => (row.text("host"), row.text("disk")),
            Reader::Alibaba => (row.text("device_id"), ""),
            Reader::Tencent => (row.text("volume_id"), ""),
            _ => (row.text("file"), ""),
        };
        let same = self.name.strip_prefix(first).and_then(|rest| rest.strip_prefix(','));
        if let Some(latest) = self.latest.filter(|_| same == Some(second)) {
            return Some(latest);
        }
        let found = format!("{first},{second}");
        if found.len() > MOST_NAME {
            let rule = format!("what has addresses has a name of at most {MOST_NAME} bytes");
            row.problem(rule, found, "check the columns");
            return None;
        }
        let number = match self.numbers.get(&found) {
            Some(number) => *number,
            None if self.numbers.len() == MOST_VOLUMES => {
                let rule = format!("a trace has at most {MOST_VOLUMES} disks, devices or files");
                row.problem(rule, found, "split it by them, or check the columns");
                return None;
            }
            None => {
                let number = self.numbers.len() as u64;
                self.numbers.insert(found.clone(), number);
                number
            }
        };
        (self.name, self.latest) = (found, Some(number));
        Some(number)
    }
}
