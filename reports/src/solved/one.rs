//! The least or the largest value of one path.

use super::{MOST_ROWS, conditions, figures, metrics, points, points_csv};
use crate::ChartError;
use crate::render::Chart;
use crate::sheet::Made;
use crate::words::{clean, elide, short_fingerprint};
use crate::xy::{Axis, Marks, XyChart};
use serde_json::{Map, Value, json};
use tiersim_models::results::metrics::unit_of;
use tiersim_models::results::solved::{Solved, Tried};

pub(super) fn json(solved: &Solved) -> Map<String, Value> {
    let tried = |tried: &Tried| {
        json!({
            "value": tried.value(),
            "holds": tried.holds(),
            "case": tried.outcome.as_ref().ok(),
            "why_not": tried.outcome.as_ref().err(),
            "metrics": metrics(&solved.asked, &tried.metrics),
        })
    };
    let stretches = solved.stretches();
    let all = json!({
        "path": solved.variable.path,
        "unit": solved.variable.unit,
        "wanted": wanted(solved),
        "answer": solved.answer().map(tried),
        "beyond": solved.beyond().map(tried),
        "stretches": stretches.iter().map(|(from, to)| json!([from, to])).collect::<Vec<_>>(),
        "monotone": stretches.len() <= 1,
        "tried": solved.tried.iter().map(tried).collect::<Vec<_>>(),
    });
    all.as_object().cloned().unwrap_or_default()
}

pub(super) fn csv(solved: &Solved) -> Result<Vec<u8>, ChartError> {
    points_csv(&solved.asked, &["value".to_owned()], &solved.tried)
}

fn wanted(solved: &Solved) -> &'static str {
    if solved.asked.largest { "largest" } else { "least" }
}

pub(super) fn table(solved: &Solved) -> String {
    let shown: Vec<&Tried> = near(solved).iter().collect();
    points(&solved.asked, std::slice::from_ref(&solved.variable), &shown)
}

pub(super) fn note(solved: &Solved) -> String {
    let all = solved.tried.len();
    match all > MOST_ROWS {
        true => format!("{MOST_ROWS} of {all} values that were tried; all are in solve.csv\n"),
        false => String::new(),
    }
}

/// The rows to print: the nearest to the answer where there are many.
fn near(solved: &Solved) -> &[Tried] {
    let all = &solved.tried[..];
    if all.len() <= MOST_ROWS {
        return all;
    }
    let answer = solved.answer().map_or(all[0].value(), Tried::value);
    let at = all.iter().position(|tried| tried.value() == answer).unwrap_or(0);
    let from = at.saturating_sub(MOST_ROWS / 2).min(all.len() - MOST_ROWS);
    &all[from..from + MOST_ROWS]
}

/// Lines of words about the answer.
pub(super) fn answer(solved: &Solved) -> Vec<(&'static str, String)> {
    let (asked, path) = (&solved.asked, clean(&solved.variable.path));
    let (wanted, conditions) = (wanted(solved), conditions(asked));
    let written = |value: f64| solved.variable.written(value);
    let Some(found) = solved.answer() else {
        let ends = solved.tried.first().zip(solved.tried.last());
        let range = ends.map_or_else(String::new, |(from, to)| {
            format!(" from {} to {}", written(from.value()), written(to.value()))
        });
        let nearest = if asked.largest { solved.tried.first() } else { solved.tried.last() };
        let why = nearest.and_then(|tried| tried.outcome.as_ref().err());
        let why = why.map_or_else(String::new, |why| format!("; at its end {}", elide(why, 200)));
        return vec![("answer", format!("no value of {path}{range} has {conditions}{why}"))];
    };
    let value = written(found.value());
    let case = elide(found.outcome.as_ref().map_or("", String::as_str), 80);
    let metrics = figures(asked, &found.metrics);
    let said = format!("{value} is the {wanted} {path} with {conditions}: {case}{metrics}");
    let mut lines = vec![("answer", said)];
    match solved.beyond() {
        Some(beyond) => {
            let why = beyond.outcome.as_ref().err().map_or("", String::as_str);
            lines.push(("beyond", format!("at {} {}", written(beyond.value()), elide(why, 200))));
        }
        None => {
            let end = if asked.largest { "upper" } else { "lower" };
            lines.push(("beyond", format!("it is the {end} end of the range: look further")));
        }
    }
    let stretches = solved.stretches();
    if stretches.len() > 1 {
        let shown = stretches.iter().map(|(a, b)| format!("{} to {}", written(*a), written(*b)));
        let shown = elide(&shown.collect::<Vec<_>>().join(", "), 300);
        let count = stretches.len();
        let said = format!(
            "not monotone: conditions hold in {count} stretches of what was tried ({shown})"
        );
        lines.push(("note", said));
    }
    lines
}

/// The first metric against the value; nothing where conditions name none.
pub(super) fn chart(solved: &Solved, made: Made<'_>) -> Option<Chart> {
    let (asked, path) = (&solved.asked, clean(&solved.variable.path));
    let name = asked.metrics.first()?;
    let place = |tried: &Tried| Some((tried.value(), (*tried.metrics.first()?)?));
    let mut xy = XyChart::default();
    for (label, held) in [("conditions hold", true), ("they do not hold", false)] {
        let own = solved.tried.iter().filter(|tried| tried.holds() == held).filter_map(place);
        let own: Vec<(f64, f64)> = own.collect();
        if !own.is_empty() {
            xy.add(label, Marks::Points, own);
        }
    }
    xy.series.first()?;
    xy.title = format!("{}: the {} {path}", clean(&asked.scenario), wanted(solved));
    let found = answer(solved).into_iter().next().map_or_else(String::new, |(_, text)| text);
    let print = short_fingerprint(&asked.fingerprint);
    let foot = format!("hardware {} · seed {}", clean(&asked.hardware), asked.seed);
    xy.notes = vec![found, foot, format!("{print} · tiersim {}", made.version)];
    xy.x = Axis { log: true, ..Axis::linear(&path, &solved.variable.unit) };
    xy.y = Axis::linear(name, unit_of(name).unwrap_or_default());
    Some(xy.styled(made.style))
}
