//! Inverse questions and their answers: text, JSON, CSV and a chart of what was tried.
//!
//! One path ([`one`]), several of them or a metric ([`several`]), the least changes with which a
//! scenario fits ([`least`]): each is made of one record. Keys of the JSON are only ever added; a
//! change of meaning raises [`SOLVE_SCHEMA`].
//! Invariant: an answer never stands without what is beside it: the value beyond, for which
//! conditions do not hold, or how far neighbours were looked at.

mod least;
mod one;
mod several;

use crate::csv::guarded;
use crate::sheet::Made;
use crate::text_table::{Side, paragraph, text_table};
use crate::words::{clean, elide, number, short_fingerprint};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Map, Value, json};
use tiersim_models::results::metrics::unit_of;
use tiersim_models::results::solved::{Asked, LeastChanges, Optimum, Solved, Tried, Variable};

/// Version of the meaning of the keys.
pub const SOLVE_SCHEMA: u32 = 1;
/// Width of lines in characters.
const WIDTH: usize = 80;
/// Rows of the table on stdout; all are in the CSV.
const MOST_ROWS: usize = 24;

/// A question of any kind with its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SolvedRecord {
    /// Of one path.
    One(Solved),
    /// Of several, or of a metric.
    Several(Optimum),
    /// What is to be changed so that a scenario fits.
    Least(LeastChanges),
}

impl SolvedRecord {
    fn asked(&self) -> &Asked {
        match self {
            SolvedRecord::One(solved) => &solved.asked,
            SolvedRecord::Several(optimum) => &optimum.asked,
            SolvedRecord::Least(changes) => &changes.asked,
        }
    }
}

/// `solve.json`, `solve.csv` and the chart, where there is one; `version` is tiersim's own.
pub fn solved_artefacts<'a>(
    solved: &SolvedRecord,
    made: impl Into<Made<'a>>,
) -> Result<Vec<Artefact>, ChartError> {
    let made = made.into();
    let (table, chart) = match solved {
        SolvedRecord::One(solved) => (one::csv(solved)?, one::chart(solved, made)),
        SolvedRecord::Several(found) => (several::csv(found)?, several::chart(found, made)),
        SolvedRecord::Least(changes) => (least::csv(changes)?, None),
    };
    let mut files = vec![
        Artefact::new("solve.json", solved_json(solved, made.version)?),
        Artefact::new("solve.csv", table),
    ];
    if let Some(chart) = chart {
        files.extend(chart.artefacts("solve")?);
    }
    Ok(files)
}

/// The question and its answer for programs; docs/howto/solve.md says what each key means.
pub fn solved_json(solved: &SolvedRecord, version: &str) -> Result<String, ChartError> {
    let asked = solved.asked();
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| keys.insert(key.to_owned(), value);
    put("schema", json!(SOLVE_SCHEMA));
    put("tiersim", json!(version));
    put("scenario", json!(asked.scenario));
    put("fingerprint", json!(asked.fingerprint));
    put("hardware", json!(asked.hardware));
    put("seed", json!(asked.seed));
    put("about", json!(asked.about));
    put("conditions", json!(asked.conditions));
    let own = match solved {
        SolvedRecord::One(solved) => one::json(solved),
        SolvedRecord::Several(optimum) => several::json(optimum),
        SolvedRecord::Least(changes) => least::json(changes),
    };
    keys.extend(own);
    pretty(&Value::Object(keys))
}

/// The answer in words and what was tried.
pub fn solved_text(solved: &SolvedRecord, version: &str) -> String {
    let asked = solved.asked();
    let mut out = String::new();
    let about = format!("{}: {}", clean(&asked.scenario), elide(&asked.about, 400));
    paragraph(&mut out, "", "", &about, WIDTH);
    let (lines, table, note) = match solved {
        SolvedRecord::One(solved) => (one::answer(solved), one::table(solved), one::note(solved)),
        SolvedRecord::Several(found) => {
            (several::answer(found), several::table(found), several::note(found))
        }
        SolvedRecord::Least(changes) => {
            (least::answer(changes), least::table(changes), String::new())
        }
    };
    for (word, text) in lines {
        paragraph(&mut out, &format!("  {word:<8}"), "          ", &text, WIDTH);
    }
    out.push('\n');
    out.push_str(&table);
    out.push_str(&note);
    let print = short_fingerprint(&asked.fingerprint);
    out.push_str(&format!(
        "\nhardware  {}\nrun       {print}, tiersim {version}, seed {}\n",
        elide(&asked.hardware, 100),
        asked.seed
    ));
    out
}

/// All conditions in words.
fn conditions(asked: &Asked) -> String {
    match asked.conditions.len() {
        0 => "the scenario fits".to_owned(),
        _ => asked.conditions.join(" and "),
    }
}

/// Metrics by name, for programs.
fn metrics(asked: &Asked, metrics: &[Option<f64>]) -> Value {
    asked.metrics.iter().cloned().zip(metrics.iter().map(|value| json!(value))).collect()
}

/// Metrics in words, each behind a comma.
fn figures(asked: &Asked, metrics: &[Option<f64>]) -> String {
    let each = asked.metrics.iter().zip(metrics);
    let said = each.filter_map(|(name, value)| Some(format!(", {name} {}", number((*value)?))));
    said.collect()
}

/// Heads of the columns of metrics.
fn heads(asked: &Asked) -> impl Iterator<Item = String> {
    asked.metrics.iter().map(|name| match unit_of(name) {
        Some(unit) if !unit.is_empty() => format!("{name} {unit}"),
        _ => name.clone(),
    })
}

/// Cells of the columns of metrics.
fn cells(metrics: &[Option<f64>]) -> impl Iterator<Item = String> {
    metrics.iter().map(|value| value.map_or_else(|| "-".to_owned(), number))
}

/// The rows of points as a table: their values, whether conditions hold, metrics, and why not.
fn points(asked: &Asked, variables: &[Variable], tried: &[&Tried]) -> String {
    let mut head: Vec<String> = variables.iter().map(|variable| clean(&variable.path)).collect();
    head.push("holds".to_owned());
    head.extend(heads(asked));
    head.push("case, or why not".to_owned());
    let mut rows = vec![head];
    for tried in tried {
        let values = variables.iter().zip(&tried.values);
        let mut row: Vec<String> = values.map(|(path, value)| path.written(*value)).collect();
        row.push(if tried.holds() { "yes" } else { "no" }.to_owned());
        row.extend(cells(&tried.metrics));
        row.push(match &tried.outcome {
            Ok(case) => elide(case, 40),
            Err(why) => elide(why, 60),
        });
        rows.push(row);
    }
    let mut sides = vec![Side::Right; variables.len()];
    sides.push(Side::Left);
    sides.extend(vec![Side::Right; asked.metrics.len()]);
    text_table(0, &sides, &rows)
}

/// The same for spreadsheets, with all points; `names` are those of the values' columns.
fn points_csv(asked: &Asked, names: &[String], tried: &[Tried]) -> Result<Vec<u8>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = names.iter().map(|name| guarded(name));
    let head = head.chain(["holds", "case", "why_not"].map(str::to_owned));
    writer.write_record(head.chain(asked.metrics.iter().cloned()))?;
    for tried in tried {
        let case = tried.outcome.as_ref().map_or("", String::as_str);
        let why = tried.outcome.as_ref().err().map_or("", String::as_str);
        let cells = tried.values.iter().map(f64::to_string).chain([
            tried.holds().to_string(),
            guarded(case),
            guarded(why),
        ]);
        let metrics = tried.metrics.iter().map(|m| m.map_or_else(String::new, |m| m.to_string()));
        writer.write_record(cells.chain(metrics))?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}
