//! Points of a sweep: order, values, limits, and what happens to points that break a rule.

use crate::specs::project::{GOOD, Project, assert_says, edited};
use std::sync::Arc;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::scenario::AxisValue;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::zoo::adam_state::{AdamStateConfig, Cut};

const RANGE: &str = "range(from: 0.0, to: 1.0, step: 0.05)";

fn read(text: &str) -> Result<Sweep, Diagnostics> {
    let project = Project::new();
    read_sweep(&project.scenario(text), &[])
}

fn check(from: &str, to: &str, expected: &[&str]) {
    assert_says(&read(&edited(from, to)).unwrap_err(), expected);
}

#[test]
fn points_come_in_row_major_order_with_decimal_values() {
    let sweep = read(GOOD).unwrap();
    let values: Vec<f64> = sweep.axes[0]
        .values
        .iter()
        .map(|point| match point.value {
            AxisValue::Number(number) => number,
            AxisValue::Text(_) => panic!(),
        })
        .collect();
    assert_eq!(values.len(), 21);
    assert_eq!(values[3], 0.15);
    assert_eq!(values[20], 1.0);
    // cpu: 0.5 leaves room up to hbm = 0.5: 11 of 21 values, twice.
    assert_eq!((sweep.points.len(), sweep.skipped.len()), (22, 20));
    let shown: Vec<String> = sweep.points[..3]
        .iter()
        .map(|p| p.params.iter().map(|(_, v)| v.to_string()).collect::<Vec<_>>().join("/"))
        .collect();
    assert_eq!(shown, ["0/in place", "0/migrate", "0.05/in place"]);
    let point = &sweep.points[7];
    let case = &point.scenario.cases[1];
    assert_eq!(case.label, "adam [hbm=0.15, access=migrate]");
    assert_eq!(case.params, point.params);
    let adam: &AdamStateConfig = case.policy.get().unwrap();
    assert_eq!(adam.cut, Cut::Shares { hbm: 0.15, cpu: 0.5 });
    assert!(sweep.skipped[0].1.contains("add up to more than 1"), "{:?}", sweep.skipped[0]);
    assert_eq!(sweep.base.cases[1].label, "adam");
    let machines = sweep.points.iter().map(|point| &point.scenario.hardware);
    assert!(machines.into_iter().all(|machine| Arc::ptr_eq(machine, &sweep.base.hardware)));
}

#[test]
fn invalid_points_are_errors_unless_skipped() {
    check(
        "skip_invalid: true",
        "skip_invalid: false",
        &["17:18: the shares", "axis `hbm` at 0.55"],
    );
    // Not well formed is never skipped, and the same mistake is told once.
    let problems =
        read(&edited("\"migrate(prefetch_ops: 4)\"", "\"migrate(ops: 4)\"")).unwrap_err();
    assert_eq!(problems.0.len(), 1, "{problems}");
    assert_says(&problems, &["has no field `ops`", "axis `access` at migrate"]);
    check("to: 1.0, step", "to: 1.0, stp", &["has no field `stp`"]);
    check(RANGE, "list([7, 8])", &["no point of the sweep is valid"]);
}

#[test]
fn rules_on_axes() {
    check(
        "policies.1.policy.cut.hbm",
        "policies.1.policy.cutt.hbm",
        &["did you mean `cut`?", "29:33"],
    );
    check("policies.1.policy.cut.hbm", "sweep.axes", &["cannot replace the sweep"]);
    check("policies.1.policy.cut.hbm", "", &["cannot replace the sweep"]);
    check("name: \"access\"", "name: \"hbm\"", &["every axis has a name of its own"]);
    check(RANGE, "range(from: 0.0, to: 1.0, step: 0.0)", &["`step` must be above 0"]);
    check(RANGE, "range(from: 0.0, to: 1.0, step: NaN)", &["must lie between -1e15 and 1e15"]);
    check(RANGE, "range(from: 1.0, to: 0.0, step: 0.1)", &["from the lower end to the higher"]);
    check(RANGE, "range(from: 0.0, to: 1.0, step: 1e-300)", &["at most 1000000 points"]);
    check(RANGE, "range(from: 0.0, to: 1.0, step: 0.000001)", &["at most 1000000 points"]);
    check(RANGE, "range(from: 0.0, to: 1.0, step: 0.0000015)", &["at most 1000000 points"]);
    check(RANGE, "list([])", &["at least one value"]);
    check(RANGE, "list([0.1, inf])", &["must be finite"]);
    check("(\"migrate\", ", "(\"in place\", ", &["every choice has a label of its own"]);
    // What every point carries is short.
    let long = |before: &str| format!("{before}{}", "x".repeat(81));
    check("(\"migrate", &long("(\""), &["label of its own, of 1 to 80 printable characters"]);
    check("name: \"access", &long("name: \""), &["name of its own, of 1 to 80 printable"]);
    let about = format!("about: \"{}", "x".repeat(1001));
    check("about: \"", &about, &["`about` has at most 1000 bytes"]);
    check(RANGE, "list([0.1, 0.2, 0.1])", &["0.1 stands twice among the values of an axis"]);
    // By number and by name the same value.
    let twice = edited("policies.1.policy.access", "policies.adam.policy.cut.hbm");
    assert_says(&read(&twice).unwrap_err(), &["another axis replaces the same value"]);
    let start = GOOD.find("    sweep:").unwrap();
    let end = GOOD.find("    seed:").unwrap();
    let without = format!("{}{}", &GOOD[..start], &GOOD[end..]);
    assert_says(&read(&without).unwrap_err(), &["the scenario has no `sweep`"]);
    // A single run checks the axes too.
    let text = edited(RANGE, "range(from: 1.0, to: 0.0, step: 0.1)");
    assert_says(&Project::new().read(&text).unwrap_err(), &["from the lower end"]);
}

#[test]
fn whole_numbers_hardware_and_quantities_can_be_swept() {
    let axes = r#"axes: [
        (name: "ahead", path: "policies.hints.policy.access.prefetch_ops", values: range(from: 1, to: 3, step: 1)),
        (name: "GiB", path: "capacity.hbm.0", values: list([1, 2.5])),
        (name: "machine", path: "hardware", values: choices([("H100", "h100-sxm-pcie5"), ("H200", "h200-sxm-pcie5")])),
    ],"#;
    let start = GOOD.find("axes: [").unwrap();
    let end = GOOD.find("        skip_invalid").unwrap();
    let text = format!("{}{axes}\n{}", &GOOD[..start], &GOOD[end..]);
    let sweep = read(&text).unwrap();
    assert_eq!(sweep.points.len(), 12);
    let last = &sweep.points[11].scenario;
    assert_eq!(last.hardware.name, "h200-sxm-pcie5");
    assert_eq!(last.hardware.tiers[0].capacity.get(), 5 << 29);
}

#[test]
fn a_sweep_of_882_points_has_462_whose_shares_add_up() {
    let text = edited("choices([\n                (\"in place\", \"in_place(charge: module_output)\"),\n                (\"migrate\", \"migrate(prefetch_ops: 4)\"),\n            ])", "choices([(\"m\", \"migrate()\")])")
        .replace(
            "        ],\n        skip",
            "            (name: \"cpu\", path: \"policies.1.policy.cut.cpu\", values: range(from: 0.0, to: 1.0, step: 0.05)),\n\
             (name: \"by\", path: \"policies.1.policy.by\", values: choices([(\"m\", \"modules\"), (\"b\", \"bytes\")])),\n\
             ],\n        skip",
        );
    let sweep = read(&text).unwrap();
    assert_eq!(sweep.points.len() + sweep.skipped.len(), 882);
    assert_eq!(sweep.points.len(), 462);
}
