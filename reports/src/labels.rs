//! Places short texts near points so that they cover neither data nor each other.
//!
//! Greedy with a few rounds of second thoughts: each label takes, in turn, the cheapest of 8
//! directions at 4 distances, given where the others are. Twelve labels need no more than that,
//! and the result does not depend on chance.
//! A label that stands nearer to another point than to its own would be read as that one's: it is
//! put elsewhere, or led to by a line.
//! Invariant: a label covers neither another one nor what is solid, and is inside the area; where
//! that cannot be had, it is left out and the caller's table still has it.

use crate::canvas::Rect;

/// The next point is at least so many times as far from a label as its own.
const CLEARLY: f64 = 1.3;

/// A text to place.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The point.
    pub(crate) at: (f64, f64),
    /// How far the point's marker reaches.
    pub(crate) clear: f64,
    /// Extent of the text.
    pub(crate) size: (f64, f64),
}

/// What is on the chart already.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obstacles {
    /// Must not be covered: markers and other texts.
    pub(crate) solid: Vec<Rect>,
    /// Had better not be covered.
    pub(crate) lines: Vec<((f64, f64), (f64, f64))>,
}

impl Obstacles {
    /// What it costs to put a text at `place`.
    pub(crate) fn cost(&self, place: &Rect) -> f64 {
        let covered = |other: &Rect| match place.overlap(other) {
            area if area > 0.0 => 200.0 + area,
            _ => 0.0,
        };
        let solid: f64 = self.solid.iter().map(covered).sum();
        let crossed = self.lines.iter().filter(|(a, b)| place.cut_by(*a, *b)).count();
        solid + 60.0 * crossed as f64
    }

    /// What it costs to lead from the point to `place`: a line that crosses others confuses.
    fn leader_cost(&self, request: &Request, place: &Rect) -> f64 {
        let Some((from, to)) = leader(request.at, place) else { return 0.0 };
        let through = |rect: &&Rect| !rect.grown(1.0).holds(&Rect::around(request.at, 0.0));
        let solid = self.solid.iter().filter(through).filter(|rect| rect.cut_by(from, to)).count();
        let lines = self.lines.iter().filter(|(a, b)| crosses((from, to), (*a, *b))).count();
        60.0 * solid as f64 + 12.0 * lines as f64
    }
}

/// What it costs to stand at `place`, where a reader may take the text for that of another point.
fn stranger_cost(requests: &[Request], own: usize, place: &Rect) -> f64 {
    let at = requests[own].at;
    let strangers = requests.iter().filter(|other| other.at != at);
    let nearest = strangers.map(|other| distance(place, other.at)).fold(f64::INFINITY, f64::min);
    match (leader(at, place).is_some(), distance(place, at)) {
        // Worse than to cross a line, and than to move away and be led to.
        (false, near) if nearest < near * CLEARLY => 90.0,
        (true, near) if nearest < near => 6.0,
        _ => 0.0,
    }
}

/// A place for each request, in order.
pub(crate) fn place(requests: &[Request], area: &Rect, obstacles: &Obstacles) -> Vec<Option<Rect>> {
    let [with, without] = [true, false].map(|apart| placed(requests, area, obstacles, apart));
    // In a crowd every place is near to some other point, and a name that is left out says nothing.
    let count = |places: &[Option<Rect>]| places.iter().flatten().count();
    if count(&with) >= count(&without) { with } else { without }
}

/// The same; `apart` from other points, or without regard to them.
fn placed(
    requests: &[Request],
    area: &Rect,
    obstacles: &Obstacles,
    apart: bool,
) -> Vec<Option<Rect>> {
    let mut places: Vec<Option<Rect>> = vec![None; requests.len()];
    for _round in 0..4 {
        for (index, request) in requests.iter().enumerate() {
            places[index] = None;
            let mut best: Option<(f64, Rect)> = None;
            for (bias, candidate) in candidates(request) {
                let taken = places.iter().flatten().any(|p| p.grown(2.0).overlap(&candidate) > 0.0);
                if taken || !area.holds(&candidate) {
                    continue;
                }
                let mut cost =
                    bias + obstacles.cost(&candidate) + obstacles.leader_cost(request, &candidate);
                if apart {
                    cost += stranger_cost(requests, index, &candidate);
                }
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, candidate));
                }
            }
            places[index] = best.map(|(_, place)| place);
        }
    }
    // The text would stand where it says what is not so.
    let covers = |place: &Rect| obstacles.solid.iter().any(|other| place.overlap(other) > 0.0);
    places.into_iter().map(|place| place.filter(|place| !covers(place))).collect()
}

/// The point of `place` that is nearest to another.
fn nearest(place: &Rect, to: (f64, f64)) -> (f64, f64) {
    (to.0.clamp(place.left, place.right), to.1.clamp(place.top, place.bottom))
}

fn distance(place: &Rect, to: (f64, f64)) -> f64 {
    let near = nearest(place, to);
    (near.0 - to.0).hypot(near.1 - to.1)
}

/// The line from a point to a label that had to move away from it.
pub(crate) fn leader(at: (f64, f64), place: &Rect) -> Option<((f64, f64), (f64, f64))> {
    let near = nearest(place, at);
    let (dx, dy) = (near.0 - at.0, near.1 - at.1);
    let length = dx.hypot(dy);
    let from = (at.0 + dx / length * 8.0, at.1 + dy / length * 8.0);
    (length > 17.0).then_some((from, near))
}

/// Do two segments cross?
fn crosses(one: ((f64, f64), (f64, f64)), other: ((f64, f64), (f64, f64))) -> bool {
    let side = |(a, b): ((f64, f64), (f64, f64)), p: (f64, f64)| {
        (b.0 - a.0) * (p.1 - a.1) - (b.1 - a.1) * (p.0 - a.0)
    };
    side(one, other.0) * side(one, other.1) < 0.0 && side(other, one.0) * side(other, one.1) < 0.0
}

/// Right and left first, then above and below, then the corners; nearer before further.
fn candidates(request: &Request) -> Vec<(f64, Rect)> {
    const DIRECTIONS: [(f64, f64); 8] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (1.0, -1.0),
        (1.0, 1.0),
        (-1.0, -1.0),
        (-1.0, 1.0),
    ];
    let (x, y) = request.at;
    let (half_w, half_h) = (request.size.0 / 2.0, request.size.1 / 2.0);
    let mut all = Vec::with_capacity(32);
    for (step, distance) in [4.0, 14.0, 28.0, 46.0].into_iter().enumerate() {
        for (turn, (dx, dy)) in DIRECTIONS.into_iter().enumerate() {
            let reach = request.clear + distance;
            let reach = if dx != 0.0 && dy != 0.0 { reach * 0.75 } else { reach };
            let (cx, cy) = (x + dx * (reach + half_w), y + dy * (reach + half_h));
            let bias = 14.0 * step as f64 + 1.5 * turn as f64;
            all.push((bias, Rect::new(cx - half_w, cy - half_h, cx + half_w, cy + half_h)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_labels_never_overlaps() {
        let requests: Vec<Request> = (0..12)
            .map(|i| Request {
                at: (200.0 + f64::from(i) * 3.0, 200.0 + f64::from(i % 3)),
                clear: 8.0,
                size: (120.0, 16.0),
            })
            .collect();
        let area = Rect::new(0.0, 0.0, 600.0, 400.0);
        let solid = requests.iter().map(|r| Rect::around(r.at, 8.0)).collect();
        let places = place(&requests, &area, &Obstacles { solid, lines: Vec::new() });
        let placed: Vec<Rect> = places.into_iter().flatten().collect();
        assert!(placed.len() >= 8, "{} placed", placed.len());
        for (i, a) in placed.iter().enumerate() {
            assert!(area.holds(a));
            assert!(placed[i + 1..].iter().all(|b| a.overlap(b) == 0.0));
            assert!(requests.iter().all(|r| a.overlap(&Rect::around(r.at, 8.0)) == 0.0));
        }
    }
    #[test]
    fn no_label_seems_to_be_of_another_point() {
        // A short gap: right of the first point is left of the second.
        let request = |at, width| Request { at, clear: 8.0, size: (width, 16.0) };
        for gap in [30.0, 60.0, 90.0, 110.0] {
            for (dx, dy) in [(gap, 0.0), (gap, 12.0), (0.0, gap), (-gap, -12.0)] {
                let one = (300.0, 200.0);
                let requests = [request(one, 90.0), request((one.0 + dx, one.1 + dy), 60.0)];
                let solid = requests.iter().map(|r| Rect::around(r.at, 8.0)).collect();
                let area = Rect::new(0.0, 0.0, 600.0, 400.0);
                let places = place(&requests, &area, &Obstacles { solid, lines: Vec::new() });
                for (own, found) in places.iter().enumerate() {
                    let found = found.expect("there is room");
                    let [near, far] =
                        [own, 1 - own].map(|index| distance(&found, requests[index].at));
                    let led = leader(requests[own].at, &found).is_some();
                    assert!(led || far >= near * CLEARLY, "{gap}: {near}, {far}");
                }
            }
        }
    }
}
