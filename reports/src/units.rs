//! The unit that fits what a column, an axis or a sentence shows: 21.2 s and not 21205 ms.
//!
//! Invariant: the largest value has at least one digit before the point, and under a thousand of a
//! unit that has a larger one.

use crate::words::{decimals_for, finite};
use tiersim_models::units::shown;

/// A time in words, three digits: `21.2 s`, `528 s`, `11.1 ms`.
pub(crate) fn time(ps: f64) -> String {
    // 999.6 ms are a second.
    let (unit, size) = shown::of_times(ps * 1.0005);
    format!("{} {unit}", three_digits(ps / size))
}

/// A number with three digits, or all those before the point: `21.2`, `4.68`, `1234`.
pub(crate) fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

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
    fn times_are_in_the_unit_that_fits() {
        for (ps, text) in [
            (21_205e9, "21.2 s"),
            (528_169e9, "528 s"),
            (11.077e9, "11.1 ms"),
            (999.7e9, "1.00 s"),
            (999.4e9, "999 ms"),
            (1.5e6, "1.50 us"),
            (0.0, "0.00 ms"),
            (250.0, "250 ps"),
        ] {
            assert_eq!(time(ps), text);
        }
    }

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
