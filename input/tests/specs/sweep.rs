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

/// What a point has of its own is what a long sweep takes in memory.
#[test]
fn machines_of_points_share_all_but_what_an_axis_changes() {
    let rates = r#"axes: [
        (name: "read", path: "hardware.links.pcie.read", values: choices([
            ("20", "gb_per_s(20)"), ("40", "gb_per_s(40)"), ("60", "gb_per_s(60)"),
        ])),
    ],"#;
    let start = GOOD.find("axes: [").unwrap();
    let end = GOOD.find("        skip_invalid").unwrap();
    let sweep = read(&format!("{}{rates}\n{}", &GOOD[..start], &GOOD[end..])).unwrap();
    assert_eq!(sweep.points.len(), 3);
    let base = &sweep.base.hardware;
    for point in &sweep.points {
        let own = &point.scenario.hardware;
        assert!(std::ptr::eq(&*own.tiers, &*base.tiers), "tiers");
        assert!(std::ptr::eq(&*own.economics, &*base.economics), "economics");
        assert!(std::ptr::eq(&*own.about, &*base.about), "about");
        assert_eq!(own.facts.owned(), 1, "the rate: {:?}", own.facts);
        assert_ne!(own.links, base.links);
    }
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

/// The values of an axis in a sweep with this list of axes and fields.
fn swept(axes: &str, fields: &str) -> Result<Sweep, Diagnostics> {
    let start = GOOD.find("axes: [").unwrap();
    let end = GOOD.find("        skip_invalid").unwrap();
    read(&format!("{}axes: [{axes}],\n{fields}{}", &GOOD[..start], &GOOD[end..]))
}

fn axis(name: &str, share: &str, values: &str) -> String {
    format!("(name: \"{name}\", path: \"policies.1.policy.cut.{share}\", values: {values}),")
}

fn numbers(sweep: &Sweep, axis: usize) -> Vec<f64> {
    let number = |value: &AxisValue| match value {
        AxisValue::Number(number) => *number,
        AxisValue::Text(_) => panic!("a number"),
    };
    sweep.points.iter().map(|point| number(&point.params[axis].1)).collect()
}

#[test]
fn values_of_equal_ratios_lie_between_their_ends() {
    let sweep =
        swept(&axis("hbm", "hbm", "log_range(from: 0.01, to: 0.16, points: 5)"), "").unwrap();
    assert_eq!(numbers(&sweep, 0), [0.01, 0.02, 0.04, 0.08, 0.16]);
    for (values, said) in [
        ("log_range(from: 0, to: 1, points: 5)", "equal ratios begin above 0"),
        ("log_range(from: 1, to: 2, points: 1)", "at least its two ends"),
        ("between(from: 0, to: 1)", "points are drawn from it"),
    ] {
        assert_says(&swept(&axis("hbm", "hbm", values), "").unwrap_err(), &[said]);
    }
}

#[test]
fn zipped_axes_turn_together() {
    let axes = [
        axis("hbm", "hbm", "list([0.1, 0.2, 0.3])"),
        "(name: \"ahead\", path: \"policies.hints.policy.access.prefetch_ops\", values: list([1, 2])),"
            .to_owned(),
        axis("cpu", "cpu", "list([0.3, 0.2, 0.1])"),
    ]
    .concat();
    let sweep = swept(&axes, "zip: [[\"hbm\", \"cpu\"]],").unwrap();
    assert_eq!(numbers(&sweep, 0), [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]);
    assert_eq!(numbers(&sweep, 1), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    assert_eq!(numbers(&sweep, 2), [0.3, 0.3, 0.2, 0.2, 0.1, 0.1]);
    for (zip, said) in [
        ("[[\"hbm\", \"ahead\"]]", "this one has 2, `hbm` has 3"),
        ("[[\"hbm\", \"none\"]]", "no axis has this name"),
        ("[[\"hbm\", \"cpu\"], [\"cpu\"]]", "turns together with others once"),
    ] {
        assert_says(&swept(&axes, &format!("zip: {zip},")).unwrap_err(), &[said]);
    }
}

#[test]
fn constraints_leave_points_out_with_their_reason() {
    let axes = axis("hbm", "hbm", "range(from: 0, to: 1, step: 0.1)")
        + &axis("cpu", "cpu", "range(from: 0, to: 1, step: 0.1)");
    let sweep = swept(&axes, "constraints: [\"hbm + cpu <= 1\", \"hbm - 0.5 >= 0\"],").unwrap();
    // 6 + 5 + ... + 1: 0.1 + 0.9 is 1 in spite of rounding.
    assert_eq!((sweep.points.len(), sweep.skipped.len()), (21, 100));
    assert_eq!(&*sweep.skipped[0].1, "excluded by hbm - 0.5 >= 0");
    for (condition, said) in [
        ("hbm + dram <= 1", "no axis of numbers is called `dram`"),
        ("hbm <= cpu <= 1", "one comparison of two sums"),
    ] {
        let said_of = swept(&axes, &format!("constraints: [\"{condition}\"],")).unwrap_err();
        assert_says(&said_of, &[said]);
    }
}

#[test]
fn a_latin_hypercube_has_one_point_in_each_stratum_of_each_axis() {
    let axes = axis("hbm", "hbm", "between(from: 0, to: 0.4)")
        + &axis("cpu", "cpu", "between(from: 0.01, to: 0.16, log: true)");
    let sample = "sample: latin_hypercube(points: 40, seed: 7),";
    let sweep = swept(&axes, sample).unwrap();
    assert_eq!(sweep.points.len(), 40);
    let strata = |values: Vec<f64>, share: &dyn Fn(f64) -> f64| {
        let mut strata: Vec<usize> =
            values.into_iter().map(|value| (share(value) * 40.0) as usize).collect();
        strata.sort_unstable();
        strata.dedup();
        strata.len()
    };
    // Six digits may move a value over the edge of its stratum; none did with this seed.
    assert_eq!(strata(numbers(&sweep, 0), &|value| value / 0.4), 40);
    assert_eq!(strata(numbers(&sweep, 1), &|value| (value / 0.01).ln() / 16f64.ln()), 40);
    assert_ne!(numbers(&sweep, 0), numbers(&swept(&axes, &sample.replace('7', "8")).unwrap(), 0));
    assert_eq!(numbers(&sweep, 0), numbers(&swept(&axes, sample).unwrap(), 0));
    let said = swept(&axes, "sample: latin_hypercube(points: 0),").unwrap_err();
    assert_says(&said, &["between 1 and 1000000 points can be drawn"]);
}
