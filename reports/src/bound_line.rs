//! The bound as a line: what no policy goes below, by HBM.
//!
//! Between two points of the curve the value of the one with more memory holds: with less memory no
//! policy is faster, so no case can lie below the stairs unless it does not pay for every use.
//! Invariant: inside the plot's frame.

use crate::canvas::{Canvas, Rect};
use crate::frame::Entry;
use crate::latency_memory::Plot;
use crate::style;
use tiersim_models::units::{Bytes, Span};
use tiersim_sim::record::RunRecord;

/// Dashes of the line.
const DASHES: (f64, f64) = (2.5, 4.0);
const WIDTH: f64 = 1.8;

type Stretch = ((f64, f64), (f64, f64));

/// Its entry in the legend, if there is a curve.
pub(crate) fn entry(record: &RunRecord) -> Option<Entry<'static>> {
    let key = |canvas: &mut Canvas, (x, y): (f64, f64)| {
        canvas.dashed(&[(x - 15.0, y), (x + 15.0, y)], style::SOFT_INK, WIDTH, DASHES);
    };
    let text = "bound: no policy is faster".to_owned();
    (!record.bound_curve.is_empty()).then(|| Entry { key: Box::new(key), text })
}

/// Draws the curve; gives its stretches, which labels had better not cover.
pub(crate) fn draw(canvas: &mut Canvas, plot: &Plot, record: &RunRecord) -> Vec<Stretch> {
    let area = plot.data();
    let place = |&(bytes, step): &(Bytes, Span)| {
        (plot.x.at(bytes.get() as f64 / plot.memory.1), plot.y.at(step.ps() as f64 / plot.time.1))
    };
    let points: Vec<(f64, f64)> = record.bound_curve.iter().map(place).collect();
    let stretches: Vec<Stretch> = stairs(&points, area.right)
        .windows(2)
        .filter_map(|ends| within(area, ends[0], ends[1]))
        .collect();
    for &(from, to) in &stretches {
        canvas.dashed(&[from, to], style::SOFT_INK, WIDTH, DASHES);
    }
    stretches
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
    use super::{stairs, within};
    use crate::canvas::Rect;

    #[test]
    fn between_two_points_the_lower_bound_holds() {
        let corners = stairs(&[(10.0, 50.0), (20.0, 70.0), (30.0, 70.0)], 40.0);
        let expected = [(10.0, 50.0), (10.0, 70.0), (30.0, 70.0), (40.0, 70.0)];
        assert_eq!(corners, expected);
    }

    #[test]
    fn what_is_outside_the_frame_is_not_drawn() {
        let area = Rect::new(0.0, 0.0, 10.0, 10.0);
        assert_eq!(within(area, (-5.0, 3.0), (4.0, 3.0)), Some(((0.0, 3.0), (4.0, 3.0))));
        assert_eq!(within(area, (-5.0, 3.0), (-1.0, 3.0)), None);
        assert_eq!(within(area, (5.0, -3.0), (5.0, 2.0)), Some(((5.0, 0.0), (5.0, 2.0))));
    }
}
