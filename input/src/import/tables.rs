//! Training iterations as two plain tables: kernels with their times, and the tensors that they
//! read and write, as the front end of the G10 artefact (MICRO 2023) prints them.
//!
//! The tables hold no transfers and no allocator, only order, sizes and times, which is all that a
//! trace needs. Durations are counted in cycles of 1.2 GHz, the clock that the artefact reports in,
//! since nanoseconds have been rounded.
//! Invariant: the trace keeps the order, every kernel, and every tensor that takes memory while
//! a kernel runs; what is left out or changed is counted in [`Counts`].

mod read;

use crate::trace::tables::{Findings, ReadBudget};
use read::{Kernel, Tensor};
use std::fmt;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::ObjectId;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, Phase, Recorded, Trace, TraceMeta, Use,
};

/// Where the tables are, and what they do not say themselves.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The table of kernels; may be `.gz` or `.zst`.
    pub kernels: PathBuf,
    /// The table of tensors; may be `.gz` or `.zst`.
    pub tensors: PathBuf,
    /// Samples per iteration, at least 1.
    pub batch: u32,
}

/// A native trace, and what was left out or changed on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The trace: one step.
    pub trace: Trace,
    /// What was dropped or changed.
    pub counts: Counts,
}

/// What an import dropped or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of the table of kernels, all of which are kept.
    pub kernels: u64,
    /// Kernels that name no tensor.
    pub without_tensors: u64,
    /// Rows of the table of tensors.
    pub tensors: u64,
    /// Tensors of the trace.
    pub kept: u64,
    /// Dropped: tensors of 0 bytes.
    pub empty: u64,
    /// Dropped: tensors that are not global and that no kernel uses, so that they have no lifetime.
    pub unused: u64,
    /// Tensors that are not global and that a kernel reads before any has written them: inputs. The
    /// first use becomes a write, so that their lives start there.
    pub read_first: u64,
}

/// Reads two tables, or says everything that is wrong with them.
pub fn import_tables(from: &Tables) -> Result<Imported, Diagnostics> {
    let (mut findings, mut budget) = (Findings::default(), ReadBudget::default());
    let tensors = read::tensors(&from.tensors, &mut budget, &mut findings);
    let kernels = read::kernels(&from.kernels, &tensors, &mut budget, &mut findings);
    // The map from ids to rows ends here: the trace is as large.
    let tensors = tensors.into_rows();
    if !findings.is_empty() {
        return Err(findings.finish());
    }
    let (trace, counts) = build(from, &kernels, &tensors);
    findings.unsound(&from.kernels, &trace);
    findings.finish().into_result(Imported { trace, counts })
}

fn build(from: &Tables, kernels: &[Kernel], tensors: &[Tensor]) -> (Trace, Counts) {
    let mut counts = Counts {
        kernels: kernels.len() as u64,
        tensors: tensors.len() as u64,
        ..Counts::default()
    };
    let mut used = vec![false; tensors.len()];
    for &(row, _) in kernels.iter().flat_map(|kernel| &kernel.uses) {
        used[row] = true;
    }
    let mut objects = Vec::new();
    let mut ids = vec![None; tensors.len()];
    for (row, tensor) in tensors.iter().enumerate() {
        if tensor.bytes == 0 {
            counts.empty += 1;
        } else if !tensor.global && !used[row] {
            counts.unused += 1;
        } else {
            ids[row] = Some(ObjectId::at(objects.len()));
            objects.push(object(tensor));
        }
    }
    counts.kept = objects.len() as u64;
    let (mut ops, mut uses) = (Vec::new(), Vec::new());
    let mut written: Vec<bool> = tensors.iter().map(|tensor| tensor.global).collect();
    for kernel in kernels {
        let (from, mut bytes) = (uses.len() as u32, 0u64);
        for &(row, mode) in &kernel.uses {
            let Some(object) = ids[row] else { continue };
            let born = !std::mem::replace(&mut written[row], true);
            counts.read_first += u64::from(born && mode.reads());
            let mode = if born { Mode::Write } else { mode };
            let ways = u64::from(mode.reads()) + u64::from(mode.writes());
            bytes = bytes.saturating_add(tensors[row].bytes.saturating_mul(ways));
            uses.push(Use::whole(object, mode));
        }
        counts.without_tensors += u64::from(from == uses.len() as u32);
        let mut op = Op::new(0, phase(&kernel.name), kernel.name.clone(), from..uses.len() as u32);
        op.duration = Some(Span::from_ps(kernel.ps));
        op.bytes = Bytes::new(bytes);
        ops.push(op);
    }
    let meta = TraceMeta {
        name: name(&from.kernels),
        about: format!("one training iteration from tables of kernels and tensors; {counts}"),
        precision: "unknown".into(),
        batch: from.batch,
        sequence: 1,
        recorded: Recorded { how: "tiersim trace import tables".into(), ..Recorded::default() },
    };
    (Trace { meta, modules: Vec::new(), objects, ops, uses }, counts)
}

/// Global tensors hold parameters, gradients and other state alike and the tables do not say
/// which, so none of them is called a weight.
fn object(tensor: &Tensor) -> Object {
    Object {
        persistent: tensor.global,
        ..Object::new(
            format!("t{}", tensor.id),
            if tensor.global { ObjectKind::Buffer } else { ObjectKind::Activation },
            Bytes::new(tensor.bytes),
        )
    }
}

/// The front end names the pass in the kernel's name, such as `Linear_Backward_Weight`.
fn phase(kernel: &str) -> Phase {
    let says = |word: &str| kernel.split('_').any(|part| part == word);
    if says("Apply") {
        Phase::Optimizer
    } else if says("Backward") || says("MultiGredient") {
        Phase::Backward
    } else if says("Forward") || says("makeLoss") {
        Phase::Forward
    } else {
        Phase::Other
    }
}

/// The file's name without what says that it is a table.
fn name(path: &Path) -> String {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut name = file.unwrap_or_default();
    for end in [".gz", ".zst", ".csv", ".kernels"] {
        let kept = name.strip_suffix(end).unwrap_or(&name).len();
        name.truncate(kept);
    }
    if name.is_empty() { "tables".into() } else { name }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kernels ({} without tensors)", self.kernels, self.without_tensors)?;
        write!(f, "; {} of {} tensors kept ", self.kept, self.tensors)?;
        write!(f, "(dropped: {} of 0 bytes, {} unused)", self.empty, self.unused)?;
        write!(f, "; {} born at a kernel that reads them", self.read_first)
    }
}
