//! The unit that fits what a column, an axis or a sentence shows: 21.2 s and not 21205 ms.
//!
//! Invariant: the largest value has at least one digit before the point, and under a thousand of a
//! unit that has a larger one.

use crate::words::{decimals_for, finite};
pub(crate) use tiersim_models::units::shown::{three_digits, time};

/// How many decimals give the smallest of `values` four digits; at most three, and no more than
/// five digits for the largest.
pub(crate) fn decimals(values: &[Option<f64>]) -> usize {
    let above = values.iter().flatten().filter_map(|value| finite(value.abs()));
    let above: Vec<f64> = above.filter(|value| *value > 0.0).collect();
    let least = above.iter().copied().fold(f64::INFINITY, f64::min);
    let most = above.iter().copied().fold(0.0, f64::max);
    let wanted = match least {
        least if least.is_infinite() => 3,
        least if least >= 1_000.0 => 0,
        least if least >= 100.0 => 1,
        least if least >= 10.0 => 2,
        _ => 3,
    };
    wanted.min(decimals_for(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_serve_the_smallest_and_spare_the_largest() {
        for (values, digits) in [
            (&[11.08, 61.14][..], 2),
            (&[528.169], 1),
            (&[0.5, 20_000.0], 0),
            (&[0.0], 3),
            (&[], 3),
        ] {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            assert_eq!(decimals(&values), digits, "{values:?}");
        }
    }
}
