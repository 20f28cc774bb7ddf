//! Readers of files, fed with what ships, damaged: no panic, no memory beyond the limit.
//!
//! A case is a file of a small folder, changed in a few places, and read by one [`Reader`] as the
//! command reads it. Files come from `tests/data/fuzz/READER`, named `LABEL~FILE`, and from what
//! ships; what once broke a reader stays in that folder. What was found of a case is nothing, or
//! why it failed; that a reader hangs can only be seen from outside, by who runs this.
//! Invariant: a case depends on its seed alone, so that a failure can be had again.

mod change;
mod readers;

pub use readers::Reader;

use crate::prelude::*;
use change::changed;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes that reading any file may take, and how many more for each byte that it may unpack to.
const FREE: u64 = 64 << 20;
const TIMES: u64 = 8;
/// What a packed file may unpack to: the limit that readers state.
const UNPACKED: u64 = 200;

/// A reader with its files, in a folder of its own.
#[derive(Debug)]
pub struct ReaderUnderTest {
    reader: Reader,
    folder: PathBuf,
    /// Sound files, by their names in the folder: the first of each name lies there between cases.
    files: BTreeMap<String, Vec<Vec<u8>>>,
    /// Bytes of this process when its peak was last forgotten.
    start: Cell<Option<u64>>,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The file that was changed.
    pub file: String,
    /// What it held.
    pub bytes: Vec<u8>,
    /// What went wrong.
    pub what: String,
}

impl ReaderUnderTest {
    /// Lays out the files of `reader` below `folder`, which is made anew.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub fn new(reader: Reader, folder: &Path) -> io::Result<ReaderUnderTest> {
        let folder = folder.join(reader.name());
        let mut files: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for &(name, shipped) in reader.shipped() {
            files.entry(name.to_owned()).or_default().push(fs::read(root.join(shipped))?);
        }
        if let Ok(corpus) = fs::read_dir(root.join("tests/data/fuzz").join(reader.name())) {
            let mut found: Vec<PathBuf> = corpus.flatten().map(|entry| entry.path()).collect();
            // Sound files first: their labels say so.
            found.sort_by_key(|path| (!path.to_string_lossy().contains("/seed~"), path.clone()));
            for path in found {
                let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let name = label.split_once('~').map_or(label.clone(), |(_, name)| name.to_owned());
                files.entry(name).or_default().push(fs::read(&path)?);
            }
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let bench = ReaderUnderTest { reader, folder, files, start: Cell::new(start_peak()) };
        for name in bench.files.keys() {
            bench.restore(name)?;
        }
        Ok(bench)
    }

    /// Reads every file as it is.
    ///
    /// # Errors
    /// The first that fails.
    pub fn corpus(&self) -> Result<usize, Failure> {
        let mut count = 0;
        for (name, all) in &self.files {
            for bytes in all {
                self.read(name, bytes)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Runs the case of a seed.
    ///
    /// # Errors
    /// That it failed.
    pub fn case(&self, seed: u64) -> Result<(), Failure> {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let (name, bytes) = changed(&mut rng, &self.files);
        self.read(name, &bytes)
    }

    /// Where the file of a case lies while it is read.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn read(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let failed = |what: String| Failure { file: name.to_owned(), bytes: bytes.to_vec(), what };
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|error| failed(error.to_string()))?;
        let read = catch_unwind(AssertUnwindSafe(|| self.reader.read(&self.folder, &path)));
        let peak = self.peak();
        self.restore(name).map_err(|error| failed(error.to_string()))?;
        if let Err(panic) = read {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            return Err(failed(format!("a panic: {text}")));
        }
        let packed = [&b"\x1f\x8b"[..], b"\x28\xb5"].iter().any(|magic| bytes.starts_with(magic));
        let length = bytes.len() as u64 * if packed { UNPACKED } else { 1 };
        let limit = FREE + TIMES * length;
        if peak > limit {
            return Err(failed(format!("{peak} bytes of memory, at most {limit}")));
        }
        Ok(())
    }

    /// Bytes that the case took at most, as far as they are more than any file may take: to forget
    /// a peak costs more than most cases, so it is done after one that is that high only.
    fn peak(&self) -> u64 {
        let (Some(start), Some(peak)) = (self.start.get(), peak()) else { return 0 };
        let more = peak.saturating_sub(start);
        if more > FREE {
            self.start.set(start_peak());
        }
        more
    }

    fn restore(&self, name: &str) -> io::Result<()> {
        match self.files.get(name).and_then(|all| all.first()) {
            Some(sound) => fs::write(self.folder.join(name), sound),
            None => Ok(()),
        }
    }
}

/// Lets the system forget the most memory that this process has had, and says what it has now; none
/// where that cannot be asked: memory is then not looked at.
fn start_peak() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    peak()
}

/// The most memory in bytes that this process has had since then.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
