//! The answers that ship are those of this program: docs/answers has a page of verdicts, and of
//! each run its report.
//!
//! Nothing is run here: the tests that run every scenario and every sweep that ships hand over what
//! came out. `TIERSIM_RENEW=1 cargo test -p tiersim --test cli shipped` writes reports, charts and
//! tables of figures anew; the sentences are written by hand, and every figure with a unit in them
//! must stand in a table of their question.
//! Invariant: texts of reports are compared without their drawings, so a chart may be laid out anew.

use crate::common::*;
use std::fmt::Write as _;
use std::sync::Mutex;

/// Runs that answer something: the verb and the scenario.
const ANSWERS: [(&str, &str); 9] = [
    ("sweep", "llama-2-7b-zero-offload-placement"),
    ("sweep", "llama-2-70b-zero-offload-placement"),
    ("run", "hbm4-cxl3-against-hbm3e-training"),
    ("run", "hbm4-cxl3-against-hbm3e-serving"),
    ("run", "gpt2-hbm-needed"),
    ("run", "llama-3-8b-kv-tiers"),
    ("run", "llama-2-13b-24gb-training"),
    ("run", "llama-2-13b-24gb-lora"),
    ("sweep", "llama-2-13b-24gb-serving"),
];
/// Bytes of a report that anybody opens without a thought.
const MOST_BYTES: usize = 600_000;
const PAGE: &str = "docs/answers/README.md";

/// One at a time writes to the page.
static WRITING: Mutex<()> = Mutex::new(());

/// What differs between an answer that ships and what its run came to; nothing of other scenarios.
pub(crate) fn differences(
    verb: &str,
    scenario: &str,
    files: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let name = scenario.trim_end_matches(".ron");
    if !ANSWERS.contains(&(verb, name)) {
        return Vec::new();
    }
    let report = String::from_utf8_lossy(&files["report.html"]);
    let summary: Value = serde_json::from_slice(&files["summary.json"]).expect("it is JSON");
    let table = table(&summary);
    let folder = shipped("docs/answers");
    let page = folder.join(format!("{name}.html"));
    if std::env::var_os("TIERSIM_RENEW").is_some() {
        fs::write(&page, report.as_bytes()).unwrap();
        let charts = ["latency-by-panel.png", "latency-vs-memory.png"];
        let chart = charts.iter().find_map(|chart| files.get(*chart)).expect("it has a chart");
        fs::write(folder.join(format!("{name}.png")), chart).unwrap();
        renew(name, &table);
    }
    let mut found = Vec::new();
    let kept = fs::read_to_string(&page).unwrap_or_default();
    if words(&kept) != words(&report) {
        found.push(format!("docs/answers/{name}.html says something else than its run"));
    }
    if kept.len() > MOST_BYTES {
        found.push(format!("docs/answers/{name}.html has {} bytes", kept.len()));
    }
    let text = fs::read_to_string(shipped(PAGE)).expect("the page is there");
    if block(&text, name).map(|(_, block, _)| block) != Some(table.as_str()) {
        found.push(format!("{PAGE}: figures of {name} are not those of its run"));
    }
    found
}

/// What a page says, without drawings, styles and the program's version.
fn words(page: &str) -> Vec<String> {
    let mut text = page.to_owned();
    for element in ["svg", "style", "script"] {
        let (open, close) = (format!("<{element}"), format!("</{element}>"));
        while let Some(from) = text.find(&open) {
            let to = text[from..].find(&close).map_or(text.len(), |at| from + at + close.len());
            text.replace_range(from..to, " ");
        }
    }
    let mut words: Vec<String> = Vec::new();
    for part in text.split('<') {
        let said = part.split_once('>').map_or(part, |(_, said)| said);
        words.extend(said.split_whitespace().map(str::to_owned));
    }
    let version = |word: &&String| word.trim_end_matches(',') != env!("CARGO_PKG_VERSION");
    words.iter().filter(version).cloned().collect()
}

/// The page before a run's figures, these, and what follows.
fn block<'p>(page: &'p str, name: &str) -> Option<(&'p str, &'p str, &'p str)> {
    let (before, rest) = page.split_once(&format!("<!-- figures of {name} -->\n"))?;
    let (figures, after) = rest.split_once("<!-- end -->")?;
    Some((before, figures, after))
}

fn renew(name: &str, table: &str) {
    let _alone = WRITING.lock().unwrap();
    let page = fs::read_to_string(shipped(PAGE)).expect("the page is there");
    let (before, _, after) = block(&page, name).expect("the page has a place for it");
    let text = format!("{before}<!-- figures of {name} -->\n{table}<!-- end -->{after}");
    fs::write(shipped(PAGE), text).unwrap();
}

/// The figures of a run, the quickest case first.
fn table(summary: &Value) -> String {
    let results = summary["results"].as_array().expect("a list");
    let serves = results.iter().any(|result| result["serving"].is_object());
    let mut rows: Vec<(f64, String)> = Vec::new();
    for result in results {
        let label = result["label"].as_str().expect("a label").replace('|', "/");
        if result["oom"] == true {
            rows.push((f64::INFINITY, format!("| {label} | out of memory |{}\n", " |".repeat(2))));
            continue;
        }
        let first = result["peak_bytes"].as_object().expect("tiers").iter();
        let tier = ["hbm", "near"].iter().find(|tier| result["peak_bytes"].get(**tier).is_some());
        let peak =
            tier.map_or_else(|| first.clone().next().unwrap().1, |t| &result["peak_bytes"][*t]);
        let peak = format!("{} GiB", three(peak.as_f64().expect("bytes") / f64::from(1 << 30)));
        let (key, figures) = if serves {
            let mean = |of: &str| result["serving"][of]["mean"].as_f64().expect("a mean");
            (mean("ttft_ms"), format!("{} | {}", time(mean("ttft_ms")), time(mean("tpot_ms"))))
        } else {
            let step = result["step_ms"]["mean"].as_f64().expect("a mean");
            let slowdown = result["slowdown"].as_f64().expect("a ratio");
            (step, format!("{} | {}×", time(step), three(slowdown)))
        };
        rows.push((key, format!("| {label} | {figures} | {peak} |\n")));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let head = match serves {
        true => "| case | mean TTFT | mean TPOT | peak HBM |\n",
        false => "| case | mean step | against unlimited HBM | peak HBM |\n",
    };
    let mut table = format!("{head}|---|--:|--:|--:|\n");
    rows.iter().for_each(|(_, row)| write!(table, "{row}").expect("a text takes it"));
    table
}

fn time(ms: f64) -> String {
    if ms >= 999.5 { format!("{} s", three(ms / 1e3)) } else { format!("{} ms", three(ms)) }
}

fn three(value: f64) -> String {
    let decimals = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[test]
fn every_figure_of_a_verdict_stands_in_a_table_of_its_question() {
    let page = fs::read_to_string(shipped(PAGE)).expect("the page is there");
    let mut verdicts = 0;
    for section in page.split("\n## ").skip(1) {
        let (verdict, rest) = section
            .split_once("**Verdict.**")
            .and_then(|(_, rest)| rest.split_once("\n\n"))
            .expect("every question has a verdict");
        verdicts += 1;
        let tables: String = rest.lines().filter(|line| line.starts_with('|')).collect();
        let words: Vec<&str> = verdict.split_whitespace().collect();
        let mut figures = 0;
        for pair in words.windows(2) {
            let unit = pair[1].trim_end_matches([',', '.', ';', ':', ')']);
            let number = pair[0].trim_start_matches('(');
            if !["s", "ms", "GiB"].contains(&unit) || number.parse::<f64>().is_err() {
                continue;
            }
            let figure = format!(" {number} {unit} ");
            assert!(tables.contains(&figure), "{figure}is in no table:\n{verdict}");
            figures += 1;
        }
        assert!(figures >= 3, "a verdict rests on figures:\n{verdict}");
    }
    assert_eq!(verdicts, 5);
    for (verb, name) in ANSWERS {
        assert!(block(&page, name).is_some(), "figures of {name}");
        for piece in [
            format!("tiersim {verb} --report scenarios/{name}.ron"),
            format!("({name}.html)"),
            format!("({name}.png)"),
        ] {
            assert!(page.contains(&piece), "{piece}");
        }
        for file in [format!("{name}.html"), format!("{name}.png")] {
            assert!(shipped("docs/answers").join(&file).is_file(), "{file}");
        }
    }
}

#[test]
fn a_report_is_compared_by_what_it_says() {
    let page = "<p>step <b>4.5</b> s</p><svg><text>9</text></svg><script>x</script>";
    assert_eq!(words(page), ["step", "4.5", "s"]);
    assert_ne!(words(page), words(&page.replace("4.5", "4.6")));
    assert_eq!(words(page), words(&page.replace('9', "8")));
}
