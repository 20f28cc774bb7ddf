//! The CUDA bench answers every probe, on the stand-in of the driver.
//!
//! What it says of times is about threads of this computer and is not looked at, but for being
//! there; that calls are right, results too, and nothing is left behind, is.
//! Invariant: each test is a program of its own, with its own stand-in.

#![cfg(target_os = "linux")]

use crate::stand_in::child;
use std::collections::BTreeSet;
use tiersim_models::units::{Bytes, Span};
use tiersim_validation::calibrate::{self, Kind, Probe, figures};
use tiersim_validation::real;

fn scratch(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    folder.join(format!("cuda-bench-{name}-{}", std::process::id()))
}

fn probe_all(name: &str) -> String {
    let folder = scratch(name);
    let mut bench =
        calibrate::bench((real::Kind::Cuda, 0), &folder).expect("the stand-in is there");
    let device = bench.describe();
    assert_eq!(device.name, "stand-in (no GPU)");
    assert_eq!(device, bench.describe(), "the same at every call");
    let mut sizes = BTreeSet::new();
    for (kind, limits) in bench.kinds() {
        assert!(limits.least <= limits.most && limits.fit_from <= limits.most, "{kind:?}");
        // The smallest, and one that is neither a power of two nor a multiple of a page.
        let odd = Bytes::new((limits.least.get() * 5 / 2 + 48).min(limits.most.get()));
        for (size, repeats) in [(limits.least, 3), (odd, 1)] {
            // Files are read and written in whole pages; copies and objects in any size.
            if matches!(kind, Kind::File { depth, .. } if depth > 2) {
                continue;
            }
            let probe = Probe { kind, size, repeats };
            let sample = bench.run(&probe).unwrap_or_else(|fault| panic!("{probe:?}: {fault}"));
            assert_eq!((sample.probe, sample.spans.len()), (probe, repeats));
            assert_eq!(sample.flops > 0, matches!(kind, Kind::Gemm(_)));
            assert_eq!(!sample.latencies.is_empty(), matches!(kind, Kind::File { .. }));
            assert!(sample.spans.iter().all(|span| *span < Span::from_us(60_000_000)));
            sizes.insert(size);
        }
    }
    for kind in bench.kinds().into_iter().map(|(kind, _)| kind) {
        if let Kind::Gemm(precision) = kind {
            print!("[{}] ", precision.word());
        }
    }
    assert!(sizes.len() > 4, "{sizes:?}");
    drop(bench);
    std::fs::remove_dir(&folder).expect("the bench left nothing in it");
    device.notes.join("; ")
}

#[test]
fn every_probe_is_answered_and_nothing_is_left() {
    let name = "cuda_bench::every_probe_is_answered_and_nothing_is_left";
    if child::is_child() {
        println!("{}", probe_all("own"));
    } else {
        let said = child::run(name, &["cuda"], &[]);
        assert!(said.contains("[fp32] files"), "{said}");
        assert!(said.contains("gemm_f32: cuBLAS could not be loaded"), "{said}");
    }
}

#[test]
fn products_are_cublas_where_it_can_be_loaded() {
    let name = "cuda_bench::products_are_cublas_where_it_can_be_loaded";
    if child::is_child() {
        println!("{}", probe_all("blas"));
    } else {
        let said = child::run(name, &["cuda", "cublas"], &[]);
        // Each was tried against a plain product when the bench was made.
        assert!(said.contains("[fp32] [tf32] [bf16] files"), "{said}");
        assert!(said.contains("products by cuBLAS"), "{said}");
    }
}

#[test]
fn a_device_that_is_not_there_is_named_with_a_remedy() {
    let name = "cuda_bench::a_device_that_is_not_there_is_named_with_a_remedy";
    if !child::is_child() {
        child::run_leaking(name, &["cuda"], &[]);
        return;
    }
    let folder = scratch("second");
    let fault = calibrate::bench((real::Kind::Cuda, 1), &folder).err().expect("it has one device");
    let words = fault.to_string();
    for part in ["there is no device 1: the driver sees 1", "--device", "counted from 0"] {
        assert!(words.contains(part), "{words}");
    }
    assert!(!folder.exists(), "nothing was made");
}

#[test]
fn what_cublas_refuses_is_left_out_and_said() {
    let name = "cuda_bench::what_cublas_refuses_is_left_out_and_said";
    if child::is_child() {
        println!("{}", probe_all("refused"));
    } else {
        let fails = [("TIERSIM_STAND_IN_FAIL", "cublasGemmEx:2")];
        let said = child::run(name, &["cuda", "cublas"], &fails);
        assert!(said.contains("[fp32] [bf16] files"), "{said}");
        assert!(said.contains("products in tf32 are left out: cublasGemmEx says"), "{said}");
    }
}

#[test]
fn figures_of_a_bench_and_of_its_machine_are_given() {
    if child::ran("cuda_bench::figures_of_a_bench_and_of_its_machine_are_given") {
        return;
    }
    let folder = scratch("figures");
    let mut bench =
        calibrate::bench((real::Kind::Cuda, 0), &folder).expect("the stand-in is there");
    let found = figures::figures(&mut *bench, (real::Kind::Cuda, 0), &folder, Bytes::mib(1));
    let found = found.expect("no fault");
    for figure in &found {
        assert!(!figure.values.is_empty(), "{}", figure.name);
        assert!(figure.values.iter().all(|value| value.is_finite()), "{}", figure.name);
    }
    // A delay never ends early on the stand-in, whose timer moves by nanoseconds.
    let delays: Vec<_> = found.iter().filter(|figure| figure.name.contains("a delay of")).collect();
    assert_eq!(delays.len(), 9);
    assert!(delays.iter().all(|figure| figure.values.iter().all(|off| *off > -0.01)));
    let shares: Vec<_> = found.iter().filter(|figure| figure.wanted.is_some()).collect();
    assert_eq!(shares.len(), 3, "two ways against the bare copy, and the overlap");
    // Ops last as long as they are told to and follow each other: no sum of times is below that.
    assert!(shares.iter().filter(|f| f.name.contains("overlap")).all(|f| f.median > 0.0));
    drop(bench);
    std::fs::remove_dir(&folder).expect("the bench left nothing in it");
}
