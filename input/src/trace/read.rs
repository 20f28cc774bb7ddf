//! Reading a trace folder.
//!
//! Header first, then the tables, each streamed once. As long as fields are wrong, the fields are
//! reported; once every field can be read, [`Trace::problems`] says which rules the whole breaks,
//! and its rows are given back as lines.
//! Invariant: a returned trace has no problems, and its modules are numbered in the order in which
//! `objects.csv`, then `ops.csv`, first name them.

use super::header::{HEADER_FILE, Header, Rows, count_steps};
use super::rows::{Row, push, read_rows, whole_number};
use super::tables::{Findings, LIMITS, Limits, Source, file_or_folder};
use super::{OBJECT_COLUMNS, OP_COLUMNS, STATISTICS_COLUMNS, USE_COLUMNS, statistics, units};
use crate::file_kind::{FileKind, refused};
use crate::shipped::EMBEDDED;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::ids::{ModuleId, ObjectId, OpId, RankId};
use tiersim_models::kernel::Kernel;
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Known, Mode, Name, Object, ObjectKind, Op, PartialUse, Phase, Table, Trace, TraceProblem, Use,
};

/// Reads the trace in `folder`, or says everything that is wrong with it.
pub fn read_trace(folder: &Path) -> Result<Trace, Diagnostics> {
    file_or_folder(folder)?;
    let read = read_within(folder, LIMITS);
    read.map_err(|said| match absent(folder) {
        Some(absent) => absent,
        None if folder.is_file() => refused(folder, &[FileKind::TraceFolder], no_folder(folder)),
        None => refused(folder, &[FileKind::TraceFolder], said),
    })
}

/// A folder that is not there has no files that are missing from it.
fn absent(folder: &Path) -> Option<Diagnostics> {
    let error = fs::metadata(folder).err()?;
    let told = error.kind() == io::ErrorKind::NotFound && !folder.starts_with(EMBEDDED);
    let rule = "there is no such file or folder";
    let remedy = "check the path, from the folder in which one stands";
    told.then(|| Diagnostics::one(folder, None, rule, "", remedy))
}

/// That a file is no folder, whatever it is.
fn no_folder(file: &Path) -> Diagnostics {
    let rule = "the folder of a trace is wanted here, and this is a file";
    let remedy = format!(
        "name the folder, or make one of a recording by `tiersim trace import {} --out TRACE`",
        file.display()
    );
    Diagnostics::one(file, None, rule, "", remedy)
}

/// As [`read_trace`], with other limits.
pub(super) fn read_within(folder: &Path, limits: Limits) -> Result<Trace, Diagnostics> {
    let mut findings = Findings::default();
    let header = Header::read(folder, &mut findings);
    let rows = header.as_ref().map(|header| header.rows);
    let mut modules = Names::default();
    let mut reader = Reader { folder, limits, rows, findings };
    let (objects_file, objects) = reader.objects(&mut modules);
    let (ops_file, mut ops) = reader.ops(&mut modules);
    let (uses_file, uses) = reader.uses(&mut ops);
    let objects = reader.histories(objects);
    let mut findings = reader.findings;
    let Some(header) = header.filter(|_| findings.is_empty()) else {
        return Err(findings.finish());
    };
    let steps = header.steps;
    let trace =
        Trace { meta: header.into_meta(), modules: modules.into_list(), objects, ops, uses };
    let found = count_steps(&trace);
    if found != steps {
        let rule = format!("ops.csv holds {found} steps, trace.ron says another number");
        let remedy = "correct steps in trace.ron";
        findings.push(&folder.join(HEADER_FILE), None, rule, steps.to_string(), remedy);
    }
    for TraceProblem { table, row, found, remedy } in trace.problems() {
        let file = match table {
            Table::Objects => &objects_file,
            Table::Ops => &ops_file,
            Table::Uses => &uses_file,
        };
        let place = Place { line: row as u64 + 2, column: 0 };
        findings.push(file, Some(place), found, "", remedy);
    }
    findings.finish().into_result(trace)
}

/// Numbers names in the order in which they first occur.
#[derive(Default)]
pub(crate) struct Names {
    by_name: BTreeMap<String, ModuleId>,
}

impl Names {
    /// The number of `name`; nothing for an empty one.
    pub(crate) fn id(&mut self, name: &str) -> Option<ModuleId> {
        if name.is_empty() {
            return None;
        }
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        // More names than a u32 can count would not fit the size limits of the tables.
        let id = ModuleId(u32::try_from(self.by_name.len()).ok()?);
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    /// All names, by number.
    pub(crate) fn into_list(self) -> Vec<Name> {
        let mut list = vec![Name::default(); self.by_name.len()];
        for (name, id) in self.by_name {
            list[id.0 as usize] = name.into();
        }
        list
    }
}

struct Reader<'a> {
    folder: &'a Path,
    limits: Limits,
    rows: Option<Rows>,
    findings: Findings,
}

impl Reader<'_> {
    fn objects(&mut self, modules: &mut Names) -> (PathBuf, Vec<Object>) {
        let mut objects = Vec::new();
        let most = self.rows.map(|rows| rows.objects);
        let file = self.table("objects.csv", OBJECT_COLUMNS, most, |row| {
            push(&mut objects, read_object(row, modules));
        });
        (file, objects)
    }

    fn ops(&mut self, modules: &mut Names) -> (PathBuf, Vec<Op>) {
        let mut ops = Vec::new();
        let most = self.rows.map(|rows| rows.ops);
        let file =
            self.table("ops.csv", OP_COLUMNS, most, |row| push(&mut ops, read_op(row, modules)));
        (file, ops)
    }

    fn uses(&mut self, ops: &mut [Op]) -> (PathBuf, Vec<Use>) {
        let mut uses = Vec::new();
        let mut current = 0u32;
        // A table with problems leaves `ops` short; then its rows cannot be told from bad ones.
        let complete = self.findings.is_empty();
        let most = self.rows.map(|rows| rows.uses);
        let file = self.table("uses.csv", USE_COLUMNS, most, |row| {
            let op: u32 = row.whole("op");
            let object = ObjectId(row.whole("object"));
            let mode = row.word("mode", &Mode::ALL.map(|mode| (mode.word(), mode)), Mode::Read);
            if op < current {
                let rule = format!("ops come in order: {current} or later is next");
                row.problem(rule, op.to_string(), "sort the rows by op");
            } else if complete && op as usize >= ops.len() {
                let rule = format!("op is a row of ops.csv, which has {}", ops.len());
                row.problem(rule, op.to_string(), "name an op of ops.csv");
            } else if complete {
                close(ops, current, op as usize, uses.len());
                current = op;
            }
            let pieces = row.whole_or_none("pieces").map(NonZeroU32::new);
            let piece = row.whole_or_none("piece_bytes").map(NonZeroU32::new);
            let part = match (pieces, piece) {
                (None, None) => None,
                (Some(Some(pieces)), Some(Some(piece))) => Some(PartialUse { pieces, piece }),
                _ => {
                    let rule = "pieces and piece_bytes are both above 0, or both empty";
                    let found =
                        format!("{:?} and {:?}", row.text("pieces"), row.text("piece_bytes"));
                    row.problem(
                        rule.to_owned(),
                        found,
                        "write both, or neither for the whole object",
                    );
                    None
                }
            };
            let known = match row.text("known") {
                "" => Known::Seen,
                _ => row.word("known", &Known::ALL.map(|one| (one.word(), one)), Known::Seen),
            };
            push(&mut uses, Use { object, mode, part, known });
        });
        if complete {
            close(ops, current, ops.len(), uses.len());
        }
        (file, uses)
    }

    /// Gives objects what is known of them step by step, if the header says that there is a table.
    fn histories(&mut self, mut objects: Vec<Object>) -> Vec<Object> {
        let most = self.rows.map_or(0, |rows| rows.statistics);
        if most == 0 {
            let there = statistics::is_there(self.folder);
            if let Some(file) = there.filter(|_| self.rows.is_some()) {
                let rule = "trace.ron counts no rows of this table";
                let remedy = "write rows: (..., statistics: N) there, or remove the file";
                self.findings.push(&file, None, rule, "", remedy);
            }
            return objects;
        }
        let mut steps = statistics::Steps::default();
        let complete = self.findings.is_empty();
        let known = if complete { objects.len() } else { usize::MAX };
        let file = self.table(statistics::FILE, STATISTICS_COLUMNS, Some(most), |row| {
            steps.push(row, known);
        });
        if self.findings.is_empty() {
            match steps.histories() {
                Ok(found) => {
                    for (object, history) in found {
                        objects[object.index()].history = Some(history);
                    }
                }
                Err(rule) => {
                    let remedy = "give every step the same objects, or leave the table out";
                    self.findings.push(&file, None, rule, "", remedy);
                }
            }
        }
        objects
    }

    /// Reads one table and checks its number of rows.
    fn table(
        &mut self,
        name: &str,
        columns: &'static str,
        expected: Option<u64>,
        each: impl FnMut(&mut Row<'_>),
    ) -> PathBuf {
        let source = match Source::open(self.folder, name, true, self.limits) {
            Ok(source) => source,
            Err(problems) => {
                self.findings.extend(problems);
                return self.folder.join(name);
            }
        };
        // Ids are 32 bits wide.
        let most = expected.unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        let before = self.findings.count();
        let (file, rows) = read_rows(source, columns, Some(most), &mut self.findings, each);
        if let Some(expected) = expected.filter(|&expected| rows < expected) {
            // Where the table could not be read to its end, that has been said already.
            if self.findings.count() == before {
                let rule = format!("{rows} rows where trace.ron says {expected}");
                let remedy = "copy the file again: it was cut off (or correct rows in trace.ron)";
                self.findings.push(&file, None, rule, "", remedy);
            }
        }
        file
    }
}

/// The uses of op `from` end here, the ops between it and `to` have none, and `to` starts here.
fn close(ops: &mut [Op], from: u32, to: usize, end: usize) {
    let from = from as usize;
    if from >= to {
        return;
    }
    // The table has at most 2^32 - 1 rows.
    let end = end as u32;
    ops[from].uses.end = end;
    for op in ops.iter_mut().take(to + 1).skip(from + 1) {
        op.uses = end..end;
    }
}

fn read_object(row: &mut Row<'_>, modules: &mut Names) -> Object {
    row.expect_id();
    let kinds = ObjectKind::ALL.map(|kind| (kind.word(), kind));
    Object {
        name: row.name("name"),
        kind: row.word("kind", &kinds, ObjectKind::Buffer),
        bytes: Bytes::new(row.whole("bytes")),
        dtype: row.name("dtype").into(),
        persistent: row.word("persistent", &[("true", true), ("false", false)], true),
        module: modules.id(&row.name("module")),
        statistics: statistics::read_statistics(row),
        history: None,
        freed_after: row.whole_or_none("freed_after").map(OpId),
    }
}

fn read_op(row: &mut Row<'_>, modules: &mut Names) -> Op {
    row.expect_id();
    let phases = Phase::ALL.map(|phase| (phase.word(), phase));
    Op {
        step: row.whole("step"),
        phase: row.word("phase", &phases, Phase::Other),
        name: row.name("name"),
        module: modules.id(&row.name("module")),
        stream: row.whole_or_none("stream").unwrap_or(0),
        rank: RankId(row.whole_or_none("rank").unwrap_or(0)),
        duration: row.picoseconds_or_none("duration_ns").map(Span::from_ps),
        flops: row.whole_or_none("flops").unwrap_or(0),
        bytes: Bytes::new(row.whole_or_none("bytes").unwrap_or(0)),
        at: row.picoseconds_or_none("at_ns").map(Time::from_ps),
        release: row.picoseconds_or_none("release_ns").map(Time::from_ps),
        after: read_after(row),
        unit: units::read_unit(row),
        kernels: read_kernels(row),
        uses: 0..0,
    }
}

fn read_kernels(row: &mut Row<'_>) -> Option<Arc<[Kernel]>> {
    let text = row.text("kernels").to_owned();
    if text.is_empty() {
        return None;
    }
    let kernels: Result<Vec<Kernel>, _> = text.split(';').map(str::parse).collect();
    match kernels {
        Ok(kernels) => Some(kernels.into()),
        Err(_) => {
            let rule = "kernels are times*word(shape):flops:bytes, joined by ';'";
            row.problem(rule, text, "correct them, or leave the field empty");
            None
        }
    }
}

fn read_after(row: &mut Row<'_>) -> Vec<OpId> {
    let text = row.text("after");
    if text.is_empty() {
        return Vec::new();
    }
    let one = |id: &str| whole_number(id).and_then(|id| u32::try_from(id).ok()).map(OpId);
    match text.split(';').map(one).collect() {
        Some(ids) => ids,
        None => {
            let found = text.to_owned();
            row.problem("after is op ids joined by ';'", found, "write ids of earlier ops");
            Vec::new()
        }
    }
}
