//! A trace that was imported or generated is, in memory, the one that its folder holds: what runs on
//! the one runs on the other, and names of modules mean the same in both.

use crate::files::folder;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tiersim_input::import::any::import_file;
use tiersim_input::trace::{Packing, read_trace, write_trace};
use tiersim_models::workload::{Gaps, Trace};
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::{AttentionOn, Generation};
use tiersim_workloads::transformer::known::known;
use tiersim_workloads::transformer::training::{Kernels, Router, Training};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("the corpus is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// Fails unless a trace is written and read back equal.
pub(crate) fn is_what_is_read_back(what: &str, trace: &Trace) {
    let folder = folder("round-trip");
    write_trace(trace, &folder, Packing::Plain).unwrap_or_else(|error| panic!("{what}: {error}"));
    let read = read_trace(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(read.modules, trace.modules, "{what}");
    assert!(read == *trace, "{what} is another trace when it is read back");
}

/// The same of a trace whose modules may be numbered otherwise: each of them is named.
fn is_numbered_and_read_back(what: &str, mut trace: Trace) {
    let mut before = trace.modules.clone();
    trace.number_modules();
    let mut after = trace.modules.clone();
    before.sort_unstable();
    after.sort_unstable();
    assert_eq!(before, after, "{what} has modules that nothing names");
    is_what_is_read_back(what, &trace);
}

#[test]
fn every_import_is_what_is_read_back_of_it() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/fuzz");
    let (mut all, mut kinds) = (Vec::new(), BTreeSet::new());
    files(&corpus, &mut all);
    for path in all {
        for gaps in [Gaps::Keep, Gaps::Drop] {
            let Ok(imported) = import_file(&path, gaps) else { continue };
            is_what_is_read_back(&path.display().to_string(), &imported.trace);
            let within = path.strip_prefix(&corpus).expect("it lies in the corpus");
            kinds.extend(within.iter().next().map(|kind| kind.to_string_lossy().into_owned()));
        }
    }
    for kind in ["block", "chakra", "damon", "execution", "footprint", "perf", "profiler", "ranks"]
    {
        assert!(kinds.contains(kind), "nothing of {kind} was imported: {kinds:?}");
    }
}

#[test]
fn what_is_generated_is_what_is_read_back_of_it() {
    for name in ["gpt2", "llama-3-8b"] {
        let card = known(name).unwrap_or_else(|| panic!("no card of {name}")).card();
        is_numbered_and_read_back(name, Training::new(card.clone(), 64).trace());
        let of = Generation {
            card,
            formats: Formats::all(Format::Bf16),
            batch: 1,
            batches: 1,
            prompt: 9,
            tokens: 3,
            prefill: true,
            attention: AttentionOn::Device,
            kernels: Kernels::Compiled,
            kv_block: None,
            tensor: 1,
            context: 1,
            devices: 1,
            router: Router::default(),
        };
        is_numbered_and_read_back(name, of.trace());
    }
}
