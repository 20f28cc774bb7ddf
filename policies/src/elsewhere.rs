//! A policy that decides elsewhere: in another program, by questions and answers.
//!
//! What the other side may know is what a policy may see: sizes, what is where, what is free, the
//! op, and as much of what comes as it has declared. Residency goes along as what has changed since
//! the question before, so that the other side can keep a mirror of it. Actions that come back are
//! taken one by one in a [`Step`], so the ledger judges them as those of any policy.
//! Invariant: this side does no I/O; who asks is handed in ([`Distant`]).

use crate::ledger::Ledger;
use crate::policy::{Action, Found, Lookahead, Policy, Refusal};
use crate::recipe::{Recipe, Setting};
use crate::step::Step;
use crate::view::View;
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::Arc;
use tiersim_models::hardware::{HBM, Law};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Use;

/// What all of them are called in tables and charts.
pub const ELSEWHERE: &str = "python";

/// The longest delay that an action states, as of a set-up in a file: 10 s.
const LONGEST_DELAY: Span = Span::from_us(10_000_000);

/// The most by which a run is delayed in all, 10^6 s: the clock counts to 18 times of that, and a
/// run that it may not last is refused at half of it.
const MOST_DELAY: Span = Span::from_us(1_000_000_000_000);

/// Why a run ends: an answer could not be had.
#[derive(Debug)]
pub struct NoAnswer(pub String);

/// Ends the run, as a policy has no way to return an error. Whoever simulates the case catches it,
/// and says which case it was.
pub fn no_answer(why: impl Into<String>) -> ! {
    resume_unwind(Box::new(NoAnswer(why.into())))
}

/// The other side.
///
/// It has no way to fail: an answer that cannot be had ends the run ([`no_answer`]).
pub trait Distant: Debug + Send + Sync {
    /// A policy for a setting; what it declares.
    fn begin(&self, recipe: &Elsewhere, setting: &Setting<'_>) -> Declared;

    /// The answer to a question about a tier; `None` only where [`Policy`] allows it.
    fn tier(&self, of: u64, what: Where, asked: &Asked<'_>) -> Option<TierId>;

    /// What makes room in a tier.
    fn room(&self, of: u64, tier: TierId, asked: &Asked<'_>) -> Option<Action>;

    /// The actions for an op.
    fn plan(&self, of: u64, asked: &Asked<'_>) -> Vec<Action>;
}

/// What a policy says of itself before it is asked.
#[derive(Clone, Debug)]
pub struct Declared {
    /// By which it is told from others.
    pub id: u64,
    /// How far it looks ahead.
    pub lookahead: Lookahead,
    /// Whether it says where new objects get their room.
    pub allocates: bool,
    /// Whether it says where objects go that must leave.
    pub spills: bool,
    /// Whether it makes room.
    pub makes_room: bool,
}

/// Which question is about a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// [`Policy::initial_tier`].
    Initial(ObjectId),
    /// [`Policy::allocate_in`].
    Allocate(ObjectId),
    /// [`Policy::spill_tier`].
    Spill(ObjectId),
}

/// What goes along with a question.
pub struct Asked<'a> {
    /// The state when it is asked.
    pub view: View<'a>,
    /// Objects of which tiers have something else than at the question before, with what they have
    /// now: by tier two bits, room and present contents.
    pub changed: &'a [(u32, u32)],
    /// What it now sees of the ops ahead and did not before, in order.
    pub ahead: &'a [&'a [Use]],
    /// Whether it is the first question to this policy.
    pub first: bool,
}

impl Asked<'_> {
    /// How many objects the trace has.
    pub fn objects(&self) -> usize {
        self.view.workload.trace.objects.len()
    }

    /// Objects that a tier stores packed: the tier and the bytes there.
    pub fn packed(&self) -> Vec<(u32, TierId, Bytes)> {
        let of = |object: usize| {
            let (id, tiers) = (ObjectId::at(object), 0..self.view.ledger.tiers());
            let bytes = self.view.object(id).bytes;
            let packed = tiers.map(TierId::at).map(move |tier| (tier, self.view.room_of(id, tier)));
            packed
                .filter(move |(_, room)| *room != bytes)
                .map(move |(tier, room)| (id.0, tier, room))
        };
        (0..self.objects()).flat_map(of).collect()
    }

    /// What is free, by tier.
    pub fn free(&self) -> Vec<u64> {
        (0..self.view.ledger.tiers()).map(|tier| self.view.free(TierId::at(tier)).get()).collect()
    }
}

/// What scenarios ask for.
#[derive(Clone)]
pub struct Elsewhere {
    /// Which of the other side's policies.
    pub number: u64,
    /// What it is called there; part of the fingerprint.
    pub called: String,
    /// The other side.
    pub distant: Arc<dyn Distant>,
}

impl Debug for Elsewhere {
    /// The name alone: what is asked for, and not by which way.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elsewhere").field("called", &self.called).finish()
    }
}

impl Recipe for Elsewhere {
    fn name(&self) -> &'static str {
        ELSEWHERE
    }

    fn details(&self) -> String {
        self.called.split('@').next().unwrap_or_default().to_owned()
    }

    fn build(&self, setting: &Setting<'_>) -> Result<Box<dyn Policy>, String> {
        let declared = self.distant.begin(self, setting);
        let mirror = vec![0; setting.workload.trace.objects.len()];
        let accesses = setting.hardware.tiers.iter().map(|tier| tier.access).collect();
        let distant = self.distant.clone();
        Ok(Box::new(Asking {
            declared,
            distant,
            mirror,
            changed: Vec::new(),
            shown: 0,
            first: true,
            asked: None,
            accesses,
            delayed: Span::ZERO,
        }))
    }
}

/// The policy on this side.
#[derive(Debug)]
struct Asking {
    declared: Declared,
    distant: Arc<dyn Distant>,
    /// By object what the other side knows that tiers have.
    mirror: Vec<u32>,
    changed: Vec<(u32, u32)>,
    /// The op of the run up to which the other side has seen.
    shown: u64,
    first: bool,
    /// The object that a question about a tier was asked of last: it alone has changed since.
    asked: Option<ObjectId>,
    /// What accesses to tiers take.
    accesses: Vec<Law>,
    /// What ops were delayed by so far.
    delayed: Span,
}

/// What tiers have of an object, as [`Asked::changed`] has it.
fn residency(ledger: &Ledger, object: ObjectId) -> u32 {
    let bits = |slot: &crate::ledger::Slot| (1 | u32::from(slot.valid) << 1) << (2 * slot.tier.0);
    ledger.slots(object).iter().map(bits).fold(0, |all, bits| all | bits)
}

impl Asking {
    fn note(&mut self, ledger: &Ledger, object: ObjectId) {
        let now = residency(ledger, object);
        if std::mem::replace(&mut self.mirror[object.index()], now) != now {
            self.changed.push((object.0, now));
        }
    }

    /// Counts what an action delays its op by: numbers that a program sends may be of any size.
    fn delays(&mut self, action: Action) -> Result<(), Refusal> {
        let by = match action {
            Action::Delay { span } if span > LONGEST_DELAY => {
                let (rule, remedy) = ("a time must lie between 0 and 10 s", "check its unit, ps");
                return Err(Refusal { found: Found::Action(action), rule, remedy });
            }
            Action::Delay { span } => Some(span),
            Action::Charge { tier, bytes } => {
                let Law { setup, rate } = self.accesses[tier.index()];
                let span = rate.checked_span_of(bytes.get());
                span.filter(|span| *span <= MOST_DELAY).map(|span| setup + span)
            }
            _ => return Ok(()),
        };
        let delayed = by.map(|by| self.delayed + by).filter(|all| *all <= MOST_DELAY);
        self.delayed = delayed.ok_or(Refusal {
            found: Found::Action(action),
            rule: "delays and charges of a run must lie between 0 and 10^6 s together",
            remedy: "check their units, ps and bytes",
        })?;
        Ok(())
    }

    /// Asks, with what has changed of every object, or before the first op of the one asked before.
    fn ask<T>(
        &mut self,
        view: &View<'_>,
        initial: bool,
        ask: impl FnOnce(&dyn Distant, u64, &Asked<'_>) -> T,
    ) -> T {
        self.changed.clear();
        match self.asked.take().filter(|_| initial) {
            Some(before) => self.note(view.ledger, before),
            None => (0..self.mirror.len()).for_each(|at| self.note(view.ledger, ObjectId::at(at))),
        }
        let mut ahead = Vec::new();
        self.shown = self.shown.max(view.occurrence());
        while let Some(uses) = view.ahead(self.shown - view.occurrence()).filter(|_| !initial) {
            ahead.push(uses);
            self.shown += 1;
        }
        let first = std::mem::replace(&mut self.first, false);
        let asked = Asked { view: *view, changed: &self.changed, ahead: &ahead, first };
        ask(&*self.distant, self.declared.id, &asked)
    }
}

impl Policy for Asking {
    fn name(&self) -> &'static str {
        ELSEWHERE
    }

    fn lookahead(&self) -> Lookahead {
        self.declared.lookahead
    }

    fn initial_tier(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        let what = Where::Initial(object);
        let tier = self.ask(view, true, |distant, id, asked| distant.tier(id, what, asked));
        self.asked = Some(object);
        tier.unwrap_or(HBM)
    }

    fn allocate_in(&mut self, object: ObjectId, view: &View<'_>) -> TierId {
        if !self.declared.allocates {
            return HBM;
        }
        let what = Where::Allocate(object);
        self.ask(view, false, |distant, id, asked| distant.tier(id, what, asked)).unwrap_or(HBM)
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        let view = step.view();
        for action in self.ask(&view, false, |distant, id, asked| distant.plan(id, asked)) {
            match self.delays(action) {
                Ok(()) => step.take(action),
                Err(refusal) => step.refuse(Some(refusal)),
            }
        }
    }

    fn spill_tier(&mut self, object: ObjectId, view: &View<'_>) -> Option<TierId> {
        let what = Where::Spill(object);
        let spills = self.declared.spills;
        spills.then(|| self.ask(view, false, |distant, id, asked| distant.tier(id, what, asked)))?
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        let makes = self.declared.makes_room;
        makes.then(|| self.ask(view, false, |distant, id, asked| distant.room(id, tier, asked)))?
    }
}
