//! Latin hypercubes: as many values of each number as points, one from each of equally many strata,
//! in an order drawn for this number alone.
//!
//! McKay, Beckman, Conover, "A Comparison of Three Methods for Selecting Values of Input Variables",
//! Technometrics 21 (2), 1979. Each number has a stream of its own, so adding one changes no other.
//! Invariant: every stratum is hit exactly once, and values follow from seed and stream alone.

use rand::rngs::ChaCha12Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// The stratum of each of `points` points, counted from 0, and where to draw within it.
pub fn strata(points: usize, seed: u64, stream: u64) -> (Vec<usize>, ChaCha12Rng) {
    let mut random = ChaCha12Rng::seed_from_u64(seed);
    random.set_stream(stream);
    let mut strata: Vec<usize> = (0..points).collect();
    strata.shuffle(&mut random);
    (strata, random)
}

/// A share of all values, drawn within a stratum of `points`: at least 0 and below 1.
pub fn share(stratum: usize, points: usize, random: &mut ChaCha12Rng) -> f64 {
    (stratum as f64 + random.random::<f64>()) / points as f64
}

/// A number to so many significant digits.
pub fn significant(number: f64, digits: usize) -> f64 {
    format!("{number:.*e}", digits - 1).parse().unwrap_or(number)
}
