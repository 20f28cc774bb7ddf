//! The CUDA machine on the stand-in of its driver: what it does, and that it does it in order.
//!
//! Each test runs itself again as a program of its own, with the stand-in where a program looks for
//! the driver. Nothing here says anything about a GPU: the stand-in's device is threads and memory
//! of this computer.

use std::path::{Path, PathBuf};
use std::process::Command;
use tiersim_conformance::{Check, Counts, Site, cases, edges, failures, same};
use tiersim_validation::fault::Fault;
use tiersim_validation::real::Kind;

/// Says that this is the program run again.
const CHILD: &str = "TIERSIM_ON_STAND_IN";

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A folder in which the stand-in has the driver's name.
fn stand_in() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows where it is");
    let profile = exe.parent().and_then(Path::parent).expect("target/PROFILE/deps");
    let library = profile.join("examples/libcuda_stand_in.so");
    assert!(
        library.exists(),
        "{} is not there: `cargo build -p tiersim-validation --examples` makes it",
        library.display()
    );
    let folder = scratch().join(format!("stand-in-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        if !link.exists() {
            // Another test of this program may have been quicker.
            let _ = std::os::unix::fs::symlink(&library, &link);
        }
    }
    folder
}

/// Runs a test of this file again with a driver: `with` are more variables.
fn again(name: &str, libraries: &Path, with: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().expect("itself"));
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let child = child.env("LD_LIBRARY_PATH", libraries).envs(with.iter().copied());
    let output = child.output().expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{}", said[0]);
    assert!(output.status.success(), "{}\n{}", said[0], said[1]);
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs a body on the stand-in; nothing may be left on the device.
fn holds(name: &str, body: fn(&Site) -> Check<Counts>) {
    if !is_child() {
        let leaks = scratch().join(format!("leaks-{name}-{}", std::process::id()));
        let with = [("TIERSIM_STAND_IN_LEAKS", leaks.to_str().expect("a path in letters"))];
        again(name, &stand_in(), &with);
        let text = std::fs::read_to_string(&leaks).expect("the context was given back");
        std::fs::remove_file(&leaks).expect("it is there");
        assert!(text.lines().all(|line| line.ends_with(" 0")), "left on the device: {text}");
        return;
    }
    match body(&Site::new(Kind::Cuda, scratch())) {
        Ok(counts) => println!("{counts}"),
        Err(found) => panic!("{found}"),
    }
}

macro_rules! tests {
    ($($room:ident::$name:ident,)*) => {
        $(#[test] fn $name() { holds(stringify!($name), $room::$name); })*
    };
}

tests![
    same::random_worlds_are_the_same_everywhere,
    cases::what_was_written_is_written_back_and_comes_back_new,
    cases::what_was_only_read_is_dropped_without_a_copy,
    cases::double_buffering_ends_in_order,
    cases::copies_over_several_links_arrive_whole,
    cases::use_in_place_moves_nothing_and_costs_its_delay,
    edges::with_all_edges_the_same_delays_show_nothing,
    edges::contents_show_a_missing_arrival_edge,
    edges::contents_show_a_missing_last_use_edge,
    edges::contents_show_a_missing_write_back_edge,
    failures::a_failed_allocation_is_a_clean_error_and_everything_is_given_back,
    failures::a_failed_copy_is_a_clean_error_and_everything_is_given_back,
];

#[test]
fn without_a_driver_it_says_what_was_looked_for() {
    if !is_child() {
        let empty = scratch().join("no-driver");
        std::fs::create_dir_all(&empty).expect("a folder can be made");
        return again("without_a_driver_it_says_what_was_looked_for", &empty, &[]);
    }
    match Site::new(Kind::Cuda, scratch()).probe() {
        // A computer with a driver of its own: then it must work.
        Ok(()) => {}
        Err(Fault::NoDevice { machine: "cuda", remedy, .. }) => assert!(remedy.contains("host")),
        Err(other) => panic!("{other}"),
    }
}
