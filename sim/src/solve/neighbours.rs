//! Neighbours of a point: a step along one path, along two, or along the edge of a condition.
//!
//! Where a sum is limited, one path can only rise by what another falls, and ranges by ratio have no
//! two steps that keep a sum. So along an edge one path goes a step, and another as far as makes up
//! for what that takes of the condition, which is taken as linear between the point and its
//! neighbours.
//! Invariant: every point is within the ranges; one along the edge of a linear condition is on the
//! side where it holds.

use super::Range;

/// Values of a file have eight digits: so far inside, as a share of a value, rounding stays inside.
const MARGIN: f64 = 1e-7;

/// A place in the unit cube with one path moved.
fn moved(place: &[f64], path: usize, by: f64) -> Vec<f64> {
    let mut place = place.to_vec();
    place[path] = (place[path] + by).clamp(0.0, 1.0);
    place
}

/// The neighbours of a point in the unit cube a step along one path, each with the path.
pub(super) fn beside(place: &[f64], step: f64) -> Vec<(usize, Vec<f64>)> {
    let both = |path| [-step, step].map(|by| (path, moved(place, path, by)));
    (0..place.len()).flat_map(both).collect()
}

/// The neighbours of a point in the unit cube: a step along one path, or along two of them.
pub(super) fn neighbours(place: &[f64], step: f64) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for (one, place) in beside(place, step) {
        let two = beside(&place, step).into_iter().filter(|(other, _)| *other < one);
        all.extend(two.map(|(_, place)| place));
        all.push(place);
    }
    all
}

/// A neighbour of a point, one path away.
pub(super) struct Neighbour {
    /// Which.
    pub(super) path: usize,
    /// Its place in the unit cube.
    pub(super) place: Vec<f64>,
    /// By how much the path's value is another.
    pub(super) by: f64,
    /// How far inside the condition it is, if that is known.
    pub(super) slack: Option<f64>,
}

/// The places along a condition of which the point of these `values` has `slack` left; none where no
/// neighbour breaks it.
pub(super) fn along(
    ranges: &[Range],
    values: &[f64],
    slack: f64,
    neighbours: &[Neighbour],
) -> Vec<Vec<f64>> {
    if !neighbours.iter().any(|beside| beside.slack.is_some_and(|slack| slack < 0.0)) {
        return Vec::new();
    }
    // What a unit of a path adds to what is left.
    let slope = |path: usize| {
        let mut own = neighbours.iter().filter(|beside| beside.path == path);
        own.find_map(|beside| {
            let slope = (beside.slack? - slack) / beside.by;
            Some(slope).filter(|slope| slope.is_finite() && *slope != 0.0)
        })
    };
    let slopes: Vec<Option<f64>> = (0..ranges.len()).map(slope).collect();
    let mut all = Vec::new();
    for Neighbour { path, place, by, .. } in neighbours {
        let Some(left) = slopes[*path].map(|slope| slack + slope * by) else { continue };
        for (other, range) in ranges.iter().enumerate().filter(|(other, _)| other != path) {
            let to = slopes[other].and_then(|slope| {
                range.share(inside(range, values[other] - left / slope, slope > 0.0))
            });
            all.extend(to.map(|share| {
                let mut place = place.clone();
                place[other] = share;
                place
            }));
        }
    }
    all
}

/// The value, or one beside it that stays above it (or below) as a file has it.
fn inside(range: &Range, value: f64, above: bool) -> f64 {
    match (range.whole, above) {
        (true, true) => value.ceil(),
        (true, false) => value.floor(),
        (false, true) => value + MARGIN * value.abs(),
        (false, false) => value - MARGIN * value.abs(),
    }
}
