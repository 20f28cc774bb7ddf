//! Machines that a scenario changes, and scenarios that name several.

use crate::specs::project::{GOOD, Project, assert_says, edited};
use tiersim_input::hardware_file::changed::MachineText;
use tiersim_input::hardware_file::{read_hardware, read_hardware_of};
use tiersim_input::project::Project as Around;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::scenario::sweep::{read_run_with, read_sweep};
use tiersim_models::diagnostic::{Diagnostics, Warning};
use tiersim_models::hardware::{Hardware, Source};
use tiersim_models::units::{Bandwidth, Bytes};
use tiersim_policies::scenario::expectation::Expectation;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_policies::scenario::{Budget, Scenario};
use tiersim_policies::zoo::Registry;

const NAMED: &str = "hardware: \"h100-sxm-pcie5\"";

/// [`GOOD`] with these overrides.
fn set(overrides: &[(&str, &str)]) -> Result<Scenario, Diagnostics> {
    let project = Project::new();
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    read_scenario(&project.scenario(GOOD), &overrides)
}

fn run(text: &str) -> Result<Sweep, Diagnostics> {
    let project = Project::new();
    read_run_with(&project.scenario(text), &[], &Registry::default())
}

fn read_rate(machine: &Hardware) -> Bandwidth {
    machine.links[0].read.rate
}

/// What the machine's own file has.
fn shipped() -> Hardware {
    let project = Project::new();
    read_hardware(&project.root.join("hardware-specs/h100-sxm-pcie5.ron")).unwrap()
}

#[test]
fn a_number_of_the_machine_is_set_as_if_its_file_said_so() {
    let own = shipped();
    let machine = set(&[("hardware.links.pcie.read", "gb_per_s(30)")]).unwrap().hardware;
    assert_eq!(read_rate(&machine), Bandwidth::gb_per_s(30));
    assert_eq!(machine.name, "h100-sxm-pcie5 with links.pcie.read = gb_per_s(30)");
    let fact = machine.facts.iter().find(|fact| fact.path == "links.pcie.read").unwrap();
    assert_eq!(fact.value, "gb_per_s(30)");
    assert_eq!(fact.source, Source::Assumed("set by the scenario".to_owned()));
    assert_eq!(machine.links[0].write.rate, own.links[0].write.rate);
    // By index, with a source of its own, and the same said in the file.
    let sourced = "(gb_per_s(30), measured(\"here\"))";
    let machine = set(&[("hardware.links.0.read", sourced)]).unwrap().hardware;
    assert_eq!(read_rate(&machine), Bandwidth::gb_per_s(30));
    let file = "hardware: (machine: \"h100-sxm-pcie5\", name: \"slow\", set: [
        (path: \"links.pcie.read\", value: gb_per_s(30)), (path: \"chunk\", value: mib(1))])";
    let project = Project::new();
    let machine = project.read(&edited(NAMED, file)).unwrap().hardware;
    assert_eq!((read_rate(&machine), &*machine.name), (Bandwidth::gb_per_s(30), "slow"));
    assert_eq!(machine.chunk, Bytes::mib(1));
}

#[test]
fn a_number_is_assumed_by_whatever_path_it_is_set() {
    let read = |overrides: &[(&str, &str)]| {
        let all: Vec<(String, &str)> = overrides
            .iter()
            .map(|(path, value)| (format!("hardware.links.pcie.read{path}"), *value))
            .collect();
        let all: Vec<(&str, &str)> = all.iter().map(|(path, value)| (&**path, *value)).collect();
        let machine = set(&all).unwrap().hardware;
        let fact = machine.facts.iter().find(|fact| fact.path == "links.pcie.read").unwrap();
        (fact.value.clone(), fact.source.clone(), fact.uncertainty.is_some())
    };
    let by = |text: &str| Source::Assumed(text.to_owned());
    let assumed = |value: &str| (value.to_owned(), by("set by the scenario"), false);
    let half = read(&[("", "times(0.5)")]).0;
    for (path, value, found) in [
        ("", "gb_per_s(20)", "gb_per_s(20)"),
        (".0", "gb_per_s(20)", "gb_per_s(20)"),
        (".0.0", "20", "gb_per_s(20)"),
        (".0", "times(0.5)", &half),
        (".0.0", "times(0.5)", &half),
    ] {
        assert_eq!(read(&[(path, value)]), assumed(found), "{path}={value}");
        // Its spread in the file says nothing of another number.
        let spread = ("", "(gb_per_s(60), measured(\"lab\"), spread(0.1))");
        let found = if value.starts_with("times") { "gb_per_s(30)" } else { found };
        assert_eq!(read(&[spread, (path, value)]), assumed(found), "{path}={value}");
    }
    // Unless its source is set as well, before or after it.
    let own = (".1", "measured(\"here\")");
    let measured = ("gb_per_s(20)".to_owned(), Source::Measured("here".to_owned()), false);
    for path in ["", ".0"] {
        let number = (path, "gb_per_s(20)");
        assert_eq!(read(&[number, own]), measured);
        assert_eq!(read(&[own, number]), measured);
    }
    let whole = ("", "(gb_per_s(60), measured(\"lab\"))");
    assert_eq!(read(&[own, whole, (".0.0", "20")]), assumed("gb_per_s(20)"));
}

#[test]
fn factors_and_stars_reach_every_number_that_is_meant() {
    let own = shipped();
    let machine = set(&[("hardware.links.*.read", "times(0.5)")]).unwrap().hardware;
    for (link, before) in machine.links.iter().zip(&own.links) {
        assert_eq!(link.read.rate.get(), before.read.rate.get() / 2, "{}", link.name);
        assert_eq!(link.write.rate, before.write.rate, "{}", link.name);
    }
    // A number that the file leaves out is added with a source.
    let machine = set(&[("hardware.compute.memory", "gb_per_s(2000)")]).unwrap().hardware;
    let memory = |machine: &Hardware| machine.compute.as_ref().map(|compute| compute.memory);
    assert_eq!(memory(&machine), Some(Bandwidth::gb_per_s(2000)));
    // Unless it says otherwise, a device reads its memory at the memory's rate.
    let machine = set(&[("hardware.tiers.hbm.bandwidth", "times(2)")]).unwrap().hardware;
    assert_eq!(memory(&machine), Some(Bandwidth::gb_per_s(5680)));
    let every = set(&[("policies.*.hbm", "gib(1)")]).unwrap();
    assert!(every.cases.iter().all(|case| case.hbm == Budget::Bytes(Bytes::gib(1))));
    let some = set(&[("policies.*.policy.cut.hbm", "0.1")]).unwrap();
    assert_ne!(some.cases[1].policy, set(&[]).unwrap().cases[1].policy);
    assert_eq!(some.cases[2].policy, set(&[]).unwrap().cases[2].policy);
}

#[test]
fn a_device_named_beside_its_own_machine_is_the_changed_one() {
    let by_index = set(&[("hardware.compute.flops.3.rate", "times(2)")]).unwrap();
    let scenario = set(&[("hardware.compute.flops.tf32", "times(2)")]).unwrap();
    assert_eq!(scenario.hardware.compute, by_index.hardware.compute);
    let compute = format!("{:?}", scenario.workload.time);
    let own = scenario.hardware.compute.as_ref().unwrap();
    assert!(compute.contains(&format!("{:?}", own.flops)), "{compute}");
}

#[test]
fn what_no_machine_has_is_told_with_who_asked() {
    for (path, value, said) in [
        ("hardware.links.pcie.raed", "gb_per_s(1)", "no field `raed` [--set hardware.links.pcie"),
        ("hardware.links.none.read", "gb_per_s(1)", "there is no `links.none.read`"),
        ("hardware.links.pcie.read", "5", "a rate needs its unit [--set hardware.links.pcie"),
        ("hardware.links.pcie.read", "gb_per_s(0)", "must lie between 10^6"),
        ("hardware.links.pcie.read", "times(-1)", "a factor is a number above 0"),
        ("hardware.links.pcie.kind", "times(2)", "`times` scales a number"),
        ("hardware.links.pcie.read", "gb_per_s(", "[--set hardware.links.pcie.read"),
        ("hardware.about", "\"x\"", "`about` is no number of a machine"),
        ("hardware.*.nothing.at.all", "1", "nothing has the path"),
        ("policies.*.nothing.at.all", "1", "nothing has the path"),
    ] {
        let said_of = set(&[(path, value)]).map(|_| ()).expect_err(path);
        assert_says(&said_of, &[said]);
    }
}

#[test]
fn axes_reach_the_machine_and_do_not_meet() {
    let axes = |axes: &str, more: &str| {
        let start = GOOD.find("axes: [").unwrap();
        let end = GOOD.find("        skip_invalid").unwrap();
        let text = format!("{}axes: [{axes}],\n{more}{}", &GOOD[..start], &GOOD[end..]);
        let project = Project::new();
        read_sweep(&project.scenario(&text), &[])
    };
    let link = "(name: \"link\", path: \"hardware.links.pcie.read\",";
    let sweep = axes(&format!("{link} unit: \"gb_per_s\", values: list([16, 32]))"), "").unwrap();
    let rates: Vec<Bandwidth> =
        sweep.points.iter().map(|point| read_rate(&point.scenario.hardware)).collect();
    assert_eq!(rates, [16, 32].map(Bandwidth::gb_per_s));
    let sweep = axes(&format!("{link} values: factors([0.5, 1]))"), "").unwrap();
    let rates: Vec<u64> =
        sweep.points.iter().map(|point| read_rate(&point.scenario.hardware).get()).collect();
    assert_eq!(rates, [25_600_000_000, 51_200_000_000]);
    // One value by two paths.
    for path in ["links.0.read", "links.pcie.read.0"] {
        let twice =
            format!("(name: \"again\", path: \"hardware.{path}\", values: factors([1, 2]))");
        let said = axes(&format!("{link} values: factors([1, 2])), {twice}"), "").unwrap_err();
        assert_says(&said, &["another axis replaces the same value"]);
    }
    let none = "(name: \"x\", path: \"hardware.links.none.read\", values: factors([1, 2]))";
    assert_says(&axes(none, "").unwrap_err(), &["case.ron:", "there is no `links.none.read`"]);
}

const BOTH: &str = "hardware: [\"h100-sxm-pcie5\", (machine: \"cxl2-x16-direct\", name: \"CXL\"), \
    (machine: \"h100-sxm-pcie5\", name: \"half\", set: [\
    (path: \"links.pcie.read\", value: times(0.5))])]";

#[test]
fn each_of_several_machines_has_the_cases_that_make_sense_on_it() {
    let policies = GOOD.find("        (name: \"hints\"").unwrap();
    let text = GOOD.replacen(NAMED, BOTH, 1);
    assert!(policies > 0 && text.contains("CXL"));
    let text = text.replacen("spill: [\"dram\", \"nvme\"]", "spill: [\"cxl\"]", 1);
    let text = text.replacen("channel: \"dram->hbm\"", "channel: \"root->hbm\"", 1);
    let sweep = run(&text).unwrap();
    let labels = |sweep: &Sweep| -> Vec<String> {
        let cases = sweep.points.iter().flat_map(|point| &point.scenario.cases);
        cases.map(|case| case.label.clone()).collect()
    };
    let all = labels(&sweep);
    assert_eq!(all.len(), 4 + 5 + 4, "{all:?}");
    assert!(all.contains(&"lru on CXL".to_owned()) && !all.contains(&"lru on half".to_owned()));
    let skipped: Vec<String> = sweep.skipped.iter().map(|(_, why)| why.to_string()).collect();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(skipped[0].starts_with("lru: the hardware has no tier of this name"), "{skipped:?}");
    // Expectations of a case hold on every machine that has it, in the order of points.
    let fits: Vec<usize> = (0..all.len()).filter(|&i| all[i].starts_with("all-hbm")).collect();
    for index in fits {
        assert!(sweep.base.expect.contains(&Expectation::Fits(index)), "{index}");
    }
    let lru = all.iter().position(|label| label == "lru on CXL").unwrap();
    let of_lru =
        |expected: &&Expectation| format!("{expected:?}").contains(&format!("case: {lru},"));
    assert_eq!(sweep.base.expect.iter().filter(of_lru).count(), 2);
    // Whoever asks for one machine gets the first, and is told.
    let project = Project::new();
    let first = project.read(&text).unwrap();
    assert_eq!((&*first.hardware.name, &*first.cases[0].label), ("h100-sxm-pcie5", "all-hbm"));
    assert_eq!(first.warnings.last().unwrap().rule, "first-of-several-machines");
}

#[test]
fn expectations_compare_machines() {
    let text = GOOD.replacen(NAMED, BOTH, 1).replacen(
        "faster(case: \"all-hbm\", than: \"adam\")",
        "faster(case: \"adam on h100-sxm-pcie5\", than: \"adam on half\"), fits(\"adam on CXL\")",
        1,
    );
    let text = text.replacen(
        "        moved(case: \"lru\", channel: \"dram->hbm\", at_least: gib(1)),\n",
        "",
        1,
    );
    let sweep = run(&text).unwrap();
    assert!(sweep.base.expect.contains(&Expectation::Faster { case: 1, than: 11 }));
    let fits = sweep.base.expect.iter().filter(|e| **e == Expectation::Fits(6)).count();
    assert_eq!(fits, 1);
    let wrong = text.replacen("adam on half", "adam on whole", 1);
    assert_says(&run(&wrong).unwrap_err(), &["no policy has this name", "`\"adam on whole\"`"]);
}

#[test]
fn one_of_several_machines_is_taken_with_what_is_expected_of_it() {
    let text = GOOD.replacen(NAMED, BOTH, 1).replacen(
        "faster(case: \"all-hbm\", than: \"adam\")",
        "faster(case: \"adam on h100-sxm-pcie5\", than: \"adam on half\"), fits(\"adam on half\")",
        1,
    );
    let project = Project::new();
    let of = |name: &str| {
        let set = [("hardware".to_owned(), name.to_owned())];
        let read = read_scenario(&project.scenario(&text), &set);
        read.unwrap_or_else(|found| panic!("{name}: {}", found.0[0]))
    };
    let fits = |scenario: &Scenario| scenario.expect.contains(&Expectation::Fits(1));
    let left_out = |scenario: &Scenario| {
        let rule = |warning: &&Warning| warning.rule == "expectations-of-other-machines";
        scenario.warnings.iter().find(rule).map(|warning| warning.found.clone())
    };
    let half = of("half");
    assert_eq!((&*half.hardware.name, &*half.cases[1].label), ("half", "adam"));
    assert!(fits(&half) && left_out(&half).unwrap().starts_with("1 of "));
    // Of another than these, and of one that is as a list names it.
    for name in ["h100-sxm-pcie5", "\"h100-sxm-pcie5\"", "h200-sxm-pcie5"] {
        let other = of(name);
        assert_eq!(&*other.hardware.name, name.trim_matches('"'));
        assert!(!fits(&other) && left_out(&other).unwrap().starts_with("2 of "), "{name}");
    }
    // Where one machine stood there, a name with one in it is a mistake as ever.
    let one = text.replacen(BOTH, NAMED, 1);
    assert_says(&project.read(&one).unwrap_err(), &["no policy has this name"]);
}

#[test]
fn a_sweep_turns_within_each_machine() {
    let text = GOOD.replacen(NAMED, BOTH, 1);
    let text = text.replacen(
        "        moved(case: \"lru\", channel: \"dram->hbm\", at_least: gib(1)),\n",
        "",
        1,
    );
    let project = Project::new();
    let sweep = read_sweep(&project.scenario(&text), &[]).unwrap();
    assert_eq!(sweep.axes[0].name, "machine");
    assert_eq!(sweep.points.len(), 3 * 22);
    assert_eq!(sweep.points[22].scenario.cases[1].label, "adam on CXL [hbm=0, access=in place]");
    let all = read_sweep(
        &project.scenario(&text),
        &[("hardware.links.pcie.read".to_owned(), "times(0.5)".to_owned())],
    )
    .unwrap();
    let rates: Vec<u64> =
        [0, 22, 44].map(|at: usize| read_rate(&all.points[at].scenario.hardware).get()).to_vec();
    assert_eq!(rates[0], 2 * rates[2]);
    let one = read_sweep(
        &project.scenario(&text),
        &[("hardware.half.links.pcie.read".to_owned(), "gb_per_s(1)".to_owned())],
    )
    .unwrap();
    assert_eq!(read_rate(&one.points[44].scenario.hardware), Bandwidth::gb_per_s(1));
    assert_eq!(read_rate(&one.points[0].scenario.hardware).get(), 51_200_000_000);
    let replaced = read_scenario(
        &project.scenario(&text),
        &[("hardware".to_owned(), "h200-sxm-pcie5".to_owned())],
    );
    assert_eq!(replaced.unwrap().hardware.name, "h200-sxm-pcie5");
}

#[test]
fn lists_of_machines_that_mean_nothing_are_refused() {
    for (list, said) in [
        ("hardware: []", "at least one machine"),
        ("hardware: [\"h100-sxm-pcie5\", \"h100-sxm-pcie5\"]", "two machines are called alike"),
        ("hardware: [\"h100-sxm-pcie5\", 5]", "a string in double quotes"),
        ("hardware: [(name: \"x\")]", "the field `machine` is missing"),
        ("hardware: [\"none\", \"h100-sxm-pcie5\"]", "no machine of this name"),
        ("hardware: (machine: \"h100-sxm-pcie5\", sets: [])", "`sets`"),
    ] {
        assert_says(&run(&edited(NAMED, list)).map(|_| ()).expect_err(list), &[said]);
    }
    let only = edited(NAMED, BOTH).replacen("spill: [\"dram\", \"nvme\"]", "spill: [\"hbf\"]", 1);
    assert_says(&run(&only).unwrap_err(), &["`lru` makes sense on none of the machines"]);
}

#[test]
fn tiers_have_names_and_roles() {
    let spill = |names: &str| {
        let text = GOOD.replacen("spill: [\"dram\", \"nvme\"]", &format!("spill: [{names}]"), 1);
        let project = Project::new();
        project.read(&text).map(|scenario| scenario.cases[3].policy.clone())
    };
    let named = spill("\"dram\", \"nvme\"").unwrap();
    assert_eq!(spill("\"far\", \"drive\"").unwrap(), named);
    assert_eq!(spill("\"cxl|far\", \"hbf | drive\"").unwrap(), named);
    assert_says(&spill("\"cxl|hbf\"").unwrap_err(), &["no tier of this name", "`\"cxl|hbf\"`"]);
}

#[test]
fn a_role_that_no_tier_has_is_said_to_be_missing() {
    let tier = |name: &str, kind: &str| {
        format!(
            "(name: \"{name}\", kind: {kind}, capacity: (gib(64), assumed(\"x\")), \
             setup: (us(1), assumed(\"x\")), bandwidth: (gb_per_s(5), assumed(\"x\")))"
        )
    };
    for (own, kind, role, what, known) in [
        ("nvme", "nvme", "far", "far memory", "known: hbm, nvme, near, drive"),
        ("dram", "dram", "drive", "drive", "known: hbm, dram, near, far"),
    ] {
        let project = Project::new();
        let tiers = [tier("hbm", "hbm"), tier(own, kind)].join(", ");
        let machine = format!("Hardware(schema: 2, about: \"x\", tiers: [{tiers}])");
        std::fs::write(project.root.join("hardware-specs/two.ron"), machine).unwrap();
        let text = format!(
            "Scenario(schema: 2, about: \"x\", hardware: \"two\", \
             workload: Trace(path: \"traces/small\", time: recorded()), \
             policies: [(name: \"lru\", policy: Lru(spill: [\"{role}\"]))])"
        );
        let said = project.read(&text).map(|_| ()).unwrap_err();
        assert_says(&said, &[&format!("this machine has no {what}"), known]);
        assert!(!said.to_string().contains("did you mean"), "{said}");
    }
}

#[test]
fn a_machine_with_no_change_is_what_its_file_says() {
    let project = Project::new();
    let around = Around::around(&project.root).unwrap();
    let machines = around.machines();
    assert!(machines.len() > 50, "{}", machines.len());
    for (name, path) in machines {
        let text = MachineText::read(&path, Some(&around)).unwrap();
        assert_eq!(text.with(&[]), read_hardware_of(&path, &around), "{name}");
    }
}
