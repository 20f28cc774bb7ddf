//! What is said of wrong input, to the letter: every file of `tests/errors` is refused with the
//! text beside it.
//!
//! `tests/errors` is a project of its own; its README says how a case is added.
//! `TIERSIM_RENEW=1 cargo test -p tiersim --test cli errors` writes the texts anew; what has
//! changed is looked at as any other change.
//! Invariant: a command that refuses its input writes nothing and prints nothing but that text.

use crate::common::{Project, copy, shipped};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
            if at == 0 && std::env::var_os("TIERSIM_RENEW").is_some() {
                fs::write(&text, &said).expect("the folder of the tests' data can be written");
            }
            let expected = fs::read_to_string(&text).unwrap_or_default();
            if said != expected {
                wrong.push(format!("{args:?} says\n{said}and not\n{expected}"));
            }
        }
    }
    assert!(unused.is_empty(), "of no case: {unused:?}");
    assert_eq!(project.files(""), before, "something was written");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
fn cards_of_models() {
    refused("models", &[&["memory", "--model", FILE]]);
}
