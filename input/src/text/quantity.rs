//! Sizes, times and rates as written in a file: `gib(80)`, `us(5)`, `gb_per_s(150)`.
//!
//! A unit is part of the value, so GB and GiB cannot be confused and no number stands alone.
//! Resolving multiplies by the unit, refuses what is not finite or out of range, and rounds to the
//! nearest whole byte, picosecond or byte per second: what is lost is below a part in 10^12 of any
//! number that a person writes.
//! Invariant: a resolved quantity lies within its [`Limits`], so that adding up a few of them
//! cannot overflow.

pub mod economics;
mod sourced;

use crate::text::check::Check;
use serde::de::{Deserialize, Deserializer, EnumAccess, Error, VariantAccess, Visitor};
pub use sourced::{Doubt, Sourced};
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
pub use tiersim_models::units::written::{
    Budget, Copies, Dimension, Drives, Duration, EnergyPerBit, FlopCount, Outstanding, Power,
    Price, PricePerSize, Size, StandingPower, Unit, by_name,
};
pub use tiersim_models::units::{Bandwidth, FlopRate};
use tiersim_models::units::{Bytes, Span};

/// A number with its unit, as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity<D> {
    /// Which of the dimension's units.
    pub unit: usize,
    /// The number.
    pub number: f64,
    dimension: PhantomData<D>,
}

/// The range in which a quantity makes sense.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Smallest allowed value in base units.
    pub least: f64,
    /// Largest allowed value in base units.
    pub most: f64,
    /// Both in words.
    pub words: &'static str,
}

const EIB: f64 = (1u64 << 60) as f64;

/// Room for objects.
pub const CAPACITY: Limits = Limits { least: 1.0, most: EIB, words: "between 1 B and 1 EiB" };
/// A number of bytes to compare with.
pub const BYTES: Limits = Limits { least: 0.0, most: EIB, words: "between 0 and 1 EiB" };
/// FLOPs to compare with; no op has more.
pub const WORK: Limits = Limits { least: 0.0, most: 1e18, words: "between 0 and 10^18" };
/// A piece of a copy; smaller ones would drown the simulation in events.
pub const CHUNK: Limits =
    Limits { least: 4096.0, most: (1u64 << 34) as f64, words: "between 4 KiB and 16 GiB" };
/// A fixed cost.
pub const SETUP: Limits = Limits { least: 0.0, most: 10e12, words: "between 0 and 10 s" };
/// Copies that are under way at once.
pub const COPIES: Limits = Limits { least: 1.0, most: 65536.0, words: "between 1 and 65536" };
/// Requests that are under way at once.
pub const DEPTH: Limits = Limits { least: 1.0, most: 1048576.0, words: "between 1 and 1048576" };
/// What one request brings.
pub const GRANULE: Limits =
    Limits { least: 1.0, most: (1u64 << 20) as f64, words: "between 1 B and 1 MiB" };
/// Drives of one set.
pub const DRIVES: Limits = Limits { least: 1.0, most: 256.0, words: "between 1 and 256" };
/// A time to compare with.
pub const TIME: Limits = Limits { least: 0.0, most: 1e18, words: "between 0 and 10^6 s" };
/// Bytes or FLOP per second; slower, and one op could outlast the simulated clock.
pub const RATE: Limits =
    Limits { least: 1e6, most: 1e18, words: "between 10^6 and 10^18 per second" };

impl<D: Dimension> Quantity<D> {
    /// In base units, rounded to the nearest whole one; a problem at `path` if out of range.
    pub fn resolve(&self, check: &mut Check<'_>, path: &str, limits: Limits) -> Option<u64> {
        let unit = D::UNIT;
        let value = self.number * unit.factors[self.unit];
        let rule = if !value.is_finite() {
            format!("{} must be a finite number", unit.what)
        } else if value.is_sign_negative() && value != 0.0 {
            format!("{} may not be negative", unit.what)
        } else if value < limits.least || value > limits.most {
            format!("{} must lie {} here", unit.what, limits.words)
        } else {
            return Some(value.round() as u64);
        };
        check.fault(path, rule, unit.remedy);
        None
    }
}

/// What a number of a dimension is once it is read.
pub trait Meaning: Dimension {
    /// Its type.
    type Value;
    /// What comes in whole numbers, if this does.
    const WHOLE: Option<&'static str> = None;

    /// The meaning of so many base units, written in the unit `word`.
    fn of(base: u64, word: &str) -> Option<Self::Value>;
}

macro_rules! meaning {
    ($dimension:ident, $value:ty, $base:ident => $of:expr $(, $whole:literal)?) => {
        impl Meaning for $dimension {
            type Value = $value;
            $(const WHOLE: Option<&'static str> = Some($whole);)?

            fn of($base: u64, _: &str) -> Option<$value> {
                $of
            }
        }
    };
}
pub(crate) use meaning;

meaning!(Size, Bytes, bytes => Some(Bytes::new(bytes)));
meaning!(Duration, Span, ps => Some(Span::from_ps(ps)));
meaning!(Bandwidth, Bandwidth, rate => Bandwidth::new(rate));
meaning!(FlopRate, FlopRate, rate => FlopRate::new(rate));
meaning!(Budget, Bytes, bytes => Some(Bytes::new(bytes)));
meaning!(Copies, NonZeroU32, count => NonZeroU32::new(u32::try_from(count).ok()?), "copies");
meaning!(Outstanding, NonZeroU32, count => NonZeroU32::new(u32::try_from(count).ok()?), "requests");
meaning!(Drives, NonZeroU32, count => NonZeroU32::new(u32::try_from(count).ok()?), "drives");

impl<D: Meaning> Quantity<D> {
    /// What it means; a problem at `path` if it is out of range.
    pub fn value(&self, check: &mut Check<'_>, path: &str, limits: Limits) -> Option<D::Value> {
        if let Some(what) = D::WHOLE
            && self.number.is_finite()
            && self.number.fract() != 0.0
        {
            check.fault(path, format!("{what} come in whole numbers"), D::UNIT.remedy);
            return None;
        }
        D::of(self.resolve(check, path, limits)?, D::UNIT.words[self.unit])
    }
}

impl Quantity<Budget> {
    /// The share of the peak, if this is one: above 0 and at most 1000.
    pub fn share(&self, check: &mut Check<'_>, path: &str) -> Option<Option<f64>> {
        if Budget::UNIT.words[self.unit] != "share_of_peak" {
            return Some(None);
        }
        if self.number > 0.0 && self.number <= 1000.0 {
            return Some(Some(self.number));
        }
        let rule = "a share of the peak must lie above 0 and at most at 1000";
        check.fault(path, rule, "write share_of_peak(0.25) for a quarter");
        None
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Quantity<D> {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        // The reader knows by the name that this is a quantity, and looks at its unit.
        deserializer.deserialize_enum(D::UNIT.name, D::UNIT.words, QuantityVisitor(PhantomData))
    }
}

struct QuantityVisitor<D>(PhantomData<D>);

impl<'de, D: Dimension> Visitor<'de> for QuantityVisitor<D> {
    type Value = Quantity<D>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(D::UNIT.what)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Quantity<D>, A::Error> {
        let (unit, rest) = access.variant_seed(UnitWord(D::UNIT))?;
        Ok(Quantity { unit, number: rest.newtype_variant()?, dimension: PhantomData })
    }
}

struct UnitWord(&'static Unit);

impl<'de> serde::de::DeserializeSeed<'de> for UnitWord {
    type Value = usize;

    fn deserialize<R: Deserializer<'de>>(self, deserializer: R) -> Result<usize, R::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for UnitWord {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a unit of {}", self.0.what)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<usize, E> {
        let known = self.0.words.iter().position(|known| *known == word);
        known.ok_or_else(|| E::unknown_variant(word, self.0.words))
    }
}
