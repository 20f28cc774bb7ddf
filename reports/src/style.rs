//! Colours, markers and sizes, in one place so that every chart looks like the others.
//!
//! Series differ by colour *and* by shape: the colours are those of Okabe and Ito ("Color
//! Universal Design", 2008), which people with the common colour vision deficiencies can tell
//! apart; the shapes, and what is white inside them, carry the same information in grey. The heat map is viridis (van der Walt
//! and Smith, 2015): its lightness grows evenly, so it survives a black-and-white printer.

pub(crate) use crate::canvas::Color;
use crate::canvas::{Canvas, Item, MERGED, Mark};

pub(crate) const WHITE: Color = Color(255, 255, 255, 1.0);
/// Text and titles.
pub(crate) const INK: Color = Color(26, 26, 26, 1.0);
/// Second text: subtitles, axis titles.
pub(crate) const SOFT_INK: Color = Color(80, 80, 80, 1.0);
/// Frame of a plot.
pub(crate) const FRAME: Color = Color(120, 120, 120, 1.0);
/// Grid lines.
pub(crate) const GRID: Color = Color(230, 230, 230, 1.0);
/// The staircase of the Pareto front.
pub(crate) const FRONT: Color = Color(196, 196, 196, 1.0);
/// Out of memory.
pub(crate) const OOM: Color = Color(176, 32, 32, 1.0);
/// Behind the crosses of cases that ran out of memory.
pub(crate) const OOM_BAND: Color = Color(250, 236, 234, 1.0);
/// Cells without a result.
pub(crate) const ABSENT: Color = Color(238, 238, 238, 1.0);

/// Up to so many cases have their label on the chart.
pub(crate) const MOST_LABELS: usize = 12;
/// Up to so many cases are joined by series; beyond, lines would hide the points.
pub(crate) const MOST_JOINED: usize = 60;

/// Font sizes in pixels. None is below 13, so that a slide stays readable.
pub(crate) const TITLE: f64 = 22.0;
pub(crate) const SUBTITLE: f64 = 15.0;
pub(crate) const AXIS: f64 = 15.0;
pub(crate) const LABEL: f64 = 14.0;
pub(crate) const SMALL: f64 = 13.0;

/// How many colours and how many markers there are.
pub(crate) const COLORS: usize = 8;
pub(crate) const MARKERS: usize = 7;
/// Looks below have another marker each before colours change; looks from here on have another
/// colour for each value of one axis, whatever their markers.
pub(crate) const BY_COLOR: usize = COLORS * MARKERS;
/// Looks from here on are markers without a colour, for a legend that tells colours apart.
pub(crate) const SHAPES: usize = 1000 * BY_COLOR;
/// A mark keeps its look in 16 bits.
const _: () = assert!(SHAPES + MARKERS <= u16::MAX as usize);

const SERIES: [Color; COLORS] = [
    Color(0, 114, 178, 1.0),
    Color(213, 94, 0, 1.0),
    Color(0, 158, 115, 1.0),
    Color(204, 121, 167, 1.0),
    Color(230, 159, 0, 1.0),
    Color(86, 180, 233, 1.0),
    Color(70, 70, 70, 1.0),
    Color(240, 228, 66, 1.0),
];

/// Dashes and gaps of lines in pixels; the first is unbroken.
const DASHES: [Option<(f64, f64)>; 4] =
    [None, Some((9.0, 5.0)), Some((3.0, 4.0)), Some((16.0, 5.0))];

/// Of ink and white the one that stands out more on a colour: the larger ratio of WCAG 2.
pub(crate) fn ink_on(color: Color) -> Color {
    let contrast = |text: Color| {
        let (a, b) = (color.luminance() + 0.05, text.luminance() + 0.05);
        a.max(b) / a.min(b)
    };
    if contrast(INK) >= contrast(WHITE) { INK } else { WHITE }
}

/// The colour of series `index`.
pub(crate) fn series_color(index: usize) -> Color {
    if index < SHAPES { SERIES[index % COLORS] } else { SOFT_INK }
}

/// The colour of a line of series `index`: markers have a rim, and a yellow line without one is not
/// seen on white.
pub(crate) fn line_color(index: usize) -> Color {
    let color = series_color(index);
    if color.luminance() > 0.6 { color.shade() } else { color }
}

/// Draws the marker of series `index`; `opacity` below 1 is for crowds.
pub(crate) fn marker(canvas: &mut Canvas, index: usize, at: (f64, f64), r: f64, opacity: f64) {
    let look = index as u16;
    canvas.items.push(Item::Mark(Mark { look, at, radius: r, opacity, of: None }));
}

/// The same, which says that it is of that series and of that case.
pub(crate) fn marker_of(
    canvas: &mut Canvas,
    (index, case): (usize, Option<usize>),
    at: (f64, f64),
    radius: f64,
    opacity: f64,
) {
    let (look, of) = (index as u16, Some(case.map(|case| case as u32)));
    canvas.mark(Mark { look, at, radius, opacity, of });
}

impl Mark {
    /// What is drawn: its rim, if it has one, itself, and what is white inside it.
    pub(crate) fn drawn(self) -> impl Iterator<Item = Item> {
        let Mark { look, at, radius, opacity, of: _ } = self;
        let index = usize::from(look);
        let color = series_color(index);
        // The rim keeps yellow visible on white and neighbours apart.
        let rim = (opacity >= 1.0).then(|| outlined(index, at, radius + 1.2, color.shade()));
        let white = (opacity >= 1.0).then(|| inside(index, at, radius)).flatten();
        rim.into_iter().chain([outlined(index, at, radius, color.alpha(opacity))]).chain(white)
    }
}

/// Draws a bar from end to end with a cap across each.
pub(crate) fn bar(canvas: &mut Canvas, [from, to]: [(f64, f64); 2], color: Color) {
    const CAP: f64 = 4.5;
    canvas.line(from, to, color, 1.6);
    let level = (from.1 - to.1).abs() < (from.0 - to.0).abs();
    let (dx, dy) = if level { (0.0, CAP) } else { (CAP, 0.0) };
    for (x, y) in [from, to] {
        canvas.line((x - dx, y - dy), (x + dx, y + dy), color, 1.6);
    }
}

/// A line in the colour and the dashes of a look.
pub(crate) fn line(canvas: &mut Canvas, look: usize, path: &[(f64, f64)]) {
    let color = line_color(look);
    match DASHES[look % DASHES.len()] {
        _ if path.len() < 2 => {}
        None => canvas.path(path.to_vec(), color, 2.0),
        Some(dashes) => canvas.dashed(path, color, 2.0, dashes),
    }
}

/// More points than this have one marker where they look alike in one place: no page tells so many
/// apart.
pub(crate) const MOST_APART: usize = 10_000;

/// Radius and opacity of markers when there are `count` of them.
pub(crate) fn marker_size(count: usize) -> (f64, f64) {
    match count {
        n if n > MOST_APART => (3.0, MERGED),
        n if n > 1500 => (3.0, 0.3),
        n if n > MOST_JOINED => (4.0, 0.5),
        n if n > MOST_LABELS => (5.5, 1.0),
        _ => (6.5, 1.0),
    }
}

/// What is white inside series `index`'s marker: nothing, a hole, a level or an upright bar. Up to
/// four colours of one marker differ by it in grey as well.
fn inside(index: usize, (x, y): (f64, f64), r: f64) -> Option<Item> {
    let kind = match index {
        0..BY_COLOR => index / MARKERS,
        BY_COLOR..SHAPES => index % COLORS,
        _ => 0,
    };
    let bar = |dx: f64, dy: f64| {
        let points = vec![(x - dx, y - dy), (x + dx, y - dy), (x + dx, y + dy), (x - dx, y + dy)];
        Item::Polygon { points, color: WHITE }
    };
    match kind % 4 {
        0 => None,
        1 => Some(Item::Disc { centre: (x, y), radius: 0.5 * r, color: WHITE }),
        2 => Some(bar(0.6 * r, 0.22 * r)),
        _ => Some(bar(0.22 * r, 0.6 * r)),
    }
}

/// The outline of series `index`'s marker in any colour.
fn outlined(index: usize, (x, y): (f64, f64), r: f64, color: Color) -> Item {
    let outline: &[(f64, f64)] = match index % MARKERS {
        0 => return Item::Disc { centre: (x, y), radius: r, color },
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.25), (1.15, 0.8), (-1.15, 0.8)],
        3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        4 => &[(0.0, 1.25), (1.15, -0.8), (-1.15, -0.8)],
        5 => &[
            (-0.45, -1.2),
            (0.45, -1.2),
            (0.45, -0.45),
            (1.2, -0.45),
            (1.2, 0.45),
            (0.45, 0.45),
            (0.45, 1.2),
            (-0.45, 1.2),
            (-0.45, 0.45),
            (-1.2, 0.45),
            (-1.2, -0.45),
            (-0.45, -0.45),
        ],
        _ => &[(0.0, -1.25), (1.2, -0.35), (0.75, 1.05), (-0.75, 1.05), (-1.2, -0.35)],
    };
    let points = outline.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
    Item::Polygon { points, color }
}

/// A cross: a case that ran out of memory.
pub(crate) fn cross(canvas: &mut Canvas, (x, y): (f64, f64), r: f64, color: Color, width: f64) {
    canvas.line((x - r, y - r), (x + r, y + r), color, width);
    canvas.line((x - r, y + r), (x + r, y - r), color, width);
}

/// A five-pointed star: the least of a heat map.
pub(crate) fn star(canvas: &mut Canvas, (x, y): (f64, f64), r: f64, color: Color) {
    let point = |i: usize| {
        let angle = std::f64::consts::PI * (i as f64 / 5.0 - 0.5);
        let radius = if i.is_multiple_of(2) { r } else { r * 0.42 };
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    canvas.polygon((0..10).map(point).collect(), color);
}

/// Viridis at `share` from 0 (dark blue) to 1 (yellow), interpolated between 11 of its colours.
pub(crate) fn viridis(share: f64) -> Color {
    const STOPS: [(u8, u8, u8); 11] = [
        (68, 1, 84),
        (72, 36, 117),
        (65, 68, 135),
        (53, 95, 141),
        (42, 120, 142),
        (33, 145, 140),
        (34, 168, 132),
        (68, 191, 112),
        (122, 209, 81),
        (189, 223, 38),
        (253, 231, 37),
    ];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (place as usize).min(STOPS.len() - 2);
    let part = place - low as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    let (a, b) = (STOPS[low], STOPS[low + 1]);
    Color(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a photocopy keeps of two markers: their outlines, what is white inside, and how dark.
    #[test]
    fn markers_of_two_looks_differ_in_grey() {
        let shape = |index: usize| {
            let mark =
                Mark { look: index as u16, at: (9.0, 9.0), radius: 6.0, opacity: 1.0, of: None };
            let white = |item: Item| match item {
                Item::Disc { centre, radius, .. } => vec![centre, (radius, radius)],
                Item::Polygon { points, .. } => points,
                _ => Vec::new(),
            };
            mark.drawn().map(white).collect::<Vec<_>>()
        };
        for half in [0..BY_COLOR, BY_COLOR..2 * BY_COLOR] {
            for (a, b) in half.clone().flat_map(|a| half.clone().map(move |b| (a, b))) {
                let greys = [a, b].map(|look| series_color(look).luminance());
                let apart = (greys[0] - greys[1]).abs();
                assert!(a == b || shape(a) != shape(b) || apart > 0.1, "{a} and {b}: {apart}");
            }
        }
    }

    #[test]
    fn viridis_grows_lighter_all_the_way() {
        let lightness: Vec<f64> =
            (0..=100).map(|i| viridis(f64::from(i) / 100.0).luminance()).collect();
        assert!(lightness.is_sorted());
    }
}
