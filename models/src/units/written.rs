//! The words of units in files: `gib(80)`, `us(5)`, `gb_per_s(150)`.
//!
//! Base units of energy, power and money are those of [`crate::energy`].
//! Invariant: a dimension's words and factors have the same order.

use crate::units::{Bandwidth, FlopRate};
use std::fmt;

/// A kind of quantity: its units, and what to tell somebody who forgot them.
#[derive(Debug)]
pub struct Unit {
    /// Name in errors of the parser.
    pub name: &'static str,
    /// With its article, such as `a size`.
    pub what: &'static str,
    /// Words for the units, in the order of `factors`.
    pub words: &'static [&'static str],
    /// How many bytes, picoseconds or units per second each of `words` is.
    pub factors: &'static [f64],
    /// How to write one.
    pub remedy: &'static str,
    /// A value that breaks no rule.
    pub sample: &'static str,
}

/// Ties a type to its [`Unit`]s.
pub trait Dimension: fmt::Debug + Clone + Copy {
    /// The units.
    const UNIT: &'static Unit;
}

macro_rules! dimension {
    ($(#[$doc:meta])* $name:ident, $what:literal, $remedy:literal, $sample:literal,
        [$($word:literal = $factor:literal),* $(,)?]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name;

        dimension!(for $name as stringify!($name), $what, $remedy, $sample,
            [$($word = $factor),*]);
    };
    (for $type:ty as $name:expr, $what:literal, $remedy:literal, $sample:literal,
        [$($word:literal = $factor:literal),* $(,)?]) => {
        impl Dimension for $type {
            const UNIT: &'static Unit = &Unit {
                name: $name,
                what: $what,
                words: &[$($word),*],
                factors: &[$($factor),*],
                remedy: $remedy,
                sample: $sample,
            };
        }
    };
}

dimension!(
    /// Bytes.
    Size, "a size", "write gib(80) or gb(80)", "gib(1)",
    ["b" = 1.0, "kb" = 1e3, "mb" = 1e6, "gb" = 1e9, "tb" = 1e12, "kib" = 1024.0,
     "mib" = 1048576.0, "gib" = 1073741824.0, "tib" = 1099511627776.0]
);
dimension!(
    /// Picoseconds.
    Duration, "a time", "write us(5) or ns(350)", "us(1)",
    ["ps" = 1.0, "ns" = 1e3, "us" = 1e6, "ms" = 1e9, "s" = 1e12]
);
dimension!(
    for Bandwidth as "Bandwidth", "a rate", "write gb_per_s(150)", "gb_per_s(1)",
    ["mb_per_s" = 1e6, "gb_per_s" = 1e9, "tb_per_s" = 1e12, "gib_per_s" = 1073741824.0]
);
dimension!(
    for FlopRate as "Flops", "a FLOP rate", "write tflops(156)", "tflops(1)",
    ["gflops" = 1e9, "tflops" = 1e12, "pflops" = 1e15]
);
dimension!(
    /// FLOPs of one op.
    FlopCount, "a number of FLOPs", "write gflop(16)", "gflop(1)",
    ["flop" = 1.0, "mflop" = 1e6, "gflop" = 1e9, "tflop" = 1e12]
);
dimension!(
    /// Copies at once.
    Copies, "a number of copies", "write copies(4)", "copies(1)", ["copies" = 1.0]
);
dimension!(
    /// Requests at once.
    Outstanding, "a number of requests", "write requests(256)", "requests(1)", ["requests" = 1.0]
);
dimension!(
    /// Drives of a set.
    Drives, "a number of drives", "write drives(4)", "drives(2)", ["drives" = 1.0]
);
dimension!(
    /// Bytes, or a share of what the workload needs; the share's factor is never used.
    Budget, "an HBM budget", "write gib(2) or share_of_peak(0.25)", "share_of_peak(0.5)",
    ["b" = 1.0, "kb" = 1e3, "mb" = 1e6, "gb" = 1e9, "tb" = 1e12, "kib" = 1024.0,
     "mib" = 1048576.0, "gib" = 1073741824.0, "tib" = 1099511627776.0, "share_of_peak" = 1.0]
);

dimension!(
    /// Attojoules per bit.
    EnergyPerBit, "an energy per bit", "write pj_per_bit(3.9)", "pj_per_bit(1)",
    ["fj_per_bit" = 1e3, "pj_per_bit" = 1e6, "nj_per_bit" = 1e9]
);
dimension!(
    /// Microwatts.
    Power, "a power", "write watts(700)", "watts(1)",
    ["milliwatts" = 1e3, "watts" = 1e6, "kilowatts" = 1e9]
);
dimension!(
    /// Microwatts, or microwatts per GiB of capacity.
    StandingPower, "a standing power", "write watts(5) or watts_per_gib(0.1)", "watts(1)",
    ["milliwatts" = 1e3, "watts" = 1e6, "kilowatts" = 1e9, "watts_per_gib" = 1e6]
);
dimension!(
    /// Nanodollars.
    Price, "a price", "write usd(30000)", "usd(1)", ["usd" = 1e9]
);
dimension!(
    /// Nanodollars per GiB.
    PricePerSize, "a price per size", "write usd_per_gib(15) or usd_per_gb(14)",
    "usd_per_gib(1)", ["usd_per_gib" = 1e9, "usd_per_gb" = 1073741824.0]
);

/// The kinds of which every unit is of the same thing.
const OF_ONE_THING: [&Unit; 12] = [
    Size::UNIT,
    Duration::UNIT,
    Bandwidth::UNIT,
    FlopRate::UNIT,
    FlopCount::UNIT,
    Copies::UNIT,
    Outstanding::UNIT,
    Drives::UNIT,
    EnergyPerBit::UNIT,
    Power::UNIT,
    Price::UNIT,
    PricePerSize::UNIT,
];

/// The units that the parser calls `name`.
pub fn by_name(name: &str) -> Option<&'static Unit> {
    let mut all = OF_ONE_THING.into_iter().chain([Budget::UNIT, StandingPower::UNIT]);
    all.find(|unit| unit.name == name)
}

/// A number of the unit `from` in the unit `to`: 100 `mb` are 0.1 `gb`; `None` where the two words
/// are not units of one thing.
pub fn converted(number: f64, from: &str, to: &str) -> Option<f64> {
    OF_ONE_THING.iter().find_map(|Unit { words, factors, .. }| {
        let factor = |word: &str| Some(factors[words.iter().position(|known| *known == word)?]);
        Some(number * factor(from)? / factor(to)?)
    })
}

/// A quantity such as `us(2.4)` in base units; `None` for what is none of the
/// dimension.
pub fn in_base<D: Dimension>(text: &str) -> Option<f64> {
    let (word, number) = text.trim().strip_suffix(')')?.split_once('(')?;
    let Unit { words, factors, .. } = D::UNIT;
    let unit = words.iter().position(|known| *known == word.trim())?;
    Some(number.trim().replace('_', "").parse::<f64>().ok()? * factors[unit])
}
