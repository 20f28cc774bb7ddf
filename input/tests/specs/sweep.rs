//! Points of a sweep: order, values, limits, and what happens to points that break a rule.

use crate::specs::project::{GOOD, Project, assert_says, edited};
use std::sync::Arc;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::scenario::AxisValue;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::zoo::adam_state::{AdamStateConfig, Cut};

fn read(text: &str) -> Result<Sweep, Diagnostics> {
    let project = Project::new();
    read_sweep(&project.scenario(text), &[])
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
fn without_axes_nothing_is_swept() {
    let start = GOOD.find("    sweep:").unwrap();
    let end = GOOD.find("    seed:").unwrap();
    let without = format!("{}{}", &GOOD[..start], &GOOD[end..]);
    assert_says(&read(&without).unwrap_err(), &["the scenario has no `sweep`"]);
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
    assert_eq!(last.hardware.tiers[0].capacity.most().get(), 5 << 29);
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
