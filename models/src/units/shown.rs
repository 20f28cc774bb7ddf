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

/// The largest unit of which `most` is at least one; of less than one of any, the smallest.
fn largest(units: &[Unit], most: f64) -> Option<Unit> {
    let fits = units.iter().find(|unit| most >= unit.1).or(units.last());
    fits.copied().filter(|_| most > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
