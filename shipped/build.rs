//! Lists what ships inside the command: machines, their parts, scenarios, and what scenarios read.
//!
//! The crate's folder is the project's, so that its package holds the folders below, by the same
//! names as here (`include` of its manifest; a test of xtask compares).
//! What `tiersim calibrate` measured here (`hardware-specs/measured`) is this computer's own and
//! does not ship, nor do notes and the raw recording.
//! A program for WebAssembly ships none: there, files are held in memory.
//! Invariant: the list is in the order of its names, so that the same files give the same program.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the project, and the endings of what ships of each.
const SHIPPED: &[(&str, &[&str])] = &[
    ("hardware-specs", &["ron"]),
    ("hardware-specs/op-times", &["ron"]),
    ("hardware-specs/parts", &["ron"]),
    ("scenarios", &["ron"]),
    ("scenarios/hints", &["json"]),
    ("scenarios/learned", &["ron"]),
    ("traces/gpt2-infer-cpu", &["ron", "gz"]),
    ("traces/gpt2-train-cpu", &["ron", "csv", "gz"]),
    ("traces/requests-conversation", &["jsonl"]),
    ("traces/tiny-llama-cpu", &["ron", "gz"]),
    ("traces/varying-sequence", &["ron", "gz"]),
];

fn main() {
    let project =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo says where we are"));
    let mut files = Vec::new();
    // In a page the files that a scenario reads are handed over; those of all would be larger than
    // the program.
    let in_a_page = env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm");
    for (folder, endings) in SHIPPED.iter().filter(|_| !in_a_page) {
        println!("cargo:rerun-if-changed={}", project.join(folder).display());
        for entry in fs::read_dir(project.join(folder)).expect("what ships is there") {
            let path = entry.expect("a readable entry").path();
            let ends = |ending: &&str| path.extension().is_some_and(|found| found == *ending);
            if path.is_file() && endings.iter().any(ends) {
                files.push((format!("{folder}/{}", name(&path)), path));
            }
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for (name, path) in files {
        let path = path.to_str().expect("the project's path is text");
        writeln!(list, "    ({name:?}, include_bytes!({path:?})),").expect("text has room");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo says where to write"));
    fs::write(out.join("shipped.rs"), list).expect("the build folder can be written");
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("names of what ships are text")
}
