//! Unified memory with correlation prefetch: it remembers which kernel followed which.
//!
//! A kernel is known by its name and its objects. A table says, for the last two kernels, which one
//! came next when they were met last; for a pair that was never met, what came next after the last
//! one alone. Before each op the chain of the table is followed from there, and the next objects on
//! it are fetched ahead; to make room, what is not on the chain leaves, least recently used first.
//! Objects fetched ahead do not fault, all others cost what they do
//! in [`crate::zoo::unified_memory`].
//! Source of the rule: Jung, Kim, Lee, "DeepUM", ASPLOS 2023 (tables of kernels and of blocks, and
//! pre-eviction of what the next kernels do not use). Here the unit is an object.
//! Invariant: nothing is known of the future but what the past has shown.

use crate::entry::{Entry, Kind, Parameter};
use crate::paging::{Recency, evict_one, free_up, make_room, outside};
use crate::policy::{Action, Policy};
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use crate::zoo::unified_memory::{Faults, fetch};
use std::collections::BTreeMap;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};

/// Objects of the chain that are fetched ahead, unless a scenario says otherwise.
const OBJECTS: u64 = 64;

/// Parameters of `correlation-prefetch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrelationPrefetchConfig {
    /// How faults are handled.
    pub faults: Faults,
    /// How many objects of the chain are looked at.
    pub objects: u64,
    /// Whether objects leave for those that are fetched ahead.
    pub pre_evict: bool,
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "CorrelationPrefetch",
    about: "unified memory that learns which kernel follows which and fetches ahead",
    parameters: &[
        Parameter::optional("objects", Kind::Count { least: 1, most: 4096 }),
        Parameter::optional("pre_evict", Kind::Flag),
        Faults::PARAMETERS[0],
        Faults::PARAMETERS[1],
        Faults::PARAMETERS[2],
        Parameter::optional("spill", Kind::HostTiers),
    ],
    make: |params| {
        Ok(CorrelationPrefetchConfig {
            faults: Faults::of(params)?,
            objects: params.count("objects").unwrap_or(OBJECTS),
            pre_evict: params.flag("pre_evict").unwrap_or(true),
            spill: params.tiers("spill"),
        }
        .into())
    },
};

impl Recipe for CorrelationPrefetchConfig {
    fn name(&self) -> &'static str {
        "correlation-prefetch"
    }

    fn details(&self) -> String {
        let evict = if self.pre_evict { "" } else { " into free room" };
        format!("{} objects ahead{evict}, faults {}", self.objects, self.faults.words())
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let recency = Recency::new(setting.workload.trace.objects.len());
        let table = Table::default();
        Ok(Box::new(CorrelationPrefetch { config: self.clone(), recency, table }))
    }

    fn most_delay(&self, bytes: Bytes) -> Span {
        self.faults.handling(self.faults.batches(bytes))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(CorrelationPrefetchConfig { spill, ..self.clone() }.into())
    }
}

/// Unified memory that fetches ahead what came next before.
#[derive(Debug)]
struct CorrelationPrefetch {
    config: CorrelationPrefetchConfig,
    recency: Recency,
    table: Table,
}

impl CorrelationPrefetch {
    /// Fetches ahead what is `expected`, in order, as long as there is room or can be.
    fn prefetch(&mut self, expected: &[ObjectId], step: &mut Step<'_>) {
        // What this op creates is spoken for, and what the ops on the chain create.
        let born = step.missing();
        for &object in expected {
            if step.stays_in_hbm(object) {
                continue;
            }
            let need = born + step.bytes(object);
            while self.config.pre_evict && !step.has_free(HBM, need) {
                let others = self.recency.oldest_first().filter(|other| !expected.contains(other));
                let Some(gone) = evict_one(step, others, &self.config.spill) else { break };
                self.recency.remove(gone);
            }
            if !step.has_free(HBM, need) {
                return;
            }
            if step.view().exists(object) {
                step.prefetch(object, HBM);
                self.recency.touch(object);
            } else {
                step.reserve(HBM, step.bytes(object));
            }
        }
    }
}

impl Policy for CorrelationPrefetch {
    fn name(&self) -> &'static str {
        "correlation-prefetch"
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        outside(object, &self.config.spill, view)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        self.table.meet(view);
        self.recency.forget_absent(view);
        view.uses().iter().for_each(|touched| self.recency.touch(touched.object));
        let mut expected = self.table.expected(self.config.objects as usize);
        expected.retain(|&object| !step.is_used(object));
        // What is expected last goes first, if an expected object has to go.
        let last: Vec<ObjectId> = expected.iter().rev().copied().collect();
        free_up(step, step.missing(), &mut self.recency, &last, &self.config.spill);
        fetch(step, &self.config.faults);
        if step.has_free(HBM, step.missing()) {
            self.prefetch(&expected, step);
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(outside(object, &self.config.spill, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        make_room(&mut self.recency, tier, &self.config.spill, view)
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        remember!(out, self as CorrelationPrefetch { recency, table } skip { config });
        true
    }
}

/// Which kernel followed which.
#[derive(Debug, Default)]
struct Table {
    /// Kernels by what they are known by.
    kernels: BTreeMap<u64, u32>,
    /// The objects of each kernel.
    objects: Vec<Vec<ObjectId>>,
    /// After the last two, and after the last alone.
    after_two: BTreeMap<(u32, u32), u32>,
    after_one: Vec<Option<u32>>,
    /// The last two.
    met: (Option<u32>, Option<u32>),
}

remember! {
    // A kernel's objects are known by its number.
    Table { kernels, after_two, after_one, met } skip { objects };
}

impl Table {
    /// The kernel that is launched now.
    fn meet(&mut self, view: &View<'_>) {
        let next = *self.kernels.entry(known_by(view)).or_insert_with(|| {
            self.objects.push(view.uses().iter().map(|touched| touched.object).collect());
            self.after_one.push(None);
            (self.objects.len() - 1) as u32
        });
        if let Some(last) = self.met.1 {
            self.after_one[last as usize] = Some(next);
            if let Some(before) = self.met.0 {
                self.after_two.insert((before, last), next);
            }
        }
        self.met = (self.met.1, Some(next));
    }

    /// The first `most` different objects of the kernels that should come next, in their order.
    fn expected(&self, most: usize) -> Vec<ObjectId> {
        let mut found: Vec<ObjectId> = Vec::with_capacity(most);
        let (mut before, mut last) = self.met;
        // A chain may run in a circle.
        for _ in 0..most.saturating_mul(4) {
            let Some(kernel) = last else { break };
            let pair = before.and_then(|before| self.after_two.get(&(before, kernel)).copied());
            let next = pair.or(self.after_one[kernel as usize]);
            for &object in next.iter().flat_map(|&next| &self.objects[next as usize]) {
                if found.len() == most {
                    return found;
                }
                if !found.contains(&object) {
                    found.push(object);
                }
            }
            (before, last) = (last, next);
        }
        found
    }
}

/// What a driver knows a kernel by: its name and its arguments.
///
/// Source of the hash: Fowler, Noll, Vo, FNV-1a with 64 bits. Two kernels of the same hash would be
/// taken for one, and the table would be wrong for them, no more.
fn known_by(view: &View<'_>) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let name = view.op().name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let objects = view.uses().iter().flat_map(|touched| touched.object.0.to_le_bytes());
    objects.fold(name, mix)
}
