//! The comparison of folders of which one lacks a case, of which a case is out of memory, and of
//! more cases than a table has rows.

use super::super::compared::{Cell, Row};
use super::*;

/// The table of a comparison, with the rows of its file that stand out.
struct Compared {
    rows: Vec<BTreeMap<String, String>>,
    marked: Vec<bool>,
    text: String,
}

/// How the second of two figures at a path is said to differ from the first.
fn change(path: &str, texts: [&str; 2]) -> String {
    let cells = texts.map(|text| Cell::Figure(text.to_owned())).to_vec();
    Row::new(["case", path], cells, None).at(path).change().expect("two results")
}

#[test]
fn shares_and_figures_in_per_cent_differ_by_points() {
    for (path, texts, said) in [
        ("throughput_change_percent", ["-92.23", "-91.66"], "+0.57 points"),
        ("throughput_change_percent", ["-91.66", "-92.23"], "-0.57 points"),
        ("throughput_change_percent", ["0.0", "-10.5"], "-10.50 points"),
        ("gap_to_bound", ["0.25", "0.5"], "+25.00 points"),
        ("hit_ratio", ["0.8", "0.85"], "+5.00 points"),
        ("busy_fraction.pcie", ["0.5", "0.4"], "-10.00 points"),
        ("steady.drift", ["-0.001", "0.002"], "+0.30 points"),
        // Others are shares of the first, if that says which way it goes.
        ("step_ms.mean", ["2", "3"], "+50.00 %"),
        ("step_ms.mean", ["2", "0"], "-100.00 %"),
        ("step_ms.mean", ["2", "30"], "15.0 times"),
        ("slowdown", ["1.5", "1.2"], "-20.00 %"),
        ("other", ["-2", "-3"], "differs"),
        ("other", ["2", "-3"], "differs"),
        ("other", ["0", "3"], "differs"),
    ] {
        assert_eq!(change(path, texts), said, "{path} {texts:?}");
    }
}

#[test]
fn a_gap_differs_by_the_same_in_both_tables() {
    let mut one = common::training();
    let mut other = one.clone();
    one.results[2].bound_step = Span::from_ps(200_000_000_000);
    other.results[2].bound_step = Span::from_ps(300_000_000_000);
    let folders = [folder("a", &one), folder("b", &other)];
    let document = report_page(&folders, true).expect("a page");
    let document = read(&document);
    let of = |table: &str, figure: &str| {
        let rows = rows(&document, table);
        let own = rows.iter().find(|row| row["case"] == "LRU 48 GiB" && row["figure"] == figure);
        own.expect("a row")["second against first"].clone()
    };
    let differs = of("Figures of summary.json that differ", "gap_to_bound");
    assert_eq!(differs, of("Cases side by side", "step over the bound, %"));
    assert!(differs.starts_with('-') && differs.ends_with(" points"), "{differs}");
}

fn compared(folders: &[(&str, &RunRecord)]) -> Compared {
    let folders: Vec<ResultFolder> =
        folders.iter().map(|(name, record)| folder(name, record)).collect();
    let page = report_page(&folders, false).expect("a page");
    let document = read(&page);
    let mut tables = named(document.root(), "table").into_iter();
    let own = |table: &Node| said(named(*table, "caption")[0]).starts_with("Cases side by side");
    let body = named(tables.find(own).expect("the table"), "tbody")[0];
    let stands_out = |row: Node| {
        let mut cells = row.children().filter_map(|cell| cell.attribute("class"));
        cells.any(|class| class.contains("differs"))
    };
    Compared {
        rows: rows(&document, "Cases side by side"),
        marked: named(body, "tr").into_iter().map(stands_out).collect(),
        text: said(document.root()),
    }
}

impl Compared {
    /// The rows of a case: figure, what each has, the change; and whether it stands out.
    fn of(&self, case: &str) -> Vec<(Vec<String>, bool)> {
        let own = self.rows.iter().zip(&self.marked).filter(|(row, _)| row["case"] == case);
        own.map(|(row, &marked)| {
            let mut cells = vec![row["figure"].clone()];
            let others = row.iter().filter(|(of, _)| !["case", "figure"].contains(&of.as_str()));
            cells.extend(others.map(|(_, cell)| cell.clone()));
            (cells, marked)
        })
        .collect()
    }
}

#[test]
fn what_is_out_of_memory_is_told_from_what_is_not_there() {
    let mut one = common::training();
    let mut other = one.clone();
    let oom = |record: &RunRecord| {
        let mut cases = record.results.iter().map(|case| case.outcome.clone());
        cases.find(|outcome| outcome.figures().is_none()).expect("a case is out of memory")
    };
    assert_eq!(other.results[2].label, "LRU 48 GiB");
    other.results[2].outcome = oom(&one);
    let gone = other.results.pop().expect("cases").label;
    one.results[1].outcome = oom(&one);
    other.results[1].outcome = oom(&one);
    let table = compared(&[("a", &one), ("b", &other)]);
    let failed = table.of("LRU 48 GiB");
    assert_eq!(&failed[0].0[2..], ["out of memory", "differs"]);
    assert!(failed[0].1, "{failed:?}");
    // Once is enough; what is known of it all the same is compared.
    let more = failed[1..].iter().filter(|(cells, _)| cells[2] == "out of memory");
    let more: Vec<_> = more.map(|(cells, marked)| (cells[3].as_str(), *marked)).collect();
    assert!(more.len() > 1 && more.iter().all(|row| *row == ("-", false)), "{failed:?}");
    let both = table.of(&one.results[1].label);
    assert_eq!(&both[0].0[1..], ["out of memory", "out of memory", "equal"]);
    assert!(both.iter().all(|(_, marked)| !marked), "{both:?}");
    let missing = table.of(&gone);
    assert_eq!((missing.len(), missing[0].1), (1, true), "{missing:?}");
    assert_eq!(&missing[0].0[2..], ["not there", "differs"]);
}

#[test]
fn changed_parameters_of_a_policy_are_a_row_of_their_own() {
    let one = common::training();
    let mut other = one.clone();
    other.results[2].details += ", prefetch 4";
    let table = compared(&[("a", &one), ("b", &other)]);
    let rows = table.of("LRU 48 GiB");
    let (cells, marked) = &rows[1];
    assert_eq!(cells[0], "policy and its parameters", "{rows:?}");
    assert!(cells[2].ends_with(", prefetch 4") && cells[3] == "differs" && *marked, "{cells:?}");
    let same = table.of("LRU 64 GiB");
    assert!(same.iter().all(|(cells, marked)| cells[0] != "policy and its parameters" && !marked));
    // The unit is that of the results.
    let unit = |cells: &Vec<String>| cells[0] == "throughput, tokens/s";
    assert!(same.iter().any(|(cells, _)| unit(cells)), "{same:?}");
}

#[test]
fn rows_are_shared_between_cases_and_folders() {
    let mut one = common::training();
    let ran = one.results[1].clone();
    let named = |of: &str, count: usize| {
        let case = |at: usize| {
            let mut case = ran.clone();
            (case.label, case.policy) = (format!("{of} {at}"), format!("{of} {at}"));
            case
        };
        (0..count).map(case).collect::<Vec<_>>()
    };
    let mut other = one.clone();
    one.results = [named("both", 200), named("first", 200)].concat();
    other.results = [named("both", 200), named("second", 200)].concat();
    let table = compared(&[("a", &one), ("b", &other)]);
    assert_eq!(table.rows.len(), MOST_ROWS);
    for of in ["both", "first", "second"] {
        let own = table.rows.iter().filter(|row| row["case"].starts_with(of)).count();
        assert_eq!(own, MOST_ROWS / 3, "{of}");
    }
    assert!(table.text.contains("in the results.csv of its own folder"));
}
