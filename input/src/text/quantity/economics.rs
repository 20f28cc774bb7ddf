//! Energy, power and money as written in a hardware file: `pj_per_bit(3.9)`, `watts(700)`,
//! `usd_per_gib(15)`.
//!
//! Base units are those of [`tiersim_models::energy`]: attojoules per bit, microwatts, nanodollars.
//! Invariant: nothing in these limits can overflow 128 bits when it is multiplied by what a run
//! moves or by how long it takes.

use super::{Dimension, EnergyPerBit, Limits, Power, Price, PricePerSize, Quantity, StandingPower};
use crate::text::check::Check;
use tiersim_models::energy::Standby;

/// Energy of moving a bit.
const ENERGY: Limits = Limits { least: 0.0, most: 1e11, words: "between 0 and 10^5 pJ/bit" };
/// Power of a part.
const POWER: Limits = Limits { least: 0.0, most: 1e12, words: "between 0 and 10^6 W" };
/// Price of a part.
const PRICE: Limits = Limits { least: 0.0, most: 1e18, words: "between 0 and 10^9 USD" };
/// Price of memory.
const PER_SIZE: Limits = Limits { least: 0.0, most: 1e15, words: "between 0 and 10^6 USD/GiB" };

impl Quantity<EnergyPerBit> {
    /// Attojoules per bit.
    pub fn attojoules(&self, check: &mut Check<'_>, path: &str) -> Option<u64> {
        self.resolve(check, path, ENERGY)
    }
}

impl Quantity<Power> {
    /// Microwatts.
    pub fn microwatts(&self, check: &mut Check<'_>, path: &str) -> Option<u64> {
        self.resolve(check, path, POWER)
    }
}

impl Quantity<StandingPower> {
    /// The power of the whole, or of each GiB.
    pub fn standby(&self, check: &mut Check<'_>, path: &str) -> Option<Standby> {
        let power = self.resolve(check, path, POWER)?;
        let per_gib = StandingPower::UNIT.words[self.unit] == "watts_per_gib";
        Some(if per_gib { Standby::PerGib(power) } else { Standby::Whole(power) })
    }
}

impl Quantity<Price> {
    /// Nanodollars.
    pub fn nanodollars(&self, check: &mut Check<'_>, path: &str) -> Option<u64> {
        self.resolve(check, path, PRICE)
    }
}

impl Quantity<PricePerSize> {
    /// Nanodollars per GiB.
    pub fn nanodollars(&self, check: &mut Check<'_>, path: &str) -> Option<u64> {
        self.resolve(check, path, PER_SIZE)
    }
}
