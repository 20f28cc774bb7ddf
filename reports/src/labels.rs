//! Places short texts near points so that they cover neither data nor each other.
//!
//! Greedy with a few rounds of second thoughts: each label takes, in turn, the cheapest of 8
//! directions at 4 distances, given where the others are. Twelve labels need no more than that,
//! and the result does not depend on chance.
//! Invariant: a label covers neither another one nor what is solid, and is inside the area; where
//! that cannot be had, it is left out and the caller's table still has it.

use crate::canvas::Rect;

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

/// A place for each request, in order.
pub(crate) fn place(requests: &[Request], area: &Rect, obstacles: &Obstacles) -> Vec<Option<Rect>> {
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
                let cost =
                    bias + obstacles.cost(&candidate) + obstacles.leader_cost(request, &candidate);
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

/// The line from a point to a label that had to move away from it.
pub(crate) fn leader(at: (f64, f64), place: &Rect) -> Option<((f64, f64), (f64, f64))> {
    let near = (at.0.clamp(place.left, place.right), at.1.clamp(place.top, place.bottom));
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
}
