//! The page against the files that it is made of, and against files that are none.

use super::folder::{CHART, MOST_ROWS};
use super::summary::Summary;
use super::*;
use crate::json::summary_json;
use crate::measure::Measure;
use crate::words::clean;
use crate::{Detail, common, results_csv, text};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use tiersim_models::results::RunRecord;
use tiersim_models::results::economics::{Basis, Cost};
use tiersim_models::results::served::{RequestFigures, ServingFigures};
use tiersim_models::units::{Span, Time};

mod comparison;

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
    let mut one = common::training();
    let mut other = one.clone();
    assert_eq!(other.results[2].label, "LRU 48 GiB");
    other.results[2].outcome = common::done(1236.8, 47.8);
    other.results.pop();
    for case in one.results.iter_mut().chain(&mut other.results) {
        case.bound_step = Span::from_ps(309_200_000_000);
    }
    let folders = [folder("out/a", &one), folder("out/b", &other)];
    let page = report_page(&folders, true).expect("a page");
    let document = read(&page);
    let table = rows(&document, "Cases side by side");
    let cell = |case: &str, figure: &str, of: &str| {
        let own = |row: &&BTreeMap<String, String>| row["case"] == case && row["figure"] == figure;
        table.iter().find(own).unwrap_or_else(|| panic!("{case}, {figure}"))[of].clone()
    };
    let of = |case: &str, figure: &str| cell(case, figure, "second against first");
    // As on every other page in per cent.
    let over = "step over the bound, %";
    let shares = ["a", "b"]
        .map(|folder| cell("LRU 48 GiB", over, &format!("{} (out/{folder})", one.scenario)));
    assert_eq!(shares, ["100", "300"]);
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

/// Each machine has its own numbers, and a figure is said to be of the machine that it is of.
#[test]
fn of_several_machines_each_has_its_sources() {
    let record = common::machines();
    let page = page(&record);
    let document = read(&page);
    let text = said(document.root());
    for (index, machine) in ["h100-sxm", "b200-sxm", "rubin-sxm"].iter().enumerate() {
        let assumed = format!("{} numbers are assumed among those of {machine} ", 4 + index);
        assert!(text.contains(&assumed), "{assumed}");
        let own = machine.strip_suffix("-sxm").expect("it ends so");
        for caption in ["Assumed numbers of ", "Numbers of power and price of "] {
            let rows = rows(&document, &format!("{caption}{machine}"));
            assert_eq!(rows[0]["value"], format!("{own}'s"), "{caption}{machine}");
        }
    }
    assert!(text.contains("three-machines, a run"), "axes of machines are no sweep");
    let folders = [folder("a", &record), folder("b", &common::training())];
    let page = report_page(&folders, false).expect("a page");
    let table = rows(&read(&page), "What was run");
    let of = |name: &str| {
        let row = table.iter().find(|row| row["of"] == name);
        row.unwrap_or_else(|| panic!("{name}"))["three-machines"].clone()
    };
    assert_eq!(of("hardware"), "h100-sxm, b200-sxm, rubin-sxm");
    assert_eq!(of("assumed numbers"), "4 of h100-sxm, 5 of b200-sxm, 6 of rubin-sxm");
    assert_eq!(of("best"), "all-hbm [machine=rubin] on rubin-sxm");
    let summary = summary_json(&record, "0").expect("a summary");
    let overview = crate::overview("a", summary.as_bytes()).expect("an overview");
    assert_eq!(overview.hardware, "rubin-sxm (of 3 machines)");
}

/// Emulated cases may be quicker than all that stand before them.
#[test]
fn what_is_called_quickest_is_so_with_emulated_cases_apart() {
    let mut record = common::sweep();
    for case in &mut record.results {
        case.emulated = case.details.ends_with("in place");
    }
    let ran = |emulated: bool| {
        let ran = record.results.iter().filter(|case| case.outcome.figures().is_some());
        ran.filter(|case| case.emulated == emulated).count()
    };
    let (paying, apart) = (ran(false), ran(true));
    let text = said(read(&page(&record)).root());
    let of_bars = format!(
        "Quickest first: 24 of {paying} cases that pay for every access, then 0 of {apart} emulated \
         ones; the others"
    );
    assert!(text.contains(&of_bars), "{of_bars}");
    let of_rows = format!(
        "Quickest first: {paying} of {paying} cases that pay for every access, then {} of {apart} \
         emulated ones, then 0 of 12 out of memory; all",
        300 - paying
    );
    assert!(text.contains(&of_rows), "{of_rows}");
    assert!(text.contains("emulated cases, which do not, may lie below it"));
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

/// A dash in a table has a reason, and what is of the whole run is not called that of a step.
#[test]
fn sums_that_are_missing_have_a_reason_and_captions_say_over_what() {
    let mut record = common::machines();
    for case in record.results.iter_mut().take(2) {
        case.economics.cost = Cost {
            basis: Basis { missing: vec!["host.price".into()], ..Basis::default() }.into(),
            ..Cost::default()
        }
        .into();
    }
    let page = page(&record);
    let document = read(&page);
    let text = said(document.root());
    assert!(text.contains("Note: 2 cases have no sum of price, for nobody states host.price."));
    let captions: Vec<String> = named(document.root(), "caption").into_iter().map(said).collect();
    let stated = |caption: &str| captions.iter().any(|own| own == caption);
    assert!(stated("Time of every case, per measured step"), "{captions:?}");
    assert!(stated("Memory of every case: peaks of the whole run, times per measured step"));
}

/// Whoever cannot see a chart, or has no pointer, is told what there is and can scroll it.
#[test]
fn charts_are_described_and_can_be_scrolled_with_a_keyboard() {
    let page = page(&common::sweep());
    let document = read(&page);
    let boxes = document.descendants().filter(|node| node.attribute("class") == Some("chart"));
    let boxes: Vec<Node> = boxes.collect();
    assert!(boxes.len() >= 3, "{}", boxes.len());
    for shown in boxes {
        assert_eq!(shown.attribute("tabindex"), Some("0"));
        let title = said(named(shown, "title")[0]);
        assert_eq!(shown.attribute("aria-label"), Some(&title[..]));
        let about = said(named(shown, "desc")[0]);
        assert!(about.len() >= 60 && about.ends_with('.'), "{about}");
    }
}

/// The bound is one of steps, and there is none of what a request waits for.
#[test]
fn what_is_said_of_a_bound_is_said_of_steps() {
    let mut record = common::training();
    for case in &mut record.results {
        case.bound_step = Span::from_ps(400_000_000_000);
    }
    let labels = |record: &RunRecord| -> Vec<String> {
        let page = page(record);
        let document = read(&page);
        let labels = document.descendants().filter_map(|node| node.attribute("aria-label"));
        labels.filter(|label| label.contains("peak hbm")).map(str::to_owned).collect()
    };
    let of_steps = labels(&record);
    assert!(!of_steps.is_empty());
    let bound = "% over the bound of the step; ";
    assert!(of_steps.iter().all(|label| label.contains(bound)), "{of_steps:?}");
    for figures in record.results.iter_mut().filter_map(|case| case.outcome.figures_mut()) {
        let request = RequestFigures {
            arrival: Time::ZERO,
            output: 2,
            queued: Span::ZERO,
            first_token: Span::from_ps(7_000_000_000),
            latency: Span::from_ps(9_000_000_000),
        };
        let requests = vec![request];
        figures.serving = Some(Box::new(ServingFigures { requests, ..ServingFigures::default() }));
    }
    let of_requests = labels(&record);
    assert!(of_requests.iter().all(|label| label.contains("TTFT 7.00 ms")), "{of_requests:?}");
    assert!(of_requests.iter().all(|label| !label.contains("bound")), "{of_requests:?}");
    let text = said(read(&page(&record)).root());
    assert!(text.contains("Times are those of requests, of which no bound is known."));
    assert!(text.contains("Means: TTFT 7.00 ms"), "steps are not what is shown");
}
