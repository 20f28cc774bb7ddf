//! Stacked bars: what the step of each case is made of.
//!
//! The largest parts of cases have a colour each, in the order of the charts' series; the rest is one
//! grey piece at the end, and no bar has more of it than need be. Where one step is many times another, bars are shares of
//! their own step, as a short bar would show nothing.
//! Invariant: the pieces of a bar touch and add up to it.

use crate::canvas::{Align, Canvas, Rect};
use crate::column::Values;
use crate::fitted::fit_name;
use crate::font::text_width;
use crate::frame::{self, Entry};
use crate::render::{CHART_SIZE, Chart};
use crate::style::{self, Color, LABEL};
use crate::units::time;
use crate::words::percent;

/// Parts with a colour of their own.
const MOST_PARTS: usize = 8;
/// Steps that differ by more are shown as shares.
const MOST_RATIO: f64 = 12.0;
/// Pixels of a name, and as many as its widest one needs are left beside the bars.
const MOST_NAME: f64 = 420.0;
const ROW: f64 = 30.0;
const OTHERS: Color = Color(190, 190, 190, 1.0);

/// The chart of cases with milliseconds by part.
pub(super) fn bars(title: &str, parts: &[String], rows: &[(String, Values)]) -> Chart {
    let sum = |values: &Values| values.iter().flatten().sum::<f64>();
    let (large, rows) = (&largest(parts.len(), rows), rows);
    let color = |at: usize| style::series_color(at);
    let (least, most) = rows
        .iter()
        .map(|(_, values)| sum(values))
        .fold((f64::INFINITY, 0.0f64), |(least, most), step| (least.min(step), most.max(step)));
    let shares = most > MOST_RATIO * least;
    let mut canvas = Canvas::default();
    let about = match shares {
        true => "Each bar is the whole of its own step, whose length stands behind it.",
        false => "Bars are as long as their steps.",
    };
    let top = frame::header(&mut canvas, title, about);
    let keys = large.iter().enumerate();
    let entries = keys.map(|(at, &part)| entry(&parts[part], color(at))).collect();
    let rest = if parts.len() > large.len() { vec![entry("other parts", OTHERS)] } else { vec![] };
    let mut y = frame::legend(&mut canvas, top, entries, rest, "") + 10.0;
    let names: Vec<String> =
        rows.iter().map(|(label, _)| fit_name(label, LABEL, MOST_NAME)).collect();
    let widest = names.iter().map(|name| text_width(name, LABEL)).fold(0.0, f64::max);
    let margin = canvas.sheet.margin;
    let (left, right) = (margin + widest + 14.0, canvas.sheet.width - margin - 90.0);
    for (name, (_, values)) in names.iter().zip(rows) {
        let step = sum(values);
        let whole = if shares { step } else { most };
        canvas.text(name, (left - 10.0, y + 19.0), LABEL, style::INK, Align::Right);
        let mut x = left;
        let own: Vec<f64> = large.iter().map(|&part| values[part].unwrap_or(0.0)).collect();
        let others = (step - own.iter().sum::<f64>()).max(0.0);
        let own = own.iter().enumerate().map(|(at, &ms)| (ms, color(at)));
        for (ms, color) in own.chain([(others, OTHERS)]) {
            let width = ms / whole.max(f64::MIN_POSITIVE) * (right - left);
            let piece = Rect::new(x, y + 3.0, x + width, y + ROW - 5.0);
            if width > 0.01 {
                canvas.rect(piece, color);
                // In grey neighbours can be alike.
                canvas.line((x, piece.top), (x, piece.bottom), style::WHITE, 1.0);
                inside(&mut canvas, piece, ms / step, color);
            }
            x += width;
        }
        canvas.text(&time(step * 1e9), (x + 8.0, y + 19.0), LABEL, style::INK, Align::Left);
        y += ROW;
    }
    Chart::sized(title.to_owned(), canvas, (CHART_SIZE.0, (y + 16.0) as u32))
}

/// The parts with a colour, in the order of parts: again and again the largest one that is left of
/// the bar of which most is still grey, so that no bar is grey for the sake of all others.
fn largest(parts: usize, rows: &[(String, Values)]) -> Vec<usize> {
    let share = |of: &Values| -> Vec<f64> {
        let step: f64 = of.iter().flatten().sum();
        let share = |part: usize| of[part].unwrap_or(0.0) / step.max(f64::MIN_POSITIVE);
        (0..parts).map(share).collect()
    };
    let mut left: Vec<Vec<f64>> = rows.iter().map(|(_, values)| share(values)).collect();
    let mut large: Vec<usize> = Vec::new();
    while large.len() < MOST_PARTS.min(parts) {
        let grey = |bar: &&Vec<f64>| bar.iter().sum::<f64>();
        // Of equals the first.
        let Some(bar) = left.iter().rev().max_by(|a, b| grey(a).total_cmp(&grey(b))) else { break };
        let next = (0..parts).rev().filter(|part| !large.contains(part));
        let Some(part) = next.max_by(|&a, &b| bar[a].total_cmp(&bar[b])) else { break };
        large.push(part);
        left.iter_mut().for_each(|bar| bar[part] = 0.0);
    }
    large.sort_unstable();
    large
}

/// The share of a piece that has room for it.
fn inside(canvas: &mut Canvas, piece: Rect, share: f64, color: Color) {
    if piece.width() < 64.0 {
        return;
    }
    let ink = style::ink_on(color);
    let middle = (piece.left + piece.right) / 2.0;
    canvas.text(&percent(share), (middle, piece.bottom - 6.0), style::SMALL, ink, Align::Centre);
}

fn entry(name: &str, color: Color) -> Entry<'static> {
    let key = move |canvas: &mut Canvas, (x, y): (f64, f64)| {
        canvas.rect(Rect::new(x - 12.0, y - 7.0, x + 12.0, y + 7.0), color);
    };
    Entry { key: Box::new(key), text: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Item;

    fn widths(rows: &[(String, Values)]) -> Vec<f64> {
        let parts = ["compute".to_owned(), "copy".to_owned()];
        let chart = bars("steps", &parts, rows);
        chart.assert_legible(0.0);
        let of = |item: &Item| match item {
            Item::Polygon { points, .. } if points[1].0 - points[0].0 > 25.0 => {
                Some(points[1].0 - points[0].0)
            }
            _ => None,
        };
        chart.items().iter().filter_map(of).collect()
    }

    /// AA of WCAG 2 asks for 4.5 of small text.
    #[test]
    fn shares_can_be_read_on_every_colour() {
        for color in (0..MOST_PARTS).map(style::series_color).chain([OTHERS]) {
            let ink = style::ink_on(color);
            let (a, b) = (color.luminance() + 0.05, ink.luminance() + 0.05);
            assert!(a.max(b) / a.min(b) >= 4.5, "{color:?} under {ink:?}");
        }
    }

    #[test]
    fn bars_are_as_long_as_steps_or_whole_where_these_differ_much() {
        let row = |name: &str, a: f64, b: f64| (name.to_owned(), vec![Some(a), Some(b)]);
        let like = widths(&[row("a", 30.0, 10.0), row("b", 10.0, 10.0)]);
        assert!((like[0] / like[1] - 3.0).abs() < 1e-9);
        assert!(((like[0] + like[1]) / (like[2] + like[3]) - 2.0).abs() < 1e-9);
        let unlike = widths(&[row("a", 300.0, 100.0), row("b", 1.0, 1.0)]);
        assert!((unlike[0] + unlike[1] - unlike[2] - unlike[3]).abs() < 1e-9);
    }

    /// Nine bars: eight of one kind, and one of which the largest part is in no other.
    #[test]
    fn the_largest_part_of_every_bar_has_a_colour() {
        let parts = 12;
        let alike = |at: usize| {
            let of = |part: usize| Some(if part == 11 { 0.0 } else { 10.0 + part as f64 });
            (format!("case {at}"), (0..parts).map(of).collect::<Values>())
        };
        let mut rows: Vec<(String, Values)> = (0..8).map(alike).collect();
        let odd = (0..parts).map(|part| if part == 11 { Some(51.0) } else { Some(4.0) });
        rows.push(("odd".to_owned(), odd.collect()));
        let large = largest(parts, &rows);
        assert_eq!(large.len(), MOST_PARTS);
        let most = |values: &Values| {
            (0..parts).max_by(|&a, &b| values[a].partial_cmp(&values[b]).expect("numbers"))
        };
        for (name, values) in &rows {
            assert!(large.contains(&most(values).expect("parts")), "{name}: {large:?}");
        }
    }
}
