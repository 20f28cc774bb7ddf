//! Looks for the best values of several paths for which conditions hold.
//!
//! First corners of the ranges and a Latin hypercube, all at once; from the best of them COBYLA
//! (Powell 1994: linear models of the objective and of each condition on a simplex that shrinks),
//! which needs no slopes; then every neighbour of the best point, one path or two at a time or along
//! the edge of a condition, at steps that are halved until none is better. Memory that runs out and
//! steps that change by jumps make plateaus on which a model says nothing, so what the models find
//! is a start and not an answer.
//! Invariant: the answer was run, and at the last step no neighbour of it for which conditions hold
//! is better. That is a local optimum: another valley that no point of the sample was in is not
//! seen.

use super::Range;
use super::neighbours::{Neighbour, along, beside, neighbours};
use cobyla::{RhoBeg, StopTols, minimize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tiersim_models::results::solved::{Optimum, Tried};
use tiersim_policies::scenario::hypercube::{share, strata};

/// Points of the Latin hypercube for each path.
const SAMPLE: usize = 16;
/// Most paths whose corners are all tried.
const MOST_CORNERS: usize = 4;
/// From how many points the models start.
const STARTS: usize = 3;
/// Most points of each start, for each path.
const EVALUATIONS: usize = 30;
/// The first simplex, as a share of each range.
const SIMPLEX: f64 = 0.15;
/// The first step to neighbours, as a share of each range.
const FIRST_STEP: f64 = 1.0 / 16.0;
/// Most rounds of neighbours.
const MOST_ROUNDS: usize = 80;

/// A point that was tried, and how far inside each condition it is, in the condition's own unit;
/// `None` where it has no figure.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The point.
    pub tried: Tried,
    /// Above 0 inside, one for each condition.
    pub slack: Vec<Option<f64>>,
    /// Whether a case ran, if only until memory was full; otherwise the point was refused.
    pub ran: bool,
}

/// Fills in what is tried. `evaluate` is asked for several points at once and gives what came of
/// each; `ranges` are those of the paths.
///
/// # Errors
/// Those of `evaluate`.
pub fn optimize<E>(
    mut question: Optimum,
    ranges: &[Range],
    evaluate: impl FnMut(&[Vec<f64>]) -> Result<Vec<Measured>, E>,
) -> Result<Optimum, E> {
    question.ranges = ranges.iter().map(|range| (range.at(0.0), range.at(1.0))).collect();
    let seed = question.asked.seed;
    let (places, slack) = (Vec::new(), Vec::new());
    let known = BTreeMap::new();
    let mut search = Search { question, ranges, evaluate, places, slack, known, failed: None };
    search.try_all(first(ranges.len(), seed))?;
    for start in search.starts() {
        search.follow(&start)?;
    }
    search.settle()?;
    Ok(search.question)
}

/// The corners, the middle and a Latin hypercube of the unit cube.
fn first(paths: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut all = vec![vec![0.5; paths]];
    if paths <= MOST_CORNERS {
        let corner = |bits: usize| (0..paths).map(|path| ((bits >> path) & 1) as f64).collect();
        all.extend((0..1 << paths).map(corner));
    }
    let count = SAMPLE * paths;
    let column = |path: usize| -> Vec<f64> {
        let (strata, mut random) = strata(count, seed, path as u64);
        strata.into_iter().map(|stratum| share(stratum, count, &mut random)).collect()
    };
    let columns: Vec<Vec<f64>> = (0..paths).map(column).collect();
    all.extend((0..count).map(|row| columns.iter().map(|column| column[row]).collect()));
    all
}

struct Search<'s, E, F> {
    question: Optimum,
    ranges: &'s [Range],
    evaluate: F,
    /// Where in the unit cube each point of the question stands.
    places: Vec<Vec<f64>>,
    /// How far inside each condition it is.
    slack: Vec<Vec<Option<f64>>>,
    /// Points by their values' bits: rounded values meet again.
    known: BTreeMap<Vec<u64>, usize>,
    /// What ended a search that cannot say so itself.
    failed: Option<E>,
}

impl<E, F: FnMut(&[Vec<f64>]) -> Result<Vec<Measured>, E>> Search<'_, E, F> {
    /// The numbers of these points of the unit cube, tried if they are new.
    fn try_all(&mut self, places: Vec<Vec<f64>>) -> Result<Vec<usize>, E> {
        let values = |place: &Vec<f64>| -> Vec<f64> {
            self.ranges.iter().zip(place).map(|(range, &share)| range.at(share)).collect()
        };
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let all: Vec<Vec<f64>> = places.iter().map(values).collect();
        let mut new: Vec<Vec<f64>> = Vec::new();
        let mut numbers = Vec::new();
        for (values, place) in all.into_iter().zip(places) {
            let next = self.question.tried.len() + new.len();
            let number = *self.known.entry(bits(&values)).or_insert(next);
            if number == next {
                self.places.push(place);
                new.push(values);
            }
            numbers.push(number);
        }
        if !new.is_empty() {
            for measured in (self.evaluate)(&new)? {
                self.question.tried.push(measured.tried);
                self.slack.push(measured.slack);
            }
        }
        Ok(numbers)
    }

    /// The best points, or those nearest to meeting the conditions where none does.
    fn starts(&self) -> Vec<Vec<f64>> {
        let merit = |number: &usize| self.question.merit(&self.question.tried[*number]);
        let mut all: Vec<usize> = (0..self.places.len()).collect();
        if all.iter().any(|number| merit(number).is_some()) {
            all.retain(|number| merit(number).is_some());
            all.sort_by(|a, b| {
                merit(b).partial_cmp(&merit(a)).unwrap_or(std::cmp::Ordering::Equal)
            });
        } else {
            let scales = self.scales();
            let broken = |number: &usize| -> f64 {
                let each = self.slack[*number].iter().zip(&scales);
                each.map(|(slack, scale)| slack.map_or(2.0, |slack| (-slack / scale).max(0.0)))
                    .sum()
            };
            all.sort_by(|a, b| broken(a).total_cmp(&broken(b)));
        }
        all.into_iter().take(STARTS).map(|number| self.places[number].clone()).collect()
    }

    /// The largest slack seen of each condition: what its slack is measured in.
    fn scales(&self) -> Vec<f64> {
        let conditions = self.slack.first().map_or(0, Vec::len);
        let scale = |index: usize| {
            let sizes = self.slack.iter().filter_map(|slack| Some(slack[index]?.abs()));
            Some(sizes.fold(0.0, f64::max)).filter(|size| *size > 0.0).unwrap_or(1.0)
        };
        (0..conditions).map(scale).collect()
    }

    /// The least and the largest objective seen, as something that should fall.
    fn span(&self) -> (f64, f64) {
        let sign = if self.question.asked.largest { -1.0 } else { 1.0 };
        let all = self.question.tried.iter().filter_map(|tried| self.question.objective(tried));
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(sign * value), most.max(sign * value))
        })
    }

    /// Lets COBYLA go from a point.
    fn follow(&mut self, start: &[f64]) -> Result<(), E> {
        let (paths, scales, (least, most)) = (start.len(), self.scales(), self.span());
        if least > most {
            return Ok(());
        }
        let unit = if most > least { most - least } else { 1.0 };
        let sign = if self.question.asked.largest { -1.0 } else { 1.0 };
        let search = RefCell::new(self);
        // A point without figures is worse than any, but not so much that a model is nothing else.
        let objective = |place: &[f64], _: &mut ()| {
            let search = &mut *search.borrow_mut();
            let Some(number) = search.number(place) else { return 2.0 };
            let found = search.question.objective(&search.question.tried[number]);
            found.map_or(2.0, |value| (sign * value - least) / unit)
        };
        let inside = |index: usize| {
            let (search, scale) = (&search, scales[index]);
            move |place: &[f64], (): &mut ()| {
                let search = &mut *search.borrow_mut();
                let Some(number) = search.number(place) else { return -1.0 };
                search.slack[number][index].map_or(-1.0, |slack| slack / scale)
            }
        };
        let conditions: Vec<_> = (0..scales.len()).map(inside).collect();
        let near = search.borrow().ranges.iter().map(|range| range.resolution).fold(1.0, f64::min);
        let tolerances = StopTols { xtol_abs: vec![near; paths], ..StopTols::default() };
        // Its verdict says why it ended; what it tried is all that is wanted of it.
        let _ = minimize(
            objective,
            start,
            &vec![(0.0, 1.0); paths],
            &conditions,
            (),
            EVALUATIONS * paths,
            RhoBeg::All(SIMPLEX),
            Some(tolerances),
        );
        drop(conditions);
        search.into_inner().failed.take().map_or(Ok(()), Err)
    }

    /// The number of one point, tried if it is new; none once something has failed.
    fn number(&mut self, place: &[f64]) -> Option<usize> {
        if self.failed.is_some() {
            return None;
        }
        // Models may step over the edge by a rounding error.
        let place = place.iter().map(|share| share.clamp(0.0, 1.0)).collect();
        match self.try_all(vec![place]) {
            Ok(numbers) => numbers.first().copied(),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// Goes to better neighbours of the best point until there is none at the smallest step.
    fn settle(&mut self) -> Result<(), E> {
        let smallest = self.ranges.iter().map(|range| range.resolution).fold(1.0, f64::min);
        let mut step = FIRST_STEP;
        for _ in 0..MOST_ROUNDS {
            let Some(best) = self.best() else { return Ok(()) };
            let around = neighbours(&self.places[best], step);
            self.try_all(around)?;
            if self.best() == Some(best) {
                let along = self.along_edges(best, step)?;
                self.try_all(along)?;
            }
            if self.best() != Some(best) {
                continue;
            }
            self.question.settled = Some(step);
            if step <= smallest {
                break;
            }
            step /= 2.0;
        }
        Ok(())
    }

    /// Places a step away from a point along the edge of each condition.
    fn along_edges(&mut self, point: usize, step: f64) -> Result<Vec<Vec<f64>>, E> {
        let ones = beside(&self.places[point], step);
        // They were tried as neighbours.
        let numbers = self.try_all(ones.iter().map(|(_, place)| place.clone()).collect())?;
        let values = &self.question.tried[point].values;
        let mut all = Vec::new();
        for (condition, slack) in self.slack[point].iter().enumerate() {
            let Some(slack) = *slack else { continue };
            let neighbour = |((path, place), &number): (&(usize, Vec<f64>), &usize)| Neighbour {
                path: *path,
                place: place.clone(),
                by: self.question.tried[number].values[*path] - values[*path],
                slack: self.slack[number][condition],
            };
            let neighbours: Vec<Neighbour> = ones.iter().zip(&numbers).map(neighbour).collect();
            all.extend(along(self.ranges, values, slack, &neighbours));
        }
        Ok(all)
    }

    /// The number of the best point.
    fn best(&self) -> Option<usize> {
        let answer = self.question.answer()?;
        self.question.tried.iter().position(|tried| std::ptr::eq(tried, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::results::solved::{Asked, Variable};

    const UNIT: Range = Range { from: 0.0, to: 10.0, log: false, whole: false, resolution: 1e-3 };

    /// The least cost `a x + b y` where `f(x, y) >= 0`.
    fn least(
        prices: [f64; 2],
        holds: impl Fn(f64, f64) -> Option<f64>,
        ranges: &[Range],
    ) -> Optimum {
        least_of(|x, y| prices[0] * x + prices[1] * y, holds, ranges)
    }

    fn least_of(
        price: impl Fn(f64, f64) -> f64,
        holds: impl Fn(f64, f64) -> Option<f64>,
        ranges: &[Range],
    ) -> Optimum {
        let names = ["x", "y"];
        let variable = |name: &&str| Variable { path: (*name).to_owned(), unit: String::new() };
        let question = Optimum {
            asked: Asked { metrics: vec!["cost".to_owned()], ..Asked::default() },
            objective: "cost".to_owned(),
            variables: names.iter().map(variable).collect(),
            ..Optimum::default()
        };
        let one = |values: &Vec<f64>| {
            let slack = holds(values[0], values[1]);
            let outcome = match slack {
                Some(slack) if slack >= 0.0 => Ok("it".to_owned()),
                Some(_) => Err("no".to_owned()),
                None => Err("it runs out of memory".to_owned()),
            };
            let cost = slack.map(|_| price(values[0], values[1]));
            let tried = Tried { values: values.clone(), outcome, metrics: vec![cost] };
            Measured { tried, slack: vec![slack], ran: true }
        };
        let evaluate = |all: &[Vec<f64>]| Ok::<_, ()>(all.iter().map(one).collect());
        optimize(question, ranges, evaluate).unwrap()
    }

    fn cost(optimum: &Optimum) -> f64 {
        optimum.objective(optimum.answer().unwrap()).unwrap()
    }

    #[test]
    fn the_cheapest_point_of_a_hyperbola_is_found() {
        // x y >= 4 at a price of x + 4 y: x = 4, y = 1 costs 8.
        let found = least([1.0, 4.0], |x, y| Some(x * y - 4.0), &[UNIT; 2]);
        assert!((cost(&found) - 8.0).abs() < 0.02, "{}", cost(&found));
        assert!(found.settled.unwrap() <= 1e-3 && found.at_ends().is_empty());
        assert!(found.tried.len() < 400, "{}", found.tried.len());
    }

    #[test]
    fn a_limited_sum_is_followed_to_the_best_point_on_it() {
        // 1 / x + 2 / y is least with x + y <= 70 at x = 70 / (1 + sqrt 2); with 3 x + y <= 70 at
        // x = 70 / (3 + sqrt 6). Ranges by ratio, of which no two steps keep a sum.
        let range = Range { from: 10.0, to: 60.0, log: true, ..UNIT };
        for (ranges, factor) in [
            ([range; 2], 1.0),
            ([Range { from: 3.0, ..range }, range], 3.0),
            ([Range { from: 1.0, log: false, ..range }, Range { to: 500.0, ..range }], 3.0),
        ] {
            let price = |x: f64, y: f64| 1.0 / x + 2.0 / y;
            let found = least_of(price, |x, y| Some(70.0 - factor * x - y), &ranges);
            let x = 70.0 / (factor + (2.0 * factor).sqrt());
            let best = price(x, 70.0 - factor * x);
            let ratio = cost(&found) / best;
            assert!((1.0 - 1e-6..1.0001).contains(&ratio), "{factor}: {ratio}");
            assert!(found.settled.unwrap() <= 1e-3);
        }
    }

    #[test]
    fn memory_that_runs_out_is_no_figure_and_no_answer() {
        // Nothing is known below x + y = 6, and y is dear: the corner (6, 0).
        let found = least([1.0, 3.0], |x, y| (x + y >= 6.0).then_some(1.0), &[UNIT; 2]);
        assert!((cost(&found) - 6.0).abs() < 0.02, "{}", cost(&found));
        assert_eq!(found.at_ends().len(), 1);
    }

    #[test]
    fn whole_numbers_and_steps_are_found_as_by_brute_force() {
        let whole = Range { from: 1.0, to: 32.0, whole: true, ..UNIT };
        let holds = |x: f64, y: f64| Some((x / 3.0).floor() * y - 40.0);
        let found = least([5.0, 3.0], holds, &[whole; 2]);
        let all = (1..=32).flat_map(|x| (1..=32).map(move |y| (f64::from(x), f64::from(y))));
        let held = all.filter(|&(x, y)| holds(x, y).is_some_and(|slack| slack >= 0.0));
        let best = held.map(|(x, y)| 5.0 * x + 3.0 * y).fold(f64::INFINITY, f64::min);
        assert_eq!(cost(&found), best);
    }

    #[test]
    fn what_cannot_be_met_has_no_answer() {
        let found = least([1.0, 1.0], |x, y| Some(x + y - 30.0), &[UNIT; 2]);
        assert!(found.answer().is_none() && found.settled.is_none());
    }
}
