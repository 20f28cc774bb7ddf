//! The units in which people read times and sizes: one rule for messages, tables and charts.
//!
//! Invariant: what a unit is chosen for has at least one digit before the point in it.

/// A unit's name, and how many picoseconds or bytes it is.
pub type Unit = (&'static str, f64);

const TIMES: [Unit; 5] = [("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3), ("ps", 1.0)];
const SIZES: [Unit; 5] = [
    ("TiB", (1u64 << 40) as f64),
    ("GiB", (1u64 << 30) as f64),
    ("MiB", (1u64 << 20) as f64),
    ("KiB", (1u64 << 10) as f64),
    ("B", 1.0),
];

/// The unit of times of which the largest has `most` picoseconds. Nothing at all is so many
/// milliseconds, as people expect of a step.
pub fn of_times(most: f64) -> Unit {
    largest(&TIMES, most).unwrap_or(("ms", 1e9))
}

/// The unit of sizes of which the largest has `most` bytes. Nothing at all is so many GiB, as
/// people expect of a tier.
pub fn of_sizes(most: f64) -> Unit {
    largest(&SIZES, most).unwrap_or(("GiB", (1u64 << 30) as f64))
}

/// A time in words, three digits: `21.2 s`, `528 s`, `11.1 ms`.
pub fn time(ps: f64) -> String {
    // 999.6 ms are a second.
    let (unit, size) = of_times(ps * 1.0005);
    format!("{} {unit}", three_digits(ps / size))
}

/// A size in words, three digits: `1.55 GiB`.
pub fn size(bytes: f64) -> String {
    // 1023.6 MiB are a GiB.
    let (unit, size) = of_sizes(bytes * 1.0004);
    format!("{} {unit}", three_digits(bytes / size))
}

/// A number with three digits, or all those before the point: `21.2`, `4.68`, `1234`.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// The largest unit of which `most` is at least one; of less than one of any, the smallest.
fn largest(units: &[Unit], most: f64) -> Option<Unit> {
    let fits = units.iter().find(|unit| most >= unit.1).or(units.last());
    fits.copied().filter(|_| most > 0.0)
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
    fn a_unit_is_the_largest_of_which_there_is_one() {
        let times = [(1e12, "s"), (9.9e11, "ms"), (1e6, "us"), (1e3, "ns"), (0.5, "ps")];
        for (most, unit) in times.into_iter().chain([(0.0, "ms"), (1e18, "s")]) {
            assert_eq!(of_times(most).0, unit, "{most} ps");
        }
        let gib = (1u64 << 30) as f64;
        let sizes =
            [(gib * 1024.0, "TiB"), (gib * 1023.9, "GiB"), (gib, "GiB"), (gib - 1.0, "MiB")];
        for (most, unit) in sizes.into_iter().chain([(1024.0, "KiB"), (1023.0, "B"), (0.0, "GiB")])
        {
            assert_eq!(of_sizes(most).0, unit, "{most} bytes");
        }
    }
}
