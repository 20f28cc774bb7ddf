//! What a file is that somebody named where another kind of file is wanted.
//!
//! Looked at only after a reader has refused the file: then one sentence that says what it is helps
//! more than what that reader makes of its first line.
//! Invariant: a kind is told from the first bytes alone, never from a name, and a file that only
//! might be of a kind is of none.

use crate::import::chakra::is_chakra;
use crate::packed::Packing;
use crate::trace::tar::{first_file, is_tar};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// So many bytes are looked at.
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
    /// Packed by gzip or zstd.
    Packed,
    /// What the PyTorch profiler wrote, packed or not.
    ProfilerTrace,
    /// What PyTorch's observer of execution traces wrote, packed or not.
    ExecutionTrace,
    /// What MLCommons Chakra writes of steps, packed or not.
    ChakraTrace,
    /// What the PyTorch profiler wrote of memory by category, packed or not.
    MemoryTimeline,
}

impl FileKind {
    /// What a file or folder is, if that can be told.
    pub fn of(path: &Path) -> Option<FileKind> {
        if path.is_dir() {
            let header = path.join("trace.ron").is_file();
            return (header || path.join("ops.csv").is_file()).then_some(FileKind::TraceFolder);
        }
        // A pipe is not read twice.
        let size = path.metadata().ok().filter(|meta| meta.is_file())?.len();
        let mut head = Vec::new();
        File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
        match of_head(&head, size) {
            Some(FileKind::Packed) => Packing::of_head(&head).map(|packing| packed(path, packing)),
            None if is_tar(&head) => of_head(first_file(&head), size),
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
        )
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
            FileKind::ProfilerTrace => "a trace of the PyTorch profiler",
            FileKind::ExecutionTrace => "an execution trace of PyTorch",
            FileKind::ChakraTrace => "an execution trace of Chakra",
            FileKind::MemoryTimeline => "a memory timeline of the PyTorch profiler",
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
            FileKind::LfsPointer => "fetch the file itself, with `git lfs pull`".to_owned(),
            FileKind::Pickle | FileKind::SnapshotText => format!(
                "a memory snapshot is read by `tiersim allocator {path}`, and becomes a trace by \
                 `tiersim trace import {path} --out TRACE`"
            ),
            FileKind::Zip => "name the file that is wanted, unpacked".to_owned(),
            FileKind::Packed => "unpack it first".to_owned(),
            FileKind::ProfilerTrace | FileKind::ChakraTrace | FileKind::MemoryTimeline => format!(
                "name it as `workload: Trace(path: \"{path}\", time: recorded())` in a scenario, or \
                 make a trace of it by `tiersim trace import {path} --out TRACE`"
            ),
            FileKind::ExecutionTrace => {
                format!("make a trace of it by `tiersim trace import {path} --out TRACE`")
            }
        }
    }
}

/// What a reader of `wanted` refused: as it was said, or what the file is instead.
pub fn refused(path: &Path, wanted: &[FileKind], said: Diagnostics) -> Diagnostics {
    match FileKind::of(path).filter(|kind| !wanted.contains(kind)) {
        Some(kind) => {
            let wanted: Vec<&str> = wanted.iter().map(|kind| kind.words()).collect();
            let rule =
                format!("{} is wanted here, and this is {}", wanted.join(" or "), kind.words());
            // Where its reader stumbled is a place in it, if not a telling one.
            let place =
                said.0.first().filter(|first| first.file == path).and_then(|first| first.place);
            Diagnostics::one(path, place, rule, "", kind.use_of(path))
        }
        None => said,
    }
}

/// What a packed file is, where readers take it packed.
fn packed(path: &Path, packing: Packing) -> FileKind {
    let head = || {
        let file = BufReader::new(File::open(path).ok()?);
        let mut head = Vec::new();
        // What is damaged further on is a matter for the reader.
        let _ = packing.unpacked(Box::new(file)).take(HEAD).read_to_end(&mut head);
        match is_tar(&head) {
            true => of_head(first_file(&head), u64::MAX),
            false => of_head(&head, u64::MAX),
        }
    };
    match head() {
        Some(
            kind @ (FileKind::ProfilerTrace
            | FileKind::ExecutionTrace
            | FileKind::ChakraTrace
            | FileKind::Pickle
            | FileKind::SnapshotText
            | FileKind::MemoryTimeline),
        ) => kind,
        _ => FileKind::Packed,
    }
}

fn of_head(head: &[u8], size: u64) -> Option<FileKind> {
    if head.starts_with(b"version https://git-lfs.github.com/spec/") {
        return Some(FileKind::LfsPointer);
    }
    // `{` and a new line would be the length of a message and its first field, too.
    let within = head.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let is_json = within.is_some_and(|rest| matches!(rest, [b'"' | b'}', ..]));
    if !is_json && is_chakra(head) {
        return Some(FileKind::ChakraTrace);
    }
    if Packing::of_head(head).is_some() {
        return Some(FileKind::Packed);
    }
    match head {
        [b'P', b'K', 3, 4, ..] => return Some(FileKind::Zip),
        [0x80, 2..=5, ..] => return Some(FileKind::Pickle),
        _ => {}
    }
    if let Some((length, [b'{', ..])) = head.split_first_chunk::<8>()
        && u64::from_le_bytes(*length) < size
    {
        return Some(FileKind::Safetensors);
    }
    // The end of the head may lie within a letter.
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    match text.as_bytes().first()? {
        b'{' => of_json(text),
        b'[' => is_timeline(text).then_some(FileKind::MemoryTimeline),
        _ => of_table(text).or_else(|| of_ron(text)),
    }
}

fn of_json(text: &str) -> Option<FileKind> {
    let has =
        |key: &str| text.contains(&format!("\"{key}\":")) || text.contains(&format!("\"{key}\" :"));
    if has("tiersim:fingerprint") {
        Some(FileKind::Hints)
    } else if has("schema") && has("tiersim") {
        Some(FileKind::Results)
    } else if has("traceEvents") || has("deviceProperties") || has("schemaVersion") {
        Some(FileKind::ProfilerTrace)
    } else if has("schema") && has("nodes") {
        Some(FileKind::ExecutionTrace)
    } else if has("device_traces") || (has("segments") && has("total_size")) {
        Some(FileKind::SnapshotText)
    } else if has("model_type") || has("hidden_size") || has("architectures") {
        Some(FileKind::ModelCard)
    } else {
        None
    }
}

/// Whether a text begins with a list of a list of whole numbers, as no other kind does.
fn is_timeline(text: &str) -> bool {
    let row = text.strip_prefix('[').map(str::trim_start).and_then(|rest| rest.strip_prefix('['));
    let Some(first) = row.and_then(|row| row.split([',', ']']).next()) else { return false };
    first.trim().parse::<i64>().is_ok()
}

/// First columns of the tables of a trace.
const TABLES: [&str; 3] =
    ["id,name,kind,bytes,dtype", "id,step,phase,name,module", "op,object,mode"];

fn of_table(text: &str) -> Option<FileKind> {
    TABLES.iter().any(|columns| text.starts_with(columns)).then_some(FileKind::TraceTable)
}

fn of_ron(text: &str) -> Option<FileKind> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = code.join("\n");
    let code = code.trim_start();
    let (word, rest) = code.split_once('(')?;
    let field = |name: &str| {
        let begins = |line: &str| line.trim_start().starts_with(&format!("{name}:"));
        begins(rest) || rest.lines().any(begins)
    };
    match word.trim() {
        "Scenario" => Some(FileKind::Scenario),
        "Hardware" => Some(FileKind::Hardware),
        "Part" => Some(FileKind::Part),
        "OpTimes" => Some(FileKind::OpTimes),
        "" if field("recorded") && field("rows") => Some(FileKind::TraceHeader),
        "" if field("weights") && !field("policies") => Some(FileKind::Weights),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &[u8]) -> Option<FileKind> {
        of_head(text, text.len() as u64)
    }

    #[test]
    fn a_file_is_told_by_its_first_bytes() {
        for (text, wanted) in [
            (&b"// why\nScenario(schema: 2"[..], Some(FileKind::Scenario)),
            (b"Hardware (\n", Some(FileKind::Hardware)),
            (b"Part(", Some(FileKind::Part)),
            (b"OpTimes(schema: 2", Some(FileKind::OpTimes)),
            (b"(\n    schema: 1,\n    recorded: (),\n    rows: (", Some(FileKind::TraceHeader)),
            (b"id,step,phase,name,module,stream\n", Some(FileKind::TraceTable)),
            (b"{\n  \"tiersim:fingerprint\": \"a\"", Some(FileKind::Hints)),
            (b"{\"schema\": 1, \"tiersim\": \"0.1.0\"", Some(FileKind::Results)),
            (b"{\"model_type\": \"llama\"", Some(FileKind::ModelCard)),
            (b"\x10\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}}", Some(FileKind::Safetensors)),
            (b"version https://git-lfs.github.com/spec/v1\n", Some(FileKind::LfsPointer)),
            (b"\x80\x04\x95", Some(FileKind::Pickle)),
            (b"{\"segments\": [{\"device\": 0, \"total_size\": 1", Some(FileKind::SnapshotText)),
            (b"[[-1, 1, 37888, 7], [", Some(FileKind::MemoryTimeline)),
            (b"[{\"ph\": \"X\"", None),
            (b"[]", None),
            (b"\x1f\x8b\x08", Some(FileKind::Packed)),
            (b"PK\x03\x04", Some(FileKind::Zip)),
            (b"\x00\x02\x08\x01", Some(FileKind::ChakraTrace)),
            (b"\x08\x12\x06\x0a\x04time\x05\x08\x01\x12\x01a", Some(FileKind::ChakraTrace)),
            (b"\x00\x02", None),
            (b"", None),
            (b"(policies: [])", None),
            (b"{}", None),
            (b"\xff\xfe", None),
        ] {
            assert_eq!(kind(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

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
