//! docs/howto/learned-policies.md: rows of its tables are what the commands of the page print, and
//! what it says of the tables is in them.
//!
//! Invariant: a row is run here, or stands in [`LEFT_OUT`] with the reason.

use crate::common::*;
use crate::documented::extract::commands;

const PAGE: &str = "docs/howto/learned-policies.md";

/// Workloads of rows that are not run, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("varying-sequence", "21 cases of it take ten seconds, optimized"),
    ("BERT, batch 256", "its tables do not ship"),
    ("ViT, batch 1280", "its tables do not ship"),
];

/// A table of slowdowns: the scenario of its rows, how many columns compete for the bold figure, and
/// the first words of its rows' header.
struct Kind {
    scenario: &'static str,
    compete: usize,
    header: &'static str,
}

const WRITTEN: Kind = Kind {
    scenario: "scenarios/learned-against-written.ron",
    compete: 5,
    header: "| workload | HBM | scored ",
};
const PLACED: Kind = Kind {
    scenario: "scenarios/learned-placement.ron",
    compete: 3,
    header: "| workload | HBM | learned ",
};

fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The names of a table's columns of figures, and its rows: workload, share, figures.
fn table(page: &str, header: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = page.lines().skip_while(|line| !line.starts_with(header));
    let columns = cells(lines.next().expect("the table")).split_off(2);
    (columns, lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect())
}

fn value(cell: &str) -> f64 {
    cell.trim_matches('*').parse().unwrap_or_else(|_| panic!("{cell:?} is no number"))
}

/// The figures of a row as the page has them, from the results of its command.
fn figures(summary: &Value, columns: &[String], share: &str, compete: usize) -> Vec<String> {
    let results = summary["results"].as_array().expect("a list");
    let case = |name: &str| {
        let label = format!("{name} {share}");
        let own = results.iter().find(|case| case["label"] == label.as_str());
        own.unwrap_or_else(|| panic!("no case {label}"))
    };
    let number = |case: &Value, key: &str| case[key].as_f64().expect("a number");
    let of = |column: &String| match column.as_str() {
        "density" => number(case("density of modules"), "slowdown"),
        "bound" => {
            let case = case("learned");
            number(case, "bound_step_ms") / number(case, "baseline_step_ms")
        }
        name => number(case(name), "slowdown"),
    };
    let all: Vec<String> = columns.iter().map(|column| format!("{:.2}", of(column))).collect();
    let least = all[..compete].iter().map(|text| value(text)).fold(f64::INFINITY, f64::min);
    let bold = |(at, text): (usize, &String)| match at < compete && value(text) == least {
        true => format!("**{text}**"),
        false => text.clone(),
    };
    all.iter().enumerate().map(bold).collect()
}

/// Runs the commands of a table's rows and compares; returns what was run.
fn compare(kind: &Kind) -> BTreeMap<String, Value> {
    let page = page(PAGE);
    let (columns, rows) = table(&page, kind.header);
    let project = Project::shipped();
    let mut ran: BTreeMap<String, Value> = BTreeMap::new();
    for command in commands(PAGE, &page) {
        let left_out = LEFT_OUT.iter().any(|(workload, _)| *workload == command.comment);
        if command.words.get(2).map(String::as_str) != Some(kind.scenario) || left_out {
            continue;
        }
        let mut args: Vec<&str> = command.words[1..].iter().map(String::as_str).collect();
        args.extend(["--no-png", "--format", "json"]);
        let summary = project.run(&args).ends_with(0).json();
        assert!(ran.insert(command.comment.clone(), summary).is_none(), "{}", command.comment);
    }
    for row in &rows {
        let [workload, share, shown @ ..] = &row[..] else { panic!("{row:?}") };
        let Some(summary) = ran.get(workload) else {
            let known = LEFT_OUT.iter().any(|(left, _)| left == workload);
            assert!(known, "{PAGE} has no command whose comment is `{workload}`");
            continue;
        };
        let own = figures(summary, &columns, share, kind.compete);
        assert_eq!(shown, own, "{PAGE}: {workload} with {share}");
    }
    assert!(ran.keys().all(|name| rows.iter().any(|row| row[0] == *name)), "{:?}", ran.keys());
    ran
}

#[test]
fn rows_of_scored_are_what_their_commands_print() {
    let ran = compare(&WRITTEN);
    assert_eq!(ran.len(), 4);
    // Below is the mean of each against LRU.
    let (_, means) = table(&page(PAGE), "| workload | shipped ");
    for (workload, summary) in &ran {
        let workload = workload.trim_end_matches(", trained on");
        let Some(row) = means.iter().find(|row| row[0] == workload) else { continue };
        let results = summary["results"].as_array().expect("a list");
        let slowdown = |name: &str, share: &str| {
            let label = format!("{name} {share} %");
            let own = results.iter().find(|case| case["label"] == label.as_str());
            own.and_then(|case| case["slowdown"].as_f64()).expect("a slowdown")
        };
        let of = |share: &str| slowdown("scored", share) / slowdown("lru", share);
        let mean = ["30", "50", "70"].map(of).iter().product::<f64>().cbrt();
        assert_eq!(row[1], format!("{mean:.2}"), "{workload}");
    }
}

#[test]
fn rows_of_placements_are_what_their_commands_print() {
    assert_eq!(compare(&PLACED).len(), 6);
}

/// Sentences count rows of the tables above them.
#[test]
fn what_the_page_counts_is_in_its_tables() {
    let page = page(PAGE);
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let numbers = |row: &Vec<String>| row[2..].iter().map(|cell| value(cell)).collect::<Vec<_>>();
    let (_, rows) = table(&page, WRITTEN.header);
    let written: Vec<Vec<f64>> = rows.iter().map(numbers).collect();
    let count = |holds: fn(&[f64]) -> bool| written.iter().filter(|row| holds(row)).count();
    let all = written.len();
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let lost = written.iter().filter(|row| row[0] > least(&row[1..5]));
    let most = written.iter().map(|row| row[0] / least(&row[1..5])).fold(0.0, f64::max);
    let (_, rows) = table(&page, PLACED.header);
    let unseen = rows.iter().filter(|row| !row[0].ends_with("trained on"));
    let placed: Vec<Vec<f64>> = unseen.map(numbers).collect();
    let quicker = placed.iter().filter(|row| row[0] < row[2]).count();
    for said in [
        format!("it loses in {} of {all} rows", lost.count()),
        format!("by up to {:.0} % (ViT, 30 %)", (most - 1.0) * 100.0),
        format!("It beats Belady in {} of {all} rows", count(|row| row[0] < row[5])),
        format!(
            "is the fastest in {} of {all} rows",
            count(|row| row[..6].iter().all(|other| row[6] < *other))
        ),
        format!("it is faster in {quicker} of {} rows", placed.len()),
    ] {
        assert!(text.contains(&said), "{PAGE} lacks: {said}");
    }
}
