//! The two tables, as they are.
//!
//! Ids of tensors may be any numbers in any order, since a converter may leave tensors out; kernels
//! are numbered from 0, since their order is what the table is for.
//! Invariant: every use of a [`Kernel`] is a row of the tensors, named once with the mode that
//! covers all that the kernel does with it.

use crate::trace::rows::{Row, read_table, whole_number};
use crate::trace::tables::{Findings, LIMITS, ReadBudget, Source};
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::{Mode, Name};

const KERNEL_COLUMNS: &str = "kernel name op? cycles ns? reads writes";
const TENSOR_COLUMNS: &str = "tensor bytes global";

/// How far a kernel's nanoseconds may be from its cycles.
const ROUNDING_PS: u64 = 1000;

/// Bytes that a tensor, the object that is made of it, a kernel and a tensor that a kernel names
/// take at most, names apart, while the trace is made of them; the tests of hostile files hold
/// these numbers against what is taken.
const TENSOR_BYTES: usize = 80;
const MADE_BYTES: usize = 200;
const KERNEL_BYTES: usize = 420;
const USE_BYTES: usize = 48;

/// One row of the kernels.
pub(super) struct Kernel {
    pub(super) name: Name,
    pub(super) ps: u64,
    /// Rows of the tensors: what is read first, then what is only written.
    pub(super) uses: Vec<(usize, Mode)>,
}

/// One row of the tensors.
pub(super) struct Tensor {
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) global: bool,
}

/// The tensors, and the row of each id.
#[derive(Default)]
pub(super) struct TensorTable {
    pub(super) rows: Vec<Tensor>,
    by_id: BTreeMap<u64, usize>,
    /// Whether the rows could be read at all: if not, no kernel is blamed for naming them.
    readable: bool,
}

impl TensorTable {
    /// The tensors alone.
    pub(super) fn into_rows(self) -> Vec<Tensor> {
        self.rows
    }
}

/// Reads the tensors.
pub(super) fn tensors(
    path: &Path,
    budget: &mut ReadBudget,
    findings: &mut Findings,
) -> TensorTable {
    let mut table = TensorTable::default();
    let before = findings.count();
    read_table(open(path), TENSOR_COLUMNS, findings, |row| {
        let id: u64 = row.whole("tensor");
        let tensor = Tensor {
            id,
            bytes: row.whole("bytes"),
            global: row.word("global", &[("0", false), ("1", true)], false),
        };
        if table.by_id.insert(id, table.rows.len()).is_some() {
            row.problem("a tensor has one row", id.to_string(), "remove one of the rows");
        }
        if row.fits(budget, TENSOR_BYTES) {
            table.rows.push(tensor);
        }
    });
    table.readable = findings.count() == before;
    table
}

/// Reads the kernels.
pub(super) fn kernels(
    path: &Path,
    tensors: &TensorTable,
    budget: &mut ReadBudget,
    findings: &mut Findings,
) -> Vec<Kernel> {
    let (mut kernels, before) = (Vec::new(), findings.count());
    read_table(open(path), KERNEL_COLUMNS, findings, |row| {
        let number: u64 = row.whole("kernel");
        if number != row.index {
            let rule = format!("kernel {} comes next", row.index);
            row.problem(rule, number.to_string(), "list kernels in order: 0, 1, 2, ...");
        }
        let (name, ps) = (row.name("name"), duration(row));
        let reads = ids(row, "reads", tensors);
        let writes = ids(row, "writes", tensors);
        let uses = uses(&reads, &writes);
        if row.fits(budget, KERNEL_BYTES + 2 * name.len() + uses.len() * USE_BYTES) {
            kernels.push(Kernel { name, ps, uses });
        }
    });
    if let Err(rule) = budget.take(0, tensors.rows.len() * MADE_BYTES) {
        findings.push(path, None, rule, "more", "leave out tensors that no kernel names");
    }
    if kernels.is_empty() && findings.count() == before {
        findings.push(path, None, "a table without kernels", "", "add them");
    }
    kernels
}

/// Cycles of 1.2 GHz in picoseconds, to the nearest: one cycle is 2500/3 ps.
fn duration(row: &mut Row<'_>) -> u64 {
    let cycles: u64 = row.whole("cycles");
    let ps = (u128::from(cycles) * 5000 + 3) / 6;
    let Ok(ps) = u64::try_from(ps) else {
        let rule = "cycles are up to 213 days of 1.2 GHz";
        row.problem(rule, cycles.to_string(), "check the column");
        return 0;
    };
    if let Some(ns) = row.whole_or_none::<u64>("ns")
        && ns.saturating_mul(1000).abs_diff(ps) > ROUNDING_PS
    {
        let rule = format!("ns is {cycles} cycles of 1.2 GHz, to the nanosecond");
        row.problem(rule, ns.to_string(), "count cycles of 1.2 GHz, or leave ns out");
    }
    ps
}

/// The rows of the tensors that a list of ids such as `4;7` names.
fn ids(row: &mut Row<'_>, column: &str, tensors: &TensorTable) -> Vec<usize> {
    let text = row.text(column).to_owned();
    if text.is_empty() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for id in text.split(';') {
        match whole_number(id).map(|id| tensors.by_id.get(&id)) {
            Some(Some(&found)) => rows.push(found),
            Some(None) if !tensors.readable => {}
            Some(None) => {
                let rule = format!("{column} are tensors of the other table");
                row.problem(rule, id.to_owned(), "add the tensor");
            }
            None => {
                let rule = format!("{column} are tensors, separated by ';'");
                row.problem(rule, format!("{id:?}"), "such as 4;7");
            }
        }
    }
    rows
}

/// Every tensor once, in the order in which it is first named.
fn uses(reads: &[usize], writes: &[usize]) -> Vec<(usize, Mode)> {
    // Rows are sorted to find repetitions: a kernel may name any number of tensors.
    let mut modes: BTreeMap<usize, Mode> = reads.iter().map(|&row| (row, Mode::Read)).collect();
    for &row in writes {
        let mode = modes.entry(row).or_insert(Mode::Write);
        if *mode == Mode::Read {
            *mode = Mode::ReadWrite;
        }
    }
    let named = reads.iter().chain(writes);
    named.filter_map(|row| modes.remove(row).map(|mode| (*row, mode))).collect()
}

/// Opens the file of this very name: a packed one is named with its ending.
fn open(path: &Path) -> Result<Source, Diagnostics> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(Diagnostics::one(path, None::<Place>, "not a file", "", "name a table"));
    };
    Source::open(folder.unwrap_or(Path::new(".")), name, true, LIMITS)
}
