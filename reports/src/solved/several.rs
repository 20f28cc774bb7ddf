//! The best values of several paths.

use super::{MOST_ROWS, conditions, figures, metrics, points, points_csv};
use crate::ChartError;
use crate::render::Chart;
use crate::sheet::Made;
use crate::words::{clean, elide, number, short_fingerprint};
use crate::xy::{Axis, Marks, XyChart};
use serde_json::{Map, Value, json};
use tiersim_models::results::metrics::unit_of;
use tiersim_models::results::solved::{Optimum, Tried, Variable};

pub(super) fn json(found: &Optimum) -> Map<String, Value> {
    let tried = |tried: &Tried| {
        let values = found.variables.iter().map(|path| path.path.clone());
        let values: Map<String, Value> =
            values.zip(tried.values.iter().map(|value| json!(value))).collect();
        json!({
            "values": values,
            "objective": found.objective(tried),
            "holds": tried.holds(),
            "case": tried.outcome.as_ref().ok(),
            "why_not": tried.outcome.as_ref().err(),
            "metrics": metrics(&found.asked, &tried.metrics),
        })
    };
    let path = |(variable, (from, to)): (&Variable, &(f64, f64))| json!({ "path": variable.path, "unit": variable.unit, "from": from, "to": to });
    let all = json!({
        "objective": found.objective,
        "wanted": wanted(found),
        "paths": found.variables.iter().zip(&found.ranges).map(path).collect::<Vec<_>>(),
        "answer": found.answer().map(tried),
        "settled": found.settled,
        "at_ends": found.at_ends().iter().map(|variable| &variable.path).collect::<Vec<_>>(),
        "tried": found.tried.iter().map(tried).collect::<Vec<_>>(),
    });
    all.as_object().cloned().unwrap_or_default()
}

pub(super) fn csv(found: &Optimum) -> Result<Vec<u8>, ChartError> {
    let names: Vec<String> = found.variables.iter().map(|path| path.path.clone()).collect();
    points_csv(&found.asked, &names, &found.tried)
}

fn wanted(found: &Optimum) -> &'static str {
    if found.asked.largest { "largest" } else { "least" }
}

/// The best points, in their order.
pub(super) fn table(found: &Optimum) -> String {
    let mut shown: Vec<&Tried> = found.tried.iter().collect();
    let merit = |tried: &&Tried| found.merit(tried).unwrap_or(f64::NEG_INFINITY);
    shown.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
    shown.truncate(MOST_ROWS / 2);
    points(&found.asked, &found.variables, &shown)
}

pub(super) fn note(found: &Optimum) -> String {
    let (all, shown) = (found.tried.len(), usize::min(MOST_ROWS / 2, found.tried.len()));
    format!("the best {shown} of {all} points that were tried; all are in solve.csv\n")
}

/// Lines of words about the answer.
pub(super) fn answer(found: &Optimum) -> Vec<(&'static str, String)> {
    let (asked, objective) = (&found.asked, clean(&found.objective));
    let conditions = conditions(asked);
    let Some(best) = found.answer() else {
        let why = found.tried.first().and_then(|tried| tried.outcome.as_ref().err());
        let why =
            why.map_or_else(String::new, |why| format!("; in the middle {}", elide(why, 200)));
        let wanted = match unit_of(&found.objective) {
            Some(_) => format!("{objective} with {conditions}"),
            None => conditions,
        };
        let said = format!("none of {} points has {wanted}{why}", found.tried.len());
        return vec![("answer", said)];
    };
    let each = found.variables.iter().zip(&best.values);
    let values: Vec<String> = each
        .map(|(path, value)| format!("{} {}", clean(&path.path), path.written(*value)))
        .collect();
    let value = found.objective(best).map_or_else(String::new, number);
    let unit = unit_of(&found.objective).unwrap_or_default();
    let case = elide(best.outcome.as_ref().map_or("", String::as_str), 80);
    let figures = figures(asked, &best.metrics);
    let wanted = wanted(found);
    let said = format!(
        "{value} {unit} is the {wanted} {objective} with {conditions}, at {}: {case}{figures}",
        values.join(", ")
    );
    let mut lines = vec![("answer", said.replace("  ", " "))];
    let beside = match found.settled {
        Some(step) => format!(
            "no point {} % of a range away{} is better and has them: a local optimum; narrower \
             ranges look closer",
            number(100.0 * step),
            match found.variables.len() {
                1 => "",
                _ => ", along one path or two or the edge of a condition,",
            }
        ),
        None => "its neighbours were not all tried".to_owned(),
    };
    lines.push(("beside", beside));
    let ends: Vec<String> = found.at_ends().iter().map(|path| clean(&path.path)).collect();
    if !ends.is_empty() {
        let said = format!("at the end of its range: {}; look further", ends.join(", "));
        lines.push(("note", said));
    }
    lines
}

/// The second path against the first, or the objective against the only one.
pub(super) fn chart(found: &Optimum, made: Made<'_>) -> Option<Chart> {
    let (asked, first) = (&found.asked, found.variables.first()?);
    let second = found.variables.get(1);
    let place = |tried: &Tried| {
        let y = match second {
            Some(_) => tried.values.get(1).copied(),
            None => found.objective(tried),
        };
        Some((tried.value(), y?))
    };
    let best = found.answer();
    let is_best = |tried: &Tried| best.is_some_and(|best| std::ptr::eq(best, tried));
    let mut xy = XyChart::default();
    for (label, held) in [("conditions hold", true), ("they do not hold", false)] {
        let own = found.tried.iter().filter(|tried| tried.holds() == held && !is_best(tried));
        let own: Vec<(f64, f64)> = own.filter_map(place).collect();
        if !own.is_empty() {
            xy.add(label, Marks::Points, own);
        }
    }
    if let Some((x, y)) = best.and_then(place) {
        // Where many neighbours stand around it, only lines to both axes show which it is.
        let all = || found.tried.iter().filter_map(place);
        let left = all().map(|(x, _)| x).fold(x, f64::min);
        let bottom = all().map(|(_, y)| y).fold(y, f64::min);
        xy.add("the answer", Marks::Line, [(left, y), (x, y), (x, bottom)]);
    }
    xy.series.first()?;
    let objective = clean(&found.objective);
    xy.title = format!("{}: the {} {objective}", clean(&asked.scenario), wanted(found));
    let said = answer(found).into_iter().next().map_or_else(String::new, |(_, text)| text);
    let print = short_fingerprint(&asked.fingerprint);
    let foot = format!("hardware {} · seed {}", clean(&asked.hardware), asked.seed);
    xy.notes = vec![said, foot, format!("{print} · tiersim {}", made.version)];
    let axis = |path: &Variable, index: usize| Axis {
        log: found.ranges.get(index).is_some_and(|(from, _)| *from > 0.0),
        ..Axis::linear(&clean(&path.path), &path.unit)
    };
    xy.x = axis(first, 0);
    xy.y = match second {
        Some(second) => axis(second, 1),
        None => Axis::linear(&objective, unit_of(&found.objective).unwrap_or_default()),
    };
    Some(xy.styled(made.style))
}
