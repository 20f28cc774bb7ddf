//! Writing a trace folder.
//!
//! The same trace always gives the same bytes: columns and rows in a fixed order, numbers in their
//! shortest form that reads back equal, packed tables without a time stamp.
//! Invariant: every file is written beside its place and renamed into it, and `trace.ron` comes
//! last after the old one was removed, so a folder with a `trace.ron` is complete.

use super::header::{HEADER_FILE, Header};
use super::tables::{columns, describe};
use super::{OBJECT_COLUMNS, OP_COLUMNS, STATISTICS_COLUMNS, USE_COLUMNS, statistics, units};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::ModuleId;
use tiersim_models::kernel::Kernel;
use tiersim_models::workload::{Known, Op, PartialUse, Statistics, Trace, TraceProblem, Unit};

/// Whether tables are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Tables are plain text.
    Plain,
    /// Tables are `.gz` files.
    Gzip,
    /// A table becomes a `.gz` file where that is less than half its size.
    Smaller,
}

/// Writes `trace` into `folder`, which is made if it is missing; other files in it are left alone.
///
/// A trace that breaks a rule is refused, since it could not be read back. Modules that nothing
/// names are not written, and reading numbers the others anew in the order of their first use.
pub fn write_trace(trace: &Trace, folder: &Path, packing: Packing) -> Result<(), Diagnostics> {
    let (header, tables) = texts(trace, folder)?;
    write_files(folder, &tables, &header, packing).map_err(|error| {
        for (name, _) in &tables {
            let _ = remove(&folder.join(partial(name)));
            let _ = remove(&folder.join(partial(&format!("{name}.gz"))));
        }
        let _ = remove(&folder.join(partial(HEADER_FILE)));
        describe(folder, &error)
    })
}

/// All names that files of a trace may have in its folder, the header first.
pub fn trace_names() -> impl Iterator<Item = String> {
    let tables = ["objects.csv", "ops.csv", "uses.csv", statistics::FILE];
    let packed = |name: &str| ["", ".gz", ".zst"].map(|ending| format!("{name}{ending}"));
    [HEADER_FILE.to_owned()].into_iter().chain(tables.into_iter().flat_map(packed))
}

/// The name of a file in a trace's folder, and what it holds.
pub type Named = (&'static str, String);

/// The files of a trace's folder, plain.
///
/// # Errors
/// What keeps the trace from being written into `folder`, as [`write_trace`].
pub fn trace_files(trace: &Trace, folder: &Path) -> Result<Vec<Named>, Diagnostics> {
    let (header, mut files) = texts(trace, folder)?;
    files.push((HEADER_FILE, header));
    Ok(files)
}

/// The header and the tables.
fn texts(trace: &Trace, folder: &Path) -> Result<(String, Vec<Named>), Diagnostics> {
    let mut problems = Diagnostics::default();
    for TraceProblem { table, row, found, remedy } in trace.problems() {
        let rule = format!("{table}, row {row}: {found}");
        problems.push(folder, None, rule, "", remedy);
    }
    if !problems.0.is_empty() {
        return Err(problems);
    }
    let header = Header::of(trace).to_text().map_err(|error| {
        let rule = format!("the header cannot be written: {error}");
        Diagnostics::one(folder, None, rule, "", "report this: it is a fault of the program")
    })?;
    let mut tables = vec![
        ("objects.csv", object_table(trace)),
        ("ops.csv", op_table(trace)),
        ("uses.csv", use_table(trace)),
    ];
    tables.extend(statistics_table(trace).map(|table| (statistics::FILE, table)));
    Ok((header, tables))
}

/// The SHA-256 of what a trace says, in hexadecimal, however its tables are packed.
pub fn trace_hash(trace: &Trace) -> String {
    let mut digest = Sha256::new();
    digest.update(format!("{:?}", trace.meta));
    let tables = [object_table(trace), op_table(trace), use_table(trace)];
    for table in tables.into_iter().chain(statistics_table(trace)) {
        digest.update(table);
    }
    hex(digest)
}

/// A hash in hexadecimal.
pub(crate) fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_files(folder: &Path, tables: &[Named], header: &str, packing: Packing) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut waiting = Vec::new();
    for (name, text) in tables {
        let (name, bytes) = packed(name, text, packing)?;
        write_partial(folder, &name, &bytes)?;
        waiting.push(name);
    }
    write_partial(folder, HEADER_FILE, header.as_bytes())?;
    // A table of statistics that the trace had before would be one that the header does not count.
    for old in trace_names() {
        remove(&folder.join(old))?;
    }
    waiting.push(HEADER_FILE.to_owned());
    for name in waiting {
        fs::rename(folder.join(partial(&name)), folder.join(&name))?;
    }
    Ok(())
}

fn packed(name: &str, text: &str, packing: Packing) -> io::Result<(String, Vec<u8>)> {
    if packing == Packing::Plain {
        return Ok((name.to_owned(), text.as_bytes().to_vec()));
    }
    // No time stamp, no name and an unknown system: the bytes depend on the text only.
    let header = GzBuilder::new().mtime(0).operating_system(255);
    let mut encoder = header.write(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    let bytes = encoder.finish()?;
    if packing == Packing::Smaller && bytes.len() >= text.len() / 2 {
        return Ok((name.to_owned(), text.as_bytes().to_vec()));
    }
    Ok((format!("{name}.gz"), bytes))
}

fn partial(name: &str) -> String {
    format!(".{name}.partial")
}

fn write_partial(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = folder.join(partial(name));
    remove(&path)?;
    write_new(&path, bytes)
}

/// Writes a file that is not there yet, through to the disk; what is there already is not followed.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn object_table(trace: &Trace) -> String {
    let mut text = header_line(OBJECT_COLUMNS, 11);
    for (id, object) in trace.objects.iter().enumerate() {
        let statistics = &object.statistics;
        let fields = [
            id.to_string(),
            quoted(&object.name),
            object.kind.word().to_owned(),
            object.bytes.get().to_string(),
            quoted(&object.dtype),
            object.persistent.to_string(),
            module(trace, object.module),
            real(statistics.adam_m),
            real(statistics.adam_v),
            real(statistics.grad_norm),
            object.freed_after.map(|op| op.0.to_string()).unwrap_or_default(),
        ];
        push_line(&mut text, &fields);
    }
    text
}

fn op_table(trace: &Trace) -> String {
    // What a trace of one device alone says is the same as before there were others, and what one
    // without arrivals says as before there were any.
    let units = trace.ops.iter().any(|op| op.unit != Unit::Device);
    let releases = trace.ops.iter().any(|op| op.release.is_some());
    let kernels = trace.ops.iter().any(|op| op.kernels.is_some());
    let columns = match (kernels, releases, units) {
        (true, _, _) => 17,
        (_, true, _) => 16,
        (_, _, true) => 15,
        (_, _, false) => 15 - units::COLUMNS,
    };
    let mut text = header_line(OP_COLUMNS, columns);
    for (id, op) in trace.ops.iter().enumerate() {
        let after: Vec<String> = op.after.iter().map(|op| op.0.to_string()).collect();
        let [unit, bytes, group] = units::fields(op.unit);
        let fields = [
            id.to_string(),
            op.step.to_string(),
            op.phase.word().to_owned(),
            quoted(&op.name),
            module(trace, op.module),
            op.stream.to_string(),
            op.rank.0.to_string(),
            op.duration.map(|span| nanoseconds(span.ps())).unwrap_or_default(),
            op.flops.to_string(),
            op.bytes.get().to_string(),
            op.at.map(|time| nanoseconds(time.ps())).unwrap_or_default(),
            after.join(";"),
            unit,
            bytes,
            group,
            op.release.map(|time| nanoseconds(time.ps())).unwrap_or_default(),
            quoted(&kernels_of(op)),
        ];
        push_line(&mut text, &fields[..columns]);
    }
    text
}

/// The kernels of an op, joined by `;`.
fn kernels_of(op: &Op) -> String {
    let kernels = op.kernels.iter().flat_map(|all| all.iter());
    kernels.map(Kernel::to_string).collect::<Vec<String>>().join(";")
}

fn use_table(trace: &Trace) -> String {
    // Columns that would be empty all the way down are left out.
    let parts = trace.uses.iter().any(|one| one.part.is_some());
    let known = trace.uses.iter().any(|one| one.known != Known::Seen);
    let columns = match (known, parts) {
        (true, _) => 6,
        (_, true) => 5,
        (_, false) => 3,
    };
    let mut text = header_line(USE_COLUMNS, columns);
    for (id, op) in trace.ops.iter().enumerate() {
        for one in &trace.uses[op.uses.start as usize..op.uses.end as usize] {
            let number = |of: fn(PartialUse) -> NonZeroU32| {
                one.part.map(of).map_or_else(String::new, |n| n.to_string())
            };
            let fields = [
                id.to_string(),
                one.object.0.to_string(),
                one.mode.word().to_owned(),
                number(|part| part.pieces),
                number(|part| part.piece),
                one.known.word().to_owned(),
            ];
            push_line(&mut text, &fields[..columns]);
        }
    }
    text
}

/// The table of statistics; `None` where nothing is known step by step.
fn statistics_table(trace: &Trace) -> Option<String> {
    let histories = || {
        let objects = trace.objects.iter().enumerate();
        objects.filter_map(|(id, object)| Some((id, object.history.as_ref()?)))
    };
    let (_, first) = histories().next()?;
    let mut text = header_line(STATISTICS_COLUMNS, 5);
    for step in 0..first.len() {
        for (id, history) in histories() {
            let Statistics { adam_m, adam_v, grad_norm } = history[step];
            let [m, v, norm] = [adam_m, adam_v, grad_norm].map(real);
            push_line(&mut text, &[step.to_string(), id.to_string(), m, v, norm]);
        }
    }
    Some(text)
}

/// The first so many columns.
fn header_line(names: &'static str, count: usize) -> String {
    let names: Vec<&str> = columns(names)[..count].iter().map(|column| column.name).collect();
    names.join(",") + "\n"
}

fn push_line(text: &mut String, fields: &[String]) {
    *text += &fields.join(",");
    text.push('\n');
}

/// A name as a CSV field; names hold no line breaks, see [`Trace::problems`].
fn quoted(name: &str) -> String {
    if name.contains(['"', ',']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

fn module(trace: &Trace, id: Option<ModuleId>) -> String {
    id.map(|id| quoted(&trace.modules[id.index()])).unwrap_or_default()
}

/// The shortest decimal that reads back as the same number.
fn real(value: Option<f64>) -> String {
    value.map(|value| format!("{value:?}")).unwrap_or_default()
}

fn nanoseconds(ps: u64) -> String {
    match (ps / 1000, ps % 1000) {
        (whole, 0) => whole.to_string(),
        (whole, rest) => format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
    }
}
