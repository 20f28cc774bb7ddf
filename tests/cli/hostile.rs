//! Input that nobody means well with, or that somebody got wrong: exit code 2, a message that says
//! where, which rule and what to do, and a project folder that is untouched byte for byte.
//!
//! Small files with one mistake each are in `tests/errors`; here are inputs that are too large for
//! a file, links, and mistakes on the command line. What is wrong with a trace is in
//! `hostile_traces`. Every mistake goes through all commands that read it. The limits on
//! memory and time are those of every run, see `common`.

use crate::common::*;

/// The commands that read a scenario and its trace; none of them may write anything.
pub(crate) const COMMANDS: [&[&str]; 4] = [
    &["run", CASE, "--out", "result"],
    &["run", CASE, "--format", "json"],
    &["check", CASE],
    &["hints", CASE, "--out", "hints.json"],
];

/// Runs `commands` in `project`: each must end with bad input, say every piece and write nothing.
#[track_caller]
pub(crate) fn refused(project: &Project, commands: &[&[&str]], pieces: &[&str]) {
    let before = project.files("");
    for command in commands {
        let ran = project.run(command).ends_with(2).says(pieces);
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        assert_eq!(ran.stdout, "", "{command:?}");
        assert!(!ran.stderr.contains('\u{1b}'), "escape sequences in {:?}", ran.stderr);
        assert_eq!(project.files(""), before, "{command:?} wrote something");
    }
}

/// What ships, with this scenario.
pub(crate) fn shipped_with(scenario: &str) -> Project {
    let project = Project::shipped();
    project.write(CASE, scenario);
    project
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

#[test]
fn what_a_scenario_names_must_be_there() {
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
}

#[test]
fn a_file_that_is_no_scenario_is_refused_at_once() {
    check_file(vec![b' '; 2 << 20], &["at most 1048576 bytes", "found 2097152 bytes"]);
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
fn bad_overrides_are_refused_with_what_was_typed() {
    let project = Project::new();
    let deep = format!("seed={}", "[".repeat(100_000));
    for (set, pieces) in [
        (deep.as_str(), &["deeper than 128 levels"] as &[&str]),
        ("policies.9.policy=AllHbm", &["case.ron", "policies.9"]),
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
        (&["trace", "import", "nothing", "traces", "--out", "made"], "nothing: missing file"),
        (&["trace", "export", "traces", "more"], "unexpected argument 'more'"),
    ] {
        refused(&project, &[args], &[piece]);
    }
    fs::create_dir(project.path("other")).unwrap();
    fs::copy(project.path(CASE), project.path("other/case.ron")).unwrap();
    // The folder of its results would be the one around `out`.
    fs::copy(project.path(CASE), project.path("other/...ron")).unwrap();
    let name = ["other/...ron: a scenario's name is", "give the file another name"];
    refused(&project, &[&["run", "other/...ron"], &["check", "other/...ron"]], &name);
    let both = ["scenarios/case.ron and other/case.ron would both be written to case", "--out"];
    refused(&project, &[&["run", CASE, "other/case.ron"]], &both);
}

#[test]
fn an_output_folder_that_cannot_be_written_is_left_as_it_is() {
    let project = Project::new();
    project.write("taken", "a file");
    project.write("full/summary.json/file", "a folder in the place of a file");
    project.write("half/tier_hints.json/file", "the last of the files cannot be written");
    project.write("half/summary.json", "from an earlier run");
    let cases: [(&[&str], &str); 5] = [
        (&["run", CASE, "--out", "taken"], "something else is there: name another place"),
        (&["run", CASE, "--out", "taken/below"], "taken/below: cannot write"),
        (&["hints", CASE, "--out", "taken/hints.json"], "taken/hints.json: cannot write"),
        (&["run", CASE, "--out", "full"], "full/summary.json: cannot write"),
        (&["run", CASE, "--out", "half"], "half/tier_hints.json: cannot write"),
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

#[test]
fn a_denied_warning_is_bad_input() {
    let project = Project::new();
    let path = "hardware-specs/small.ron";
    let machine = std::fs::read_to_string(project.root.join(path)).unwrap();
    project.write(path, machine.replace("gb_per_s(50)", "gb_per_s(1001)"));
    let commands: [&[&str]; 3] = [
        &["run", CASE, "--deny", "warnings", "--out", "result"],
        &["run", CASE, "--deny", "warnings", "-q", "--out", "result"],
        &["check", CASE, path, "--deny", "warnings"],
    ];
    let pieces = ["tier-faster-than-nearer: tiers.dram.bandwidth: ", "1001 GB/s", "check both"];
    refused(&project, &commands[..2], &pieces);
    refused(&project, &commands[2..], &pieces);
    let ran = project.run(&["check", path]).ends_with(0).says(&["warning: "]);
    assert!(!ran.stdout.contains("warning"), "{}", ran.stdout);
    let quiet = project.run(&["run", CASE, "-q", "--set", "expect=[]", "--out", "quiet"]);
    assert_eq!(quiet.ends_with(0).stderr, "");
}
