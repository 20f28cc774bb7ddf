//! State moved by layer: hooks on demand, look-ahead by layers, and double buffering.
//!
//! A layer's state comes before the layer runs and leaves after it; unchanged state is
//! dropped. *Layer hooks* fetch it when the layer starts, so that nothing overlaps. *Look-ahead*
//! fetches that of the next k layers too, while free room lasts. *Double buffering* is one layer
//! ahead, with room kept for both: while layer i computes, i + 1 arrives and i - 1 leaves, and what
//! else is in HBM makes way. All other objects are paged on demand by recency.
//! Sources: Hugging Face accelerate (`AlignDevicesHook`); ZeRO-Infinity (Rajbhandari et al.,
//! SC 2021).
//! Invariant: nothing leaves after its layer that has no room outside already, so moving by layer
//! takes no room outside that paging does not take; and a fetch ahead never keeps an op from what
//! it needs.

mod passes;

use crate::entry::{Entry, Kind, Parameter};
use crate::paging::{Recency, evict, evict_one, free_up, make_room, outside, prefetch_again};
use crate::policy::{Action, Lookahead, Policy};
use crate::recipe::{PolicyConfig, Recipe, Setting};
use crate::state::{State, remember};
use crate::step::Step;
use crate::view::View;
use passes::Passes;
use std::collections::VecDeque;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Trace};

/// When a layer's state comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// When the layer starts.
    Hooks,
    /// So many layers ahead, into free room.
    LookAhead(u64),
    /// One layer ahead, into room that is made.
    DoubleBuffering,
}

impl Arrival {
    const fn name(self) -> &'static str {
        match self {
            Arrival::Hooks => "layer-hooks",
            Arrival::LookAhead(_) => "look-ahead",
            Arrival::DoubleBuffering => "double-buffering",
        }
    }

    const fn layers(self) -> u64 {
        match self {
            Arrival::Hooks => 0,
            Arrival::LookAhead(layers) => layers,
            Arrival::DoubleBuffering => 1,
        }
    }
}

/// Parameters of `layer-hooks`, `look-ahead` and `double-buffering`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayersConfig {
    /// When a layer's state comes.
    pub arrival: Arrival,
    /// Kinds of objects that are moved by layer.
    pub kinds: Vec<ObjectKind>,
    /// Where objects live that are not in HBM: the first of these with room.
    pub spill: Vec<TierId>,
}

const KINDS: Parameter = Parameter::optional("kinds", Kind::Kinds);
const SPILL: Parameter = Parameter::optional("spill", Kind::Spill);

/// How scenarios spell the hooks.
pub const HOOKS: Entry = Entry {
    spelling: "LayerHooks",
    about: "a layer's state is moved in when the layer starts and out when it has ended",
    parameters: &[KINDS, Parameter::optional("spill", Kind::HostTiers)],
    make: |params| {
        let (kinds, spill) = (params.kinds("kinds"), params.tiers("spill"));
        Ok(LayersConfig { arrival: Arrival::Hooks, kinds, spill }.into())
    },
};

/// How scenarios spell the look-ahead.
pub const LOOK_AHEAD: Entry = Entry {
    spelling: "LookAhead",
    about: "the state of the next layers is fetched ahead, into free room",
    parameters: &[
        Parameter::optional("layers", Kind::Count { least: 1, most: 1024 }),
        KINDS,
        SPILL,
    ],
    make: |params| {
        let arrival = Arrival::LookAhead(params.count("layers").unwrap_or(1));
        let (kinds, spill) = (params.kinds("kinds"), params.tiers("spill"));
        Ok(LayersConfig { arrival, kinds, spill }.into())
    },
};

/// How scenarios spell double buffering.
pub const DOUBLE_BUFFERING: Entry = Entry {
    spelling: "DoubleBuffering",
    about: "while a layer computes, the next one arrives and the one before leaves",
    parameters: &[KINDS, SPILL],
    make: |params| {
        let (kinds, spill) = (params.kinds("kinds"), params.tiers("spill"));
        Ok(LayersConfig { arrival: Arrival::DoubleBuffering, kinds, spill }.into())
    },
};

impl Recipe for LayersConfig {
    fn name(&self) -> &'static str {
        self.arrival.name()
    }

    fn has_homes_outside(&self) -> bool {
        true
    }

    fn details(&self) -> String {
        match self.arrival {
            Arrival::Hooks => "layer by layer".to_owned(),
            Arrival::LookAhead(layers) => format!("layer by layer, {layers} ahead"),
            Arrival::DoubleBuffering => "layer by layer, two buffers".to_owned(),
        }
    }

    fn knows_times(&self) -> bool {
        false
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(Layers::new(self, setting)))
    }

    fn spill(&self) -> Option<&[TierId]> {
        Some(&self.spill)
    }

    fn with_spill(&self, spill: Vec<TierId>) -> Option<PolicyConfig> {
        Some(LayersConfig { spill, ..self.clone() }.into())
    }
}

/// Moves state by layer.
#[derive(Debug)]
pub struct Layers {
    arrival: Arrival,
    spill: Vec<TierId>,
    passes: Passes,
    /// By object: whether it is moved by layer.
    moved: Vec<bool>,
    /// By object: the last op of the last pass within the lookahead that uses it.
    needed_until: Vec<u64>,
    /// The first pass that is not within the lookahead.
    unseen: u64,
    /// What the passes within the lookahead use and is not fetched yet: the pass's first op, the
    /// object.
    wanted: VecDeque<(u64, ObjectId)>,
    /// Objects moved by layer that are in HBM.
    prefetched: Vec<ObjectId>,
    /// All others.
    recency: Recency,
}

impl Layers {
    /// For the passes of a workload.
    pub fn new(config: &LayersConfig, setting: &Setting<'_>) -> Layers {
        let trace: &Trace = &setting.workload.trace;
        let moved = trace.objects.iter().map(|object| config.kinds.contains(&object.kind));
        Layers {
            arrival: config.arrival,
            spill: config.spill.clone(),
            passes: Passes::new(setting.workload, &config.kinds, setting.repeat),
            moved: moved.collect(),
            needed_until: vec![0; trace.objects.len()],
            unseen: 0,
            wanted: VecDeque::new(),
            prefetched: Vec::new(),
            recency: Recency::new(trace.objects.len()),
        }
    }

    /// Passes come into the lookahead.
    fn look_ahead(&mut self, now: u64) {
        let lookahead = self.passes.at(now).saturating_add(self.arrival.layers());
        while self.unseen <= lookahead {
            let Some((pass, first, last)) = self.passes.get(self.unseen) else { break };
            for &object in &pass.objects {
                let until = &mut self.needed_until[object.index()];
                *until = (*until).max(last);
                self.wanted.push_back((first, object));
            }
            self.unseen += 1;
        }
    }

    /// What no pass within the lookahead uses leaves, if it has room outside.
    fn leave(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let Layers { spill, needed_until, recency, .. } = self;
        self.prefetched.retain(|&object| {
            if !view.is_allocated(object, HBM) {
                return false;
            }
            if needed_until[object.index()] >= view.occurrence() {
                return true;
            }
            if !(view.is_outside(object) && evict(step, object, spill)) {
                // From now on it is paged like any other.
                recency.touch(object);
            }
            false
        });
    }

    /// Makes room for the op itself. Who goes first: others under double buffering, which keeps
    /// room for layers, and layers that are ahead otherwise.
    fn room_for_op(&mut self, step: &mut Step<'_>) {
        let need = step.missing();
        // Needed last, goes first.
        let mut ahead = self.prefetched.clone();
        ahead.sort_by_key(|&object| std::cmp::Reverse((self.needed_until[object.index()], object)));
        if self.arrival != Arrival::DoubleBuffering {
            while !step.has_free(HBM, need) {
                let ahead = ahead.iter().copied();
                let Some(gone) = evict_one(step, ahead, &self.spill) else { break };
                self.prefetched.retain(|&object| object != gone);
            }
        }
        free_up(step, need, &mut self.recency, &ahead, &self.spill);
        self.prefetched.retain(|&object| step.stays_in_hbm(object));
    }

    /// Notes what the op brings to HBM.
    fn note(&mut self, object: ObjectId, view: &View<'_>) {
        if !self.moved[object.index()] || self.needed_until[object.index()] < view.occurrence() {
            return self.recency.touch(object);
        }
        self.recency.remove(object);
        if !self.prefetched.contains(&object) {
            self.prefetched.push(object);
        }
    }

    /// Fetches what the passes within the lookahead use, in order.
    fn fetch_ahead(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        let now = view.occurrence();
        // What the op creates.
        let born = step.missing();
        while let Some(&(first, object)) = self.wanted.front() {
            let pointless = !view.exists(object)
                || step.stays_in_hbm(object)
                || step.is_used(object)
                || self.needed_until[object.index()] < now;
            if !pointless {
                let bytes = view.object(object).bytes;
                let mut need = born + bytes;
                if self.arrival == Arrival::DoubleBuffering {
                    while !step.has_free(HBM, need) {
                        let oldest = self.recency.oldest_first();
                        let Some(gone) = evict_one(step, oldest, &self.spill) else { break };
                        self.recency.remove(gone);
                    }
                } else {
                    let births = self.passes.births(now, first.max(now + 1));
                    need = Bytes::new(need.get().saturating_add(births.get()));
                }
                if !step.has_free(HBM, need) {
                    break;
                }
                prefetch_again(step, object);
                self.recency.remove(object);
                self.prefetched.push(object);
            }
            self.wanted.pop_front();
        }
    }
}

impl Policy for Layers {
    fn name(&self) -> &'static str {
        self.arrival.name()
    }

    /// As many ops as the passes that it knows of last: a framework that has recorded the order of
    /// its layers knows as much.
    fn lookahead(&self) -> Lookahead {
        match self.passes.window(self.arrival.layers()) {
            0 => Lookahead::Past,
            ops => Lookahead::Window(ops),
        }
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        outside(object, &self.spill, view)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = &step.view();
        self.look_ahead(view.occurrence());
        self.recency.forget_absent(view);
        self.leave(step);
        self.room_for_op(step);
        view.uses().iter().for_each(|touched| self.note(touched.object, view));
        step.fetch_missing();
        if step.has_free(HBM, step.missing()) {
            self.fetch_ahead(step);
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        Some(outside(object, &self.spill, view))
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let made = make_room(&mut self.recency, tier, &self.spill, view);
        if made.is_some() || tier != HBM {
            return made;
        }
        let mut step = Step::new(view);
        self.prefetched.sort_by_key(|&object| (self.needed_until[object.index()], object));
        let last = self.prefetched.iter().rev().copied();
        let gone = evict_one(&mut step, last, &self.spill)?;
        self.prefetched.retain(|&object| object != gone);
        step.actions().first().copied()
    }

    fn state(&self, view: &View<'_>, out: &mut State) -> bool {
        out.looks_ahead(self.passes.window(self.arrival.layers()).into());
        out.word(self.unseen.wrapping_sub(self.passes.at(view.occurrence())));
        remember!(out, self as Layers {
            needed_until: op_from_1, wanted: of_op, prefetched, recency
        } skip { arrival, spill, passes, moved, unseen });
        true
    }

    fn leave_out(&mut self, replays: u64) {
        self.passes.leave_out(replays);
    }
}
