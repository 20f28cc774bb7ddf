//! The page against the files that it is made of, and against files that are none.

use super::folder::CHART;
use super::summary::Summary;
use super::*;
use crate::json::summary_json;
use crate::measure::Measure;
use crate::words::clean;
use crate::{Detail, common, results_csv, text};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use tiersim_models::results::RunRecord;

/// What a page is made of, without the pictures that it does not look at.
fn files(record: &RunRecord) -> Vec<Artefact> {
    let summary = summary_json(record, "0.1.0").expect("a summary");
    let mut files = vec![Artefact::new(SUMMARY, summary)];
    let chart = crate::against_memory(record, Measure::of(record)[0], "0.1.0");
    files.push(Artefact::new(CHART, chart.svg().expect("a chart")));
    if let Some(map) = crate::threshold_heat_map(record, "0.1.0") {
        files.push(Artefact::new("threshold-heat-map.svg", map.svg().expect("a chart")));
    }
    files
}

fn page(record: &RunRecord) -> String {
    let page = report_artefact(&files(record)).expect("a page");
    String::from_utf8(page.bytes).expect("text")
}

fn read(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("well-formed")
}

fn named<'d>(node: Node<'d, 'd>, name: &str) -> Vec<Node<'d, 'd>> {
    node.descendants().filter(|node| node.tag_name().name() == name).collect()
}

fn said(node: Node) -> String {
    let texts = node.descendants().filter(|node| node.is_text());
    texts.filter_map(|node| node.text()).collect::<String>().trim().to_owned()
}

/// The rows of the table whose caption starts so, by the name of the column.
fn rows(document: &Document, caption: &str) -> Vec<BTreeMap<String, String>> {
    let mut tables = named(document.root(), "table").into_iter();
    let own = |table: &Node| said(named(*table, "caption")[0]).starts_with(caption);
    let table = tables.find(own).unwrap_or_else(|| panic!("no table {caption:?}"));
    let cells = |row: &Node| -> Vec<String> {
        row.children().filter(|cell| cell.is_element()).map(said).collect()
    };
    let rows = named(table, "tr");
    let head = cells(&rows[0]);
    let of = |row| head.iter().cloned().zip(cells(row)).collect();
    rows[1..].iter().map(of).collect()
}

#[test]
fn every_page_is_well_formed_and_says_the_verdict_of_the_table() {
    for record in common::all() {
        let page = page(&record);
        let document = read(&page);
        let text = said(document.root());
        for (_, sentence) in crate::verdict::verdict(&record) {
            assert!(text.contains(&clean(&sentence)), "{}: {sentence}", record.scenario);
        }
        let headings = named(document.root(), "h2").len();
        assert!(headings >= 4, "{}", record.scenario);
    }
}

#[test]
fn figures_are_those_of_the_text_table() {
    for record in [common::training(), common::single()] {
        let page = page(&record);
        let document = read(&page);
        let blocks = [rows(&document, "Time of"), rows(&document, "Memory of")];
        assert!(blocks.iter().all(|rows| rows.len() == record.results.len()));
        let words = text(&record, "0.1.0", Detail::Wide);
        for row in blocks.iter().flatten() {
            let label = &row["case"];
            // A block of the text table has the columns of one group.
            let own = words.lines().filter(|line| line.starts_with(&format!("{label}  ")));
            let known: Vec<&str> = own.flat_map(str::split_whitespace).collect();
            let shown = row.iter().filter(|(column, cell)| {
                let figure = column.contains("step") || column.contains("peak");
                figure && cell.parse::<f64>().is_ok()
            });
            for (column, cell) in shown {
                assert!(known.contains(&cell.as_str()), "{label}, {column}: {cell}\n{words}");
            }
        }
    }
}

#[test]
fn figures_of_a_case_are_those_of_the_summary_and_the_csv() {
    let record = common::training();
    let page = page(&record);
    let document = read(&page);
    let summary = Summary::read(summary_json(&record, "0.1.0").unwrap().as_bytes()).unwrap();
    let csv = results_csv(&record).unwrap();
    let mut csv = ::csv::Reader::from_reader(&csv[..]);
    let head = csv.headers().expect("a header").clone();
    let step = head.iter().position(|name| name == "step_ms_mean").expect("the column");
    for (case, line) in summary.results.iter().zip(csv.records()) {
        let line = line.expect("a row");
        let caption = format!("Figures of {} as", case.label);
        let figures = rows(&document, &caption);
        let figures: BTreeMap<&str, &str> =
            figures.iter().map(|row| (row["figure"].as_str(), row["value"].as_str())).collect();
        let all = cases::leaves(&case.all);
        assert_eq!(figures.len(), all.len(), "{}", case.label);
        assert!(all.iter().all(|(path, value)| figures[path.as_str()] == clean(value)));
        let csv = line[step].parse::<f64>().ok();
        assert_eq!(figures.get("step_ms.mean").and_then(|ms| ms.parse().ok()), csv);
    }
}

#[test]
fn each_point_of_the_chart_leads_to_its_case() {
    let record = common::training();
    let page = page(&record);
    let document = read(&page);
    let ids: BTreeMap<&str, Node> =
        document.descendants().filter_map(|node| Some((node.attribute("id")?, node))).collect();
    let links: Vec<Node> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "a" && node.attribute("data-case").is_some())
        .collect();
    assert_eq!(links.len(), record.results.len());
    for link in links {
        let case: usize = link.attribute("data-case").unwrap().parse().unwrap();
        let label = &record.results[case].label;
        let shown = link.attribute("aria-label").unwrap();
        assert!(shown.starts_with(&format!("{label}: ")), "{shown}");
        let to = link.attribute("href").unwrap().trim_start_matches('#');
        assert!(said(ids[to]).starts_with(label.as_str()), "{to}");
    }
}

#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let mut record = common::training();
    let names = ["<script>alert(1)</script>", "\u{202e}gnp.exe", "=1+1", "\"><img src=x>", "]]>"];
    for (case, name) in record.results.iter_mut().zip(names) {
        (case.label, case.policy) = (name.to_owned(), name.to_owned());
        case.details = name.to_owned();
    }
    record.scenario = names[0].to_owned();
    record.about = names[3].to_owned();
    let page = page(&record);
    let document = read(&page);
    assert_eq!(named(document.root(), "script").len(), 1);
    assert!(named(document.root(), "img").is_empty() && !page.contains('\u{202e}'));
    assert_eq!(said(named(document.root(), "h1")[0]), names[0]);
    let headings: Vec<String> = named(document.root(), "h3").into_iter().map(said).collect();
    for name in names {
        let heading = format!("{}#", clean(name));
        assert!(headings.contains(&heading), "{name}: {headings:?}");
    }
}

fn folder(name: &str, record: &RunRecord) -> ResultFolder {
    ResultFolder { name: name.to_owned(), files: files(record) }
}

#[test]
fn two_results_stand_side_by_side_and_what_differs_is_marked() {
    let one = common::training();
    let mut other = one.clone();
    assert_eq!(other.results[2].label, "LRU 48 GiB");
    other.results[2].outcome = common::done(1236.8, 47.8);
    other.results.pop();
    let folders = [folder("out/a", &one), folder("out/b", &other)];
    let page = report_page(&folders, true).expect("a page");
    let document = read(&page);
    let table = rows(&document, "Cases side by side");
    let of = |case: &str, figure: &str| {
        let own = |row: &&BTreeMap<String, String>| row["case"] == case && row["figure"] == figure;
        table.iter().find(own).unwrap_or_else(|| panic!("{case}, {figure}"))["second against first"]
            .clone()
    };
    assert_eq!(of("LRU 48 GiB", "mean step, ms"), "+100.00 %");
    assert_eq!(of("LRU 64 GiB", "mean step, ms"), "equal");
    assert_eq!(of("Adam 70/30 migrate", "mean step, ms"), "differs");
    assert!(said(document.root()).contains("1 case is not in all of them"));
    let every = rows(&document, "Figures of summary.json that differ");
    assert!(every.iter().all(|row| row["case"] == "LRU 48 GiB" || row["figure"] == "rank"));
    let marked = document
        .descendants()
        .filter(|node| node.attribute("class").is_some_and(|class| class.contains("differs")));
    assert!(marked.count() > 4);
    let same = report_page(&[folder("a", &one), folder("a", &one)], true).expect("a page");
    assert!(same.contains("Equal: no figure"));
    read(&same);
    assert!(matches!(report_page(&[folder("a", &one)], true), Err(ReportError::NotTwo(1))));
}

#[test]
fn the_order_of_files_makes_no_difference_and_a_bad_chart_is_said() {
    let record = common::sweep();
    let mut own = folder("a", &record);
    let page = report_page(std::slice::from_ref(&own), false).expect("a page");
    own.files.reverse();
    own.name = "elsewhere".to_owned();
    assert_eq!(report_page(std::slice::from_ref(&own), false).expect("a page"), page);
    let chart = own.files.iter_mut().find(|file| file.name == CHART).expect("the chart");
    chart.bytes = b"<svg onload=\"alert(1)\"><script>alert(1)</script></svg>".to_vec();
    let page = report_page(std::slice::from_ref(&own), false).expect("a page");
    assert!(page.contains("latency-vs-memory.svg is not shown: line 1 is not one of"), "{page}");
    read(&page);
    own.files.retain(|file| file.name != CHART);
    let page = report_page(std::slice::from_ref(&own), false).expect("a page");
    assert!(page.contains("the folder has no latency-vs-memory.svg"));
    own.files.clear();
    let none = report_page(&[own], false).expect_err("no summary");
    assert_eq!(none.to_string(), "elsewhere/summary.json: there is none");
}

#[test]
fn pieces_of_memory_are_a_map_by_size() {
    let json = summary_json(&common::training(), "0").expect("a summary");
    let mut summary: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(!page_of_summary(&summary).contains("Allocation map"), "no case has an allocator");
    let case = &mut summary["results"][1];
    let label = case["label"].as_str().expect("a label").to_owned();
    case["allocators"] = serde_json::json!([{
        "tier": "hbm", "allocator": "size classes", "peak_allocated_bytes": 1 << 30,
        "peak_reserved_bytes": 3u64 << 30, "external_end": 0.25, "internal_end": 0.125,
        "total_end": 0.1875, "free_pieces": { "2097152": 3, "512": 19, "1073741824": 1 },
        "buckets": [{ "slot_bytes": 1536, "live": 2, "slots": 8 }],
    }]);
    let page = page_of_summary(&summary);
    let document = read(&page);
    let found = rows(&document, "Allocators");
    let row = |name: &str| found[0][name].as_str();
    assert_eq!((found.len(), row("case")), (1, &label[..]));
    assert_eq!((row("peak live"), row("peak reserved")), ("1.00 GiB", "3.00 GiB"));
    let shares = (row("external"), row("internal"), row("total"));
    assert_eq!(shares, ("25.0 %", "12.5 %", "18.8 %"));
    assert_eq!(row("free pieces by size"), "19 of 512 B, 3 of 2 MiB, 1 of 1 GiB");
    assert_eq!(row("slots taken by size"), "2/8 of 1.50 KiB");
}

fn page_of_summary(summary: &serde_json::Value) -> String {
    let files = vec![Artefact::new(SUMMARY, summary.to_string())];
    report_page(&[ResultFolder { name: String::new(), files }], false).expect("a page")
}
