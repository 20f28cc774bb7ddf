//! Keeps `docs/` true: its examples are read by the real readers, and it names every field,
//! word, column and key that exists.
//!
//! What exists is not listed here. The readers say it themselves when they meet a name that they
//! do not know, and the writers show it in what they write, so a new field that nobody described
//! fails this suite. Each name must stand in the section that is about its struct or table.

mod links;
mod places;
mod records;

use places::{CHOICES, STRUCTS};
use records::records;
use serde_json::Value;
use tiersim_input::hardware_file::parts::read_part;
use tiersim_input::hardware_file::read_hardware;
use tiersim_input::import::recording::import_recording;
use tiersim_input::op_times::read_op_times;
use tiersim_input::scenario::read::read_scenario;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_input::scenario::weights::read_weights;
use tiersim_input::text::quantity;
use tiersim_input::trace::read_trace;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_policies::zoo::Registry;
use tiersim_reports::{results_csv, summary_json};
use tiersim_tests::files::{own_project, page, pages, root, table};
use tiersim_tests::prelude::*;

/// The text between two marks.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let (_, behind) = text.split_once(from).unwrap_or_else(|| panic!("{from} is there"));
    behind.split_once(to).unwrap_or_else(|| panic!("{to} is behind {from}")).0
}

/// `tiersim.compare` of Python and the page of `report --compare` call the same figures shares.
#[test]
fn two_comparisons_call_the_same_figures_shares() {
    let reports = page("reports/src/report/compared.rs");
    let python = page("python/src/tiersim/results.py");
    let quoted = |text: &str| -> Vec<String> {
        text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let own = quoted(between(&reports, "const SHARES: ", "];"));
    assert!(!own.is_empty());
    assert_eq!(own, quoted(between(&python, "_SHARES = {", "}")));
}

/// A name that nothing has, and that is near to nothing.
const NOBODY: &str = "qqqqqqqq";

/// The pages on what files hold, one behind the other. What a policy takes comes last: its page
/// has a section on paging on demand, and the scenario's has one on policies.
fn formats() -> String {
    let names = ["language", "scenario", "workload", "hardware", "laws", "traces", "weights"];
    let names = names.into_iter().chain(["imports", "policies"]);
    names.map(|name| page(&format!("docs/reference/{name}.md"))).collect()
}

/// An empty folder of this suite's own.
fn empty_folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("docs").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the temporary folder can be made");
    folder
}

/// A project with the shipped machines, the hint file of the page and a folder where the shipped
/// trace is named: resolving a scenario does not look into it.
fn project(name: &str) -> PathBuf {
    let project = own_project(concat!(env!("CARGO_TARGET_TMPDIR"), "/docs"), name);
    for trace in ["gpt2-train-cpu", "gpt2-infer-cpu"] {
        let folder = project.join("traces").join(trace);
        fs::create_dir_all(folder).expect("a folder can be made");
    }
    let hints = blocks(&page("docs/reference/policies.md"), "json").pop().expect("a hint file");
    let written = ["tier_hints", "hints-80", "hints-60", "hints-30", "hints-30-50-20"];
    for name in written {
        write(&project.join(format!("scenarios/{name}.json")), &hints);
    }
    let own = blocks(&page("docs/howto/a-machine-that-does-not-exist-yet.md"), "ron");
    write(&project.join("scenarios/my-machine.ron"), &own[0]);
    project
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The fenced blocks of one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let starts = page.split(&fence).skip(1);
    starts.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The text below a heading, up to the next heading.
fn section(page: &str, heading: &str) -> String {
    let mut fenced = false;
    let mut found: Option<String> = None;
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        match &mut found {
            None if !fenced && line.trim_start_matches('#').trim() == heading => {
                found = Some(String::new());
            }
            Some(_) if !fenced && line.starts_with('#') => break,
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    found.unwrap_or_else(|| panic!("no heading {heading:?}"))
}

/// Notes every name that does not stand in backticks below the heading.
fn look_for(page: &str, heading: &str, names: &[String], missing: &mut Vec<String>) {
    assert!(!names.is_empty(), "{heading}: nothing to look for");
    let text = section(page, heading);
    for name in names {
        // `shares(...)` and `peak_bytes.<tier>` name their first word too.
        let stands = ["`", "(", ".<"].iter().any(|end| text.contains(&format!("`{name}{end}")));
        if !stands {
            missing.push(format!("`{name}` below {heading:?}"));
        }
    }
}

/// Every name that a reader knew where it found [`NOBODY`].
fn known(problems: &Diagnostics) -> Vec<String> {
    let about = |problem: &&tiersim_models::diagnostic::Diagnostic| {
        problem.rule.contains(NOBODY) && problem.remedy.contains("known: ")
    };
    let problem = problems.0.iter().find(about).unwrap_or_else(|| panic!("not met:\n{problems}"));
    let list = problem.remedy.split("known: ").nth(1).expect("a list");
    assert!(!list.ends_with("..."), "the list is cut: {list}");
    list.split(", ").map(str::to_owned).collect()
}

/// What every workload says alike, in the section of all workloads.
const RUN: [&str; 4] = ["time", "repeat", "warmup", "jitter"];

/// What the reader says of a file with `put` in its place.
fn said(text: &str, put: &str, file: &Path) -> Option<Diagnostics> {
    write(file, &text.replace('@', put));
    if text.starts_with("Hardware") {
        read_hardware(file).err()
    } else if text.starts_with("Part") {
        read_part(file).err()
    } else if text.starts_with("OpTimes") {
        read_op_times(file).err()
    } else if text.starts_with("Weights") {
        read_weights(file, &Registry::default()).err()
    } else {
        read_scenario(file, &[]).err()
    }
}

/// The fields of a variant, if it has named ones.
fn fields(text: &str, variant: &str, file: &Path) -> Vec<String> {
    let problems = said(text, &format!("{variant}({NOBODY}: 1)"), file);
    let problems = problems.expect("the file is not right");
    let met = problems.0.iter().any(|problem| problem.rule.contains("has no field"));
    if met { known(&problems) } else { Vec::new() }
}

#[test]
fn every_field_and_word_of_scenarios_and_hardware_is_described() {
    let page = formats();
    let file = project("words").join("scenarios/probe.ron");
    let mut missing = Vec::new();
    for &(heading, text) in STRUCTS {
        let problems = said(text, &format!("{NOBODY}: 1"), &file).expect("the file is not right");
        look_for(&page, heading, &known(&problems), &mut missing);
    }
    let mut policies_with_fields = 0;
    for &(heading, text) in CHOICES {
        let problems = said(text, NOBODY, &file).expect("the file is not right");
        let variants = known(&problems);
        let headed = |name: &String| {
            page.lines().any(|line| line == format!("## {name}") || line == format!("### {name}"))
        };
        let rows: Vec<String> = variants.iter().filter(|name| !headed(name)).cloned().collect();
        if !rows.is_empty() {
            look_for(&page, heading, &rows, &mut missing);
        }
        for variant in &variants {
            let fields = fields(text, variant, &file);
            // Policies and generated workloads have sections of their own; recorded ones share
            // the one above.
            let policy = heading == "Policies";
            policies_with_fields += usize::from(policy && !fields.is_empty());
            if variant == "Model" {
                let (shared, own): (Vec<_>, Vec<_>) =
                    fields.into_iter().partition(|field| RUN.contains(&&**field));
                look_for(&page, heading, &shared, &mut missing);
                look_for(&page, variant, &own, &mut missing);
            } else if !fields.is_empty() {
                let heading = if policy { variant } else { heading };
                look_for(&page, heading, &fields, &mut missing);
            }
        }
    }
    assert_eq!(policies_with_fields, 33, "policies whose fields are found");
    let sizes = ["Size", "Duration", "Bandwidth", "Flops", "Copies", "Drives", "Budget"];
    let economics = ["EnergyPerBit", "Power", "StandingPower", "Price", "PricePerSize"];
    for unit in sizes.into_iter().chain(economics) {
        let words = quantity::by_name(unit).expect("a unit").words;
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        look_for(&page, "Quantities", &words, &mut missing);
    }
    assert!(missing.is_empty(), "docs/reference lacks:\n  {}", missing.join("\n  "));
}

#[test]
fn every_example_is_read_by_the_real_reader() {
    let project = project("examples");
    let mut read = [0, 0, 0, 0, 0, 0];
    let readme = root().join("README.md");
    for path in pages().into_iter().chain([readme]) {
        let page_name = path.strip_prefix(root()).expect("a page").display().to_string();
        for (number, block) in blocks(&page(&page_name), "ron").iter().enumerate() {
            let file = project.join(format!("scenarios/{number}.ron"));
            write(&file, block);
            let place = format!("{page_name}, ron block {number}");
            let formats = ["Scenario(", "Hardware(", "Part(", "Weights(", "OpTimes("];
            let Some(format) = formats.iter().position(|word| block.starts_with(word)) else {
                continue;
            };
            let found = match format {
                0 => read_scenario(&file, &[]).map(drop),
                1 => read_hardware(&file).map(drop),
                2 => read_part(&file).map(drop),
                3 => read_weights(&file, &Registry::default()).map(drop),
                _ => read_op_times(&file).map(drop),
            };
            found.unwrap_or_else(|problems| panic!("{place}: {problems}"));
            read[format] += 1;
            if block.contains("sweep:") {
                read_sweep(&file, &[]).unwrap_or_else(|problems| panic!("{place}: {problems}"));
                read[5] += 1;
            }
        }
    }
    let least = [17, 5, 1, 1, 1, 4];
    assert!(read.iter().zip(least).all(|(read, least)| *read >= least), "{read:?} of {least:?}");
}

#[test]
fn the_trace_of_the_examples_is_read_by_the_real_reader() {
    let page = formats();
    let folder = empty_folder("tiny");
    let header = section(&page, "`trace.ron`");
    write(&folder.join("trace.ron"), &blocks(&header, "ron").concat());
    for table in ["objects.csv", "ops.csv", "uses.csv"] {
        let rows = blocks(&section(&page, &format!("`{table}`")), "csv").concat();
        write(&folder.join(table), &rows);
    }
    let trace = read_trace(&folder).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(trace.uses.len(), 2);
}

/// Names in a list of ron's own, such as ``expected one of `a`, `b` or `c` instead``.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_field_and_column_of_traces_and_recordings_is_described() {
    let page = formats();
    let mut missing = Vec::new();
    let trace = empty_folder("trace");
    for wrapped in ["(@)", "(recorded: (@))", "(rows: (@))"] {
        write(&trace.join("trace.ron"), &wrapped.replace('@', &format!("{NOBODY}: 1")));
        let problems = read_trace(&trace).expect_err("the header is wrong");
        let first = problems.0.iter().find(|p| p.rule.contains(NOBODY)).expect("it is noticed");
        let expected = first.rule.rsplit("expected").next().expect("ron lists what it expects");
        look_for(&page, "`trace.ron`", &quoted(expected), &mut missing);
    }
    for table in ["objects.csv", "ops.csv", "uses.csv"] {
        write(&trace.join(table), &format!("{NOBODY}\n"));
    }
    let problems = read_trace(&trace).expect_err("the tables are wrong");
    for table in ["objects.csv", "ops.csv", "uses.csv"] {
        look_for(&page, &format!("`{table}`"), &columns(&problems, table), &mut missing);
        look_for(&page, &format!("`{table}`"), &shipped_header(table), &mut missing);
    }
    let recording = empty_folder("recording");
    let tables = ["objects.csv", "params.csv", "adam_state.csv"];
    for table in tables {
        write(&recording.join(table), &format!("{NOBODY}\n"));
    }
    let problems = import_recording(&recording).expect_err("the tables are wrong");
    for table in tables {
        look_for(&page, "Recordings", &columns(&problems, table), &mut missing);
    }
    assert!(missing.is_empty(), "docs/reference lacks:\n  {}", missing.join("\n  "));
}

/// The columns that the reader names where it met one that it does not know.
fn columns(problems: &Diagnostics, table: &str) -> Vec<String> {
    let of_table = problems.0.iter().filter(|problem| problem.file.ends_with(table));
    let mut list = of_table.filter_map(|problem| problem.remedy.strip_prefix("the columns are "));
    let list = list.next_back().unwrap_or_else(|| panic!("{table}: {problems}"));
    list.split(", ").map(str::to_owned).collect()
}

fn shipped_header(name: &str) -> Vec<String> {
    let rows = table(&root().join("traces/gpt2-train-cpu").join(format!("{name}.gz")));
    rows[0].keys().cloned().collect()
}

/// Keys of results that hold a map by tier, channel, link or axis: its keys are data.
const BY_NAME: [&str; 17] = [
    "bands",
    "rank_correlations",
    "transfers",
    "matches",
    "hidden_bytes",
    "kv_hit_bytes",
    "params",
    "parts",
    "within",
    "peak_bytes",
    "moved_bytes",
    "stall_ms",
    "busy_fraction",
    "in_place_ms",
    "free_pieces",
    "split_ms",
    "parts_ps",
];

/// Keys of results that hold the same as `step_ms`.
const AS_STEP_MS: [&str; 4] = ["ttft_ms", "tpot_ms", "latency_ms", "queued_ms"];

/// Adds the keys of a value and of what is inside it, each with the heading that it belongs to.
fn keys(heading: &str, value: &Value, found: &mut BTreeSet<(String, String)>) {
    for (key, inner) in value.as_object().expect("a map") {
        found.insert((heading.to_owned(), key.clone()));
        match inner {
            Value::Array(list) => {
                let maps = list.iter().filter(|one| one.is_object());
                maps.for_each(|one| keys(&format!("One of `{key}`"), one, found));
            }
            Value::Object(_) if AS_STEP_MS.contains(&key.as_str()) => {
                keys("`step_ms`", inner, found);
            }
            Value::Object(_) if !BY_NAME.contains(&key.as_str()) => {
                keys(&format!("`{key}`"), inner, found);
            }
            _ => {}
        }
    }
}

#[test]
fn every_key_and_column_of_the_results_is_described() {
    let page = page("docs/reference/summary.md");
    let mut missing = Vec::new();
    let mut found = BTreeSet::new();
    for record in &records() {
        let text = summary_json(record, "0.1.0").expect("a summary");
        let summary: Value = serde_json::from_str(&text).expect("it is JSON");
        keys("The file", &summary, &mut found);
        let csv = String::from_utf8(results_csv(record).expect("a table")).expect("UTF-8");
        let header = csv.lines().next().expect("a header").split(',');
        // What follows a dot is the name of a tier, channel, link or axis.
        let names = header.map(|column| column.split('.').next().unwrap_or(column).to_owned());
        look_for(&page, "Columns", &names.collect::<Vec<_>>(), &mut missing);
    }
    let headings: BTreeSet<&str> = found.iter().map(|(heading, _)| heading.as_str()).collect();
    for heading in [
        "`pressure`",
        "`hints`",
        "One of `buckets`",
        "One of `results`",
        "One of `skipped`",
        "`step_ms`",
        "`oom_reason`",
    ] {
        assert!(headings.contains(heading), "the runs no longer show {heading}");
    }
    for heading in headings {
        let exist: BTreeSet<String> =
            found.iter().filter(|(at, _)| at == heading).map(|(_, key)| key.clone()).collect();
        let described: BTreeSet<String> = first_cells(&section(&page, heading));
        missing.extend(exist.difference(&described).map(|key| format!("{key} below {heading:?}")));
        let gone: Vec<&String> = described.difference(&exist).collect();
        assert!(
            gone.is_empty(),
            "docs/reference/summary.md describes {gone:?} below {heading:?}: no such"
        );
    }
    assert!(missing.is_empty(), "docs/reference/summary.md lacks:\n  {}", missing.join("\n  "));
}

/// The names in backticks that rows of a table start with.
fn first_cells(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).map(str::to_owned).collect()
}

/// A heading or a row that stands twice is one that somebody will mend once.
#[test]
fn no_page_says_a_heading_or_a_row_of_a_table_twice() {
    let mut seen = 0;
    for path in pages() {
        let text = fs::read_to_string(&path).expect("a page");
        let (mut headings, mut rows) = (BTreeSet::new(), BTreeSet::new());
        let mut in_code = false;
        for line in text.lines() {
            in_code ^= line.starts_with("```");
            let (is_heading, is_row) = (line.starts_with('#'), line.starts_with('|'));
            if in_code || !is_row {
                rows.clear();
            }
            if !in_code && (is_heading || is_row) {
                let fresh = if is_row { rows.insert(line) } else { headings.insert(line) };
                assert!(fresh, "{}: {line}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}
