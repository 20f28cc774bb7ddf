//! Plans of runs that decide the same, each made once.
//!
//! A policy has no clock: where it knows no times, runs on machines that differ in rates and
//! set-ups alone have one plan ([`Recording`]). The first of such runs plans for itself, and a plan
//! is kept from the second one on, so what never comes again costs nothing.
//! Invariant: a run has the same figures with a plan of its own, to the last bit.

use crate::machine::plain::Digests;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use tiersim_models::hardware::Memory;
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::CopyTimes;
use tiersim_policies::planner::Planner;
use tiersim_policies::planner::again::Recording;
use tiersim_policies::policy::Policy;
use tiersim_policies::recorded::{MOST_COMMANDS, Replays};

/// Plans that are kept, and what runs have asked for.
#[derive(Default)]
pub(super) struct Plans<'w> {
    kept: Mutex<Kept<'w>>,
    digests: Arc<Digests>,
}

/// The plans of one workload.
pub(super) struct PlansOf<'w> {
    pub(super) plans: Arc<Plans<'w>>,
    pub(super) workload: &'w Workload,
}

/// What a plan is made from beside its workload.
pub(super) struct Start {
    pub(super) policy: Box<dyn Policy>,
    pub(super) memory: Memory,
    pub(super) repeat: u32,
    pub(super) copies: CopyTimes,
}

/// What a run asks of the plans of its workload, which may live for longer.
pub(super) trait Shared: Send + Sync {
    /// The plan of a run that decides what `key` says, which is made from `start`; `None` if the
    /// run plans for itself.
    fn plan(
        &self,
        key: String,
        start: &mut dyn FnMut() -> Option<Start>,
    ) -> Option<Arc<dyn Replays + '_>>;

    /// What plain machines make of plans.
    fn digests(&self) -> Arc<Digests>;
}

impl Shared for PlansOf<'_> {
    fn plan(
        &self,
        key: String,
        start: &mut dyn FnMut() -> Option<Start>,
    ) -> Option<Arc<dyn Replays + '_>> {
        let plan = self.plans.of(key, || {
            let Start { policy, memory, repeat, copies } = start()?;
            // What does not even begin is told by a run of its own.
            let mut planner = Planner::new(self.workload, policy, &memory, repeat).ok()?;
            planner.fetch_the_quickest(copies);
            Some(Recording::new(planner))
        })?;
        Some(plan)
    }

    fn digests(&self) -> Arc<Digests> {
        self.plans.digests.clone()
    }
}

#[derive(Default)]
struct Kept<'w> {
    /// Hashes of what was asked for: of what is not among them nothing is kept yet.
    asked: BTreeSet<u64>,
    plans: BTreeMap<String, Arc<Recording<'w>>>,
}

impl<'w> Plans<'w> {
    fn of(
        &self,
        key: String,
        make: impl FnOnce() -> Option<Recording<'w>>,
    ) -> Option<Arc<Recording<'w>>> {
        let mut hash = DefaultHasher::new();
        key.hash(&mut hash);
        let mut kept = self.kept.lock().expect("a policy that panics ends the run");
        if kept.asked.insert(hash.finish()) {
            return None;
        }
        if let Some(plan) = kept.plans.get(&key) {
            return Some(plan.clone()).filter(|plan| !plan.is_too_long());
        }
        if kept.plans.values().map(|plan| plan.commands()).sum::<usize>() > MOST_COMMANDS {
            // What others carry out stays theirs.
            kept.plans.clear();
            self.digests.clear();
        }
        let plan = Arc::new(make()?);
        kept.plans.insert(key, plan.clone());
        Some(plan)
    }
}
