//! `calibrate`: what it writes is complete and can be used, and what it cannot do is said.

use crate::common::*;

const SMOKE: &str = "scenarios/validation/host-smoke.ron";

#[test]
fn a_measured_spec_is_accepted_wherever_a_machine_is_named() {
    let project = Project::shipped();
    let ran = project.run(&["calibrate", "--machine", "host", "--quick"]).ends_with(0);
    for channel in ["dram->hbm", "hbm->dram", "nvme->dram", "dram->nvme"] {
        assert!(ran.stdout.contains(&format!("{channel} alone")), "{channel}: {}", ran.stdout);
    }
    let spec = "hardware-specs/measured/host.ron";
    project.run(&["check", spec]).ends_with(0);
    let text = std::fs::read_to_string(project.path(spec)).expect("the spec is there");
    // Two capacities are a choice, everything else is measured. A link whose directions disturb
    // each other has two numbers more, which is up to the machine.
    let count = 18 + 2 * text.matches("total: (").count();
    assert_eq!(text.matches("assumed(").count(), 2, "{text}");
    assert_eq!(text.matches("measured(").count(), count, "{text}");

    let measured = r#"hardware="measured/host""#;
    let args = ["validate", SMOKE, "--machine", "host", "--repeat-runs", "1", "--set", measured];
    let ran = project.run(&[&args[..], &["--out", "v"]].concat()).ends_with(0);
    assert!(
        ran.stdout.contains(&format!("({} numbers: {count} measured, 2 assumed)", count + 2)),
        "{}",
        ran.stdout
    );

    // What the scenario expects of times may fail on a machine that nobody knows.
    let text = std::fs::read_to_string(project.path(SMOKE)).expect("the scenario is there");
    let (head, _) = text.split_once("expect: [").expect("it expects something");
    let scenario = head.replace("\"host-smoke\"", "\"measured/host\"");
    assert!(scenario.contains("measured/host"), "{scenario}");
    project.write("scenarios/on-measured.ron", scenario + "expect: [fits(\"all in HBM\")],\n)\n");
    project.run(&["run", "scenarios/on-measured.ron"]).ends_with(0);

    // What waking this computer's threads takes is a runtime that any scenario takes as it is.
    let runtime = format!("runtime={}", project.text("out/calibrate-host/runtime.ron"));
    let args = ["run", "scenarios/on-measured.ron", "--out", "woken", "--set", &runtime];
    project.run(&args).ends_with(0);
    let told = &project.json("woken/summary.json")["results"][0]["runtime"];
    assert!(told["per_op_us"].as_f64() > Some(0.0), "{told}");
}

#[test]
fn the_folder_has_every_point_every_law_and_the_charts() {
    let project = Project::shipped();
    let args = ["calibrate", "--machine", "host", "--quick", "--name", "mine", "--out", "c", "-q"];
    let ran = project.run(&args).ends_with(0);
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    let files = project.files("c");
    let charts = ["", "-alone", "-files-read", "-files-write"];
    let charts = charts
        .iter()
        .flat_map(|chart| ["png", "svg"].map(|kind| format!("calibration{chart}.{kind}")));
    let mut names: BTreeSet<String> = charts.collect();
    names.extend(
        ["calibration.csv", "calibration.json", "mine.ron", "runtime.ron"].map(str::to_owned),
    );
    let found: BTreeSet<String> = files.keys().cloned().collect();
    assert_eq!(found, names, "and no file that was measured is left");
    assert!(!project.path("hardware-specs/measured").exists(), "it was told to write elsewhere");

    let json = project.json("c/calibration.json");
    assert_eq!((&json["name"], &json["machine"]), (&Value::from("mine"), &Value::from("host")));
    let laws = json["laws"].as_array().expect("a list");
    let named: BTreeSet<&str> = laws.iter().filter_map(|law| law["probe"].as_str()).collect();
    assert_eq!(named.len(), laws.len(), "every law has a name of its own");
    let fitted = laws.iter().filter(|law| law["rate"].as_f64() > Some(0.0)).count();
    assert!(fitted >= 15, "{fitted} of {}", laws.len());

    let mut keys = BTreeSet::new();
    keys_of(&json, &mut keys);

    let csv = project.text("c/calibration.csv");
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    keys.extend(head.iter().map(|&column| column.to_owned()));
    let page = page("docs/howto/calibration.md");
    let missing: Vec<&String> =
        keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/howto/calibration.md lacks {missing:?}");
    let (mut fitted, mut held_out) = (0, 0);
    for row in rows {
        assert_eq!(row.len(), head.len(), "{row:?}");
        let n: u32 = row[4].parse().expect("a count");
        assert!(n >= 9, "{row:?}");
        fitted += usize::from(row[11] == "fitted");
        held_out += usize::from(row[11] == "held out");
    }
    assert!(fitted > 80 && held_out > 40, "{fitted} {held_out}");
}

/// A copy of another host's files: two sockets, a CXL expander without cores, a GPU at the second.
fn plant(project: &Project) {
    for (id, cores, gib, distances) in
        [(0, "0-31", 256, "10 21 24"), (1, "32-63", 256, "21 10 14"), (2, "", 512, "24 14 10")]
    {
        let node = format!("planted/sys/devices/system/node/node{id}");
        project.write(&format!("{node}/cpulist"), format!("{cores}\n"));
        let memory = format!("Node {id} MemTotal: {} kB\n", gib << 20);
        project.write(&format!("{node}/meminfo"), memory);
        project.write(&format!("{node}/distance"), format!("{distances}\n"));
    }
    let gpu = "planted/sys/bus/pci/devices/0000:81:00.0";
    for (file, text) in
        [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330"), ("numa_node", "1")]
    {
        project.write(&format!("{gpu}/{file}"), text);
    }
}

#[test]
fn planted_nodes_become_tiers_that_are_drawn_and_paid_for() {
    let project = Project::shipped();
    plant(&project);
    let args = ["calibrate", "--machine", "host", "--quick", "--name", "other"];
    let ran = project.run(&[&args[..], &["--system", "planted"]].concat()).ends_with(0);
    ran.shows(&[
        "3 nodes of memory were read from a copy, and not measured",
        "node 2 has memory and no cores: taken for an expander at node 1",
        "10de:2330 0000:81:00.0",
        "0: 21, 1: 10, 2: 14",
        "other-nodes.ron",
    ]);
    let json = project.json("out/calibrate-other/calibration.json");
    assert_eq!(json["nodes"][1]["devices"][0]["address"], "0000:81:00.0");
    assert_eq!(json["nodes"][2]["cores"], 0);

    let machine = "hardware-specs/measured/other-nodes.ron";
    let shown = project.run(&["hardware", "show", machine, "--out", "h"]).ends_with(0);
    shown.shows(&["socket0", "socket1", "between1-0", "expander2", "dram-node0", "cxl-node2"]);
    assert_eq!(project.names("h"), ["machine.png", "machine.svg"]);

    // Objects on the far node come over the link between the sockets, and the step says so.
    let scenario = format!(
        "Scenario(schema: 2, about: \"near and far\", hardware: \"measured/other-nodes\", \
         workload: Trace(path: \"traces/gpt2-train-cpu\", time: roofline(precision: \"fp32\")), \
         policies: [{}], expect: [faster(case: \"near\", than: \"far\")])",
        [("near", "near_gpu"), ("far", "first_touch(node: \"dram-node0\")")]
            .map(|(name, numa)| format!(
                "(name: {name:?}, policy: Lru(spill: [\"dram\"]), hbm: share_of_peak(0.6), \
                 numa: {numa})"
            ))
            .join(", ")
    );
    project.write("scenarios/near-and-far.ron", scenario);
    project.run(&["run", "scenarios/near-and-far.ron"]).ends_with(0);
    let found = project.json("out/near-and-far/summary.json");
    let moved = |case: usize| {
        let peaks = &found["results"][case]["peak_bytes"];
        ["dram", "dram-node0"].map(|tier| peaks[tier].as_u64().expect("a number") > 0)
    };
    assert_eq!((moved(0), moved(1)), ([true, false], [false, true]));
}

#[test]
fn a_copy_without_nodes_and_one_with_nonsense_are_bad_input() {
    let project = Project::shipped();
    let args = ["calibrate", "--machine", "host", "--quick", "--out", "c", "--system"];
    project.run(&[&args[..], &["nowhere"]].concat()).ends_with(2).says(&["--system nowhere"]);
    plant(&project);
    project.write("planted/sys/devices/system/node/node1/cpulist", "32-");
    let ran = project.run(&[&args[..], &["planted"]].concat()).ends_with(2);
    ran.says(&["node1/cpulist", "\"32-\"", "\"0-3,8\""]);
    assert!(!project.path("c").exists());
}

/// Every key of a value and of what is inside it; names of clocks are the system's.
fn keys_of(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                found.insert(key.clone());
                if key != "clocks" {
                    keys_of(inner, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| keys_of(inner, found)),
        _ => {}
    }
}

#[test]
fn a_machine_that_is_not_there_is_said_and_nothing_is_written() {
    let project = Project::shipped();
    let args = ["calibrate", "--machine", "cuda", "--out", "c"];
    project.run(&args).ends_with(2).says(&["--machine cuda", "--machine host"]);
    assert!(!project.path("c").exists());
}

#[test]
fn bad_names_and_folders_are_bad_input() {
    let project = Project::shipped();
    let named = ["calibrate", "--machine", "host", "--quick", "--name", "../up"];
    project.run(&named).ends_with(2).says(&["--name", "../up"]);
    assert!(!project.path("out").exists());
    project.write("file", "not a folder");
    let args = ["calibrate", "--machine", "host", "--quick", "--scratch", "file/in", "--out", "c"];
    project.run(&args).ends_with(2).says(&["file/in", "--scratch"]);
    assert!(!project.path("c").exists());
}
