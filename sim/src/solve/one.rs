//! Looks for the least or the largest value for which conditions hold.
//!
//! First a grid over the range, all of its points at once, which shows where conditions hold and
//! whether they do so in one stretch; then the edge between the answer and its neighbour is cut
//! into parts, again all at once, until the two are near enough. So an answer is never taken from a
//! slope, and a range in which conditions hold here and there is seen as such, as far as the grid
//! is fine enough.
//! Invariant: the answer was tried, and so was a value beyond it within the resolution, unless the
//! answer is the end of the range.

use super::Range;
use tiersim_models::results::solved::{Solved, Tried};

/// Points of the first grid, ends included.
const GRID: usize = 17;
/// Parts into which the edge is cut at a time.
const PARTS: usize = 8;
/// Most rounds: 8^20 parts are finer than any number of a file.
const MOST_ROUNDS: usize = 20;

/// Fills in what is tried. `evaluate` is asked for several values at once, in rising order, and
/// gives what came of each.
///
/// # Errors
/// Those of `evaluate`.
pub fn solve<E>(
    mut question: Solved,
    range: Range,
    mut evaluate: impl FnMut(&[f64]) -> Result<Vec<Tried>, E>,
) -> Result<Solved, E> {
    let (from, to) = (range.written(range.from), range.written(range.to));
    let mut first = vec![from];
    first.extend(range.between(from, to, GRID - 2));
    first.extend((to > from).then_some(to));
    question.tried = evaluate(&first)?;
    for _ in 0..MOST_ROUNDS {
        let edge = question.answer().zip(question.beyond());
        let Some((answer, beyond)) = edge else { break };
        let (low, high) = (answer.value().min(beyond.value()), answer.value().max(beyond.value()));
        if high - low <= range.resolution * high.abs() {
            break;
        }
        let inside = range.between(low, high, PARTS - 1);
        if inside.is_empty() {
            break;
        }
        question.tried.extend(evaluate(&inside)?);
        question.tried.sort_by(|a, b| a.value().total_cmp(&b.value()));
    }
    Ok(question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::results::solved::Asked;

    fn ask(holds: impl Fn(f64) -> bool, largest: bool, range: Range) -> Solved {
        let tried = |values: &[f64]| -> Result<Vec<Tried>, ()> {
            let one = |&value: &f64| Tried {
                values: vec![value],
                outcome: if holds(value) { Ok("it".to_owned()) } else { Err("no".to_owned()) },
                metrics: Vec::new(),
            };
            Ok(values.iter().map(one).collect())
        };
        let asked = Asked { largest, ..Asked::default() };
        solve(Solved { asked, ..Solved::default() }, range, tried).unwrap()
    }

    const RANGE: Range = Range { from: 1.0, to: 100.0, log: true, whole: false, resolution: 1e-4 };

    #[test]
    fn the_edge_is_found_to_the_resolution() {
        for edge in [1.5, 17.123_456, 99.999] {
            let found = ask(|value| value >= edge, false, RANGE);
            let answer = found.answer().unwrap().value();
            assert!(answer >= edge && answer <= edge * (1.0 + 1.1e-4), "{edge}: {answer}");
            assert!(found.beyond().unwrap().value() < edge);
            let found = ask(|value| value <= edge, true, Range { log: false, ..RANGE });
            let answer = found.answer().unwrap().value();
            assert!(answer <= edge && answer >= edge * (1.0 - 1.1e-4), "{edge}: {answer}");
            assert_eq!(found.stretches().len(), 1);
        }
    }

    #[test]
    fn whole_numbers_are_found_exactly() {
        let range = Range { whole: true, ..RANGE };
        let found = ask(|value| value >= 37.0, false, range);
        assert_eq!(found.answer().unwrap().value(), 37.0);
        assert_eq!(found.beyond().unwrap().value(), 36.0);
        assert!(found.tried.iter().all(|tried| tried.value().fract() == 0.0));
    }

    #[test]
    fn what_holds_in_several_stretches_is_seen() {
        let found = ask(|value| !(5.0..50.0).contains(&value), true, RANGE);
        assert_eq!(found.answer().unwrap().value(), 100.0);
        assert!(found.beyond().is_none());
        let found = ask(|value| value > 50.0 || (4.0..9.0).contains(&value), false, RANGE);
        assert_eq!(found.stretches().len(), 2);
        assert!((found.answer().unwrap().value() - 4.0).abs() < 1e-3);
    }

    #[test]
    fn ends_of_the_range_are_answers() {
        let all = ask(|_| true, false, RANGE);
        assert_eq!((all.answer().unwrap().value(), all.beyond()), (1.0, None));
        assert_eq!(ask(|_| false, false, RANGE).answer(), None);
    }
}
