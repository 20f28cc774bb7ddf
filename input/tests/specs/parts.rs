//! Machines put together from parts: what they mean, and how mistakes in several files are told.

use crate::specs::project::{Project, assert_says, edited, shipped};
use std::path::PathBuf;
use tiersim_input::hardware_file::parts::read_part;
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Hardware, Source};
use tiersim_models::units::Bytes;

pub(crate) const CARD: &str = r#"// A card.
Part(
    schema: 2,
    about: "a card",
    tiers: [
        (name: "hbm", kind: hbm, capacity: (gb(80), datasheet("d")), setup: (ns(400), measured("m")), bandwidth: (gb_per_s(1750), measured("m"))),
    ],
    compute: (name: "gpu", flops: [(precision: "bf16", rate: (tflops(271.2), measured("m")))], memory: (gb_per_s(1750), measured("m")), launch: (us(2.6), measured("m"))),
)"#;

pub(crate) const DRIVE: &str = r#"Part(
    schema: 2,
    about: "a drive behind the host's memory",
    tiers: [
        (name: "nvme", kind: nvme, setup: (us(70), measured("fio")), bandwidth: (gb_per_s(7), datasheet("sheet"))),
    ],
    links: [
        (name: "bus", near: "dram", far: "nvme", setup: (us(70), measured("fio")), read: (gb_per_s(7), datasheet("sheet")), write: (gb_per_s(6), datasheet("sheet"))),
    ],
)"#;

pub(crate) const MACHINE: &str = r#"Hardware(
    schema: 2,
    about: "a card, a host, two drives",
    parts: [
        (file: "parts/card"),
        (file: "parts/drive", rename: {"nvme": "nvme0", "bus": "bus0"}),
        (
            file: "parts/drive",
            rename: {"nvme": "nvme1", "bus": "bus1"},
            set: [
                (path: "tiers.nvme.capacity", value: (tb(2), assumed("sold so"))),
                (path: "links.bus.write", value: (gb_per_s(5), measured("worn"))),
            ],
        ),
    ],
    tiers: [
        (name: "dram", kind: dram, capacity: (gib(256), assumed("a share")), setup: (us(1), assumed("a")), bandwidth: (gb_per_s(35), measured("m"))),
    ],
    links: [
        (name: "pcie", near: "hbm", far: "dram", setup: (us(3.4), measured("m")), read: (gb_per_s(51), measured("m")), write: (gb_per_s(50), measured("m"))),
    ],
    chunk: mib(2),
)"#;

/// What [`MACHINE`] says, in one file.
const FLAT: &str = r#"Hardware(
    schema: 2,
    about: "a card, a host, two drives",
    tiers: [
        (name: "hbm", kind: hbm, capacity: (gb(80), datasheet("d")), setup: (ns(400), measured("m")), bandwidth: (gb_per_s(1750), measured("m"))),
        (name: "nvme0", kind: nvme, setup: (us(70), measured("fio")), bandwidth: (gb_per_s(7), datasheet("sheet"))),
        (name: "nvme1", kind: nvme, capacity: (tb(2), assumed("sold so")), setup: (us(70), measured("fio")), bandwidth: (gb_per_s(7), datasheet("sheet"))),
        (name: "dram", kind: dram, capacity: (gib(256), assumed("a share")), setup: (us(1), assumed("a")), bandwidth: (gb_per_s(35), measured("m"))),
    ],
    links: [
        (name: "bus0", near: "dram", far: "nvme0", setup: (us(70), measured("fio")), read: (gb_per_s(7), datasheet("sheet")), write: (gb_per_s(6), datasheet("sheet"))),
        (name: "bus1", near: "dram", far: "nvme1", setup: (us(70), measured("fio")), read: (gb_per_s(7), datasheet("sheet")), write: (gb_per_s(5), measured("worn"))),
        (name: "pcie", near: "hbm", far: "dram", setup: (us(3.4), measured("m")), read: (gb_per_s(51), measured("m")), write: (gb_per_s(50), measured("m"))),
    ],
    compute: (name: "gpu", flops: [(precision: "bf16", rate: (tflops(271.2), measured("m")))], memory: (gb_per_s(1750), measured("m")), launch: (us(2.6), measured("m"))),
    chunk: mib(2),
)"#;

/// A project with [`MACHINE`] as `hardware-specs/m.ron`, and its parts.
pub(crate) struct Parts {
    pub(crate) project: Project,
}

impl Parts {
    pub(crate) fn new() -> Parts {
        let project = Project::new();
        project.write("hardware-specs/parts/card.ron", CARD);
        project.write("hardware-specs/parts/drive.ron", DRIVE);
        Parts { project }
    }

    pub(crate) fn read(&self, machine: &str) -> Result<Hardware, Diagnostics> {
        read_hardware(&self.project.write("hardware-specs/m.ron", machine))
    }

    /// [`MACHINE`] with one piece replaced has these problems.
    pub(crate) fn check(&self, from: &str, to: &str, expected: &[&str]) {
        assert!(MACHINE.contains(from), "{from}");
        assert_says(&self.read(&MACHINE.replacen(from, to, 1)).unwrap_err(), expected);
    }

    pub(crate) fn part(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        self.project.write(&format!("hardware-specs/parts/{name}.ron"), text)
    }
}

#[test]
fn a_machine_of_parts_is_the_machine_that_the_same_text_in_one_file_means() {
    let parts = Parts::new();
    let composed = parts.read(MACHINE).unwrap_or_else(|problems| panic!("{problems}"));
    let flat = parts.read(FLAT).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(composed, flat);
    let fact = |path: &str| composed.facts.iter().find(|fact| fact.path == path).unwrap();
    assert_eq!(fact("links.bus1.write").value, "gb_per_s(5)");
    assert_eq!(fact("links.bus1.write").source, Source::Measured("worn".into()));
    assert_eq!(fact("links.bus0.write").source, Source::Datasheet("sheet".into()));
    assert_eq!(composed.tiers[2].capacity, Bytes::new(2_000_000_000_000).into());
}

#[test]
fn a_part_is_checked_by_itself_and_open_ends_are_no_mistakes() {
    let parts = Parts::new();
    for (name, text) in [("card", CARD), ("drive", DRIVE)] {
        read_part(&parts.part(name, text)).unwrap_or_else(|problems| panic!("{problems}"));
    }
    read_part(&parts.part("empty", "Part(schema: 2, about: \"nothing\")")).unwrap();
    let wrong = |from: &str, to: &str, expected: &[&str]| {
        assert!(DRIVE.contains(from), "{from}");
        let path = parts.part("wrong", DRIVE.replacen(from, to, 1));
        assert_says(&read_part(&path).unwrap_err(), expected);
    };
    wrong("Part(", "Hardware(", &["this is a machine, and a part of one must stand here"]);
}

#[test]
fn every_shipped_part_is_in_order_and_in_use() {
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let files = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let machines: Vec<String> = files(shipped()).filter(|path| path.is_file()).map(text).collect();
    let mut count = 0;
    for path in files(shipped().join("parts")) {
        read_part(&path).unwrap_or_else(|problems| panic!("{problems}"));
        let name = format!("\"parts/{}\"", path.file_stem().unwrap().to_str().unwrap());
        assert!(machines.iter().any(|machine| machine.contains(&name)), "{name}");
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn a_wrong_value_is_told_where_it_stands() {
    let parts = Parts::new();
    parts.part(
        "drive",
        DRIVE.replacen("us(70)", "s(70)", 1).replace("near: \"dram\"", "near: \"dra\""),
    );
    let said = parts.read(&MACHINE.replace("us(3.4)", "us(-3)")).unwrap_err();
    let expected = [
        "parts/drive.ron:5:44: a time must lie between 0 and 10 s",
        "parts/drive.ron:8:29: no tier has this name (found `\"dra\"`); did you mean `dram`?",
        "m.ron:20:58: a time may not be negative",
    ];
    assert_says(&said, &expected);
    assert_eq!(said.0.len(), 3, "each once though the drive is there twice:\n{said}");
}

#[test]
fn problems_of_all_files_are_told_at_once() {
    let parts = Parts::new();
    parts.part("card", CARD.replacen("ns(400)", "400", 1));
    parts.part("drive", DRIVE.replacen("tiers: [", "tiers: (", 1));
    let machine = MACHINE.replace("kind: dram, ", "kind: dram, colour: 1, ");
    let said = parts.read(&machine.replace("us(3.4)", "us(-3)")).unwrap_err();
    let expected = [
        "parts/card.ron:6:78: a time needs its unit",
        "parts/drive.ron:6:",
        "m.ron:17:36: `Tier` has no field `colour`",
        "m.ron:20:58: a time may not be negative",
    ];
    assert_says(&said, &expected);
    assert_eq!(said.0.len(), 4, "what needs the missing part is not complained of:\n{said}");
    // Where the machine itself cannot be read, its parts are looked at all the same.
    let said = parts.read(&MACHINE.replace("schema: 2,", "")).unwrap_err();
    assert_says(&said, &["the field `schema` is missing", "card.ron:6:78", "drive.ron:6:"]);
}

#[test]
fn nodes_and_routes_of_parts_are_joined_and_renamed_too() {
    let parts = Parts::new();
    let link = |name: &str, near: &str, far: &str| {
        let rate = "(gb_per_s(9), assumed(\"a\"))";
        format!(
            "(name: \"{name}\", near: \"{near}\", far: \"{far}\", setup: (us(1), assumed(\"a\")), read: {rate}, write: {rate}),"
        )
    };
    let tier = |name: &str| {
        format!(
            "(name: \"{name}\", kind: dram, setup: (us(1), assumed(\"a\")), bandwidth: (gb_per_s(9), assumed(\"a\"))),"
        )
    };
    let bay = |tier: &str, switch: &str, [up, down]: [&str; 2]| {
        [
            format!("nodes: [(name: \"{switch}\", kind: pcie_switch),"),
            format!("links: [{}{}", link(up, "rc", switch), link(down, switch, tier)),
            format!("routes: [(from: \"dram\", to: \"{tier}\", via: [\"rc\", \"{switch}\"]),"),
        ]
    };
    let text = bay("far", "sw", ["up", "down"]).join("], ");
    let switch = parts.part("bay", format!("Part(schema: 2, about: \"a bay\", {text}])"));
    read_part(&switch).unwrap_or_else(|problems| panic!("{problems}"));
    let own = [
        "nodes: [(name: \"rc\", kind: root_complex),".to_owned(),
        format!("links: [{}{}", link("pcie", "hbm", "rc"), link("memory", "rc", "dram")),
    ];
    let tiers = format!("tiers: [{}{}{}", tier("dram"), tier("far0"), tier("far1"));
    let composed = format!(
        "Hardware(schema: 2, about: \"two bays\", parts: [(file: \"parts/card\"), \
         (file: \"parts/bay\", rename: {{\"far\": \"far0\", \"sw\": \"sw0\", \"up\": \"up0\", \"down\": \"down0\"}}), \
         (file: \"parts/bay\", rename: {{\"far\": \"far1\", \"sw\": \"sw1\", \"up\": \"up1\", \"down\": \"down1\"}})], \
         {tiers}], {}])",
        own.join("], ")
    );
    let [nodes, links, routes] = bay("far0", "sw0", ["up0", "down0"]);
    let [more_nodes, more_links, more_routes] = bay("far1", "sw1", ["up1", "down1"]);
    let list = |text: &str| text.split_once('[').expect("a list").1.to_owned();
    let hbm = CARD.lines().find(|line| line.contains("kind: hbm")).expect("the card's memory");
    let compute = CARD.lines().find(|line| line.contains("compute")).expect("the card's units");
    let flat = format!(
        "Hardware(schema: 2, about: \"two bays\", tiers: [{hbm}{}], {nodes}{}{}], {links}{}{}], {routes}{}], {compute})",
        list(&tiers),
        list(&more_nodes),
        list(&own[0]),
        list(&more_links),
        list(&own[1]),
        list(&more_routes),
    );
    let composed = parts.read(&composed).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(composed, parts.read(&flat).unwrap_or_else(|problems| panic!("{problems}\n{flat}")));
    assert_eq!((composed.nodes.len(), composed.routes.len(), composed.links.len()), (3, 2, 6));
}

#[test]
fn parts_are_found_beside_the_machine_and_in_the_project() {
    let parts = Parts::new();
    let composed = parts.read(MACHINE).unwrap();
    let beside = parts.project.root.join("scenarios/my.ron");
    std::fs::write(&beside, MACHINE).unwrap();
    assert_eq!(Hardware { name: "m".into(), ..read_hardware(&beside).unwrap() }, composed);
    std::fs::create_dir_all(parts.project.root.join("scenarios/parts")).unwrap();
    parts.project.write("scenarios/parts/card.ron", CARD.replace("gb(80)", "gb(40)"));
    assert_eq!(
        read_hardware(&beside).unwrap().tiers[0].capacity,
        Bytes::new(40_000_000_000).into()
    );
}

#[test]
fn the_fingerprint_is_that_of_what_the_parts_mean() {
    let parts = Parts::new();
    parts.project.write("hardware-specs/m.ron", MACHINE);
    let text = edited("hardware: \"h100-sxm-pcie5\"", "hardware: \"m\"")
        .replace("\"dram\", \"nvme\"]", "\"dram\", \"nvme0\"]");
    let print = || fingerprint(&parts.project.read(&text).unwrap(), "trace");
    let first = print();
    parts.part("drive", format!("// Another comment.\n{DRIVE}"));
    assert_eq!(print(), first);
    parts.project.write("hardware-specs/m.ron", FLAT);
    assert_eq!(print(), first);
    parts.project.write("hardware-specs/m.ron", MACHINE);
    parts.part("drive", DRIVE.replacen("gb_per_s(7)", "gb_per_s(7.1)", 1));
    assert_ne!(print(), first);
}
