//! What every file of an output folder promises, on hand-made records from plain to hostile.

mod common;

use serde_json::Value;
use tiersim_models::results::RunRecord;
use tiersim_reports::{
    Artefact, Detail, Made, Style, artefacts, report_artefact, text, timeline_json,
};

fn file<'a>(files: &'a [Artefact], name: &str) -> Option<&'a [u8]> {
    files.iter().find(|file| file.name == name).map(|file| file.bytes.as_slice())
}

fn json(files: &[Artefact], name: &str) -> Value {
    serde_json::from_slice(file(files, name).unwrap()).unwrap()
}

#[test]
fn the_same_record_gives_the_same_bytes() {
    for record in common::all() {
        let (one, two) =
            (artefacts(&record, "0.1.0").unwrap(), artefacts(&record, "0.1.0").unwrap());
        assert!(one == two, "{}", record.scenario);
    }
}

#[test]
fn files_come_in_a_fixed_order_and_only_where_they_apply() {
    let names = |record| -> Vec<String> {
        artefacts(&record, "0.1.0").unwrap().into_iter().map(|file| file.name).collect()
    };
    let always = ["summary.json", "results.csv", "latency-vs-memory.svg", "latency-vs-memory.png"];
    let mut training = always.map(str::to_owned).to_vec();
    for name in ["step-cdf", "occupancy", "channel-use"] {
        training.extend([".svg", ".png"].map(|ending| format!("{name}{ending}")));
    }
    training.extend(["timeline.json", "tier_hints.json"].map(str::to_owned));
    assert_eq!(names(common::training()), training);
    let mut sweep = always.to_vec();
    // A timeline or hints of a sweep would be those of one arbitrary point.
    sweep.extend(["threshold-heat-map.svg", "threshold-heat-map.png"]);
    sweep.extend(["latency-by-panel.svg", "latency-by-panel.png"]);
    assert_eq!(names(common::sweep()), sweep);
}

#[test]
fn the_summary_has_every_key_of_the_contract() {
    let summary = json(&artefacts(&common::training(), "0.1.0").unwrap(), "summary.json");
    for key in [
        "schema",
        "tiersim",
        "scenario",
        "fingerprint",
        "hardware",
        "workload",
        "seed",
        "assumed_numbers",
    ] {
        assert!(!summary[key].is_null(), "{key}");
    }
    assert_eq!(summary["schema"], 1);
    assert_eq!(summary["tiersim"], "0.1.0");
    let results = summary["results"].as_array().unwrap();
    assert_eq!(results.len(), 10);
    for case in results {
        for key in [
            "policy",
            "params",
            "step_ms",
            "throughput",
            "baseline_step_ms",
            "slowdown",
            "bound_step_ms",
            "peak_bytes",
            "moved_bytes",
            "stall_ms",
            "busy_fraction",
            "hit_ratio",
            "oom",
            "energy_j",
            "cost_usd",
            "events",
        ] {
            assert!(case.get(key).is_some(), "{key} of {}", case["label"]);
        }
    }
    let (failed, ran) = (&results[0], &results[1]);
    assert_eq!(failed["oom"], true);
    assert!(failed["step_ms"].is_null() && failed["slowdown"].is_null());
    assert_eq!(failed["oom_reason"]["need_bytes"], 1344u64 << 20);
    assert_eq!(ran["oom"], false);
    assert_eq!(ran["step_ms"]["mean"], 431.0);
    assert_eq!(ran["throughput"]["unit"], "tokens/s");
    assert_eq!(ran["peak_bytes"]["dram"], 31u64 << 30);
    // 24 bytes per nanosecond above 400 ms, four times over in four steps: the mean per step.
    assert_eq!(ran["moved_bytes"]["dram->hbm"], 744_000_000);
    assert_eq!(ran["busy_fraction"]["pcie"].as_f64().unwrap(), 0.2);
}

#[test]
fn charts_are_well_formed_inert_and_of_the_stated_size() {
    for record in common::all() {
        let files = artefacts(&record, "0.1.0").unwrap();
        for file in files.iter().filter(|file| file.name.ends_with(".svg")) {
            let svg = std::str::from_utf8(&file.bytes).unwrap();
            let document = roxmltree::Document::parse(svg).unwrap();
            let root = document.root_element();
            assert_eq!(
                (root.attribute("width"), root.attribute("height")),
                (Some("1200"), Some("750"))
            );
            for node in document.descendants().filter(roxmltree::Node::is_element) {
                let name = node.tag_name().name();
                let plain = ["svg", "g", "title", "text", "rect", "polyline", "polygon", "circle"];
                assert!(plain.contains(&name), "<{name}> in {}", record.scenario);
                let live = |a: roxmltree::Attribute| {
                    a.name().starts_with("on") || a.name().contains("href")
                };
                assert!(!node.attributes().any(live));
            }
            assert!(!svg.to_lowercase().contains("<script"));
            assert!(!svg.contains(['\u{202e}', '\u{200f}', '\u{1b}', '\0']));
        }
        for file in files.iter().filter(|file| file.name.ends_with(".png")) {
            let mut reader = png::Decoder::new(file.bytes.as_slice()).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size()];
            let info = reader.next_frame(&mut pixels).unwrap();
            assert_eq!((info.width, info.height), tiersim_reports::CHART_SIZE);
            assert!(pixels.iter().any(|p| *p != 255), "{} is blank", file.name);
        }
    }
}

#[test]
fn a_style_changes_the_sheet_and_nothing_that_is_said() {
    let record = common::training();
    let screen = artefacts(&record, "0.1.0").unwrap();
    let size = |files: &[Artefact], name: &str| {
        let reader = png::Decoder::new(file(files, name).unwrap()).read_info().unwrap();
        (reader.info().width, reader.info().height)
    };
    for (style, wide, shown) in [(Style::Slide, 1920, "1920"), (Style::Paper, 1668, "84.0mm")] {
        let files = artefacts(&record, Made { version: "0.1.0", style }).unwrap();
        let names = |files: &[Artefact]| -> Vec<String> {
            files.iter().map(|file| file.name.clone()).collect()
        };
        assert_eq!(names(&files), names(&screen));
        for name in ["summary.json", "results.csv", "timeline.json"] {
            assert_eq!(file(&files, name), file(&screen, name), "{name}");
        }
        for chart in files.iter().filter(|file| file.name.ends_with(".svg")) {
            let svg = std::str::from_utf8(&chart.bytes).unwrap();
            let document = roxmltree::Document::parse(svg).unwrap();
            assert_eq!(document.root_element().attribute("width"), Some(shown), "{}", chart.name);
            // Text stays text, so that a paper may set it in its own font.
            assert!(svg.contains("<text "), "{}", chart.name);
            let described = svg.contains("<desc>") && svg.contains(&record.fingerprint[..15]);
            assert_eq!(described, style == Style::Paper, "{}", chart.name);
            let picture = chart.name.replace(".svg", ".png");
            assert_eq!(size(&files, &picture).0, wide, "{picture}");
        }
        let page = String::from_utf8(report_artefact(&files).unwrap().bytes).unwrap();
        assert!(!page.contains("is not shown"), "a page takes charts of every style");
    }
}

#[test]
fn the_timeline_opens_and_every_case_starts_at_zero() {
    for record in common::all() {
        let timeline = timeline_json(&record, "0.1.0").unwrap();
        let timeline: Value = serde_json::from_str(&timeline).unwrap();
        let events = timeline["traceEvents"].as_array().unwrap();
        let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert!(!slices.is_empty());
        let name = events.iter().filter(|event| event["name"] == "process_name");
        let named: Vec<u64> = name.map(|event| event["pid"].as_u64().unwrap()).collect();
        let mut used: Vec<u64> = slices.iter().map(|s| s["pid"].as_u64().unwrap()).collect();
        used.dedup();
        assert_eq!(used, named, "{}", record.scenario);
        assert_eq!(slices[0]["ts"], 0.0);
        assert!(slices.iter().all(|slice| slice["ts"].as_f64().unwrap() < 10.0));
    }
}

#[test]
fn the_parts_of_a_step_add_up_wherever_they_are_written() {
    for record in common::all() {
        let json = tiersim_reports::summary_json(&record, "0.1.0").unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let csv = tiersim_reports::results_csv(&record).unwrap();
        let mut rows = csv::Reader::from_reader(csv.as_slice());
        let header = rows.headers().unwrap().clone();
        let place = |name: &str| header.iter().position(|column| column == name).unwrap();
        for (row, result) in rows.records().zip(json["results"].as_array().unwrap()) {
            let row = row.unwrap();
            if result["oom"] == true {
                assert!(result["split"].is_null() && row[place("split_total_ps")].is_empty());
                continue;
            }
            let total = result["split"]["total_ps"].as_u64().unwrap();
            let parts = result["split"]["parts_ps"].as_object().unwrap();
            assert_eq!(parts.values().map(|ps| ps.as_u64().unwrap()).sum::<u64>(), total);
            assert_eq!(row[place("split_total_ps")], total.to_string());
            for (part, ps) in parts {
                assert_eq!(row[place(&format!("split_ps.{part}"))], ps.to_string());
            }
            let columns = header.iter().filter(|column| column.starts_with("split_ps."));
            assert_eq!(columns.count(), parts.len());
            let mean = |ps: &f64| ps / result["split"]["steps"].as_f64().unwrap() / 1e9;
            let ms = result["split_ms"].as_object().unwrap();
            let ms = ms.values().map(|ms| ms.as_f64().unwrap()).sum::<f64>();
            assert!((ms / mean(&(total as f64)) - 1.0).abs() < 1e-12, "{ms}");
        }
    }
    // The largest first.
    let text = text(&common::training(), "0.1.0", tiersim_reports::Detail::Narrow);
    assert!(text.contains(": in place ") && text.contains("along its critical path"), "{text}");
}

#[test]
fn hints_are_sorted_by_module() {
    let record = common::training();
    let files = artefacts(&record, "0.1.0").unwrap();
    let hints = std::str::from_utf8(file(&files, "tier_hints.json").unwrap()).unwrap();
    let modules = "\"head\": \"CPU\",\n  \"layers.0\": \"HBM\",\n  \"layers.1\": \"SSD\"";
    let of = format!("\"tiersim:fingerprint\": \"{}\"", record.fingerprint);
    assert_eq!(hints, format!("{{\n  {modules},\n  {of}\n}}\n"));
    for file in &files {
        assert!(tiersim_reports::is_artefact(&file.name), "{} is one", file.name);
    }
}

#[test]
fn a_spreadsheet_finds_no_formula_in_the_table() {
    let files = artefacts(&common::hostile(), "0.1.0").unwrap();
    let csv = std::str::from_utf8(file(&files, "results.csv").unwrap()).unwrap();
    let cells = csv.lines().flat_map(|line| line.split(',')).map(|cell| cell.trim_matches('"'));
    let formulas: Vec<&str> = cells
        .filter(|cell| cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err())
        .collect();
    assert!(formulas.is_empty(), "{formulas:?}");
    assert!(csv.contains("'=cmd|' /C calc'!A0,<script>"));
    assert!(csv.starts_with("label,policy,details,emulated,outcome,step_ms_mean,"));
}

#[test]
fn a_sweep_has_its_axes_as_columns() {
    let files = artefacts(&common::sweep(), "0.1.0").unwrap();
    let csv = std::str::from_utf8(file(&files, "results.csv").unwrap()).unwrap();
    assert!(csv.starts_with(
        "label,policy,details,emulated,param.policy.shares.hbm,param.policy.shares.cpu,param.policy.access,"
    ));
    assert_eq!(csv.lines().count(), 463);
}

#[test]
fn lines_of_a_block_of_the_table_are_equally_wide() {
    for record in common::all() {
        for (detail, most) in [(Detail::Narrow, 80), (Detail::Wide, 120)] {
            equally_wide(&record, detail, most);
        }
    }
}

fn equally_wide(record: &RunRecord, detail: Detail, most: usize) {
    let text = text(record, "0.1.0", detail);
    let blocks = text.split("\n\n").filter(|block| block.contains("----"));
    for block in blocks {
        let lines: Vec<&str> = block.lines().collect();
        let rule = lines.iter().position(|line| line.starts_with("----")).unwrap();
        // Of the names here only ideographs take two columns.
        let width = |line: &&str| -> usize {
            line.chars().map(|c| if ('\u{3000}'..'\u{a000}').contains(&c) { 2 } else { 1 }).sum()
        };
        let widths: Vec<usize> = lines[rule - 2..].iter().map(width).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{}\n{block}", record.scenario);
        assert!(widths[0] <= most, "{} wide", widths[0]);
    }
    // One word may be longer than a line.
    let long = text.lines().find(|line| line.chars().count() > most);
    let words = long.map_or(0, |line| line.split_whitespace().count());
    assert!(words <= 2, "{}: {long:?}", record.scenario);
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\0']));
}

#[test]
fn the_table_says_what_ran_out_of_memory_and_why() {
    let text = text(&common::training(), "0.1.0", Detail::Wide);
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(
        "all in HBM: layers.31.mlp.down_proj.weight.exp_avg_sq needs 1.312 GiB in hbm, which has \
         117.0 MiB of 40.000 GiB free, at step 0, op 417"
    ));
    // The median is the mean to the last digit, and the 99th percentile the 95th.
    assert!(text.contains("LRU 64 GiB             431.0   435.3       38014     +7.08"), "{text}");
    // Nothing uses NVMe.
    assert!(!text.contains("nvme"));
}

/// The verdict is above the table, and its best is the table's first row.
#[test]
fn the_answer_comes_before_the_table_and_is_the_tables() {
    for record in common::all() {
        let text = text(&record, "0.1.0", Detail::Narrow);
        let Some((before, table)) = text.split_once("----") else { continue };
        let ran =
            record.results.iter().any(|case| case.outcome.figures().is_some() && !case.emulated);
        let failed = record.results.iter().any(|case| case.outcome.figures().is_none());
        assert_eq!(before.contains("  no fit  "), failed, "{text}");
        let best = ["  best    ", "  result  "].iter().find_map(|word| before.split_once(*word));
        assert!(!ran || best.is_some(), "{text}");
        let rows = table.lines().skip(1);
        let first = rows.filter(|row| !row.is_empty()).map(|row| row.split("  ").next()).next();
        if let Some(first) = first.flatten().filter(|_| ran && record.results.len() < 20) {
            let named = best.expect("it ran").1.split_whitespace().collect::<Vec<_>>().join(" ");
            let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(named.starts_with(&first), "{first}: {text}");
        }
    }
}

#[test]
fn a_sweep_prints_its_front_and_its_counts() {
    let text = text(&common::sweep(), "0.1.0", Detail::Wide);
    assert!(text.contains("462 cases: 450 done, 12 out of memory; 420 skipped"));
    // Five blocks of at most 26 rows, not 462 rows.
    assert!(text.lines().count() < 160);
}
