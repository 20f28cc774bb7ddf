//! Decimal microseconds as whole picoseconds, without a float in between.
//!
//! A profiler writes absolute times of today with nanoseconds behind the point: 19 digits, which a
//! float of 53 bits does not hold.

/// The text of a number of microseconds in picoseconds, rounded to the nearest; none for what is no
/// number, or for one of more than 10^30.
pub(super) fn picoseconds(text: &str) -> Option<i128> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !all().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Digits up to the place of the picosecond.
    let keep = i64::try_from(whole.len()).ok()? + i64::from(exponent) + 6;
    let (mut ps, mut digits) = (0i128, all());
    for _ in 0..keep {
        let digit = digits.next();
        if ps == 0 && digit.is_none() {
            break;
        }
        ps = ps * 10 + digit.map_or(0, |byte| i128::from(byte - b'0'));
        if ps > 10i128.pow(36) {
            return None;
        }
    }
    ps += i128::from(keep >= 0 && digits.next().is_some_and(|byte| byte >= b'5'));
    Some(if negative { -ps } else { ps })
}

#[cfg(test)]
mod tests {
    use super::picoseconds;

    #[test]
    fn times_keep_every_digit() {
        for (text, ps) in [
            ("0", Some(0)),
            ("0.000", Some(0)),
            ("45", Some(45_000_000)),
            ("1669783687464181.243", Some(1_669_783_687_464_181_243_000)),
            ("4203669604595.407", Some(4_203_669_604_595_407_000)),
            ("-0.001", Some(-1_000)),
            ("1.5e3", Some(1_500_000_000)),
            ("12e-3", Some(12_000)),
            ("0.0000004", Some(0)),
            ("0.0000005", Some(1)),
            ("00012.5", Some(12_500_000)),
            ("1e-400", Some(0)),
            ("1e400", None),
            ("", None),
            ("abc", None),
            ("1.2.3", None),
            ("null", None),
            ("0x10", None),
            ("9e99999999999", None),
        ] {
            assert_eq!(picoseconds(text), ps, "{text}");
        }
    }
}
