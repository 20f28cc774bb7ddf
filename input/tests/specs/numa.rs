//! What a scenario can say about the nodes of DRAM.

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
fn objects_that_differ_may_be_pinned_alike() {
    let pins = |pins: &str| format!("pins: [{pins}]");
    let weights = "(kinds: [weight], node: \"dram\")";
    let both = "(kinds: [kv], module: \"h.*\", node: \"dram\")";
    assert_eq!(
        read(&pins(&format!("{weights}, {both}, (kinds: [kv], node: \"dram\")")), "")[0].pins.len(),
        3
    );
}

#[test]
fn a_machine_without_dram_has_no_nodes() {
    let project = Project::new();
    let tier = "(name: \"hbm\", kind: hbm, capacity: (gib(2), assumed(\"a\")), \
                setup: (ns(1), assumed(\"a\")), bandwidth: (gb_per_s(1), assumed(\"a\")))";
    let bare = format!("Hardware(schema: 2, about: \"a\", tiers: [{tier}])");
    project.write("hardware-specs/bare.ron", bare);
    let text = "Scenario(schema: 2, about: \"a\", hardware: \"bare\", numa: interleave, \
                workload: Trace(path: \"traces/small\", time: recorded()), \
                policies: [(name: \"a\", policy: AllHbm)])";
    let problems = project.read(text).expect_err("there is no node");
    assert_says(&problems, &["the hardware has no tier of kind dram"]);
}
