//! Stays turned into what is done before each op of the trace.

use super::intervals::Gaps;
use super::plan::Stay;
use tiersim_models::ids::{ObjectId, TierId};

/// What is done before each op, by op of the trace.
#[derive(Clone, Debug)]
pub(in crate::zoo) struct Schedule {
    /// What leaves, and where to.
    pub(super) evict: Vec<Vec<(ObjectId, TierId)>>,
    /// What is written back and stays in HBM until it is evicted.
    pub(super) save: Vec<Vec<(ObjectId, TierId)>>,
    /// What comes back, that which is needed first before others.
    pub(super) back: Vec<Vec<ObjectId>>,
    /// What the op uses where it is, if that is outside.
    pub(super) in_place: Vec<Vec<ObjectId>>,
    /// By object: where what exists from the start is then; `None` for HBM.
    pub(super) outside: Vec<Option<TierId>>,
}

impl Schedule {
    /// From a stay, or none, for each interval.
    pub(in crate::zoo) fn new(gaps: &Gaps, stays: &[Option<Stay>], spill: &[TierId]) -> Schedule {
        let ops = gaps.ops;
        let mut schedule = Schedule {
            evict: vec![Vec::new(); ops],
            save: vec![Vec::new(); ops],
            back: vec![Vec::new(); ops],
            in_place: vec![Vec::new(); ops],
            outside: vec![None; gaps.lives.len()],
        };
        schedule.carry(gaps, stays);
        schedule.write_back(gaps, stays);
        // What no op uses has no business in HBM.
        for (life, outside) in gaps.lives.iter().zip(&mut schedule.outside) {
            if life.uses.is_empty() {
                *outside = spill.first().copied();
            }
        }
        schedule
    }

    fn carry(&mut self, gaps: &Gaps, stays: &[Option<Stay>]) {
        let ops = gaps.ops;
        let mut back = Vec::new();
        for (interval, stay) in gaps.all.iter().zip(stays) {
            let Some(stay) = stay else { continue };
            let object = ObjectId::at(interval.object);
            if interval.evicts {
                self.evict[stay.leave_at % ops].push((object, stay.tier));
            }
            match (interval.fetches, stay.in_place) {
                (true, true) => self.in_place[interval.until % ops].push(object),
                (true, false) => {
                    back.push((interval.until - stay.back_at, stay.back_at % ops, object));
                }
                (false, _) => {}
            }
            // Whether it is outside when a replay begins.
            let begins = interval.from.div_ceil(ops) * ops;
            let away = stay.in_place || stay.back_at >= begins;
            if !interval.evicts || (interval.until > begins && away) {
                self.outside[interval.object] = Some(stay.tier);
            }
        }
        back.sort_unstable();
        for (_, op, object) in back {
            self.back[op].push(object);
        }
    }

    fn write_back(&mut self, gaps: &Gaps, stays: &[Option<Stay>]) {
        let all = &gaps.all;
        for version in &gaps.versions {
            let mut stayed = (version.first..version.last).filter(|&at| stays[at].is_some());
            // Several versions may lie between; each is asked for its own intervals only.
            let own = |at: &usize| all[*at].from >= version.from && all[*at].evicts;
            if let Some(at) = stayed.find(own).filter(|&at| all[at].from > version.from)
                && let Some(stay) = stays[at]
            {
                let object = ObjectId::at(all[at].object);
                self.save[version.from % gaps.ops].push((object, stay.tier));
            }
        }
    }
}
