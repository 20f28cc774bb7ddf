//! Traces of the PyTorch profiler (Kineto) and exports of Nsight Systems: what a GPU really did,
//! with the memory that was given and taken back meanwhile.
//!
//! Such a trace holds activities of the device with their times, and, where the profiler was asked
//! for memory, each allocation. It holds neither which kernel reads which memory nor what the
//! memory holds that was there before: what is worked out of that is said in the uses and in
//! [`Account`]. The file is streamed (`read`, and `nsight` for a database); everything else works on small tables
//! (`tables`): `host` says what each moment lies in, `items` what ran, `steps` when in a
//! step, `order` what waits for what, `collectives` what ranks did together, `memory` which objects there are, `state` what of them
//! is weights, gradients and optimizer state, `build` makes the trace.
//! Invariant: a trace with the recorded durations takes, in unlimited memory, as long as recorded:
//! with gaps the time from the first start to the last end, without them the time in which anything
//! ran.

mod account;
mod build;
mod collectives;
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
use crate::import::groups::Group;
use collectives::Seen;
use host::Host;
use items::Items;
use std::path::Path;
use tables::Tables;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::OpId;

/// A native trace, and what was seen, inferred and left out on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Makes a trace of the file that the PyTorch profiler wrote, packed or not, or of the database that
/// Nsight Systems exported.
///
/// # Errors
/// What is wrong with the file, with line, column and event, or that it holds nothing that ran.
pub fn import_profiler(path: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let (tables, mended) = tables_of(path)?;
    build::build(path, &tables, gaps, (mended, None)).map(|built| built.imported)
}

/// The same, with the tensors of an execution trace of the same steps.
///
/// # Errors
/// What is wrong with either file.
pub fn import_joined(path: &Path, execution: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let tensors = read_tensors(execution)?;
    let (tables, mended) = tables_of(path)?;
    build::build(path, &tables, gaps, (mended, Some(&tensors))).map(|built| built.imported)
}

/// The trace, and what of the way to it says more of its ops.
struct Built {
    imported: Imported,
    host: Host,
    items: Items,
    /// By item.
    op_of: Vec<OpId>,
}

/// What one of several ranks recorded.
pub(super) struct OfRank {
    pub(super) imported: Imported,
    /// Which, and of how many, if the file says it.
    pub(super) rank: Option<i64>,
    pub(super) ranks: Option<i64>,
    /// Devices that the file lists: those of the rank's server.
    pub(super) devices: usize,
    pub(super) collectives: Vec<Seen>,
    /// The groups that these are of.
    pub(super) groups: Vec<Group>,
    /// Kernels of the library that are no collective that is known.
    pub(super) others: u64,
}

/// Makes a trace of what one of several ranks recorded, and finds its collectives.
///
/// # Errors
/// As [`import_joined`].
pub(super) fn import_rank(
    path: &Path,
    execution: Option<&Path>,
    gaps: Gaps,
) -> Result<OfRank, Diagnostics> {
    let tensors = execution.map(read_tensors).transpose()?;
    let (tables, mended) = tables_of(path)?;
    let built = build::build(path, &tables, gaps, (mended, tensors.as_ref()))?;
    let of = (&tables, &built.host);
    let (collectives, others) = collectives::collectives(of, &built.items, &built.op_of);
    let (rank, ranks, devices) = (tables.rank, tables.ranks, tables.devices.len());
    let listed = tensors.map(|tensors| tensors.groups).unwrap_or_default();
    let groups = tables.groups.resolved(&[&tables.listed, &listed]);
    Ok(OfRank { imported: built.imported, rank, ranks, devices, collectives, groups, others })
}

fn tables_of(path: &Path) -> Result<(Tables, u64), Diagnostics> {
    match FileKind::of(path) {
        Some(FileKind::Sqlite) => Ok((nsight::read(path)?, 0)),
        _ => read::read(path),
    }
}
