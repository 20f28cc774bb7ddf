//! How a chart shows what cases are held against.
//!
//! What all cases share is a line: the bound by HBM where it is known, else a level one. A line of
//! one of several would say something false of the others, so then every point has its own marks
//! in its colour, above or below it: a bar for its bound, a broken bar for its baseline.
//! Between two points of the curve the value of the one with more memory holds: with less memory no
//! policy is faster, so no case can lie below the stairs unless it does not pay for every use.
//! Invariant: inside the plot's frame; a line is drawn only if it holds for every case.

use crate::against::{Against, HeldAgainst, own_bound};
use crate::canvas::{Canvas, Color, Rect};
use crate::frame::Entry;
use crate::plot::Plot;
use crate::scale::Scale;
use crate::style::{self, MOST_JOINED, MOST_LABELS};
use tiersim_models::units::{Bytes, Span};

/// Dashes of the line.
pub(crate) const DASHES: (f64, f64) = (2.5, 4.0);
pub(crate) const WIDTH: f64 = 1.8;

type Stretch = ((f64, f64), (f64, f64));

/// Entries of the legend for what is not named along its line.
pub(crate) fn entries(against: &Against) -> Vec<Entry<'static>> {
    let mut entries = Vec::new();
    let mut add = |is: bool, key: fn(&mut Canvas, (f64, f64)), text: String| {
        if is {
            entries.push(Entry { key: Box::new(key), text });
        }
    };
    let Against { what, apart, .. } = against;
    let curve: fn(&mut Canvas, (f64, f64)) = |canvas, (x, y)| {
        canvas.dashed(&[(x - 15.0, y), (x + 15.0, y)], style::SOFT_INK, WIDTH, DASHES);
    };
    // The baseline updates on the device what a case may have told the host to update.
    let above = match (against.baseline, against.curve.last()) {
        (HeldAgainst::Same(baseline), Some((_, bound))) => bound.ps() > baseline,
        _ => false,
    };
    // Longer texts are cut.
    let text = match above {
        true => format!("{what}, updating on the host: none is faster{apart}"),
        false => format!("{what}: no policy is faster{apart}"),
    };
    add(!against.curve.is_empty(), curve, text);
    let own_bound: fn(&mut Canvas, (f64, f64)) = |canvas, at| {
        bound_mark(canvas, at, 9.0, style::SOFT_INK);
    };
    add(
        against.bound == HeldAgainst::Own,
        own_bound,
        // Emulated points have no such mark.
        format!("{what}: no policy is faster"),
    );
    let own_baseline: fn(&mut Canvas, (f64, f64)) = |canvas, at| {
        baseline_mark(canvas, at, 9.0, style::SOFT_INK);
    };
    add(
        against.baseline == HeldAgainst::Own,
        own_baseline,
        "the point with unlimited HBM".to_owned(),
    );
    entries
}

/// A bar with its ends turned up: nothing comes through from above.
pub(crate) fn bound_mark(canvas: &mut Canvas, (x, y): (f64, f64), reach: f64, color: Color) {
    let turn = reach * 0.45;
    let path = vec![(x - reach, y - turn), (x - reach, y), (x + reach, y), (x + reach, y - turn)];
    canvas.path(path, color, WIDTH);
}

/// A broken bar.
fn baseline_mark(canvas: &mut Canvas, (x, y): (f64, f64), reach: f64, color: Color) {
    for side in [-1.0, 1.0] {
        let ends = vec![(x + side * reach * 0.35, y), (x + side * reach, y)];
        canvas.path(ends, color, WIDTH);
    }
}

/// How far marks of their own reach when there are so many points.
pub(crate) fn reach(points: usize) -> f64 {
    match points {
        n if n <= MOST_LABELS => 10.0,
        n if n <= MOST_JOINED => 7.0,
        _ => 4.0,
    }
}

/// The marks of points that have their own; gives what labels had better not cover.
pub(crate) fn own_marks(canvas: &mut Canvas, plot: &Plot) -> Vec<Stretch> {
    let Plot { against, points, record, .. } = plot;
    let (reach, stems) = (reach(points.done.len()), points.done.len() <= MOST_JOINED);
    let mut lines = Vec::new();
    for point in &points.done {
        let (x, y) = plot.at(point);
        let place = |ps: u64| (x, plot.y.at(ps as f64 / plot.time.1));
        let color = style::series_color(point.series).shade();
        let bound =
            (against.bound == HeldAgainst::Own).then(|| own_bound(record, plot.measure, point));
        if let Some(end) = bound.filter(|ps| *ps > 0).map(place) {
            canvas.tagged(point.tag(), |canvas| {
                if stems {
                    canvas.line((x, y), end, style::FRAME.tint(0.5), 1.0);
                }
                bound_mark(canvas, end, reach, color);
            });
            lines.push(((x, y), end));
            lines.push(((x - reach, end.1), (x + reach, end.1)));
        }
        if against.baseline == HeldAgainst::Own {
            let end = place(against.own_baseline(record, point));
            canvas.tagged(point.tag(), |canvas| baseline_mark(canvas, end, reach, color));
            lines.push(((x - reach, end.1), (x + reach, end.1)));
        }
    }
    lines
}

/// Draws the curve; gives its stretches, which labels had better not cover.
pub(crate) fn curve(canvas: &mut Canvas, plot: &Plot) -> Vec<Stretch> {
    let value = |&(bytes, step): &(Bytes, Span)| {
        (bytes.get() as f64 / plot.memory.1, step.ps() as f64 / plot.time.1)
    };
    let values: Vec<(f64, f64)> = plot.against.curve.iter().map(value).collect();
    let stretches = seen(&values, (&plot.x, &plot.y), plot.data());
    for &(from, to) in &stretches {
        canvas.dashed(&[from, to], style::SOFT_INK, WIDTH, DASHES);
    }
    stretches
}

/// What of the stairs through these values is inside. Values beyond the axes are beyond the frame:
/// moved to its edge they would be steps there that nobody ever takes.
fn seen(values: &[(f64, f64)], (x, y): (&Scale, &Scale), area: Rect) -> Vec<Stretch> {
    let points: Vec<_> =
        values.iter().map(|value| (x.beyond(value.0), y.beyond(value.1))).collect();
    let corners = stairs(&points, area.right);
    corners.windows(2).filter_map(|ends| within(area, ends[0], ends[1])).collect()
}

/// The corners of the stairs, from the least memory to the right edge.
fn stairs(points: &[(f64, f64)], right: f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        // A level step is one stretch, so that its dashes run on.
        if pair[0].1 == pair[1].1 && corners.len() > 1 {
            corners.pop();
        } else {
            corners.push((pair[0].0, pair[1].1));
        }
        corners.push(pair[1]);
    }
    corners.extend(points.last().map(|last| (right.max(last.0), last.1)));
    corners
}

/// What of a level or upright stretch is inside.
fn within(area: Rect, from: (f64, f64), to: (f64, f64)) -> Option<Stretch> {
    let outside = from.0.max(to.0) < area.left
        || from.0.min(to.0) > area.right
        || from.1.max(to.1) < area.top
        || from.1.min(to.1) > area.bottom;
    let inside =
        |at: (f64, f64)| (at.0.clamp(area.left, area.right), at.1.clamp(area.top, area.bottom));
    (!outside).then(|| (inside(from), inside(to)))
}

#[cfg(test)]
mod tests {
    use super::{seen, stairs, within};
    use crate::canvas::Rect;
    use crate::scale::Scale;

    #[test]
    fn between_two_points_the_lower_bound_holds() {
        let corners = stairs(&[(10.0, 50.0), (20.0, 70.0), (30.0, 70.0)], 40.0);
        let expected = [(10.0, 50.0), (10.0, 70.0), (30.0, 70.0), (40.0, 70.0)];
        assert_eq!(corners, expected);
    }

    #[test]
    fn the_curve_ends_level_where_the_axis_ends_before_it() {
        let area = Rect::new(0.0, 0.0, 100.0, 100.0);
        // From 0 to 10 and from 0 to 10: ten pixels for each, upwards.
        let x = Scale::linear(&[0.0, 10.0], 0.0, area.left, area.right);
        let y = Scale::linear(&[0.0, 10.0], 0.0, area.bottom, area.top);
        let values = [(-3.0, 20.0), (-1.0, 9.0), (4.0, 8.0), (12.0, 6.0), (20.0, 1.0)];
        let found = seen(&values, (&x, &y), area);
        let expected = [
            ((0.0, 20.0), (40.0, 20.0)),
            ((40.0, 20.0), (40.0, 40.0)),
            ((40.0, 40.0), (100.0, 40.0)),
        ];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let same = |(a, b): (&super::Stretch, &super::Stretch)| {
            near(a.0.0, b.0.0) && near(a.0.1, b.0.1) && near(a.1.0, b.1.0) && near(a.1.1, b.1.1)
        };
        let is_same = found.len() == expected.len() && found.iter().zip(&expected).all(same);
        assert!(is_same, "{found:?}");
    }

    #[test]
    fn what_is_outside_the_frame_is_not_drawn() {
        let area = Rect::new(0.0, 0.0, 10.0, 10.0);
        assert_eq!(within(area, (-5.0, 3.0), (4.0, 3.0)), Some(((0.0, 3.0), (4.0, 3.0))));
        assert_eq!(within(area, (-5.0, 3.0), (-1.0, 3.0)), None);
        assert_eq!(within(area, (5.0, -3.0), (5.0, 2.0)), Some(((5.0, 0.0), (5.0, 2.0))));
    }
}
