//! Block and page traces: requests for objects, streamed from a file, never held whole.
//!
//! Three formats: `oracleGeneral`, the binary records of libCacheSim (`binary`), tables with a
//! header (`table`), among them the table `accesses` of a trace's folder, and the blocks of
//! Mooncake's requests (`prefixes`). Each may be packed with gzip or Zstandard. The file's name
//! says which it is, unless the caller does.
//! Invariant: memory is bounded whatever the file holds, and a request that is handed out is
//! sound and the next of its file. Problems are reported all together, up to a number of them, and
//! after the first the rest of the file is only looked at.

pub(crate) mod binary;
mod prefixes;
mod table;

use crate::trace::tables::{Limits, unpacked_name};
use binary::Records;
use prefixes::Prefixes;
use std::path::Path;
use table::Table;
use tiersim_models::block_trace::{Request, Requests};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::Mode;

/// Binary traces of months are hundreds of gigabytes. Records pack to a tenth at best, as the time
/// and the next request differ from record to record; tables pack better.
const LIMITS: Limits = Limits { expanded: 1 << 50, ratio: 100, free: 16 << 20 };

/// The requests of a file.
pub struct RequestFile(Format);

enum Format {
    Binary(Records),
    Table(Table),
    Prefixes(Prefixes),
}

tiersim_models::words! {
    /// What a file holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reader {
        /// Records of libCacheSim.
        OracleGeneral = "oracle-general",
        /// A table with a header, or a folder with `accesses.csv`.
        Table = "table",
        /// Mooncake's requests: their blocks, one after the other.
        Mooncake = "mooncake",
    }
}

impl Reader {
    /// The reader that a file's name asks for.
    fn of(path: &Path) -> Result<Reader, Diagnostics> {
        let name = unpacked_name(path);
        if path.is_dir() || name.ends_with(".csv") {
            Ok(Reader::Table)
        } else if name.contains("oraclegeneral") || name.ends_with(".bin") {
            Ok(Reader::OracleGeneral)
        } else if name.ends_with(".jsonl") {
            Ok(Reader::Mooncake)
        } else {
            let rule = "the name of a block trace says its format";
            let remedy = "call it .oracleGeneral or .bin (records of libCacheSim), .csv or .jsonl \
                          (Mooncake's requests), packed .gz or .zst after it; name a folder with \
                          accesses.csv; or say --reader";
            Err(Diagnostics::one(path, None, rule, format!("{name:?}"), remedy))
        }
    }
}

impl RequestFile {
    /// Opens a file, or the table `accesses` of a folder.
    ///
    /// `reader`: what it holds, if its name does not say so. `sizes`: whether objects must have
    /// sizes.
    ///
    /// # Errors
    /// No such file, no known format, a wrong header, no sizes.
    pub fn open(
        path: &Path,
        reader: Option<Reader>,
        sizes: bool,
    ) -> Result<RequestFile, Diagnostics> {
        Ok(RequestFile(match reader.map_or_else(|| Reader::of(path), Ok)? {
            Reader::Table => Format::Table(Table::open(path, sizes, LIMITS)?),
            Reader::OracleGeneral => Format::Binary(Records::open(path, LIMITS)?),
            Reader::Mooncake => Format::Prefixes(Prefixes::open(path, sizes)?),
        }))
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
        batch.clear();
        seen.clear();
        match &mut self.0 {
            Format::Binary(records) => records.next_batch(batch, Some(seen)),
            Format::Table(table) => table.next_batch(batch, Some(seen)),
            Format::Prefixes(prefixes) => {
                prefixes.next_batch(batch)?;
                seen.resize(batch.len(), Seen::default());
                Ok(())
            }
        }
    }
}

impl Requests for RequestFile {
    fn knows_next(&self) -> bool {
        matches!(self.0, Format::Binary(_))
    }

    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Diagnostics> {
        batch.clear();
        match &mut self.0 {
            Format::Binary(records) => records.next_batch(batch, None),
            Format::Table(table) => table.next_batch(batch, None),
            Format::Prefixes(prefixes) => prefixes.next_batch(batch),
        }
    }
}
