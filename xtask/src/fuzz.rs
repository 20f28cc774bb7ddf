//! `fuzz`: damaged files for one reader or for all, for so many seconds ([`tiersim_tests::fuzz`]).
//!
//! A case that fails is written to the corpus, so that it is read by every test from then on.
//! Invariant: a case that hangs ends the program, with the file that it hangs on left in its place.

use crate::end;
use crate::watchdog::{Watchdog, seconds_of};
use clap::Args;
use std::path::{Path, PathBuf};
use tiersim_tests::fuzz::{Failure, Reader, ReaderUnderTest};
use tiersim_tests::soak::seed_of;
use tiersim_validation::clock::Clock;

/// Seconds that a case may take: files have a MiB at most.
const HANGS: u64 = 20;

/// What to feed.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// The reader; all, one after the other, unless said
    #[arg(long, value_parser = reader)]
    reader: Option<Reader>,
    /// Seconds for each reader
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed that the cases' own seeds are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the one case of this seed
    #[arg(long, value_name = "SEED", requires = "reader")]
    replay: Option<u64>,
}

fn reader(name: &str) -> Result<Reader, String> {
    let names: Vec<&str> = Reader::ALL.iter().map(|reader| reader.name()).collect();
    Reader::from_name(name).ok_or_else(|| format!("one of {}", names.join(", ")))
}

pub(crate) fn fuzz(args: &FuzzArgs) -> bool {
    let readers = args.reader.map_or(Reader::ALL.to_vec(), |reader| vec![reader]);
    let passed: Vec<bool> = readers.into_iter().map(|reader| end(run(reader, args))).collect();
    passed.into_iter().all(|passed| passed)
}

fn run(reader: Reader, args: &FuzzArgs) -> Result<String, String> {
    let name = reader.name();
    let folder = std::env::temp_dir().join(format!("tiersim-fuzz-{}", std::process::id()));
    let bench = ReaderUnderTest::new(reader, &folder).map_err(|error| error.to_string())?;
    let place = bench.folder().to_owned();
    let watchdog = Watchdog::start(HANGS, move |seed| {
        format!("{name}: case {seed} takes more than {HANGS} s; see {}", place.display())
    });
    let told = |failure: Failure, seed: Option<u64>| {
        let path = kept(name, &failure, seed);
        let Failure { file, what, .. } = failure;
        format!("{name}: case {seed:?}, {file}: {what}; kept in {}", path.display())
    };
    let case = |seed| {
        let ended = watchdog.watch(seed, || bench.case(seed));
        ended.map_err(|failure| told(failure, Some(seed)))
    };
    let all = || {
        let files = watchdog.watch(0, || bench.corpus()).map_err(|failure| told(failure, None))?;
        let (clock, seconds, mut index) = (Clock::start(), args.seconds, 0);
        while seconds_of(clock) < seconds as f64 {
            case(seed_of(args.seed, index))?;
            index += 1;
        }
        Ok(format!("{name}: {index} cases from {files} files in {seconds} s, none failed"))
    };
    let ended = match args.replay {
        Some(seed) => case(seed).map(|()| format!("{name}: case {seed} passed")),
        None => all(),
    };
    let _ = std::fs::remove_dir_all(folder);
    ended
}

/// Writes what failed to the corpus.
fn kept(reader: &str, failure: &Failure, seed: Option<u64>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/fuzz").join(reader);
    let path = root.join(format!("found-{}~{}", seed.unwrap_or(0), failure.file));
    let _ = std::fs::create_dir_all(&root);
    let _ = std::fs::write(&path, &failure.bytes);
    path
}
