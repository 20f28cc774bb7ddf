//! What a program that runs the command hears: one JSON object a line on stderr.

use crate::common::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
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

/// What came of a run whose policy answers questions.
struct Answered {
    plans: usize,
    printed: String,
    code: Option<i32>,
    said: String,
}

/// Answers the questions of a policy that has everything in HBM, some of them otherwise.
fn answered(
    project: &Project,
    arguments: &[&str],
    otherwise: impl Fn(&Value) -> Option<Value>,
) -> Answered {
    let mut ran = Command::new(env!("CARGO_BIN_EXE_tiersim"));
    ran.args(arguments).current_dir(&project.root).stderr(Stdio::piped());
    let mut ran = ran.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (ran.stdin.take().unwrap(), ran.stdout.take().unwrap());
    let (mut plans, mut printed) = (0, String::new());
    for line in BufReader::new(stdout).lines() {
        let line = line.unwrap();
        if !line.starts_with("{\"ask\":") {
            printed += &format!("{line}\n");
            continue;
        }
        let question: Value = serde_json::from_str(&line).unwrap();
        let kind = question["ask"].as_str().unwrap();
        let answer = otherwise(&question).unwrap_or_else(|| match kind {
            "begin" => json!({
                "lookahead": "past", "allocates": false, "spills": false, "makes_room": false,
            }),
            "initial" => json!({ "tier": 0 }),
            "plan" => json!({ "do": [] }),
            other => panic!("{other}"),
        });
        plans += usize::from(kind == "plan");
        // A command that has ended reads no more.
        let _ = writeln!(stdin, "{answer}");
    }
    let mut said = String::new();
    ran.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    Answered { plans, printed, code: ran.wait().unwrap().code(), said }
}

#[test]
fn a_policy_of_the_program_is_asked_before_each_op_and_decides() {
    let project = Project::shipped();
    let run = ["run", "scenarios/tiny-llama-lru.ron", "--no-png", "--format", "json"];
    let set = ["--set", "policies.LRU 100 %.policy=Python()", "--stdio-policy", "Mine@1"];
    let Answered { plans: asked, printed, code, .. } =
        answered(&project, &[&run[..], &set].concat(), |_| None);
    assert_eq!(code, Some(0));
    let plain = project.run(&run);
    let results = |text: &str| serde_json::from_str::<Value>(text).expect(text)["results"].take();
    let (mine, plain) = (results(&printed), results(&plain.stdout));
    assert_eq!(asked, 3 * 1494, "once per op and replay");
    for key in ["step_ms", "peak_bytes", "moved_bytes", "events"] {
        assert_eq!(mine[3][key], plain[0][key], "{key}: as everything in HBM");
    }
    assert_eq!((&mine[3]["policy"], &mine[3]["details"]), (&json!("python"), &json!("Mine")));
}

/// One case of the scenario's is asked, or two, with a wrong answer to the questions of a kind.
fn refused(cases: &[&str], kind: &str, answer: Value) -> String {
    let project = Project::shipped();
    let set = cases
        .iter()
        .flat_map(|case| ["--set".to_owned(), format!("policies.{case}.policy=Python()")]);
    let set: Vec<String> = set.collect();
    let mut arguments = vec!["run", "scenarios/tiny-llama-lru.ron", "--stdio-policy", "Mine@1"];
    arguments.extend(set.iter().map(String::as_str));
    let ran = answered(&project, &arguments, |question| {
        (question["ask"] == kind).then(|| answer.clone())
    });
    assert_eq!((ran.code, &*ran.printed), (Some(2), ""), "{}", ran.said);
    assert!(!project.path("out").exists(), "nothing is written");
    ran.said
}

#[test]
fn a_wrong_answer_names_case_policy_op_value_rule_and_remedy() {
    let plan = |action: Value| json!({ "do": [action] });
    let begin = |lookahead: Value| json!({ "lookahead": lookahead });
    for (kind, answer, rule, found) in [
        ("begin", begin(json!("far")), "lookahead is", "\"far\""),
        ("begin", begin(json!(-1)), "lookahead is", "-1"),
        ("begin", begin(json!(3)), "allocates says", "null"),
        ("initial", json!({ "tier": 9 }), "must be a tier of the machine", "9"),
        ("initial", json!({ "tier": 1.9 }), "must be a tier of the machine", "1.9"),
        ("initial", json!({ "tier": null }), "must be a tier of the machine", "null"),
        ("plan", json!({}), "the list of its actions", "{}"),
        ("plan", plan(json!("junk")), "an action is fetch", "\"junk\""),
        ("plan", plan(json!(["delay", 0.4])), "an action is fetch", "[\"delay\",0.4]"),
        ("plan", plan(json!(["delay", u64::MAX])), "between 0 and 10 s", "delay by"),
        ("plan", plan(json!(["charge", 1, u64::MAX])), "between 0 and 10^6 s", "charge"),
        ("plan", plan(json!(["drop", 0, 0])), "the only copy", "drop "),
        ("plan", plan(json!(["evict", 0, 1, 2])), "must have room", " from dram to nvme"),
        ("plan", json!({ "fits": [9, 0] }), "what fits is asked", "{\"fits\":[9,0]}"),
    ] {
        let said = refused(&["LRU 100 %"], kind, answer);
        let op = if kind == "plan" { "op 0 of the run (" } else { "before the first op: " };
        let start = format!("error: case \"LRU 100 %\": policy Mine, {op}");
        assert!(said.starts_with(&start), "{said}");
        assert!(said.contains(rule) && said.contains("(found ") && said.contains(found), "{said}");
        assert!(said.contains("); "), "a remedy: {said}");
    }
}

#[test]
fn after_a_failure_nobody_is_asked() {
    let said = refused(&["LRU 100 %", "LRU 75 %"], "plan", json!({ "error": "no idea" }));
    assert!(said.contains("op 0 of the run") && said.ends_with("no idea\n"), "{said}");
}

#[test]
fn a_policy_that_no_case_asks_is_refused() {
    let project = Project::shipped();
    let file = "scenarios/tiny-llama-lru.ron";
    for arguments in [&["run", file][..], &["solve", file, "--fit"], &["explain", file]] {
        let ran = project.run(&[arguments, &["--stdio-policy", "nobody"]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("found nobody, number 0, which no case asks"),
            "{}",
            ran.stderr
        );
    }
    let both = ["--stdio-policy", "One", "--stdio-policy", "Two"];
    let set = ["--set", "policies.LRU 100 %.policy=Python()"];
    let ran = project.run(&[&["run", file][..], &set, &both].concat());
    assert!(ran.stderr.contains("found Two, number 1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Python(number: 1)"), "{}", ran.stderr);
    assert!(!project.path("out").exists());
}

#[test]
fn what_is_used_in_place_for_less_than_it_costs_is_emulated() {
    let project = Project::shipped();
    let run = ["run", "scenarios/tiny-llama-lru.ron", "--no-png", "--format", "json"];
    let set = ["--set", "policies.LRU 100 %.policy=Python()", "--set", "expect=[]"];
    let run = [&run[..], &set, &["--stdio-policy", "Mine"]].concat();
    for (share, emulated) in [(None, true), (Some(0.5), true), (Some(1.0), false)] {
        let objects = std::cell::RefCell::new(Vec::new());
        let there = std::cell::RefCell::new(std::collections::BTreeSet::new());
        let ran = answered(&project, &run, |question| match question["ask"].as_str().unwrap() {
            "begin" => {
                let sizes = question["objects"].as_array().unwrap().iter();
                *objects.borrow_mut() = sizes.map(|o| o[2].as_f64().unwrap()).collect();
                None
            }
            "initial" => {
                there.borrow_mut().insert(question["about"].as_u64().unwrap());
                Some(json!({ "tier": 1 }))
            }
            _ => {
                let uses = question["ahead"][0].as_array().unwrap().iter();
                let far = uses.map(|used| used[0].as_u64().unwrap());
                let far = far.filter(|object| there.borrow().contains(object));
                let pay = |object: u64| {
                    let bytes = share.map(|share| objects.borrow()[object as usize] * share);
                    let used = json!(["in_place", object]);
                    let charge = bytes.map(|bytes| json!(["charge", 1, bytes.round() as u64]));
                    [Some(used), charge].into_iter().flatten()
                };
                Some(json!({ "do": far.flat_map(pay).collect::<Vec<_>>() }))
            }
        });
        assert_eq!(ran.code, Some(0), "{}", ran.said);
        let told: Value = serde_json::from_str(&ran.printed).unwrap();
        assert_eq!(told["results"][3]["emulated"], json!(emulated), "{share:?}");
        assert_eq!(told["results"][3]["in_place_ms"]["dram"].as_f64() > Some(0.0), share.is_some());
    }
}
