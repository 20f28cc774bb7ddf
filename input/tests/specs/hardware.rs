//! Machines: what their files mean, and the shipped ones.

use crate::specs::project::{Project, assert_says, edited, shipped};
use std::path::Path;
use tiersim_input::hardware_file::{read_hardware, resolve_hardware};
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::text::ron_text::Document;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Capacity, Hardware, Law, Source, TierKind};
use tiersim_models::units::{Bandwidth, Bytes, FlopRate, Span};

pub(crate) const TWO: &str = r#"Hardware(
    schema: 2,
    about: "two tiers",
    tiers: [
        (name: "hbm", kind: hbm, capacity: (gb(80), datasheet("d")), setup: (ns(400), measured("m")), bandwidth: (gb_per_s(1750), measured("m"))),
        (name: "dram", kind: dram, setup: (us(1.09), assumed("a")), bandwidth: (gib_per_s(25), announced("n"))),
    ],
    links: [
        (name: "pcie", near: "hbm", far: "dram", setup: (us(3.4), measured("m")), read: (gb_per_s(26), measured("m")), write: (mb_per_s(25900), measured("m"))),
    ],
    compute: (name: "gpu", flops: [(precision: "bf16", rate: (tflops(271.2), measured("m")))], memory: (gb_per_s(1750), measured("m")), launch: (us(2.6), measured("m"))),
    chunk: mib(2),
)"#;

pub(crate) fn read(text: &str) -> Result<Hardware, Diagnostics> {
    resolve_hardware(&Document::from_text(Path::new("m.ron"), text.into())?, "m".into())
}

/// The machine that a text means.
pub(crate) fn good(text: &str) -> Hardware {
    read(text).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn shipped_hardware(name: &str) -> Hardware {
    read_hardware(&shipped().join(format!("{name}.ron"))).unwrap()
}

fn law(ps: u64, rate: u64) -> Law {
    Law { setup: Span::from_ps(ps), rate: Bandwidth::new(rate).unwrap() }
}

#[test]
fn a_machine_means_what_its_file_says() {
    let machine = read(TWO).unwrap();
    assert_eq!(machine.tiers[0].capacity, Bytes::new(80_000_000_000).into());
    assert_eq!(machine.tiers[0].access, law(400_000, 1_750_000_000_000));
    assert_eq!(machine.tiers[1].capacity, Capacity::Unlimited);
    assert_eq!(machine.tiers[1].access, law(1_090_000, 25 << 30));
    assert_eq!(machine.links[0].read, law(3_400_000, 26_000_000_000));
    assert_eq!(machine.links[0].write, law(3_400_000, 25_900_000_000));
    assert_eq!(machine.links.len(), 1);
    let compute = machine.compute.unwrap();
    assert_eq!(compute.flops, [("bf16".to_string(), FlopRate::new(271_200_000_000_000).unwrap())]);
    assert_eq!(machine.chunk, Bytes::mib(2));
    let facts: Vec<&str> = machine.facts.iter().map(|fact| fact.path.as_str()).collect();
    assert_eq!(
        facts,
        [
            "tiers.hbm.capacity",
            "tiers.hbm.setup",
            "tiers.hbm.bandwidth",
            "tiers.dram.setup",
            "tiers.dram.bandwidth",
            "links.pcie.setup",
            "links.pcie.read",
            "links.pcie.write",
            "compute.flops.bf16",
            "compute.memory",
            "compute.launch",
        ]
    );
    assert_eq!(machine.facts[3].value, "us(1.09)");
    assert_eq!(machine.facts[3].source, Source::Assumed("a".into()));
}

#[test]
fn tiers_without_a_link_are_joined() {
    let tier = |name: &str| {
        format!(
            "(name: \"{name}\", kind: cxl, setup: (us(2), assumed(\"a\")), bandwidth: (gb_per_s(4), assumed(\"a\"))),"
        )
    };
    let more = |tiers: &str, links: &str| {
        TWO.replace("    ],\n    links", &format!("{tiers}],\n    links"))
            .replace("    ],\n    compute", &format!("{links}],\n    compute"))
    };
    let machine = read(&more(&tier("far"), "")).unwrap();
    assert_eq!(machine.links[1].name, "far");
    assert_eq!(machine.links[1].read, law(2_000_000, 4_000_000_000));
    assert_eq!(machine.links[1].read, machine.links[1].write);
}

#[test]
fn all_problems_of_a_machine_are_reported_at_once() {
    let text = TWO
        .replace("ns(400)", "ns(-400)")
        .replace("gb(80)", "80")
        .replace("(us(1.09), assumed(\"a\"))", "us(1)")
        .replace("far: \"dram\"", "far: \"d\"")
        .replace("tflops(271.2)", "tflops(NaN)")
        .replace("about:", "colour: \"red\", about:");
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.0.len(), 6, "{problems}");
}

#[test]
fn every_shipped_machine_reads_and_says_where_its_numbers_come_from() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(shipped()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Measured specs of whoever runs this.
            continue;
        }
        let machine = read_hardware(&path).unwrap_or_else(|e| panic!("{e}"));
        assert!(machine.facts.len() >= 8, "{}", machine.name);
        assert_eq!(machine.tiers[0].kind, TierKind::Hbm);
        names.push(machine.name);
    }
    assert_eq!(names.len(), 63, "docs/reference/machines.md lists them");
}

#[test]
fn the_seed_tiers_are_exact_to_the_picosecond() {
    let machine = read_hardware(&shipped().join("seed-tiers.ron")).unwrap();
    assert!(machine.compute.is_none());
    let bytes = 64u64 << 20;
    for (name, kind, setup_us, gb_per_s) in [
        ("hbm", TierKind::Hbm, 1, 800),
        ("cpu", TierKind::Dram, 5, 150),
        ("ssd", TierKind::Nvme, 30, 10),
        ("cxl", TierKind::Cxl, 2, 400),
    ] {
        let id = machine.tier(name).unwrap();
        let tier = &machine.tiers[id.index()];
        assert_eq!((tier.kind, tier.capacity), (kind, Capacity::Unlimited));
        // bytes / (GB/s) is nanoseconds, so times 1000 is picoseconds.
        let expected = setup_us * 1_000_000 + (bytes * 1000).div_ceil(gb_per_s);
        assert_eq!(tier.access.span_of(Bytes::new(bytes)), Span::from_ps(expected), "{name}");
        if id.index() > 0 {
            let link = machine.links.iter().find(|link| link.far == id.into()).unwrap();
            assert_eq!((link.read, link.write), (tier.access, tier.access));
            assert_eq!(link.near.index(), 0);
        }
    }
    let cpu = &machine.tiers[machine.tier("cpu").unwrap().index()];
    assert_eq!(cpu.access.span_of(Bytes::new(bytes)), Span::from_ps(452_392_427));
}

#[test]
fn a_machine_in_a_folder_of_the_specs_is_named_with_it() {
    let project = Project::new();
    std::fs::create_dir_all(project.root.join("hardware-specs/measured")).unwrap();
    let shipped = project.root.join("hardware-specs/h100-sxm-pcie5.ron");
    std::fs::copy(shipped, project.root.join("hardware-specs/measured/mine.ron")).unwrap();
    let named =
        |name: &str| edited("hardware: \"h100-sxm-pcie5\"", &format!("hardware: \"{name}\""));
    let written = project.read(&named("measured/mine")).unwrap();
    assert_eq!(written.hardware.name, "mine");
    let set = [("hardware".to_owned(), "\"measured/mine\"".to_owned())];
    let set = read_scenario(&project.scenario(&named("h100-sxm-pcie5")), &set).unwrap();
    assert_eq!(set.hardware, written.hardware);
    for wrong in ["measured/none", "measured/", "/measured/mine", "measured/../measured/mine", ""] {
        let problems = project.read(&named(wrong)).unwrap_err();
        assert_says(&problems, &["no machine of this name is in `hardware-specs`"]);
    }
    assert_says(&project.read(&named("measured/mind")).unwrap_err(), &["measured/mine"]);
}

#[test]
fn a_link_may_have_a_setup_of_its_own_for_each_direction() {
    let own = TWO.replace("write:", "write_setup: (us(9), measured(\"m\")), write:");
    let machine = read(&own).unwrap();
    assert_eq!(machine.links[0].read, law(3_400_000, 26_000_000_000));
    assert_eq!(machine.links[0].write, law(9_000_000, 25_900_000_000));
    assert!(machine.facts.iter().any(|fact| fact.path == "links.pcie.write_setup"));
}
