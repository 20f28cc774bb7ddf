//! What a scenario can say about the nodes of DRAM, and what is said about mistakes in it.

use crate::specs::project::{GOOD, Project, assert_says, edited};
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_models::ids::TierId;
use tiersim_models::workload::ObjectKind;
use tiersim_policies::numa::{NumaConfig, Pin, Placement};

const DRAM: TierId = TierId(1);

/// The good scenario with these fields for all cases and for the first.
fn with(all: &str, first: &str) -> String {
    let all = all.trim_end_matches(',');
    let comma = if all.is_empty() { "" } else { "," };
    let text = edited("    seed: 1,\n", &format!("    seed: 1,\n    {all}{comma}\n"));
    let from = "(name: \"all-hbm\", policy: AllHbm)";
    assert!(text.contains(from));
    text.replace(from, &format!("(name: \"all-hbm\", policy: AllHbm, {first})"))
}

fn read(all: &str, first: &str) -> [NumaConfig; 2] {
    let scenario = Project::new().read(&with(all, first));
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    [0, 1].map(|case: usize| scenario.cases[case].numa.clone())
}

fn refused(fields: &str, expected: &[&str]) {
    for text in [with(fields, ""), with("", fields)] {
        match Project::new().read(&text) {
            Ok(_) => panic!("{fields:?} was accepted"),
            Err(problems) => assert_says(&problems, expected),
        }
    }
}

#[test]
fn a_case_replaces_what_the_scenario_says() {
    let touched = Some(Placement::FirstTouch(DRAM));
    let bound = Pin { kinds: Vec::new(), module: Some("h.*".to_owned()), node: DRAM };
    let kinds = vec![ObjectKind::Weight, ObjectKind::Optimizer];
    let kinds = Pin { kinds, module: None, node: DRAM };
    let all = "numa: first_touch(node: \"dram\"), pins: [(module: \"h.*\", node: \"dram\")],";
    let every = NumaConfig { placement: touched, pins: vec![bound.clone()] };
    assert_eq!(read(all, ""), [every.clone(), every.clone()]);
    let own = |placement, pins: &[Pin]| NumaConfig { placement, pins: pins.to_vec() };
    let near = own(Some(Placement::NearGpu), &[bound]);
    assert_eq!(read(all, "numa: near_gpu"), [near, every.clone()]);
    // Each kind once, in the order of reports.
    let first = "numa: interleave, pins: [(kinds: [optimizer, weight, weight], node: \"dram\")]";
    assert_eq!(read(all, first), [own(Some(Placement::Interleave), &[kinds]), every.clone()]);
    assert_eq!(read(all, "pins: []"), [own(touched, &[]), every]);
    assert!(read("", "").iter().all(NumaConfig::is_none));
}

#[test]
fn what_is_said_is_part_of_the_fingerprint() {
    let project = Project::new();
    let print = |text: &str| fingerprint(&project.read(text).unwrap(), "abc");
    let fields = [
        "",
        "numa: near_gpu,",
        "numa: interleave,",
        "numa: first_touch(node: \"dram\"),",
        "pins: [(kinds: [kv], node: \"dram\")],",
        "pins: [(kinds: [kv], module: \"h.*\", node: \"dram\")],",
    ];
    let mut prints: Vec<String> = fields.iter().map(|all| print(&with(all, ""))).collect();
    assert_eq!(prints[0], print(GOOD));
    assert_eq!(print(&with("pins: [],", "")), print(GOOD), "nothing said");
    prints.sort();
    prints.dedup();
    assert_eq!(prints.len(), fields.len());
}

#[test]
fn nodes_are_tiers_of_kind_dram() {
    let place = "first_touch(node: \"hbm\")";
    refused(&format!("numa: {place}"), &["a node is a tier of kind dram", "\"hbm\"", "dram"]);
    refused("numa: first_touch(node: \"nvme\")", &["a node is a tier of kind dram"]);
    refused("numa: first_touch(node: \"dram1\")", &["the hardware has no tier of this name"]);
    refused("numa: first_touch(node: \"\")", &["the hardware has no tier of this name"]);
    refused("pins: [(kinds: [kv], node: \"nvme\")]", &["a node is a tier of kind dram"]);
    refused("pins: [(kinds: [kv], node: \"far\")]", &["the hardware has no tier of this name"]);
}

#[test]
fn forms_that_are_none() {
    refused("numa: first_touch", &["needs its brackets"]);
    refused("numa: first_touch()", &["node"]);
    refused("numa: near_gpu(node: \"dram\")", &["case.ron"]);
    refused("numa: NearGpu", &["near_gpu"]);
    refused("numa: preferred", &["near_gpu"]);
    refused("numa: \"interleave\"", &["case.ron"]);
    refused("pins: [(node: \"dram\", kind: [kv])]", &["kind"]);
    refused("pins: (kinds: [kv], node: \"dram\")", &["case.ron"]);
    refused("pins: [(kinds: [kv])]", &["node"]);
}

#[test]
fn pins_say_what_they_are_for_and_say_it_once() {
    let pins = |pins: &str| format!("pins: [{pins}]");
    let rule = ["a pin says which objects it is for"];
    refused(&pins("(node: \"dram\")"), &rule);
    refused(&pins("(kinds: [], node: \"dram\")"), &rule);
    refused(&pins("(kinds: [], module: \"h.*\", node: \"dram\")"), &rule);
    let length = ["the pattern of module names has 1 to 200 bytes"];
    refused(&pins("(module: \"\", node: \"dram\")"), &length);
    refused(&pins(&format!("(module: \"{}\", node: \"dram\")", "*".repeat(201))), &length);
    let weights = "(kinds: [weight], node: \"dram\")";
    let twice = ["these objects are pinned twice"];
    refused(&pins(&format!("{weights}, {weights}")), &twice);
    refused(&pins(&format!("{weights}, (kinds: [kv, weight], node: \"dram\")")), &twice);
    let module = "(module: \"h.*\", node: \"dram\")";
    let both = "(kinds: [kv], module: \"h.*\", node: \"dram\")";
    refused(&pins(&format!("{module}, {both}")), &twice);
    refused(&pins(&format!("{both}, {module}")), &twice);
    assert_eq!(
        read(&pins(&format!("{weights}, {both}, (kinds: [kv], node: \"dram\")")), "")[0].pins.len(),
        3
    );
    refused(&pins(&format!("{weights},").repeat(101)), &["at most 100 pins"]);
}

#[test]
fn a_machine_without_dram_has_no_nodes() {
    let project = Project::new();
    let tier = "(name: \"hbm\", kind: hbm, capacity: (gib(2), assumed(\"a\")), \
                setup: (ns(1), assumed(\"a\")), bandwidth: (gb_per_s(1), assumed(\"a\")))";
    let bare = format!("Hardware(schema: 1, about: \"a\", tiers: [{tier}])");
    project.write("hardware-specs/bare.ron", bare);
    let text = "Scenario(schema: 1, about: \"a\", hardware: \"bare\", numa: interleave, \
                workload: Trace(path: \"traces/small\", time: recorded()), \
                policies: [(name: \"a\", policy: AllHbm)])";
    let problems = project.read(text).expect_err("there is no node");
    assert_says(&problems, &["the hardware has no tier of kind dram"]);
}
