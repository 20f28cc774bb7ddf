//! Block and page traces: requests for objects, streamed from a file, never held whole.
//!
//! Requests for objects: `oracleGeneral`, the binary records of libCacheSim (`binary`), its lists
//! and tables and those of Twitter's caches (`keys`), our own tables with a header (`table`), among
//! them the table `accesses` of a trace's folder, and the blocks of Mooncake's requests
//! (`prefixes`). Requests for bytes of disks and files (`io`), cut into blocks (`blocks`). Each may
//! be packed with gzip or Zstandard. The file's name or its first lines (`head`) say which it is,
//! unless the caller does.
//! Invariant: memory is bounded whatever the file holds, and a request that is handed out is
//! sound and the next of its file. Problems are reported all together, up to a number of them, and
//! after the first the rest of the file is only looked at.

pub(crate) mod binary;
pub(crate) mod blocks;
mod columns;
pub(crate) mod head;
pub(crate) mod io;
mod keys;
mod prefixes;
mod rows;
mod table;

pub use columns::{Columns, ColumnsError};

use crate::trace::tables::{Limits, describe, unpacked_by_magic, unpacked_name};
use binary::{Records, is_records};
use blocks::{BLOCK, Blocks, check_size};
use head::{is_table, of_text};
use io::Ios;
use keys::Keys;
use prefixes::Prefixes;
use std::io::Read;
use std::path::Path;
use table::Table;
use tiersim_models::block_trace::{Request, Requests};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::Mode;

/// Binary traces of months are hundreds of gigabytes. Records pack to a tenth at best, as the time
/// and the next request differ from record to record; tables pack better.
const LIMITS: Limits = Limits { expanded: 1 << 50, ratio: 100, free: 16 << 20 };

/// So much of a file is looked at to say what it is.
const HEAD: u64 = 8192;

/// The requests of a file.
pub struct RequestFile {
    format: Format,
    /// What each object has, if somebody says it.
    stated: Option<u64>,
}

enum Format {
    Binary(Records),
    Table(Table),
    Prefixes(Prefixes),
    Keys(Keys),
    Blocks(Blocks),
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Records of libCacheSim.
    OracleGeneral,
    /// A table with a header, or a folder with `accesses.csv`.
    Table,
    /// Mooncake's requests: their blocks, one after the other.
    Mooncake,
    /// libCacheSim's list: an object a line.
    Txt,
    /// libCacheSim's table, of which somebody says the columns.
    Csv(Columns),
    /// A block trace of MSR Cambridge.
    Msr,
    /// Block traces of Alibaba.
    Alibaba,
    /// Block traces of Tencent.
    Tencent,
    /// A trace of a cache at Twitter.
    Twitter,
    /// A log of fio, of version 2 or 3.
    Fio,
}

/// Each reader and its word.
const READERS: [(&str, Reader); 10] = [
    ("oracle-general", Reader::OracleGeneral),
    ("table", Reader::Table),
    ("mooncake", Reader::Mooncake),
    ("txt", Reader::Txt),
    ("csv", Reader::Csv(Columns::NONE)),
    ("msr", Reader::Msr),
    ("alibaba", Reader::Alibaba),
    ("tencent", Reader::Tencent),
    ("twitter", Reader::Twitter),
    ("fio", Reader::Fio),
];

impl Reader {
    /// The words of all.
    pub fn words() -> impl Iterator<Item = &'static str> {
        READERS.into_iter().map(|(word, _)| word)
    }

    /// The one that a word names.
    pub fn from_word(word: &str) -> Option<Reader> {
        READERS.into_iter().find(|(known, _)| *known == word).map(|(_, reader)| reader)
    }

    /// Whether requests are for bytes at addresses, and not for objects.
    pub(crate) fn is_addressed(self) -> bool {
        matches!(self, Reader::Msr | Reader::Alibaba | Reader::Tencent | Reader::Fio)
    }

    /// The reader that a file asks for, by its name where that says it, else by its first lines.
    fn of(path: &Path) -> Result<Reader, Diagnostics> {
        let name = unpacked_name(path);
        if path.is_dir() {
            return Ok(Reader::Table);
        } else if name.contains("oraclegeneral") || name.ends_with(".bin") {
            return Ok(Reader::OracleGeneral);
        } else if name.ends_with(".jsonl") {
            return Ok(Reader::Mooncake);
        }
        let head = head_of(path)?;
        let text = String::from_utf8_lossy(&head);
        let first = text.lines().next().unwrap_or("");
        match of_text(&text) {
            Some(reader) => Ok(reader),
            None if is_records(&head, u64::MAX) => Ok(Reader::OracleGeneral),
            None if is_table(first) => Ok(Reader::Table),
            None if name.ends_with(".txt") => Ok(Reader::Txt),
            None => {
                let rule = "what a block trace is, is told by its first lines, and here cannot be";
                let place = Some(Place { line: 1, column: 0 });
                Err(Diagnostics::one(path, place, rule, shown(first), SAY_WHICH))
            }
        }
    }
}

/// What to do where nothing tells what a block trace is.
const SAY_WHICH: &str = "say it with --reader: oracle-general, table (a header with `object`), \
     mooncake, txt (an object a line), csv (with the columns behind -t), msr, alibaba, tencent, \
     twitter or fio";

/// The beginning of a file, unpacked.
fn head_of(path: &Path) -> Result<Vec<u8>, Diagnostics> {
    let (from, _) = unpacked_by_magic(path, LIMITS)?;
    let mut head = Vec::new();
    from.take(HEAD).read_to_end(&mut head).map_err(|error| describe(path, &error))?;
    Ok(head)
}

/// The first line of a file, as far as that is looked at.
fn first_line(path: &Path) -> Result<String, Diagnostics> {
    let head = head_of(path)?;
    Ok(String::from_utf8_lossy(&head).lines().next().unwrap_or("").to_owned())
}

/// A line as a message shows it.
fn shown(line: &str) -> String {
    format!("{:?}", line.chars().take(80).collect::<String>())
}

/// That a file says no sizes where they count.
fn sizes_missing(path: &Path) -> Diagnostics {
    let remedy = "say what each has with --object-bytes; or give `cache` --unit, and --capacity in \
                  objects: each then counts 1";
    Diagnostics::one(path, None, "requests without sizes", "", remedy)
}

impl RequestFile {
    /// Opens a file, or the table `accesses` of a folder.
    ///
    /// `reader`: what it holds, if it does not say so itself. `sizes`: whether objects must have
    /// sizes. `object_bytes`: what each has whatever the file says; of addresses, what a block has.
    ///
    /// # Errors
    /// No such file, no known format, a wrong header, no sizes.
    pub fn open(
        path: &Path,
        reader: Option<Reader>,
        sizes: bool,
        object_bytes: Option<u64>,
    ) -> Result<RequestFile, Diagnostics> {
        let reader = reader.map_or_else(|| Reader::of(path), Ok)?;
        if let Some(bytes) = object_bytes {
            check_size(path, bytes, reader.is_addressed())?;
        }
        let sizes = sizes && object_bytes.is_none();
        let format = match reader {
            Reader::Table => Format::Table(Table::open(path, sizes, LIMITS)?),
            Reader::OracleGeneral => Format::Binary(Records::open(path, LIMITS)?),
            Reader::Mooncake => Format::Prefixes(Prefixes::open(path, sizes)?),
            Reader::Txt | Reader::Csv(_) | Reader::Twitter => {
                Format::Keys(Keys::open(path, reader, sizes)?)
            }
            Reader::Msr | Reader::Alibaba | Reader::Tencent | Reader::Fio => {
                let size = object_bytes.unwrap_or(BLOCK);
                Format::Blocks(Blocks::new(Ios::open(path, reader)?, size))
            }
        };
        Ok(RequestFile { format, stated: object_bytes })
    }
}

/// What a file says of a request beside its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When, in ps.
    pub(crate) at_ps: Option<u128>,
    /// How.
    pub(crate) mode: Option<Mode>,
}

impl RequestFile {
    /// The next requests, and what is said of each.
    ///
    /// # Errors
    /// As [`Requests::next_batch`].
    pub(crate) fn next_seen(
        &mut self,
        batch: &mut Vec<Request>,
        seen: &mut Vec<Seen>,
    ) -> Result<(), Diagnostics> {
        seen.clear();
        self.next(batch, Some(seen))
    }

    /// Requests so far that neither read nor write.
    pub(crate) fn left_out(&self) -> u64 {
        match &self.format {
            Format::Keys(keys) => keys.left_out,
            Format::Blocks(blocks) => blocks.ios.left_out,
            Format::Binary(_) | Format::Table(_) | Format::Prefixes(_) => 0,
        }
    }

    fn next(
        &mut self,
        batch: &mut Vec<Request>,
        seen: Option<&mut Vec<Seen>>,
    ) -> Result<(), Diagnostics> {
        batch.clear();
        match &mut self.format {
            Format::Binary(records) => records.next_batch(batch, seen),
            Format::Table(table) => table.next_batch(batch, seen),
            Format::Prefixes(prefixes) => prefixes.next_batch(batch, seen),
            Format::Keys(keys) => keys.next_batch(batch, seen),
            Format::Blocks(blocks) => blocks.next_batch(batch, seen),
        }?;
        if let Some(bytes) = self.stated {
            batch.iter_mut().for_each(|request| request.bytes = bytes);
        }
        Ok(())
    }
}

impl Requests for RequestFile {
    fn knows_next(&self) -> bool {
        matches!(self.format, Format::Binary(_))
    }

    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Diagnostics> {
        self.next(batch, None)
    }
}
