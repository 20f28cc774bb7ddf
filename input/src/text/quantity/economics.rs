//! Energy, power and money as written in a hardware file: `pj_per_bit(3.9)`, `watts(700)`,
//! `usd_per_gib(15)`.
//!
//! Base units are those of [`tiersim_models::energy`]: attojoules per bit, microwatts, nanodollars.
//! Invariant: nothing in these limits can overflow 128 bits when it is multiplied by what a run
//! moves or by how long it takes.

use super::{EnergyPerBit, Limits, Meaning, Power, Price, PricePerSize, StandingPower, meaning};
use tiersim_models::energy::Standby;

/// Energy of moving a bit.
pub const ENERGY: Limits = Limits { least: 0.0, most: 1e11, words: "between 0 and 10^5 pJ/bit" };
/// Power of a part.
pub const POWER: Limits = Limits { least: 0.0, most: 1e12, words: "between 0 and 10^6 W" };
/// Price of a part.
pub const PRICE: Limits = Limits { least: 0.0, most: 1e18, words: "between 0 and 10^9 USD" };
/// Price of memory.
pub const PER_SIZE: Limits = Limits { least: 0.0, most: 1e15, words: "between 0 and 10^6 USD/GiB" };

meaning!(EnergyPerBit, u64, attojoules => Some(attojoules));
meaning!(Power, u64, microwatts => Some(microwatts));
meaning!(Price, u64, nanodollars => Some(nanodollars));
meaning!(PricePerSize, u64, nanodollars => Some(nanodollars));

impl Meaning for StandingPower {
    type Value = Standby;

    /// The power of the whole, or of each GiB.
    fn of(power: u64, word: &str) -> Option<Standby> {
        let per_gib = word == "watts_per_gib";
        Some(if per_gib { Standby::PerGib(power) } else { Standby::Whole(power) })
    }
}
