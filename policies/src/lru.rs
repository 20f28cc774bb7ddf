//! Demand paging by object, least recently used first out.
//!
//! Objects that exist before the first op start outside HBM; an op fetches what it needs, and to
//! make room the objects that were used longest ago leave. A changed object is written back, an
//! unchanged one whose copy outside is still good is just given up.
//! Invariant: an object that the op in question uses is never evicted for it.

use crate::entry::{Entry, Kind, Parameter};
use crate::policy::{Action, Policy, Sight};
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::view::View;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Parameters of `lru`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LruConfig {
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "Lru",
    about: "demand paging by object, least recently used first out",
    parameters: &[Parameter::optional("spill", Kind::Spill)],
    make: |params| Ok(LruConfig { spill: params.tiers("spill") }.into()),
};

impl Recipe for LruConfig {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn details(&self) -> String {
        "on demand".to_owned()
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(Lru::new(self, setting.workload.trace.objects.len())))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(LruConfig { spill }.into())
    }
}

/// Demand paging.
#[derive(Debug)]
pub struct Lru {
    spill: Vec<TierId>,
    order: Order,
}

impl Lru {
    /// For a trace of so many objects.
    pub fn new(config: &LruConfig, objects: usize) -> Lru {
        Lru { spill: config.spill.clone(), order: Order::new(objects) }
    }

    /// The first spill tier where the object has room or can have it.
    fn home(&self, object: ObjectId, claimed: &[Bytes; MAX_TIERS], view: &View<'_>) -> TierId {
        let bytes = view.object(object).bytes;
        let owned = self.spill.iter().find(|&&tier| view.has_room(object, tier));
        let roomy = || {
            let fits = |tier: &&TierId| view.fits(**tier, claimed[tier.index()] + bytes);
            self.spill.iter().find(fits)
        };
        // With no room anywhere the last tier is named, and the ledger says that it is full.
        *owned.or_else(roomy).unwrap_or_else(|| self.spill.last().unwrap_or(&HBM))
    }
}

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn sight(&self) -> Sight {
        Sight::Past
    }

    fn start(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        self.home(object, &[Bytes::ZERO; MAX_TIERS], view)
    }

    fn birth(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn before(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        let mut need = Bytes::ZERO;
        for touched in view.uses() {
            if !view.in_hbm(touched.object) {
                need += view.object(touched.object).bytes;
            }
            self.order.touch(touched.object);
        }
        let mut free = view.free(HBM);
        let mut claimed = [Bytes::ZERO; MAX_TIERS];
        while free < need {
            let Some(object) = self.order.oldest() else { break };
            if view.uses().iter().any(|touched| touched.object == object) {
                break;
            }
            self.order.remove(object);
            if !view.in_hbm(object) {
                continue; // its life ended since
            }
            let to = self.home(object, &claimed, view);
            let bytes = view.object(object).bytes;
            if !view.has_room(object, to) {
                claimed[to.index()] += bytes;
            }
            actions.push(Action::Evict { object, from: HBM, to });
            free += bytes;
        }
        for touched in view.uses() {
            if !view.in_hbm(touched.object) && view.exists(touched.object) {
                actions.push(Action::Fetch { object: touched.object, to: HBM });
            }
        }
    }

    fn far(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(self.home(object, &[Bytes::ZERO; MAX_TIERS], view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        if tier != HBM {
            return None;
        }
        loop {
            let object = self.order.oldest()?;
            if view.uses().iter().any(|touched| touched.object == object) {
                return None;
            }
            self.order.remove(object);
            if view.in_hbm(object) {
                let to = self.home(object, &[Bytes::ZERO; MAX_TIERS], view);
                return Some(Action::Evict { object, from: HBM, to });
            }
        }
    }
}

/// Objects by recency: a doubly linked list in two arrays, so that every operation is O(1).
#[derive(Debug)]
struct Order {
    older: Vec<u32>,
    newer: Vec<u32>,
}

/// Not in the list.
const OUT: u32 = u32::MAX;

impl Order {
    fn new(objects: usize) -> Order {
        // The last entry is the ring's anchor: its `newer` is the oldest, its `older` the newest.
        let anchor = u32::try_from(objects).expect("objects are numbered in u32");
        let mut order = Order { older: vec![OUT; objects + 1], newer: vec![OUT; objects + 1] };
        order.older[objects] = anchor;
        order.newer[objects] = anchor;
        order
    }

    fn anchor(&self) -> u32 {
        (self.older.len() - 1) as u32
    }

    fn oldest(&self) -> Option<ObjectId> {
        let oldest = self.newer[self.anchor() as usize];
        (oldest != self.anchor()).then_some(ObjectId(oldest))
    }

    fn touch(&mut self, object: ObjectId) {
        self.remove(object);
        let (anchor, newest) = (self.anchor(), self.older[self.anchor() as usize]);
        self.link(newest, object.0);
        self.link(object.0, anchor);
    }

    fn remove(&mut self, object: ObjectId) {
        let (older, newer) = (self.older[object.index()], self.newer[object.index()]);
        if older != OUT {
            self.link(older, newer);
            self.older[object.index()] = OUT;
            self.newer[object.index()] = OUT;
        }
    }

    fn link(&mut self, older: u32, newer: u32) {
        self.newer[older as usize] = newer;
        self.older[newer as usize] = older;
    }
}
