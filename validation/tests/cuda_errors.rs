//! Whatever call of the driver fails, the machine and the bench say so and give everything back.
//!
//! On the stand-in each call of a short run is told to fail in turn: every function that the
//! machine calls, the first, second and so on time that it calls it.
//! Invariant: no failure ends in a panic, in waiting for ever, or in something left on the device.

#![cfg(target_os = "linux")]

use crate::stand_in::child;
use crate::stand_in::device::{calls, fail, live};
use std::path::{Path, PathBuf};
use tiersim_models::hardware::{Channel, Hardware};
use tiersim_models::ids::{LinkId, TierId};
use tiersim_models::units::Bytes;
use tiersim_validation::calibrate::through::Through;
use tiersim_validation::calibrate::{self, Kind as Probed, Probe, Start};
use tiersim_validation::fault::Fault;
use tiersim_validation::real::Kind;

/// What gives back. When one of these fails, there is nothing that the caller could do about it but
/// go on, and what it was to give back stays.
const GIVE_BACK: [&str; 6] = [
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuModuleUnload",
    "cuDevicePrimaryCtxRelease_v2",
];
/// Of calls that are made more often than this, the first ones and some later ones fail.
const EACH: u64 = 6;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    folder.join(format!("cuda-errors-{name}-{}", std::process::id()))
}

/// The machine of the stand-in; its bench is gone again.
fn skeleton(folder: &Path) -> Hardware {
    let bench = calibrate::bench((Kind::Cuda, 0), folder).expect("the stand-in is there");
    bench.describe().skeleton
}

/// Copies over both links, in both directions, and ops that use objects in each tier.
fn short_run(skeleton: &Hardware, scratch: &Path) -> Result<(), Fault> {
    let through = Through { machine: Kind::Cuda, device: 0, skeleton, scratch };
    let size = Bytes::new(20_000);
    for link in [0, 1] {
        for evicting in [false, true] {
            through.channel(Channel { link: LinkId(link), evicting }, Start::Busy, size, 1)?;
        }
    }
    for tier in [0, 1, 2] {
        through.in_place(TierId(tier), true, size, 1)?;
    }
    Ok(())
}

/// Which calls of `count` are told to fail.
fn chosen(count: u64) -> Vec<u64> {
    (1..=count).filter(|n| *n <= EACH || *n == count || n.is_multiple_of(count / 3 + 1)).collect()
}

fn every_call_fails_once(name: &str, run: impl Fn() -> Result<(), Fault>) {
    fail("");
    run().expect("nothing fails");
    assert_eq!(live(), [0; 6]);
    let names = child::calls();
    let counts = names.iter().map(|name| (name.as_str(), calls(name)));
    let (given_back, made): (Vec<_>, Vec<_>) =
        counts.filter(|(_, count)| *count > 0).partition(|(name, _)| GIVE_BACK.contains(name));
    assert!(made.len() > 17 && given_back.len() == GIVE_BACK.len(), "{made:?} {given_back:?}");
    let (mut refused, mut failures) = (0, 0);
    for (call, count) in made {
        for number in chosen(count) {
            fail(&format!("{call}:{number}"));
            let done = run();
            failures += 1;
            // How often a queue is asked is a matter of timing: the call may not have been reached.
            let reached = calls(call) >= number;
            refused += u64::from(done.is_err());
            if done.is_ok() && reached {
                println!("{name}: {call} {number} of {count} failed and the run went on");
            }
            if let Err(fault) = &done {
                let words = fault.to_string();
                assert!(!words.contains("died"), "{call} {number}: {words}");
                assert!(reached, "{call} {number} was not made, and yet: {words}");
            }
            assert_eq!(live(), [0; 6], "{call} {number}: {done:?}");
        }
    }
    println!("{name}: {failures} failures, {refused} of them ended the run");
    assert!(refused * 10 > failures * 7, "most of {failures} are noticed: {refused}");
}

#[test]
fn a_machine_gives_everything_back_whatever_call_fails() {
    if child::ran("cuda_errors::a_machine_gives_everything_back_whatever_call_fails") {
        return;
    }
    let folder = scratch("machine");
    let skeleton = skeleton(&folder);
    every_call_fails_once("machine", || short_run(&skeleton, &folder));
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// What the bench does around the machine.
fn bare_run(scratch: &Path) -> Result<(), Fault> {
    let mut bench = calibrate::bench((Kind::Cuda, 0), scratch)?;
    for (kind, limits) in bench.kinds() {
        if matches!(kind, Probed::Bare { .. } | Probed::Stream(_) | Probed::Gemm(_)) {
            bench.run(&Probe { kind, size: limits.least, repeats: 1 })?;
        }
    }
    Ok(())
}

#[test]
fn a_bench_gives_everything_back_whatever_call_fails() {
    if child::ran("cuda_errors::a_bench_gives_everything_back_whatever_call_fails") {
        return;
    }
    let folder = scratch("bench");
    every_call_fails_once("bench", || bare_run(&folder));
    std::fs::remove_dir(&folder).expect("it is there, and nothing in it");
}

#[test]
fn what_cannot_be_given_back_does_not_end_in_a_panic() {
    let name = "cuda_errors::what_cannot_be_given_back_does_not_end_in_a_panic";
    for call in GIVE_BACK {
        // Each in a program of its own: what was not given back stays.
        if !child::is_child() {
            child::run_leaking(name, &["cuda"], &[("TIERSIM_TEST_CALL", call)]);
        }
    }
    if child::is_child() {
        let call = std::env::var("TIERSIM_TEST_CALL").expect("the parent sets it");
        let folder = scratch(&call);
        let skeleton = skeleton(&folder);
        fail(&format!("{call}:1"));
        // Whether the run notices is its own business.
        let _ = short_run(&skeleton, &folder);
        assert!(calls(&call) > 1, "the run went on");
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}

#[test]
fn pinned_memory_goes_from_one_machine_to_the_next_while_it_is_kept() {
    if child::ran("cuda_errors::pinned_memory_goes_from_one_machine_to_the_next_while_it_is_kept") {
        return;
    }
    let folder = scratch("keep");
    let skeleton = skeleton(&folder);
    let through = Through { machine: Kind::Cuda, device: 0, skeleton: &skeleton, scratch: &folder };
    let channel = Channel { link: LinkId(0), evicting: false };
    let copies = |size| {
        let before = calls("cuMemHostAlloc");
        through.channel(channel, Start::Busy, Bytes::new(size), 1).expect("contents are right");
        calls("cuMemHostAlloc") - before
    };
    fail("");
    // The first machine of a process measures the device's kernels as well.
    copies(1 << 20);
    let each = copies(1 << 20);
    let kept = Kind::Cuda.keep(0).expect("the stand-in is there");
    assert_eq!(copies(1 << 20), each, "there is nothing yet");
    assert!(copies(1 << 20) < each, "the arena was kept");
    assert_eq!(copies(1 << 24), each, "too small for this one, and given back");
    assert!(copies(1 << 20) < each, "large enough");
    assert!(live()[2] > 0, "it is still there");
    drop(kept);
    assert_eq!(live(), [0; 6]);
    assert_eq!(copies(1 << 20), each);
    std::fs::remove_dir_all(&folder).expect("it is there");
}
