//! How far a number of a machine may be from what is written: the spread of a measurement, the
//! range of an assumption.
//!
//! A draw of a number is a quantile of its law: a share between 0 and 1 goes in, a value in the
//! number's own unit comes out. So whoever draws decides how (a Latin hypercube does), and a test
//! can ask for any quantile.
//! Invariant: every quantile is finite, above 0 and within the limits of the number's kind, and
//! rises with the share.

use statrs::distribution::{ContinuousCDF, Normal};

/// How the values of a number are distributed, in the unit that the number is written in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Normal around what is written, cut off at the limits of the number's kind.
    Normal {
        /// One standard deviation, above 0.
        deviation: f64,
    },
    /// Anywhere in a range alike; `from` below `to`.
    Uniform {
        /// The lower end.
        from: f64,
        /// The upper end.
        to: f64,
    },
    /// Anywhere in a range alike by ratio: as likely between 1 and 2 as between 2 and 4; `from`
    /// above 0 and below `to`.
    LogUniform {
        /// The lower end.
        from: f64,
        /// The upper end.
        to: f64,
    },
}

/// A number that is not known exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncertainty {
    /// How its values are distributed.
    pub spread: Spread,
    /// What is written, in its unit.
    pub value: f64,
    /// The unit's word, such as `gb_per_s`.
    pub unit: String,
    /// What the kind of number allows, in that unit.
    pub limits: [f64; 2],
    /// Whether it comes in whole numbers only.
    pub whole: bool,
    /// Where it was written, as text: numbers of several machines with one origin are one unknown.
    pub origin: String,
    /// Its path in the document of the machine, by index.
    pub place: String,
}

impl Uncertainty {
    /// Normal around a number that has no unit yet, with a standard deviation that is a share of
    /// it: what a measurement says before it is written down.
    pub fn share(deviation: f64) -> Uncertainty {
        Uncertainty {
            spread: Spread::Normal { deviation },
            value: 1.0,
            unit: String::new(),
            limits: [0.0, f64::INFINITY],
            whole: false,
            origin: String::new(),
            place: String::new(),
        }
    }

    /// The standard deviation as a share of the number; nothing for a range.
    pub fn relative(&self) -> Option<f64> {
        match self.spread {
            Spread::Normal { deviation } => Some(deviation / self.value),
            Spread::Uniform { .. } | Spread::LogUniform { .. } => None,
        }
    }

    /// The value below which a share of all values lies, in the number's unit; to the nearest whole
    /// one where it comes in whole numbers.
    ///
    /// `share` lies strictly between 0 and 1.
    pub fn quantile(&self, share: f64) -> f64 {
        let [least, most] = self.limits;
        let value = match self.spread {
            Spread::Uniform { from, to } => from + share * (to - from),
            Spread::LogUniform { from, to } => from * (to / from).powf(share),
            Spread::Normal { deviation } => {
                let normal = Normal::new(self.value, deviation).expect("the deviation is above 0");
                let [below, within] = [normal.cdf(least), normal.cdf(most)];
                normal.inverse_cdf(below + share * (within - below))
            }
        };
        let value = if self.whole { value.round() } else { value };
        value.clamp(least.max(self.value.min(f64::MIN_POSITIVE)), most)
    }

    /// Its law in words with the unit, such as `uniform from 20 to 45 gb_per_s`.
    pub fn words(&self) -> String {
        let unit = &self.unit;
        match self.spread {
            Spread::Uniform { from, to } => format!("uniform from {from} to {to} {unit}"),
            Spread::LogUniform { from, to } => format!("log-uniform from {from} to {to} {unit}"),
            Spread::Normal { deviation } => {
                // A share of the number, so that it has digits of rounding: 0.1 of 3 is 0.3.
                let deviation: f64 = format!("{deviation:.11e}").parse().unwrap_or(deviation);
                format!("normal, standard deviation {deviation} {unit}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spread: Spread, value: f64, limits: [f64; 2]) -> Uncertainty {
        let (unit, origin, place) = ("us".to_owned(), String::new(), String::new());
        Uncertainty { spread, value, unit, limits, whole: false, origin, place }
    }

    #[test]
    fn a_deviation_is_said_without_digits_of_rounding() {
        let normal = of(Spread::Normal { deviation: 0.1 * 3.0 }, 3.0, [0.0, 1e9]);
        assert_eq!(normal.words(), "normal, standard deviation 0.3 us");
    }

    #[test]
    fn quantiles_are_those_of_the_law() {
        let uniform = of(Spread::Uniform { from: 20.0, to: 45.0 }, 30.0, [0.0, 1e9]);
        assert_eq!([0.0, 0.2, 1.0].map(|share| uniform.quantile(share)), [20.0, 25.0, 45.0]);
        let log = of(Spread::LogUniform { from: 1.0, to: 16.0 }, 4.0, [0.0, 1e9]);
        assert!((log.quantile(0.75) - 8.0).abs() < 1e-12);
        // 97.5 % of a normal law lie below 1.96 deviations: any table of it.
        let normal = of(Spread::Normal { deviation: 1.0 }, 100.0, [0.0, 1e9]);
        assert!((normal.quantile(0.975) - 101.959_963_98).abs() < 1e-6);
        assert!((normal.quantile(0.5) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_wide_normal_law_stays_within_its_limits_and_rises() {
        let wide = of(Spread::Normal { deviation: 50.0 }, 10.0, [0.0, 40.0]);
        let values: Vec<f64> = (1..1000).map(|i| wide.quantile(f64::from(i) / 1000.0)).collect();
        assert!(values.iter().all(|value| *value > 0.0 && *value <= 40.0));
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
        // The median of what is left of the law: half of the mass between the limits.
        let law = Normal::new(10.0, 50.0).unwrap();
        let half = f64::midpoint(law.cdf(0.0), law.cdf(40.0));
        assert!((law.cdf(values[499]) - half).abs() < 1e-9);
    }

    #[test]
    fn whole_numbers_are_drawn_whole() {
        let mut copies = of(Spread::Uniform { from: 1.0, to: 4.0 }, 2.0, [1.0, 65536.0]);
        copies.whole = true;
        assert_eq!([0.1, 0.4, 0.9].map(|share| copies.quantile(share)), [1.0, 2.0, 4.0]);
    }
}
