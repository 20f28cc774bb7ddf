//! The set of residents that saves the most moved bytes, as a knapsack.
//!
//! Value of an object: the bytes that one replay moves if it only visits HBM. Its size counts
//! during every op of its life that does not use it; an op's limit is what is free when it has its
//! objects and the kinds that the rule does not speak of have stayed. Limits come in as choices
//! break them: first those of the tightest ops, then those of the ops that a choice overfills.
//! Up to [`crate::packing::EXACT_ITEMS`] objects are chosen exactly, more by the rounded linear
//! relaxation ([`crate::packing`]). What fits beside the choice stays too, by falling density.
//! Source of the row generation: Gilmore, Gomory, "A Linear Programming Approach to the
//! Cutting-Stock Problem", Operations Research 1961, here for rows.
//! Invariant: a choice that the limits let through breaks none of them.

use crate::packing::{Packed, Packing, Period};
use crate::residents::Residents;
use crate::visits::running;
use std::collections::BTreeSet;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::workload::ObjectKind;

/// The home of every object, by object id, where all but these kinds are placed already; and what
/// the knapsack said: its value and its bound are of the [`MOST_ITEMS`] densest objects that save
/// anything.
pub fn choose(residents: &Residents<'_>, kinds: &[ObjectKind]) -> (Vec<TierId>, Packed) {
    let mut objects = residents.of_kinds(kinds);
    objects.sort_by(|&a, &b| residents.denser(a, b));
    let saves = |object: &ObjectId| residents.saved(*object) > 0;
    let items: Vec<ObjectId> = objects.iter().copied().filter(saves).take(MOST_ITEMS).collect();
    let packed = Model::new(residents, items.clone()).solve();
    let chosen = items.iter().zip(&packed.chosen).filter(|(_, chosen)| **chosen);
    let mut order: Vec<ObjectId> = chosen.map(|(object, _)| *object).collect();
    order.extend(&objects);
    // A rounded choice may lose to the greedy order.
    let [chosen, greedy] = [order, objects.clone()].map(|order| {
        let mut placed = residents.clone();
        placed.place(&order);
        let stay = objects.iter().filter(|object| placed.stays(**object));
        let saved: u128 = stay.map(|object| u128::from(placed.saved(*object))).sum();
        (saved, placed)
    });
    let (_, better) = if greedy.0 > chosen.0 { greedy } else { chosen };
    (better.homes(), packed)
}

/// At most so many objects are items of the knapsack.
pub const MOST_ITEMS: usize = 2048;
/// Limits come in for one op in each of so many parts of the trace at a time.
const PARTS: usize = 8;
/// How often limits come in.
const ROUNDS: u32 = 16;

/// The knapsack of a setting.
struct Model<'r, 'a> {
    residents: &'r Residents<'a>,
    items: Vec<ObjectId>,
    /// By op: what items that it does not use can have.
    free: Vec<i128>,
    /// Ops whose limit counts.
    limits: BTreeSet<u32>,
}

impl<'r, 'a> Model<'r, 'a> {
    fn new(residents: &'r Residents<'a>, items: Vec<ObjectId>) -> Model<'r, 'a> {
        let ops = residents.visits.ops();
        let free = (0..ops).map(|op| i128::from(residents.free(op..op + 1).get())).collect();
        let mut model = Model { residents, items, free, limits: BTreeSet::new() };
        model.limit(|model, op| Some(-model.free[op]));
        model
    }

    fn solve(mut self) -> Packed {
        let mut packed = self.packing().solve();
        for _ in 0..ROUNDS {
            let held = self.held(&packed.chosen);
            let over = |model: &Model<'_, '_>, op: usize| {
                Some(held[op] - model.free[op]).filter(|over| *over > 0)
            };
            if !self.limit(over) {
                break;
            }
            packed = self.packing().solve();
        }
        packed
    }

    /// Lets the limit of an op count in each part of the trace, the one with the largest `rank`;
    /// says whether any is new.
    fn limit(&mut self, rank: impl Fn(&Model<'_, '_>, usize) -> Option<i128>) -> bool {
        let before = self.limits.len();
        let (ops, size) = (self.free.len(), self.free.len().div_ceil(PARTS).max(1));
        for start in (0..ops).step_by(size) {
            let ranked =
                (start..ops.min(start + size)).filter_map(|op| Some((rank(self, op)?, op)));
            let worst = ranked.max_by_key(|&(rank, op)| (rank, std::cmp::Reverse(op)));
            self.limits.extend(worst.map(|(_, op)| op as u32));
        }
        self.limits.len() > before
    }

    /// Bytes of the chosen items by op, without those that it uses.
    fn held(&self, chosen: &[bool]) -> Vec<i128> {
        let visits = &self.residents.visits;
        let chosen = self.items.iter().zip(chosen).filter(|(_, chosen)| **chosen);
        let changes = chosen.flat_map(|(&object, _)| {
            let bytes = i128::from(self.residents.bytes(object).get());
            let counted = |_: &&(u32, bool)| self.residents.visitors_count();
            let uses = visits.uses(object).iter().filter(counted);
            let used = uses.flat_map(move |&(op, _)| [(op, -bytes), (op + 1, bytes)]);
            let life = visits.life(object);
            used.chain([(life.start, bytes), (life.end, -bytes)])
        });
        running(self.free.len(), changes)
    }

    fn packing(&self) -> Packing {
        let visits = &self.residents.visits;
        let period = |&op: &u32| {
            let counts = |object: ObjectId| {
                let used = || visits.uses(object).binary_search_by_key(&op, |(op, _)| *op).is_ok();
                visits.life(object).contains(&op) && !(self.residents.visitors_count() && used())
            };
            let items = (0..self.items.len()).filter(|&item| counts(self.items[item])).collect();
            let capacity = u64::try_from(self.free[op as usize]).unwrap_or(0);
            Period { capacity, items }
        };
        Packing {
            values: self.items.iter().map(|&object| self.residents.saved(object)).collect(),
            sizes: self.items.iter().map(|&object| self.residents.bytes(object).get()).collect(),
            periods: self.limits.iter().map(period).collect(),
        }
    }
}
