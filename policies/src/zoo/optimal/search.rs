//! The search: first plans, and changes that the simulator finds no worse.

use super::classes::{Away, Class, Found};
use super::online::{Online, few};
use super::orders::{Orders, Steps};
use super::{Best, OptimalConfig};
use crate::bound::{Advice, Question, advice};
use crate::cpu_ops::device_part;
use crate::recipe::{Judge, PolicyConfig, Setting};
use crate::zoo::clairvoyant_offload::Uses;
use crate::zoo::planned_migration::intervals::Gaps;
use crate::zoo::planned_migration::plan::plan;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::sync::{Arc, Mutex};
use tiersim_models::ids::TierId;
use tiersim_models::units::Span;

/// Shares of HBM that the linear program is asked to make do with: the rest is for what is under
/// way, and for objects that are whole.
const SHARES: [f64; 4] = [1.0, 0.94, 0.88, 0.82];
/// One of so many runs is for what is held behind its last use, too.
const HELD: u32 = 3;

/// Turns in which solutions are rounded: as they are, and by quarters.
const TURNS: [f64; 5] = [0.0, 0.01, 0.26, 0.51, 0.76];

/// Of runs, orders of the program take no more than one of so many.
const FIRST: u32 = 3;

/// The step of a plan that runs out of memory: changes may still lead from it to one that does not.
const NEVER: Span = Span::from_ps(u64::MAX);

/// So many changes per decision that are no better, and the search begins anew.
const PATIENCE: usize = 8;

/// Mean step of a run that carries decisions out; `None` if it runs out of memory.
type Try<'a> = &'a mut dyn FnMut(&Found) -> Option<Span>;

/// The best plan that the runs find, if any fits.
pub(super) fn searched(
    config: &OptimalConfig,
    setting: &Setting<'_>,
    judge: Judge<'_>,
) -> Option<PolicyConfig> {
    let device = device_part(setting);
    let own = device.as_ref().map(|(workload, spans)| Setting { workload, spans, ..*setting });
    let setting = own.as_ref().unwrap_or(setting);
    let with = |best: Best| -> PolicyConfig {
        OptimalConfig { found: Some(best), ..config.clone() }.into()
    };
    let planned = |found: &Found| with(Best::Plan(Arc::new(found.clone())));
    let steps = Steps::new(setting.workload);
    let ordered = |orders: &Orders, wasted| {
        with(Best::Online(Arc::new((steps.clone(), orders.clone())), wasted))
    };
    let gaps = Gaps::with_held(setting);
    if gaps.all.is_empty() {
        return None;
    }
    let advised = solutions(setting);
    let mut plans = Plans { left: config.runs, best: None };
    plans.first(setting, &config.spill, (&gaps, &steps), &advised, &mut |found| {
        judge(&planned(found))
    });
    let mut online = Online::new(setting, &steps, &advised);
    let mut orders = |orders: &Orders| {
        let wasted: Arc<Mutex<Uses>> = Arc::default();
        let step = judge(&ordered(orders, Some(wasted.clone())));
        let wasted = steps.of_steps(&wasted.lock().expect("nobody panics with it"));
        (step, wasted)
    };
    let for_orders = plans.left.div_ceil(FIRST);
    let left = plans.left - for_orders + online.first(for_orders, &mut orders);
    let step = |best: Option<Span>| best.map_or(u64::MAX, |step| step.ps());
    // Runs are for the kind of plan that is ahead; where they are many for what there is to decide,
    // half of them are for the other.
    let ends = |plans: &Plans, online: &Online| {
        let by_plan = step(plans.best.as_ref().map(|best| best.0));
        by_plan <= step(online.best.as_ref().map(|best| best.0))
    };
    let many = left as usize > PATIENCE * gaps.all.len();
    let (less, ahead) = (if many { left / 2 } else { 0 }, ends(&plans, &online));
    plans.left = if ahead { left - less } else { less };
    online.improves(left - plans.left, &mut orders);
    plans.improves(&gaps, &config.spill, &mut |found| judge(&planned(found)));
    match ends(&plans, &online) {
        true => plans.best.filter(|best| best.0 < NEVER).map(|(_, found)| planned(&found)),
        false => online.best.map(|(_, orders)| ordered(&orders, None)),
    }
}

/// Solutions of the program with several shares of HBM, each rounded in all turns.
fn solutions(setting: &Setting<'_>) -> Vec<Vec<Advice>> {
    let ops = setting.workload.trace.ops.len() as u64;
    let question = Question {
        workload: setting.workload,
        hardware: setting.hardware,
        memory: setting.memory,
        from: 0,
        to: ops,
        duration: &|at| setting.spans[(at % ops) as usize],
    };
    SHARES.into_iter().map_while(|share| advice(&question, share, &TURNS)).collect()
}

/// What the linear program says of each interval.
fn advised_by(none: &Found, advice: &Advice, spill: &[TierId]) -> Found {
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

/// The search for plans, and the best that it has found.
struct Plans {
    /// Runs that may still be spent.
    left: u32,
    /// With [`NEVER`] where none has had memory enough yet.
    best: Option<(Span, Found)>,
}

impl Plans {
    /// G10's plan, and those of the program.
    fn first(
        &mut self,
        setting: &Setting<'_>,
        spill: &[TierId],
        (gaps, steps): (&Gaps, &Steps),
        advised: &[Vec<Advice>],
        judge: Try<'_>,
    ) {
        let none = Found::none(gaps, steps.ops, steps.like.clone());
        let between = Gaps::new(setting);
        self.tries(&none.clone().of(&between, &plan(setting, spill, &between)), judge);
        for advice in advised.iter().filter_map(|turns| turns.first()) {
            self.tries(&advised_by(&none, advice, spill), judge);
        }
    }

    /// Runs it if a run is left, and takes it for the best if it is no worse; its step.
    fn tries(&mut self, found: &Found, judge: Try<'_>) -> Span {
        let Some(left) = self.left.checked_sub(1) else { return NEVER };
        self.left = left;
        let step = judge(found).unwrap_or(NEVER);
        if self.best.as_ref().is_none_or(|(best, _)| step <= *best) {
            self.best = Some((step, found.clone()));
        }
        step
    }

    /// Changes of groups of decisions that follow each other in time: of the best, and where no
    /// change is better any more, of nothing once again.
    fn improves(&mut self, gaps: &Gaps, spill: &[TierId], judge: Try<'_>) {
        let Some((mut least, mut found)) = self.best.clone() else { return };
        let patience = PATIENCE * found.choices.len();
        let mut order: Vec<Class> = found.choices.keys().copied().collect();
        order.sort_by_key(|class| (class.until, *class));
        let bytes = |class: &Class| gaps.lives[class.object as usize].bytes.unsigned_abs();
        let few = few(order.iter().map(bytes));
        order.retain(|class| bytes(class) >= few);
        // What is held behind its last use may leave as well, but most is won between uses.
        let is_between = |class: &Class| !class.is_held() && !class.is_moment();
        let between: Vec<Class> = order.iter().copied().filter(is_between).collect();
        let late = self.left / HELD;
        let mut random = ChaCha12Rng::seed_from_u64(1);
        let mut in_vain = 0;
        while self.left > 0 && !order.is_empty() {
            let mut changed = found.clone();
            let some = if self.left > late && !between.is_empty() { &between } else { &order };
            if !changes(&mut changed, some, spill, &mut random) {
                // A change that changes nothing costs no run, but the search must end.
                self.left -= u32::from(random.random_range(0..8) == 0);
                continue;
            }
            let step = self.tries(&changed, judge);
            in_vain = if step < least { 0 } else { in_vain + 1 };
            if step <= least {
                (least, found) = (step, changed);
            }
            if in_vain > patience {
                found.choices.values_mut().for_each(|choice| *choice = None);
                (least, in_vain) = (NEVER, 0);
            }
        }
    }
}

/// What is used in place by one op is so by those that use it right behind it, too.
fn stays_on(found: &mut Found, class: &Class, away: Away) {
    let behind = Class { until: class.until + 1, ops: 0, evicts: false, fetches: false, ..*class };
    let mut until = class.until;
    for (class, choice) in found.choices.range_mut(behind..) {
        until += 1;
        if class.object != behind.object || class.until != until || !class.is_moment() {
            break;
        }
        *choice = Some(Away { leaves: 0, back: 0, ..away });
    }
}

/// One change, drawn; whether there was something to change.
fn changes(found: &mut Found, order: &[Class], spill: &[TierId], random: &mut ChaCha12Rng) -> bool {
    let most = (order.len() / 4).max(1).ilog2();
    let size = 1usize << random.random_range(0..=most);
    let from = random.random_range(0..order.len());
    let kind = random.random_range(0..8);
    let shift = f64::from(random.random_range(1u32..=8)) / 16.0;
    let (tier, lag) = (spill[random.random_range(0..spill.len())], random.random_range(0.0..1.0));
    let (cycle, in_place) = (found.cycle(), random.random());
    let mut changed = false;
    for class in order[from..].iter().take(size) {
        let Some(choice) = found.choices.get_mut(class) else { continue };
        let before = *choice;
        let by = ((f64::from(class.ops) * shift) as u32).max(1);
        *choice = match (kind, before) {
            (0, Some(away)) => Some(Away { back: away.back.saturating_sub(by), ..away }),
            (1, Some(away)) => Some(Away { back: (away.back + by).min(class.ops), ..away }),
            (2, Some(_)) => None,
            (3, None) if class.is_moment() => {
                Some(Away { tier, leaves: 0, back: 0, in_place: true })
            }
            (3, None) if class.ops > cycle / 32 => {
                let back = (f64::from(class.ops) * lag) as u32;
                Some(Away { tier, leaves: 0, back, in_place: in_place && class.fetches })
            }
            (4, Some(away)) if class.fetches => Some(Away { in_place: !away.in_place, ..away }),
            (5, Some(away)) => Some(Away { leaves: 0, ..away }),
            (6, Some(away)) => Some(Away { leaves: (away.leaves + by).min(away.back), ..away }),
            (7, Some(away)) => Some(Away { tier, ..away }),
            (_, before) => before,
        };
        if let Some(away) = choice {
            away.back = away.back.max(away.leaves);
        }
        let now = *choice;
        changed |= now != before;
        if let Some(away) = now.filter(|away| away.in_place && now != before) {
            stays_on(found, class, away);
        }
    }
    changed
}
