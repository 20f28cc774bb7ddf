//! The CUDA machine on the stand-in of its driver: what it does, and that it does it in order.
//!
//! Each test runs itself again as a program of its own, with the stand-in where a program looks for
//! the driver. Nothing here says anything about a GPU: the stand-in's device is threads and memory
//! of this computer.

#![cfg(target_os = "linux")]

use std::process::Command;
use tiersim_conformance::real::{self, on_real, on_sim};
use tiersim_conformance::{Check, Counts, Site, TIME, cases, edges, failures, same};
use tiersim_tests::prelude::*;
use tiersim_validation::fault::Fault;
use tiersim_validation::options::{Delay, Live, Options};
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
    let folder = scratch().join("stand-in");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        if !link.exists() {
            // Another test may have been quicker.
            let _ = std::os::unix::fs::symlink(&library, &link);
        }
    }
    folder
}

/// Runs a test of this file again with a driver: `with` are more variables.
fn again(name: &str, libraries: &Path, with: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().expect("itself"));
    child.args(["--exact", &format!("cuda::{name}"), "--nocapture"]).env(CHILD, "1");
    let child = child.env("LD_LIBRARY_PATH", libraries).envs(with.iter().copied());
    let output = child.output().expect("it starts");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{}", said[0]);
    let ran = output.status.success() && said[0].contains("ok. 1 passed");
    assert!(ran, "{name}: {}\n{}", said[0], said[1]);
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

// Rooms are given in the order of the plan, so meters of tiers could show nothing here.
macro_rules! tests {
    ($($room:ident::$name:ident,)*; $($metered:ident::$meter:ident,)*) => {
        $(#[test] fn $name() { holds(stringify!($name), $room::$name); })*
    };
}

tiersim_conformance::bodies!(tests);

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

/// The first random world with all four tiers that fits, and so uses streams, threads and buffers.
fn world() -> World {
    let fits = |world: &World| {
        world.hardware.tiers.len() == 4
            && on_sim(world, &|| world.chaos(), None)
                .expect("it runs")
                .is_some_and(|ran| ran.moved.iter().filter(|moved| moved.get() > 0).count() >= 5)
    };
    let worlds = (0..).map(|seed| World::scaled(seed, tiersim_conformance::BYTES, TIME));
    worlds.into_iter().find(fits).expect("there are such worlds")
}

/// Runs the world in a folder of its own; what was said, if it failed.
fn run_once(name: &str, options: &dyn Fn(&Path) -> Options) -> (Check<()>, Live, PathBuf) {
    let folder = scratch().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let (world, options) = (world(), options(&folder));
    let ran = on_real(Kind::Cuda, &world, &|| world.chaos(), &options, None);
    (ran.map(|ran| assert!(ran.is_some(), "it fits")), options.live, folder)
}

#[test]
fn every_call_of_the_driver_may_fail_and_all_is_given_back() {
    let name = "every_call_of_the_driver_may_fail_and_all_is_given_back";
    if is_child() {
        let (ran, live, folder) = run_once("calls", &real::options);
        failures::all_given_back(&live, &folder).expect("all is given back");
        std::fs::remove_dir(&folder).expect("it is empty");
        let Ok(told) = std::env::var("TIERSIM_STAND_IN_FAIL") else { return ran.expect("it runs") };
        let call = told.split(':').next().expect("a name");
        // What gives things back has nobody to tell.
        let last = ["Free", "Destroy", "Unload", "Release", "cuCtxS"];
        match ran {
            Ok(()) => {
                assert!(last.iter().any(|word| call.contains(word)), "{call} is not heard of")
            }
            Err(words) => assert!(words.contains(call) && words.contains("CUDA_ERROR"), "{words}"),
        }
        return;
    }
    let calls = scratch().join(format!("calls-{}.txt", std::process::id()));
    let libraries = stand_in();
    again(name, &libraries, &[("TIERSIM_STAND_IN_CALLS", calls.to_str().expect("letters"))]);
    let text = std::fs::read_to_string(&calls).expect("the calls were counted");
    std::fs::remove_file(&calls).expect("it is there");
    let counts = text.lines().filter_map(|line| line.split_once(' '));
    let mut tried = 0;
    for (call, count) in counts {
        let count: u64 = count.parse().expect("a number");
        // How often an event is asked about is chance.
        let half = (count / 2).max(1);
        let numbers = if call == "cuEventQuery" || half == 1 { vec![1] } else { vec![1, half] };
        for number in numbers {
            again(name, &libraries, &[("TIERSIM_STAND_IN_FAIL", &format!("{call}:{number}"))]);
            tried += 1;
        }
    }
    assert!(tried > 40, "only {tried} failures were tried");
}

#[test]
fn a_device_that_does_not_answer_is_a_fault_and_not_a_hang() {
    let name = "a_device_that_does_not_answer_is_a_fault_and_not_a_hang";
    if !is_child() {
        return again(name, &stand_in(), &[]);
    }
    // Work starts up to an hour late, and the machine has no patience.
    let most = Span::from_us(3_600_000_000);
    let options = |folder: &Path| Options {
        delay: Some(Delay { seed: 1, most }),
        patience: Span::ZERO,
        ..real::options(folder)
    };
    let (ran, _, folder) = run_once("stuck", &options);
    let words = ran.expect_err("nothing can end");
    assert!(words.contains("nothing has ended for"), "{words}");
    std::fs::remove_dir(&folder).expect("its files are gone all the same");
}

#[test]
fn what_it_reports_could_have_been() {
    if !is_child() {
        return again("what_it_reports_could_have_been", &stand_in(), &[]);
    }
    let mut copies = 0;
    for seed in 0..40 {
        let world = World::scaled(seed, tiersim_conformance::BYTES, TIME);
        let make = || world.chaos();
        let Some(mut planner) = real::planner(&world, &make) else { continue };
        let options = Site::new(Kind::Cuda, scratch()).options();
        let opened = real::open(Kind::Cuda, &world, &planner, &options);
        let mut machine = opened.expect("it starts");
        let mut ends = Vec::new();
        if drive(&mut planner, &mut machine, 64, |op, at, _| ends.push((op, at))).is_err() {
            continue;
        }
        let report = machine.report();
        let told: Vec<_> = report.ops.iter().map(|op| (op.occurrence, op.end)).collect();
        assert_eq!(told, ends, "world {seed}");
        assert!(report.ops.iter().all(|op| op.ready <= op.start && op.start <= op.end));
        assert!(report.copies_run.iter().all(|copy| copy.ready <= copy.start));
        assert!(report.copies_run.iter().all(|copy| copy.start <= copy.end));
        assert_eq!(report.copies, report.copies_run.len() as u64);
        copies += report.copies;
        let device = report.device.expect("it has a device");
        assert_eq!(device.rooms, report.peak[0]);
        assert!(device.peak >= device.rooms, "world {seed}: {device:?}");
        let commands = report.ops.len() as u64 + report.copies;
        assert!(report.submitted.0 >= commands && report.truth.checks > 0);
    }
    assert_eq!(copies, 734, "copies of all worlds");
}

/// Random worlds whose links join files to the device and pinned memory to pinned memory, so that
/// threads reach every kind of place and buffers lie on the device too.
#[test]
fn any_two_kinds_of_tiers_may_be_joined() {
    if !is_child() {
        return again("any_two_kinds_of_tiers_may_be_joined", &stand_in(), &[]);
    }
    let gb_per_s = |rate: u64| law(1, rate * 1_000_000_000);
    let kinds = [TierKind::Nvme, TierKind::Dram, TierKind::Cxl, TierKind::Remote];
    let links = [(0, 1), (0, 2), (2, 3), (1, 4)].map(|(near, far)| (near, far, gb_per_s(10)));
    let (mut fit, mut moved) = (0, [0; 8]);
    for seed in 0..80 {
        let mut world = World::scaled(seed, tiersim_conformance::BYTES, TIME);
        let (hbm, chunk) = (world.hardware.tiers[0].capacity, world.hardware.chunk);
        let mut tiers = vec![(TierKind::Hbm, hbm, gb_per_s(100))];
        tiers.extend(kinds.map(|kind| (kind, Capacity::Unlimited, gb_per_s(10))));
        world.hardware = hardware(&tiers, &links);
        world.hardware.chunk = chunk;
        let make = || world.chaos();
        let Some(wanted) = on_sim(&world, &make, None).expect("it runs") else { continue };
        for (jitter, emulate) in [(None, true), (Some(seed), false)] {
            let options = Site::new(Kind::Cuda, scratch()).options();
            let options = Options { emulate, arrival_stride: 1 + seed as usize % 3, ..options };
            let found = on_real(Kind::Cuda, &world, &make, &options, jitter);
            let found = found.unwrap_or_else(|words| panic!("world {seed}: {words}"));
            wanted.same_as(&found.expect("it fits")).unwrap_or_else(|words| panic!("{words}"));
        }
        fit += 1;
        for (sum, bytes) in moved.iter_mut().zip(&wanted.moved) {
            *sum += bytes.get();
        }
    }
    assert_eq!(fit, 35, "worlds that fit");
    assert!(moved.iter().all(|&bytes| bytes > 0), "not every channel was used: {moved:?}");
}
