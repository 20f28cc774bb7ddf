//! What a step takes in energy, and what the machine of a case costs.
//!
//! ```text
//! E = device idle x T + (device active - idle) x time in which its ops run
//!   + host power x T + tiers' standing power x T
//!   + for each tier (bits read x pJ/bit + bits written x pJ/bit) + for each link (bits carried x pJ/bit)
//! ```
//!
//! T is the time of the measured steps. A tier is read and written by ops, once per use and object,
//! and by copies at both ends of every link that they cross. What is `included` in the power of
//! the device or of the host is worked out too, but shown beside the sum and not added.
//! Invariant: sums are exact integers (attojoules, nanodollars) and parts add up to the total;
//! where a number is missing that is needed, there is no total.

use crate::energy::{Confidence, per_gib};
use crate::hardware::{Capacity, Hardware, Memory};
use crate::results::Figures;
use crate::shared::Shared;
use serde::{Deserialize, Serialize};

/// Part of a sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// The number of the spec that it rests on, such as `tiers.dram.energy`.
    pub name: Shared<String>,
    /// Attojoules over all measured steps, or nanodollars.
    pub amount: u128,
}

/// What a sum rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// Paths of the numbers that were used.
    pub used: Vec<String>,
    /// How many of them are assumed.
    pub assumed: usize,
    /// That of the weakest of them; `None` if there are none.
    pub confidence: Option<Confidence>,
    /// Paths of the numbers that are needed and that the spec does not have.
    pub missing: Vec<String>,
}

/// What the measured steps of a case took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Energy {
    /// Attojoules, which add up to the total.
    pub parts: Vec<Contribution>,
    /// Attojoules that the power of the device or of the host holds already: not added.
    pub within: Vec<Contribution>,
    /// What the parts rest on.
    pub basis: Shared<Basis>,
    /// How many steps were measured.
    pub steps: usize,
}

/// What the machine of a case costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanodollars, which add up to the total.
    pub parts: Vec<Contribution>,
    /// What the parts rest on.
    pub basis: Shared<Basis>,
    /// Tiers without a limit: nobody can price them, so they are not in the sum.
    pub unlimited: Vec<String>,
}

/// Energy and cost of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseEconomics {
    /// `None` for a case that ran out of memory.
    pub energy: Option<Energy>,
    /// Of the machine as the case has it.
    pub cost: Shared<Cost>,
    /// Of a machine with no more memory than the case holds at its peak, beside hidden memory;
    /// `None` for a case that ran out of memory.
    pub used: Option<Shared<Cost>>,
}

impl CaseEconomics {
    /// Of a case with this memory, and of its figures if it ran to its end.
    pub fn of(hardware: &Hardware, memory: &Memory, figures: Option<&Figures>) -> CaseEconomics {
        let held = |figures: &Figures| -> Vec<Capacity> {
            let held = hardware.tier_ids().zip(&figures.peak);
            // A tier without limit has room for what is hidden, too.
            let beside = |tier| memory.capacity(tier).limit().map(|_| memory.hidden_in(tier));
            held.map(|(tier, peak)| (*peak + beside(tier).unwrap_or_default()).into()).collect()
        };
        CaseEconomics {
            energy: figures.map(|figures| energy(hardware, memory.capacities(), figures)),
            cost: cost(hardware, memory.capacities()).into(),
            used: figures.map(|figures| cost(hardware, &held(figures)).into()),
        }
    }

    /// Holds what it has as `other` has it together with that one.
    pub fn share(&mut self, other: &CaseEconomics) {
        let CaseEconomics { energy, cost, used } = self;
        cost.share(&other.cost);
        if let (Some(used), Some(other)) = (used, &other.used) {
            used.share(other);
            // Other amounts of the same parts.
            if used != other {
                used.basis.share(&other.basis);
                share_names(&mut used.parts, &other.parts);
            }
        }
        if let (Some(energy), Some(other)) = (energy, &other.energy) {
            energy.basis.share(&other.basis);
            share_names(&mut energy.parts, &other.parts);
            share_names(&mut energy.within, &other.within);
        }
    }

    /// Joules per measured step, if every number that is needed is known.
    pub fn joules(&self) -> Option<f64> {
        let energy = self.energy.as_ref()?;
        energy.total().map(|total| energy.joules_per_step(total))
    }

    /// Dollars, if every number that is needed is known.
    pub fn dollars(&self) -> Option<f64> {
        self.cost.total().map(dollars)
    }

    /// Dollars of what the case uses, if every number that is needed is known.
    pub fn dollars_used(&self) -> Option<f64> {
        self.used.as_ref()?.total().map(dollars)
    }
}

fn share_names(own: &mut [Contribution], other: &[Contribution]) {
    own.iter_mut().zip(other).for_each(|(own, other)| own.name.share(&other.name));
}

/// Nanodollars as dollars.
pub fn dollars(amount: u128) -> f64 {
    amount as f64 / 1e9
}

fn sum(parts: &[Contribution]) -> u128 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.amount))
}

impl Energy {
    /// Attojoules of all measured steps, if nothing that is needed is missing.
    pub fn total(&self) -> Option<u128> {
        self.basis.missing.is_empty().then(|| sum(&self.parts))
    }

    /// An amount of attojoules as joules per measured step.
    pub fn joules_per_step(&self, amount: u128) -> f64 {
        amount as f64 / 1e18 / self.steps.max(1) as f64
    }
}

impl Cost {
    /// Nanodollars, if nothing that is needed is missing.
    pub fn total(&self) -> Option<u128> {
        self.basis.missing.is_empty().then(|| sum(&self.parts))
    }
}

/// A sum in the making.
struct Ledger<'h> {
    hardware: &'h Hardware,
    parts: Vec<Contribution>,
    within: Vec<Contribution>,
    basis: Basis,
}

impl<'h> Ledger<'h> {
    fn new(hardware: &'h Hardware) -> Ledger<'h> {
        Ledger { hardware, parts: Vec::new(), within: Vec::new(), basis: Basis::default() }
    }

    /// Adds a part that rests on the number at `name`; `None` says that the spec lacks it.
    fn add(&mut self, name: String, amount: Option<u128>) {
        match amount {
            Some(amount) => {
                self.rests_on(&name);
                self.parts.push(Contribution { name: name.into(), amount });
            }
            None => self.basis.missing.push(name),
        }
    }

    /// Shows what is in another number already, if it is known.
    fn show(&mut self, name: String, amount: Option<u128>) {
        self.within.extend(amount.map(|amount| Contribution { name: name.into(), amount }));
    }

    fn add_or_show(&mut self, included: bool, name: String, amount: Option<u128>) {
        if included { self.show(name, amount) } else { self.add(name, amount) }
    }

    fn rests_on(&mut self, path: &str) {
        let Some(fact) = self.hardware.economics.fact(path) else { return };
        let confidence = fact.source.confidence();
        self.basis.assumed += usize::from(confidence == Confidence::Assumed);
        self.basis.confidence = self.basis.confidence.max(Some(confidence));
        self.basis.used.push(path.to_owned());
    }
}

/// Energy of the measured steps.
fn energy(hardware: &Hardware, capacities: &[Capacity], figures: &Figures) -> Energy {
    let time: u128 = figures.steps.total();
    let active = u128::from(figures.active.ps());
    let over = |power: u128| power.saturating_mul(time);
    let mut ledger = Ledger::new(hardware);
    let economics = &hardware.economics;
    let device = &economics.device;
    ledger.add("compute.idle".into(), device.idle.map(|power| over(power.into())));
    // What it draws more while its ops run; without `idle` nobody can say how much that is.
    if device.active.is_none() || device.idle.is_some() {
        let more = device.active.zip(device.idle).map(|(active, idle)| active - idle);
        ledger.add("compute.active".into(), more.map(|power| u128::from(power) * active));
    }
    ledger.add("host.power".into(), economics.host.power.map(|power| over(power.into())));
    for (index, tier) in hardware.tiers.iter().enumerate() {
        let (own, place) = (economics.tier(index), format!("tiers.{}", tier.name));
        let capacity = capacities.get(index).copied().unwrap_or(tier.capacity);
        let idle = own.idle.and_then(|idle| idle.microwatts(capacity)).map(over);
        ledger.add_or_show(own.power_included, format!("{place}.idle"), idle);
        let [read, written] = traffic(hardware, figures, index);
        if read + written > 0 {
            let moved = own.read.zip(own.write).map(|(reading, writing)| {
                bits(read, reading).saturating_add(bits(written, writing))
            });
            ledger.add_or_show(own.power_included, format!("{place}.energy"), moved);
            if written > 0 && !own.power_included {
                ledger.rests_on(&format!("{place}.write_energy"));
            }
        }
    }
    for (index, link) in hardware.links.iter().enumerate() {
        let own = economics.link(index);
        let channels = figures.moved.iter().skip(index * 2).take(2);
        let carried: u128 = channels.map(|bytes| u128::from(bytes.get())).sum();
        if carried > 0 {
            let moved = own.energy.map(|energy| bits(carried, energy));
            let name = format!("links.{}.energy", link.name);
            ledger.add_or_show(own.power_included, name, moved);
        }
    }
    let Ledger { parts, within, basis, .. } = ledger;
    let (mut parts, mut within, basis) = (parts, within, basis.into());
    parts.shrink_to_fit();
    within.shrink_to_fit();
    Energy { parts, within, basis, steps: figures.steps.len() }
}

/// Attojoules of moving so many bytes.
fn bits(bytes: u128, energy: u64) -> u128 {
    bytes.saturating_mul(8).saturating_mul(energy.into())
}

/// Bytes read from and written to a tier: by ops, and by copies at both ends of each channel.
fn traffic(hardware: &Hardware, figures: &Figures, tier: usize) -> [u128; 2] {
    let of = |bytes: &[u128]| bytes.get(tier).copied().unwrap_or(0);
    let (mut read, mut written) = (of(&figures.read), of(&figures.written));
    for (channel, moved) in hardware.channels().zip(&figures.moved) {
        let ends = hardware.channel_ends(channel);
        let moved = u128::from(moved.get());
        if ends.0.index() == tier {
            read += moved;
        }
        if ends.1.index() == tier {
            written += moved;
        }
    }
    [read, written]
}

/// Cost of the machine with these capacities.
fn cost(hardware: &Hardware, capacities: &[Capacity]) -> Cost {
    let economics = &hardware.economics;
    let mut ledger = Ledger::new(hardware);
    let mut unlimited = Vec::new();
    ledger.add("compute.price".into(), economics.device.price.map(u128::from));
    ledger.add("host.price".into(), economics.host.price.map(u128::from));
    for (index, tier) in hardware.tiers.iter().enumerate() {
        let own = economics.tier(index);
        let capacity = capacities.get(index).copied().unwrap_or(tier.capacity);
        if own.price_included {
            continue;
        }
        let Some(bytes) = capacity.limit() else {
            unlimited.push(tier.name.clone());
            continue;
        };
        let price = own.price.map(|price| per_gib(price, bytes));
        ledger.add(format!("tiers.{}.price", tier.name), price);
    }
    let Ledger { mut parts, basis, .. } = ledger;
    parts.shrink_to_fit();
    Cost { parts, basis: basis.into(), unlimited }
}
