//! `docs/explanation/accuracy.md` holds the figures of the runs below `validation/results`, all of
//! them and no others.

use serde_json::Value;
use tiersim_tests::files::{folders, page, root};
use tiersim_tests::prelude::*;

const NONE_YET: &str = "No number for any GPU has been measured yet.";

fn name(path: &Path) -> String {
    path.file_name().expect("it has a name").to_string_lossy().into_owned()
}

/// Every comparison of every run: the run's name and the document. Where there is one of all
/// scenarios together, the ones below it are parts of it; a run that did not come to its end has
/// only those.
fn comparisons(results: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for run in folders(results) {
        for folder in folders(&run).iter().filter(|folder| name(folder).starts_with("validate")) {
            let all = folder.join("validation.json");
            let parts = folders(folder).into_iter().map(|part| part.join("validation.json"));
            let files = if all.is_file() { vec![all] } else { parts.collect() };
            for file in files {
                let text = fs::read_to_string(&file).expect("it is there");
                let json = serde_json::from_str(&text);
                let json = json.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                found.push((name(&run), json));
            }
        }
    }
    found
}

fn percent(share: &Value) -> String {
    let share = share.as_f64().expect("a share");
    format!("{:.1} %", share * 100.0)
}

/// The rows that a comparison has in the table.
fn rows(run: &str, json: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let mut specs: Vec<String> = Vec::new();
    for scenario in list(&json["scenarios"]) {
        let numbers = scenario["numbers"].as_object().expect("counts");
        let known = numbers.iter().filter(|(_, count)| **count != 0);
        let known: Vec<String> = known.map(|(word, count)| format!("{count} {word}")).collect();
        let spec = format!("{} ({})", word(&scenario["hardware"]), known.join(", "));
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    let errors = list(&json["overall"]);
    let scenarios = list(&json["scenarios"]);
    let only = match &scenarios[..] {
        [only] if only["scenario"].is_string() => format!(", {}", word(&only["scenario"])),
        _ => String::new(),
    };
    let row = |errors: &Value| {
        let steps = errors["of"] == "steps";
        let spread = match &json["step_spread"]["median"] {
            share if steps && share.is_number() => percent(share),
            _ => "-".to_owned(),
        };
        format!(
            "| [{run}](../../validation/results/{run}/README.md){only} | {} | {} | {} | {} | {} | {} | {} | {spread} |",
            word(&json["machine"]),
            specs.join(", "),
            word(&errors["of"]),
            errors["count"],
            percent(&errors["median"]),
            percent(&errors["p95"]),
            percent(&errors["max"]),
        )
    };
    errors.iter().map(row).collect()
}

/// The rows of the page's table.
fn written(page: &str) -> Vec<String> {
    page.lines()
        .filter(|line| line.starts_with("| [") && line.contains("](../../validation/results/"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_table_holds_the_figures_of_every_run_and_no_others() {
    let page =
        fs::read_to_string(root().join("docs/explanation/accuracy.md")).expect("the page is there");
    let comparisons = comparisons(&root().join("validation/results"));
    let expected: Vec<String> =
        comparisons.iter().flat_map(|(run, json)| rows(run, json)).collect();
    let (expected, found) = (expected.join("\n"), written(&page).join("\n"));
    assert_eq!(found, expected, "the rows of docs/explanation/accuracy.md must be:\n{expected}\n");
    let measured_a_gpu = comparisons.iter().any(|(_, json)| json["machine"] == "cuda");
    assert_eq!(page.contains(NONE_YET), !measured_a_gpu, "{NONE_YET:?}");
}

/// What the first pages say of all cases that fitted a GPU.
#[test]
fn as_many_cases_agreed_as_the_first_pages_say() {
    let on_gpus = comparisons(&root().join("validation/results"))
        .into_iter()
        .filter(|(_, json)| json["machine"] == "cuda");
    let cases = on_gpus.flat_map(|(_, json)| json["cases"].as_array().expect("cases").clone());
    let ran: Vec<Value> = cases.filter(|case| case["fits"] == true).collect();
    assert!(ran.iter().all(|case| case["agree"] == true && case["mismatches"] == 0));
    let said = format!("all {} cases that were tried agreed", ran.len());
    for name in ["README.md", "docs/explanation/trust.md"] {
        assert!(page(name).contains(&said), "{name} must say: {said}");
    }
}

#[test]
fn every_result_is_a_run_of_which_all_is_kept() {
    for run in folders(&root().join("validation/results")) {
        for file in ["README.md", "environment.txt", "steps.txt"] {
            assert!(run.join(file).is_file(), "{}: no {file}", run.display());
        }
        let readme = fs::read_to_string(run.join("README.md")).expect("it is text");
        assert!(readme.contains("| commit |"), "{}: of which commit?", run.display());
    }
}

#[test]
fn rows_are_made_of_what_validate_writes() {
    let json = serde_json::json!({
        "machine": "host",
        "step_spread": { "median": 0.012, "max": 0.5 },
        "overall": [
            { "of": "steps", "count": 42, "median": 0.0314, "p95": 0.09, "max": 1.5 },
            { "of": "ops", "count": 7, "median": 0.5, "p95": 0.5, "max": 0.5 },
        ],
        "scenarios": [
            { "hardware": "a", "numbers": { "measured": 3, "datasheet": 0, "assumed": 2 } },
            { "hardware": "a", "numbers": { "measured": 3, "datasheet": 0, "assumed": 2 } },
        ],
    });
    let run = "| [r](../../validation/results/r/README.md) | host | a (3 measured, 2 assumed)";
    let expected = [
        format!("{run} | steps | 42 | 3.1 % | 9.0 % | 150.0 % | 1.2 % |"),
        format!("{run} | ops | 7 | 50.0 % | 50.0 % | 50.0 % | - |"),
    ];
    assert_eq!(rows("r", &json), expected);
    assert_eq!(written(&expected.join("\n")), expected);
}

/// Mean steps of every policy on a recorded step, predicted and measured, of a run.
fn policies(run: &str) -> Vec<(f64, f64)> {
    let mean = |case: &Value, key: &str| {
        let times = case["times"].as_array().expect("times").iter();
        let steps = times.filter(|time| time["class"] == "step");
        let steps: Vec<f64> = steps.map(|step| step[key].as_f64().expect("a time")).collect();
        steps.iter().sum::<f64>() / steps.len() as f64
    };
    let all = comparisons(&root().join("validation/results"));
    let of_run = all.iter().filter(|(name, _)| name == run);
    let cases = of_run.flat_map(|(_, json)| json["cases"].as_array().expect("cases"));
    cases
        .filter(|case| case["scenario"] == "zoo-train")
        .map(|case| (mean(case, "predicted_ms"), mean(case, "measured_ms")))
        .collect()
}

/// A simulator is asked which policy is best: of all pairs of which it says that one is better, how
/// many are in the order of the device?
#[test]
fn policies_are_in_the_measured_order() {
    let ran = policies("2026-11-28-nvidia-h200");
    let (mut all, mut other_way, mut apart, mut apart_other_way) = (0, 0, 0, 0);
    for one in &ran {
        for other in ran.iter().filter(|other| other.0 > one.0) {
            let (wrong, far) = (other.1 <= one.1, other.0 > 1.1 * one.0);
            all += 1;
            other_way += i32::from(wrong);
            apart += i32::from(far);
            apart_other_way += i32::from(wrong && far);
        }
    }
    let gamma = 1.0 - 2.0 * f64::from(other_way) / f64::from(all);
    let said = format!(
        "Of the {all} pairs of {} policies of which one is said to be better, {other_way} are the \
         other way round (Goodman and Kruskal's gamma {gamma:.2}); of the {apart} \
         whose predictions are more than 10 % apart, {apart_other_way} are.",
        ran.len(),
    );
    let page = page("docs/explanation/accuracy.md").replace("\n  ", " ");
    assert!(page.contains(&said), "the page must say: {said}");
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// From the least to the largest of a column, as the summary writes it.
fn span(rows: &[Vec<&str>], column: usize, signed: bool) -> String {
    let number = |row: &Vec<&str>| -> f64 {
        row[column].trim_end_matches(" %").parse().expect("a share in per cent")
    };
    let least = rows.iter().map(number).fold(f64::INFINITY, f64::min);
    let most = rows.iter().map(number).fold(f64::NEG_INFINITY, f64::max);
    if signed {
        // A zero keeps the sign that its row has.
        let shown = |wanted: f64| {
            let row = rows.iter().find(|row| number(row) == wanted).expect("it is one of them");
            row[column].trim_end_matches(" %").to_owned()
        };
        return format!("{} to {} %", shown(least), shown(most));
    }
    format!("{least:.1} to {most:.1} %")
}

#[test]
fn the_summary_is_that_of_the_tables_below() {
    let page = page("docs/explanation/accuracy.md");
    let of_ops = |kind: &dyn Fn(&[&str]) -> bool| -> Vec<Vec<&str>> {
        let tables = ["gemm", "attention-prefill", "attention-decode", "moe", "nccl"];
        let rows = page.lines().map(cells).filter(|row| row.len() == 7 && tables.contains(&row[1]));
        rows.filter(|row| kind(row)).collect()
    };
    let of_runs = |what: &str| -> Vec<Vec<&str>> {
        let rows = page.lines().filter(|line| line.starts_with("| [")).map(cells);
        rows.filter(|row| row.len() == 9 && row[1] == "cuda" && row[3] == what).collect()
    };
    let sum = |rows: &[Vec<&str>], column: usize| -> u64 {
        rows.iter().map(|row| row[column].parse::<u64>().expect("a count")).sum()
    };
    let ops = [
        ("products", of_ops(&|row| row[1] == "gemm")),
        ("attention to prompts", of_ops(&|row| row[2].starts_with("prefill"))),
        ("attention in decoding", of_ops(&|row| row[1] == "attention-decode")),
        ("experts", of_ops(&|row| row[1] == "moe")),
        ("collectives", of_ops(&|row| row[1] == "nccl")),
    ];
    for (kind, rows) in ops {
        let (median, p95) = (span(&rows, 4, false), span(&rows, 5, false));
        let (count, bias) = (sum(&rows, 3), span(&rows, 6, true));
        let row = format!("| {kind} | {count} | {median} | {p95} | {bias} |");
        assert!(
            page.contains(&row),
            "the summary of docs/explanation/accuracy.md must have:\n{row}"
        );
    }
    let blocks = page.lines().filter(|line| line.contains(" | block, held out | ")).map(cells);
    let blocks: Vec<Vec<&str>> = blocks.collect();
    let (median, p95) = (span(&blocks, 3, false), span(&blocks, 4, false));
    let (count, bias) = (sum(&blocks, 2), span(&blocks, 5, true));
    let row = format!("| kernels of a block, summed | {count} | {median} | {p95} | {bias} |");
    assert!(page.contains(&row), "the summary of docs/explanation/accuracy.md must have:\n{row}");
    for (kind, what) in [("copies between tiers", "copies"), ("steps on real GPUs", "steps")] {
        let rows = of_runs(what);
        let (median, p95) = (span(&rows, 5, false), span(&rows, 6, false));
        let row = format!("| {kind} | {} | {median} | {p95} | - |", sum(&rows, 4));
        assert!(
            page.contains(&row),
            "the summary of docs/explanation/accuracy.md must have:\n{row}"
        );
    }
    for (kind, of) in [
        ("published training steps", "A100,"),
        ("published offloaded inference", "OPT-30B,"),
        ("accelerate on an H200", "| accelerate, "),
        ("training that offloads, H200", "| Llama 3.2 1B, "),
        ("both on an H100", "| on an H100, "),
        ("modules where hints say, in PyTorch", "| in PyTorch, "),
    ] {
        let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(of));
        let errors = rows.filter_map(|line| cells(line)[3].strip_suffix(" %")?.parse().ok());
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let median = |of: &[f64]| (of[(of.len() - 1) / 2] + of[of.len() / 2]) / 2.0;
        let row = format!(
            "| {kind} | {} | {:.1} % | {:.1} % | {:+.1} % |",
            errors.len(),
            median(&sizes),
            sizes[sizes.len() - 1],
            median(&errors)
        );
        assert!(
            page.contains(&row),
            "the summary of docs/explanation/accuracy.md must have:\n{row}"
        );
    }
}
