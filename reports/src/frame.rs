//! What every chart has around its plot: title, question, legend, and where its numbers come from.
//!
//! A chart is pasted into slides without its folder, so it carries its own provenance: the
//! fingerprint of the resolved scenario, the version, the seed, the hardware and the workload, and
//! how many numbers of the hardware nobody has measured.

use crate::canvas::{Align, Canvas, Rect};
use crate::fitted::{fit, fit_name, fit_titled, wrap};
use crate::font::text_width;
use crate::names::{assumed, each, statistics_note};
use crate::sheet::Sheet;
use crate::style::{AXIS, INK, LABEL, SMALL, SOFT_INK, SUBTITLE, TITLE};
use crate::words::{clean, short_fingerprint};
use tiersim_models::results::RunRecord;

/// Where the series are that a legend has no room for.
pub(crate) const RESULTS: &str = " (see results.csv)";
const ROW: f64 = 24.0;
const MOST_ROWS: usize = 3;
/// Room for the sample before a text, and room behind it.
const INDENT: f64 = 36.0;
const GAP: f64 = 26.0;

/// Draws the sample of a legend entry, centred on the point.
pub(crate) type Key<'a> = Box<dyn Fn(&mut Canvas, (f64, f64)) + 'a>;

/// One entry of a legend.
pub(crate) struct Entry<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) text: String,
}

/// Title and question; gives the height where they end.
pub(crate) fn header(canvas: &mut Canvas, title: &str, about: &str) -> f64 {
    let sheet = canvas.sheet;
    if !sheet.is_titled() {
        canvas.said.extend([clean(title), clean(about)]);
        return 4.0;
    }
    let width = sheet.width - 2.0 * sheet.margin;
    canvas.text(&fit(title, TITLE, width), (sheet.margin, 36.0), TITLE, INK, Align::Left);
    let mut y = 40.0;
    for line in wrap(about, SUBTITLE, width, 2) {
        y += 20.0;
        canvas.text(&line, (sheet.margin, y), SUBTITLE, SOFT_INK, Align::Left);
    }
    y + 8.0
}

/// Entries in rows from `top` on; gives the height where they end.
///
/// `first` are left out from their end if there are too many for three rows, and an entry says how
/// many and, by `see`, where they are; `last` are always there. Where a row more is enough for all,
/// or one alone would be left out, all are there.
pub(crate) fn legend(
    canvas: &mut Canvas,
    top: f64,
    first: Vec<Entry>,
    last: Vec<Entry>,
    see: &str,
) -> f64 {
    let all = first.len();
    let sheet = canvas.sheet;
    let name = |entry: &Entry| shown(&sheet, entry);
    let more = |kept: usize| match all - kept {
        0 => None,
        n => Some(format!("+ {n} more series{see}")),
    };
    let texts = |kept: usize| -> Vec<String> {
        let names = first[..kept].iter().map(name).chain(more(kept));
        names.chain(last.iter().map(name)).collect()
    };
    let rows = |n: usize| flow(&sheet, &texts(n)).1;
    let fits = |n: &usize| rows(*n) <= most_rows(&sheet);
    // What follows the names makes no room for more of them: few of many are worth a try.
    let tried: Vec<String> = first.iter().take(most_entries(&sheet)).map(name).collect();
    let (places, _) = flow(&sheet, &tried);
    let alone = places.partition_point(|&(_, row)| row < most_rows(&sheet));
    let kept = (0..=alone).rev().find(fits).unwrap_or(0);
    let spared =
        kept + 1 == all || (all <= most_entries(&sheet) && rows(all) <= most_rows(&sheet) + 1);
    let kept = if spared { all } else { kept };
    let texts = texts(kept);
    let (places, rows) = flow(&sheet, &texts);
    let mut keys = first[..kept].iter().map(|entry| Some(&entry.key)).collect::<Vec<_>>();
    if kept < all {
        keys.push(None);
    }
    keys.extend(last.iter().map(|entry| Some(&entry.key)));
    for ((text, (x, row)), key) in texts.iter().zip(places).zip(keys) {
        let y = top + ROW * row as f64 + ROW / 2.0;
        let indent = if key.is_some() { INDENT } else { 0.0 };
        if let Some(key) = key {
            key(canvas, (x + 15.0, y));
        }
        canvas.text(text, (x + indent, y + 5.0), LABEL, INK, Align::Left);
    }
    top + ROW * rows as f64
}

/// Those of a series that is on a front before the others, if a legend cannot have all: it leaves
/// out what is least in sight.
pub(crate) fn fronts_first<'e>(
    sheet: &Sheet,
    mut entries: Vec<(bool, Entry<'e>)>,
    last: &[Entry<'e>],
) -> Vec<Entry<'e>> {
    let all = entries.iter().map(|(_, entry)| entry).chain(last);
    let texts: Vec<String> = all.map(|entry| shown(sheet, entry)).collect();
    if flow(sheet, &texts).1 > most_rows(sheet) + 1 {
        entries.sort_by_key(|(on_front, _)| !on_front);
    }
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Whether [`legend`] has room for all of these.
pub(crate) fn has_room<'e>(sheet: &Sheet, entries: impl Iterator<Item = &'e Entry<'e>>) -> bool {
    let texts: Vec<String> = entries.map(|entry| shown(sheet, entry)).collect();
    flow(sheet, &texts).1 <= most_rows(sheet)
}

/// A narrow sheet is higher for its width.
fn most_rows(sheet: &Sheet) -> usize {
    if sheet.is_titled() { MOST_ROWS } else { MOST_ROWS + 2 }
}

/// No legend has room for more, whatever their names.
fn most_entries(sheet: &Sheet) -> usize {
    most_rows(sheet) * ((sheet.width / (INDENT + GAP)) as usize + 1)
}

fn shown(sheet: &Sheet, entry: &Entry) -> String {
    fit_name(&entry.text, LABEL, 460f64.min(sheet.width - 2.0 * sheet.margin - 40.0))
}

/// The stairs of a front as a legend's sample.
pub(crate) fn sample_stairs((x, y): (f64, f64)) -> Vec<(f64, f64)> {
    vec![(x - 15.0, y - 6.0), (x, y - 6.0), (x, y + 6.0), (x + 15.0, y + 6.0)]
}

/// Where each text's entry starts, as (x, row), and how many rows there are.
fn flow(sheet: &Sheet, texts: &[String]) -> (Vec<(f64, usize)>, usize) {
    let right = sheet.width - sheet.margin;
    let (mut x, mut row) = (sheet.margin, 0);
    let mut places = Vec::new();
    for text in texts {
        let width = INDENT + text_width(text, LABEL);
        if x > sheet.margin && x + width > right {
            (x, row) = (sheet.margin, row + 1);
        }
        places.push((x, row));
        x += width + GAP;
    }
    (places, if texts.is_empty() { 0 } else { row + 1 })
}

/// Where the numbers come from, in two small lines at the bottom.
pub(crate) fn footer(canvas: &mut Canvas, record: &RunRecord, version: &str) {
    let what = |op_time: fn(&str) -> &str| {
        format!(
            "hardware {} · workload {} · op time: {}",
            each(record, |on| on.hardware.to_string()),
            each(record, |on| on.workload.to_string()),
            each(record, |on| op_time(&on.op_time).to_owned())
        )
    };
    let room = canvas.sheet.width - 2.0 * canvas.sheet.margin;
    let full = what(|text| text);
    // By which ways how many kernels were priced is in the results as well.
    let what = match text_width(&full, SMALL) <= room {
        true => full,
        false => what(|text| text.split_once(": ").map_or(text, |(device, _)| device)),
    };
    let whence = format!(
        "{} · tiersim {version} · seed {} · {}",
        short_fingerprint(&record.fingerprint),
        each(record, |on| on.seed.to_string()),
        assumed(record)
    );
    let note = statistics_note(record).map_or(String::new(), |note| format!("{note} · "));
    let drifts = crate::steady::note(record).map_or(String::new(), |note| format!("{note} · "));
    foot(canvas, &[what, drifts + &note + &whence]);
}

/// Up to two small lines at the bottom.
pub(crate) fn foot(canvas: &mut Canvas, lines: &[String]) {
    let sheet = canvas.sheet;
    if !sheet.is_titled() {
        canvas.said.extend(lines.iter().map(|line| clean(line)));
        return;
    }
    let (width, bottom) = (sheet.width - 2.0 * sheet.margin, sheet.height);
    for (line, y) in lines.iter().zip([bottom - 30.0, bottom - 12.0]) {
        canvas.text(&fit(line, SMALL, width), (sheet.margin, y), SMALL, SOFT_INK, Align::Left);
    }
}

/// The border of what a front beats, from the top edge of an area through its points to the right
/// edge.
pub(crate) fn stairs(points: impl IntoIterator<Item = (f64, f64)>, area: Rect) -> Vec<(f64, f64)> {
    let mut stairs: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        let above = stairs.last().map_or(area.top, |last| last.1);
        stairs.extend([(x, above), (x, y)]);
    }
    stairs.extend(stairs.last().copied().map(|last| (area.right, last.1)));
    stairs
}

/// Title of a horizontal axis.
pub(crate) fn x_title(canvas: &mut Canvas, text: &str, centre: f64, y: f64) {
    canvas.text(text, (centre, y), AXIS, INK, Align::Centre);
}

/// Title of a vertical axis; `x` is where its baseline is.
pub(crate) fn y_title(canvas: &mut Canvas, text: &str, x: f64, centre: f64, room: f64) {
    canvas.text_upward(&fit_titled(text, AXIS, room), (x, centre), AXIS, INK);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Item;

    fn texts(names: &[String]) -> Vec<String> {
        let mut canvas = Canvas::default();
        let entry = |text: &String| Entry { key: Box::new(|_, _| {}), text: text.clone() };
        legend(&mut canvas, 0.0, names.iter().map(entry).collect(), Vec::new(), RESULTS);
        let text = |item: &Item| Some(item.text_place()?.1.to_owned());
        canvas.items.iter().filter_map(text).collect()
    }

    #[test]
    fn never_is_one_series_alone_left_out() {
        let mut left_out = 0;
        for length in 4..60 {
            for count in 1..40 {
                let names: Vec<String> = (0..count)
                    .map(|at| format!("{at:02} {}", "name ".repeat(length / 5)).trim().to_owned())
                    .collect();
                let shown = texts(&names);
                assert!(!shown.iter().any(|text| text.starts_with("+ 1 more")), "{shown:?}");
                let more = shown.iter().any(|text| text.starts_with("+ "));
                left_out += usize::from(more);
                assert!(more || shown.len() == count, "{shown:?}");
            }
        }
        assert!(left_out > 0, "some legend is too long");
    }

    #[test]
    fn what_is_on_a_front_is_left_out_last() {
        let sheet = Canvas::default().sheet;
        let entries = |count: usize| -> Vec<(bool, Entry<'static>)> {
            let text = |at| format!("a series of a long name {at}");
            let entry = |at| Entry { key: Box::new(|_: &mut Canvas, _| {}) as Key, text: text(at) };
            (0..count).map(|at| (at + 1 == count, entry(at))).collect()
        };
        let first = |count| fronts_first(&sheet, entries(count), &[]).remove(0).text;
        assert_eq!(first(3), "a series of a long name 0");
        assert_eq!(first(40), "a series of a long name 39");
    }
}
