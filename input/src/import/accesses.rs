//! Block and page traces as traces for tiers: which lines, pages, regions or blocks were touched,
//! window by window.
//!
//! Files hold single accesses, or how often a region was found in use: lackey's loads and stores
//! (`lackey`), samples of `perf script` (`perf`), records of DAMON (`damon`), requests of block traces
//! (`requests`). Addresses are grouped into objects of one size, accesses into ops (`group`), both by
//! what [`Grouping`] says. All of it is streamed.
//! Invariant: memory is bounded by the limits of `group`, whatever a file holds.

mod damon;
mod group;
mod lackey;
mod lines;
mod perf;
mod requests;
mod said;
mod text;

pub use group::{FEW_OPS, Grouping, MOST_OBJECTS, MOST_OPS, MOST_USES};
pub use said::Account;
pub(crate) use text::{TextKind, of_text};

use crate::import::requests::Reader;
use crate::trace::tables::{Findings, unpacked_name};
use group::Groups;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Recorded, TraceMeta};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// Loads, stores and modifications by valgrind's lackey.
    Lackey,
    /// Samples of memory by `perf script`.
    Perf,
    /// Regions by DAMON, as `perf script` prints its tracepoint.
    DamonTracepoint,
    /// Regions by DAMON, as `damo report` prints them raw.
    DamonReport,
    /// Requests of a block trace.
    Requests(Reader),
}

/// A native trace, and what was seen, grouped and assumed on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Makes a trace of a file of accesses, packed or not.
///
/// # Errors
/// What is wrong with the file, with its line or record, or that it is too much for one trace.
pub fn import_accesses(
    path: &Path,
    what: Accesses,
    grouping: &Grouping,
) -> Result<Imported, Diagnostics> {
    let mut groups = Groups::new(path, what, grouping)?;
    match what {
        Accesses::Lackey => lackey::read(path, &mut groups)?,
        Accesses::Perf => perf::read(path, &mut groups)?,
        Accesses::DamonTracepoint => damon::read_tracepoint(path, &mut groups)?,
        Accesses::DamonReport => damon::read_report(path, &mut groups)?,
        Accesses::Requests(reader) => requests::read(path, reader, &mut groups)?,
    }
    if groups.is_empty() {
        let rule = format!("a file of {} holds accesses", what.words());
        return Err(Diagnostics::one(path, None, rule, "none", "record while memory is used"));
    }
    let remedy = groups.remedy("");
    let made = groups.finish(meta(path, what));
    let (trace, account) = made.map_err(|rule| Diagnostics::one(path, None, rule, "", remedy))?;
    let mut findings = Findings::default();
    findings.unsound(path, &trace);
    findings.finish().into_result(Imported { trace, account })
}

impl Accesses {
    /// Where such a file comes from, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Accesses::Lackey => "valgrind's lackey",
            Accesses::Perf => "perf script",
            Accesses::DamonTracepoint | Accesses::DamonReport => "DAMON",
            Accesses::Requests(_) => "block requests",
        }
    }

    /// Whether it names objects itself, and no addresses.
    fn names_objects(self) -> bool {
        matches!(self, Accesses::Requests(reader) if !reader.is_addressed())
    }
}

fn meta(path: &Path, what: Accesses) -> TraceMeta {
    let name = unpacked_name(path);
    let mut name = name.as_str();
    for end in [".bin", ".csv", ".jsonl", ".txt", ".raw", ".oraclegeneral", ".lackey", ".iolog"] {
        name = name.strip_suffix(end).unwrap_or(name);
    }
    let name = if name.is_empty() { "accesses" } else { name };
    let words = what.words();
    let about = format!("Imported from a file of {words}: ops are windows of accesses.");
    let recorded = Recorded { how: words.to_owned(), ..Recorded::default() };
    let (batch, sequence, precision) = (1, 1, "recorded".to_owned());
    TraceMeta { name: name.to_owned(), about, precision, batch, sequence, recorded }
}
