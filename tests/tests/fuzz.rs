//! Every reader with damaged files: what was kept of longer runs, and some more.

use tiersim_tests::fuzz::{Reader, ReaderUnderTest};
use tiersim_tests::prelude::*;

/// Cases of each reader; `cargo xtask fuzz` runs more.
const CASES: u64 = 150;

#[test]
fn damaged_files_are_read_or_refused() {
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
