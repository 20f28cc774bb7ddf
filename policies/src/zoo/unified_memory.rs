//! Unified memory: demand paging as a GPU's driver does it, by object.
//!
//! An op uses all pages of its objects, so all that are not in HBM fault. The driver handles faults
//! in batches: a fetch of b bytes costs `ceil(b / (page * batch))` batches, and each delays the op
//! by the handling of one, beside the copy itself. Handling and copying take turns, so the delay is
//! paid in full after what the op waited for has arrived. Least recently used first out; what an op
//! creates is born in HBM and does not fault.
//!
//! With *correlation prefetch* it remembers which kernel followed which (`chain`). Before each op
//! the chain of its table is followed, and the next objects on it are fetched ahead; to make room,
//! what is not on the chain leaves, least recently used first. Objects fetched ahead do not fault.
//! Source of the rule: Jung, Kim, Lee, "DeepUM", ASPLOS 2023 (tables of kernels and of blocks, and
//! pre-eviction of what the next kernels do not use). Here the unit is an object.
//! Invariant: the decisions are those of demand paging by recency, but for what is fetched ahead;
//! and nothing is known of the future but what the past has shown.

mod chain;

use crate::entry::{Entry, Fault, Kind, Parameter, Params};
use crate::paging::{Recency, evict_one, free_up, make_room, outside};
use crate::policy::{Action, Policy};
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use chain::Table;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};

/// The least and the largest page: 4 KiB and 2 MiB.
const PAGES: [u64; 2] = [4 << 10, 2 << 20];

/// How faults are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Bytes of a page.
    pub page: Bytes,
    /// Pages that are handled at a time.
    pub batch: u64,
    /// What the handling of a batch takes beside the copy.
    pub cost: Span,
}

impl Default for Faults {
    /// Pages of 4 KiB, 50 at a time, 45 us: the constants of G10's published runs (MICRO 2023).
    fn default() -> Faults {
        Faults { page: Bytes::new(PAGES[0]), batch: 50, cost: Span::from_us(45) }
    }
}

impl Faults {
    /// How entries spell it.
    const PARAMETERS: [Parameter; 3] = [
        Parameter::optional("page", Kind::Size),
        Parameter::optional("batch", Kind::Count { least: 1, most: 1 << 20 }),
        Parameter::optional("fault", Kind::Duration),
    ];

    /// What was written, the defaults for the rest.
    fn of(params: &Params) -> Result<Faults, Fault> {
        let written = Faults::default();
        let page = params.size("page").unwrap_or(written.page);
        if !(PAGES[0]..=PAGES[1]).contains(&page.get()) {
            return Err(Fault {
                parameter: "page",
                rule: format!("a page has 4 KiB to 2 MiB, not {page}"),
                remedy: "write kib(4), kib(64) or mib(2)".to_owned(),
            });
        }
        Ok(Faults {
            page,
            batch: params.count("batch").unwrap_or(written.batch),
            cost: params.duration("fault").unwrap_or(written.cost),
        })
    }

    /// Batches of faults of a fetch on demand: `ceil(bytes / (page * batch))`.
    pub fn batches(&self, bytes: Bytes) -> u64 {
        bytes.get().div_ceil(self.page.get().saturating_mul(self.batch))
    }

    /// What the handling of so many batches takes, 11 days at most.
    pub fn handling(&self, batches: u64) -> Span {
        Span::from_ps(self.cost.ps().saturating_mul(batches).min(1_000_000_000_000_000_000))
    }

    fn words(&self) -> String {
        format!("{} per {} pages of {}", self.cost, self.batch, self.page)
    }
}

/// Objects of the chain that are fetched ahead, unless a scenario says otherwise.
const OBJECTS: u64 = 64;

/// Parameters of `unified-memory` and `correlation-prefetch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnifiedMemoryConfig {
    /// How faults are handled.
    pub faults: Faults,
    /// What is fetched ahead; `None` for nothing.
    pub ahead: Option<Ahead>,
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
}

/// What correlation prefetch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// How many objects of the chain are looked at.
    pub objects: u64,
    /// Whether objects leave for those that are fetched ahead.
    pub pre_evict: bool,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "UnifiedMemory",
    about: "demand paging as a GPU's driver does it: batches of page faults, each with its cost",
    parameters: &[
        Faults::PARAMETERS[0],
        Faults::PARAMETERS[1],
        Faults::PARAMETERS[2],
        Parameter::optional("spill", Kind::HostTiers),
    ],
    make: |params| {
        let (faults, spill) = (Faults::of(params)?, params.tiers("spill"));
        Ok(UnifiedMemoryConfig { faults, ahead: None, spill }.into())
    },
};

/// How scenarios spell it with correlation prefetch.
pub const CORRELATION_PREFETCH: Entry = Entry {
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
        let objects = params.count("objects").unwrap_or(OBJECTS);
        let pre_evict = params.flag("pre_evict").unwrap_or(true);
        let (faults, ahead) = (Faults::of(params)?, Some(Ahead { objects, pre_evict }));
        Ok(UnifiedMemoryConfig { faults, ahead, spill: params.tiers("spill") }.into())
    },
};

impl Recipe for UnifiedMemoryConfig {
    fn name(&self) -> &'static str {
        self.ahead.map_or("unified-memory", |_| "correlation-prefetch")
    }

    fn details(&self) -> String {
        let faults = format!("faults {}", self.faults.words());
        let Some(Ahead { objects, pre_evict }) = self.ahead else { return faults };
        let evict = if pre_evict { "" } else { " into free room" };
        format!("{objects} objects ahead{evict}, {faults}")
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let recency = Recency::new(setting.workload.trace.objects.len());
        let (table, met) = (Table::default(), vec![0; setting.workload.trace.objects.len()]);
        Ok(Box::new(UnifiedMemory { config: self.clone(), recency, table, met }))
    }

    fn most_delay(&self, bytes: Bytes) -> Span {
        self.faults.handling(self.faults.batches(bytes))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(UnifiedMemoryConfig { spill, ..self.clone() }.into())
    }
}

/// Demand paging that pays for its faults, and may fetch ahead what came next before.
#[derive(Debug)]
struct UnifiedMemory {
    config: UnifiedMemoryConfig,
    recency: Recency,
    table: Table,
    /// By object: the last op, counted from 1, at which it was on the chain.
    met: Vec<u64>,
}

impl UnifiedMemory {
    /// Fetches ahead what is `expected`, in order, as long as there is room or can be.
    fn prefetch(&mut self, expected: &[ObjectId], step: &mut Step<'_>) {
        let pre_evict = self.config.ahead.is_some_and(|ahead| ahead.pre_evict);
        let now = step.view().occurrence() + 1;
        expected.iter().for_each(|object| self.met[object.index()] = now);
        // What this op creates is spoken for, and what the ops on the chain create.
        let born = step.missing();
        for &object in expected {
            if step.stays_in_hbm(object) {
                continue;
            }
            let need = born + step.bytes(object);
            while pre_evict && !step.has_free(HBM, need) {
                let is_other = |object: &ObjectId| self.met[object.index()] != now;
                let others = self.recency.oldest_first().filter(is_other);
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

/// Fetches what the op uses and HBM lacks, with the delay for its faults.
fn fetch(step: &mut Step<'_>, faults: &Faults) {
    step.fetch_missing();
    let fetched = |action: &Action| match *action {
        Action::Fetch { object, .. } => faults.batches(step.bytes(object)),
        _ => 0,
    };
    let batches = step.actions().iter().map(fetched).sum();
    if batches > 0 {
        step.delay(faults.handling(batches));
    }
}

impl Policy for UnifiedMemory {
    fn name(&self) -> &'static str {
        self.config.name()
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        outside(object, &self.config.spill, view)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        let objects = self.config.ahead.map_or(0, |ahead| ahead.objects);
        if objects > 0 {
            self.table.meet(view);
        }
        self.recency.forget_absent(view);
        view.uses().iter().for_each(|touched| self.recency.touch(touched.object));
        let mut expected = self.table.expected(objects as usize);
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
        // What is on the chain is marked anew at each op.
        remember!(out, self as UnifiedMemory { recency, table } skip { config, met });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_costs_a_batch_for_every_begun_stretch_of_pages() {
        let faults = Faults::default();
        let stretch = 4096 * 50;
        for (bytes, batches) in [(1, 1), (4096, 1), (stretch, 1), (stretch + 1, 2), (1 << 30, 5243)]
        {
            assert_eq!(faults.batches(Bytes::new(bytes)), batches, "{bytes} bytes");
        }
        assert_eq!(faults.handling(3), Span::from_us(135));
        // One batch of 512 pages of 4 KiB is as large as a page of 2 MiB.
        let huge = Faults { page: Bytes::mib(2), batch: 1, ..faults };
        let many = Faults { batch: 512, ..faults };
        for bytes in [1, 2 << 20, (2 << 20) + 1, 1 << 33] {
            assert_eq!(huge.batches(Bytes::new(bytes)), many.batches(Bytes::new(bytes)));
        }
    }
}
