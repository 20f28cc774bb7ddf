//! Hot and cold: promotion and demotion from observed accesses, as page-tiering kernels do it.
//!
//! A cold object is used where it is, in the slower tier, and every use pays for its bytes. An
//! object that was used at least `hot` times within the last `window` ops is promoted to HBM behind
//! the op that made it hot, while more than the `low` share of HBM stays free. When less than that
//! is free, objects that nobody used for `idle` ops are demoted, the one used longest ago first,
//! until the `high` share is free. An object is in one tier at a time: what it was promoted from is
//! given up.
//! Sources: TPP (Maruf et al., ASPLOS 2023: watermarks, and promotion of what is used again);
//! Memtis (Lee et al., SOSP 2023: hotness from counted accesses that cool down).
//! Invariant: nothing hot is demoted for something else that is hot, so that two objects at the
//! threshold never take each other's place.

use crate::entry::{Entry, Fault, Kind, Parameter};
use crate::paging::{Recency, evict_one, free_up, home, make_room, outside};
use crate::policy::{Action, Policy};
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use std::collections::VecDeque;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;

/// Parameters of `hot-cold`.
#[derive(Clone, Debug, PartialEq)]
pub struct HotColdConfig {
    /// Uses within the window that make an object hot.
    pub hot: u64,
    /// Ops over which uses are counted: what is older has cooled down.
    pub window: u64,
    /// Ops without a use before an object may be demoted; no fewer than the window.
    pub idle: u64,
    /// Share of HBM below which free memory is made by demotion.
    pub low: f64,
    /// Share of HBM up to which it is made.
    pub high: f64,
    /// The slower tiers: the first of these with room.
    pub spill: Vec<TierId>,
}

/// How scenarios spell it.
pub const ENTRY: Entry = Entry {
    spelling: "HotCold",
    about: "hot objects are promoted, idle ones demoted, cold ones used where they are",
    parameters: &[
        Parameter::optional("hot", Kind::Count { least: 1, most: 64 }),
        Parameter::optional("window", Kind::Count { least: 1, most: 1 << 32 }),
        Parameter::optional("idle", Kind::Count { least: 1, most: 1 << 32 }),
        Parameter::optional("low", Kind::Number { least: 0.0, most: 1.0 }),
        Parameter::optional("high", Kind::Number { least: 0.0, most: 1.0 }),
        Parameter::optional("spill", Kind::Spill),
    ],
    make: |params| {
        let window = params.count("window").unwrap_or(256);
        let idle = params.count("idle").unwrap_or(window);
        if idle < window {
            return Err(Fault {
                parameter: "idle",
                rule: format!("an object is idle after {idle} ops, but hot for up to {window}"),
                remedy: "write no fewer ops than in `window`".to_owned(),
            });
        }
        let low = params.number("low").unwrap_or(0.02);
        let high = params.number("high").unwrap_or(low.max(0.05));
        if high < low {
            return Err(Fault {
                parameter: "high",
                rule: format!("demotion stops at {high} free and starts at {low}"),
                remedy: "write no less than in `low`".to_owned(),
            });
        }
        let (hot, spill) = (params.count("hot").unwrap_or(2), params.tiers("spill"));
        Ok(HotColdConfig { hot, window, idle, low, high, spill }.into())
    },
};

impl Recipe for HotColdConfig {
    fn name(&self) -> &'static str {
        "hot-cold"
    }

    fn details(&self) -> String {
        let HotColdConfig { hot, window, idle, low, high, .. } = self;
        format!("hot at {hot} uses in {window} ops, idle after {idle}, {low} to {high} free")
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let objects = setting.workload.trace.objects.len();
        Ok(Box::new(HotCold {
            config: self.clone(),
            used: vec![VecDeque::new(); objects],
            recency: Recency::new(objects),
            promising: Vec::new(),
            promoted: Vec::new(),
            born_slow: Vec::new(),
        }))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(HotColdConfig { spill, ..self.clone() }.into())
    }
}

/// Promotes and demotes.
#[derive(Debug)]
struct HotCold {
    config: HotColdConfig,
    /// By object: its last ops, the oldest first, `hot` at most.
    used: Vec<VecDeque<u64>>,
    recency: Recency,
    /// Objects that have become hot where they are slow.
    promising: Vec<ObjectId>,
    /// Objects that were promoted, with where they came from.
    promoted: Vec<(ObjectId, TierId)>,
    /// Objects that the next op creates in a slower tier.
    born_slow: Vec<(ObjectId, TierId)>,
}

impl HotCold {
    fn share(&self, share: f64, view: &View<'_>) -> Bytes {
        // Without limit nothing has to be kept free.
        let limit = view.capacity(HBM).limit().unwrap_or_default();
        Bytes::new((limit.get() as f64 * share) as u64)
    }

    fn is_idle(&self, object: ObjectId, now: u64) -> bool {
        let last = self.used[object.index()].back();
        last.is_none_or(|last| now - last > self.config.idle)
    }

    /// Counts the uses of this op; what has become hot by them is promoted behind it.
    fn count(&mut self, view: &View<'_>) {
        let now = view.occurrence();
        for touched in view.uses() {
            let object = touched.object;
            self.recency.touch(object);
            let used = &mut self.used[object.index()];
            if !view.exists(object) {
                used.clear(); // a new life
            }
            if used.len() as u64 == self.config.hot {
                used.pop_front();
            }
            used.push_back(now);
            let oldest = used.front().copied().unwrap_or(now);
            let hot = used.len() as u64 == self.config.hot && now - oldest < self.config.window;
            if hot && !view.in_hbm(object) && !self.promising.contains(&object) {
                self.promising.push(object);
            }
        }
    }

    /// Demotes what is idle until so much is free.
    fn demote(&mut self, step: &mut Step<'_>, free: Bytes) {
        let now = step.view().occurrence();
        while !step.has_free(HBM, free) {
            let idle = self.recency.oldest_first().take_while(|&object| self.is_idle(object, now));
            let Some(gone) = evict_one(step, idle, &self.config.spill) else { break };
            self.recency.remove(gone);
        }
    }

    /// What ops before this one have made hot comes to HBM, if that leaves enough free.
    fn promote(&mut self, step: &mut Step<'_>, born: Bytes) {
        let view = step.view();
        let kept = born + self.share(self.config.low, &view);
        for object in std::mem::take(&mut self.promising) {
            let Some(from) = view.nearest(object).filter(|&tier| tier != HBM) else { continue };
            let used = step.is_used(object);
            // In memory that lies in pieces nobody can promise this op that it will find it there.
            if used && !view.is_exact(HBM) {
                self.promising.push(object);
                continue;
            }
            let need = kept + step.bytes(object);
            self.demote(step, need);
            if !step.has_free(HBM, need) {
                continue;
            }
            match used {
                true => step.fetch(object, HBM),
                false => step.prefetch(object, HBM),
            }
            self.promoted.push((object, from));
            self.recency.touch(object);
        }
    }

    /// Decides where the op's new objects go; returns the bytes of those that HBM takes.
    fn bear(&mut self, step: &mut Step<'_>) -> Bytes {
        let view = step.view();
        self.born_slow.clear();
        let mut born = Bytes::ZERO;
        let new = view.uses().iter().filter(|touched| !view.exists(touched.object));
        for object in new.map(|touched| touched.object) {
            let need = born + view.object(object).bytes;
            if !step.has_free(HBM, need)
                && let Some(tier) = home(step, object, &self.config.spill)
            {
                step.expect(object, tier);
                self.born_slow.push((object, tier));
                continue;
            }
            // With no room in slower tiers either, something has to go.
            free_up(step, need, &mut self.recency, &[], &self.config.spill);
            born = need;
        }
        born
    }

    /// Uses what is slow, or will be born so, where it is.
    fn use_slow(&self, step: &mut Step<'_>) {
        for touched in step.uses() {
            let object = touched.object;
            if let Some(tier) = step.nearest(object).filter(|&tier| tier != HBM) {
                let bytes = touched.charged(step.bytes(object));
                step.take_first(Action::InPlace { object });
                step.take_first(Action::Charge { tier, bytes });
            }
        }
    }

    /// Copies that promotions have left behind are given up.
    fn give_up_copies(&mut self, step: &mut Step<'_>) {
        for (object, tier) in self.promoted.drain(..) {
            if step.in_hbm(object) && step.is_allocated(object, tier) {
                step.take_first(Action::Drop { object, tier });
            }
        }
    }
}

impl Policy for HotCold {
    fn name(&self) -> &'static str {
        "hot-cold"
    }

    /// In HBM up to the high watermark, as long as a program fills its memory.
    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let left = view.free(HBM).checked_sub(self.share(self.config.high, view));
        let bytes = view.object(object).bytes;
        let near = left.is_some_and(|left| left >= bytes) && view.fits(HBM, bytes);
        let slow = home(&Step::new(view), object, &self.config.spill);
        match slow.filter(|_| !near) {
            Some(tier) => tier,
            None => {
                self.recency.touch(object);
                HBM
            }
        }
    }

    fn allocate_in(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        let slow = self.born_slow.iter().find(|(born, _)| *born == object);
        slow.map_or(HBM, |&(_, tier)| tier)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        self.recency.forget_absent(view);
        self.give_up_copies(step);
        let need = step.born();
        if !step.has_free(HBM, need + self.share(self.config.low, view)) {
            self.demote(step, need + self.share(self.config.high, view));
        }
        let born = self.bear(step);
        self.promote(step, born);
        self.use_slow(step);
        self.count(view);
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(outside(object, &self.config.spill, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        make_room(&mut self.recency, tier, &self.config.spill, view)
    }

    fn state(&self, _: &View<'_>, out: &mut State) -> bool {
        // A use that is older makes nothing hot and keeps nothing from being idle.
        let most = self.config.window.max(self.config.idle);
        for used in &self.used {
            out.list(used, |out, &at| out.recent_op(at, most));
        }
        remember!(out, self as HotCold { recency, promising, promoted, born_slow }
            skip { config, used });
        true
    }
}
