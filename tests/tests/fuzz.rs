//! Every reader with damaged files: what was kept of longer runs, and some more.

use std::process::Command;
use tiersim_tests::fuzz::{Reader, ReaderUnderTest};
use tiersim_tests::prelude::*;

/// Cases of each reader; `cargo xtask fuzz` runs more.
const CASES: u64 = 150;

/// Says that the test below has the process to itself: memory is that of the whole process, and
/// other tests take some too.
const ALONE: &str = "TIERSIM_FUZZ_ALONE";

#[test]
fn damaged_files_are_read_or_refused() {
    if std::env::var_os(ALONE).is_none() {
        let own = std::env::current_exe().expect("this program");
        let name = "fuzz::damaged_files_are_read_or_refused";
        let ran = Command::new(own).args(["--exact", name]).env(ALONE, "1").output();
        let ran = ran.expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        return assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    }
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", std::process::id()));
    for &reader in Reader::ALL {
        let bench = ReaderUnderTest::new(reader, &folder).expect("files of the corpus");
        let count = bench.corpus().unwrap_or_else(|failure| {
            panic!("{}: {}: {}", reader.name(), failure.file, failure.what)
        });
        assert!(count > 0, "{} has files to start from", reader.name());
        for index in 0..CASES {
            bench.case(seed_of(1, index)).unwrap_or_else(told_of(reader, index));
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

fn told_of(reader: Reader, index: u64) -> impl Fn(tiersim_tests::fuzz::Failure) {
    move |failure| {
        let (name, seed) = (reader.name(), seed_of(1, index));
        panic!(
            "cargo xtask fuzz --reader {name} --replay {seed}: {} ({})",
            failure.what, failure.file
        )
    }
}
