//! Traces of the PyTorch profiler (Kineto) and exports of Nsight Systems: what a GPU really did,
//! with the memory that was given and taken back meanwhile.
//!
//! Such a trace holds activities of the device with their times, and, where the profiler was asked
//! for memory, each allocation. It holds neither which kernel reads which memory nor what the
//! memory holds that was there before: what is worked out of that is said in the uses and in
//! [`Account`]. The file is streamed (`read`, and `nsight` for a database); everything else works on small tables
//! (`tables`): `host` says what each moment lies in, `items` what ran, `steps` when in a
//! step, `order` what waits for what, `memory` which objects there are, `state` what of them
//! is weights, gradients and optimizer state, `build` makes the trace.
//! Invariant: a trace with the recorded durations takes, in unlimited memory, as long as recorded:
//! with gaps the time from the first start to the last end, without them the time in which anything
//! ran.

mod account;
mod build;
mod events;
mod host;
mod items;
mod join;
mod memory;
mod meta;
mod modules;
mod nsight;
mod number;
mod order;
mod profile;
mod read;
mod shapes;
mod shares;
mod state;
mod steps;
mod tables;
mod values;

pub use account::Account;
pub(crate) use meta::day;
pub use tiersim_models::workload::Gaps;

use crate::file_kind::FileKind;
use crate::import::execution::read_tensors;
use std::path::Path;
use tables::Tables;
use tiersim_models::diagnostic::Diagnostics;

/// A native trace, and what was seen, inferred and left out on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Makes a trace of the file that the PyTorch profiler wrote, packed or not, or of the database that
/// Nsight Systems exported.
///
/// # Errors
/// What is wrong with the file, with line, column and event, or that it holds nothing that ran.
pub fn import_profiler(path: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let (tables, mended) = tables_of(path)?;
    build::build(path, &tables, gaps, (mended, None))
}

/// The same, with the tensors of an execution trace of the same steps.
///
/// # Errors
/// What is wrong with either file.
pub fn import_joined(path: &Path, execution: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let tensors = read_tensors(execution)?;
    let (tables, mended) = tables_of(path)?;
    build::build(path, &tables, gaps, (mended, Some(&tensors)))
}

fn tables_of(path: &Path) -> Result<(Tables, u64), Diagnostics> {
    match FileKind::of(path) {
        Some(FileKind::Sqlite) => Ok((nsight::read(path)?, 0)),
        _ => read::read(path),
    }
}
