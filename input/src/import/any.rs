//! Makes a trace of a file that another program wrote, whatever it is.
//!
//! Invariant: which reader takes a file follows from its first bytes, never from its name.

use crate::file_kind::FileKind;
use crate::import::chakra::import_chakra;
use crate::import::execution::import_execution;
use crate::import::footprint::{import_snapshot, import_timeline};
use crate::import::profiler::import_profiler;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Gaps, Trace};

/// A native trace, and in words what was seen, inferred and left out on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The trace.
    pub trace: Trace,
    /// The words.
    pub account: String,
}

/// Makes a trace of `path`, packed or not.
///
/// # Errors
/// What is wrong with the file, or what it is instead of one that becomes a trace.
pub fn import_file(path: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    match FileKind::of(path) {
        Some(FileKind::ExecutionTrace) => {
            let imported = import_execution(path)?;
            Ok(Imported { trace: imported.trace, account: imported.account.to_string() })
        }
        Some(FileKind::ChakraTrace) => {
            let imported = import_chakra(path, gaps)?;
            Ok(Imported { trace: imported.trace, account: imported.account.to_string() })
        }
        Some(FileKind::Pickle | FileKind::SnapshotText) => {
            let imported = import_snapshot(path)?;
            Ok(Imported { trace: imported.trace, account: imported.account.to_string() })
        }
        Some(FileKind::MemoryTimeline) => {
            let imported = import_timeline(path)?;
            Ok(Imported { trace: imported.trace, account: imported.account.to_string() })
        }
        Some(FileKind::ProfilerTrace) | None => {
            let imported = import_profiler(path, gaps)?;
            Ok(Imported { trace: imported.trace, account: imported.account.to_string() })
        }
        Some(other) => Err(other.is_no_recording(path)),
    }
}
