//! What a run writes: one set of files, all old or all new, and nothing outside its folder.

use crate::common::*;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The names in a folder, hidden ones included.
fn names(project: &Project, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(project.path(folder)).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

#[test]
fn what_lies_in_the_folder_is_not_followed_and_what_is_no_result_stays() {
    let project = Project::new();
    project.run(&["run", CASE, "--out", "clean"]).ends_with(0);
    let results = names(&project, "clean");
    project.write("secret", "not yours");
    project.write("o/notes.txt", "mine");
    project.write("o/more/results.csv", "mine too");
    project.write("o/latency-vs-energy.svg", "of an older run");
    let secret = project.path("secret");
    for link in ["summary.json", "summary.json.partial", ".summary.json.partial"] {
        symlink(&secret, project.path("o").join(link)).expect("a link");
    }
    for pipe in ["results.csv", "results.csv.partial"] {
        let made = Command::new("mkfifo").arg(project.path("o").join(pipe)).status();
        assert!(made.expect("mkfifo runs").success());
    }
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
    assert_eq!(fs::read(&secret).expect("it is there"), b"not yours");
    let planted = [".summary.json.partial", "more", "notes.txt", "results.csv.partial"];
    let mut wanted = results;
    wanted.extend(planted.map(str::to_owned));
    wanted.push("summary.json.partial".to_owned());
    wanted.sort();
    assert_eq!(names(&project, "o"), wanted);
    let clean = project.files("clean");
    for (name, bytes) in &clean {
        assert_eq!(&fs::read(project.path("o").join(name)).expect("a file"), bytes, "{name}");
    }
    assert_eq!(fs::read(project.path("o/more/results.csv")).expect("kept"), b"mine too");
}

#[test]
fn what_a_killed_run_left_is_taken_back_and_nothing_of_it_is_lost() {
    let project = Project::new();
    project.write("made/.o.tiersim-1-0/summary.json", "old results");
    project.write("made/.o.tiersim-1-0/notes.txt", "moved back");
    project.run(&["run", CASE, "--out", "made/o"]).ends_with(0);
    assert_eq!(names(&project, "made"), ["o"]);
    assert_eq!(project.files("made/o")["notes.txt"], b"moved back");
    // Two of one name: neither is lost, and the next run is not held up.
    project.write("made/.o.tiersim-1-0/notes.txt", "another");
    project.run(&["run", CASE, "--out", "made/o"]).ends_with(0);
    assert_eq!(project.files("made/o")["notes.txt"], b"moved back");
    assert_eq!(project.files("made/.o.tiersim-1-0")["notes.txt"], b"another");
}

#[test]
fn a_link_in_the_place_of_the_usual_folder_is_refused() {
    for place in ["out", "out/case"] {
        let project = Project::new();
        project.write("elsewhere/file", "there");
        fs::create_dir_all(project.path(place).parent().expect("a parent")).expect("made");
        symlink(project.path("elsewhere"), project.path(place)).expect("a link");
        project.run(&["run", CASE]).ends_with(2).says(&[&format!("{place} is a link")]);
        assert_eq!(names(&project, "elsewhere"), ["file"]);
        // Whoever names it means where it leads.
        project.run(&["run", CASE, "--out", place]).ends_with(0);
        assert!(project.path("elsewhere/summary.json").is_file());
    }
}

#[test]
fn a_second_run_into_the_same_folder_is_refused_by_its_name() {
    let project = Project::new();
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
    let before = project.files("o");
    let folder = File::open(project.path("o")).expect("a folder");
    folder.lock().expect("nobody holds it");
    for command in ["run", "sweep"] {
        if command == "sweep" {
            project.sweep("(name: \"r\", path: \"workload.repeat\", values: list([3.0]))");
        }
        let ran = project.run(&[command, CASE, "--out", "o"]).ends_with(2);
        ran.says(&["o: another tiersim writes its results there"]);
    }
    assert_eq!(project.files("o"), before);
    folder.unlock().expect("held until now");
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
}

#[test]
fn a_run_and_its_sweep_have_folders_of_their_own() {
    let project = Project::new();
    project.sweep("(name: \"r\", path: \"workload.repeat\", values: list([2.0, 3.0]))");
    project.run(&["run", CASE]).ends_with(0);
    let run = project.files("out/case");
    project.run(&["sweep", CASE]).ends_with(0);
    assert_eq!(project.files("out/case"), run);
    assert_eq!(names(&project, "out"), ["case", "case-sweep"]);
}

#[test]
fn results_of_before_do_not_outlive_the_run_that_has_none() {
    let project = Project::new();
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
    assert!(project.path("o/tier_hints.json").is_file());
    let only = "policies=[(name: \"all\", policy: AllHbm)]";
    project.run(&["run", CASE, "--out", "o", "--set", only, "--set", "expect=[]"]).ends_with(0);
    assert!(!project.path("o/tier_hints.json").exists());
}

/// A clock, to spread kills over the time that a run takes; no figure depends on it.
#[expect(clippy::disallowed_methods, reason = "when a kill comes is no result")]
fn now() -> Instant {
    Instant::now()
}

/// Kills runs at moments spread over their time. `TIERSIM_KILLS` says how many; a few by default.
#[test]
fn a_killed_run_leaves_all_of_the_old_results_or_all_of_the_new_ones() {
    let project = Project::new();
    let kills = std::env::var("TIERSIM_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u32 = kills.unwrap_or(40);
    project.sweep("(name: \"r\", path: \"workload.repeat\", values: list([2.0, 3.0]))");
    for command in ["run", "sweep"] {
        let mut sets: Vec<BTreeMap<String, Vec<u8>>> = Vec::new();
        let mut takes = Duration::ZERO;
        for seed in ["1", "2"] {
            let begun = now();
            project.run(&[command, CASE, "--seed", seed, "--out", "made/o"]).ends_with(0);
            takes = takes.max(now() - begun);
            sets.push(project.files("made/o"));
        }
        let (mut begun_anew, mut left) = (0, 0);
        for kill in 0..kills {
            let seed = if kill % 2 == 0 { "1" } else { "2" };
            let mut child = Command::new(env!("CARGO_BIN_EXE_tiersim"))
                .args([command, CASE, "--quiet", "--seed", seed, "--out", "made/o"])
                .current_dir(&project.root)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            let at = now() + takes * (kill % 20 + 1) / 20;
            while now() < at && child.try_wait().expect("it is ours").is_none() {
                std::thread::yield_now();
            }
            child.kill().expect("it can be killed");
            child.wait().expect("it has ended");
            let mut found = project.files("made/o");
            // What a sweep has finished stays, until it is gone on with.
            found.remove("points.journal");
            let which = sets.iter().position(|set| *set == found);
            let which = which.unwrap_or_else(|| panic!("{command}, kill {kill}: a mixed set"));
            begun_anew += u32::from(which == usize::from(seed == "2"));
            // Beside the results lies at most what the next run takes away.
            let beside = names(&project, "made");
            let hidden = |name: &&String| name.starts_with(".o.tiersim-");
            assert!(beside.iter().all(|name| name == "o" || hidden(&name)), "{beside:?}");
            left += beside.iter().filter(hidden).count();
        }
        println!(
            "{command}: {kills} kills, {begun_anew} sets are the killed run's, {left} folders left"
        );
        let more: &[&str] = if command == "sweep" { &["--seed", "3"] } else { &[] };
        project.run(&[&[command, CASE, "--out", "made/o"], more].concat()).ends_with(0);
        assert_eq!(names(&project, "made"), ["o"]);
        assert!(!project.path("made/o/points.journal").exists());
    }
}

#[test]
fn a_command_does_not_write_over_what_it_reads() {
    let project = Project::shipped();
    let trace = project.files("traces/tiny-train");
    project.run(&["trace", "export", "traces/tiny-train", "--out", "z.et"]).ends_with(0);
    project.write("D/objects.csv", "object,bytes\n7,1000\n8,1000\n7,1000\n");
    project.write("R/a.json", fs::read(project.path("z.et")).expect("it was written"));
    symlink(project.path("z.et"), project.path("link.et")).expect("a link");
    symlink(project.path("D"), project.path("other")).expect("a link");
    let before = project.files("");
    for (args, names) in [
        (&["trace", "export", "z.et", "--out", "z.et"][..], "z.et"),
        (&["trace", "export", "z.et", "--out", "D/../z.et"], "D/../z.et"),
        (&["trace", "export", "link.et", "--out", "z.et"], "z.et"),
        (&["trace", "export", "link.et", "--out", "link.et"], "link.et"),
        (&["trace", "export", "R", "--out", "R/a.json"], "R/a.json"),
        (
            &["trace", "export", "traces/tiny-train", "--out", "traces/tiny-train/ops.csv"],
            "traces/tiny-train/ops.csv",
        ),
        (&["trace", "import", "D/objects.csv", "--out", "D"], "D/objects.csv"),
        (&["trace", "import", "D/objects.csv", "--out", "other"], "other/objects.csv"),
        (&["trace", "info", "D/objects.csv", "--tables", "D"], "D/objects.csv"),
    ] {
        let ran = project.run(args).ends_with(2);
        ran.says(&[&format!("{names}: this very command reads the file"), "write somewhere else"]);
        assert_eq!(project.files(""), before, "{args:?}");
    }
    // What lies beside what is read is written, and written again.
    for _ in 0..2 {
        let beside = ["trace", "export", "traces/tiny-train", "--out", "traces/tiny-train/a.et"];
        project.run(&beside).ends_with(0);
        project.run(&["trace", "import", "D/objects.csv", "--out", "D/T"]).ends_with(0);
    }
    fs::remove_file(project.path("traces/tiny-train/a.et")).expect("it was written");
    assert_eq!(project.files("traces/tiny-train"), trace);
}

/// What shells allow of a file is told as a full drive is: with the file's name, exit code 2, and
/// nothing left behind.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_grows_beyond_its_limit_is_said_and_nothing_is_left() {
    let project = Project::shipped();
    let requests: String = (0..20_000).map(|id| format!("{},64\n", id % 977)).collect();
    project.write("a.csv", format!("object,bytes\n{requests}"));
    project.write("made/kept.txt", "mine");
    for args in [
        &["run", "scenarios/tiny-llama-lru.ron", "--out", "made/o"][..],
        &["cache", "a.csv", "--policy", "lru", "--capacity", "64KiB", "--out", "made"],
        &["trace", "export", "traces/gpt2-train-cpu", "--out", "made/g.et"],
        &["trace", "info", "traces/gpt2-train-cpu", "--out", "made"],
    ] {
        let ran = run_with(&project.root, args, "ulimit -f 8").ends_with(2);
        ran.says(&["error: ", "made/", ": cannot write: File too large"]);
        assert_eq!(names(&project, "made"), ["kept.txt"], "{args:?}");
    }
    let tables = ["trace", "info", "traces/gpt2-train-cpu", "--tables", "T"];
    let ran = run_with(&project.root, &tables, "ulimit -f 8");
    ran.ends_with(2).says(&["error: T", "cannot be read or written"]);
    assert_eq!(names(&project, "T"), Vec::<String>::new());
    assert!(!project.path("T/trace.ron").exists());
}

#[test]
fn what_a_killed_command_left_of_a_file_goes_when_the_file_is_written_again() {
    let project = Project::shipped();
    let export = ["trace", "export", "traces/tiny-train", "--out", "made/g.et"];
    project.write("made/.g.et.tiersim-1", "unfinished");
    project.write("made/.g.et.tiersim-2", "of one that writes");
    for other in [".h.et.tiersim-1", ".g.et.tiersim-", ".g.et.tiersim-1a", "g.et.tiersim-1"] {
        project.write(&format!("made/{other}"), "not that");
    }
    symlink(project.path("made/.h.et.tiersim-1"), project.path("made/.g.et.tiersim-3"))
        .expect("a link");
    let held = File::open(project.path("made/.g.et.tiersim-2")).expect("a file");
    held.lock().expect("it can be locked");
    project.run(&export).ends_with(0);
    let others = [
        ".g.et.tiersim-",
        ".g.et.tiersim-1a",
        ".g.et.tiersim-2",
        ".g.et.tiersim-3",
        ".h.et.tiersim-1",
    ];
    assert_eq!(names(&project, "made"), [&others[..], &["g.et", "g.et.tiersim-1"]].concat());
    // Closing it may not be enough: what other tests start has it for a moment.
    held.unlock().expect("it was locked");
    project.run(&export).ends_with(0);
    assert!(!project.path("made/.g.et.tiersim-2").exists());
}
