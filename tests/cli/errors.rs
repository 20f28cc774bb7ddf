//! What is said of wrong input, to the letter: every file of `tests/errors` is refused with the
//! text beside it.
//!
//! `tests/errors` is a project of its own; its README says how a case is added.
//! `TIERSIM_RENEW=1 cargo test -p tiersim --test cli errors` writes the texts anew; what has
//! changed is looked at as any other change.
//! Invariant: a command that refuses its input writes nothing and prints nothing but that text.

use crate::common::*;

/// Where a command has the name of a case.
const FILE: &str = "FILE";

/// All cases of a folder go through all of the commands, which say the same of each. A case that is
/// a folder holds what differs from `good` beside it.
fn refused(folder: &str, commands: &[&[&str]]) {
    let (project, data) = (Project::empty(), shipped("tests/errors"));
    copy(&data, &project.root);
    let root = format!("{}/", project.root.canonicalize().unwrap().display());
    let names = fs::read_dir(data.join(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (texts, mut cases): (BTreeSet<_>, BTreeSet<_>) =
        names.partition(|name| name.ends_with(".stderr"));
    cases.retain(|case| !["good", "parts"].contains(&case.as_str()));
    for case in &cases {
        let case = format!("{folder}/{case}");
        if project.path(&case).is_dir() {
            copy(&data.join(folder).join("good"), &project.path(&case));
            copy(&data.join(&case), &project.path(&case));
        }
    }
    let before = project.files("");
    let mut wrong = Vec::new();
    let mut unused = texts;
    for case in &cases {
        let text = Path::new(case).with_extension("stderr").display().to_string();
        unused.remove(&text);
        let text = data.join(folder).join(text);
        for (at, command) in commands.iter().enumerate() {
            let file = format!("{folder}/{case}");
            let args: Vec<_> = command.iter().map(|arg| arg.replace(FILE, &file)).collect();
            let ran = project.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            let said = ran.stderr.replace(&root, "");
            assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {said}");
            assert!(said.starts_with("error: ") && !said.contains('\u{1b}'), "{args:?}: {said}");
            let expected = expected(&text, &said, at == 0);
            if said != expected {
                wrong.push(format!("{args:?} says\n{said}and not\n{expected}"));
            }
        }
    }
    assert!(unused.is_empty(), "of no case: {unused:?}");
    assert_eq!(project.files(""), before, "something was written");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The expected text of a file, which is what was `said` if it may be renewed and is to be.
fn expected(file: &Path, said: &str, renew: bool) -> String {
    if renew && std::env::var_os("TIERSIM_RENEW").is_some() {
        fs::write(file, said).expect("the folder of the tests' data can be written");
    }
    fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn scenarios() {
    let made = ["--out", "made"];
    let commands: [&[&str]; 4] = [
        &["check", FILE],
        &["run", FILE, made[0], made[1]],
        &["run", FILE, "--format", "json"],
        &["hints", FILE, made[0], made[1]],
    ];
    refused("scenarios", &commands);
    refused("sweeps", &[&["check", FILE], &["sweep", FILE, made[0], made[1]]]);
}

#[test]
fn machines_and_their_parts() {
    for folder in ["machines", "composed", "parts"] {
        refused(folder, &[&["check", FILE]]);
    }
}

#[test]
fn op_times_and_tables_of_ops() {
    refused("op-times", &[&["check", FILE]]);
    let priced = ["ops", FILE, "--hardware", "h100-sxm-pcie5", "--out", "made"];
    let fitted = [&priced[..], &["--fit"]].concat();
    refused("ops", &[&priced, &fitted]);
    refused("fits", &[&fitted]);
}

#[test]
fn what_a_scenario_names() {
    refused("weights", &[&["check", FILE]]);
    refused("hints", &[&["run", "good.ron", "--set", "policies.hints.policy.file=FILE"]]);
}

#[test]
fn traces_and_recordings() {
    let set = "workload.path=FILE";
    let commands: [&[&str]; 4] = [
        &["check", FILE],
        &["trace", "info", FILE],
        &["run", "good.ron", "--set", set],
        &["hints", "good.ron", "--set", set],
    ];
    refused("traces", &commands);
    refused("tables", &commands[..2]);
    refused("recordings", &[&["trace", "import", "recording", FILE, "--out", "made"]]);
}

#[test]
fn files_that_become_traces() {
    refused("imports", &[&["trace", "import", FILE, "--out", "made"]]);
}

#[test]
fn summaries_of_reports() {
    let compared = ["report", "reports/good", FILE, "--compare", "--out", "made"];
    refused("reports", &[&["report", FILE], &["report", FILE, "--out", "made"], &compared]);
}

#[test]
fn cards_of_models() {
    refused("models", &[&["memory", "--model", FILE]]);
}

#[test]
fn what_is_no_ron() {
    refused("form", &[&["check", FILE], &["run", FILE, "--out", "made"]]);
}

#[test]
fn requests_and_kernels() {
    refused("requests", &[&["run", "serving.ron", "--set", "workload.mode.requests=FILE"]]);
    refused("accesses", &[&["cache", FILE, "--policy", "lru", "--capacity", "64"]]);
    let [kernels, tensors] = ["FILE/net.kernels.csv", "FILE/net.tensors.csv"];
    let tables = ["trace", "import", "tables", "--kernels", kernels, "--tensors", tensors];
    refused("kernels", &[&[&tables[..], &["--out", "made"]].concat()]);
}

/// A file of commands, one a line, each of which is refused; beside it stands what all of them say.
/// What stands in quotation marks is one argument.
#[test]
fn arguments_of_commands() {
    let (project, data) = (Project::empty(), shipped("tests/errors"));
    copy(&data, &project.root);
    let before = project.files("");
    for verb in ["cache", "generate", "memory"] {
        let lines = fs::read_to_string(data.join(format!("commands/{verb}.txt"))).unwrap();
        let said = lines.lines().map(|line| {
            let parts = line.split('"').enumerate();
            let args: Vec<&str> = parts
                .flat_map(|(at, part)| match at % 2 {
                    0 => part.split_whitespace().collect(),
                    _ => vec![part],
                })
                .collect();
            let ran = project.run(&args);
            assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{line}: {}", ran.stderr);
            format!("$ tiersim {line}\n{}\n", ran.stderr.trim_end())
        });
        let said = said.collect::<Vec<_>>().join("\n");
        assert_eq!(said, expected(&data.join(format!("commands/{verb}.stderr")), &said, true));
    }
    assert_eq!(project.files(""), before, "something was written");
}
