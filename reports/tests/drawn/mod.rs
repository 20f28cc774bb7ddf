//! Drawings of machines of any shape: nothing overlaps, everything is inside and named.

use super::drawing;
use crate::canvas::{Item, Rect};
use crate::render::Chart;
use std::path::PathBuf;
use tiersim_input::hardware_file::{read_hardware, resolve_hardware};
use tiersim_input::text::ron_text::Document;
use tiersim_models::hardware::Hardware;

/// Every shipped machine, and one with loops, links within a column and many peers.
fn machines() -> Vec<Hardware> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../hardware-specs");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the specs are there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| read_hardware(path).unwrap_or_else(|error| panic!("{error}"));
    let mut machines: Vec<Hardware> = paths.iter().map(read).collect();
    assert!(machines.len() > 20, "the specs are found");
    machines.push(board());
    machines
}

/// Two sockets, eight devices, a pool: what a drawing has to cope with.
fn board() -> Hardware {
    let a = |value: &str| format!("({value}, assumed(\"a test\"))");
    let tiers = [("hbm", "hbm"), ("dram0", "dram"), ("dram1", "dram"), ("pool", "cxl")];
    let tiers = tiers.map(|(name, kind)| {
        let (capacity, setup, rate) = (a("gib(64)"), a("us(1)"), a("gb_per_s(30)"));
        format!("(name: {name:?}, kind: {kind}, capacity: {capacity}, setup: {setup}, bandwidth: {rate})")
    });
    let mut nodes = vec![
        ("socket0".to_owned(), "socket"),
        ("socket1".to_owned(), "socket"),
        ("plx0".to_owned(), "pcie_switch"),
        ("plx1".to_owned(), "pcie_switch"),
        ("cxl".to_owned(), "cxl_switch"),
        ("other".to_owned(), "host"),
        ("fabric".to_owned(), "nvlink_switch"),
    ];
    nodes.extend((1..8).map(|n| (format!("gpu{n}"), "gpu")));
    let mut links: Vec<(String, String)> = [
        ("hbm", "plx0"),
        ("plx0", "socket0"),
        ("plx1", "socket1"),
        ("socket0", "dram0"),
        ("socket1", "dram1"),
        ("socket0", "socket1"),
        ("socket0", "cxl"),
        ("socket1", "cxl"),
        ("cxl", "pool"),
        ("cxl", "other"),
        ("hbm", "fabric"),
    ]
    .map(|(near, far)| (near.to_owned(), far.to_owned()))
    .to_vec();
    links.extend((1..8).map(|n| ("fabric".to_owned(), format!("gpu{n}"))));
    links.extend((1..8).map(|n| (format!("plx{}", n / 4), format!("gpu{n}"))));
    let nodes = nodes.iter().map(|(name, kind)| format!("(name: {name:?}, kind: {kind})"));
    let links = links.iter().enumerate().map(|(n, (near, far))| {
        let (setup, rate) = (a("us(1)"), a("gb_per_s(50)"));
        format!(
            "(name: \"link{n}\", near: {near:?}, far: {far:?}, setup: {setup}, read: {rate}, \
             write: {rate}, service: fair_share)"
        )
    });
    let [tiers, nodes, links] =
        [tiers.to_vec(), nodes.collect(), links.collect()].map(|all: Vec<String>| all.join(", "));
    let text = format!(
        "Hardware(schema: 2, about: \"a board\", tiers: [{tiers}], nodes: [{nodes}], links: [{links}])"
    );
    let document =
        Document::from_text(std::path::Path::new("board.ron"), text).expect("a document");
    resolve_hardware(&document, "board".to_owned()).unwrap_or_else(|error| panic!("{error}"))
}

/// Texts and where they stand.
fn texts(chart: &Chart) -> Vec<(Rect, String)> {
    let texts = chart.items().iter().filter_map(Item::text_place);
    texts.map(|(rect, text)| (rect, text.to_owned())).collect()
}

#[test]
fn no_two_texts_overlap_and_all_are_inside() {
    machines().iter().for_each(|machine| drawing(machine, "0.0.0").assert_legible(1.0));
}

#[test]
fn every_tier_node_and_link_is_named() {
    for machine in machines() {
        let texts = texts(&drawing(&machine, "0.0.0"));
        let shown = |name: &str| texts.iter().any(|(_, text)| text.starts_with(name));
        assert!(machine.node_ids().all(|node| shown(machine.node_name(node))), "{}", machine.name);
        assert!(machine.links.iter().all(|link| shown(&link.name)), "{}", machine.name);
    }
}

#[test]
fn no_label_is_crossed_by_a_line() {
    for machine in machines() {
        let chart = drawing(&machine, "0.0.0");
        for (rect, text) in texts(&chart) {
            for item in chart.items() {
                let Item::Path { points, .. } = item else { continue };
                let cut = points.windows(2).any(|ends| rect.cut_by(ends[0], ends[1]));
                assert!(!cut, "{}: a line crosses {text:?}", machine.name);
            }
        }
    }
}
