//! Energy of a step and cost of a machine: a world worked out by hand, what must follow when one
//! number changes, and a run whose traffic is counted a second time from its trace.

use serde_json::Value;
use tiersim_input::hardware_file::resolve_hardware;
use tiersim_input::text::ron_text::Document;
use tiersim_models::energy::Confidence;
use tiersim_models::results::economics::{CaseEconomics, Contribution};
use tiersim_reports::{Detail, results_csv, summary_json, text};
use tiersim_tests::files::{record, shipped_scenario, traces};
use tiersim_tests::prelude::*;

const MACHINE: &str = r#"Hardware(
    schema: 2,
    about: "numbers that are easy to add up",
    tiers: [
        (name: "hbm", kind: hbm, capacity: (gib(4), assumed("t")), setup: (us(1), assumed("t")), bandwidth: (gb_per_s(1), assumed("t")),
            energy: (pj_per_bit(4), datasheet("t")), idle: (watts(1), datasheet("t")), price: (usd_per_gib(20), measured("t"))),
        (name: "dram", kind: dram, capacity: (gib(16), assumed("t")), setup: (us(1), assumed("t")), bandwidth: (gb_per_s(1), assumed("t")),
            energy: (pj_per_bit(20), datasheet("t")), write_energy: (pj_per_bit(30), datasheet("t")),
            idle: (watts_per_gib(0.5), datasheet("t")), price: (usd_per_gib(5), measured("t"))),
    ],
    links: [
        (name: "pcie", near: "hbm", far: "dram", setup: (us(1), assumed("t")), read: (gb_per_s(1), assumed("t")), write: (gb_per_s(1), assumed("t")),
            energy: (pj_per_bit(6), announced("t"))),
    ],
    compute: (name: "gpu", flops: [], memory: (gb_per_s(1), assumed("t")), launch: (us(1), assumed("t")),
        idle: (watts(50), datasheet("t")), active: (watts(250), datasheet("t")), price: (usd(1000), datasheet("t"))),
    host: (power: (watts(100), datasheet("t")), price: (usd(500), datasheet("t"))),
)"#;

fn machine(text: &str) -> Hardware {
    let document = Document::from_text(Path::new("m.ron"), text.to_owned());
    let read = document.and_then(|document| resolve_hardware(&document, "m".to_owned()));
    read.unwrap_or_else(|problems| panic!("{problems}"))
}

/// Two steps of 3 us, ops during 4 us of them.
fn figures() -> Figures {
    Figures {
        steps: [Span::from_us(3); 2].into_iter().collect(),
        moved: vec![Bytes::new(1000), Bytes::new(100)],
        read: vec![5000, 70],
        written: vec![3000, 10],
        active: Span::from_us(4),
        ..Figures::default()
    }
}

/// A case with 2 GiB of HBM.
fn case(text: &str) -> CaseEconomics {
    let capacities = Memory::of([Bytes::gib(2), Bytes::gib(16)]);
    CaseEconomics::of(&machine(text), &capacities, Some(&figures()))
}

fn amounts(parts: &[Contribution]) -> Vec<(&str, u128)> {
    parts.iter().map(|part| (part.name.as_str(), part.amount)).collect()
}

const PS_UW: u128 = 1_000_000 * 1_000_000;

#[test]
fn every_part_is_what_the_formula_says() {
    let found = case(MACHINE);
    let energy = found.energy.as_ref().expect("it ran");
    // Attojoules: watts x microseconds are 10^12, bytes x 8 x pJ are 10^6. Copies read 1000 B from
    // DRAM and write them to HBM, and 100 B the other way.
    let pj: u128 = 8 * 1_000_000;
    let expected = [
        ("compute.idle", 50 * 6 * PS_UW),
        ("compute.active", 200 * 4 * PS_UW),
        ("host.power", 100 * 6 * PS_UW),
        ("tiers.hbm.idle", 6 * PS_UW),
        ("tiers.hbm.energy", (5000 + 100 + 3000 + 1000) * 4 * pj),
        ("tiers.dram.idle", 8 * 6 * PS_UW),
        ("tiers.dram.energy", ((70 + 1000) * 20 + (10 + 100) * 30) * pj),
        ("links.pcie.energy", 1100 * 6 * pj),
    ];
    assert_eq!(amounts(&energy.parts), expected);
    let total: u128 = expected.iter().map(|(_, amount)| amount).sum();
    assert_eq!(energy.total(), Some(total));
    // 1754 W us and some microjoules over two steps.
    assert_eq!(found.joules(), Some(total as f64 / 1e18 / 2.0));
    assert_eq!((energy.basis.confidence, energy.basis.assumed), (Some(Confidence::Announced), 0));
    let dollars = |usd: u128| usd * 1_000_000_000;
    let expected = [
        ("compute.price", dollars(1000)),
        ("host.price", dollars(500)),
        ("tiers.hbm.price", dollars(2 * 20)),
        ("tiers.dram.price", dollars(16 * 5)),
    ];
    assert_eq!(amounts(&found.cost.parts), expected);
    assert_eq!(
        (found.dollars(), found.cost.basis.confidence),
        (Some(1620.0), Some(Confidence::Datasheet))
    );
}

/// Every number of [`MACHINE`]: as written, twice that, and the part that doubles with it.
const NUMBERS: [(&str, &str, &str); 8] = [
    ("pj_per_bit(4)", "pj_per_bit(8)", "tiers.hbm.energy"),
    ("(watts(1),", "(watts(2),", "tiers.hbm.idle"),
    ("watts_per_gib(0.5)", "watts_per_gib(1)", "tiers.dram.idle"),
    ("pj_per_bit(6)", "pj_per_bit(12)", "links.pcie.energy"),
    ("watts(100)", "watts(200)", "host.power"),
    ("usd(1000)", "usd(2000)", "compute.price"),
    ("usd(500)", "usd(1000)", "host.price"),
    ("usd_per_gib(5)", "usd_per_gib(10)", "tiers.dram.price"),
];

#[test]
fn twice_the_number_is_twice_its_part_and_no_other() {
    let all = |case: &CaseEconomics| -> Vec<Contribution> {
        let energy = case.energy.as_ref().expect("it ran");
        energy.parts.iter().chain(&case.cost.parts).cloned().collect()
    };
    let before = all(&case(MACHINE));
    for (from, to, name) in NUMBERS {
        assert_eq!(MACHINE.matches(from).count(), 1, "{from}");
        let after = all(&case(&MACHINE.replace(from, to)));
        for (before, after) in before.iter().zip(&after) {
            let factor = if *before.name == name { 2 } else { 1 };
            assert_eq!(after.amount, before.amount * factor, "{}: {from}", before.name);
        }
    }
}

#[test]
fn a_missing_number_leaves_no_sum_and_is_named() {
    for (field, name) in [
        ("energy: (pj_per_bit(4), datasheet(\"t\")), ", "tiers.hbm.energy"),
        ("idle: (watts(1), datasheet(\"t\")), ", "tiers.hbm.idle"),
        ("idle: (watts_per_gib(0.5), datasheet(\"t\")), ", "tiers.dram.idle"),
        ("energy: (pj_per_bit(6), announced(\"t\"))", "links.pcie.energy"),
        ("idle: (watts(50), datasheet(\"t\")), ", "compute.idle"),
        ("active: (watts(250), datasheet(\"t\")), ", "compute.active"),
        ("power: (watts(100), datasheet(\"t\")), ", "host.power"),
    ] {
        assert_eq!(MACHINE.matches(field).count(), 1, "{field}");
        let found = case(&MACHINE.replace(field, ""));
        let energy = found.energy.as_ref().expect("it ran");
        assert_eq!(
            (found.joules(), energy.basis.missing.as_slice()),
            (None, &[name.to_owned()][..])
        );
        assert!(energy.parts.iter().all(|part| *part.name != name));
        assert!(found.dollars().is_some(), "the price rests on other numbers");
    }
    for (field, name) in [
        (", price: (usd(1000), datasheet(\"t\"))", "compute.price"),
        (", price: (usd(500), datasheet(\"t\"))", "host.price"),
        (", price: (usd_per_gib(20), measured(\"t\"))", "tiers.hbm.price"),
    ] {
        let found = case(&MACHINE.replace(field, ""));
        assert_eq!(found.cost.basis.missing, [name], "{field}");
        assert!(found.dollars().is_none() && found.joules().is_some());
    }
}

#[test]
fn what_is_included_elsewhere_is_shown_and_not_added() {
    let plain = case(MACHINE);
    let text =
        MACHINE.replace("price: (usd_per_gib(20), measured(\"t\"))", "included: [power, price]");
    let found = case(&text);
    let energy = found.energy.as_ref().expect("it ran");
    let names: Vec<&str> = energy.within.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["tiers.hbm.idle", "tiers.hbm.energy"]);
    let within: u128 = energy.within.iter().map(|part| part.amount).sum();
    let all = plain.energy.as_ref().and_then(|energy| energy.total()).expect("all is known");
    assert_eq!(energy.total(), Some(all - within));
    assert_eq!(found.dollars(), Some(1580.0));
    let bare = text.replace(
        "energy: (pj_per_bit(4), datasheet(\"t\")), idle: (watts(1), datasheet(\"t\")), ",
        "",
    );
    assert_eq!(case(&bare).joules(), found.joules(), "nothing of it is needed");
}

#[test]
fn nobody_prices_what_has_no_limit() {
    let text = MACHINE.replace("capacity: (gib(16), assumed(\"t\")), ", "");
    let capacities = Memory::of([Bytes::gib(2).into(), Capacity::Unlimited]);
    let found = CaseEconomics::of(&machine(&text), &capacities, Some(&figures()));
    assert_eq!(found.cost.unlimited, ["dram"]);
    assert_eq!(found.dollars(), Some(1540.0));
    let missing = found.energy.expect("it ran").basis.own().missing;
    assert_eq!(missing, ["tiers.dram.idle"], "its power goes by a capacity that it has not");
}

fn recorded(scenario: &str) -> (RunRecord, [u128; 2]) {
    let scenario = shipped_scenario(scenario, &[]);
    let traces = traces(&scenario);
    let workload = traces.of(&scenario);
    let spec = &scenario.workload;
    let replays = u128::from(spec.repeat - spec.warmup);
    let sum = |wanted: fn(&tiersim_models::workload::Use) -> bool| -> u128 {
        let uses = workload.trace.uses.iter().filter(|used| wanted(used));
        uses.map(|used| u128::from(workload.trace.objects[used.object.index()].bytes.get())).sum()
    };
    let [read, written] = [sum(|used| used.mode.reads()), sum(|used| used.mode.writes())];
    (record(&scenario, Options::default()), [read * replays, written * replays])
}

#[test]
fn a_run_reads_and_writes_what_its_trace_says_and_parts_add_up() {
    let (record, [read, written]) = recorded("gpt2-lru-budgets");
    let summary = summary_json(&record, "0").expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let mut done = 0;
    for (case, result) in record.results.iter().zip(summary["results"].as_array().expect("a list"))
    {
        let Some(figures) = case.outcome.figures() else { continue };
        assert_eq!(figures.read.iter().sum::<u128>(), read, "{}", case.label);
        assert_eq!(figures.written.iter().sum::<u128>(), written, "{}", case.label);
        let time: Span = figures.steps.iter().sum();
        assert!(figures.active <= time, "{}", case.label);
        // One stream: ops run one after the other, and nothing is used in place.
        assert_eq!(figures.active, figures.compute, "{}", case.label);
        for (sum, parts) in [("energy_j", "energy"), ("cost_usd", "cost")] {
            let parts = result[parts]["parts"].as_object().expect("parts");
            let parts: f64 = parts.values().filter_map(Value::as_f64).sum();
            let sum = result[sum].as_f64().expect("all numbers are known");
            assert!((parts / sum - 1.0).abs() < 1e-12, "{parts} is not {sum}");
        }
        done += 1;
    }
    assert_eq!(done, 4);
    let table = text(&record, "0", Detail::Wide);
    for line in ["energy    rests on ", "cost      rests on ", "J/step"] {
        assert!(table.contains(line), "{line}:\n{table}");
    }
    let csv = String::from_utf8(results_csv(&record).expect("a table")).expect("UTF-8");
    assert!(csv.lines().nth(1).is_some_and(|row| row.contains(",assumed,")), "{csv}");
}

#[test]
fn a_machine_without_such_numbers_has_nulls_and_says_what_is_missing() {
    let (record, _) = recorded("seed-two-spellings");
    let summary = summary_json(&record, "0").expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    for result in summary["results"].as_array().expect("a list") {
        assert!(result["energy_j"].is_null() && result["cost_usd"].is_null());
        let missing = result["cost"]["missing"].as_array().expect("a list");
        assert!(missing.contains(&Value::from("host.price")), "{missing:?}");
    }
    assert!(!text(&record, "0", Detail::Wide).contains("J/step"));
}
