//! The cross-entropy method: a Gaussian per weight, refitted to the best of what it drew.
//!
//! R. Y. Rubinstein, "The cross-entropy method for combinatorial and continuous optimization",
//! Methodology and Computing in Applied Probability 1, 1999; the noise that keeps the deviations
//! from falling too early is that of I. Szita and A. Lőrincz, "Learning Tetris using the noisy
//! cross-entropy method", Neural Computation 18, 2006.
//! Invariant: what is drawn depends on the seed, the generation and the place in the population,
//! and results are taken in the order of places: the number of threads changes nothing.

use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// One place in this many of a population is an elite.
const ELITE: usize = 4;
/// Deviation of every weight before anything is known, and of the noise at the start.
const SPREAD: f64 = 1.0;
const NOISE: f64 = 0.2;
/// Weights are multiples of this, so that a file says in few digits what was tried.
const STEP: f64 = 1.0 / 1024.0;
/// Weights are drawn no further from 0.
const FARTHEST: f64 = 1e5;

/// How long is searched, and with which draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// How often the distribution is refitted.
    pub generations: u32,
    /// Points that are tried per generation, at least 4.
    pub population: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// The best point that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct BestPoint {
    /// Where.
    pub point: Vec<f64>,
    /// The objective there.
    pub value: f64,
    /// The objective at the start.
    pub before: f64,
}

/// Looks for the point with the least objective (never NaN; infinite for points that are no good),
/// from `start`, along the coordinates of `free`.
///
/// Of every generation the first point is the mean of the distribution, which at the start is
/// `start`: what is found is never worse. `heard` is told the best value so far after each
/// generation. Errors are those of the objective, the first in the order of the population.
pub fn minimise<E: Send>(
    start: &[f64],
    free: &[usize],
    search: Search,
    objective: impl Fn(&[f64]) -> Result<f64, E> + Sync,
    mut heard: impl FnMut(f64),
) -> Result<BestPoint, E> {
    let population = search.population.max(4) as usize;
    let mut mean: Vec<f64> = free.iter().map(|&at| start[at]).collect();
    let mut deviation = vec![SPREAD; free.len()];
    let mut found: Option<BestPoint> = None;
    for generation in 0..search.generations {
        let points: Vec<Vec<f64>> = (0..population)
            .map(|place| {
                let draw = Draw { seed: search.seed, generation, place };
                drawn(start, free, (&mean, &deviation), draw)
            })
            .collect();
        let values: Vec<Result<f64, E>> = points.par_iter().map(|point| objective(point)).collect();
        let values = values.into_iter().collect::<Result<Vec<f64>, E>>()?;
        let mut order: Vec<usize> = (0..population).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]).then(a.cmp(&b)));
        let best = order[0];
        match &mut found {
            Some(found) if found.value <= values[best] => {}
            Some(found) => (found.value, found.point) = (values[best], points[best].clone()),
            None => {
                let (point, value, before) = (points[best].clone(), values[best], values[0]);
                found = Some(BestPoint { point, value, before });
            }
        }
        let finite = order.iter().take(population / ELITE).filter(|&&at| values[at].is_finite());
        let elites: Vec<&Vec<f64>> = finite.map(|&at| &points[at]).collect();
        let left = 1.0 - f64::from(generation + 1) / f64::from(search.generations);
        refit(&elites, free, (&mut mean, &mut deviation), NOISE * left);
        heard(found.as_ref().map_or(f64::INFINITY, |found| found.value));
    }
    Ok(found.expect("there is a generation"))
}

/// Which draw.
#[derive(Clone, Copy)]
struct Draw {
    seed: u64,
    generation: u32,
    place: usize,
}

fn drawn(
    start: &[f64],
    free: &[usize],
    (mean, deviation): (&[f64], &[f64]),
    Draw { seed, generation, place }: Draw,
) -> Vec<f64> {
    let mut own = ChaCha12Rng::seed_from_u64(seed);
    own.set_stream(u64::from(generation) << 32 | place as u64);
    let mut point = start.to_vec();
    for ((&at, mean), deviation) in free.iter().zip(mean).zip(deviation) {
        let normal: f64 = StandardNormal.sample(&mut own);
        // The mean itself is tried too.
        let value = if place == 0 { *mean } else { mean + deviation * normal };
        let untouched = place == 0 && generation == 0;
        point[at] = if untouched { value } else { rounded(value) };
    }
    point
}

fn rounded(value: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    (value.clamp(-FARTHEST, FARTHEST) / STEP).round() * STEP + 0.0
}

/// Fits the distribution to the elites; leaves it as it is if there are none.
fn refit(
    elites: &[&Vec<f64>],
    free: &[usize],
    (mean, deviation): (&mut [f64], &mut [f64]),
    noise: f64,
) {
    if elites.is_empty() {
        return;
    }
    let count = elites.len() as f64;
    for ((&at, mean), deviation) in free.iter().zip(mean).zip(deviation) {
        *mean = elites.iter().map(|elite| elite[at]).sum::<f64>() / count;
        let squares = elites.iter().map(|elite| (elite[at] - *mean) * (elite[at] - *mean));
        *deviation = (squares.sum::<f64>() / count + noise * noise).sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::{BestPoint, Search, minimise};
    use rayon::ThreadPoolBuilder;

    const SEARCH: Search = Search { generations: 60, population: 40, seed: 7 };

    /// A bowl whose lowest point is known, long in one direction.
    fn bowl(at: &[f64]) -> Result<f64, String> {
        let (x, y, z) = (at[0] - 2.0, at[1] + 0.75, at[2]);
        Ok(1.5 + x * x + 5.0 * y * y + z * z)
    }

    fn found(search: Search) -> BestPoint {
        minimise(&[0.0, 0.0, 0.25], &[0, 1], search, bowl, |_| ()).expect("no error")
    }

    #[test]
    fn it_finds_a_lowest_point_that_is_known_and_moves_nothing_that_is_not_free() {
        let BestPoint { point, value, before } = found(SEARCH);
        assert!((point[0] - 2.0).abs() < 0.02 && (point[1] + 0.75).abs() < 0.02, "{point:?}");
        assert_eq!(point[2], 0.25);
        assert!(value < 1.5 + 0.0625 + 0.001, "{value}");
        assert_eq!(before, bowl(&[0.0, 0.0, 0.25]).expect("no error"));
    }

    #[test]
    fn the_number_of_threads_changes_nothing_and_the_seed_does() {
        let with = |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| found(Search { generations: 4, ..SEARCH }))
        };
        assert_eq!(with(1), with(5));
        let other = found(Search { generations: 4, seed: 8, ..SEARCH });
        assert_ne!(with(1).point, other.point);
    }

    #[test]
    fn what_is_found_is_never_worse_than_the_start_and_progress_is_told() {
        let mut told = Vec::new();
        let search = Search { generations: 5, population: 4, seed: 1 };
        let start = [2.0, -0.75, 0.0];
        let best = minimise(&start, &[0, 1, 2], search, bowl, |value| told.push(value));
        let best = best.expect("no error");
        assert_eq!((best.point.as_slice(), best.value, best.before), (&start[..], 1.5, 1.5));
        assert_eq!(told, [1.5; 5]);
    }

    #[test]
    fn points_that_are_no_good_are_not_followed_and_errors_end_the_search() {
        let fence = |at: &[f64]| Ok::<f64, String>(if at[0] < 0.5 { at[0] } else { f64::INFINITY });
        let best = minimise(&[0.0], &[0], SEARCH, fence, |_| ()).expect("no error");
        assert!(best.value < -5.0, "{}", best.value);
        let nowhere = |_: &[f64]| Ok::<f64, String>(f64::INFINITY);
        let best = minimise(&[3.0], &[0], SEARCH, nowhere, |_| ()).expect("no error");
        assert_eq!((best.point[0], best.before), (3.0, f64::INFINITY));
        let fails = |at: &[f64]| if at[0] == 0.0 { Ok(1.0) } else { Err(at[0].to_string()) };
        let search = |seed| Search { seed, ..SEARCH };
        let error = minimise(&[0.0], &[0], search(3), fails, |_| ()).expect_err("it fails");
        assert_eq!(Err(error), minimise(&[0.0], &[0], search(3), fails, |_| ()).map(|_| ()));
    }
}
