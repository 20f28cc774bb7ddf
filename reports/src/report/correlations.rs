//! What an answer hangs on: the rank correlation of each number, a bar each, the longest on top.
//!
//! Left of the line a higher number goes with a lower figure, right of it with a higher one. The
//! two differ by colour, by side and by the sign of the number beside the bar. What chance brings
//! forth as well is no influence: such bars are grey and stand below the others, without a rank.
//! Invariant: a bar's length is its correlation, on an axis from -1 to 1.

use crate::canvas::{Align, Canvas, Rect};
use crate::fitted::fit;
use crate::frame;
use crate::render::{CHART_SIZE, Chart};
use crate::scale::Scale;
use crate::style::{self, LABEL};
use crate::uncertainty::least_correlation;
use crate::words::{count, rounded};

/// Most bars.
const MOST: usize = 16;
/// Room for names on the left, and for numbers on the right.
const NAMES: f64 = 400.0;
const NUMBERS: f64 = 90.0;
const ROW: f64 = 30.0;

/// The chart of correlations by name; `about` says of what they are.
pub(super) fn correlations(
    title: &str,
    about: &str,
    (draws, of): (usize, &[(String, f64)]),
) -> Chart {
    let least = least_correlation(draws);
    let mut order: Vec<&(String, f64)> = of.iter().collect();
    // Equals, as those that say nothing, in the order of the numbers.
    let rank = |by: f64| if by.abs() < least { 0.0 } else { by.abs() };
    order.sort_by(|a, b| rank(b.1).total_cmp(&rank(a.1)));
    let left_out = order.len().saturating_sub(MOST);
    order.truncate(MOST);
    let mut canvas = Canvas::default();
    let top = frame::header(&mut canvas, title, about) + 14.0;
    let bottom = top + ROW * order.len() as f64 + 8.0;
    let sheet = canvas.sheet;
    let right = sheet.width - sheet.margin - NUMBERS;
    let area = Rect::new(sheet.margin + NAMES, top, right, bottom);
    let x = Scale::linear(&[-1.0, 1.0], 0.0, area.left, area.right);
    // Within this strip nothing is said to hang on a number.
    let strip = [-least, least].map(|end| x.at(end));
    canvas.rect(Rect::new(strip[0], top, strip[1], bottom), style::ABSENT);
    for (value, text) in x.ticks(9) {
        let at = x.at(value);
        canvas.line((at, top), (at, bottom), style::GRID, 1.0);
        canvas.text(&text, (at, bottom + 20.0), LABEL, style::INK, Align::Centre);
    }
    for (index, (name, by)) in order.into_iter().enumerate() {
        let y = top + 4.0 + ROW * index as f64;
        let (from, to) = (x.at(0.0), x.at(*by));
        let bar = Rect::new(from.min(to), y + 5.0, from.max(to), y + ROW - 5.0);
        let color = match by.abs() < least {
            true => style::FRAME,
            false => style::series_color(usize::from(*by > 0.0)),
        };
        canvas.rect(bar, color);
        canvas.frame(bar, color.shade(), 1.0);
        let name = fit(name, LABEL, NAMES - 14.0);
        canvas.text(&name, (area.left - 10.0, y + 20.0), LABEL, style::INK, Align::Right);
        let text = rounded(*by, 2, true);
        canvas.text(&text, (area.right + 10.0, y + 20.0), LABEL, style::INK, Align::Left);
    }
    canvas.line((x.at(0.0), top), (x.at(0.0), bottom), style::INK, 1.5);
    canvas.frame(area, style::FRAME, 1.0);
    let centre = f64::midpoint(area.left, area.right);
    let more = match left_out {
        0 => String::new(),
        more => format!("; {} below these", count(more, "number", "numbers")),
    };
    let words = format!("rank correlation (grey: of {draws} draws no more than chance){more}");
    frame::x_title(&mut canvas, &words, centre, bottom + 42.0);
    Chart::sized(title.to_owned(), canvas, (CHART_SIZE.0, (bottom + 60.0) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Item;

    #[test]
    fn bars_are_as_long_as_correlations_and_the_longest_is_first() {
        let of = [("a".to_owned(), -0.4), ("b".to_owned(), 0.8), ("c".to_owned(), 0.0)];
        let chart = correlations("what", "of what", (100, &of));
        chart.assert_legible(0.0);
        // With so few draws neither is more than chance, and the first is the first of the list.
        let chance = correlations("what", "of what", (11, &of));
        let colored = |chart: &Chart, look: usize| {
            let color = style::series_color(look);
            let of =
                |item: &Item| matches!(item, Item::Polygon { color: own, .. } if *own == color);
            chart.items().iter().filter(|item| of(item)).count()
        };
        assert_eq!([0, 1].map(|look| colored(&chart, look)), [1, 1]);
        assert_eq!([0, 1].map(|look| colored(&chance, look)), [0, 0]);
        let looks = [0, 1].map(style::series_color);
        let bars: Vec<(f64, f64)> = chart
            .items()
            .iter()
            .filter_map(|item| match item {
                Item::Polygon { points, color } if looks.contains(color) => {
                    let ys = points.iter().map(|point| point.1);
                    let xs: Vec<f64> = points.iter().map(|point| point.0).collect();
                    let width = xs.iter().copied().fold(f64::MIN, f64::max)
                        - xs.iter().copied().fold(f64::MAX, f64::min);
                    Some((ys.fold(f64::MAX, f64::min), width))
                }
                _ => None,
            })
            .filter(|bar| bar.1 > 1.0)
            .collect();
        assert!((bars[0].1 / bars[1].1 - 2.0).abs() < 1e-6, "{bars:?}");
        assert!(bars[0].0 < bars[1].0, "{bars:?}");
    }
}
