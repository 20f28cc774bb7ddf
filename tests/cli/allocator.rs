//! `allocator`: a snapshot against the model, and what is said of files that hold none.

use crate::common::*;

/// A project with some of the snapshots of the suite.
fn project(names: &[&str]) -> Project {
    let project = Project::empty();
    for name in names {
        let from = shipped("tests/data/snapshots").join(name);
        project.write(name, fs::read(from).expect("the fixture is there"));
    }
    project
}

#[test]
fn a_snapshot_is_compared_drawn_and_written() {
    let project = project(&["train.pickle.gz"]);
    let ran = project.run(&["allocator", "train.pickle.gz"]).ends_with(0);
    let pieces = ["device 0: 1462 entries", "PyTorch's defaults", "deviation at most 0 %", "holds"];
    ran.shows(&pieces);
    let out = "out/allocator-train";
    assert_eq!(project.names(out), ["allocator.json", "device-0.png", "device-0.svg"]);
    let json = project.json(&format!("{out}/allocator.json"));
    assert_eq!((&json["holds"], &json["at_most"]), (&Value::from(true), &Value::from(0.01)));
    let device = &json["devices"][0];
    assert_eq!(device["same_address"], device["allocations"]);
    assert_eq!(device["reserved"]["snapshot_bytes"], device["reserved"]["model_bytes"]);
    let ran = project.run(&["allocator", "train.pickle.gz", "--out", "j", "--format", "json"]);
    assert_eq!(ran.ends_with(0).json(), json);
    assert_eq!(
        project.files("j"),
        project.files(out),
        "the files do not depend on what is printed"
    );
}

/// Snapshots that this project's own programs left on an H200: every allocation at its address.
#[test]
fn what_a_gpu_allocated_comes_out_at_the_same_addresses() {
    let project = Project::empty();
    let recorded = shipped("validation/results/2026-11-22-nvidia-h200/pytorch");
    for (name, allocations) in
        [("snapshot.pickle.gz", 2248), ("tiny-llama-snapshot.pickle.gz", 11_792)]
    {
        let file = recorded.join(name);
        let file = file.to_str().expect("a path in UTF-8");
        let ran = project.run(&["allocator", file, "--out", name, "--at-most", "0"]).ends_with(0);
        let all = format!("{allocations} of {allocations}");
        ran.shows(&[&format!("{all} allocations at the snapshot's address")]);
    }
}

#[test]
fn a_deviation_above_the_limit_is_a_failure_with_its_entry() {
    let project = project(&["tiny.json"]);
    // The model knows nothing of a segment that is half as large.
    project.edit("tiny.json", "\"total_size\": 2097152", "\"total_size\": 1048576");
    let ran = project.run(&["allocator", "tiny.json", "--at-most", "0.001"]).ends_with(1);
    ran.says(&["device 0: deviation "]).shows(&["FAILS     at most 0.1 %"]);
    assert!(project.path("out/allocator-tiny/device-0.svg").exists(), "what failed is drawn");
}

#[test]
fn bad_input_is_said_with_place_and_remedy_and_nothing_is_written() {
    let project = project(&["train.pickle.gz", "tiny.json"]);
    let whole = fs::read(project.path("train.pickle.gz")).expect("written above");
    project.write("cut.pickle.gz", &whole[..whole.len() / 2]);
    project.write("code.pickle", b"\x80\x02cos\nsystem\n(S'true'\ntR.");
    project.write("empty.json", r#"{"segments": [], "device_traces": [[], []]}"#);
    project.write("text.json", "{\n\"segments\": [1,\n}");
    project.write("nothing.pickle", "");
    let cases: [(&[&str], &[&str]); 9] = [
        (&["nothing.pickle"], &["a snapshot of memory is wanted here (found an empty file); "]),
        (&["cut.pickle.gz"], &["cut.pickle.gz: ", "copy the file again"]),
        (&["code.pickle"], &["byte 2: ", "an import of Python code", "plain data"]),
        (&["empty.json"], &["history", "_record_memory_history"]),
        (&["text.json"], &["text.json: line 3: "]),
        (&["none.pickle"], &["none.pickle: ", "check the path"]),
        (&["tiny.json", "--device", "3"], &["--device 3", "choose from 0"]),
        (&["tiny.json", "--capacity", "80 rods"], &["such as 24GiB"]),
        (&["tiny.json", "--at-most", "2"], &["a share from 0 to 1"]),
    ];
    for (args, pieces) in cases {
        let args = [&["allocator"], args].concat();
        project.run(&args).ends_with(2).says(pieces);
        assert!(!project.path("out").exists(), "{args:?} wrote");
    }
}
