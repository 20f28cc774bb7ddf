//! What there is to decide: inactive intervals that repeat from step to step are one decision.
//!
//! Where all steps of a trace are the same, an interval is decided for all of them, so that a plan
//! is one of a step and the search is as many times smaller.
//! Invariant: a decision keeps its order: it leaves no later than it comes back.

use crate::zoo::planned_migration::intervals::{Gaps, Interval};
use crate::zoo::planned_migration::plan::Stay;
use std::collections::BTreeMap;
use tiersim_models::ids::TierId;

/// How an interval is spent outside HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Away {
    pub(super) tier: TierId,
    /// Ops behind the last use at which it leaves,
    pub(super) leaves: u32,
    /// and at which its way back begins.
    pub(super) back: u32,
    /// It is used where it is.
    pub(super) in_place: bool,
}

/// Intervals that are one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    /// The object of the first step, and the op of the step that uses it next.
    pub(super) object: u32,
    pub(super) until: u32,
    /// Ops between the uses.
    pub(super) ops: u32,
    /// It is in HBM before, and it is used again.
    pub(super) evicts: bool,
    pub(super) fetches: bool,
}

impl Class {
    /// It is used no more, and its memory not given back yet.
    #[cfg(feature = "lp")]
    pub(super) fn is_held(&self) -> bool {
        !self.fetches
    }

    /// No op lies between the uses.
    #[cfg(feature = "lp")]
    pub(super) fn is_moment(&self) -> bool {
        self.fetches && self.ops == 0
    }
}

/// Decisions for a workload.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Ops of a step, or of all where these differ.
    cycle: u32,
    /// By row of the trace: the object of the first step that does the same.
    like: Vec<u32>,
    /// All of them, in order.
    pub(super) choices: BTreeMap<Class, Option<Away>>,
}

impl Found {
    #[cfg(feature = "lp")]
    /// Everything stays in HBM.
    pub(super) fn none(gaps: &Gaps, cycle: u32, like: Vec<u32>) -> Found {
        let mut found = Found { cycle, like, choices: BTreeMap::new() };
        let classes: Vec<Class> = gaps.all.iter().map(|one| found.class(one)).collect();
        found.choices = classes.into_iter().map(|class| (class, None)).collect();
        found
    }

    /// Ops of a step.
    #[cfg(feature = "lp")]
    pub(super) fn cycle(&self) -> u32 {
        self.cycle
    }

    fn class(&self, interval: &Interval) -> Class {
        let Interval { object, from, until, evicts, fetches, .. } = *interval;
        let object = self.like[object];
        let until_op = (until % self.cycle as usize) as u32;
        Class { object, until: until_op, ops: (until - from) as u32, evicts, fetches }
    }

    #[cfg(feature = "lp")]
    /// The decisions that these stays come to.
    pub(super) fn of(mut self, gaps: &Gaps, stays: &[Option<Stay>]) -> Found {
        for (interval, stay) in gaps.all.iter().zip(stays) {
            let away = stay.map(|stay| Away {
                tier: stay.tier,
                leaves: (stay.leave_at - interval.from) as u32,
                back: (stay.back_at - interval.from) as u32,
                in_place: stay.in_place,
            });
            self.choices.insert(self.class(interval), away);
        }
        self
    }

    /// By interval: its stay outside, if it has one.
    pub(super) fn stays(&self, gaps: &Gaps) -> Vec<Option<Stay>> {
        let stay = |interval: &Interval| {
            let Away { tier, leaves, back, in_place } =
                (*self.choices.get(&self.class(interval))?)?;
            // What leaves and comes back at once does nothing but wait.
            let moment = interval.from == interval.until;
            if moment && interval.evicts && !in_place {
                return None;
            }
            let at = |ops: u32| (interval.from + ops as usize).min(interval.until);
            // The op that uses it next has it somewhere already.
            let last = interval.until.saturating_sub(1).max(interval.from);
            let (leave_at, back_at) = (at(leaves).min(last), at(back.max(leaves)));
            Some(Stay { tier, leave_at, out_from: leave_at, back_at, in_place })
        };
        gaps.all.iter().map(stay).collect()
    }
}
