//! Machines: the shipped ones, and one case per rule.

use crate::specs::project::{Project, assert_says, edited, shipped};
use std::path::Path;
use tiersim_input::hardware_file::{read_hardware, resolve_hardware};
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::text::ron_text::Document;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::{Hardware, Law, Source, TierKind};
use tiersim_models::units::{Bytes, Rate, Span};

pub(crate) const TWO: &str = r#"Hardware(
    schema: 1,
    about: "two tiers",
    tiers: [
        (name: "hbm", kind: hbm, capacity: (gb(80), datasheet("d")), setup: (ns(400), measured("m")), bandwidth: (gb_per_s(1750), measured("m"))),
        (name: "dram", kind: dram, setup: (us(1.09), assumed("a")), bandwidth: (gib_per_s(25), announced("n"))),
    ],
    links: [
        (name: "pcie", near: "hbm", far: "dram", setup: (us(3.4), measured("m")), fetch: (gb_per_s(26), measured("m")), evict: (mb_per_s(25900), measured("m"))),
    ],
    compute: (name: "gpu", flops: [(precision: "bf16", rate: (tflops(271.2), measured("m")))], memory: (gb_per_s(1750), measured("m")), launch: (us(2.6), measured("m"))),
    chunk: mib(2),
)"#;

pub(crate) fn read(text: &str) -> Result<Hardware, Diagnostics> {
    resolve_hardware(&Document::from_text(Path::new("m.ron"), text.into())?, "m".into())
}

pub(crate) fn shipped_hardware(name: &str) -> Hardware {
    read_hardware(&shipped().join(format!("{name}.ron"))).unwrap()
}

fn check(from: &str, to: &str, expected: &[&str]) {
    assert!(TWO.contains(from), "{from}");
    assert_says(&read(&TWO.replacen(from, to, 1)).unwrap_err(), expected);
}

fn law(ps: u64, rate: u64) -> Law {
    Law { setup: Span::from_ps(ps), rate: Rate::new(rate).unwrap() }
}

#[test]
fn a_machine_means_what_its_file_says() {
    let machine = read(TWO).unwrap();
    assert_eq!(machine.tiers[0].capacity, Bytes::new(80_000_000_000));
    assert_eq!(machine.tiers[0].access, law(400_000, 1_750_000_000_000));
    assert_eq!(machine.tiers[1].capacity, Bytes::MAX);
    assert_eq!(machine.tiers[1].access, law(1_090_000, 25 << 30));
    assert_eq!(machine.links[0].fetch, law(3_400_000, 26_000_000_000));
    assert_eq!(machine.links[0].evict, law(3_400_000, 25_900_000_000));
    assert_eq!(machine.links.len(), 1);
    let compute = machine.compute.unwrap();
    assert_eq!(compute.flops, [("bf16".to_string(), Rate::new(271_200_000_000_000).unwrap())]);
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
            "links.pcie.fetch",
            "links.pcie.evict",
            "compute.flops.bf16",
            "compute.memory",
            "compute.launch",
        ]
    );
    assert_eq!(machine.facts[3].value, "us(1.09)");
    assert_eq!(machine.facts[3].source, Source::Assumed("a".into()));
}

#[test]
fn rules_on_tiers() {
    check("schema: 1", "schema: 7", &["m.ron:2:13: unknown schema"]);
    check("\"two tiers\"", "\"\"", &["`about` may not be empty"]);
    check("kind: hbm", "kind: cxl", &["5:29: the first tier must be of kind hbm (found `cxl`)"]);
    check("kind: dram", "kind: ram", &["`ram` is not a tier kind", "did you mean `dram`?"]);
    check(
        "name: \"dram\"",
        "name: \"hbm\"",
        &["two tiers have the same name (the other in line 5)"],
    );
    check("name: \"dram\"", "name: \"D RAM\"", &["1 to 40 of a-z, 0-9 and `-`"]);
    check("gb(80)", "gb(0)", &["5:45: a size must lie between 1 B and 1 EiB"]);
    check("gb(80)", "tib(2000000)", &["a size must lie"]);
    check("ns(400)", "s(11)", &["a time must lie between 0 and 10 s"]);
    check("gb_per_s(1750)", "gb_per_s(0)", &["a rate must lie between 10^6 and 10^18 per second"]);
    check("gb_per_s(1750)", "gb_per_s(inf)", &["a rate must be a finite number"]);
    check("(ns(400), measured(\"m\"))", "ns(400)", &["a time of a hardware file needs its source"]);
    check("(ns(400), measured(\"m\"))", "400", &["a time of a hardware file needs its source"]);
    check("(ns(400), measured(\"m\"))", "(ns(400))", &["needs its source"]);
    check("ns(400)", "400", &["a time needs its unit (found `400`); write us(5) or ns(350)"]);
    check("ns(400)", "gb(400)", &["`gb` is not a unit of a time"]);
    check("announced(\"n\")", "announced(\" \")", &["6:96: a source may not be empty"]);
    check("announced(\"n\")", "guessed(\"n\")", &["`guessed` is not a source", "known: datasheet"]);
    let tier = "(name: \"x\", kind: cxl, setup: (us(1), assumed(\"a\")), bandwidth: (gb_per_s(1), assumed(\"a\"))),";
    check(
        "    ],\n    links",
        &format!("{}],\n    links", tier.repeat(7)),
        &["at most 8 tiers are allowed (found 9)"],
    );
    let start = TWO.find("tiers: [").unwrap();
    let end = TWO.find("    links").unwrap();
    let none = format!("{}tiers: [],\n{}", &TWO[..start], &TWO[end..]);
    assert_says(&read(&none).unwrap_err(), &["a machine has at least one tier"]);
}

#[test]
fn rules_on_links_and_compute() {
    check(
        "far: \"dram\"",
        "far: \"dra\"",
        &["9:42: no tier has this name", "did you mean `dram`?"],
    );
    check("far: \"dram\"", "far: \"hbm\"", &["a link joins two tiers"]);
    let link = &TWO
        [TWO.find("        (name: \"pcie\"").unwrap()..TWO.find("    ],\n    compute").unwrap()];
    let twice = format!("{link}{}", link.replace("pcie", "bus"));
    check(link, &twice, &["links `pcie` and `bus` join the same tiers"]);
    check(link, &format!("{link}{link}"), &["two links have the same name"]);
    check("mib(2)", "kib(3)", &["a size must lie between 4 KiB and 16 GiB"]);
    check("mib(2)", "2", &["12:12: a size needs its unit"]);
    check("name: \"gpu\"", "name: \"\"", &["a device has a name"]);
    let peak = "(precision: \"bf16\", rate: (tflops(271.2), measured(\"m\")))";
    check(peak, &format!("{peak}, {peak}"), &["`bf16` is given twice"]);
    check("tflops(271.2)", "tflops(0)", &["a FLOP rate must lie"]);
    check("tflops(271.2)", "271.2", &["a FLOP rate needs its unit", "write tflops(156)"]);
}

#[test]
fn tiers_without_a_link_are_joined_and_islands_are_refused() {
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
    assert_eq!(machine.links[1].fetch, law(2_000_000, 4_000_000_000));
    assert_eq!(machine.links[1].fetch, machine.links[1].evict);
    let link = "(name: \"x\", near: \"a\", far: \"b\", setup: (us(1), assumed(\"a\")), fetch: (gb_per_s(1), assumed(\"a\")), evict: (gb_per_s(1), assumed(\"a\"))),";
    let island = read(&more(&(tier("a") + &tier("b")), link)).unwrap_err();
    assert_says(&island, &["no links lead from tier `a` to the first tier"]);
    let taken = read(&more(&tier("pcie"), "")).unwrap_err();
    assert_says(&taken, &["tier `pcie` gets a link of its own name, which is taken"]);
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
    names.sort();
    let shipped = [
        "a100-40g-pcie4",
        "a100-80g-pcie4",
        "a100-ddr4-dual-socket",
        "b200",
        "cxl2-pooled-4-hosts",
        "cxl2-switched-220ns",
        "cxl2-switched-750ns",
        "cxl2-x16-direct",
        "cxl2-x8-direct",
        "cxl3-x16-direct",
        "dgx-a100-80g",
        "dgx-h100",
        "dgx-h200",
        "g10-a100",
        "gb200",
        "gb300",
        "gh200",
        "gh200-pair",
        "h100-dual-socket",
        "h100-dual-socket-busy",
        "h100-nvlink4-peer",
        "h100-pcie",
        "h100-pcie-ddr5-dual-socket",
        "h100-pcie5-shared",
        "h100-sxm-pcie5",
        "h200-sxm-pcie5",
        "host-layered",
        "host-smoke",
        "mi300x",
        "mi325x",
        "mi355x",
        "nvme-4x-gen4-bounce",
        "nvme-4x-gen4-gds",
        "nvme-4x-gen5-bounce",
        "nvme-4x-gen5-gds",
        "nvme-8x-gen5-bounce",
        "nvme-8x-gen5-gds",
        "nvme-gen3",
        "nvme-gen4",
        "nvme-gen5",
        "rtx-3090",
        "rtx-4090",
        "rubin-hbf",
        "rubin-hbm4",
        "rubin-nvlink6-peer",
        "rubin-pcie7-cxl4",
        "seed-tiers",
        "t4",
        "t4-flexgen",
        "v100-32g-dgx2",
        "v100-32g-pcie3",
        "w7900",
    ];
    assert_eq!(names, shipped);
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
        assert_eq!((tier.kind, tier.capacity), (kind, Bytes::MAX));
        // bytes / (GB/s) is nanoseconds, so times 1000 is picoseconds.
        let expected = setup_us * 1_000_000 + (bytes * 1000).div_ceil(gb_per_s);
        assert_eq!(tier.access.span_of(Bytes::new(bytes)), Span::from_ps(expected), "{name}");
        if id.index() > 0 {
            let link = machine.links.iter().find(|link| link.far == id.into()).unwrap();
            assert_eq!((link.fetch, link.evict), (tier.access, tier.access));
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
    let own = TWO.replace("evict:", "evict_setup: (us(9), measured(\"m\")), evict:");
    let machine = read(&own).unwrap();
    assert_eq!(machine.links[0].fetch, law(3_400_000, 26_000_000_000));
    assert_eq!(machine.links[0].evict, law(9_000_000, 25_900_000_000));
    assert!(machine.facts.iter().any(|fact| fact.path == "links.pcie.evict_setup"));
}
