//! The order of leaving: lowest score first.
//!
//! Ages are counted in uses of objects, of which no two happen at once, and are taken at the start
//! of an op: within one op no score changes but of what the op itself uses. So the scores of all
//! that is held are worked out once per op that evicts.
//! Invariant: while `ranked`, `scores` holds every held object once, with its score at this op.

use super::features::{Feature, Weights, count, time};
use crate::replacement::{NEVER, Replacement};
use crate::state::{State, remember};
use std::cmp::Ordering;

/// Lowest score; `FUTURE` if it is told when objects are used next. About 60 bytes per object.
///
/// Of equal scores the object with the highest number leaves first, as under
/// [`crate::replacement::Belady`].
#[derive(Debug)]
pub(super) struct Rule<const FUTURE: bool> {
    weights: Weights,
    /// By id: the part of the score that never changes.
    fixed: Vec<f64>,
    past: Vec<Past>,
    /// Which op asks, and how many uses there were before it.
    occurrence: u64,
    now: u64,
    /// Uses so far.
    uses: u64,
    /// When the object of the coming request is used again.
    coming: u64,
    /// What is held, in no particular order.
    held: Vec<u32>,
    scores: Vec<(f64, u32)>,
    ranked: bool,
}

/// What is remembered of an object.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// Its place in `held`; `ABSENT` if it is not.
    place: u32,
    /// Uses of it since its birth.
    count: u32,
    /// The number of its last use.
    last: u64,
    /// Between its last two uses; 0 before the second.
    interval: u64,
    /// The op of its next use.
    next: u64,
    changed: bool,
}

const ABSENT: u32 = u32::MAX;

impl Past {
    const NOTHING: Past =
        Past { place: ABSENT, count: 0, last: 0, interval: 0, next: NEVER, changed: false };
}

impl<const FUTURE: bool> Rule<FUTURE> {
    /// With the fixed part of every object's score.
    pub(super) fn new(weights: &Weights, fixed: Vec<f64>) -> Rule<FUTURE> {
        Rule {
            weights: *weights,
            past: vec![Past::NOTHING; fixed.len()],
            fixed,
            occurrence: 0,
            now: 0,
            uses: 0,
            coming: NEVER,
            held: Vec::new(),
            scores: Vec::new(),
            ranked: false,
        }
    }

    fn score(&self, id: u32) -> f64 {
        let past = &self.past[id as usize];
        let mut score = self.fixed[id as usize];
        let mut add = |feature: Feature, value: &dyn Fn() -> f64| {
            let weight = self.weights.get(feature);
            if weight != 0.0 {
                score += weight * value();
            }
        };
        add(Feature::Age, &|| time(self.now.saturating_sub(past.last)));
        add(Feature::Changed, &|| f64::from(u8::from(past.changed)));
        add(Feature::Count, &|| count(u64::from(past.count)));
        if past.interval > 0 {
            add(Feature::Due, &|| time((past.last + past.interval).abs_diff(self.now)));
            add(Feature::Reuse, &|| time(past.interval));
        } else {
            add(Feature::Once, &|| 1.0);
        }
        if FUTURE {
            add(Feature::Next, &|| match past.next {
                NEVER => time(NEVER),
                next => time(next.saturating_sub(self.occurrence)),
            });
        }
        score
    }

    /// The object is used.
    fn used(&mut self, id: u32) {
        let past = &mut self.past[id as usize];
        if past.count > 0 {
            past.interval = self.uses - past.last;
        }
        past.count = past.count.saturating_add(1);
        past.last = self.uses;
        past.next = std::mem::replace(&mut self.coming, NEVER);
        self.uses += 1;
    }

    /// It is held no more.
    fn leave(&mut self, id: u32) {
        let place = std::mem::replace(&mut self.past[id as usize].place, ABSENT) as usize;
        self.past[id as usize].changed = false;
        self.held.swap_remove(place);
        if let Some(&moved) = self.held.get(place) {
            self.past[moved as usize].place = place as u32;
        }
        if self.ranked {
            self.scores.swap_remove(place);
        }
    }

    fn rescore(&mut self, id: u32) {
        if self.ranked {
            let place = self.past[id as usize].place as usize;
            self.scores[place] = (self.score(id), id);
        }
    }
}

/// Who of two leaves first.
fn sooner(a: &(f64, u32), b: &(f64, u32)) -> Ordering {
    a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))
}

impl<const FUTURE: bool> Replacement for Rule<FUTURE> {
    const ORACLE: bool = FUTURE;

    fn grow(&mut self, ids: usize) {
        self.past.resize(ids.max(self.past.len()), Past::NOTHING);
        self.fixed.resize(self.past.len(), 0.0);
    }

    fn holds(&self, id: u32) -> bool {
        self.past[id as usize].place != ABSENT
    }

    fn begin(&mut self, occurrence: u64) {
        (self.occurrence, self.now) = (occurrence, self.uses);
        self.ranked = false;
    }

    fn change(&mut self, id: u32) {
        self.past[id as usize].changed = true;
        if self.holds(id) {
            self.rescore(id);
        }
    }

    fn foresee(&mut self, next: u64) {
        self.coming = next;
    }

    fn hit(&mut self, id: u32) {
        self.used(id);
        self.rescore(id);
    }

    fn evict(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        if !self.ranked {
            let mut scores = std::mem::take(&mut self.scores);
            scores.clear();
            scores.extend(self.held.iter().map(|&id| (self.score(id), id)));
            (self.scores, self.ranked) = (scores, true);
        }
        // Scores are compared before `keep` is asked, which looks at all that the op uses.
        let mut gone: Option<(f64, u32)> = None;
        for entry in &self.scores {
            if gone.is_none_or(|best| sooner(entry, &best).is_lt()) && !keep(entry.1) {
                gone = Some(*entry);
            }
        }
        let (_, id) = gone?;
        self.leave(id);
        Some(id)
    }

    fn insert(&mut self, id: u32, _: u64) {
        self.used(id);
        self.past[id as usize].place = self.held.len() as u32;
        self.held.push(id);
        if self.ranked {
            self.scores.push((0.0, id));
            self.rescore(id);
        }
    }

    /// A life that ended is forgotten: the object of that number in the next replay is another one.
    fn remove(&mut self, id: u32) {
        if self.holds(id) {
            self.leave(id);
        }
        self.past[id as usize] = Past::NOTHING;
    }

    /// Never the same again where uses are counted over the whole run.
    fn state(&self, out: &mut State) -> bool {
        // Scores are of the op that is planned: there is none.
        remember!(out, self as Rule {}
            skip { weights, fixed, past, occurrence, now, uses, coming, held, scores, ranked });
        for past in &self.past {
            let Past { place, count, last, interval, next, changed } = *past;
            out.flag(place != ABSENT);
            out.flag(count > 0);
            if count > 0 {
                out.word(self.uses - last);
                out.word(interval);
                out.next_use(Some(next));
            }
            out.flag(changed);
        }
        self.weights.get(Feature::Count) == 0.0
    }
}
