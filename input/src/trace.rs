//! The native trace folder: reading, writing, and saying what is in it.
//!
//! A folder holds `trace.ron` (where the trace comes from and how many rows its tables have),
//! `objects.csv`, `ops.csv` and `uses.csv`; a table may be packed as `.gz` or `.zst`. Row `r` of a
//! table, counted from zero, is line `r + 2` of its file: no field may hold a line break and no
//! line may be empty, so that every message can name a line.
//! Invariant: whatever the bytes in the folder, reading ends with a trace that keeps every rule or
//! with a list of problems, in memory that stays in proportion to the files.

mod header;
mod info;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod tables;
mod units;
mod write;

pub use info::{KindInfo, ModuleInfo, PeakInfo, PhaseInfo, StepInfo, TraceInfo, UnitInfo, info};
pub use read::read_trace;
pub use write::{Packing, trace_hash, write_new, write_trace};

/// The version of the folder format that is read and written.
pub const SCHEMA: u32 = 1;

/// Columns of `objects.csv`, in the order in which they are written.
pub(crate) const OBJECT_COLUMNS: &[tables::Column] = &[
    tables::required("id"),
    tables::required("name"),
    tables::required("kind"),
    tables::required("bytes"),
    tables::optional("dtype"),
    tables::required("persistent"),
    tables::optional("module"),
    tables::optional("adam_m"),
    tables::optional("adam_v"),
    tables::optional("grad_norm"),
    tables::optional("freed_after"),
];

/// Columns of `ops.csv`, in the order in which they are written.
pub(crate) const OP_COLUMNS: &[tables::Column] = &[
    tables::required("id"),
    tables::required("step"),
    tables::required("phase"),
    tables::required("name"),
    tables::optional("module"),
    tables::optional("stream"),
    tables::optional("rank"),
    tables::optional("duration_ns"),
    tables::optional("flops"),
    tables::optional("bytes"),
    tables::optional("at_ns"),
    tables::optional("after"),
    tables::optional("unit"),
    tables::optional("collective_bytes"),
    tables::optional("group"),
    // Left out where no op has one.
    tables::optional("release_ns"),
];

/// Columns of `uses.csv`, in the order in which they are written.
pub(crate) const USE_COLUMNS: &[tables::Column] = &[
    tables::required("op"),
    tables::required("object"),
    tables::required("mode"),
    tables::optional("pieces"),
    tables::optional("piece_bytes"),
];
