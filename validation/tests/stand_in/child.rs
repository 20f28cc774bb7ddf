//! A test as a program of its own, which finds the stand-in where it looks for the driver.
//!
//! The dynamic linker reads `LD_LIBRARY_PATH` when a program starts, so a test that wants the
//! stand-in runs itself once more.
//! Invariant: a child that leaves something behind on the device fails its test.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Says to a test that it is the child.
const CHILD: &str = "TIERSIM_TEST_UNDER_STAND_IN";
/// Names the file that functions and their counts are added to when the context is given back.
const CALLS: &str = "TIERSIM_STAND_IN_CALLS";

/// Whether this is the child; the body of the test is for it alone.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Every function that this child has called before it gave a context back.
pub(crate) fn calls() -> BTreeSet<String> {
    let text = std::fs::read_to_string(std::env::var_os(CALLS).expect("the parent sets it"));
    let text = text.expect("a context was given back");
    text.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

/// Runs the test of this name again, with the stand-in in place of these libraries, such as `cuda`,
/// and with these variables. Its output, if it succeeded and left nothing behind.
pub(crate) fn run(test: &str, libraries: &[&str], variables: &[(&str, &str)]) -> String {
    let (out, leaks) = start(test, libraries, variables);
    let leaks = leaks.expect("the context was given back");
    let left: Vec<&str> = leaks.lines().filter(|line| !line.ends_with(" 0")).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    out
}

/// Runs the test of this name again as above, unless this is the child; whether it did.
pub(crate) fn ran(test: &str) -> bool {
    let ran = !is_child();
    if ran {
        println!("{}", run(test, &["cuda"], &[]));
    }
    ran
}

/// The same, and something may be left: what is, if the context was given back.
pub(crate) fn run_leaking(
    test: &str,
    libraries: &[&str],
    variables: &[(&str, &str)],
) -> Option<String> {
    start(test, libraries, variables).1
}

fn start(test: &str, libraries: &[&str], variables: &[(&str, &str)]) -> (String, Option<String>) {
    static CHILDREN: AtomicU64 = AtomicU64::new(0);
    let exe = std::env::current_exe().expect("a test knows where it is");
    let profile = exe.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    let stand_in = profile.join("examples/libcuda_stand_in.so");
    assert!(stand_in.exists(), "`cargo build -p tiersim-validation --examples` makes it");
    let number = CHILDREN.fetch_add(1, Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("under-stand-in-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of its own");
    for library in libraries {
        let link = folder.join(format!("lib{library}.so"));
        std::os::unix::fs::symlink(&stand_in, link).expect("a link in a new folder");
    }
    let leaks = folder.join("leaks");
    let child = Command::new(exe)
        .args(["--exact", test, "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .env("TIERSIM_STAND_IN_LEAKS", &leaks)
        .env(CALLS, folder.join("calls"))
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    let (out, errors) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    let ran = child.status.success() && out.contains("ok. 1 passed");
    assert!(ran, "{test}: {out}{errors}");
    let leaks = std::fs::read_to_string(leaks).ok();
    std::fs::remove_dir_all(&folder).expect("its own folder");
    (out.into_owned(), leaks)
}
