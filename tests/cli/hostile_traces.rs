//! Traces that nobody means well with, or that were cut off on the way: as in `hostile`, exit code
//! 2, a message with file and line, and nothing written.
//!
//! Also what a trace and a scenario cannot do together though each is sound by itself; that is
//! found before anything is simulated.

use crate::common::trace_text::TraceText;
use crate::common::*;
use crate::hostile::{COMMANDS, refused};

/// An edit of the trace folder, and what must be said about it.
#[track_caller]
fn check_trace(edit: impl FnOnce(&Project), pieces: &[&str]) {
    let project = Project::new();
    edit(&project);
    refused(&project, &COMMANDS, pieces);
    refused(&project, &[&["trace", "info", "traces/tiny"], &["check", "traces/tiny"]], pieces);
}

#[test]
fn a_packed_table_that_was_cut_off_is_noticed() {
    let folder = shipped("traces/gpt2-train-cpu");
    for (table, kept) in [("objects.csv.gz", 1000), ("ops.csv.gz", 59_000), ("uses.csv.gz", 5)] {
        let project = Project::new();
        for file in ["trace.ron", "objects.csv.gz", "ops.csv.gz", "uses.csv.gz"] {
            let bytes = fs::read(folder.join(file)).unwrap();
            let kept = if file == table { kept } else { bytes.len() };
            project.write(&format!("traces/cut/{file}"), &bytes[..kept]);
        }
        project.edit_scenario("traces/tiny", "traces/cut");
        let pieces = [table, "the packed data ends early", "copy the file again"];
        refused(&project, &COMMANDS, &pieces);
        // A damaged byte in the middle is no better than a missing end.
        let mut bytes = fs::read(folder.join(table)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        project.write(&format!("traces/cut/{table}"), bytes);
        refused(&project, &COMMANDS, &[table]);
    }
}

#[test]
fn an_object_larger_than_every_tier_is_bad_input() {
    let tiny = TraceText::tiny().edited(
        "objects",
        "c.moments,optimizer,8388608",
        "c.moments,optimizer,536870913",
    );
    let project = Project::new();
    tiny.write(&project.path("traces/tiny"));
    let pieces = [
        "traces/tiny: object \"c.moments\" (line 7 of objects.csv) fits in no tier of small",
        "536870913 bytes",
        "the largest tier, nvme, has 512.0 MiB (536870912 bytes)",
        "raise the scenario's `capacity`",
    ];
    refused(&project, &COMMANDS, &pieces);
    project.edit_scenario("{\"dram\": mib(128)}", "{\"dram\": mib(128), \"nvme\": gib(1)}");
    project.edit_scenario("share_of_peak(0.75)", "share_of_peak(0.1)");
    project.run(&["check", CASE]).ends_with(0);
}

#[test]
fn what_a_trace_lacks_is_found_before_anything_runs() {
    let lacks = TraceText::tiny().edited("objects", "b,0.25,0.5", "b,,");
    let project = Project::new();
    lacks.write(&project.path("traces/tiny"));
    let pieces = ["policy \"adam\": adam-state needs adam_m and adam_v", "b.weight"];
    refused(&project, &COMMANDS, &pieces);
    // A good scenario before it on the command line is not run either.
    project.write("scenarios/good.ron", "");
    fs::copy(project.path(CASE), project.path("scenarios/good.ron")).unwrap();
    let adam = "AdamState(cut: shares(hbm: 0.3, cpu: 0.4), access: migrate(prefetch_ops: 2))";
    project.edit("scenarios/good.ron", adam, "AllHbm");
    project.run(&["check", "scenarios/good.ron"]).ends_with(0);
    refused(&project, &[&["run", "scenarios/good.ron", CASE]], &pieces);
    let timeless =
        TraceText::tiny().edited("ops", "0,0,50000,0,16777216,900000", "0,0,,0,16777216,900000");
    check_trace_of_scenario(timeless, &["op 7 of the trace has no recorded duration"]);
}

/// A trace that is sound by itself and does not suit the scenario.
#[track_caller]
fn check_trace_of_scenario(trace: TraceText, pieces: &[&str]) {
    let project = Project::new();
    trace.write(&project.path("traces/tiny"));
    project.run(&["check", "traces/tiny"]).ends_with(0);
    refused(&project, &COMMANDS, pieces);
}

#[test]
fn a_run_longer_than_the_clock_counts_is_bad_input() {
    let pieces = ["traces/tiny: the run may take", "the clock counts to 107", "check the units"];
    let project = Project::new();
    // 51 hours, which the trace may hold, a million times.
    let long = TraceText::tiny().edited("ops", "100000,1000000,5242880", "184467440737095,1,1");
    long.write(&project.path("traces/tiny"));
    project.run(&["check", CASE]).ends_with(0);
    let scale = "workload.time=recorded(scale: 1e6)";
    let repeat = "workload.repeat=10000";
    for set in [scale, repeat] {
        refused(&project, &[&["run", CASE, "--set", set], &["hints", CASE, "--set", set]], &pieces);
    }
    let axis = "(name: \"scale\", path: \"workload.time.scale\", values: list([1, 1000000]))";
    project.edit_scenario("seed: 1", &format!("seed: 1, sweep: (axes: [{axis}])"));
    refused(&project, &[&["sweep", CASE]], &pieces);
    // As large as an object may be, over links as slow as they may be.
    let project = Project::new();
    let large = TraceText::tiny().edited(
        "objects",
        "c.moments,optimizer,8388608",
        "c.moments,optimizer,9223372036854775807",
    );
    large.write(&project.path("traces/tiny"));
    project.edit("hardware-specs/small.ron", "gb_per_s(5)", "mb_per_s(1)");
    project.edit("hardware-specs/small.ron", "capacity: (mib(512), assumed(\"test\")),", "");
    refused(&project, &COMMANDS, &pieces);
}

#[cfg(unix)]
#[test]
fn a_table_that_is_a_link_is_refused() {
    let linked = |project: &Project| {
        fs::remove_file(project.path("traces/tiny/ops.csv")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", project.path("traces/tiny/ops.csv")).unwrap();
    };
    check_trace(linked, &["ops.csv: a symbolic link", "copy the file into the folder"]);
}
