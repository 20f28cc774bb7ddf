//! The search for orders: those of the linear program, and changes that the simulator finds no
//! worse.

use super::orders::{Orders, StepUses, Steps};
use crate::bound::{Advice, Advised};
use crate::recipe::Setting;
use rand::rngs::ChaCha12Rng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::BTreeMap;
use tiersim_models::ids::OpId;
use tiersim_models::units::Span;

/// Objects smaller than the mean by so much move nothing that matters, and are left as they are.
const SMALL: u64 = 64;
/// So often early copies that were of no use are left out, half of them at a time.
const REFINED: usize = 8;

/// What a run with some orders says: its mean step, if it has memory enough, and the early copies
/// that were of no use.
pub(super) type Judge<'a> = &'a mut dyn FnMut(&Orders) -> (Option<Span>, StepUses);

/// An object of a step.
struct Item {
    object: u32,
    bytes: u64,
    /// Ops that use it and do not make it.
    uses: Vec<u32>,
    /// Objects that are alike in it have one role: whether it persists, uses, and writes.
    role: (bool, usize, usize),
}

/// The search and the best that it has found.
pub(super) struct Online {
    items: Vec<Item>,
    /// Ops of a step.
    ops: u32,
    /// The program's orders.
    advised: Vec<Orders>,
    pub(super) best: Option<(Span, Orders)>,
    /// Early copies of the best that were of no use.
    wasted: StepUses,
}

impl Online {
    pub(super) fn new(setting: &Setting<'_>, steps: &Steps, advised: &[Vec<Advice>]) -> Online {
        let uses = |advice: &Advice, of: fn(&Advised) -> &[u32]| -> StepUses {
            let objects = advice.objects.iter();
            objects.flat_map(|(&row, one)| of(one).iter().map(move |&op| (row, op))).collect()
        };
        let orders = |advice: &Advice| {
            let in_place = uses(advice, |one| &one.in_place);
            let kept = uses(advice, |one| &one.kept);
            [
                Orders { in_place: in_place.clone(), kept: StepUses::new() },
                Orders { in_place, kept },
            ]
        };
        Online {
            items: items(setting, steps),
            ops: steps.ops,
            advised: advised.iter().flatten().flat_map(orders).collect(),
            best: None,
            wasted: StepUses::new(),
        }
    }

    /// Runs it, and takes it for the best if it is no worse; its early copies that were of no use.
    fn tries(&mut self, orders: Orders, judge: Judge<'_>) -> StepUses {
        let (step, wasted) = judge(&orders);
        if let Some(step) = step
            && self.best.as_ref().is_none_or(|(best, _)| step <= *best)
        {
            (self.best, self.wasted) = (Some((step, orders)), wasted.clone());
        }
        wasted
    }

    /// The policy as it is, and the program's orders; runs that are left.
    pub(super) fn first(&mut self, runs: u32, judge: Judge<'_>) -> u32 {
        let all = 1 + self.advised.len() as u32;
        for at in 0..runs.min(all) as usize {
            let orders = at.checked_sub(1).map(|at| self.advised[at].clone());
            self.tries(orders.unwrap_or_default(), judge);
        }
        runs.saturating_sub(all)
    }

    /// Fewer copies that are of no use, then changes of the best.
    pub(super) fn improves(&mut self, mut runs: u32, judge: Judge<'_>) {
        runs = self.refines(runs, judge);
        let mut random = ChaCha12Rng::seed_from_u64(1);
        while runs > 0 && !self.items.is_empty() {
            let Some((_, best)) = &self.best else { return };
            let orders = self.changed(best, &mut random);
            if orders == *best {
                // A change that changes nothing costs no run, but the search must end.
                runs -= u32::from(random.random_range(0..8) == 0);
                continue;
            }
            runs -= 1;
            self.tries(orders, judge);
        }
    }

    /// Leaves copies out that were of no use, whether the next run is quicker for it or not: only
    /// all of them together may be what counts.
    fn refines(&mut self, mut runs: u32, judge: Judge<'_>) -> u32 {
        let Some((_, mut orders)) = self.best.clone() else { return runs };
        let mut wasted = self.wasted.clone();
        for _ in 0..REFINED {
            if runs == 0 || wasted.is_empty() {
                return runs;
            }
            runs -= 1;
            orders.kept.extend(wasted.into_iter().step_by(2));
            wasted = self.tries(orders.clone(), judge);
        }
        runs
    }

    /// One change of orders, drawn.
    fn changed(&self, orders: &Orders, random: &mut impl Rng) -> Orders {
        let mut orders = orders.clone();
        let width = (self.ops >> random.random_range(0..8)).max(1);
        let from = random.random_range(0..self.ops);
        let near = |&(_, op): &(u32, u32)| (op + self.ops - from) % self.ops < width;
        let share = random.random_range(1..=4);
        match random.random_range(0..8) {
            // As in another solution, for ops that follow each other.
            0..3 if !self.advised.is_empty() => {
                let other = &self.advised[random.random_range(0..self.advised.len())];
                orders.in_place.retain(|used| !near(used));
                orders.in_place.extend(other.in_place.iter().filter(|used| near(used)));
            }
            3 | 4 => {
                let some = self.wasted.iter().filter(|used| near(used));
                let mut drawn = |_: &&(u32, u32)| random.random_range(0..4) < share;
                orders.kept.extend(some.filter(|used| drawn(used)));
            }
            5 => orders.kept.retain(|used| !near(used) || random.random_range(0..4) >= share),
            _ => self.toggles(&mut orders, random),
        }
        orders
    }

    /// Uses of a few objects of one role in place, or none of them.
    fn toggles(&self, orders: &mut Orders, random: &mut impl Rng) {
        let at = random.random_range(0..self.items.len());
        let in_place = random.random();
        let (most, every) = (1 << random.random_range(0..=4), 1 << random.random_range(0..=3));
        let role = self.items[at].role;
        let like = self.items[at..].iter().step_by(every).filter(|item| item.role == role);
        for (item, &op) in
            like.take(most).flat_map(|item| item.uses.iter().map(move |op| (item, op)))
        {
            match in_place {
                true => orders.in_place.insert((item.object, op)),
                false => orders.in_place.remove(&(item.object, op)),
            };
        }
    }
}

/// The objects of a step that are not small, by role and first use.
fn items(setting: &Setting<'_>, steps: &Steps) -> Vec<Item> {
    let (workload, trace) = (setting.workload, &setting.workload.trace);
    let mut all: BTreeMap<u32, Item> = BTreeMap::new();
    for op in (0..steps.ops as usize).map(OpId::at) {
        let born = workload.births(op);
        for used in trace.uses_of(op).iter().filter(|used| !born.contains(&used.object)) {
            let object = &trace.objects[used.object.index()];
            let row = steps.like[used.object.index()];
            let item = all.entry(row).or_insert_with(|| Item {
                object: row,
                bytes: object.bytes.get(),
                uses: Vec::new(),
                role: (object.persistent, 0, 0),
            });
            item.uses.push(op.0);
            item.role.1 += 1;
            item.role.2 += usize::from(used.mode.writes());
        }
    }
    let mut all: Vec<Item> = all.into_values().collect();
    let few = few(all.iter().map(|item| item.bytes));
    all.retain(|item| item.bytes >= few);
    all.sort_by_key(|item| (item.role, item.uses[0], item.object));
    all
}

/// Fewer bytes than this, and an object of such sizes moves nothing that matters.
pub(super) fn few(sizes: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = sizes.len().max(1) as u64;
    sizes.sum::<u64>() / (SMALL * count)
}
