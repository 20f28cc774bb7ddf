//! Where allocators stand at the end of a run: a map of each tier that has one, by the size of what
//! is free and of what is in slots.
//!
//! Addresses are in no result, so the map is one of sizes: how many free pieces there are of each
//! power of two, and how many slots of each size are taken.

use super::folder::{MOST_ROWS, Report};
use crate::ChartError;
use crate::html::{Page, Table};
use crate::text_table::Side::{Left, Right};
use crate::units::three_digits;
use crate::words::percent;
use serde_json::{Map, Value};
use tiersim_models::units::shown::{of_sizes, size};

pub(super) fn section(page: &mut Page, report: &Report) -> Result<(), ChartError> {
    let columns = [
        ("case", Left),
        ("tier", Left),
        ("allocator", Left),
        ("peak live", Right),
        ("peak reserved", Right),
        ("external", Right),
        ("internal", Right),
        ("total", Right),
        ("free pieces by size", Left),
        ("slots taken by size", Left),
    ];
    let caption = "Allocators: peaks over the run; fragmentation and pieces at its end. A size of \
                   free pieces is the power of two at or below them";
    let mut table = Table::new(caption, &columns);
    for case in report.summary.order().into_iter().take(MOST_ROWS) {
        let of = &report.summary.results[case];
        let all = of.all.get("allocators").and_then(Value::as_array);
        for tier in all.into_iter().flatten().filter_map(Value::as_object) {
            let word = |key: &str| tier.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
            let number = |key: &str| tier.get(key).and_then(Value::as_f64);
            let bytes = |key: &str| number(key).map_or_else(|| "-".to_owned(), size);
            let share = |key: &str| number(key).map_or_else(|| "-".to_owned(), percent);
            table.row([
                of.label.clone(),
                word("tier"),
                word("allocator"),
                bytes("peak_allocated_bytes"),
                bytes("peak_reserved_bytes"),
                share("external_end"),
                share("internal_end"),
                share("total_end"),
                free(tier),
                slots(tier),
            ]);
            report.link(&mut table, case, false);
        }
    }
    if !table.is_empty() {
        page.heading("Allocation map");
        page.table(&table);
    }
    Ok(())
}

/// `19 of 32 MiB, 7 of 256 MiB`: the largest last.
fn free(tier: &Map<String, Value>) -> String {
    let pieces = tier.get("free_pieces").and_then(Value::as_object).into_iter().flatten();
    let pieces = pieces.filter_map(|(size, count)| Some((size.parse().ok()?, count.as_u64()?)));
    let mut pieces: Vec<(u64, u64)> = pieces.collect();
    pieces.sort_unstable();
    let words = pieces.iter().map(|(size, count)| format!("{count} of {}", whole(*size as f64)));
    some(words.collect())
}

/// `3/8 of 1 MiB`: live ones of all of their size.
fn slots(tier: &Map<String, Value>) -> String {
    let buckets = tier.get("buckets").and_then(Value::as_array).into_iter().flatten();
    let words = buckets.filter_map(|bucket| {
        let number = |key: &str| bucket.get(key).and_then(Value::as_u64);
        let (live, slots) = (number("live")?, number("slots")?);
        Some(format!("{live}/{slots} of {}", whole(number("slot_bytes")? as f64)))
    });
    some(words.collect())
}

fn some(words: Vec<String>) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// A size that is mostly a whole number of its unit.
fn whole(bytes: f64) -> String {
    let (unit, of) = of_sizes(bytes);
    let value = bytes / of;
    if value.fract() == 0.0 {
        format!("{value} {unit}")
    } else {
        format!("{} {unit}", three_digits(value))
    }
}
