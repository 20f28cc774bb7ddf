//! Makes a trace of a file that another program wrote, whatever it is.
//!
//! Invariant: which reader takes a file follows from its first bytes, never from its name.

use crate::archive::{each_below, within};
use crate::file_kind::{FileKind, KNOWN_RECORDINGS};
use crate::import::accesses::{Accesses, Grouping, import_accesses};
use crate::import::chakra::import_chakra;
use crate::import::execution::import_execution;
use crate::import::footprint::{import_snapshot, import_timeline};
use crate::import::gather::{Gathered, gather};
use crate::import::profiler::import_joined;
use crate::import::ranks::{import_devices, import_ranks};
use crate::import::requests::Reader;
use crate::json::BYTE_ORDER_MARK;
pub use crate::trace::tables::file_or_folder;
use crate::trace::trace_names;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::Gaps;

/// A native trace, and in words what was seen, inferred and left out on the way to it.
pub type Imported = crate::import::imported::Imported<String>;

/// Makes a trace of `path`, packed or not.
///
/// # Errors
/// What is wrong with the file, or what it is instead of one that becomes a trace.
pub fn import_file(path: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    import_device(path, gaps, None)
}

/// The same, of one device of a recording of several.
///
/// # Errors
/// As [`import_file`]; that there is no such device.
pub fn import_device(
    path: &Path,
    gaps: Gaps,
    device: Option<u32>,
) -> Result<Imported, Diagnostics> {
    import_recordings(&[path.to_owned()], &[], gaps, (None, &Grouping::default()), device)
}

/// Makes one trace of all that is named: of a file, of several that are ranks of one run, or of what
/// an archive or a folder of such holds; `executions` are none, or say of each what its ops read and
/// write. Of a file of accesses `grouping` and `reader` say how it is read; of one recording of several
/// devices `device` says which is meant.
///
/// # Errors
/// As [`import_file`]; that nothing says what of several is meant; that what is named holds no
/// accesses to be grouped.
pub fn import_recordings(
    named: &[PathBuf],
    executions: &[PathBuf],
    gaps: Gaps,
    (reader, grouping): (Option<Reader>, &Grouping),
    device: Option<u32>,
) -> Result<Imported, Diagnostics> {
    named.iter().chain(executions).try_for_each(|path| file_or_folder(path))?;
    let Gathered { files, executions, words } = gather(named, executions)?;
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    let together = files.len() > 1 || !executions.is_empty();
    if together && (reader.is_some() || !grouping.is_default()) {
        let rule = "only files of accesses are grouped";
        return Err(Diagnostics::one(first, None, rule, "", GROUPING));
    }
    if let Some(number) = device.filter(|_| together) {
        let rule = "of several recordings each is of its own device";
        let remedy = "leave --device out, or name one recording alone";
        return Err(Diagnostics::one(first, None, rule, format!("--device {number}"), remedy));
    }
    let mut imported = match (&files[..], &executions[..]) {
        ([file], []) => import_one(file, gaps, (reader, grouping), device)?,
        ([file], [execution]) => import_joined(file, execution, gaps)?.in_words(),
        _ => import_ranks(&files, &executions, gaps)?.in_words(),
    };
    imported.account.insert_str(0, &words);
    Ok(imported)
}

/// The files that reading a path reads: itself, the archive that it leads into, or those in a folder.
pub fn files_read(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![within(path).map_or_else(|| path.to_owned(), |(archive, _)| archive)];
    }
    let mut files = Vec::new();
    match FileKind::of(path) {
        Some(FileKind::TraceFolder) => files.extend(trace_names().map(|name| path.join(name))),
        Some(FileKind::Recordings) => each_below(path, &mut |file| {
            let read = FileKind::of(file).is_some_and(FileKind::becomes_trace);
            files.extend(read.then(|| file.to_owned()));
        }),
        _ => {
            let there = std::fs::read_dir(path).into_iter().flatten().flatten();
            files.extend(there.map(|entry| entry.path()));
        }
    }
    files
}

/// What is to be done with options that nothing heeds.
const GROUPING: &str = "leave --object-bytes, --window, --rate, --reader and -t out";

/// What one file becomes.
fn import_one(
    path: &Path,
    gaps: Gaps,
    (reader, grouping): (Option<Reader>, &Grouping),
    device: Option<u32>,
) -> Result<Imported, Diagnostics> {
    let kind = FileKind::of(path);
    if let Some(number) = device.filter(|_| reader.is_some() || !kind.is_none_or(has_devices)) {
        let rule = "a recording of several devices is a memory snapshot, a trace of the profiler or an \
                    export of Nsight Systems";
        let remedy = "leave --device out";
        return Err(Diagnostics::one(path, None, rule, format!("--device {number}"), remedy));
    }
    let accesses = match reader {
        Some(reader) => Some(Accesses::Requests(reader)),
        None => kind.and_then(FileKind::accesses),
    };
    if let Some(accesses) = accesses {
        return Ok(import_accesses(path, accesses, grouping)?.in_words());
    }
    if !grouping.is_default() {
        let rule = "only files of accesses are grouped";
        return Err(Diagnostics::one(path, None, rule, "", GROUPING));
    }
    match kind {
        None if is_report(path) => {
            let rule = "a recording is wanted here, and this is a report of Nsight Systems, whose form \
                        is NVIDIA's own";
            let remedy = format!(
                "export it, and give the database: `nsys export --type sqlite --output OUT.sqlite {}`",
                path.display()
            );
            Err(Diagnostics::one(path, None, rule, "", remedy))
        }
        None if path.is_dir() => {
            let rule = "a recording is wanted here, and there is none in this folder";
            Err(Diagnostics::one(path, None, rule, "", KNOWN_RECORDINGS))
        }
        None if path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0) => {
            let rule = "a recording is wanted here, and this file is empty";
            Err(Diagnostics::one(path, None, rule, "", KNOWN_RECORDINGS))
        }
        None if first_byte(path) == Some(b'<') => {
            let rule = "a recording is wanted here, and this is a page or another document";
            let remedy = "give what it was made of: of a memory timeline of PyTorch what \
                          `profiler.export_memory_timeline(\"NAME.raw.json.gz\")` writes";
            Err(Diagnostics::one(path, None, rule, "", remedy))
        }
        None if first_byte(path).is_some_and(|byte| !matches!(byte, b'{' | b'[')) => {
            let rule = "a recording is wanted here, and what this is cannot be told";
            Err(Diagnostics::one(path, None, rule, "", KNOWN_RECORDINGS))
        }
        None if first_byte(path).is_some() && !has_events(path) => {
            let rule = "a recording is wanted here, and this is JSON without events";
            Err(Diagnostics::one(path, None, rule, "", KNOWN_RECORDINGS))
        }
        Some(FileKind::ExecutionTrace) => Ok(import_execution(path)?.in_words()),
        Some(FileKind::ChakraTrace) => Ok(import_chakra(path, gaps)?.in_words()),
        Some(FileKind::Pickle | FileKind::SnapshotText) => {
            Ok(import_snapshot(path, device)?.in_words())
        }
        Some(FileKind::MemoryTimeline) => Ok(import_timeline(path)?.in_words()),
        Some(FileKind::ProfilerTrace | FileKind::Sqlite) | None => {
            import_devices(path, gaps, device)
        }
        Some(other) => Err(other.is_no_recording(path)),
    }
}

/// Whether a recording of this kind may be of several devices.
fn has_devices(kind: FileKind) -> bool {
    use FileKind::{Pickle, ProfilerTrace, SnapshotText, Sqlite};
    matches!(kind, Pickle | ProfilerTrace | SnapshotText | Sqlite)
}

/// Whether a file that begins as none that is known is called as reports of Nsight Systems are. It
/// is refused in any case: the name only finds the words.
fn is_report(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "nsys-rep" || ending == "qdrep")
}

/// Whether the start of a text has an event of the profiler's, or is too long a head to tell.
fn has_events(path: &Path) -> bool {
    const HEAD: u64 = 1 << 16;
    let mut head = Vec::new();
    let Ok(file) = File::open(path) else { return true };
    if file.take(HEAD).read_to_end(&mut head).is_err() {
        return true;
    }
    let has = |key: &str| head.windows(key.len()).any(|window| window == key.as_bytes());
    has("\"ph\"") || has("\"traceEvents\"") || head.len() as u64 == HEAD && goes_on(&head)
}

/// Whether a text is within its first value where it is cut off, and may come to events: a list would
/// have begun with one, and of lines the first is a value of its own.
fn goes_on(head: &[u8]) -> bool {
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii_start();
    let first = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>().next();
    text.starts_with(b"{") && !matches!(first, Some(Ok(_)))
}

/// The first byte of a text; none of a file that cannot be looked at: its reader says why.
fn first_byte(path: &Path) -> Option<u8> {
    let mut head = Vec::new();
    let file = File::open(path).ok().filter(|_| path.is_file())?;
    file.take(4096).read_to_end(&mut head).ok()?;
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
    text.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}
