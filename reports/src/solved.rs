//! An inverse question and its answer: text, JSON, CSV and a chart of what was tried.
//!
//! All of them are made of one [`Solved`]. Keys of the JSON are only ever added; a change of
//! meaning raises [`SOLVE_SCHEMA`].
//! Invariant: an answer never stands without the value beside it for which conditions do not hold,
//! unless it is the end of the range, which is then said.

use crate::csv::guarded;
use crate::render::Chart;
use crate::sheet::Made;
use crate::text_table::{Side, paragraph, text_table};
use crate::words::{clean, elide, number, short_fingerprint};
use crate::xy::{Axis, Marks, XyChart};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Value, json};
use tiersim_models::results::metrics::unit_of;
use tiersim_models::results::solved::{Solved, Tried};

/// Version of the meaning of the keys.
pub const SOLVE_SCHEMA: u32 = 1;
/// Width of lines in characters.
const WIDTH: usize = 80;
/// Rows of the table on stdout; all are in the CSV.
const MOST_ROWS: usize = 24;

/// `solve.json`, `solve.csv` and the chart; `version` is tiersim's own.
pub fn solved_artefacts<'a>(
    solved: &Solved,
    made: impl Into<Made<'a>>,
) -> Result<Vec<Artefact>, ChartError> {
    let made = made.into();
    let mut files = vec![
        Artefact::new("solve.json", solved_json(solved, made.version)?),
        Artefact::new("solve.csv", csv(solved)?),
    ];
    if let Some(chart) = chart(solved, made) {
        files.extend(chart.artefacts("solve")?);
    }
    Ok(files)
}

/// The question and its answer for programs; docs/howto/solve.md says what each key means.
pub fn solved_json(solved: &Solved, version: &str) -> Result<String, ChartError> {
    let metrics = |tried: &Tried| -> Value {
        solved.metrics.iter().cloned().zip(tried.metrics.iter().map(|value| json!(value))).collect()
    };
    let tried = |tried: &Tried| {
        json!({
            "value": tried.value,
            "holds": tried.holds(),
            "case": tried.outcome.as_ref().ok(),
            "why_not": tried.outcome.as_ref().err(),
            "metrics": metrics(tried),
        })
    };
    let stretches = solved.stretches();
    pretty(&json!({
        "schema": SOLVE_SCHEMA,
        "tiersim": version,
        "scenario": solved.scenario,
        "fingerprint": solved.fingerprint,
        "hardware": solved.hardware,
        "seed": solved.seed,
        "about": solved.about,
        "path": solved.path,
        "unit": solved.unit,
        "wanted": if solved.largest { "largest" } else { "least" },
        "conditions": solved.conditions,
        "answer": solved.answer().map(tried),
        "beyond": solved.beyond().map(tried),
        "stretches": stretches.iter().map(|(from, to)| json!([from, to])).collect::<Vec<_>>(),
        "monotone": stretches.len() <= 1,
        "tried": solved.tried.iter().map(tried).collect::<Vec<_>>(),
    }))
}

fn csv(solved: &Solved) -> Result<Vec<u8>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = ["value", "holds", "case", "why_not"].map(str::to_owned);
    writer.write_record(head.into_iter().chain(solved.metrics.iter().cloned()))?;
    for tried in &solved.tried {
        let case = tried.outcome.as_ref().map_or("", String::as_str);
        let why = tried.outcome.as_ref().err().map_or("", String::as_str);
        let cells =
            [tried.value.to_string(), tried.holds().to_string(), guarded(case), guarded(why)];
        let metrics = tried.metrics.iter().map(|m| m.map_or_else(String::new, |m| m.to_string()));
        writer.write_record(cells.into_iter().chain(metrics))?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}

/// A value with its unit, as a file has it.
fn written(solved: &Solved, value: f64) -> String {
    match solved.unit.as_str() {
        "" => value.to_string(),
        unit => format!("{unit}({value})"),
    }
}

/// The answer in words and what was tried.
pub fn solved_text(solved: &Solved, version: &str) -> String {
    let mut out = String::new();
    let about = format!("{}: {}", clean(&solved.scenario), elide(&solved.about, 400));
    paragraph(&mut out, "", "", &about, WIDTH);
    for (word, text) in answer(solved) {
        paragraph(&mut out, &format!("  {word:<8}"), "          ", &text, WIDTH);
    }
    out.push('\n');
    let mut rows = vec![vec![clean(&solved.path), "holds".to_owned()]];
    rows[0].extend(solved.metrics.iter().map(|name| match unit_of(name) {
        Some(unit) if !unit.is_empty() => format!("{name} {unit}"),
        _ => name.clone(),
    }));
    rows[0].push("case, or why not".to_owned());
    let shown = near(solved);
    for tried in shown {
        let holds = if tried.holds() { "yes" } else { "no" };
        let mut row = vec![written(solved, tried.value), holds.to_owned()];
        let metric = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        row.extend(tried.metrics.iter().map(metric));
        row.push(match &tried.outcome {
            Ok(case) => elide(case, 40),
            Err(why) => elide(why, 60),
        });
        rows.push(row);
    }
    let mut sides = vec![Side::Right, Side::Left];
    sides.extend(vec![Side::Right; solved.metrics.len()]);
    out.push_str(&text_table(0, &sides, &rows));
    if solved.tried.len() > MOST_ROWS {
        let all = solved.tried.len();
        out.push_str(&format!(
            "{MOST_ROWS} of {all} values that were tried; all are in solve.csv\n"
        ));
    }
    let print = short_fingerprint(&solved.fingerprint);
    out.push_str(&format!(
        "\nhardware  {}\nrun       {print}, tiersim {version}, seed {}\n",
        elide(&solved.hardware, 100),
        solved.seed
    ));
    out
}

/// The rows to print: the nearest to the answer where there are many.
fn near(solved: &Solved) -> &[Tried] {
    let all = &solved.tried[..];
    if all.len() <= MOST_ROWS {
        return all;
    }
    let answer = solved.answer().map_or(all[0].value, |tried| tried.value);
    let at = all.iter().position(|tried| tried.value == answer).unwrap_or(0);
    let from = at.saturating_sub(MOST_ROWS / 2).min(all.len() - MOST_ROWS);
    &all[from..from + MOST_ROWS]
}

/// Lines of words about the answer.
fn answer(solved: &Solved) -> Vec<(&'static str, String)> {
    let wanted = if solved.largest { "largest" } else { "least" };
    let conditions = match solved.conditions.len() {
        0 => "the scenario fits".to_owned(),
        _ => solved.conditions.join(" and "),
    };
    let path = clean(&solved.path);
    let Some(found) = solved.answer() else {
        let ends = solved.tried.first().zip(solved.tried.last());
        let range = ends.map_or_else(String::new, |(from, to)| {
            format!(" from {} to {}", written(solved, from.value), written(solved, to.value))
        });
        let nearest = if solved.largest { solved.tried.first() } else { solved.tried.last() };
        let why = nearest.and_then(|tried| tried.outcome.as_ref().err());
        let why = why.map_or_else(String::new, |why| format!("; at its end {}", elide(why, 200)));
        return vec![("answer", format!("no value of {path}{range} has {conditions}{why}"))];
    };
    let value = written(solved, found.value);
    let case = found.outcome.as_ref().map_or("", String::as_str);
    let metrics = figures(solved, found);
    let mut lines = vec![(
        "answer",
        format!("{value} is the {wanted} {path} with {conditions}: {}{metrics}", elide(case, 80)),
    )];
    match solved.beyond() {
        Some(beyond) => {
            let why = beyond.outcome.as_ref().err().map_or("", String::as_str);
            let next = written(solved, beyond.value);
            lines.push(("beyond", format!("at {next} {}", elide(why, 200))));
        }
        None => {
            let end = if solved.largest { "upper" } else { "lower" };
            lines.push(("beyond", format!("it is the {end} end of the range: look further")));
        }
    }
    let stretches = solved.stretches();
    if stretches.len() > 1 {
        let shown: Vec<String> = stretches
            .iter()
            .map(|(from, to)| format!("{} to {}", written(solved, *from), written(solved, *to)))
            .collect();
        lines.push((
            "note",
            format!(
                "not monotone: conditions hold in {} stretches of what was tried ({})",
                stretches.len(),
                elide(&shown.join(", "), 300)
            ),
        ));
    }
    lines
}

fn figures(solved: &Solved, tried: &Tried) -> String {
    let each = solved.metrics.iter().zip(&tried.metrics);
    let said = each.filter_map(|(name, value)| Some(format!(", {name} {}", number((*value)?))));
    said.collect()
}

/// The first metric against the value; nothing where conditions name none.
fn chart(solved: &Solved, made: Made<'_>) -> Option<Chart> {
    let name = solved.metrics.first()?;
    let place = |tried: &Tried| Some((tried.value, (*tried.metrics.first()?)?));
    let mut xy = XyChart::default();
    for (label, held) in [("conditions hold", true), ("they do not hold", false)] {
        let own = solved.tried.iter().filter(|tried| tried.holds() == held).filter_map(place);
        let own: Vec<(f64, f64)> = own.collect();
        if !own.is_empty() {
            xy.add(label, Marks::Points, own);
        }
    }
    xy.series.first()?;
    let wanted = if solved.largest { "largest" } else { "least" };
    xy.title = format!("{}: the {wanted} {}", clean(&solved.scenario), clean(&solved.path));
    let found = answer(solved).into_iter().next().map_or_else(String::new, |(_, text)| text);
    let print = short_fingerprint(&solved.fingerprint);
    let foot = format!("hardware {} · seed {}", clean(&solved.hardware), solved.seed);
    xy.notes = vec![found, foot, format!("{print} · tiersim {}", made.version)];
    xy.x = Axis { log: true, ..Axis::linear(&clean(&solved.path), &solved.unit) };
    xy.y = Axis::linear(name, unit_of(name).unwrap_or_default());
    Some(xy.styled(made.style))
}
