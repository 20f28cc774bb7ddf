//! Predicted against measured: errors of times, as shares of what was measured.
//!
//! Plain figures in, plain figures out: what was predicted by whom is the caller's business.

use tiersim_models::units::Span;

/// Sizes of relative errors, sorted away: |predicted - measured| / measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// How many pairs.
    pub count: usize,
    /// Half of them are smaller.
    pub median: f64,
    /// 95 % of them are not larger (nearest rank).
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

/// Grades pairs of (predicted, measured). Pairs measured as zero count as 0 if predicted so too,
/// else as 1.
pub fn grade(pairs: impl IntoIterator<Item = (Span, Span)>) -> Errors {
    let mut errors: Vec<f64> = pairs.into_iter().map(|(p, m)| error(p, m).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let Some(&max) = errors.last() else { return Errors::default() };
    let rank = |percent: usize| errors[(errors.len() * percent).div_ceil(100).max(1) - 1];
    Errors { count: errors.len(), median: rank(50), p95: rank(95), max }
}

/// (predicted - measured) / measured.
pub fn error(predicted: Span, measured: Span) -> f64 {
    if measured == Span::ZERO {
        return if predicted == Span::ZERO { 0.0 } else { 1.0 };
    }
    (predicted.ps() as f64 - measured.ps() as f64) / measured.ps() as f64
}

/// The middle one of several runs' figures; the lower of the two middle ones of an even number.
pub fn median(spans: &[Span]) -> Span {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(Span::ZERO)
}

/// Run-to-run spread: (longest - shortest) / median.
pub fn spread(spans: &[Span]) -> f64 {
    let (Some(min), Some(max)) = (spans.iter().min(), spans.iter().max()) else { return 0.0 };
    (max.ps() - min.ps()) as f64 / (median(spans).ps() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shares_of_the_measurement() {
        let us = Span::from_us;
        let pairs = [(us(11), us(10)), (us(8), us(10)), (us(10), us(10))];
        let errors = grade(pairs);
        assert_eq!(errors.count, 3);
        assert!((errors.median - 0.1).abs() < 1e-12 && (errors.max - 0.2).abs() < 1e-12);
        assert_eq!(errors.p95, errors.max);
        assert_eq!(grade([]), Errors::default());
    }

    #[test]
    fn spread_is_of_the_median() {
        let us = Span::from_us;
        assert!((spread(&[us(9), us(10), us(12)]) - 0.3).abs() < 1e-12);
    }
}
