//! Which experts tokens go through: a seeded router whose choices are skewed.
//!
//! Routers are trained to balance and do not quite; some experts of a layer are chosen more often
//! than others, and the same ones step after step. Here the experts of a layer have an order of
//! their own, and the r-th has the weight r^-s (Zipf's law with exponent s); a token draws its
//! experts one after the other, without those that it has. Numbers come of a generator of its own
//! (SplitMix64) and of sums, products and square roots, which IEEE 754 rounds alike on every
//! machine.
//! Invariant: the tokens of all experts sum to tokens x active, and no expert has more than all
//! tokens.

use super::card::Experts;
use tiersim_models::random::SplitMix;

/// So many tokens are drawn one by one; of more, so many stand for all.
const DRAWN: u64 = 2048;
/// After so many draws of an expert that the token already has, the rest is drawn from what is
/// left.
const TRIES: u32 = 64;
/// Weight of the first expert.
const UNIT: f64 = (1u64 << 40) as f64;

/// How many of `tokens` tokens each expert of a layer gets.
///
/// `router` is its seed and its skew: the exponent of Zipf's law in hundredths, 0 for equal
/// experts. `place` is the layer, and the number of the draw (a step, or a batch of one): the same
/// place always answers the same. More than 2,048 tokens share out as 2,048 of them do, and the
/// rest is drawn.
pub fn tokens(experts: &Experts, tokens: u64, router: (u64, u32), place: (u64, u64)) -> Vec<u64> {
    let (seed, skew) = router;
    let (layer, draw) = place;
    let count = experts.count as usize;
    let active = experts.active.min(experts.count) as usize;
    if active == count {
        return vec![tokens; count];
    }
    let order = order(count, &mut Draws::of(&[seed, layer]));
    let sums = sums(count, skew);
    let mut draws = Draws::of(&[seed, layer, draw]);
    let mut drawn = |tokens: u64| {
        let mut each = vec![0u64; count];
        let mut taken = vec![false; count];
        for _ in 0..tokens {
            choose(&sums, active, &mut draws, &mut taken);
            for (rank, taken) in taken.iter_mut().enumerate() {
                each[order[rank]] += u64::from(std::mem::take(taken));
            }
        }
        each
    };
    let (whole, rest) = (tokens / DRAWN, tokens % DRAWN);
    let mut all = drawn(rest);
    if whole > 0 {
        let sample = drawn(DRAWN);
        all.iter_mut().zip(sample).for_each(|(all, sample)| *all += whole * sample);
    }
    all
}

/// The share of experts, all as likely as each other, that none of so many tokens chooses in the mean:
/// `(1 - active / count)^tokens`. Its powers are products, which are alike on every machine.
pub fn missed(experts: &Experts, tokens: u64) -> f64 {
    let (mut missed, mut left) = (1.0, tokens);
    let mut base = 1.0 - f64::from(experts.active.min(experts.count)) / f64::from(experts.count);
    while left > 0 {
        if left % 2 == 1 {
            missed *= base;
        }
        base *= base;
        left /= 2;
    }
    missed
}

/// Takes different ranks for one token.
fn choose(sums: &[u64], active: usize, draws: &mut Draws, taken: &mut [bool]) {
    let total = sums[sums.len() - 1];
    for _ in 0..active {
        let found = (0..TRIES).find_map(|_| {
            let at = draws.below(total);
            let rank = sums.partition_point(|&sum| sum <= at);
            (!taken[rank]).then_some(rank)
        });
        let rank = found.unwrap_or_else(|| among_the_rest(sums, taken, draws));
        taken[rank] = true;
    }
}

/// A rank that is not taken yet, by the weights of these alone.
fn among_the_rest(sums: &[u64], taken: &[bool], draws: &mut Draws) -> usize {
    let weight = |rank: usize| sums[rank] - rank.checked_sub(1).map_or(0, |before| sums[before]);
    let left = || (0..sums.len()).filter(|&rank| !taken[rank]);
    let mut at = draws.below(left().map(weight).sum());
    for rank in left() {
        match at.checked_sub(weight(rank)) {
            Some(beyond) => at = beyond,
            None => return rank,
        }
    }
    unreachable!("a draw lies below the sum of the weights")
}

/// Weights of the ranks, each with those before it.
fn sums(count: usize, skew: u32) -> Vec<u64> {
    let mut sum = 0;
    let weights = (1..=count).map(|rank| {
        // No rank is out of the question.
        sum += ((UNIT / power(rank as f64, skew)) as u64).max(1);
        sum
    });
    weights.collect()
}

/// `base` to the power of `hundredths` / 100, by products and square roots.
fn power(base: f64, hundredths: u32) -> f64 {
    let whole = hundredths / 100;
    let mut result = (0..whole.min(64)).fold(1.0, |all, _| all * base);
    let (mut root, mut rest) = (base, f64::from(hundredths % 100) / 100.0);
    for _ in 0..40 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            rest -= 1.0;
            result *= root;
        }
    }
    result
}

/// The experts of a layer by rank: a shuffle (Fisher and Yates).
fn order(count: usize, draws: &mut Draws) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, draws.below(last as u64 + 1) as usize);
    }
    order
}

/// Numbers that follow from a few others.
struct Draws(SplitMix);

impl Draws {
    fn of(from: &[u64]) -> Draws {
        let mut draws = SplitMix::new(0);
        for &number in from {
            draws = SplitMix::new(draws.draw() ^ number);
        }
        Draws(draws)
    }

    /// A number below `most`, all as likely as each other to one part in 2^64 / `most`.
    fn below(&mut self, most: u64) -> u64 {
        ((u128::from(self.0.draw()) * u128::from(most)) >> 64) as u64
    }
}
