//! What a program that runs the command hears: one JSON object a line on stderr.

use crate::common::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// The lines of stderr, each an object of one key.
#[track_caller]
fn told(ran: &Ran) -> Vec<(String, Value)> {
    let line = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        let mut keys = told.as_object().unwrap().iter();
        let (key, value) = keys.next().unwrap();
        assert_eq!(keys.next(), None, "{line}");
        (key.clone(), value.clone())
    };
    ran.stderr.lines().map(line).collect()
}

#[test]
fn problems_have_their_place_rule_value_and_remedy() {
    let project = Project::shipped();
    let text = fs::read_to_string(project.path("scenarios/tiny-llama-lru.ron")).unwrap();
    let wrong = text.replacen("schema: 2", "schema: 2, frob: 1", 1).replacen("spill:", "spil:", 1);
    project.write("wrong.ron", &wrong);
    let ran = project.run(&["run", "wrong.ron", "--messages", "json"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    let all = told(&ran);
    assert!(all.len() >= 2 && all.iter().all(|(key, _)| key == "error"), "{all:?}");
    let frob =
        &all.iter().find(|(_, told)| told["message"].to_string().contains("frob")).unwrap().1;
    let line = 1 + text.lines().position(|line| line.contains("schema: 2")).unwrap();
    assert_eq!((&frob["file"], &frob["line"]), (&json!("wrong.ron"), &json!(line)));
    // The same words in the same order as for people.
    let people = project.run(&["run", "wrong.ron"]).stderr;
    let messages: Vec<_> = all.iter().map(|(_, told)| told["message"].as_str().unwrap()).collect();
    assert_eq!(people, format!("error: {}\n", messages.join("\nerror: ")));
    for (_, told) in &all {
        let part = |key: &str| told[key].as_str().unwrap();
        assert!(
            part("message").contains(part("rule")) && part("message").ends_with(part("remedy"))
        );
    }
}

#[test]
fn progress_ends_with_all_and_expectations_that_fail_are_told() {
    let project = Project::shipped();
    let set = ["--set", "expect=[slowdown(case: \"all in HBM\", at_least: 2)]"];
    let run = ["run", "scenarios/tiny-llama-lru.ron", "--no-png", "--format", "json"];
    let plain = project.run(&[&run[..], &set].concat());
    let ran = project.run(&[&run[..], &set, &["--messages", "json"]].concat());
    assert_eq!((ran.code, &ran.stdout), (Some(1), &plain.stdout), "{}", ran.stderr);
    let all = told(&ran);
    let last = |key: &str| &all.iter().rev().find(|(known, _)| known == key).expect(key).1;
    let progress = last("progress");
    assert_eq!(progress["done"], progress["of"], "{progress}");
    assert_eq!(progress["what"], "cases");
    assert!(plain.stderr.contains(last("failed").as_str().unwrap()), "{}", plain.stderr);
}

/// Answers the questions of a policy that has everything in HBM; what is printed behind them.
fn all_in_hbm(project: &Project, arguments: &[&str]) -> (usize, String) {
    let mut ran = Command::new(env!("CARGO_BIN_EXE_tiersim"));
    ran.args(arguments).current_dir(&project.root);
    let mut ran = ran.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (ran.stdin.take().unwrap(), ran.stdout.take().unwrap());
    let (mut asked, mut printed) = (0, String::new());
    for line in BufReader::new(stdout).lines() {
        let line = line.unwrap();
        let Some(question) = line.strip_prefix("{\"ask\":\"") else {
            printed += &format!("{line}\n");
            continue;
        };
        let answer = match question.split('"').next().unwrap() {
            "begin" => json!({
                "lookahead": "past", "allocates": false, "spills": false, "makes_room": false,
            }),
            "initial" => json!({ "tier": 0 }),
            "plan" => json!({ "do": [] }),
            other => panic!("{other}"),
        };
        asked += usize::from(question.starts_with("plan"));
        writeln!(stdin, "{answer}").unwrap();
    }
    assert!(ran.wait().unwrap().success());
    (asked, printed)
}

#[test]
fn a_policy_of_the_program_is_asked_before_each_op_and_decides() {
    let project = Project::shipped();
    let run = ["run", "scenarios/tiny-llama-lru.ron", "--no-png", "--format", "json"];
    let set = ["--set", "policies.LRU 100 %.policy=Python()", "--stdio-policy", "Mine@1"];
    let (asked, printed) = all_in_hbm(&project, &[&run[..], &set].concat());
    let plain = project.run(&run);
    let results = |text: &str| serde_json::from_str::<Value>(text).expect(text)["results"].take();
    let (mine, plain) = (results(&printed), results(&plain.stdout));
    assert_eq!(asked, 3 * 1494, "once per op and replay");
    for key in ["step_ms", "peak_bytes", "moved_bytes", "events"] {
        assert_eq!(mine[3][key], plain[0][key], "{key}: as everything in HBM");
    }
    assert_eq!((&mine[3]["policy"], &mine[3]["details"]), (&json!("python"), &json!("Mine")));
}
