//! Traces that nobody means well with, or that were cut off on the way: as in `hostile`, exit code
//! 2, a message with file and line, and nothing written.
//!
//! Also what a trace and a scenario cannot do together though each is sound by itself; that is
//! found before anything is simulated.

use crate::common::trace_text::TraceText;
use crate::common::{Project, shipped};
use crate::hostile::{CASE, COMMANDS, refused};
use std::fs;

/// An edit of the trace folder, and what must be said about it.
#[track_caller]
fn check_trace(edit: impl FnOnce(&Project), pieces: &[&str]) {
    let project = Project::new();
    edit(&project);
    refused(&project, &COMMANDS, pieces);
    refused(&project, &[&["trace", "info", "traces/tiny"], &["check", "traces/tiny"]], pieces);
}

/// An edit of one table, and what must be said about it.
#[track_caller]
fn check_table(table: &str, from: &str, to: &str, pieces: &[&str]) {
    let tiny = TraceText::tiny().edited(table, from, to);
    check_trace(|project| tiny.write(&project.path("traces/tiny")), pieces);
}

#[test]
fn a_trace_must_hold_together() {
    let twice = ["objects.csv:5: ", "the name \"a.weight\"", "a name of its own"];
    check_table("objects", "3,a.moments", "3,a.weight", &twice);
    check_table(
        "uses",
        "7,2,rw",
        "7,99,rw",
        &["uses.csv:", "object 99 of 11", "name an object of objects.csv"],
    );
    check_table("uses", "1,6,r", "1,9,r", &["uses.csv:5: ", "b.grad"]);
    check_table("ops", "850000,", "850000,99", &["ops.csv:8: ", "after 99 of 8 ops"]);
    check_table("objects", "a,0.5,", "a,NaN,", &["objects.csv:2: ", "adam_m", "NaN"]);
    check_table("objects", "a,0.5,", "a,-0.5,", &["objects.csv:2: ", "adam_m", "-0.5"]);
    check_table(
        "objects",
        "b.moments,optimizer,8388608",
        "b.moments,optimizer,8 MiB",
        &["objects.csv:6: ", "8 MiB"],
    );
    check_table(
        "objects",
        "b.moments,optimizer,8388608",
        "b.moments,optimizer,-1",
        &["objects.csv:6: ", "-1"],
    );
    check_table("ops", "900000,", "1e400,", &["ops.csv:9: ", "at_ns", "1e400"]);
}

#[test]
fn ops_that_wait_for_each_other_are_shown_as_a_cycle() {
    let tiny = TraceText::tiny()
        .edited("ops", "backward,mm,c,0", "backward,mm,c,1")
        .edited("ops", ",200000,\n", ",200000,3\n")
        .edited("ops", ",400000,\n", ",400000,2\n");
    let pieces = ["ops.csv:4: ", "a dependency cycle: op 2 -> op 3 -> op 2", "break the cycle"];
    check_trace(|project| tiny.write(&project.path("traces/tiny")), &pieces);
    // A stream runs in row order, so waiting for a later op of the same stream is a cycle too.
    check_table("ops", "850000,", "850000,7", &["ops.csv:8: ", "cycle: op 6 -> op 7 -> op 6"]);
    let late = TraceText::tiny()
        .edited("ops", "adam,b,0", "adam,b,1")
        .edited("ops", "850000,", "850000,7");
    let pieces =
        ["ops.csv:8: ", "op 6 waits for op 7, which is listed later", "list the op before"];
    check_trace(|project| late.write(&project.path("traces/tiny")), &pieces);
}

#[test]
fn a_table_that_was_cut_off_is_noticed() {
    let tiny = TraceText::tiny();
    let last = tiny.ops.rfind("\n7,").unwrap() + 1;
    for (table, length, rule) in [
        ("ops.csv", tiny.ops.len() - 5, "the last line has no line break"),
        ("ops.csv", last, "7 rows where trace.ron says 8"),
        ("ops.csv", 0, "missing column id"),
        ("objects.csv", 300, "the last line has no line break"),
        ("uses.csv", tiny.uses.len() - 7, "22 rows where trace.ron says 23"),
    ] {
        let cut = |project: &Project| {
            let path = format!("traces/tiny/{table}");
            let bytes = fs::read(project.path(&path)).unwrap();
            project.write(&path, &bytes[..length]);
        };
        check_trace(cut, &[table, rule]);
    }
    let header =
        |project: &Project| project.write("traces/tiny/trace.ron", "(schema: 1, name: \"t");
    check_trace(header, &["trace.ron:1:"]);
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

#[test]
fn names_in_a_trace_cannot_drive_the_terminal() {
    check_table("objects", "a.moments", "\u{1b}[2J", &["objects.csv:5: "]);
    check_table("objects", "x,activation", "x,\u{1b}[2J", &["objects.csv:8: "]);
    check_table("ops", "forward,mm,b", "forward,\u{1b}]0;x\u{7},b", &["ops.csv:3: "]);
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
