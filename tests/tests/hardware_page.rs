//! Keeps the table of `docs/hardware.md` equal to the shipped machines.
//!
//! Rows are made from the facts of each spec, as written there, so a changed number, a new machine
//! or a source of another kind that the page does not show fails this suite.

use std::fs;
use std::path::PathBuf;
use tiersim_models::hardware::{Hardware, Source, TierKind};
use tiersim_sim::hardware_file::read_hardware;

fn value(machine: &Hardware, path: &str) -> String {
    let found = machine.facts.iter().find(|fact| fact.path == path);
    found.map_or("-".to_owned(), |fact| format!("`{}`", fact.value))
}

fn row(machine: &Hardware) -> String {
    let tier = |kind, field: &str| {
        let tier = machine.tiers.iter().find(|tier| tier.kind == kind);
        tier.map_or("-".to_owned(), |t| value(machine, &format!("tiers.{}.{field}", t.name)))
    };
    let link = machine.links.first().map_or(String::new(), |link| link.name.clone());
    let count = |wanted: fn(&Source) -> bool| {
        machine.facts.iter().filter(|fact| wanted(&fact.source)).count().to_string()
    };
    let cells = [
        format!("`{}`", machine.name),
        tier(TierKind::Hbm, "capacity"),
        tier(TierKind::Hbm, "bandwidth"),
        value(machine, &format!("links.{link}.fetch")),
        value(machine, &format!("links.{link}.evict")),
        tier(TierKind::Dram, "bandwidth"),
        tier(TierKind::Cxl, "bandwidth"),
        tier(TierKind::Nvme, "bandwidth"),
        count(|source| matches!(source, Source::Datasheet(_))),
        count(|source| matches!(source, Source::Measured(_))),
        count(|source| matches!(source, Source::Announced(_))),
        count(|source| matches!(source, Source::Assumed(_))),
    ];
    format!("| {} |", cells.join(" | "))
}

#[test]
fn the_table_shows_every_shipped_machine() {
    let root =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned();
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("hardware-specs"))
        .expect("the specs are there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let rows: Vec<String> = files
        .iter()
        .map(|file| row(&read_hardware(file).unwrap_or_else(|error| panic!("{error}"))))
        .collect();
    let page = fs::read_to_string(root.join("docs/hardware.md")).expect("the page is there");
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(shown, rows, "the table should be:\n{}", rows.join("\n"));
}
