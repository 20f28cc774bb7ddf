//! `hardware`: lists what ships, shows and draws one machine, and says what it cannot find.

use crate::common::Project;

#[test]
fn the_list_has_every_machine() {
    let project = Project::shipped();
    let ran = project.run(&["hardware", "list"]).ends_with(0);
    let files = project.files("hardware-specs");
    let names = files.keys().filter_map(|name| name.strip_suffix(".ron"));
    for name in names.filter(|name| !name.contains('/')) {
        assert!(
            ran.stdout.contains(&format!("\n  {name} "))
                || ran.stdout.starts_with(&format!("  {name} ")),
            "{name}"
        );
    }
}

#[test]
fn a_machine_is_shown_with_every_source_and_drawn() {
    let project = Project::shipped();
    let ran = project.run(&["hardware", "show", "h100-sxm-pcie5", "--out", "h"]).ends_with(0);
    ran.shows(&[
        "nvme -> hbm",
        "stored in dram",
        "links.pcie.read",
        "measured  ",
        "pinned copy of",
    ]);
    assert_eq!(project.names("h"), ["machine.png", "machine.svg"]);
    let json =
        project.run(&["hardware", "show", "h100-sxm-pcie5", "--out", "j", "--format", "json"]);
    let json = json.ends_with(0).json();
    let numbers = json["numbers"].as_array().expect("a list");
    assert!(numbers.iter().all(|number| number["source"].as_str().is_some_and(|s| !s.is_empty())));
    assert_eq!(
        project.files("j"),
        project.files("h"),
        "the drawing does not depend on what is printed"
    );
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let project = Project::shipped();
    let ran = project.run(&["hardware", "show", "h100", "--out", "h"]).ends_with(2);
    ran.says(&["\"h100\": no machine of this name is in `hardware-specs` or ships", "known: a100"]);
    assert!(!project.path("h").exists());
    project.write("hardware-specs/broken.ron", "Hardware(schema: 2, about: \"x\", tiers: [])");
    let ran = project.run(&["hardware", "show", "broken", "--out", "h"]).ends_with(2);
    ran.says(&["broken.ron:1:"]);
}
