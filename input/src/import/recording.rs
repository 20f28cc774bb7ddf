//! Recordings of a PyTorch program at the level of aten ops, one row per op with the storages that
//! it reads and writes.
//!
//! A recording is a folder with `ops.jsonl` (one JSON object per line), `objects.csv`,
//! `params.csv`, `adam_state.csv` (may be missing) and `run.json`; every table may be `.gz` or
//! `.zst`. The recorder sees what PyTorch dispatches, so a recording also holds ops that touch no
//! memory of the model: these are dropped and counted in [`Counts`].
//! Invariant: the trace keeps the recorded order, sizes and lifetimes; nothing is made up.

mod adam;
mod build;
mod cost;
mod modules;
mod raw;
mod words;

pub(crate) use words::element_type;

use crate::trace::tables::Findings;
use std::fmt;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::Trace;

/// A native trace, and what was left out or changed on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The trace.
    pub trace: Trace,
    /// What was dropped.
    pub counts: Counts,
}

/// What an import dropped or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of `ops.jsonl`.
    pub recorded_ops: u64,
    /// Ops of the trace.
    pub kept_ops: u64,
    /// Dropped: views, and `_unsafe_view`, which touch no memory.
    pub views: u64,
    /// Dropped: marks of the profiler and other ops without a storage.
    pub marks: u64,
    /// Dropped: `_local_scalar_dense`, which hands one number to Python.
    pub scalar_reads: u64,
    /// Dropped: ops on the optimizer's step counters, which PyTorch keeps on the host.
    pub step_counter_ops: u64,
    /// Rows of `objects.csv`.
    pub recorded_objects: u64,
    /// Objects of the trace.
    pub kept_objects: u64,
    /// Dropped: step counters.
    pub step_counters: u64,
    /// Dropped: other objects that no kept op uses.
    pub unused_objects: u64,
    /// Made persistent because the first kept op that uses them reads them.
    pub made_persistent: u64,
    /// Never released in the recording; they live until the last op.
    pub never_freed: u64,
}

/// Reads the recording in `source`, or says everything that is wrong with it.
pub fn import_recording(source: &Path) -> Result<Imported, Diagnostics> {
    let recording = raw::read(source)?;
    let mut findings = Findings::default();
    let (trace, counts) = build::build(&recording, &mut findings);
    findings.unsound(source, &trace);
    findings.finish().into_result(Imported { trace, counts })
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} recorded ops kept", self.kept_ops, self.recorded_ops)?;
        write!(f, " (dropped: {} views, {} profiler marks", self.views, self.marks)?;
        write!(f, ", {} ops on step counters", self.step_counter_ops)?;
        write!(f, ", {} scalar reads)", self.scalar_reads)?;
        write!(f, "; {} of {} objects kept", self.kept_objects, self.recorded_objects)?;
        write!(f, " (dropped: {} step counters, ", self.step_counters)?;
        write!(f, "{} unused)", self.unused_objects)?;
        write!(f, "; {} made persistent because their first use reads", self.made_persistent)?;
        write!(f, "; {} never released", self.never_freed)
    }
}
