//! The workloads under policies, on the machine of the published runs, against the published
//! cycles.
//!
//! As there, the first iteration warms up and the second is measured.

use crate::g10::tables::{NETWORKS, Network, folder, read};
use tiersim_input::trace::{Packing, write_trace};
use tiersim_tests::files;
use tiersim_tests::prelude::*;

/// Cases by name and spelling: the policies of the published table that are here.
const CASES: [(&str, &str); 7] = [
    ("unified memory", "UnifiedMemory(fault: us(45), spill: [\"dram\", \"nvme\"])"),
    ("correlation prefetch", "CorrelationPrefetch(fault: us(45), spill: [\"dram\", \"nvme\"])"),
    ("lru", "Lru()"),
    ("g10-gds", "PlannedMigration(spill: [\"nvme\"])"),
    ("g10-host", "PlannedMigration(spill: [\"dram\"])"),
    ("g10", "PlannedMigration()"),
    ("clairvoyant", "ClairvoyantOffload()"),
];

/// Cycles of 1.2 GHz per iteration.
fn cycles(span: Span) -> f64 {
    span.ps() as f64 * 1.2e-3
}

/// `None` where it runs out of memory.
fn found<'r>(record: &'r RunRecord, case: &str) -> Option<&'r Figures> {
    let found = record.results.iter().find(|result| result.label == case).expect("the case ran");
    found.outcome.figures()
}

fn figures<'r>(record: &'r RunRecord, case: &str) -> &'r Figures {
    found(record, case).unwrap_or_else(|| panic!("{case} runs out of memory"))
}

fn of(record: &RunRecord, case: &str) -> f64 {
    cycles(figures(record, case).mean_step())
}

/// Runs every case on one network.
fn contest(folder: &Path, network: &Network) -> RunRecord {
    let trace = read(folder, network);
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("g10");
    write_trace(&trace, &place.join(network.name), Packing::Plain).expect("it can be written");
    let cases: String = CASES
        .iter()
        .map(|(name, policy)| format!("(name: \"{name}\", policy: {policy}),\n"))
        .collect();
    let scenario = format!(
        "Scenario(schema: 2, about: \"published workloads\", hardware: \"g10-a100\",\n\
         workload: Trace(path: \"{}\", time: recorded(scale: 1.0), repeat: 2, warmup: 1),\n\
         policies: [\n{cases}],\n)",
        network.name
    );
    let file = place.join(format!("{}.ron", network.name));
    fs::write(&file, scenario).expect("it can be written");
    let scenario = files::scenario(&file, &[]);
    let workload = Workload::new(trace);
    let record = run(&scenario, &workload, String::new(), Options::default(), || ());
    record.unwrap_or_else(|error| panic!("{error}"))
}

/// What the page about these runs says of every case, in the order of its tables: cycles and the
/// multiple of ideal.
fn page() -> Vec<String> {
    let page = files::page("docs/explanation/g10.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(")` | "));
    rows.map(str::to_owned).collect()
}

/// The end of the row of a case there.
fn row(spelling: &str, here: Option<f64>, ideal: f64) -> String {
    let spelling = spelling.replace("fault: us(45), ", "");
    let told = here.map_or("out of memory | - |".to_owned(), |here| {
        format!("{here:.0} | {:.4} |", here / ideal)
    });
    format!("`{spelling}` | {told}")
}

#[test]
fn the_order_of_policies_is_the_published_one_and_planned_migration_is_no_slower() {
    let Some(folder) = folder() else { return };
    let page = page();
    for network in &NETWORKS {
        let record = contest(&folder, network);
        let ideal = cycles(record.base().baseline.mean_step());
        assert!((ideal / network.ideal as f64 - 1.0).abs() < 1e-6, "{}: {ideal}", network.name);
        println!("{}, cycles per iteration and as a multiple of ideal", network.name);
        println!("| policy | published | | here | | fetched MiB |\n|---|---|---|---|---|---|");
        for (case, spelling) in CASES {
            let here = found(&record, case).map(|_| of(&record, case));
            let wanted = row(spelling, here, ideal);
            let (spelled, told) = wanted.split_once(" | ").expect("two parts");
            let said = |row: &&String| row.contains(spelled) && row.ends_with(told);
            assert!(
                page.iter().any(|row| said(&row)),
                "docs/explanation/g10.md, {}: {wanted}",
                network.name
            );
            let there = network.published.iter().find(|published| published.0 == case);
            let there = there.map(|&(_, cycles)| cycles as f64);
            let shown = there.map_or("- | -".into(), |c| format!("{c:.0} | {:.3}", c / ideal));
            let Some(figures) = found(&record, case) else {
                println!("| {case} | {shown} | out of memory | - | - |");
                assert_eq!((network.name, case), ("ResNet152_b1280", "g10-host"));
                continue;
            };
            let (here, moved) = (of(&record, case), figures.moved[0].get() >> 20);
            println!("| {case} | {shown} | {here:.0} | {:.3} | {moved} |", here / ideal);
        }
        let planned = of(&record, "g10");
        let (faulting, correlated) =
            (of(&record, "unified memory"), of(&record, "correlation prefetch"));
        assert!(faulting > correlated, "{}: {faulting} against {correlated}", network.name);
        assert!(correlated > planned, "{}: {correlated} against {planned}", network.name);
        assert!(planned >= ideal * (1.0 - 1e-9), "{}: {planned}", network.name);
        // The better of two plans: within 15 % of ideal, and no slower than what is published.
        let best = planned.min(of(&record, "clairvoyant"));
        let published = network.published.iter().find(|published| published.0 == "g10");
        let published = published.expect("it is published").1 as f64;
        assert!(best <= published.min(1.15 * ideal), "{}: {best}", network.name);
        for case in ["g10", "g10-host"] {
            let published = network.published.iter().find(|published| published.0 == case);
            let Some(published) = published.map(|&(_, cycles)| cycles as f64) else { continue };
            assert!(of(&record, case) <= 1.15 * published, "{}: {case}", network.name);
        }
    }
}

/// To the drive goes what HBM and the host's memory do not hold, and it comes back: beyond that no
/// more is written than may be on its way, one of the largest tensors.
#[test]
fn what_is_written_to_the_drive_is_read_back() {
    let Some(folder) = folder() else { return };
    let network = NETWORKS.iter().find(|network| network.name == "ResNet152_b1280");
    let network = network.expect("it is in the list");
    let largest = read(&folder, network).objects.iter().map(|object| object.bytes.get()).max();
    let record = contest(&folder, network);
    // From the host's memory to HBM and back, from the drive to the host's memory and back.
    let [_, _, back, written] = figures(&record, "clairvoyant").moved[..4] else {
        panic!("a machine of two links")
    };
    println!("to the drive {written}, back {back}");
    assert!(written.get() <= back.get() + largest.expect("it has tensors"), "{written}, {back}");
}
