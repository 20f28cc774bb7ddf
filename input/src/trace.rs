//! The native trace folder: reading, writing, and saying what is in it.
//!
//! A folder holds `trace.ron` (where the trace comes from and how many rows its tables have),
//! `objects.csv`, `ops.csv`, `uses.csv` and, if there are statistics step by step,
//! `statistics.csv`; a table may be packed as `.gz` or `.zst`. Row `r` of a
//! table, counted from zero, is line `r + 2` of its file: no field may hold a line break and no
//! line may be empty, so that every message can name a line.
//! Invariant: whatever the bytes in the folder, reading ends with a trace that keeps every rule or
//! with a list of problems, in memory that stays in proportion to the files.

pub mod diff;
mod header;
mod info;
pub(crate) mod layout;
pub(crate) mod read;
pub(crate) mod rows;
mod statistics;
pub(crate) mod tables;
mod units;
mod write;

pub(crate) use info::shape::distribution;
pub use info::{
    KindInfo, ModuleInfo, OpsInfo, PeakInfo, PhaseInfo, ReuseInfo, StepInfo, TraceInfo, UnitInfo,
    info, shape,
};
pub use read::read_trace;
pub(crate) use units::{group_of, group_text};
pub(crate) use write::hex;
pub use write::{Named, Packing, trace_files, trace_hash, trace_names, write_new, write_trace};

/// The version of the folder format that is read and written.
pub const SCHEMA: u32 = 1;

/// Columns of `objects.csv`, in the order in which they are written; those that end in `?` may be
/// left out.
///
/// * `id`: 0, 1, 2, ...; its position.
/// * `name`: text, 1 to 256 bytes; unique.
/// * `kind`: `weight`, `gradient`, `optimizer`, `master`, `activation`, `kv`, `buffer`, `state`; what
///   it holds: `state` is what was there before a recording began and of which only the size is
///   known.
/// * `bytes`: whole number above 0; size.
/// * `dtype`: text; element type, such as `float32`; for people, and for formats of packed memory
///   that name types.
/// * `persistent`: `true`, `false`; exists before the first op and after the last.
/// * `module`: text; the module that owns it.
/// * `adam_m`: number from 0; of a weight: mean of abs(exp_avg), Adam's first moment.
/// * `adam_v`: number from 0; of a weight: mean of sqrt(exp_avg_sq), the second.
/// * `grad_norm`: number from 0; of a weight: norm of its gradient.
/// * `freed_after`: op id, not before its last use; the op after which its memory was given back;
///   not for persistent objects.
pub(crate) const OBJECT_COLUMNS: &str = "id name kind bytes dtype? persistent module? adam_m? \
                                         adam_v? grad_norm? freed_after?";

/// Columns of `statistics.csv`.
///
/// * `step`: 0, 1, 2, ...; the step of a run, replays counted, that begins with these.
/// * `object`: object id, rising within a step; the same ones in every step; whose.
/// * `adam_m`: number from 0; as in `objects.csv`.
/// * `adam_v`: number from 0; as in `objects.csv`.
/// * `grad_norm`: number from 0; as in `objects.csv`.
pub(crate) const STATISTICS_COLUMNS: &str = "step object adam_m? adam_v? grad_norm?";

/// Columns of `ops.csv`. The last two are left out where no op has one.
///
/// * `id`: 0, 1, 2, ...; its position.
/// * `step`: whole number, never decreasing; the step that it belongs to; need not start at 0.
/// * `phase`: `forward`, `backward`, `optimizer`, `prefill`, `decode`, `other`; the part of the
///   step.
/// * `name`: text, 1 to 256 bytes; the kernel.
/// * `module`: text; the module that it works for.
/// * `stream`: 0 to 65535, default 0; in-order queue of the device; streams run beside each
///   other.
/// * `rank`: 0; the process; a trace is of one, and a scenario's [`ranks`](#workload) run it side
///   by side.
/// * `duration_ns`: ns, up to three decimals; time on the recording device; needed for
///   `recorded`.
/// * `flops`: whole number, default 0; floating-point operations.
/// * `bytes`: whole number, default 0; bytes read plus written in the device's memory, for the
///   roofline.
/// * `at_ns`: ns, up to three decimals; start on the recording device; not used in runs.
/// * `after`: ids of earlier ops joined by `;`; ops of other streams to wait for, beyond what
///   data demands.
/// * `unit`: `device`, `cpu`, `idle` or a collective: `all-gather`, `reduce-scatter`,
///   `all-reduce`, `all-to-all`, `send-recv`, `broadcast`, default `device`; what it runs on: the
///   device, the host's processors, nothing (the stream waits for as long as the device would
///   take), or the [links between devices](#collectives).
/// * `collective_bytes`: of collectives: 1 to 2^60; the whole buffer: what an all-gather makes,
///   what a reduce-scatter takes, what an all-reduce takes and makes, what one rank of an
///   all-to-all has, what a rank of the others sends.
/// * `group`: of collectives: ranks in a server `x` servers, such as `8x64`, and `x` how often if
///   that is more than once (`8x1x80`); who takes part, at most 2^20 ranks, and how many such
///   follow one another.
/// * `release_ns`: ns, up to three decimals; the op may not start before, counted from the start
///   of the run: what it works for arrives then. A trace that has such ops runs once (`repeat:
///   1`), in the simulator only.
/// * `kernels`: kernels joined by `;`; what the op stands for, priced by [`op_times`](#op-times):
///   `times*word(shape):flops:bytes`, see below.
pub(crate) const OP_COLUMNS: &str = "id step phase name module? stream? rank? duration_ns? flops? \
                                     bytes? at_ns? after? unit? collective_bytes? group? \
                                     release_ns? kernels?";

/// Columns of `uses.csv`.
///
/// * `op`: op id; who.
/// * `object`: object id; what.
/// * `mode`: `r`, `w`, `rw`; how.
/// * `pieces`: whole number above 0; of how many pieces: see below.
/// * `piece_bytes`: with `pieces`: 1 to 2^32 - 1; bytes of a piece that lie beside each other.
/// * `known`: `seen`, `inferred`, `unknown`, default `seen`; how an [import](imports.md) knows it; for
///   people, no run depends on it.
pub(crate) const USE_COLUMNS: &str = "op object mode pieces? piece_bytes? known?";
