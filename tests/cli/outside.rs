//! Outside a checkout: the binary alone, in a folder with nothing above it that is a project.

use crate::common::*;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// A folder outside the checkout with a copy of the command in it, removed in the end.
struct Elsewhere(PathBuf);

impl Elsewhere {
    fn new(name: &str) -> Elsewhere {
        let root = std::env::temp_dir().join(format!("tiersim-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("work")).unwrap();
        let root = root.canonicalize().unwrap();
        for above in root.ancestors() {
            assert!(!above.join("hardware-specs").exists(), "{} is a project", above.display());
        }
        // A copy is written, and while another test starts a program that has the file open, it
        // cannot be run.
        let (exe, own) = (env!("CARGO_BIN_EXE_tiersim"), root.join("tiersim"));
        fs::hard_link(exe, &own).or_else(|_| fs::copy(exe, &own).map(drop)).unwrap();
        Elsewhere(root)
    }

    fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Runs the copy in the empty folder; what it printed.
    fn run(&self, args: &[&str], code: i32) -> String {
        let ran = Command::new(self.0.join("tiersim")).args(args).current_dir(self.work()).output();
        Self::said(args, ran.unwrap(), code)
    }

    /// The same with `text` on its standard input.
    fn run_with(&self, text: &str, args: &[&str], code: i32) -> String {
        let mut ran = Command::new(self.0.join("tiersim"));
        ran.args(args).current_dir(self.work());
        ran.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ran = ran.spawn().unwrap();
        ran.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Self::said(args, ran.wait_with_output().unwrap(), code)
    }

    fn said(args: &[&str], ran: Output, code: i32) -> String {
        let [out, err] = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(ran.status.code(), Some(code), "{args:?}\n{out}\n{err}");
        out + &err
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.work().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // What cannot be removed lies in the system's folder for such files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut found: Vec<_> = entries.map(|path| (name(&path), fs::read(&path).unwrap())).collect();
    found.sort();
    found
}

#[test]
fn a_new_scenario_runs_in_an_empty_folder_and_as_in_a_checkout() {
    let outside = Elsewhere::new("new");
    outside.run(&["new", "first"], 0);
    outside.run(&["check", "first.ron"], 0);
    outside.run(&["run", "first.ron"], 0);
    let sweep = outside.run(&["sweep", "first.ron", "--out", "swept"], 0);
    assert!(sweep.contains("1.5 GiB"), "{sweep}");

    // The same words over the files of a checkout: the same results to the byte, fingerprint
    // included.
    let project = Project::shipped();
    project.run(&["new", "first"]).ends_with(0);
    project.run(&["run", "first.ron"]).ends_with(0);
    let (inside, outside) =
        (files(&project.path("out/first")), files(&outside.work().join("out/first")));
    assert!(inside.iter().any(|(name, _)| name == "summary.json"));
    assert!(inside == outside, "an embedded file says something else than the project's");
}

#[test]
fn scenarios_that_ship_run_by_name_by_path_and_from_standard_input_alike() {
    let (outside, project) = (Elsewhere::new("shipped"), Project::shipped());
    let options = ["--no-png", "--quiet", "--out"];
    let run = |scenario: &str, out| {
        outside.run(&[&["run", scenario][..], &options, &[out]].concat(), 0);
        files(&outside.work().join(out))
    };
    project.run(&[&["run", "scenarios/tiny-llama-lru.ron"][..], &options, &["here"]].concat());
    let here = files(&project.path("here"));
    assert!(here.iter().any(|(name, _)| name == "summary.json"));
    assert!(run("tiny-llama-lru", "by-name") == here);
    assert!(run("scenarios/tiny-llama-lru.ron", "by-path") == here);
    let text = outside.run(&["scenario", "show", "tiny-llama-lru"], 0);
    assert_eq!(text, fs::read_to_string(shipped("scenarios/tiny-llama-lru.ron")).unwrap());
    let stdin = ["run", "tiny-llama-lru.ron", "--stdin-filename", "tiny-llama-lru.ron"];
    outside.run_with(&text, &[&stdin[..], &options, &["by-text"]].concat(), 0);
    assert!(files(&outside.work().join("by-text")) == here);
    assert!(!outside.work().join("tiny-llama-lru.ron").exists(), "the text lies nowhere");

    // A scenario of the project goes before the one that ships, and so does a file.
    outside.write("hardware-specs/mine.ron", "");
    outside.write("scenarios/tiny-llama-lru.ron", "Scenario(");
    let own = outside.run(&["run", "tiny-llama-lru"], 2);
    assert!(own.contains("scenarios/tiny-llama-lru.ron:1:"), "{own}");
    outside.write("tiny-llama-lru", "[");
    let file = outside.run(&["run", "tiny-llama-lru"], 2);
    assert!(file.starts_with("error: tiny-llama-lru:1:"), "{file}");
    let none = outside.run(&["scenario", "show", "tiny-lama-lru"], 2);
    assert!(none.contains("tiny-llama-lru"), "{none}");
}

#[test]
fn every_scenario_that_ships_finds_what_it_names() {
    let outside = Elsewhere::new("all-shipped");
    let list = outside.run(&["scenario", "list", "--format", "json"], 0);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let names = list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    let ours = fs::read_dir(shipped("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let ours = ours.filter(|path| path.is_file());
    let ours = ours.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    assert_eq!(names, ours.collect());
    // All are read before the first is run, which --gaps without a trace does not let happen.
    let mut all = vec!["run", "--log", "steps", "--out", "none", "--set", "seed=no number"];
    all.extend(names.iter().map(String::as_str));
    let said = outside.run(&all, 2);
    assert_eq!(said.lines().count(), names.len(), "one problem each, that of the seed: {said}");
    assert!(said.lines().all(|line| line.contains("--set seed=no number")), "{said}");
}

#[test]
fn settings_of_a_guide_become_a_scenario_with_a_report() {
    let project = Project::shipped();
    let settings =
        "model: gpt2\ngpu: A100\nsequence_length: 128\nlearning_rate: 1e-4\nfrob: \"\\e[2J\"\n";
    fs::write(project.path("mine.yaml"), settings).expect("the folder can be written");
    let made = project.run(&["new", "mine", "--from-yaml", "mine.yaml"]);
    made.ends_with(0).shows(&[
        "line 2: gpu: A100 -> hardware: \"a100-80g-pcie4\"",
        "line 4: learning_rate: 1e-4 -> ignored: a number of the update",
        "line 5: frob: \\u{1b}[2J -> ignored: unknown key",
        "written: mine.ron",
    ]);
    project.run(&["check", "mine.ron"]).ends_with(0);
    fs::write(project.path("bad.yaml"), "gpu: A100\n").expect("the folder can be written");
    let bad = project.run(&["new", "bad", "--from-yaml", "bad.yaml"]);
    bad.ends_with(2).says(&["bad.yaml: the settings do not say `model`"]);
    assert!(!project.path("bad.ron").exists(), "nothing is written");
}

#[test]
fn a_new_scenario_replaces_nothing_and_has_a_plain_name() {
    let project = Project::shipped();
    project.write("mine.ron", "my own");
    project.run(&["new", "mine"]).ends_with(2).says(&["mine.ron: a file of this name is there"]);
    assert_eq!(fs::read_to_string(project.path("mine.ron")).unwrap(), "my own");
    for name in ["a/b", "..", "", "-x", "ä"] {
        project.run(&["new", "--", name]).ends_with(2).says(&["choose another name"]);
    }
}

#[test]
fn a_folder_of_machines_overrides_embedded_ones_by_name() {
    let outside = Elsewhere::new("machines");
    let list = outside.run(&["hardware", "list"], 0);
    for spec in fs::read_dir(shipped("hardware-specs")).unwrap() {
        let path = spec.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "ron") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let mut lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            assert!(lines.any(|line| line.starts_with(&[&name, "embedded"])), "{name}: {list}");
        }
    }
    let all = |text: &str| {
        let show = outside.run(&["hardware", "show", "h100-sxm-pcie5"], 0);
        assert!(show.contains(text), "{text}: {show}");
    };
    all("hbm   device memory  79.647 GiB");

    // A part of this project, in a machine that ships.
    let part = fs::read_to_string(shipped("hardware-specs/parts/h100-sxm.ron")).unwrap();
    let larger = part.replacen("capacity: (mib(", "capacity: (mib(1", 1);
    assert_ne!(part, larger);
    outside.write("hardware-specs/parts/h100-sxm.ron", &larger);
    all("hbm   device memory  177");

    // A machine of this project under the name of one that ships, and one that does not.
    let own = fs::read_to_string(shipped("hardware-specs/host-smoke.ron")).unwrap();
    outside.write("hardware-specs/h100-sxm-pcie5.ron", &own);
    outside.write("hardware-specs/measured/mine.ron", &own);
    let about = outside.run(&["hardware", "show", "host-smoke"], 0);
    let about = about.lines().next().unwrap().strip_prefix("host-smoke: ").unwrap().to_owned();
    all(&format!("h100-sxm-pcie5: {about}"));
    let list = outside.run(&["hardware", "list"], 0);
    for (name, from) in
        [("h100-sxm-pcie5", "file"), ("measured/mine", "file"), ("gh200", "embedded")]
    {
        let mut lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        assert!(lines.any(|line| line.starts_with(&[name, from])), "{name}: {list}");
    }
}

#[test]
fn what_does_not_ship_is_looked_for_and_said() {
    let outside = Elsewhere::new("none");
    outside.run(&["new", "s"], 0);
    for (set, words) in [
        ("hardware=h100-sxm-pcie6", "ships with tiersim"),
        ("workload.path=traces/gpt3", "none ships with tiersim"),
        ("workload.path=../traces/gpt2-train-cpu", "out of the project"),
        ("workload.path=embedded:/../hardware-specs", "trace.ron: missing file"),
    ] {
        let said = outside.run(&["run", "s.ron", "--set", set], 2);
        assert!(said.contains(words), "{set}: {said}");
    }
    let info = outside.run(&["trace", "info", "traces/gpt2-train-cpu"], 0);
    let project = Project::shipped();
    let file = run_in(&project.root, &["trace", "info", "traces/gpt2-train-cpu"]).ends_with(0);
    assert_eq!(info, file.stdout);
}
