//! Time, sizes and rates as integers.
//!
//! One picosecond is the tick: at 8 TB/s a byte takes 0.125 ps, so a 4 KiB page is 512 ps where
//! nanoseconds would round it to 0 or 1. `u64` picoseconds last 213 days of simulated time.
//! Invariant: all arithmetic is checked; an overflow is a programmer's error and panics, because
//! a wrapped clock would give a wrong answer that looks like a right one.

pub mod shown;
pub mod written;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// Picoseconds in one second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// A point in simulated time, in picoseconds since the start of the run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

/// A length of simulated time, in picoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(u64);

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(u64);

/// Work per second, never zero. What the work is counted in is part of the type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate<Work>(NonZeroU64, PhantomData<Work>);

/// Bytes per second, on a link or of a tier.
pub type Bandwidth = Rate<Bytes>;

/// FLOP per second, of a device.
pub type FlopRate = Rate<Flops>;

/// What a [`FlopRate`] counts: floating-point operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flops {}

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);
    /// The last representable moment (about 213 days).
    pub const MAX: Time = Time(u64::MAX);

    /// The moment `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// Picoseconds since the start.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// The time that has passed since `earlier`. Panics if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.checked_sub(earlier.0).expect("time ran backwards"))
    }

    /// Milliseconds since the start, for reports only.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }

    /// `ns` nanoseconds. Panics beyond 213 days.
    pub const fn from_ns(ns: u64) -> Span {
        match ns.checked_mul(1_000) {
            Some(ps) => Span(ps),
            None => panic!("span overflows u64 picoseconds"),
        }
    }

    /// `us` microseconds. Panics beyond 213 days.
    pub const fn from_us(us: u64) -> Span {
        match us.checked_mul(1_000_000) {
            Some(ps) => Span(ps),
            None => panic!("span overflows u64 picoseconds"),
        }
    }

    /// Length in picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Length in milliseconds, for reports only.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span stretched by `factor` (finite, not negative), rounded up to the picosecond.
    pub fn scaled(self, factor: f64) -> Span {
        assert!(factor.is_finite() && factor >= 0.0, "scale factor {factor}");
        let ps = (self.0 as f64 * factor).ceil();
        assert!(ps < u64::MAX as f64, "scaled span overflows u64 picoseconds");
        Span(ps as u64)
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);
    /// The largest number.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }

    /// `n` MiB of 2^20 bytes.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// `n` GiB of 2^30 bytes.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The difference, or `None` if `other` is larger.
    pub fn checked_sub(self, other: Bytes) -> Option<Bytes> {
        self.0.checked_sub(other.0).map(Bytes)
    }
}

impl<Work: Copy> Rate<Work> {
    /// The largest rate.
    pub const MAX: Self = Rate(NonZeroU64::MAX, PhantomData);

    /// `per_second` units of work per second; `None` for zero.
    pub const fn new(per_second: u64) -> Option<Self> {
        match NonZeroU64::new(per_second) {
            Some(r) => Some(Rate(r, PhantomData)),
            None => None,
        }
    }

    /// Units per second.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Time for `work` units: `ceil(work * 10^12 / rate)` picoseconds, computed in 128 bits.
    ///
    /// Panics if the result exceeds 213 days; [`Rate::checked_span_of`] does not.
    #[inline]
    pub fn span_of(self, work: u64) -> Span {
        self.checked_span_of(work).expect("span overflows u64 picoseconds")
    }

    /// As [`Rate::span_of`], or `None` where the result exceeds `u64` picoseconds.
    pub fn checked_span_of(self, work: u64) -> Option<Span> {
        // The product stays in 64 bits for less than 18 MB, where one division is far cheaper.
        if let Some(product) = work.checked_mul(PS_PER_S) {
            return Some(Span(product.div_ceil(self.0.get())));
        }
        let ps = (u128::from(work) * u128::from(PS_PER_S)).div_ceil(u128::from(self.0.get()));
        u64::try_from(ps).ok().map(Span)
    }
}

impl Bandwidth {
    /// `gb` GB (10^9 bytes) per second. Panics on zero.
    pub const fn gb_per_s(gb: u64) -> Bandwidth {
        match Rate::new(gb * 1_000_000_000) {
            Some(r) => r,
            None => panic!("a rate must be above zero"),
        }
    }
}

impl<Work> fmt::Debug for Rate<Work> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rate").field(&self.0).finish()
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0.checked_add(span.0).expect("time overflows u64 picoseconds"))
    }
}

/// Sums of what is counted from zero up.
macro_rules! sums {
    ($($unit:ident: $overflow:literal;)+) => {$(
        impl Add for $unit {
            type Output = $unit;
            #[inline]
            fn add(self, other: $unit) -> $unit {
                $unit(self.0.checked_add(other.0).expect($overflow))
            }
        }

        impl AddAssign for $unit {
            #[inline]
            fn add_assign(&mut self, other: $unit) {
                *self = *self + other;
            }
        }

        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(all: I) -> $unit {
                all.fold($unit::ZERO, Add::add)
            }
        }
    )+};
}

sums! {
    Span: "span overflows u64 picoseconds";
    Bytes: "byte count overflows u64";
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.checked_sub(other.0).expect("byte count below zero"))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

impl fmt::Display for Span {
    /// The largest unit that leaves at least one whole digit, three decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1_000 {
            return write!(f, "{} ps", self.0);
        }
        let (unit, size) = shown::of_times(self.0 as f64);
        write!(f, "{:.3} {unit}", self.0 as f64 / size)
    }
}

impl fmt::Display for Bytes {
    /// Binary units (KiB, MiB, GiB, TiB), up to three decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1024 => return write!(f, "{} B", self.0),
            u64::MAX => return write!(f, "unlimited"),
            _ => {}
        }
        let (unit, size) = shown::of_sizes(self.0 as f64);
        let decimals = if self.0 < 1 << 30 { 1 } else { 3 };
        write!(f, "{:.decimals$} {unit}", self.0 as f64 / size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_rounds_up_to_the_picosecond() {
        // 64 MiB at 150 GB/s: 67108864e12 / 150e9 = 447_392_426.67 ps.
        assert_eq!(Bandwidth::gb_per_s(150).span_of(67_108_864), Span::from_ps(447_392_427));
        assert_eq!(Bandwidth::gb_per_s(800).span_of(4096), Span::from_ps(5120));
        assert_eq!(Bandwidth::gb_per_s(1).span_of(0), Span::ZERO);
        assert_eq!(Bandwidth::gb_per_s(8000).span_of(1), Span::from_ps(1));
    }

    #[test]
    fn both_division_paths_agree_at_their_border() {
        for rate in [1u64, 7, 999_999_937, 150_000_000_000, u64::MAX] {
            let rate = Bandwidth::new(rate).unwrap();
            for work in [18_446_743u64, 18_446_744, 18_446_745] {
                let wide = (u128::from(work) * 1_000_000_000_000).div_ceil(u128::from(rate.get()));
                assert_eq!(rate.checked_span_of(work).map(Span::ps), u64::try_from(wide).ok());
            }
        }
    }

    #[test]
    fn a_span_past_the_clock_is_refused_not_wrapped() {
        assert_eq!(Bandwidth::new(1).unwrap().checked_span_of(u64::MAX), None);
        assert_eq!(
            Bandwidth::new(u64::MAX).unwrap().checked_span_of(u64::MAX),
            Some(Span(PS_PER_S))
        );
    }

    #[test]
    fn units_print_for_people() {
        assert_eq!(Span::from_us(5).to_string(), "5.000 us");
        assert_eq!(Bytes::gib(2).to_string(), "2.000 GiB");
        assert_eq!(Bytes::new(1536).to_string(), "1.5 KiB");
    }
}
