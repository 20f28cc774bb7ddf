//! The search: first plans, and changes that the simulator finds no worse.

use super::classes::{Away, Class, Found};
use crate::bound::{Advice, Question, advice, alike_steps};
use crate::cpu_ops::device_part;
use crate::recipe::Setting;
use crate::zoo::planned_migration::intervals::Gaps;
use crate::zoo::planned_migration::plan::plan;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::ids::TierId;
use tiersim_models::units::Span;

/// Shares of HBM that the linear program is asked to make do with: the rest is for what is under
/// way, and for objects that are whole.
const SHARES: [f64; 4] = [1.0, 0.94, 0.88, 0.82];
/// Objects smaller than the mean by so much move nothing that matters, and are left as they are.
const SMALL: i64 = 64;

/// One of so many runs is for what is held behind its last use, too.
const HELD: u32 = 3;

/// Mean step of a run that carries decisions out; `None` if it runs out of memory.
type Judge<'a> = &'a mut dyn FnMut(&Found) -> Option<Span>;

/// The best decisions that so many runs find, if any fits, and how long the step takes; `None`
/// where nothing can be decided.
pub(super) fn best(
    setting: &Setting<'_>,
    (spill, runs): (&[TierId], u32),
    judge: Judge<'_>,
) -> Option<Option<(Span, Found)>> {
    let device = device_part(setting);
    let own = device.as_ref().map(|(workload, spans)| Setting { workload, spans, ..*setting });
    let setting = own.as_ref().unwrap_or(setting);
    let gaps = Gaps::with_held(setting);
    if gaps.all.is_empty() {
        return None;
    }
    let (cycle, like) = alike_steps(setting.workload);
    let none = Found::none(&gaps, cycle, like);
    let between = Gaps::new(setting);
    let g10 = none.clone().of(&between, &plan(setting, spill, &between));
    let mut search = Search { judge, left: runs, best: None };
    search.tries(g10);
    let ops = setting.workload.trace.ops.len() as u64;
    let question = Question {
        workload: setting.workload,
        hardware: setting.hardware,
        memory: setting.memory,
        from: 0,
        to: ops,
        duration: &|at| setting.spans[(at % ops) as usize],
    };
    for share in SHARES {
        let Some(advice) = advice(&question, share) else { break };
        search.tries(advised(&none, &advice, spill));
    }
    search.improves(&gaps, spill);
    Some(search.best)
}

/// What the linear program says of each interval.
fn advised(none: &Found, advice: &Advice, spill: &[TierId]) -> Found {
    let mut found = none.clone();
    for (class, away) in &mut found.choices {
        *away = advised_for(class, advice, spill);
    }
    found
}

/// It leaves in the window before the first instant at which it is outside, and comes back in the
/// one behind the last.
fn advised_for(class: &Class, advice: &Advice, spill: &[TierId]) -> Option<Away> {
    let advised = advice.objects.get(&class.object)?;
    let cycle = advice.ops as u32;
    // Instants of the interval, by ops behind its beginning.
    let begins = (class.until + cycle - class.ops % cycle) % cycle;
    let last = advice.instants.len() - 1;
    let behind = |&at: &usize| (advice.instants[at] + cycle - begins) % cycle;
    let mut instants: Vec<usize> = (0..last).filter(|at| behind(at) <= class.ops).collect();
    instants.sort_by_key(behind);
    let outside = |at: &usize, cut: usize| !advised.inside[cut][*at];
    let first = instants.iter().position(|at| outside(at, 0))?;
    let end = instants.iter().rposition(|at| outside(at, 0))?;
    let deepest = (0..advice.cuts.len())
        .rev()
        .find(|&cut| instants[first..=end].iter().any(|at| outside(at, cut)))?;
    let beyond = |tier: &&TierId| !advice.cuts[deepest].contains(tier);
    let tier = spill.iter().find(beyond).or(spill.last()).copied()?;
    let leaves = first.checked_sub(1).map_or(0, |before| behind(&instants[before]));
    let back = behind(&instants[end]).max(leaves);
    Some(Away { tier, leaves, back, in_place: advised.in_place.contains(&class.until) })
}

struct Search<'a> {
    judge: Judge<'a>,
    /// Runs that may still be spent.
    left: u32,
    best: Option<(Span, Found)>,
}

impl Search<'_> {
    /// Whether it is no worse than the best; it is the best then.
    fn tries(&mut self, found: Found) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let Some(step) = (self.judge)(&found) else { return false };
        let better = self.best.as_ref().is_none_or(|(best, _)| step <= *best);
        if better {
            self.best = Some((step, found));
        }
        better
    }

    /// Changes of groups of decisions that follow each other in time.
    fn improves(&mut self, gaps: &Gaps, spill: &[TierId]) {
        let Some((_, found)) = &self.best else { return };
        let mut order: Vec<Class> = found.choices.keys().copied().collect();
        order.sort_by_key(|class| (class.until, *class));
        let bytes = |class: &Class| gaps.lives[class.object as usize].bytes;
        let all: i64 = order.iter().map(bytes).sum();
        let few = all / (SMALL * order.len().max(1) as i64);
        order.retain(|class| bytes(class) >= few);
        // What is held behind its last use may leave as well, but most is won between uses.
        let between: Vec<Class> = order.iter().copied().filter(|class| !class.is_held()).collect();
        let late = self.left / HELD;
        let mut random = ChaCha12Rng::seed_from_u64(1);
        while self.left > 0 && !order.is_empty() {
            let Some((_, best)) = &self.best else { return };
            let mut found = best.clone();
            let some = if self.left > late && !between.is_empty() { &between } else { &order };
            if changes(&mut found, some, spill, &mut random) {
                self.tries(found);
            } else {
                // A change that changes nothing costs no run, but the search must end.
                self.left -= u32::from(random.random_range(0..8) == 0);
            }
        }
    }
}

/// One change, drawn; whether there was something to change.
fn changes(found: &mut Found, order: &[Class], spill: &[TierId], random: &mut ChaCha12Rng) -> bool {
    let most = (order.len() / 4).max(1).ilog2();
    let size = 1usize << random.random_range(0..=most);
    let from = random.random_range(0..order.len());
    let kind = random.random_range(0..7);
    let shift = f64::from(random.random_range(1u32..=8)) / 16.0;
    let (tier, lag) = (spill[random.random_range(0..spill.len())], random.random_range(0.0..1.0));
    let cycle = found.cycle();
    let mut changed = false;
    for class in order[from..].iter().take(size) {
        let Some(choice) = found.choices.get_mut(class) else { continue };
        let before = *choice;
        let by = ((f64::from(class.ops) * shift) as u32).max(1);
        *choice = match (kind, before) {
            (0, Some(away)) => Some(Away { back: away.back.saturating_sub(by), ..away }),
            (1, Some(away)) => Some(Away { back: (away.back + by).min(class.ops), ..away }),
            (2, Some(_)) => None,
            (3, None) if class.ops > cycle / 32 => {
                let back = (f64::from(class.ops) * lag) as u32;
                Some(Away { tier, leaves: 0, back, in_place: false })
            }
            (4, Some(away)) if class.fetches => Some(Away { in_place: !away.in_place, ..away }),
            (5, Some(away)) => Some(Away { leaves: 0, ..away }),
            (6, Some(away)) => Some(Away { leaves: (away.leaves + by).min(away.back), ..away }),
            (_, before) => before,
        };
        if let Some(away) = choice {
            away.back = away.back.max(away.leaves);
        }
        changed |= *choice != before;
    }
    changed
}
