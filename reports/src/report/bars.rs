//! Stacked bars: what the step of each case is made of.
//!
//! The largest parts of all cases together have a colour each, in the order of the charts' series;
//! the rest is one grey piece at the end. Where one step is many times another, bars are shares of
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

/// The parts with a colour, in the order of parts: those that are most of steps, each step counting
/// as much as any other.
fn largest(parts: usize, rows: &[(String, Values)]) -> Vec<usize> {
    let share = |part: usize| -> f64 {
        let of = |(_, values): &(String, Values)| {
            let step: f64 = values.iter().flatten().sum();
            values[part].unwrap_or(0.0) / step.max(f64::MIN_POSITIVE)
        };
        rows.iter().map(of).sum()
    };
    let mut large: Vec<usize> = (0..parts).collect();
    large.sort_by(|&a, &b| share(b).total_cmp(&share(a)).then(a.cmp(&b)));
    large.truncate(MOST_PARTS);
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
}
