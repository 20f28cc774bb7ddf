//! Texts inside the latency chart: labels of points, of crosses, of the two lines.
//!
//! Points are served first and stay next to their markers; the baseline and the bound can be named
//! anywhere along their lines. Texts give way to one another, never the other way round: what has
//! no room is left out, and the table has it.

use crate::against::HeldAgainst;
use crate::canvas::{Align, Canvas, Rect, Tag};
use crate::font::text_width;
use crate::labels::{self, Obstacles, Request};
use crate::names::Direct;
use crate::plot::Plot;
use crate::points::Point;
use crate::style::{self, LABEL};
use crate::units::time;
use crate::words::{count, number};

/// Cases, and a name for each.
pub(crate) type Labels<'a> = (&'a [usize], &'a Direct);

/// A case's name; none on a chart of too many.
fn name_of<'a>((cases, labels): &Labels<'a>, case: usize) -> &'a str {
    let at = cases.binary_search(&case).ok();
    at.and_then(|at| labels.names.get(at)).map_or("", String::as_str)
}

/// Points at one place: where, the first of them, how many more.
type Group<'p> = ((f64, f64), &'p Point, usize);

/// Writes the case's label next to its point; gives the places taken. Points that lie on top of
/// each other share a label.
pub(crate) fn point_labels(
    canvas: &mut Canvas,
    plot: &Plot,
    obstacles: &Obstacles,
    labels: &Labels<'_>,
) -> Vec<Rect> {
    let points = &plot.points;
    let mut groups: Vec<Group> = Vec::new();
    for point in &points.done {
        let (x, y) = plot.at(point);
        match groups.iter_mut().find(|((gx, gy), _, _)| (gx - x).hypot(gy - y) < 3.0) {
            Some((_, _, others)) => *others += 1,
            None => groups.push(((x, y), point, 0)),
        }
    }
    let text = |&(_, point, others): &Group| {
        let label = name_of(labels, point.case);
        // Where each point has a baseline of its own, there is no axis of slowdowns, and theirs
        // could not be compared: the time can.
        let label = match plot.against.baseline {
            HeldAgainst::Own => format!("{label}: {}", time(point.step as f64)),
            HeldAgainst::Nowhere | HeldAgainst::Same(_) => label.to_owned(),
        };
        if others > 0 { format!("{label} and {others} more") } else { label }
    };
    let texts: Vec<String> = groups.iter().map(text).collect();
    let request = |(group, text): (&Group, &String)| {
        let size = (text_width(text, LABEL) + 4.0, LABEL + 3.0);
        Request { at: group.0, clear: 8.0, size }
    };
    let requests: Vec<Request> = groups.iter().zip(&texts).map(request).collect();
    let places = labels::place(&requests, &plot.data().grown(-3.0), obstacles);
    for (group, place) in groups.iter().zip(&places) {
        if let Some((from, to)) = place.and_then(|place| labels::leader(group.0, &place)) {
            canvas.tagged(group.1.tag(), |canvas| canvas.line(from, to, style::FRAME, 1.0));
        }
    }
    for ((group, text), place) in groups.iter().zip(&texts).zip(&places) {
        if let Some(place) = place {
            let draw = |canvas: &mut Canvas| backed_text(canvas, text, place, style::INK);
            canvas.tagged(group.1.tag(), draw);
        }
    }
    places.into_iter().flatten().collect()
}

/// Text on a veil of white, so that lines under it stay visible and it stays readable.
fn backed_text(canvas: &mut Canvas, text: &str, place: &Rect, color: style::Color) {
    canvas.rect(*place, style::WHITE.alpha(0.75));
    canvas.text(text, (place.left + 2.0, place.bottom - 4.5), LABEL, color, Align::Left);
}

/// Crosses in the band, one per place, with the labels of their cases where there is room.
pub(crate) fn crosses(canvas: &mut Canvas, plot: &Plot, labels: &Labels<'_>) {
    let Some(band) = plot.band else { return };
    let points = &plot.points;
    let y = (band.top + band.bottom) / 2.0;
    let mut at: Vec<(f64, bool, usize)> = points
        .oom
        .iter()
        .map(|&(case, budget)| {
            let value = budget.map_or(f64::INFINITY, |bytes| bytes as f64 / plot.memory.1);
            let x = plot.x.at(value).clamp(band.left + 10.0, band.right - 22.0);
            (x, value > plot.x.hi, case)
        })
        .collect();
    at.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
    for &(x, beyond, case) in &at {
        let tag = Tag { case: Some(case), at: Some((x, y)), ..Tag::default() };
        canvas.tagged(tag, |canvas| {
            style::cross(canvas, (x, y), 6.0, style::OOM, 2.5);
            if beyond {
                let tip = [(x + 11.0, y - 5.0), (x + 18.0, y), (x + 11.0, y + 5.0)];
                canvas.polygon(tip.to_vec(), style::OOM);
            }
        });
    }
    let named = !labels.1.names.is_empty();
    // Cases given about the same HBM share one label.
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for (x, _, case) in at {
        match groups.last_mut() {
            Some((first, cases)) if x - *first < 36.0 => cases.push(case),
            _ => groups.push((x, vec![case])),
        }
    }
    let mut taken: Vec<Rect> =
        groups.iter().map(|(x, _)| Rect::new(x - 9.0, band.top, x + 22.0, band.bottom)).collect();
    for (x, cases) in &groups {
        let label = name_of(labels, cases[0]);
        let text = match (named, cases.len()) {
            (false, n) => count(n, "case", "cases"),
            (true, 1) => label.to_owned(),
            (true, n) => format!("{label} and {} more", n - 1),
        };
        let width = text_width(&text, LABEL) + 4.0;
        for left in [x + 23.0, x - 12.0 - width] {
            let place = Rect::new(left, y - 8.5, left + width, y + 8.5);
            if band.holds(&place) && taken.iter().all(|other| place.overlap(other) == 0.0) {
                canvas.text(&text, (left + 2.0, y + 5.0), LABEL, style::OOM, Align::Left);
                taken.push(place);
                break;
            }
        }
    }
}

/// Names the baseline and the bound, wherever along their lines there is room.
pub(crate) fn line_labels(canvas: &mut Canvas, plot: &Plot, mut obstacles: Obstacles) {
    let area = plot.data().grown(-3.0);
    let value = |ps: u64| format!("{} {}", number(ps as f64 / plot.time.1), plot.time.0);
    let (baseline, bound) = (plot.against.baseline, plot.against.bound);
    let of_bound = format!("{}, no policy is faster{}", plot.against.what, plot.against.apart);
    let lines = [(baseline, "unlimited HBM", true), (bound, of_bound.as_str(), false)];
    for (held, what, above_first) in lines {
        let (Some(y), HeldAgainst::Same(ps)) = (plot.level(held), held) else { continue };
        let text = format!("{what}: {}", value(ps));
        let (width, height) = (text_width(&text, LABEL) + 4.0, LABEL + 3.0);
        let mut best: Option<(f64, Rect)> = None;
        for step in 0..=24 {
            let left = area.right - 4.0 - width - f64::from(step) * (area.width() - width) / 26.0;
            for above in [above_first, !above_first] {
                let top = if above { y - 3.0 - height } else { y + 3.0 };
                let place = Rect::new(left, top, left + width, top + height);
                let turn = if above == above_first { 0.0 } else { 2.0 };
                let cost = obstacles.cost(&place) + turn + f64::from(step) * 0.4;
                if area.holds(&place) && best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, place));
                }
            }
        }
        // A label that covers another says less than none.
        let free = |place: &Rect| obstacles.solid.iter().all(|other| place.overlap(other) == 0.0);
        if let Some((_, place)) = best.filter(|(_, place)| free(place)) {
            backed_text(canvas, &text, &place, style::SOFT_INK);
            obstacles.solid.push(place);
        }
    }
}
