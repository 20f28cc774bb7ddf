//! What Nsight Systems recorded, of the database that `nsys export --type sqlite` makes of it.
//!
//! Each row becomes the event that the PyTorch profiler would have written, so that everything
//! behind the tables is the same for both. Tables are made as they are needed and columns differ by
//! version, so each may be absent; what that leaves unknown is said. Numbers in the place of words
//! are those of NVIDIA's "SQLite Schema Reference" and of CUPTI.
//! Invariant: the database is read and nothing else: nothing beside it is made, looked at or run.

#[cfg(feature = "nsight")]
mod database;
#[cfg(feature = "nsight")]
mod rows;
#[cfg(feature = "nsight")]
mod words;

use super::tables::Tables;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// Reads an export: of a process, or else of the one whose devices did the most.
///
/// # Errors
/// What is wrong with the database, or that nothing in it ran on a device.
#[cfg(feature = "nsight")]
pub(super) fn read(path: &Path, process: Option<i64>) -> Result<Tables, Diagnostics> {
    rows::read(path, process)
}

/// The processes that call collectives, by the numbers of their devices.
///
/// # Errors
/// What is wrong with the database.
#[cfg(feature = "nsight")]
pub(super) fn meeting(path: &Path) -> Result<Vec<i64>, Diagnostics> {
    rows::meeting(path)
}

/// None: this program reads no export.
///
/// # Errors
/// None.
#[cfg(not(feature = "nsight"))]
pub(super) fn meeting(_: &Path) -> Result<Vec<i64>, Diagnostics> {
    Ok(Vec::new())
}

/// Says that this program reads none.
///
/// # Errors
/// That, always.
#[cfg(not(feature = "nsight"))]
pub(super) fn read(path: &Path, _: Option<i64>) -> Result<Tables, Diagnostics> {
    let rule = "this is a database of SQLite, such as Nsight Systems exports, and this tiersim was \
                built without the feature `nsight`, which reads them";
    let remedy = "build the command from source: `cargo build --release --features nsight`";
    Err(Diagnostics::one(path, None, rule, "", remedy))
}
