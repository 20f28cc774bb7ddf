//! Chart, table, CSV, JSON and page of one run say the same numbers.
//!
//! The run is the one that a newcomer makes first: a 70B on two machines with different tiers. JSON
//! has the numbers whole; each of the others must be them, as far as it shows digits or pixels.

use crate::common::*;
use roxmltree::Document;

/// A number of a case by the path of its keys.
fn number(case: &Value, keys: &[&str]) -> Option<f64> {
    keys.iter().try_fold(case, |value, key| value.get(key))?.as_f64()
}

/// The number of JSON that a column of the CSV is about: `peak_bytes.hbm`, `step_ms_mean`.
fn of_column(case: &Value, column: &str) -> Option<f64> {
    let keys: Vec<&str> = column.split('.').collect();
    let split = column.rsplit_once('_').map(|(outer, inner)| [outer, inner]);
    number(case, &[column])
        .or_else(|| number(case, &keys))
        .or_else(|| split.and_then(|keys| number(case, &keys)))
}

/// Whether a number as shown is this one rounded to the digits that are shown.
fn shows(cell: &str, value: f64) -> bool {
    let shown: f64 = cell.trim_start_matches('+').parse().expect("a number");
    let digits = cell.split_once('.').map_or(0, |(_, digits)| digits.len());
    let half = 0.5 * 10f64.powi(-i32::try_from(digits).expect("few digits"));
    (shown - value).abs() <= half * (1.0 + 1e-6)
}

/// The numbers that stand at ticks of an axis, each with where it stands.
fn ticks(chart: &Document<'_>, anchor: &str, place: &str) -> Vec<(f64, f64)> {
    let texts = chart.descendants().filter(|node| node.has_tag_name("text"));
    let own = texts.filter(|node| node.attribute("text-anchor") == Some(anchor));
    own.filter_map(|node| {
        let at: f64 = node.attribute(place)?.parse().ok()?;
        Some((at, node.text()?.parse().ok()?))
    })
    .collect()
}

/// The value at a place, by the two ticks that are furthest apart; all ticks must lie on that line.
fn value_at(ticks: &[(f64, f64)], place: f64, slack: f64) -> f64 {
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let slope = (last.1 - first.1) / (last.0 - first.0);
    let line = |at: f64| first.1 + slope * (at - first.0);
    for &(at, value) in ticks {
        assert!((line(at) - value).abs() <= slack * slope.abs(), "{value} stands at {at}");
    }
    line(place)
}

#[test]
fn chart_table_csv_json_and_page_agree_on_every_number() {
    let project = Project::shipped();
    let scenario = "scenarios/hbm4-cxl3-against-hbm3e-training.ron";
    let ran = project.run(&["run", scenario, "--report", "--out", "o"]).ends_with(0);
    let summary = project.json("o/summary.json");
    let cases = summary["results"].as_array().expect("a list");
    assert!(cases.len() >= 8);
    let (csv, page) = (project.text("o/results.csv"), project.text("o/report.html"));
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let columns = rows.headers().expect("a head").clone();
    let rows: Vec<csv::StringRecord> = rows.records().map(|row| row.expect("a row")).collect();
    let chart = project.text("o/latency-vs-memory.svg");
    let chart = Document::parse(&chart).expect("XML");
    let (mut cells, mut shown, mut marks) = (0, 0, 0);
    for (index, (case, row)) in cases.iter().zip(&rows).enumerate() {
        let label = case["label"].as_str().expect("a label");
        assert_eq!(&row[0], label);
        for (column, cell) in columns.iter().zip(row) {
            let (Ok(cell), Some(value)) = (cell.parse::<f64>(), of_column(case, column)) else {
                continue;
            };
            let near = (cell - value).abs() <= 1e-9 * value.abs();
            assert!(near, "{label}, {column}: {cell} in the CSV, {value} in the JSON");
            cells += 1;
        }
        let step = number(case, &["step_ms", "mean"]).expect("a step") / 1e3;
        let peak = number(case, &["peak_bytes", "hbm"]).expect("a peak") / f64::from(1 << 30);
        let slowdown = number(case, &["slowdown"]).expect("a slowdown");
        let gap = number(case, &["gap_to_bound"]).expect("a gap");
        let line = ran.stdout.lines().find(|line| line.starts_with(&format!("{label}  ")));
        let line = line.unwrap_or_else(|| panic!("no row of {label}"));
        let own: Vec<&str> = line[label.len()..].split_whitespace().collect();
        let wanted = [step, 100.0 * (slowdown - 1.0), peak, 100.0 * gap];
        assert_eq!(own.len(), wanted.len(), "{line}");
        for (cell, value) in own.iter().zip(wanted) {
            assert!(shows(cell, value), "{label}: {cell} in the table, {value} in the JSON");
            assert!(page.contains(&format!(">{cell}</td>")), "{label}: {cell} is not on the page");
            shown += 1;
        }
        let mark = chart.descendants().find(|node| {
            node.attribute("data-case") == Some(&index.to_string()) && node.has_attribute("data-x")
        });
        let mark = mark.unwrap_or_else(|| panic!("no mark of {label}"));
        let pixel = |name: &str| mark.attribute(name).and_then(|at| at.parse::<f64>().ok());
        let (x, y) = (pixel("data-x").expect("x"), pixel("data-y").expect("y"));
        // Marks are said in pixels to a tenth, texts stand in tenths; the text of a tick on the
        // upright axis hangs half its height above the tick.
        let across = ticks(&chart, "middle", "x");
        let (one, two) = (across[0], across[across.len() - 1]);
        let per_pixel = 10.0 * (two.1 - one.1).abs() / (two.0 - one.0).abs();
        let found = value_at(&across, 10.0 * x, 2.0);
        assert!((found - peak).abs() <= 0.2 * per_pixel, "{label}: {found} on the chart, {peak}");
        let up = ticks(&chart, "end", "y");
        let (one, two) = (up[0], up[up.len() - 1]);
        let per_pixel = 10.0 * (two.1 - one.1).abs() / (two.0 - one.0).abs();
        let found = value_at(&up, 10.0 * y - HANGS, 2.0);
        assert!((found - step).abs() <= 0.3 * per_pixel, "{label}: {found} on the chart, {step}");
        marks += 1;
    }
    assert_eq!(marks, cases.len());
    assert_eq!(shown, 4 * cases.len());
    assert!(cells >= 40 * cases.len(), "{cells} cells of the CSV were held against the JSON");
}

/// How far above its tick the text of a tick of the upright axis stands, in tenths of a pixel.
const HANGS: f64 = 56.6;
