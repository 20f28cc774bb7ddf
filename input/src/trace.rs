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

pub use info::{
    KindInfo, ModuleInfo, OpsInfo, PeakInfo, PhaseInfo, StepInfo, TraceInfo, UnitInfo, info,
};
pub use read::read_trace;
pub(crate) use write::hex;
pub use write::{Packing, trace_hash, write_new, write_trace};

/// The version of the folder format that is read and written.
pub const SCHEMA: u32 = 1;

/// Columns of `objects.csv`, in the order in which they are written; those that end in `?` may be
/// left out.
pub(crate) const OBJECT_COLUMNS: &str = "id name kind bytes dtype? persistent module? adam_m? \
                                         adam_v? grad_norm? freed_after?";

/// Columns of `ops.csv`. The last two are left out where no op has one.
pub(crate) const OP_COLUMNS: &str = "id step phase name module? stream? rank? duration_ns? flops? \
                                     bytes? at_ns? after? unit? collective_bytes? group? \
                                     release_ns? kernels?";

/// Columns of `uses.csv`.
pub(crate) const USE_COLUMNS: &str = "op object mode pieces? piece_bytes?";
