//! What the shipped machines promise beyond being readable: that none warns without a reason on the
//! page, and that sets of drives reach in a run what was measured of them.
//!
//! The expected rates are the published ones of a whole set, and not what the files say of a drive.

use tiersim_models::lint::lint_hardware;
use tiersim_tests::files::{machine, machines, section};
use tiersim_tests::prelude::*;

const GB: u64 = 1_000_000_000;

#[test]
fn the_page_lists_exactly_the_machines_that_warn() {
    let mut warn = Vec::new();
    for machine in machines() {
        let rules = lint_hardware(&machine).into_iter().map(|warning| warning.rule);
        warn.extend(rules.map(|rule| format!("| `{}` | `{rule}` |", machine.name)));
    }
    warn.dedup();
    let listed = section("docs/reference/lint.md", "Shipped machines that warn");
    let rows: Vec<&str> = listed.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), warn.len(), "listed {rows:?}, found {warn:?}");
    for (row, found) in rows.iter().zip(&warn) {
        let reason = row.strip_prefix(found.as_str()).unwrap_or_else(|| panic!("{row}: {found}"));
        assert!(reason.trim_matches(['|', ' ']).len() > 10, "{row} gives no reason");
    }
}

/// When one object of `bytes` that starts in `from` has come to HBM.
fn fetched(hardware: Hardware, bytes: u64, from: TierId) -> Span {
    let mut traced = Traced::new();
    let object = traced.object(bytes, true);
    traced.op(0, 0, Span::ZERO, &[(object, Mode::Read)]);
    let world = World::of(hardware, traced.0, vec![Span::ZERO]);
    let ends = world.scripted(vec![from], vec![vec![fetch(object)]]);
    Span::from_ps(ends[0])
}

#[test]
fn sets_of_drives_reach_what_was_measured_with_and_without_direct_storage() {
    // The last chunk of a bounce is still on its way up when the drives are done: up to 3 %.
    for (name, rate) in [
        ("nvme-4x-gen4-gds", 9.6),
        ("nvme-4x-gen4-bounce", 7.0),
        ("nvme-4x-gen5-gds", 26.5),
        ("nvme-4x-gen5-bounce", 23.0),
        ("nvme-8x-gen5-gds", 48.0),
        ("nvme-8x-gen5-bounce", 46.0),
    ] {
        let machine = machine(name);
        let nvme = machine.tiers.iter().position(|tier| tier.kind == TierKind::Nvme);
        let span = fetched(machine, GB, TierId::at(nvme.expect("it has drives")));
        let reached = GB as f64 * 1e3 / span.ps() as f64;
        assert!((reached / rate - 1.0).abs() < 0.04, "{name}: {reached} GB/s, measured {rate}");
    }
}

#[test]
fn a_copy_of_each_size_to_a_v100_takes_what_was_measured() {
    // Fixed cost plus bytes, in microseconds, as derived from the published rates.
    for (bytes, gb_per_s) in [(1 << 10, 0.03), (64 << 10, 1.77), (1 << 20, 9.25), (16 << 20, 12.11)]
    {
        let machine = machine("v100-32g-pcie3");
        let span = fetched(machine, bytes, TierId::at(1));
        let expected = bytes as f64 * 1e3 / gb_per_s;
        assert!((span.ps() as f64 / expected - 1.0).abs() < 1e-6, "{bytes} bytes: {span:?}");
    }
}

#[test]
fn one_set_up_explains_the_copies_that_were_measured_on_an_h100_and_an_rtx_4090() {
    let h100 = [(8, 2.3), (64, 14.5), (256, 31.8), (1024, 44.4), (4096, 49.8), (16384, 51.2)];
    let rtx = [(1024, 22.51), (4096, 23.57), (16384, 23.85)];
    for (name, sizes) in [("h100-sxm-pcie5", h100.as_slice()), ("rtx-4090", rtx.as_slice())] {
        for &(kib, gb_per_s) in sizes {
            let span = fetched(machine(name), kib << 10, TierId::at(1));
            let reached = (kib << 10) as f64 * 1e3 / span.ps() as f64;
            let error = (reached / gb_per_s - 1.0).abs();
            assert!(error < 0.1, "{name}, {kib} KiB: {reached} GB/s, measured {gb_per_s}");
        }
    }
}
