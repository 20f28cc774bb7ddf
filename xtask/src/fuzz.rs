//! `fuzz`: damaged files for one reader or for all, for so many seconds ([`tiersim_tests::fuzz`]).
//!
//! A case that fails is written to the corpus, so that it is read by every test from then on.
//! Invariant: a case that hangs ends the program, with the file that it hangs on left in its place.

use clap::Args;
use std::io::Write;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tiersim_models::units::PS_PER_S;
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

pub(crate) fn fuzz(args: &FuzzArgs) -> ExitCode {
    // A panic is told once, with its case.
    panic::set_hook(Box::new(|_| ()));
    let readers = args.reader.map_or(Reader::ALL.to_vec(), |reader| vec![reader]);
    let mut code = ExitCode::SUCCESS;
    for reader in readers {
        match run(reader, args) {
            Ok(words) => say(&words),
            Err(words) => {
                say(&words);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn say(words: &str) {
    let _ = writeln!(std::io::stdout(), "{words}");
}

fn run(reader: Reader, args: &FuzzArgs) -> Result<String, String> {
    let name = reader.name();
    let folder = std::env::temp_dir().join(format!("tiersim-fuzz-{}", std::process::id()));
    let bench = ReaderUnderTest::new(reader, &folder).map_err(|error| error.to_string())?;
    let done = Arc::new(AtomicU64::new(0));
    watch(name, Arc::clone(&done), bench.folder().to_owned());
    let told = |failure: Failure, seed: Option<u64>| {
        let path = kept(name, &failure, seed);
        let Failure { file, what, .. } = failure;
        format!("{name}: case {seed:?}, {file}: {what}; kept in {}", path.display())
    };
    let ended = match args.replay {
        Some(seed) => bench
            .case(seed)
            .map_err(|failure| told(failure, Some(seed)))
            .map(|()| format!("{name}: case {seed} passed")),
        None => {
            let files = bench.corpus().map_err(|failure| told(failure, None))?;
            let clock = Clock::start();
            let mut index = 0;
            let failed = loop {
                if clock.now().ps() / PS_PER_S >= args.seconds {
                    break None;
                }
                let seed = seed_of(args.seed, index);
                if let Err(failure) = bench.case(seed) {
                    break Some(told(failure, Some(seed)));
                }
                index += 1;
                done.store(index, Ordering::Relaxed);
            };
            let seconds = args.seconds;
            failed.map_or(Ok(()), Err).map(|()| {
                format!("{name}: {index} cases from {files} files in {seconds} s, none failed")
            })
        }
    };
    done.store(u64::MAX, Ordering::Relaxed);
    let _ = std::fs::remove_dir_all(folder);
    ended
}

/// Ends the program when a case takes too long; its file stays where it is.
fn watch(reader: &'static str, done: Arc<AtomicU64>, folder: PathBuf) {
    std::thread::spawn(move || {
        let mut last = u64::MAX - 1;
        loop {
            std::thread::sleep(Duration::from_secs(HANGS));
            let now = done.load(Ordering::Relaxed);
            if now == u64::MAX {
                return;
            }
            if now == last {
                let place = folder.display();
                say(&format!("{reader}: case {now} takes more than {HANGS} s; see {place}"));
                std::process::exit(1);
            }
            last = now;
        }
    });
}

/// Writes what failed to the corpus.
fn kept(reader: &str, failure: &Failure, seed: Option<u64>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/fuzz").join(reader);
    let path = root.join(format!("found-{}~{}", seed.unwrap_or(0), failure.file));
    let _ = std::fs::create_dir_all(&root);
    let _ = std::fs::write(&path, &failure.bytes);
    path
}
