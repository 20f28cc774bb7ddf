//! What a page hears when the scenario's file is another, away, or back; and who is told as a page.

use super::*;

const PAGE: [(&str, &str); 1] = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];

fn fingerprint(answer: &Value) -> String {
    answer["fingerprint"].as_str().expect("an answer says what it is of").to_owned()
}

#[test]
fn an_answer_says_of_which_scenario_it_is() {
    let project = Project::new();
    let served = Served::begin(&project, &[CASE]);
    let begun = || fingerprint(&served.get("/what-if").is(200).json()["ok"]["answer"]);
    let turned = || fingerprint(&served.turned(&json!([])).is(200).json()["ok"]);
    let first = begun();
    assert_eq!(first, turned());
    let ran = project.run(&["run", CASE, "--format", "json", "--no-png"]).ends_with(0).json();
    assert_eq!(ran["fingerprint"], json!(first), "as a result of the same has it");
    project.edit_scenario("schema: 2,", "schema: 2, // A comment asks for nothing else.\n");
    assert_eq!((begun(), turned()), (first.clone(), first.clone()));
    // The same figures under another name are of another scenario.
    let text = project.text(CASE);
    let name = text.split("name: \"").nth(1).and_then(|rest| rest.split('"').next());
    let name = format!("\"{}\"", name.expect("a case"));
    project.write(CASE, text.replace(&name, "\"another\""));
    let renamed = turned();
    assert_ne!(renamed, first);
    assert_eq!(renamed, begun());
    project.write(CASE, text);
    assert_eq!(turned(), first);
}

#[test]
fn a_file_that_is_back_or_mended_is_answered_at_once() {
    let project = Project::new();
    let served = Served::begin(&project, &[CASE, "--edit"]);
    let (file, away) = (project.path(CASE), project.path("away.ron"));
    let first = served.turned(&json!([])).is(200).body;
    for _ in 0..2 {
        fs::rename(&file, &away).expect("it goes away");
        for _ in 0..2 {
            let problem = served.turned(&json!([])).is(422).problem();
            assert!(problem["rule"].to_string().contains("cannot be read"), "{problem}");
        }
        let page = served.ask("GET", "/scenario", &PAGE, "").guarded();
        assert_eq!(page.status, 422);
        let words = "case.ron: the file is not there; put it back";
        assert!(page.body.contains(words) && page.body.starts_with("<!DOCTYPE html>"), "{page:?}");
        fs::rename(&away, &file).expect("it comes back");
        assert_eq!(served.turned(&json!([])).is(200).body, first);
    }
    let text = project.text(CASE);
    project.write(CASE, "Scenario(");
    served.get("/what-if").is(422);
    // The page can mend it, and the first one of what was mended has its figures.
    assert!(served.get("/scenario").is(200).body.contains("data-nominal=\"[]\""));
    project.write(CASE, text);
    assert!(served.get("/scenario").is(200).body.contains("data-nominal=\"[["));
    assert_eq!(served.turned(&json!([])).is(200).body, first);
}

#[test]
fn whoever_asks_for_a_page_is_refused_in_one() {
    let project = Project::new();
    project.write("out/x/y", "");
    let served = Served::begin(&project, &[]);
    for (to, words) in [
        ("/nothing", "there is nothing of this name; begin at /"),
        ("/results/nothing", "there is nothing of this name; begin at /"),
        ("/scenario", "there is no scenario to turn; name one: tiersim serve SCENARIO"),
    ] {
        let page = served.ask("GET", to, &PAGE, "").guarded();
        assert_eq!(page.status, 404, "{to}");
        assert!(page.head.contains("content-type: text/html; charset=utf-8"), "{}", page.head);
        assert!(page.body.contains(words) && page.body.contains("<a href=\"/\">"), "{}", page.body);
        // A program is told as ever.
        for headers in [&[][..], &[("Accept", "*/*")], &[("Accept", "application/json")]] {
            let json = served.ask("GET", to, headers, "").is(404);
            assert!(json.head.contains("content-type: application/json"), "{}", json.head);
        }
    }
}

#[test]
fn one_of_several_machines_can_be_served() {
    let project = Project::shipped();
    let several = "scenarios/megatron-22b-state-outside.ron";
    let refused = project.run(&["serve", several, "--listen", "127.0.0.1:0"]).ends_with(2);
    refused.says(&["several machines", "--set hardware=NAME: 16 GB/s, 32 GB/s, 64 GB/s"]);
    let served = Served::begin(&project, &[several, "--set", "hardware=32 GB/s"]);
    let begun = served.get("/what-if").is(200).json();
    let knobs = begun["ok"]["knobs"].as_array().expect("a list");
    assert_eq!(knobs[0]["group"], "machine 32 GB/s");
}
