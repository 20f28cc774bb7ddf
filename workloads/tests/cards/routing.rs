//! The router of experts: exact sums, different experts per token, the stated skew, and no chance.

use tiersim_workloads::transformer::card::Experts;
use tiersim_workloads::transformer::routing::tokens;

const fn experts(count: u32, active: u32) -> Experts {
    Experts { count, active, ffn: 1, shared: 0, dense_first: 0 }
}

/// Tokens of every expert over the draws of a layer.
fn over_draws(experts: &Experts, skew: u32, layer: u64, draws: u64) -> Vec<u64> {
    let mut all = vec![0; experts.count as usize];
    for draw in 0..draws {
        let each = tokens(experts, 1000, (1, skew), (layer, draw));
        all.iter_mut().zip(each).for_each(|(all, each)| *all += each);
    }
    all
}

fn top(each: &[u64]) -> usize {
    (0..each.len()).max_by_key(|&expert| each[expert]).expect("there are experts")
}

#[test]
fn every_token_goes_to_as_many_experts_as_are_active() {
    for (count, active) in [(1, 1), (8, 2), (8, 7), (8, 8), (60, 4), (128, 8), (4096, 4095)] {
        for skew in [0, 50, 100, 325, 10_000] {
            let experts = experts(count, active);
            for many in [0, 1, 7, 2047, 2048, 2049, 5000, 1 << 40] {
                // The largest draws of the largest layers take long.
                if u64::from(count) * many.min(2048) > 1 << 20 {
                    continue;
                }
                let each = tokens(&experts, many, (3, skew), (0, 0));
                assert_eq!(each.len(), count as usize);
                assert_eq!(each.iter().sum::<u64>(), many * u64::from(active));
                assert!(each.iter().all(|&each| each <= many), "{count} {active} {skew} {many}");
            }
        }
    }
}

#[test]
fn the_experts_of_one_token_are_different() {
    for draw in 0..200 {
        for skew in [0, 150, 1000] {
            let each = tokens(&experts(16, 4), 1, (9, skew), (2, draw));
            assert_eq!(each.iter().filter(|&&each| each == 1).count(), 4, "{each:?}");
            assert_eq!(each.iter().sum::<u64>(), 4, "{each:?}");
        }
    }
}

#[test]
fn the_same_place_has_the_same_answer_and_others_have_others() {
    let at = |seed, layer, draw| tokens(&experts(8, 2), 100, (seed, 80), (layer, draw));
    assert_eq!(at(1, 2, 3), at(1, 2, 3));
    assert_ne!(at(1, 2, 3), at(2, 2, 3));
    assert_ne!(at(1, 2, 3), at(1, 3, 3));
    assert_ne!(at(1, 2, 3), at(1, 2, 4));
}

#[test]
fn without_skew_experts_are_equal() {
    // Pearson's statistic; drawing without replacement makes it smaller by (n - a) / (n - 1).
    let experts = experts(8, 2);
    let each = over_draws(&experts, 0, 0, 100);
    let mean = 100.0 * 1000.0 * 2.0 / 8.0;
    let squares: f64 = each.iter().map(|&each| (each as f64 - mean).powi(2) / mean).sum();
    let statistic = squares * 7.0 / 6.0;
    // With 7 degrees of freedom 1 in 1,000 is above 24.3 and 1 in 1,000 below 0.6.
    assert!((0.6..24.3).contains(&statistic), "{statistic}: {each:?}");
}

#[test]
fn shares_follow_zipf() {
    let experts = experts(8, 1);
    for (skew, exponent) in [(50, 0.5), (100, 1.0), (150, 1.5)] {
        let mut each = over_draws(&experts, skew, 0, 200);
        each.sort_unstable_by(|a, b| b.cmp(a));
        let weights: Vec<f64> = (1..=8).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        for (each, weight) in each.iter().zip(&weights) {
            let share = *each as f64 / 200_000.0;
            // Four standard deviations of 200,000 draws.
            assert!((share - weight / total).abs() < 0.0045, "{skew}: {share} {}", weight / total);
        }
    }
}

#[test]
fn more_skew_gives_the_first_expert_more() {
    let experts = experts(16, 2);
    let shares: Vec<u64> = [0, 40, 80, 120, 200]
        .into_iter()
        .map(|skew| over_draws(&experts, skew, 5, 50)[top(&over_draws(&experts, 200, 5, 50))])
        .collect();
    assert!(shares.is_sorted_by(|less, more| less < more), "{shares:?}");
}

#[test]
fn the_first_expert_stays_it_from_step_to_step_and_differs_between_layers() {
    let experts = experts(64, 4);
    let of = |layer, draw| top(&tokens(&experts, 2000, (1, 150), (layer, draw)));
    let of_layers: Vec<usize> = (0..8).map(|layer| of(layer, 0)).collect();
    for (layer, first) in of_layers.iter().enumerate() {
        assert_eq!(of(layer as u64, 1), *first);
    }
    assert!(of_layers.iter().any(|first| *first != of_layers[0]), "{of_layers:?}");
}
