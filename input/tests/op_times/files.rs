//! What files of op times mean. What is said of wrong ones, to the letter, is in
//! `tests/errors/op-times`.

use crate::op_times::{DEVICES, shipped};
use proptest::prelude::*;
use std::path::Path;
use tiersim_input::op_times::{is_op_times, read_op_times, resolve_op_times};
use tiersim_input::text::ron_text::Document;
use tiersim_models::hardware::Source;
use tiersim_models::op_times::{Dimension, OpTimes};

fn text() -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../hardware-specs/op-times/h100.ron");
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn every_shipped_number_is_in_its_range_and_has_a_source() {
    for device in DEVICES {
        let mut read = shipped(device);
        assert_eq!(read.times.name, device);
        for (section, source, fits) in &read.fits {
            assert!(OpTimes::SECTIONS.contains(section));
            assert!(matches!(source, Source::Measured(_) | Source::Assumed(_)), "{source:?}");
            for fit in fits {
                assert!(fit.median > 0.0 && fit.median <= fit.p95, "{device} {section} {fit:?}");
            }
        }
        for section in OpTimes::SECTIONS {
            let Some((numbers, inherited)) = read.times.section(section) else { continue };
            // Only the streaming kernels of a B200 are another device's, and unfused ones, which an
            // H200 was measured by.
            let others = (device, section) == ("b200", "streaming") || section == "unfused";
            assert_eq!(*inherited, others, "{device} {section}");
            numbers.each(&mut |name, dimension, number| {
                let (least, most) = dimension.range();
                assert!((least..=most).contains(number), "{device} {section} {name} {number}");
                assert!(dimension != Dimension::Time || *number < 1e-3, "{section} {name}");
            });
        }
    }
}

#[test]
fn the_page_says_what_every_number_is() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/op-times.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (mut wide, mut trains) = (shipped("b200"), shipped("h100"));
    for section in OpTimes::SECTIONS {
        let base = match section {
            "cudnn" => "flash_attention_2",
            _ => section.strip_prefix("experts").map_or(section, |_| "experts"),
        };
        let read = if wide.times.section(section).is_some() { &mut wide } else { &mut trains };
        let start = format!("| {base} | ");
        let rows: String = page.lines().filter(|line| line.starts_with(&start)).collect();
        let (numbers, _) = read.times.section(section).unwrap();
        numbers.each(&mut |name, dimension, _| {
            assert!(rows.contains(&format!("`{name}`")), "{base}: {name}");
            let row = page
                .lines()
                .find(|line| line.starts_with(&start) && line.contains(&format!("`{name}`")));
            let is_kept = row.is_some_and(|row| row.contains("; kept |"));
            assert_eq!(is_kept, !dimension.is_measured(), "{base}: {name}");
        });
    }
}

#[test]
fn units_are_those_of_machines() {
    let read = |text: &str| {
        let document = Document::from_text(Path::new("x/h100.ron"), text.into()).unwrap();
        assert!(is_op_times(&document));
        resolve_op_times(&document).unwrap_or_else(|found| panic!("{found}"))
    };
    let plain = read(&text());
    let other = text()
        .replacen("launch: us(2.45)", "launch: ns(2450)", 1)
        .replacen("fill: gb_per_s(222.5)", "fill: mb_per_s(222500)", 1)
        .replacen("cache: mb(50)", "cache: b(50000000)", 1);
    assert_eq!(read(&other).times, plain.times);
}

#[test]
fn a_folder_or_nothing_is_told() {
    let said = |path: &Path| read_op_times(path).unwrap_err().to_string();
    assert!(said(Path::new("/nowhere/h100.ron")).contains("/nowhere/h100.ron"));
    assert!(!said(Path::new(env!("CARGO_MANIFEST_DIR"))).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_cut_out_is_read_or_told(
        at in 0..9000usize,
        length in 1..60usize,
        instead in "[(){}\\[\\]:,\"a-z0-9. ]{0,6}",
    ) {
        let mut text = text();
        let from = at % (text.len() - 100);
        text.replace_range(from..from + length, &instead);
        let document = Document::from_text(Path::new("h100.ron"), text);
        if let Err(found) = document.and_then(|document| resolve_op_times(&document).map(drop)) {
            prop_assert!(!found.0.is_empty());
        }
    }
}
