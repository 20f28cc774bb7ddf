//! What a file is that somebody named where another kind of file is wanted.
//!
//! Looked at only after a reader has refused the file: then one sentence that says what it is helps
//! more than what that reader makes of its first line.
//! Invariant: a kind is told from the first bytes alone, never from a name, and a file that only
//! might be of a kind is of none.

mod head;

use crate::archive;
use crate::archive::tar::{first_file, is_tar};
use crate::import::accesses::Accesses;
use crate::import::requests::{Reader, RequestFile};
use crate::packed::Packing;
use crate::trace::tables::LFS_REMEDY;
use head::of_head;
use std::borrow::Cow;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// So many bytes of what a packed file holds are looked at.
const HEAD: u64 = 8192;

/// A kind of file that tiersim reads or writes, or that people have beside those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A scenario.
    Scenario,
    /// A machine.
    Hardware,
    /// A part of a machine.
    Part,
    /// What kernels take on a device.
    OpTimes,
    /// Trained weights of a policy.
    Weights,
    /// A folder with a trace.
    TraceFolder,
    /// `trace.ron` of a trace.
    TraceHeader,
    /// A table of a trace.
    TraceTable,
    /// `tier_hints.json`.
    Hints,
    /// `summary.json`, or another document that a command wrote.
    Results,
    /// A model's `config.json`.
    ModelCard,
    /// A table of tensors.
    Safetensors,
    /// What stands in the place of a file that Git LFS has not fetched.
    LfsPointer,
    /// A PyTorch memory snapshot or another pickle.
    Pickle,
    /// A PyTorch memory snapshot as JSON.
    SnapshotText,
    /// A ZIP, such as a checkpoint of PyTorch.
    Zip,
    /// Packed by gzip or zstd: something that is not read so.
    Packed,
    /// Packed, and what it holds cannot be told.
    PackedUnknown,
    /// Packed in a form that is not read, in words.
    PackedOtherwise(&'static str),
    /// What the PyTorch profiler wrote, packed or not.
    ProfilerTrace,
    /// What PyTorch's observer of execution traces wrote, packed or not.
    ExecutionTrace,
    /// What MLCommons Chakra writes of steps, packed or not.
    ChakraTrace,
    /// What the PyTorch profiler wrote of memory by category, packed or not.
    MemoryTimeline,
    /// Loads and stores by valgrind's lackey, packed or not.
    Lackey,
    /// Samples of memory by `perf script`, packed or not.
    PerfScript,
    /// What `perf record` writes.
    PerfData,
    /// DAMON's regions, as `perf script` prints its tracepoint, packed or not.
    DamonTracepoint,
    /// DAMON's regions, as `damo report raw` prints them, packed or not.
    DamonReport,
    /// What `damo record` writes, packed or not.
    DamoRecord,
    /// Records of libCacheSim, packed or not.
    BlockRecords,
    /// A text of block requests, packed or not.
    BlockText(Reader),
    /// Requests to a served model, packed or not.
    Requests,
    /// A database of SQLite, such as Nsight Systems exports.
    Sqlite,
    /// A table of Apache Parquet.
    Parquet,
    /// Text in UTF-16, as some shells write what they redirect.
    Utf16,
    /// An archive or a folder with recordings in it.
    Recordings,
}

/// What becomes a trace, or is looked at as one.
pub(crate) const KNOWN_RECORDINGS: &str = "give what PyTorch's profiler, its memory snapshots or timelines, Nsight Systems \
     (as SQLite), Chakra, lackey, perf script, damo, fio or libCacheSim (oracleGeneral) wrote, a \
     table with a column `object`, or a trace of MSR Cambridge, Alibaba or Twitter (`trace import` \
     takes others with --reader); `trace info` also reads requests to a served model (Azure's, \
     BurstGPT's, Vidur's and splitwise-sim's tables, and Mooncake's lines)";

impl FileKind {
    /// What a file or folder is, if that can be told.
    pub fn of(path: &Path) -> Option<FileKind> {
        if path.is_dir() {
            let header = path.join("trace.ron").is_file();
            let trace = header || path.join("ops.csv").is_file();
            return match trace {
                true => Some(FileKind::TraceFolder),
                false => holds_recordings(path).then_some(FileKind::Recordings),
            };
        }
        if let Some((archive, name)) = archive::within(path) {
            let (size, file) = archive::open(&archive, &name).ok()?;
            return FileKind::of_bytes(&archive::head_of(file).ok()?, size);
        }
        // A pipe is not read twice.
        let size = path.metadata().ok().filter(|meta| meta.is_file())?.len();
        let head = archive::head_of(File::open(path).ok()?).ok()?;
        let kind = FileKind::of_bytes(&head, size);
        let unclear = match kind {
            Some(FileKind::Packed | FileKind::PackedUnknown | FileKind::Zip) => true,
            _ => is_tar(&head) && !kind.is_some_and(FileKind::becomes_trace),
        };
        match unclear && archive_holds_recordings(path) {
            true => Some(FileKind::Recordings),
            false => kind,
        }
    }

    /// What a file of such a size is that begins so.
    pub(crate) fn of_bytes(head: &[u8], size: u64) -> Option<FileKind> {
        match of_head(head, size) {
            Some(FileKind::Packed) => Packing::of_head(head).map(|packing| packed(head, packing)),
            None if is_tar(head) => of_head(first_file(head), size),
            kind => kind,
        }
    }

    /// That such a file becomes no trace, and what it is good for.
    pub(crate) fn is_no_recording(self, path: &Path) -> Diagnostics {
        let rule = format!("a recording is wanted here, and this is {}", self.words());
        Diagnostics::one(path, None, rule, "", self.use_of(path))
    }

    /// Whether a trace can be made of it alone.
    pub fn becomes_trace(self) -> bool {
        matches!(
            self,
            FileKind::ProfilerTrace
                | FileKind::ExecutionTrace
                | FileKind::ChakraTrace
                | FileKind::Pickle
                | FileKind::SnapshotText
                | FileKind::MemoryTimeline
                | FileKind::Sqlite
                | FileKind::Recordings
        ) || self.accesses().is_some()
    }

    /// What accesses it holds, if it is a file of such.
    pub fn accesses(self) -> Option<Accesses> {
        match self {
            FileKind::Lackey => Some(Accesses::Lackey),
            FileKind::PerfScript => Some(Accesses::Perf),
            FileKind::DamonTracepoint => Some(Accesses::DamonTracepoint),
            FileKind::DamonReport => Some(Accesses::DamonReport),
            FileKind::BlockRecords => Some(Accesses::Requests(Reader::OracleGeneral)),
            FileKind::BlockText(reader) => Some(Accesses::Requests(reader)),
            _ => None,
        }
    }

    /// That a file is of this kind where `wanted` is asked for.
    fn instead(self, path: &Path, wanted: &str, said: Diagnostics) -> Diagnostics {
        let rule = format!("{wanted} is wanted here, and this is {}", self.words());
        // Where its reader stumbled is a place in it, if not a telling one.
        let place = said.0.first().filter(|first| first.file == path).and_then(|first| first.place);
        Diagnostics::one(path, place, rule, "", self.use_of(path))
    }

    fn words(self) -> &'static str {
        match self {
            FileKind::Scenario => "a scenario",
            FileKind::Hardware => "a machine",
            FileKind::Part => "a part of a machine",
            FileKind::OpTimes => "op times of a device",
            FileKind::Weights => "trained weights of a policy",
            FileKind::TraceFolder => "the folder of a trace",
            FileKind::TraceHeader => "the description of a trace",
            FileKind::TraceTable => "one table of a trace",
            FileKind::Hints => "a file of placement hints",
            FileKind::Results => "a file of results",
            FileKind::ModelCard => "the card of a model",
            FileKind::Safetensors => "a table of tensors (safetensors)",
            FileKind::LfsPointer => "a pointer of Git LFS, and not the file itself",
            FileKind::Pickle => "a pickle, such as a memory snapshot of PyTorch",
            FileKind::SnapshotText => "a memory snapshot of PyTorch as JSON",
            FileKind::Zip => "a ZIP archive, such as a checkpoint of PyTorch",
            FileKind::Packed => "packed by gzip or zstd",
            FileKind::PackedUnknown => "packed by gzip or zstd, and what it holds cannot be told",
            FileKind::PackedOtherwise(words) => words,
            FileKind::ProfilerTrace => "a trace of the PyTorch profiler",
            FileKind::ExecutionTrace => "an execution trace of PyTorch",
            FileKind::ChakraTrace => "an execution trace of Chakra",
            FileKind::MemoryTimeline => "a memory timeline of the PyTorch profiler",
            FileKind::Lackey => "a trace of valgrind's lackey",
            FileKind::PerfScript => "samples of perf script",
            FileKind::PerfData => "a perf.data file",
            FileKind::DamonTracepoint => "DAMON's tracepoint as perf script prints it",
            FileKind::DamonReport => "a report of damo",
            FileKind::DamoRecord => "a record of damo",
            FileKind::BlockRecords => "a block trace of libCacheSim (oracleGeneral)",
            FileKind::BlockText(_) => "a table of block requests",
            FileKind::Requests => "requests to a served model",
            FileKind::Sqlite => "a database of SQLite, such as Nsight Systems exports",
            FileKind::Parquet => "a Parquet file",
            FileKind::Utf16 => "text in UTF-16",
            FileKind::Recordings => "an archive or a folder with recordings in it",
        }
    }

    /// What such a file is good for.
    fn use_of(self, path: &Path) -> String {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).display();
        let path = path.display();
        match self {
            FileKind::Scenario => {
                format!("give it to `tiersim run {path}` or `tiersim check {path}`")
            }
            FileKind::Hardware => format!(
                "name it as `hardware: \"{path}\"` in a scenario and run that; `tiersim check {path}` \
                 checks it alone"
            ),
            FileKind::Part => {
                "name it in `parts` of a machine; `tiersim check` reads it alone".to_owned()
            }
            FileKind::OpTimes => {
                "name it in `compute.op_times` of a machine; `tiersim check` reads it alone"
                    .to_owned()
            }
            FileKind::Weights => "name it as `weights` of a policy in a scenario".to_owned(),
            FileKind::TraceFolder => format!(
                "name it as `workload: Trace(path: \"{path}\", ...)` in a scenario; `tiersim trace info \
                 {path}` shows it"
            ),
            FileKind::TraceHeader | FileKind::TraceTable => format!(
                "a trace is its whole folder: `tiersim check {folder}` reads it, and a scenario names it as \
                 `workload: Trace(path: \"{folder}\", ...)`"
            ),
            FileKind::Hints => {
                format!("name it as `policy: Hints(file: \"{path}\")` in a scenario")
            }
            FileKind::Results => {
                "it is what a command wrote; give the file that it was made of".to_owned()
            }
            FileKind::ModelCard => format!(
                "name it as `model: \"{path}\"` of a workload `Model(...)`, or see `tiersim memory --model \
                 {path}`"
            ),
            FileKind::Safetensors => {
                format!(
                    "name it as `weights` of a workload `Model(...)`, or see `tiersim memory --weights {path}`"
                )
            }
            FileKind::LfsPointer => LFS_REMEDY.to_owned(),
            FileKind::Pickle | FileKind::SnapshotText => format!(
                "a memory snapshot is read by `tiersim allocator {path}`, and becomes a trace by \
                 `tiersim trace import {path} --out TRACE`"
            ),
            FileKind::Zip => "name the file that is wanted, unpacked".to_owned(),
            FileKind::Parquet => "write it as CSV".to_owned(),
            FileKind::Utf16 => "save it as UTF-8".to_owned(),
            FileKind::Packed => "unpack it first".to_owned(),
            FileKind::PackedUnknown => KNOWN_RECORDINGS.to_owned(),
            FileKind::PackedOtherwise(_) => "repack it by gzip or zstd".to_owned(),
            FileKind::ProfilerTrace
            | FileKind::ChakraTrace
            | FileKind::MemoryTimeline
            | FileKind::Sqlite
            | FileKind::Recordings => format!(
                "name it as `workload: Trace(path: \"{path}\", time: recorded())` in a scenario, or \
                 make a trace of it by `tiersim trace import {path} --out TRACE`"
            ),
            FileKind::BlockRecords | FileKind::BlockText(_) => format!(
                "replay it by `tiersim cache {path}`, or make a trace of it by `tiersim trace import {path} \
                 --out TRACE`"
            ),
            FileKind::PerfData => {
                "print it with `perf script -F time,event,addr` and give what that prints"
                    .to_owned()
            }
            FileKind::DamoRecord => {
                "print it with `damo report raw` and give what that prints".to_owned()
            }
            FileKind::Requests => format!(
                "name it as `mode: serve(requests: ...)` of a workload `Model(...)`; `tiersim trace info \
                 {path}` counts it, and blocks of Mooncake's go through `tiersim cache`"
            ),
            FileKind::Lackey
            | FileKind::PerfScript
            | FileKind::DamonTracepoint
            | FileKind::DamonReport
            | FileKind::ExecutionTrace => {
                format!("make a trace of it by `tiersim trace import {path} --out TRACE`")
            }
        }
    }
}

/// What a reader of `wanted` refused: as it was said, or what the file is instead.
pub fn refused(path: &Path, wanted: &[FileKind], said: Diagnostics) -> Diagnostics {
    let words: Vec<&str> = wanted.iter().map(|kind| kind.words()).collect();
    match FileKind::of(path).filter(|kind| !wanted.contains(kind)) {
        Some(kind) => kind.instead(path, &words.join(" or "), said),
        None => said,
    }
}

/// Opens a block trace, as [`RequestFile::open`] does. What holds no requests is said to be what it is:
/// whatever the file is called, none of its lines is an object.
///
/// # Errors
/// As [`RequestFile::open`], or what the file is instead.
pub fn block_trace(
    path: &Path,
    reader: Option<Reader>,
    sizes: bool,
    object_bytes: Option<u64>,
) -> Result<RequestFile, Diagnostics> {
    let is_one = |kind: &FileKind| matches!(kind.accesses(), Some(Accesses::Requests(_)));
    let asks = reader.is_none() && path.is_file();
    let kind = asks.then(|| FileKind::of(path)).flatten();
    match kind.filter(|kind| kind.becomes_trace() && !is_one(kind)) {
        Some(kind) => {
            let rule = "a block trace is wanted here";
            let said = Diagnostics::one(path, None, rule, "", "name one");
            Err(kind.instead(path, "a block trace", said))
        }
        None => RequestFile::open(path, reader, sizes, object_bytes),
    }
}

/// The same of a reader of what is no kind of its own, in words.
pub(crate) fn refused_by(path: &Path, wanted: &str, said: Diagnostics) -> Diagnostics {
    match FileKind::of(path) {
        Some(kind) => kind.instead(path, wanted, said),
        None => said,
    }
}

/// What a packed file is that begins so, where readers take it packed.
fn packed(start: &[u8], packing: Packing) -> FileKind {
    let head = unpacked(start, packing);
    let kind = match is_tar(&head) {
        // A database is read here and there, and so not within another file.
        true => of_head(first_file(&head), u64::MAX).filter(|&kind| kind != FileKind::Sqlite),
        false => of_head(&head, u64::MAX),
    };
    match kind {
        Some(kind @ (FileKind::Requests | FileKind::DamoRecord | FileKind::PerfData)) => kind,
        Some(kind) if kind.becomes_trace() => kind,
        Some(_) => FileKind::Packed,
        None => FileKind::PackedUnknown,
    }
}

/// The first bytes of what a packed file holds that begins so.
fn unpacked(start: &[u8], packing: Packing) -> Vec<u8> {
    let mut head = Vec::new();
    // The start of a file unpacks to less than all of it: what is damaged further on is a matter for
    // the reader.
    let start = Cursor::new(start.to_vec());
    let _ = packing.unpacked(Box::new(start)).take(HEAD).read_to_end(&mut head);
    head
}

/// The first bytes of a file that begins so, unpacked if it is packed.
pub(crate) fn plain_head(start: &[u8]) -> Cow<'_, [u8]> {
    match Packing::of_head(start) {
        Some(packing) => Cow::Owned(unpacked(start, packing)),
        None => Cow::Borrowed(start),
    }
}

/// Whether any file below a folder becomes a trace.
fn holds_recordings(folder: &Path) -> bool {
    let mut found = false;
    archive::each_below(folder, &mut |path| {
        found = found || FileKind::of(path).is_some_and(FileKind::becomes_trace);
    });
    found
}

/// Whether any file in an archive does, or it is damaged, which its reader says.
fn archive_holds_recordings(path: &Path) -> bool {
    let (mut found, mut checkpoint) = (false, false);
    let all = archive::each_file(path, |name, size, head| {
        checkpoint |= name.ends_with("/data.pkl");
        found |= FileKind::of_bytes(head, size).is_some_and(FileKind::becomes_trace);
    });
    // What PyTorch saves is a ZIP in which a pickle lies.
    (found || all.is_err()) && !checkpoint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_keeps_what_its_reader_said() {
        let said = Diagnostics::one(Path::new("x"), None, "a rule", "", "");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware-specs/h100-pcie.ron");
        assert_eq!(refused(&path, &[FileKind::Hardware], said.clone()), said);
        let other = refused(&path, &[FileKind::Scenario], said).0.remove(0);
        assert_eq!(other.rule, "a scenario is wanted here, and this is a machine");
        assert!(other.remedy.starts_with("name it as `hardware: "), "{}", other.remedy);
    }
}
