//! The least of a sum of losses of residuals, after Levenberg and Marquardt (Marquardt, "An
//! algorithm for least-squares estimation of nonlinear parameters", J. SIAM 11, 1963).
//!
//! The loss of a residual r is 2 s^2 (sqrt(1 + (r / s)^2) - 1) with s = [`SOFT`]: a square for
//! small ones and a line for large ones, so that single slow measurements have little say. Each
//! step solves the squares with every residual weighted by 1 / sqrt(1 + (r / s)^2).
//! Invariant: no randomness and no clock; the same residuals give the same numbers.

use nalgebra::{DMatrix, DVector};

/// Residuals from here on count by their size rather than by its square.
const SOFT: f64 = 0.1;
/// The step of a difference quotient. Formulas have steps of their own (whole tiles, the better of
/// two ways), which a smaller one would not see past.
const DIFFERENCE: f64 = 1e-3;
/// A number that moves residuals by less than this, relative to its own change, is not told by
/// them.
const LEAST_SAY: f64 = 1e-4;
/// Most steps, and most tries of one.
const STEPS: usize = 60;
const TRIES: usize = 12;
/// No number changes more than this in one step.
const LONGEST: f64 = 1.0;

/// Where the search ended.
pub(super) struct Least {
    /// The unknowns.
    pub(super) at: Vec<f64>,
    /// Which of them the residuals tell.
    pub(super) told: Vec<bool>,
}

fn loss(residuals: &[f64]) -> f64 {
    let one = |r: &f64| 2.0 * SOFT * SOFT * ((1.0 + (r / SOFT) * (r / SOFT)).sqrt() - 1.0);
    let sum: f64 = residuals.iter().map(one).sum();
    // What is no number is worse than anything.
    if sum.is_nan() { f64::INFINITY } else { sum }
}

/// The unknowns within `bounds` with the least loss, from `start`.
pub(super) fn least(
    start: Vec<f64>,
    bounds: &[(f64, f64)],
    residuals: &mut dyn FnMut(&[f64]) -> Vec<f64>,
) -> Least {
    let unknowns = start.len();
    let mut at = start;
    let mut now = residuals(&at);
    let mut cost = loss(&now);
    let (mut damping, mut told) = (1e-3, vec![false; unknowns]);
    for _ in 0..STEPS {
        let (squares, slope, said) = normal_equations(&at, &now, residuals);
        for (told, said) in told.iter_mut().zip(&said) {
            *told |= said;
        }
        let mut better = None;
        for _ in 0..TRIES {
            let step = solve(&squares, &slope, &said, damping);
            let next: Vec<f64> = (0..unknowns)
                .map(|i| {
                    let moved = at[i] - step[i].clamp(-LONGEST, LONGEST);
                    if said[i] { moved.clamp(bounds[i].0, bounds[i].1) } else { at[i] }
                })
                .collect();
            let then = residuals(&next);
            let less = loss(&then);
            if less < cost {
                better = Some((next, then, less));
                damping = (damping / 5.0).max(1e-9);
                break;
            }
            damping *= 4.0;
        }
        let Some((next, then, less)) = better else { break };
        let gained = (cost - less) / cost;
        (at, now, cost) = (next, then, less);
        if gained < 1e-5 {
            break;
        }
    }
    Least { at, told }
}

/// The squares of the slopes, the slopes of the loss, and which unknowns have any say.
fn normal_equations(
    at: &[f64],
    now: &[f64],
    residuals: &mut dyn FnMut(&[f64]) -> Vec<f64>,
) -> (DMatrix<f64>, DVector<f64>, Vec<bool>) {
    let weights: Vec<f64> =
        now.iter().map(|r| 1.0 / (1.0 + (r / SOFT) * (r / SOFT)).sqrt()).collect();
    let slopes: Vec<Vec<f64>> = (0..at.len())
        .map(|i| {
            let mut moved = at.to_vec();
            moved[i] += DIFFERENCE;
            residuals(&moved).iter().zip(now).map(|(a, b)| (a - b) / DIFFERENCE).collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| -> f64 {
        weights.iter().zip(a).zip(b).map(|((w, a), b)| w * a * b).sum()
    };
    let squares = DMatrix::from_fn(at.len(), at.len(), |i, j| dot(&slopes[i], &slopes[j]));
    let slope = DVector::from_iterator(at.len(), slopes.iter().map(|of| dot(of, now)));
    let all: f64 = weights.iter().sum();
    let least = LEAST_SAY * LEAST_SAY * all;
    let said = (0..at.len()).map(|i| squares[(i, i)] > least).collect();
    (squares, slope, said)
}

/// The step of the unknowns that have a say; 0 of the others, and of all where there is none.
fn solve(
    squares: &DMatrix<f64>,
    slope: &DVector<f64>,
    said: &[bool],
    damping: f64,
) -> DVector<f64> {
    let damped =
        DMatrix::from_fn(said.len(), said.len(), |i, j| match (said[i] && said[j], i == j) {
            (true, true) => squares[(i, j)] * (1.0 + damping),
            (true, false) => squares[(i, j)],
            (false, true) => 1.0,
            (false, false) => 0.0,
        });
    let wanted = DVector::from_fn(said.len(), |i, _| if said[i] { slope[i] } else { 0.0 });
    match damped.cholesky() {
        Some(factors) => factors.solve(&wanted),
        None => DVector::zeros(said.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setup and a rate, in logarithms, with one point that is three times too slow.
    #[test]
    fn a_law_is_found_again_and_one_slow_point_has_no_say() {
        let time = |x: &[f64], work: f64| x[0].exp() + work / x[1].exp();
        let truth = [2.0f64.ln(), 5.0f64.ln()];
        let points: Vec<(f64, f64)> = (0..60)
            .map(|i| 1.2f64.powi(i))
            .enumerate()
            .map(|(i, work)| (work, time(&truth, work) * if i == 30 { 3.0 } else { 1.0 }))
            .collect();
        let mut residuals = |x: &[f64]| -> Vec<f64> {
            points.iter().map(|&(work, measured)| (time(x, work) / measured).ln()).collect()
        };
        let bounds = [(-20.0, 20.0); 2];
        let found = least(vec![0.0, 0.0], &bounds, &mut residuals);
        assert_eq!(found.told, [true, true]);
        for (got, want) in found.at.iter().zip(truth) {
            assert!((got - want).abs() < 0.01, "{got} and not {want}");
        }
    }

    #[test]
    fn what_changes_nothing_stays_and_bounds_hold() {
        let mut residuals = |x: &[f64]| vec![x[0] - 3.0, x[0] - 3.0, 1e-9 * x[1]];
        let found = least(vec![0.0, 0.7], &[(-9.0, 2.0), (-9.0, 9.0)], &mut residuals);
        assert_eq!((found.at, found.told), (vec![2.0, 0.7], vec![true, false]));
    }

    #[test]
    fn residuals_that_are_no_numbers_end_the_search() {
        let found = least(vec![1.0], &[(-9.0, 9.0)], &mut |_| vec![f64::NAN]);
        assert_eq!(found.at, [1.0]);
    }
}
