//! A quantity with where it comes from and, if the file says so, how far off it may be:
//! `(us(5), datasheet("..."))`, `(gb_per_s(30), assumed("..."), range(gb_per_s(20), gb_per_s(45)))`.
//!
//! The source is never left out; the third part may be. What it says is checked where the number
//! is ([`Sourced::uncertainty`]): a range holds its number, in the number's own unit, and both ends
//! are values that the number itself could have.
//! Invariant: an [`Uncertainty`] that is returned has no quantile that the number could not have.

use crate::text::check::Check;
use crate::text::quantity::{Dimension, Limits, Meaning, Quantity};
use serde::Deserialize as Derived;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use tiersim_models::hardware::{Source, Spread, Uncertainty};

/// A quantity with where it comes from.
#[derive(Clone, Debug)]
pub struct Sourced<D> {
    /// The number.
    pub quantity: Quantity<D>,
    /// Where it comes from.
    pub source: Source,
    /// How far off it may be, if the file says so.
    pub doubt: Option<Doubt<D>>,
}

/// How far off a number may be, as written.
#[derive(Clone, Copy, Debug, Derived)]
#[serde(rename = "Uncertainty", rename_all = "snake_case", bound(deserialize = "D: Dimension"))]
pub enum Doubt<D> {
    /// One standard deviation.
    Spread(Deviation<D>),
    /// Anywhere between two values.
    Range(Quantity<D>, Quantity<D>),
    /// The same by ratio.
    LogRange(Quantity<D>, Quantity<D>),
}

/// A standard deviation.
#[derive(Clone, Copy, Debug)]
pub enum Deviation<D> {
    /// As a share of the number.
    Share(f64),
    /// In a unit.
    Of(Quantity<D>),
}

/// The largest deviation, as a share of its number: beyond it a normal law says nothing.
const MOST_DEVIATION: f64 = 1.0;

impl<D: Meaning> Sourced<D> {
    /// How far off the number at `path` may be, which is within `limits`; problems where the third
    /// part is wrong. It has no origin yet.
    pub fn uncertainty(
        &self,
        check: &mut Check<'_>,
        path: &str,
        limits: Limits,
    ) -> Option<Uncertainty> {
        let doubt = self.doubt.as_ref()?;
        let at = format!("{path}.2");
        let spread = match doubt {
            Doubt::Spread(deviation) => self.normal(check, &at, deviation)?,
            Doubt::Range(from, to) => {
                let (from, to) = self.range(check, &at, [from, to], limits)?;
                Spread::Uniform { from, to }
            }
            Doubt::LogRange(from, to) => {
                let (from, to) = self.range(check, &at, [from, to], limits)?;
                if from <= 0.0 {
                    let rule = "a range by ratio begins above 0";
                    check.fault(
                        &format!("{at}.0"),
                        rule,
                        "raise its lower end, or write range(..)",
                    );
                    return None;
                }
                Spread::LogUniform { from, to }
            }
        };
        let factor = D::UNIT.factors[self.quantity.unit];
        Some(Uncertainty {
            spread,
            value: self.quantity.number,
            unit: D::UNIT.words[self.quantity.unit].to_owned(),
            limits: [limits.least / factor, limits.most / factor],
            whole: D::WHOLE.is_some(),
            origin: String::new(),
            place: path.to_owned(),
        })
    }

    fn normal(&self, check: &mut Check<'_>, at: &str, of: &Deviation<D>) -> Option<Spread> {
        let number = self.quantity.number;
        let deviation = match of {
            Deviation::Share(share) => share * number,
            Deviation::Of(own) => {
                self.same_unit(check, at, own)?;
                own.number
            }
        };
        if deviation.is_finite() && deviation > 0.0 && deviation <= MOST_DEVIATION * number {
            return Some(Spread::Normal { deviation });
        }
        let rule = "a spread is one standard deviation, above 0 and at most its number";
        check.fault(at, rule, "write spread(0.05) for 5 %, or leave it out");
        None
    }

    fn range(
        &self,
        check: &mut Check<'_>,
        at: &str,
        [from, to]: [&Quantity<D>; 2],
        limits: Limits,
    ) -> Option<(f64, f64)> {
        let ends = [from, to].into_iter().enumerate().map(|(end, own)| {
            let at = format!("{at}.{end}");
            self.same_unit(check, &at, own)?;
            own.value(check, &at, limits).map(|_| own.number)
        });
        let ends = ends.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
        let (from, to, number) = (ends[0], ends[1], self.quantity.number);
        if from < to && (from..=to).contains(&number) {
            return Some((from, to));
        }
        let (rule, remedy) = if from >= to {
            ("a range runs from the lower end to the higher".to_owned(), "swap them, or widen it")
        } else {
            let word = D::UNIT.words[self.quantity.unit];
            let rule = format!("a range holds its number, and {word}({number}) is outside");
            (rule, "widen the range, or correct the number")
        };
        check.fault(at, rule, remedy);
        None
    }

    /// That a value of the third part is in the unit of the number: mixed ones are misread.
    fn same_unit(&self, check: &mut Check<'_>, at: &str, own: &Quantity<D>) -> Option<()> {
        if own.unit == self.quantity.unit {
            return Some(());
        }
        let word = D::UNIT.words[self.quantity.unit];
        let rule = format!("this is written in the unit of its number, which is `{word}`");
        check.fault(at, rule, format!("write {word}(...)"));
        None
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Sourced<D> {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        // The reader knows by the name that this is a quantity with its source.
        deserializer.deserialize_tuple_struct(D::UNIT.name, 2, SourcedVisitor(PhantomData))
    }
}

struct SourcedVisitor<D>(PhantomData<D>);

impl<'de, D: Dimension> Visitor<'de> for SourcedVisitor<D> {
    type Value = Sourced<D>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with its source", D::UNIT.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Sourced<D>, A::Error> {
        let missing = |at| A::Error::invalid_length(at, &"a quantity and its source");
        let quantity = parts.next_element()?.ok_or_else(|| missing(0))?;
        let source = parts.next_element()?.ok_or_else(|| missing(1))?;
        Ok(Sourced { quantity, source, doubt: parts.next_element()? })
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Deviation<D> {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        // A plain number is a share, anything else a quantity: the reader tells them apart.
        deserializer.deserialize_newtype_struct(D::UNIT.name, DeviationVisitor(PhantomData))
    }
}

struct DeviationVisitor<D>(PhantomData<D>);

impl<'de, D: Dimension> Visitor<'de> for DeviationVisitor<D> {
    type Value = Deviation<D>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a share or {}", D::UNIT.what)
    }

    fn visit_f64<E: Error>(self, share: f64) -> Result<Deviation<D>, E> {
        Ok(Deviation::Share(share))
    }

    fn visit_newtype_struct<R: Deserializer<'de>>(self, of: R) -> Result<Deviation<D>, R::Error> {
        Quantity::deserialize(of).map(Deviation::Of)
    }
}
