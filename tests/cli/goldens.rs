//! Every number of the summaries of all shipped scenarios is what it was, to the last digit: what
//! is said to change only the structure of the program changes none.
//!
//! After a change that means to move numbers,
//! `TIERSIM_RENEW=1 cargo test -p tiersim --test cli shipped` writes them anew; `zcat` of a file
//! before and after shows what moved.
//! Invariant: texts are not compared, so a word may change; neither is what names the program's
//! version.

use crate::common::*;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};

/// Differences named of one scenario.
const MOST_NAMED: usize = 5;

/// What differs between a summary and the numbers on record for it; nothing where all are equal.
pub(crate) fn differences(verb: &str, scenario: &str, summary: &[u8]) -> Vec<String> {
    let summary: Value = serde_json::from_slice(summary).expect("a summary is JSON");
    let mut found = String::new();
    numbers("", &summary, &mut found);
    let path = golden(verb, scenario);
    if std::env::var_os("TIERSIM_RENEW").is_some() {
        write(&path, &found).expect("the folder of the tests' data can be written");
    }
    let Ok(kept) = read(&path) else {
        return vec![format!("{verb} {scenario}: no numbers on record, see {}", file!())];
    };
    let pairs = || kept.lines().zip(found.lines());
    let differ = pairs().filter(|(kept, found)| !same(kept, found));
    let named = differ.take(MOST_NAMED);
    let mut all: Vec<String> =
        named.map(|(kept, found)| format!("{verb} {scenario}: {kept} is now {found}")).collect();
    let counts = [&kept, &found].map(|text| text.lines().count());
    if counts[0] != counts[1] {
        all.push(format!("{verb} {scenario}: {} numbers, on record {}", counts[1], counts[0]));
    }
    all
}

/// One line for every number of a value: where it stands, and what it is.
fn numbers(at: &str, value: &Value, lines: &mut String) {
    match value {
        Value::String(_) => {}
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "schema") {
                numbers(&format!("{at}/{key}"), value, lines);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                numbers(&format!("{at}/{index}"), value, lines);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            writeln!(lines, "{at} {value}").expect("a text takes it");
        }
    }
}

/// Whether two lines say the same. Logarithms and powers are the system's, and the numbers on
/// record are of one system: on others the last digits may differ.
fn same(kept: &str, found: &str) -> bool {
    if kept == found {
        return true;
    }
    let here = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));
    let parts = |line: &str| {
        let (at, number) = line.rsplit_once(' ')?;
        Some((at.to_owned(), number.parse::<f64>().ok()?))
    };
    match (parts(kept), parts(found)) {
        (Some((a, x)), Some((b, y))) if !here => a == b && (x - y).abs() <= 1e-9 * x.abs(),
        _ => false,
    }
}

fn golden(verb: &str, scenario: &str) -> PathBuf {
    let name = format!("{}.txt.gz", scenario.replace('/', "-").trim_end_matches(".ron"));
    shipped("tests/data/goldens").join(verb).join(name)
}

fn read(path: &PathBuf) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

fn write(path: &PathBuf, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
    // A file whose numbers are the same stays the same.
    if read(path).is_ok_and(|kept| kept == text) {
        return Ok(());
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text.as_bytes())?;
    fs::write(path, packed.finish()?)
}

#[test]
fn the_shipped_sweeps_give_the_numbers_on_record() {
    let project = Project::shipped();
    let mut found = Vec::new();
    for (scenario, text) in project.files("scenarios") {
        if !String::from_utf8_lossy(&text).contains("\n    sweep:") {
            continue;
        }
        let path = format!("scenarios/{scenario}");
        project.run(&["sweep", &path, "--out", "o", "--report"]).ends_with(0);
        let files = project.files("o");
        found.extend(differences("sweep", &scenario, &files["summary.json"]));
        found.extend(crate::answers::differences("sweep", &scenario, &files));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_on_record_is_of_scenarios_that_ship() {
    let scenarios: Vec<String> =
        Project::shipped().files("scenarios").into_keys().filter(|n| n.ends_with(".ron")).collect();
    for verb in ["run", "sweep"] {
        let names = scenarios.iter().map(|scenario| golden(verb, scenario));
        let names: Vec<PathBuf> = names.collect();
        for entry in fs::read_dir(shipped("tests/data/goldens").join(verb)).expect("it is there") {
            let path = entry.expect("an entry").path();
            assert!(names.contains(&path), "{} is of no scenario", path.display());
        }
    }
}
