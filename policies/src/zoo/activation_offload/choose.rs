//! What becomes of each layer's activations, such that the step takes least time.
//!
//! The cost of a choice is the time of the whole plan as rehearsed: what runs again takes the time
//! of its ops, copies cost what of them hides under no op, and layers share one link. Where few
//! layers choose, all choices are tried. Otherwise the search descends from three starts (keep all,
//! offload all, recompute all, the shortest first): it changes runs of neighbours, long ones before
//! short ones, then any two layers, and takes what shortens the plan, until nothing does or its
//! budget is spent.
//! Invariant: the result is never longer, as rehearsed, than any of the three starts.

use super::layers::Layers;
use super::offload::ActivationOffload;
use super::rehearsal::{REPLAYS, time};
use super::rewrite::rewritten;
use crate::recipe::{Rewrite, Setting};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::routes::Routes;
use tiersim_models::units::Span;

/// What becomes of a layer's activations between forward and backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Treatment {
    /// They stay in HBM, unless paging takes them out.
    Keep,
    /// They are copied out and back.
    Offload,
    /// They are dropped and made again.
    Recompute,
}

/// About so many uses are rehearsed in all; at the least the three starts are.
const MOST_USES: u64 = 3 << 20;

/// The search for the best treatments.
pub(super) struct Search<'a> {
    setting: &'a Setting<'a>,
    layers: &'a Layers,
    spill: &'a [TierId],
    prefetch_ops: u64,
    routes: Routes,
    /// Layers with something to choose for.
    choosers: Vec<usize>,
    /// What may be chosen.
    treatments: &'a [Treatment],
    /// What was rehearsed.
    known: BTreeMap<Vec<Treatment>, Option<u64>>,
    left: u64,
}

impl<'a> Search<'a> {
    /// Errors in words if tiers are not joined.
    pub(super) fn new(
        setting: &'a Setting<'a>,
        layers: &'a Layers,
        (spill, prefetch_ops): (&'a [TierId], u64),
        treatments: &'a [Treatment],
    ) -> Result<Search<'a>, String> {
        let routes = setting.hardware.routes().map_err(|none| none.to_string())?;
        let (choosers, known, left) = (layers.choosers(), BTreeMap::new(), MOST_USES);
        Ok(Search {
            setting,
            layers,
            spill,
            prefetch_ops,
            routes,
            choosers,
            treatments,
            known,
            left,
        })
    }

    /// By layer with something to choose for: the best that was found.
    pub(super) fn best(&mut self) -> Result<Vec<Treatment>, String> {
        let count = self.choosers.len();
        let mut best = vec![Treatment::Keep; count];
        if count == 0 {
            return Ok(best);
        }
        let all =
            u32::try_from(count).ok().and_then(|count| self.treatments.len().checked_pow(count));
        let few = |&all: &usize| all as u64 <= MOST_USES / self.uses().max(1);
        let Some(all) = all.filter(few) else { return self.descent() };
        for number in 0..all {
            let choice = self.numbered(number);
            self.improve(&mut best, choice)?;
        }
        Ok(best)
    }

    /// Uses that are planned to rehearse one choice.
    fn uses(&self) -> u64 {
        let uses = self.setting.workload.trace.uses.len() as u64;
        uses * u64::from(self.setting.repeat.clamp(1, REPLAYS))
    }

    /// The best that is found from the three starts.
    pub(super) fn descent(&mut self) -> Result<Vec<Treatment>, String> {
        let count = self.choosers.len();
        let mut best = vec![Treatment::Keep; count];
        // The most promising start first: the budget may end before the last.
        let mut starts = Vec::new();
        for &treatment in self.treatments {
            starts.push((self.cost(&vec![treatment; count])?.unwrap_or(u64::MAX), treatment));
        }
        starts.sort_unstable();
        for (_, treatment) in starts {
            let mut found = vec![treatment; count];
            while self.descend(&mut found)? || self.descend_by_two(&mut found)? {}
            self.improve(&mut best, found)?;
        }
        Ok(best)
    }

    fn numbered(&self, mut number: usize) -> Vec<Treatment> {
        let treatments = self.treatments.len();
        let digits = (0..self.choosers.len()).map(|_| {
            let treatment = self.treatments[number % treatments];
            number /= treatments;
            treatment
        });
        digits.collect()
    }

    /// One round over runs of layers, from long ones to single layers, each from the last to the
    /// first; whether anything was shortened.
    fn descend(&mut self, found: &mut Vec<Treatment>) -> Result<bool, String> {
        let mut better = false;
        let count = found.len();
        let mut length = count.next_power_of_two();
        while length > 0 {
            for last in (1..=count).rev().step_by(length) {
                for &treatment in self.treatments {
                    let mut choice = found.clone();
                    choice[last.saturating_sub(length)..last].fill(treatment);
                    better |= self.improve(found, choice)?;
                }
            }
            length /= 2;
        }
        Ok(better)
    }

    /// One round over pairs of layers, each with a treatment of its own; whether anything was
    /// shortened.
    fn descend_by_two(&mut self, found: &mut Vec<Treatment>) -> Result<bool, String> {
        let mut better = false;
        for one in (0..found.len()).rev() {
            for other in 0..one {
                for treatment in self
                    .treatments
                    .iter()
                    .flat_map(|&a| self.treatments.iter().map(move |&b| [a, b]))
                {
                    let mut choice = found.clone();
                    [choice[one], choice[other]] = treatment;
                    better |= self.improve(found, choice)?;
                }
            }
        }
        Ok(better)
    }

    /// Takes a choice that is better; whether it is.
    fn improve(
        &mut self,
        best: &mut Vec<Treatment>,
        choice: Vec<Treatment>,
    ) -> Result<bool, String> {
        let (is, was) = (self.cost(&choice)?, self.cost(best)?);
        let better = is.is_some_and(|is| was.is_none_or(|was| is < was));
        if better {
            *best = choice;
        }
        Ok(better)
    }

    /// Picoseconds as rehearsed; `None` if it does not fit, or there is no time left to find out.
    pub(super) fn cost(&mut self, choice: &[Treatment]) -> Result<Option<u64>, String> {
        if let Some(&known) = self.known.get(choice) {
            return Ok(known);
        }
        let cost = self.uses();
        let is_start = choice.windows(2).all(|pair| pair[0] == pair[1]);
        if self.left < cost && !is_start {
            return Ok(None);
        }
        self.left = self.left.saturating_sub(cost);
        let made = Made::of(self.setting, self.layers, &self.choosers, choice)?;
        let setting = self.setting;
        let policy = |setting: &Setting<'_>, layers: &Layers| {
            let how = (self.spill, self.prefetch_ops);
            let policy = ActivationOffload::new(setting, layers, &made.offloaded, how);
            time(setting, &self.routes, Box::new(policy))
        };
        let found = match &made.rewrite {
            None => policy(setting, self.layers),
            Some(Rewrite { workload, source, .. }) => {
                let spans: Vec<Span> = source.iter().map(|op| setting.spans[op.index()]).collect();
                let own = Setting { workload, spans: &spans, ..*setting };
                policy(&own, &Layers::of(&workload.trace, false))
            }
        };
        self.known.insert(choice.to_vec(), found);
        Ok(found)
    }
}

/// What a choice makes of a workload.
pub(super) struct Made {
    pub(super) rewrite: Option<Rewrite>,
    /// The same objects before and after the rewrite.
    pub(super) offloaded: BTreeSet<ObjectId>,
}

impl Made {
    /// Of treatments by layer with something to choose for.
    pub(super) fn of(
        setting: &Setting<'_>,
        layers: &Layers,
        choosers: &[usize],
        choice: &[Treatment],
    ) -> Result<Made, String> {
        let mut treatments = vec![Treatment::Keep; layers.names.len()];
        for (&layer, &treatment) in choosers.iter().zip(choice) {
            treatments[layer] = treatment;
        }
        let recomputed: Vec<bool> =
            treatments.iter().map(|&treatment| treatment == Treatment::Recompute).collect();
        let rewrite = rewritten(setting.workload, layers, &recomputed)?;
        let offloaded = layers.waiting.iter().filter(|w| treatments[w.layer] == Treatment::Offload);
        Ok(Made { rewrite, offloaded: offloaded.map(|waiting| waiting.object).collect() })
    }
}
