//! A project folder of its own for every test, and the binary run inside it under limits.
//!
//! The limits are part of every test: a run that takes too much memory or time fails, whatever the
//! test is about. No test waits by sleeping.
//! Beside these it hands on what nearly every file here names.
//! Invariant: the folder is unique to its `Project` and is removed with it.

pub(crate) mod trace_text;

pub(crate) use flate2::Compression;
use flate2::write::GzEncoder;
pub(crate) use serde_json::Value;
pub(crate) use std::collections::{BTreeMap, BTreeSet};
pub(crate) use std::fs;
use std::io::{Read, Write};
pub(crate) use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use trace_text::TraceText;

/// KiB of address space that one run may use; a run of the shipped trace needs a small part of it.
const MEMORY_KIB: u32 = 512 * 1024;
/// Seconds after which a run counts as hung. No measure of speed: all runs take far less, and what
/// takes 5 s on an idle machine has been seen to take 60 where others kept its cores busy.
const SECONDS: u64 = 300;

/// The machine that projects come with, small enough for a tiny trace to fill.
const MACHINE: &str = r#"Hardware(
    schema: 2,
    about: "three small tiers",
    tiers: [
        (
            name: "hbm", kind: hbm, capacity: (mib(64), assumed("test")),
            setup: (ns(100), assumed("test")), bandwidth: (gb_per_s(1000), assumed("test")),
        ),
        (
            name: "dram", kind: dram, capacity: (mib(256), assumed("test")),
            setup: (us(1), assumed("test")), bandwidth: (gb_per_s(50), assumed("test")),
        ),
        (
            name: "nvme", kind: nvme, capacity: (mib(512), assumed("test")),
            setup: (us(50), assumed("test")), bandwidth: (gb_per_s(5), assumed("test")),
        ),
    ],
)
"#;

/// The file of the scenario that projects come with, and what it says.
pub(crate) const CASE: &str = "scenarios/case.ron";
pub(crate) const SCENARIO: &str = r#"Scenario(
    schema: 2,
    about: "a tiny trace on a small machine",
    hardware: "small",
    capacity: {"dram": mib(128)},
    workload: Trace(path: "traces/tiny", time: recorded(scale: 1.0), repeat: 3, warmup: 1),
    policies: [
        (name: "all", policy: AllHbm),
        (name: "adam", policy: AdamState(cut: shares(hbm: 0.3, cpu: 0.4), access: migrate(prefetch_ops: 2))),
        (name: "lru", policy: Lru(spill: ["dram"]), hbm: share_of_peak(0.75)),
    ],
    seed: 1,
    expect: [fits("all"), faster(case: "all", than: "lru")],
)
"#;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder with hardware, a trace and a scenario.
pub(crate) struct Project {
    pub(crate) root: PathBuf,
}

impl Project {
    /// A folder with nothing in it.
    pub(crate) fn empty() -> Project {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{number}", std::process::id());
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&root).unwrap();
        Project { root }
    }

    /// `hardware-specs/small.ron`, `traces/tiny` and `scenarios/case.ron`, all without a mistake.
    pub(crate) fn new() -> Project {
        let project = Project::empty();
        project.write("hardware-specs/small.ron", MACHINE);
        TraceText::tiny().write(&project.path("traces/tiny"));
        project.write(CASE, SCENARIO);
        project
    }

    /// A copy of what ships: scenarios, hardware and traces, and nothing else of the project.
    pub(crate) fn shipped() -> Project {
        let project = Project::empty();
        for folder in ["scenarios", "hardware-specs", "traces"] {
            copy(&shipped(folder), &project.path(folder));
        }
        project
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Replaces a piece of a file, which must be there.
    pub(crate) fn edit(&self, relative: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(relative)).unwrap();
        assert!(text.contains(from), "{relative} has no {from:?}");
        self.write(relative, text.replacen(from, to, 1));
    }

    /// Replaces a piece of the scenario.
    pub(crate) fn edit_scenario(&self, from: &str, to: &str) {
        self.edit(CASE, from, to);
    }

    /// Runs the command with this folder as the working directory.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run_in(&self.root, args)
    }

    /// Gives the scenario these axes, one point for each combination of their values.
    pub(crate) fn sweep(&self, axes: &str) {
        self.edit_scenario("seed: 1,", &format!("sweep: (axes: [{axes}]),\n    seed: 1,"));
    }

    /// What a file says.
    pub(crate) fn text(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap_or_else(|e| panic!("{relative}: {e}"))
    }

    /// What a file of results says.
    pub(crate) fn json(&self, relative: &str) -> Value {
        read_json(&self.text(relative))
    }

    /// The names of the files below a folder.
    pub(crate) fn names(&self, relative: &str) -> Vec<String> {
        self.files(relative).into_keys().collect()
    }

    /// Every file below a folder with what it holds; folders and links appear with their kind.
    pub(crate) fn files(&self, relative: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.path(relative), "", &mut found);
        found
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // What cannot be removed lies in the build folder and does no harm.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What lies beside the checkout in development; `None`, and a line on stderr, where it does not.
pub(crate) fn beside(place: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = root.ancestors().map(|above| above.join("shared/data").join(place));
    let found = places.into_iter().find(|path| path.exists());
    if found.is_none() {
        eprintln!("NOT COMPARED: shared/data/{place} does not lie beside the checkout");
    }
    found
}

/// Bytes packed with gzip.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), level);
    packer.write_all(bytes).expect("a vector takes it");
    packer.finish().expect("a vector takes it")
}

/// A page of the project.
pub(crate) fn page(name: &str) -> String {
    fs::read_to_string(shipped(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn read_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A folder of what ships.
pub(crate) fn shipped(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

/// Copies what lies in a folder into another one.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(path, target).unwrap();
        }
    }
}

fn collect(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.insert(format!("{name}/"), Vec::new());
            collect(&entry.path(), &format!("{name}/"), found);
        } else if kind.is_file() {
            found.insert(name, fs::read(entry.path()).unwrap());
        } else {
            found.insert(format!("{name} (not a file)"), Vec::new());
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; `None` for a run that was killed.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Fails unless it ended with `code`.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// What was printed, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        read_json(&self.stdout)
    }

    /// Fails unless stdout holds every piece.
    #[track_caller]
    pub(crate) fn shows(self, pieces: &[&str]) -> Ran {
        for piece in pieces {
            assert!(self.stdout.contains(piece), "expected {piece:?} in:\n{}", self.stdout);
        }
        self
    }

    /// Fails unless stderr holds every piece.
    #[track_caller]
    pub(crate) fn says(self, pieces: &[&str]) -> Ran {
        for piece in pieces {
            assert!(self.stderr.contains(piece), "expected {piece:?} in:\n{}", self.stderr);
        }
        self
    }
}

/// Runs the command in `folder`, within limits of memory and time.
pub(crate) fn run_in(folder: &Path, args: &[&str]) -> Ran {
    ended(limited(folder, args), args)
}

/// The same under another limit, as the shell says it.
#[cfg(target_os = "linux")]
pub(crate) fn run_with(folder: &Path, args: &[&str], limit: &str) -> Ran {
    ended(limited_by(folder, args, limit), args)
}

fn ended(mut command: Command, args: &[&str]) -> Ran {
    let mut child = command.spawn().unwrap();
    let stdout = gather(child.stdout.take().unwrap());
    let stderr = gather(child.stderr.take().unwrap());
    let [stdout, stderr] = [stdout, stderr].map(|stream| received(&stream, &mut child, args));
    Ran { code: child.wait().unwrap().code(), stdout, stderr }
}

/// The command, to be run in `folder` with a limit on its memory, its output to be read.
pub(crate) fn limited(folder: &Path, args: &[&str]) -> Command {
    limited_by(folder, args, &format!("ulimit -v {MEMORY_KIB}"))
}

fn limited_by(folder: &Path, args: &[&str], limit: &str) -> Command {
    let binary = env!("CARGO_BIN_EXE_tiersim");
    let mut command = if cfg!(target_os = "linux") {
        let mut shell = Command::new("sh");
        let limited = format!("{limit}; exec \"$0\" \"$@\"");
        shell.arg("-c").arg(limited).arg(binary);
        // Every arena and thread reserves address space; what is measured must not depend on cores.
        shell.env("MALLOC_ARENA_MAX", "2").env("RAYON_NUM_THREADS", "2");
        shell
    } else {
        Command::new(binary)
    };
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn gather(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        // Nobody listens any more after a run that took too long.
        let _ = sender.send(bytes);
    });
    receiver
}

fn received(stream: &Receiver<Vec<u8>>, child: &mut Child, args: &[&str]) -> String {
    match stream.recv_timeout(Duration::from_secs(SECONDS)) {
        Ok(bytes) => String::from_utf8(bytes).expect("what is printed is UTF-8"),
        Err(_) => {
            child.kill().unwrap();
            panic!("{args:?} took more than {SECONDS} s");
        }
    }
}
