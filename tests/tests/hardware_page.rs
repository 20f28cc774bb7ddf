//! Keeps the table of `docs/reference/machines.md` equal to the shipped machines.
//!
//! Rows are made from the facts of each spec, as written there, so a changed number, a new machine
//! or a source of another kind that the page does not show fails this suite.

use tiersim_models::hardware::Source;
use tiersim_tests::files::{assert_rows, machine, machines};
use tiersim_tests::prelude::*;

fn value(machine: &Hardware, path: &str) -> String {
    let found = machine.facts.iter().find(|fact| fact.path == path);
    found.map_or("-".to_owned(), |fact| format!("`{}`", fact.value))
}

fn row(machine: &Hardware) -> String {
    let tier = |kind, field: &str| {
        let tier = machine.tiers.iter().find(|tier| tier.kind == kind);
        tier.map_or("-".to_owned(), |t| value(machine, &format!("tiers.{}.{field}", t.name)))
    };
    let link = host_link(machine).unwrap_or_default();
    let count = |wanted: fn(&Source) -> bool| {
        machine.facts.iter().filter(|fact| wanted(&fact.source)).count().to_string()
    };
    let cells = [
        format!("`{}`", machine.name),
        tier(TierKind::Hbm, "capacity"),
        tier(TierKind::Hbm, "bandwidth"),
        if link.is_empty() { "-".to_owned() } else { format!("`{link}`") },
        value(machine, &format!("links.{link}.read")),
        value(machine, &format!("links.{link}.write")),
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

/// The link by which copies from the host's memory enter the device. The order of a file says
/// nothing of it: a machine of parts may name the bus of its drives first.
fn host_link(machine: &Hardware) -> Option<String> {
    let of = |kind| machine.tier_ids().find(|tier| machine.tiers[tier.index()].kind == kind);
    let host = of(TierKind::Dram).or_else(|| of(TierKind::Cxl))?;
    let routes = machine.routes().ok()?;
    let last = routes.between(host, HBM).last()?;
    Some(machine.links[last.link.index()].name.clone())
}

#[test]
fn the_link_to_the_host_is_the_one_that_enters_the_device() {
    for (name, link) in [
        ("gh200", "c2c"),
        ("gb300", "c2c"),
        ("cxl2-pooled-4-hosts", "pcie"),
        ("cxl3-x16-direct", "pcie"),
    ] {
        assert_eq!(host_link(&machine(name)).as_deref(), Some(link), "{name}");
    }
}

#[test]
fn the_table_shows_every_shipped_machine() {
    let rows: Vec<String> = machines().iter().map(row).collect();
    assert_rows("docs/reference/machines.md", |line| line.starts_with("| `"), &rows);
}
