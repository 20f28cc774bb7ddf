//! What a machine draws and what it costs: the numbers that energy and prices rest on.
//!
//! All of them are optional, and none changes a time. Units are chosen so that sums are exact
//! integers: attojoules per bit, microwatts and picoseconds (a microwatt for a picosecond is one
//! attojoule), and nanodollars.
//! Invariant: a number that is not known is `None`, never 0; every number that is known stands in
//! [`Economics::facts`] with its source. They are kept apart from the facts that times rest on.

use crate::hardware::capacity::Capacity;
use crate::hardware::fact::{Fact, Source};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Power and prices of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Economics {
    /// By tier; tiers beyond its end have no numbers.
    pub tiers: Vec<TierEconomics>,
    /// By link; links beyond its end have no numbers.
    pub links: Vec<LinkEconomics>,
    /// The device that computes.
    pub device: DeviceEconomics,
    /// Everything else: processors, board, fans, losses of the power supplies.
    pub host: HostEconomics,
    /// Every number of these with its source.
    pub facts: Vec<Fact>,
}

/// Power and price of a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierEconomics {
    /// Attojoules per bit that is read.
    pub read: Option<u64>,
    /// Attojoules per bit that is written.
    pub write: Option<u64>,
    /// What it draws whether it is used or not.
    pub idle: Option<Standby>,
    /// Nanodollars per GiB.
    pub price: Option<u64>,
    /// Its power is in the numbers of the device or of the host already.
    pub power_included: bool,
    /// Its price is in the numbers of the device or of the host already.
    pub price_included: bool,
}

/// Standing power of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standby {
    /// Microwatts, whatever its capacity.
    Whole(u64),
    /// Microwatts per GiB of the capacity that a case has.
    PerGib(u64),
}

/// Power of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkEconomics {
    /// Attojoules per bit that is carried.
    pub energy: Option<u64>,
    /// Its power is in the numbers of the device or of the host already.
    pub power_included: bool,
}

/// Power and price of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceEconomics {
    /// Microwatts while none of its ops runs.
    pub idle: Option<u64>,
    /// Microwatts while they run.
    pub active: Option<u64>,
    /// Nanodollars.
    pub price: Option<u64>,
}

/// Power and price of what is neither device, tier nor link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEconomics {
    /// Microwatts while the machine works.
    pub power: Option<u64>,
    /// Nanodollars.
    pub price: Option<u64>,
}

crate::words! {
    /// How far a number can be trusted: the kind of its source. A result is as good as the weakest
    /// number that it rests on, so the order is from strong to weak.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Confidence {
        /// Somebody ran it.
        Measured = "measured",
        /// The maker, or a publication on the part, says so.
        Datasheet = "datasheet",
        /// The maker says that a future product will.
        Announced = "announced",
        /// Nobody says so.
        Assumed = "assumed",
    }
}

impl Source {
    /// How far a number from here can be trusted.
    pub const fn confidence(&self) -> Confidence {
        match self {
            Source::Measured(_) => Confidence::Measured,
            Source::Datasheet(_) => Confidence::Datasheet,
            Source::Announced(_) => Confidence::Announced,
            Source::Assumed(_) => Confidence::Assumed,
        }
    }

    /// Where it stands, or why it was assumed.
    pub fn text(&self) -> &str {
        match self {
            Source::Measured(text)
            | Source::Datasheet(text)
            | Source::Announced(text)
            | Source::Assumed(text) => text,
        }
    }
}

impl Standby {
    /// Microwatts of a tier of this capacity, rounded up; `None` where power goes by capacity and
    /// there is no limit.
    pub fn microwatts(self, capacity: Capacity) -> Option<u128> {
        match self {
            Standby::Whole(power) => Some(power.into()),
            Standby::PerGib(power) => capacity.limit().map(|bytes| per_gib(power, bytes)),
        }
    }
}

/// `amount` per GiB times `bytes`, rounded up.
pub fn per_gib(amount: u64, bytes: Bytes) -> u128 {
    (u128::from(amount) * u128::from(bytes.get())).div_ceil(1 << 30)
}

impl Economics {
    /// The numbers of a tier, by index.
    pub fn tier(&self, tier: usize) -> TierEconomics {
        self.tiers.get(tier).cloned().unwrap_or_default()
    }

    /// The numbers of a link, by index.
    pub fn link(&self, link: usize) -> LinkEconomics {
        self.links.get(link).cloned().unwrap_or_default()
    }

    /// The number at a path such as `tiers.dram.energy`, if it is known.
    pub fn fact(&self, path: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.path == path)
    }

    /// Leaves out tiers and links without numbers at the end of the tables, so that machines that
    /// say the same are equal.
    pub fn trim(&mut self) {
        while self.tiers.last() == Some(&TierEconomics::default()) {
            self.tiers.pop();
        }
        while self.links.last() == Some(&LinkEconomics::default()) {
            self.links.pop();
        }
    }

    /// Puts another machine's device in the place of this one's.
    pub fn take_device(&mut self, other: &Economics) {
        let of_device = |fact: &&Fact| fact.path.starts_with("compute.");
        self.facts.retain(|fact| !of_device(&fact));
        self.facts.extend(other.facts.iter().filter(of_device).cloned());
        self.device = other.device.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_power_goes_by_capacity_only_where_it_says_so() {
        assert_eq!(Standby::Whole(7).microwatts(Capacity::Unlimited), Some(7));
        assert_eq!(Standby::PerGib(7).microwatts(Bytes::gib(3).into()), Some(21));
        assert_eq!(Standby::PerGib(7).microwatts(Bytes::new(1).into()), Some(1), "rounded up");
        assert_eq!(Standby::PerGib(7).microwatts(Capacity::Unlimited), None);
    }

    #[test]
    fn the_weakest_source_is_the_largest() {
        let order = [
            Confidence::Measured,
            Confidence::Datasheet,
            Confidence::Announced,
            Confidence::Assumed,
        ];
        assert!(order.is_sorted());
    }
}
