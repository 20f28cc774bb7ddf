//! Input that nobody means well with, or that somebody got wrong: exit code 2, a message that says
//! where, which rule and what to do, and a project folder that is untouched byte for byte.
//!
//! Every mistake goes through all commands that read it. The limits on memory and time are those of
//! every run, see `common`.

use crate::common::trace_text::TraceText;
use crate::common::{Project, shipped};
use std::fs;

const CASE: &str = "scenarios/case.ron";

/// The commands that read a scenario and its trace; none of them may write anything.
const COMMANDS: [&[&str]; 4] = [
    &["run", CASE, "--out", "result"],
    &["run", CASE, "--format", "json"],
    &["check", CASE],
    &["hints", CASE, "--out", "hints.json"],
];

/// Runs `commands` in `project`: each must end with bad input, say every piece and write nothing.
#[track_caller]
fn refused(project: &Project, commands: &[&[&str]], pieces: &[&str]) {
    let before = project.files("");
    for command in commands {
        let ran = project.run(command).ends_with(2).says(pieces);
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        assert_eq!(ran.stdout, "", "{command:?}");
        assert!(!ran.stderr.contains('\u{1b}'), "escape sequences in {:?}", ran.stderr);
        assert_eq!(project.files(""), before, "{command:?} wrote something");
    }
}

/// A piece of the scenario, what it is replaced by, and what must be said about that.
#[track_caller]
fn check(from: &str, to: &str, pieces: &[&str]) {
    let project = Project::new();
    project.edit_scenario(from, to);
    refused(&project, &COMMANDS, pieces);
}

/// The bytes of the scenario, and what must be said about them.
#[track_caller]
fn check_file(bytes: impl AsRef<[u8]>, pieces: &[&str]) {
    let project = Project::new();
    project.write(CASE, bytes);
    refused(&project, &COMMANDS, pieces);
}

/// An edit of the trace folder, and what must be said about it.
#[track_caller]
fn check_trace(edit: impl FnOnce(&Project), pieces: &[&str]) {
    let project = Project::new();
    edit(&project);
    refused(&project, &COMMANDS, pieces);
    refused(&project, &[&["trace", "info", "traces/tiny"], &["check", "traces/tiny"]], pieces);
}

#[test]
fn a_field_that_is_unknown_is_named_with_its_place() {
    let remedy = "did you mean `seed`?";
    check("seed: 1", "sede: 1", &["scenarios/case.ron:12:5: ", "no field `sede`", remedy]);
    check("repeat: 3", "repeats: 3", &["case.ron:6:70: ", "did you mean `repeat`?"]);
}

#[test]
fn a_size_needs_its_unit() {
    check("mib(128)", "80", &["case.ron:5:24: a size needs its unit", "found `80`", "gib(80)"]);
    check("share_of_peak(0.75)", "0.75", &["case.ron:10:58: ", "found `0.75`"]);
}

#[test]
fn a_number_must_be_one_and_within_its_range() {
    for (number, rule) in [
        ("NaN", "must be a finite number"),
        ("inf", "must be a finite number"),
        ("-inf", "must be a finite number"),
        ("1e400", "must be a finite number"),
        ("-1", "may not be negative"),
        ("1e300", "must lie between"),
    ] {
        check("mib(128)", &format!("mib({number})"), &["case.ron:5:2", rule, number]);
        let jitter = format!("warmup: 1, jitter: {number}");
        check("warmup: 1", &jitter, &["case.ron:6:100: `jitter` must lie between 0 and 1", number]);
    }
    check("hbm: 0.3", "hbm: 1.5", &["case.ron:9:", "must lie between 0 and 1", "1.5"]);
    check("seed: 1", "seed: -1", &["case.ron:12:11: ", "found `-1`", "from 0 up"]);
    check("repeat: 3", "repeat: 5000000000", &["case.ron:6:78: ", "write a smaller one"]);
}

#[test]
fn what_a_scenario_names_must_be_there() {
    check("\"small\"", "\"smal\"", &["case.ron:4:15: ", "hardware-specs", "did you mean `small`?"]);
    check("traces/tiny", "traces/tony", &["case.ron:6:27: ", "no such file or folder"]);
    check("AllHbm", "AllHBM", &["case.ron:8:", "`AllHBM`", "AllHbm"]);
    check("fits(\"all\")", "fits(\"al\")", &["case.ron:13:19: no policy has this name", "`all`"]);
    let project = Project::new();
    let commands: [&[&str]; 4] = [
        &["run", "none.ron"],
        &["check", "none.ron"],
        &["sweep", "none.ron"],
        &["hints", "none.ron"],
    ];
    refused(&project, &commands, &["none.ron: the file cannot be read", "check the path"]);
    let missing: [&[&str]; 2] = [&["trace", "info", "none"], &["check", "none"]];
    refused(&project, &missing, &["none"]);
    let import: &[&str] = &["trace", "import", "recording", "none", "--out", "made"];
    refused(&project, &[import], &["none"]);
}

#[test]
fn a_path_that_climbs_out_is_refused() {
    for path in ["../../etc/passwd", "../../../../../../../../../etc/passwd", "a/../../../b"] {
        check("traces/tiny", path, &["case.ron:6:27: the path leads out of the project"]);
    }
    check("traces/tiny", "/etc", &["case.ron:6:27: a path in a scenario must be relative"]);
    let spec = "\"../../../etc/passwd.ron\"";
    check("\"small\"", spec, &["case.ron:4:15: the path leads out of the project"]);
    check("\"small\"", "\"../traces/tiny\"", &["case.ron:4:15: no machine of this name"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_is_refused() {
    use std::os::unix::fs::symlink;
    let rule = "follows a link out of the project";
    let project = Project::new();
    symlink("/etc", project.path("traces/out")).unwrap();
    symlink("/etc/passwd", project.path("hardware-specs/out.ron")).unwrap();
    project.edit_scenario("traces/tiny", "traces/out");
    refused(&project, &COMMANDS, &["case.ron:6:27: ", rule, "copy the file into the project"]);
    project.edit_scenario("\"small\"", "\"out\"");
    refused(&project, &COMMANDS, &["case.ron:4:15: ", rule]);
    // A table that is a link, in a folder that is none.
    let linked = |project: &Project| {
        fs::remove_file(project.path("traces/tiny/ops.csv")).unwrap();
        symlink("/etc/passwd", project.path("traces/tiny/ops.csv")).unwrap();
    };
    check_trace(linked, &["ops.csv: a symbolic link", "copy the file into the folder"]);
}

#[test]
fn a_file_that_is_no_scenario_is_refused_at_once() {
    check_file("", &["case.ron:1:1: the file is empty"]);
    check_file(b"Scenario(\n  about: \"\xff\xfe\",\n)", &["case.ron:2:11: the text is not UTF-8"]);
    check_file(vec![b' '; 2 << 20], &["at most 1048576 bytes", "found 2097152 bytes"]);
    check_file([0u8; 4096], &["case.ron:1:1: "]);
    check_file("Hardware(schema: 1)", &["case.ron:1:1: "]);
    for bracket in ["(", "[", "{\"a\":", "Some(", "a("] {
        check_file(bracket.repeat(100_000), &["case.ron:1:", "deeper than 128 levels"]);
    }
    let list = format!("seed: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    check("seed: 1", &list, &["case.ron:12:", "deeper than 128 levels"]);
    let project = Project::new();
    let commands: [&[&str]; 2] = [&["run", "scenarios"], &["hints", "scenarios"]];
    refused(&project, &commands, &["scenarios: not a regular file", "name a file"]);
    refused(&project, &[&["check", "scenarios"]], &["scenarios/trace.ron", "missing file"]);
}

#[test]
fn what_is_shown_of_bad_input_cannot_drive_the_terminal() {
    check("\"small\"", "\"\u{1b}[31msmall\"", &["case.ron:4:15: "]);
    check("fits(\"all\")", "fits(\"\u{1b}]0;x\u{7}\")", &["case.ron:13:19: "]);
    check("seed: 1", "\u{1b}[2J: 1", &["case.ron:12:5: "]);
    check_file("\u{1b}[2J", &["case.ron:1:1: "]);
    let name = |p: &Project| {
        TraceText::tiny().edited("objects", "a.moments", "\u{1b}[2J").write(&p.path("traces/tiny"))
    };
    check_trace(name, &["objects.csv:5: "]);
    let kind = |p: &Project| {
        TraceText::tiny()
            .edited("objects", "x,activation", "x,\u{1b}[2J")
            .write(&p.path("traces/tiny"))
    };
    check_trace(kind, &["objects.csv:8: "]);
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
fn bad_overrides_are_refused_with_what_was_typed() {
    let project = Project::new();
    for (set, pieces) in [
        ("policies.9.policy=AllHbm", &["case.ron", "policies.9"] as &[&str]),
        ("nothing=1", &["case.ron", "nothing"]),
        ("policies.1.policy.cut.hbm=2", &["case.ron:9:", "between 0 and 1", "--set"]),
        ("policies.1.policy.cut.hbm=gib(1)", &["a number must stand here", "--set"]),
        ("workload.jitter=NaN", &["jitter"]),
        ("capacity.hbm=80", &["capacity"]),
        ("seed=1, seed: 2", &["--set seed=1, seed: 2"]),
        ("seed=((((((", &["--set seed=(((((("]),
        ("hardware=\"../../x.ron\"", &["the path leads out of the project"]),
        ("seed=", &["seed"]),
    ] {
        refused(&project, &[&["run", CASE, "--set", set], &["hints", CASE, "--set", set]], pieces);
        refused(&project, &[&["sweep", CASE, "--set", set, "--out", "o"]], &[]);
    }
}

#[test]
fn mistakes_on_the_command_line_are_bad_input_too() {
    let project = Project::new();
    for (args, piece) in [
        (&["run", CASE, "--jobs", "0"] as &[&str], "--jobs"),
        (&["run", CASE, "--jobs", "-1"], "-1"),
        (&["run", CASE, "--set", "seed"], "PATH=VALUE"),
        (&["run", CASE, "--seed", "x"], "--seed"),
        (&["run", CASE, "--format", "xml"], "xml"),
        (&["run", CASE, "--nothing"], "--nothing"),
        (&["run"], "SCENARIO"),
        (&["ruin", CASE], "ruin"),
        (&["sweep", CASE], "the scenario has no `sweep`"),
        (&["hints", CASE, "--policy", "lru"], "no policy that places modules"),
        (&["trace", "import", "nothing", "traces", "--out", "made"], "nothing"),
    ] {
        refused(&project, &[args], &[piece]);
    }
    fs::create_dir(project.path("other")).unwrap();
    fs::copy(project.path(CASE), project.path("other/case.ron")).unwrap();
    let both = ["scenarios/case.ron and other/case.ron would both be written to case", "--out"];
    refused(&project, &[&["run", CASE, "other/case.ron"]], &both);
}

#[test]
fn an_output_folder_that_cannot_be_written_is_left_as_it_is() {
    let project = Project::new();
    project.write("taken", "a file");
    project.write("full/summary.json/file", "a folder in the place of a file");
    let cases: [(&[&str], &str); 4] = [
        (&["run", CASE, "--out", "taken"], "taken: cannot write"),
        (&["run", CASE, "--out", "taken/below"], "taken/below: cannot write"),
        (&["hints", CASE, "--out", "taken/hints.json"], "taken/hints.json: cannot write"),
        (&["run", CASE, "--out", "full"], "full/summary.json: cannot write"),
    ];
    for (args, piece) in cases {
        refused(&project, &[args], &[piece]);
    }
    let import: &[&str] = &["trace", "import", "recording", "recording", "--out", "taken"];
    let recording = shipped("traces/gpt2-train-cpu/recording");
    for entry in fs::read_dir(recording).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        project.write(&format!("recording/{name}"), fs::read(path).unwrap());
    }
    refused(&project, &[import], &["taken"]);
}
