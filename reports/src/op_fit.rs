//! Fitted numbers of a device's formulas: as text, as JSON, and as a file of op times.

use crate::text_table::{Side, cells, text_table};
use crate::words::clean;
use serde_json::{Value, json};
use std::fmt::Write;
use tiersim_models::hardware::Compute;
use tiersim_models::op_times::{Dimension, OpTimes};
use tiersim_models::results::op_fit::{FittedNumber, FittedSection, OpFit};
use tiersim_models::results::op_grades::Errors;

/// Text that may stand in quotes.
fn quotable(text: &str) -> String {
    clean(text).replace(['"', '\\'], "'")
}

/// A number as a file has it: what a formula was given has up to twelve digits, what was fitted
/// has four.
fn digits(number: f64) -> String {
    let short = format!("{number:.11e}").parse().unwrap_or(number);
    format!("{short}")
}

/// With its unit.
fn written(dimension: Dimension, number: f64) -> String {
    match dimension {
        Dimension::Time => format!("us({})", digits(number * 1e6)),
        Dimension::Flops => format!("tflops({})", digits(number / 1e12)),
        Dimension::Memory | Dimension::Local | Dimension::Fixed | Dimension::Stated => {
            format!("gb_per_s({})", digits(number / 1e9))
        }
        _ => digits(number),
    }
}

/// Errors before and after, what changed, and the sections to paste.
pub fn fit_text(fit: &OpFit, table: &str, device: &str) -> String {
    let mut text = String::new();
    for (name, count) in &fit.left_out {
        let _ = writeln!(text, "  {name}: {count} ops, too few or without numbers; left out");
    }
    let head = ["section", "ops", "rows", "median %", "p95 %", "bias %"];
    let mut rows = vec![cells(head)];
    for section in &fit.sections {
        let held = format!("held out: every second {}", section.family);
        let of = [
            ("before".to_owned(), Some(section.before)),
            (held, section.held_out),
            ("all, fitted".to_owned(), Some(section.after)),
        ];
        for (words, errors) in of {
            let Some(Errors { count, median, p95, bias }) = errors else { continue };
            rows.push(vec![
                section.name.to_owned(),
                words,
                count.to_string(),
                format!("{:.1}", median * 100.0),
                format!("{:.1}", p95 * 100.0),
                format!("{:+.1}", bias * 100.0),
            ]);
        }
    }
    let sides = [[Side::Left; 2].as_slice(), &[Side::Right; 4]].concat();
    text += &text_table(2, &sides, &rows);
    for section in &fit.sections {
        text.push('\n');
        text += &section_ron(section, table, device);
    }
    text
}

/// A section that was fitted.
fn section_ron(section: &FittedSection, table: &str, device: &str) -> String {
    let (table, device) = (quotable(table), quotable(device));
    let mut text = format!("    {}: (\n", section.name);
    let _ = writeln!(text, "        source: measured(\"{table} on {device}\"),");
    text += "        fits: [\n";
    let held = format!("held out: every second {}", section.family);
    for (rows, errors) in [(held.as_str(), section.held_out), ("all", Some(section.after))] {
        let Some(Errors { count, median, p95, .. }) = errors else { continue };
        let [median, p95] = [median, p95].map(|share| format!("{:.1}", share * 100.0));
        let _ = writeln!(
            text,
            "            (rows: \"{rows}\", count: {count}, median: {median}, p95: {p95}),"
        );
    }
    text += "        ],\n        numbers: (\n";
    for FittedNumber { name, dimension, after, .. } in &section.numbers {
        let _ = writeln!(text, "            {name}: {},", written(*dimension, *after));
    }
    text + "        ),\n    ),\n"
}

/// A whole file: the fitted sections, and the others as the machine has them.
pub fn fit_ron(fit: &OpFit, table: &str, compute: &Compute) -> String {
    let OpTimes { name, processors, cache, .. } = &fit.times;
    let device = quotable(&compute.name);
    let peak = |names: &[&str]| {
        let of = compute.flops.iter().find(|(known, _)| names.contains(&known.as_str()));
        of.map(|(_, rate)| written(Dimension::Flops, rate.get() as f64))
    };
    // A device without products in 16 bits is compared by the first that it states.
    let first = || compute.flops.first().map(|(_, rate)| rate.get() as f64);
    let wide = peak(&["bf16", "fp16"])
        .unwrap_or_else(|| written(Dimension::Flops, first().unwrap_or(1e12)));
    let narrow = peak(&["fp8"]).map(|rate| format!("fp8: {rate}, ")).unwrap_or_default();
    let memory = written(Dimension::Memory, compute.memory.get() as f64);
    let mut text = format!(
        "// What kernels take on one {device}: numbers of formulas, some of them fitted to\n\
         // {}. Name this file in `compute.op_times` of a machine.\n\
         OpTimes(\n    schema: 2,\n    about: \"kernels of one {device}\",\n    device: \
         \"{device}\",\n    processors: {processors},\n    cache: b({cache}),\n    stated: (bf16: \
         {wide}, {narrow}memory: {memory}),\n",
        quotable(table)
    );
    if !fit.times.tuned_experts.is_empty() {
        let of = |(count, width): &(u64, u64)| format!("({count}, {width})");
        let all: Vec<String> = fit.times.tuned_experts.iter().map(of).collect();
        let _ = writeln!(text, "    tuned_experts: [{}],", all.join(", "));
    }
    let mut times = fit.times.clone();
    for section in OpTimes::SECTIONS {
        if let Some(fitted) = fit.sections.iter().find(|fitted| fitted.name == section) {
            text += &section_ron(fitted, table, &compute.name);
            continue;
        }
        let Some((numbers, inherited)) = times.section(section) else { continue };
        let is_inherited = if *inherited { "        inherited: true,\n" } else { "" };
        let _ = write!(
            text,
            "    {section}: (\n        source: assumed(\"as op-times/{} has it\"),\n{is_inherited}        \
             numbers: (\n",
            quotable(name)
        );
        numbers.each(&mut |name, dimension, number| {
            let _ = writeln!(text, "            {name}: {},", written(dimension, *number));
        });
        text += "        ),\n    ),\n";
    }
    text + ")\n"
}

/// The fit as JSON.
pub(crate) fn fit_json(fit: &OpFit) -> Value {
    let errors = |of: &Errors| {
        let Errors { count, median, p95, bias } = *of;
        json!({ "count": count, "median": median, "p95": p95, "bias": bias })
    };
    let sections = fit.sections.iter().map(|section| {
        let numbers = section.numbers.iter().map(|of| {
            let infinite =
                |number: f64| if number.is_finite() { json!(number) } else { json!("inf") };
            json!({
                "name": of.name,
                "before": infinite(of.before),
                "after": infinite(of.after),
                "told": of.told,
            })
        });
        json!({
            "section": section.name,
            "before": errors(&section.before),
            "held_out": section.held_out.as_ref().map(errors),
            "after": errors(&section.after),
            "numbers": numbers.collect::<Vec<Value>>(),
        })
    });
    sections.collect::<Vec<Value>>().into()
}
