//! `conform`: every body holds on the host, and what is written names each of them.

use crate::common::*;

#[test]
fn the_host_conforms_and_a_soak_follows() {
    let project = Project::empty();
    let args = ["conform", "--machine", "host", "--worlds", "9", "--for", "1", "--out", "c"];
    project.run(&args).ends_with(0).shows(&["18 of 18 hold on host"]);
    assert_eq!(project.names("c"), ["conform.json"], "and nothing else is left");
    let json = project.json("c/conform.json");
    assert_eq!((&json["holds"], &json["machine"]), (&Value::from(true), &Value::from("host")));
    let bodies = json["bodies"].as_array().expect("a list");
    assert_eq!(bodies.len(), 18);
    assert_eq!(bodies[0]["counts"]["worlds"], 9);
    assert_eq!(bodies[17]["name"], "soak");
    let page = page("docs/howto/validation.md");
    let keys = json.as_object().expect("an object").keys();
    for key in keys.chain(bodies[0].as_object().expect("an object").keys()) {
        assert!(
            page.contains(&format!("`{key}`")) || page.contains(&format!("`{key}[]`")),
            "{key}"
        );
    }
}

#[test]
fn a_machine_that_is_not_there_is_said_and_nothing_is_written() {
    let project = Project::empty();
    let args = ["conform", "--machine", "cuda", "--out", "c"];
    project.run(&args).ends_with(2).says(&["--machine cuda", "--machine host"]);
    // The host has no devices to choose from, whatever the command.
    for command in [&["conform"][..], &["calibrate"], &["validate", "s.ron"]] {
        let args = [command, &["--machine", "host", "--device", "1", "--out", "d"]].concat();
        project.run(&args).ends_with(2).says(&["--device 1", "--machine cuda"]);
        assert!(project.files("d").is_empty());
    }
    assert!(project.files("c").is_empty());
}

#[test]
fn a_scratch_folder_that_cannot_be_is_bad_input() {
    let project = Project::empty();
    project.write("file", "not a folder");
    let args = ["conform", "--machine", "host", "--scratch", "file/in"];
    project.run(&args).ends_with(2).says(&["file/in", "--scratch"]);
}
