//! How many experts of a layer the tokens of an iteration reach, in the mean over draws.
//!
//! An iteration is not drawn token by token: a server makes millions. Of `n` experts of which each
//! token takes `k`, all as likely as each other, `t` tokens reach `n (1 - (1 - k / n)^t)` in the
//! mean. Whole experts lie below and above it, so a part of the layers has a draw that reaches one
//! more than the others.
//! Invariant: over all layers the reached experts are the mean to half of one.

use crate::transformer::card::Experts;
use crate::transformer::routing;
use std::ops::Range;

/// Draws among which one of the wanted size is looked for.
const SEEDS: u64 = 64;
/// A mean as near to a whole number is that number.
const WHOLE: f64 = 1e-6;

/// Seeds of two draws, and how many layers have the second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reached {
    /// Of one that reaches fewer experts than the mean, or as many, and of one that reaches more.
    pub(super) seeds: [u64; 2],
    /// The share of the layers that have the second.
    more: f64,
}

impl Reached {
    /// What so many tokens reach of the experts of a layer.
    pub(super) fn of(experts: &Experts, tokens: u64) -> Reached {
        let mean = mean(experts, tokens);
        // Where only a rare draw misses one, any draw will do.
        if f64::from(experts.count) - mean < 0.5 {
            return Reached::default();
        }
        let whole = mean.round();
        let (few, more) = match (mean - whole).abs() < WHOLE {
            true => (whole, 0.0),
            false => (mean.floor(), mean.fract()),
        };
        let busy = |seed: u64| {
            let all = routing::tokens(experts, tokens, (seed, 0), (0, 0));
            all.into_iter().filter(|&tokens| tokens > 0).count() as f64
        };
        let all: Vec<f64> = (0..SEEDS).map(busy).collect();
        let nearest = |wanted: f64| {
            let off = |&seed: &u64| ((all[seed as usize] - wanted).abs() as u64, seed);
            (0..SEEDS).min_by_key(off).unwrap_or(0)
        };
        Reached { seeds: [few, few + 1.0].map(nearest), more }
    }

    /// How many of these layers have the first draw, and how many the second.
    pub(super) fn split(self, layers: Range<u64>) -> [u64; 2] {
        let before = |layer: u64| (layer as f64 * self.more).round() as u64;
        let second = before(layers.end) - before(layers.start);
        [layers.end - layers.start - second, second]
    }
}

/// How many experts tokens reach in the mean.
fn mean(experts: &Experts, tokens: u64) -> f64 {
    f64::from(experts.count) * (1.0 - routing::missed(experts, tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_reach_the_mean_together() {
        for (count, active) in [(8, 2), (128, 4), (256, 8), (4, 4), (16, 1)] {
            let experts = Experts { count, active, ffn: 1, shared: 0, dense_first: 0 };
            for tokens in [1, 2, 3, 5, 8, 13, 40, 100, 3000] {
                let reached = Reached::of(&experts, tokens);
                let busy = reached.seeds.map(|seed| {
                    let all = routing::tokens(&experts, tokens, (seed, 0), (0, 0));
                    all.into_iter().filter(|&tokens| tokens > 0).count() as f64
                });
                let layers = 40;
                let [first, second] = reached.split(0..layers);
                assert_eq!(first + second, layers);
                let all = first as f64 * busy[0] + second as f64 * busy[1];
                let off = all / layers as f64 - mean(&experts, tokens);
                // A draw that misses one where hardly any does is not looked for.
                let most = if mean(&experts, tokens) > f64::from(count) - 0.5 { 1.0 } else { 0.02 };
                assert!(off.abs() <= most, "{count}, {active}, {tokens} tokens: {off}");
                // Groups of layers share them out.
                let parts = [0..7, 7..8, 8..layers].map(|part| reached.split(part)[1]);
                assert_eq!(parts.iter().sum::<u64>(), second);
            }
        }
    }
}
