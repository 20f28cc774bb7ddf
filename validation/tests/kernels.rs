//! The committed PTX is what the committed source of the kernels was compiled to.
//!
//! `validation/kernels/build.py --check` compiles and compares; this needs no compiler, and notices
//! a source that was changed after it was compiled.
//! Invariant: it reads the files that the machine embeds.

use sha2::{Digest, Sha256};

const SOURCE: &str = include_str!("../kernels/kernels.cu");
const PTX: &str = include_str!("../kernels/kernels.ptx");

#[test]
fn the_ptx_names_the_source_that_it_was_compiled_from() {
    let digest: String = Sha256::digest(SOURCE).iter().map(|byte| format!("{byte:02x}")).collect();
    let first = PTX.lines().next().unwrap_or_default();
    assert_eq!(first, format!("// kernels.cu sha256 {digest}"), "run validation/kernels/build.py");
}

#[test]
fn every_kernel_of_the_source_is_in_the_ptx() {
    let names = |text: &str, before: &str| {
        let parts = text.split(before).skip(1);
        let names = parts.filter_map(|rest| rest.split('(').next()).map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    let source = names(SOURCE, "\nKERNEL ");
    assert!(source.len() >= 8, "{source:?}");
    assert_eq!(source, names(PTX, ".visible .entry "));
}
