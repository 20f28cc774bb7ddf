//! The memory of one case: what each tier has, what of it is hidden, and what objects can have.
//!
//! The ledger, the auditor, bounds, policies and reports all read this value, so hidden memory is
//! taken off in one place. What a tier has is what one device of the case may use of it: its share
//! of what the file says, or the case's own budget. What tiers store packed is said here as well
//! ([`Storing`]), so that everybody counts the same bytes.
//! Invariant: `room(tier)` is `capacity(tier)` less the tier's hidden memory, and not below zero.

use crate::allocator::AllocatorSpec;
use crate::compression::Storing;
use crate::hardware::Hardware;
use crate::hardware::capacity::Capacity;
use crate::hidden::{Hidden, of_tier};
use crate::ids::{ObjectId, TierId};
use crate::units::Bytes;

/// The memory of every tier, as one device of a case may use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    capacities: Vec<Capacity>,
    hidden: Vec<Hidden>,
    usable: Vec<Capacity>,
    allocators: Vec<AllocatorSpec>,
    storing: Option<Storing>,
}

impl Memory {
    /// Tiers of these capacities, nothing of which is hidden, with exact allocators.
    pub fn of(capacities: impl IntoIterator<Item = impl Into<Capacity>>) -> Memory {
        let capacities: Vec<Capacity> = capacities.into_iter().map(Into::into).collect();
        let usable = capacities.clone();
        let (hidden, allocators, storing) = Default::default();
        Memory { capacities, hidden, usable, allocators, storing }
    }

    /// The same, of which so much is hidden.
    pub fn hiding(mut self, hidden: Vec<Hidden>) -> Memory {
        let usable = self.capacities.iter().enumerate();
        self.usable =
            usable.map(|(tier, all)| all.less(of_tier(&hidden, TierId::at(tier)))).collect();
        self.hidden = hidden;
        self
    }

    /// The same with the allocator of each tier; exact where there is none.
    pub fn with(mut self, allocators: &[AllocatorSpec]) -> Memory {
        self.allocators = allocators.to_vec();
        self
    }

    /// The same, in which tiers store these objects packed.
    pub fn storing(self, storing: Option<Storing>) -> Memory {
        Memory { storing, ..self }
    }

    /// Which objects tiers store packed, if they store any.
    pub fn stores(&self) -> Option<&Storing> {
        self.storing.as_ref()
    }

    /// What an object of `whole` bytes takes in a tier.
    pub fn room_of(&self, object: ObjectId, tier: TierId, whole: Bytes) -> Bytes {
        self.storing.as_ref().map_or(whole, |storing| storing.stored(object, tier, whole))
    }

    /// What a tier has, hidden memory included.
    pub fn capacity(&self, tier: TierId) -> Capacity {
        self.capacities[tier.index()]
    }

    /// What each tier has, hidden memory included.
    pub fn capacities(&self) -> &[Capacity] {
        &self.capacities
    }

    /// What objects can have of a tier.
    pub fn usable(&self, tier: TierId) -> Capacity {
        self.usable[tier.index()]
    }

    /// What objects can have of each tier.
    pub fn all_usable(&self) -> &[Capacity] {
        &self.usable
    }

    /// Memory that no object can have.
    pub fn hidden(&self) -> &[Hidden] {
        &self.hidden
    }

    /// How much of what a tier has is hidden.
    pub fn hidden_in(&self, tier: TierId) -> Bytes {
        of_tier(&self.hidden, tier).min(self.capacity(tier).most())
    }

    /// The allocator of a tier; `None` for an exact one.
    pub fn allocator(&self, tier: TierId) -> Option<&AllocatorSpec> {
        self.allocators.get(tier.index()).filter(|spec| !spec.is_exact())
    }
}

impl Hardware {
    /// All memory that the machine's tiers have, for objects alone.
    pub fn memory(&self) -> Memory {
        Memory::of(self.tiers.iter().map(|tier| tier.capacity))
    }
}
