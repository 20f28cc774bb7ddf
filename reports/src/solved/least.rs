//! The least changes with which a scenario fits.

use super::{cells, conditions, figures, heads, metrics};
use crate::ChartError;
use crate::csv::guarded;
use crate::text_table::{Side, text_table};
use crate::words::{clean, elide, number};
use serde_json::{Map, Value, json};
use tiersim_models::results::solved::{Change, LeastChanges};

pub(super) fn json(found: &LeastChanges) -> Map<String, Value> {
    let change = |change: &Change| {
        json!({
            "path": change.path,
            "now": change.now,
            "least": change.least,
            "ratio": change.ratio,
            "case": change.case,
            "metrics": metrics(&found.asked, &change.metrics),
            "short": change.short.as_ref().map(|(value, why)| json!({ "value": value, "why_not": why })),
            "tried": change.tried,
        })
    };
    let all = json!({
        "wanted": "least changes",
        "fits_now": found.now.as_ref().ok(),
        "why_not": found.now.as_ref().err(),
        "changes": found.changes.iter().map(change).collect::<Vec<_>>(),
    });
    all.as_object().cloned().unwrap_or_default()
}

pub(super) fn csv(found: &LeastChanges) -> Result<Vec<u8>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = ["path", "now", "least", "ratio", "case", "tried"].map(str::to_owned);
    writer.write_record(head.into_iter().chain(found.asked.metrics.iter().cloned()))?;
    for change in &found.changes {
        let text = |text: &Option<String>| guarded(text.as_deref().unwrap_or(""));
        let own = [
            guarded(&change.path),
            text(&change.now),
            text(&change.least),
            change.ratio.map_or_else(String::new, |ratio| ratio.to_string()),
            text(&change.case),
            change.tried.to_string(),
        ];
        let metrics = change.metrics.iter().map(|m| m.map_or_else(String::new, |m| m.to_string()));
        writer.write_record(own.into_iter().chain(metrics))?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}

/// Lines of words about the answer.
pub(super) fn answer(found: &LeastChanges) -> Vec<(&'static str, String)> {
    let conditions = conditions(&found.asked);
    match &found.now {
        Ok(case) => {
            let said = format!("as it is {conditions}: {}; nothing need change", elide(case, 80));
            return vec![("answer", said)];
        }
        Err(_) if found.changes.iter().all(|change| change.least.is_none()) => {
            let said = format!("no change that was tried, nor two of them, has {conditions}");
            return vec![("answer", said), ("now", why_not(found))];
        }
        Err(_) => {}
    }
    let enough = found.changes.iter().filter(|change| change.least.is_some());
    let mut lines = vec![("now", why_not(found))];
    for change in enough.take(4) {
        let least = change.least.as_deref().unwrap_or("");
        let now = change
            .now
            .as_deref()
            .map_or_else(String::new, |now| format!(" in the place of {}", elide(now, 60)));
        let case = elide(change.case.as_deref().unwrap_or(""), 60);
        let figures = figures(&found.asked, &change.metrics);
        let path = clean(&change.path);
        lines.push(("enough", format!("{path} = {}{now}: {case}{figures}", elide(least, 100))));
    }
    lines
}

fn why_not(found: &LeastChanges) -> String {
    elide(found.now.as_ref().err().map_or("", String::as_str), 300)
}

pub(super) fn table(found: &LeastChanges) -> String {
    if found.changes.is_empty() {
        return String::new();
    }
    let mut head = ["change", "now", "least that is enough", "x"].map(str::to_owned).to_vec();
    head.extend(heads(&found.asked));
    head.push("one less, and why not".to_owned());
    let mut rows = vec![head];
    for change in &found.changes {
        let text = |text: &Option<String>| elide(text.as_deref().unwrap_or("-"), 48);
        let least =
            change.least.as_ref().map_or_else(|| "none".to_owned(), |least| elide(least, 48));
        let ratio = change.ratio.map_or_else(|| "-".to_owned(), number);
        let mut row = vec![clean(&change.path), text(&change.now), least, ratio];
        row.extend(cells(&change.metrics));
        row.push(change.short.as_ref().map_or_else(String::new, |(value, why)| {
            format!("{}: {}", elide(value, 40), elide(why, 60))
        }));
        rows.push(row);
    }
    let mut sides = vec![Side::Left, Side::Right, Side::Right, Side::Right];
    sides.extend(vec![Side::Right; found.asked.metrics.len()]);
    text_table(0, &sides, &rows)
}
