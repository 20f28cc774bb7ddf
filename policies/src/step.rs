//! One op's transaction: the actions that a policy takes for it, and what they make of the state.
//!
//! Every action changes what the next question is answered with, as the planner will carry the
//! actions out in their order. An action that the ledger would refuse in that state is not taken,
//! and the run ends with it. Whether there is room is not looked at: [`Step::fits`] says it, the
//! ledger judges, and in a tier that is not exact what fits is an estimate, for there the planner
//! asks for more room itself.

use crate::action::{Action, refusal};
use crate::view::View;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tiersim_models::hardware::{HBM, MAX_TIERS};
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::Use;

/// What a tier has of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// No room.
    Absent,
    /// Room with contents of the past.
    Stale,
    /// Its contents.
    Valid,
}

/// The state before one op with the actions that are taken for it.
pub struct Step<'a> {
    view: View<'a>,
    actions: Vec<Action>,
    /// How many of the actions come first whatever was taken before them.
    first: usize,
    changed: BTreeMap<(ObjectId, TierId), Residency>,
    /// By tier: bytes taken less bytes given back.
    taken: [i128; MAX_TIERS],
    refused: Option<String>,
}

impl<'a> Step<'a> {
    /// No action so far.
    pub fn new(view: &View<'a>) -> Step<'a> {
        Step::over(view, Vec::new())
    }

    /// As [`Step::new`], with memory for the actions that is used again.
    pub(crate) fn over(view: &View<'a>, mut actions: Vec<Action>) -> Step<'a> {
        actions.clear();
        let (changed, taken) = (BTreeMap::new(), [0; MAX_TIERS]);
        Step { view: *view, actions, first: 0, changed, taken, refused: None }
    }

    /// The state before the actions: the op, what lies ahead, what was where when it came.
    pub fn view(&self) -> View<'a> {
        self.view
    }

    /// The objects of the op.
    pub fn uses(&self) -> &'a [Use] {
        self.view.uses()
    }

    /// Whether the op uses an object.
    pub fn is_used(&self, object: ObjectId) -> bool {
        self.uses().iter().any(|used| used.object == object)
    }

    /// The size of an object.
    pub fn bytes(&self, object: ObjectId) -> Bytes {
        self.view.object(object).bytes
    }

    /// What a tier has of an object.
    pub fn residency(&self, object: ObjectId, tier: TierId) -> Residency {
        match self.changed.get(&(object, tier)) {
            Some(&residency) => residency,
            None if self.view.holds(object, tier) => Residency::Valid,
            None if self.view.has_room(object, tier) => Residency::Stale,
            None => Residency::Absent,
        }
    }

    /// Whether the tier holds the object's present contents.
    pub fn holds(&self, object: ObjectId, tier: TierId) -> bool {
        self.residency(object, tier) == Residency::Valid
    }

    /// Whether HBM holds the object's present contents.
    pub fn in_hbm(&self, object: ObjectId) -> bool {
        self.holds(object, HBM)
    }

    /// Whether the object has room in the tier, be its contents present or stale.
    pub fn has_room(&self, object: ObjectId, tier: TierId) -> bool {
        self.residency(object, tier) != Residency::Absent
    }

    /// Whether the object has been in HBM since before the first action.
    pub fn stays_in_hbm(&self, object: ObjectId) -> bool {
        self.view.has_room(object, HBM) && self.has_room(object, HBM)
    }

    /// The tiers with the object's present contents, nearest (lowest id) first.
    pub fn holders(&self, object: ObjectId) -> SmallVec<[TierId; 2]> {
        if self.changed.is_empty() {
            return self.view.ledger.tiers_of(object);
        }
        let tiers = (0..self.view.ledger.tiers()).map(TierId::at);
        tiers.filter(|&tier| self.holds(object, tier)).collect()
    }

    /// The nearest tier that holds the object's present contents; `None` before its birth.
    pub fn nearest(&self, object: ObjectId) -> Option<TierId> {
        self.holders(object).first().copied()
    }

    /// Bytes that are free, as [`View::free`] counts them; none where more is taken than there is.
    pub fn free(&self, tier: TierId) -> Bytes {
        let free = i128::from(self.view.free(tier).get()) - self.taken[tier.index()];
        Bytes::new(u64::try_from(free.max(0)).unwrap_or(u64::MAX))
    }

    /// Whether so many more bytes are free, in whatever pieces.
    pub fn has_free(&self, tier: TierId, bytes: Bytes) -> bool {
        let need = self.taken[tier.index()] + i128::from(bytes.get());
        need <= i128::from(self.view.free(tier).get())
    }

    /// Whether so many more bytes can be claimed in one piece.
    pub fn fits(&self, tier: TierId, bytes: Bytes) -> bool {
        let need = self.taken[tier.index()] + i128::from(bytes.get());
        self.view.fits(tier, Bytes::new(u64::try_from(need.max(0)).unwrap_or(u64::MAX)))
    }

    /// Whether the tier has or can take the object.
    pub fn can_enter(&self, object: ObjectId, tier: TierId) -> bool {
        self.has_room(object, tier) || self.fits(tier, self.bytes(object))
    }

    /// Bytes of HBM that the op needs and has not: of what it fetches and of what it creates.
    pub fn missing(&self) -> Bytes {
        let missing = self.uses().iter().filter(|used| !self.has_room(used.object, HBM));
        missing.map(|used| self.bytes(used.object)).sum()
    }

    /// Bytes of what the op creates.
    pub fn born(&self) -> Bytes {
        let born = self.uses().iter().filter(|used| !self.view.exists(used.object));
        born.map(|used| self.bytes(used.object)).sum()
    }

    /// Copies an object to a tier for this op.
    pub fn fetch(&mut self, object: ObjectId, to: TierId) {
        self.take(Action::Fetch { object, to });
    }

    /// Fetches what the op uses and HBM did not hold when it came, in order.
    pub fn fetch_missing(&mut self) {
        for used in self.uses() {
            if self.view.exists(used.object) && !self.view.in_hbm(used.object) {
                self.fetch(used.object, HBM);
            }
        }
    }

    /// Copies an object to a tier for a later op.
    pub fn prefetch(&mut self, object: ObjectId, to: TierId) {
        self.take(Action::Prefetch { object, to });
    }

    /// Takes an object out of a tier.
    pub fn evict(&mut self, object: ObjectId, from: TierId, to: TierId) {
        self.take(Action::Evict { object, from, to });
    }

    /// Gives up one of several copies of an object.
    pub fn drop_copy(&mut self, object: ObjectId, tier: TierId) {
        self.take(Action::Drop { object, tier });
    }

    /// Lets the op use an object where it is.
    pub fn use_in_place(&mut self, object: ObjectId) {
        self.take(Action::InPlace { object });
    }

    /// Delays the op by an access to a tier.
    pub fn charge(&mut self, tier: TierId, bytes: Bytes) {
        self.take(Action::Charge { tier, bytes });
    }

    /// Delays the op.
    pub fn delay(&mut self, span: Span) {
        self.take(Action::Delay { span });
    }

    /// Takes an action behind all others.
    pub fn take(&mut self, action: Action) {
        if self.apply(action) {
            self.actions.push(action);
        }
    }

    /// Takes an action ahead of all but those that were taken so: what leaves, before what is to
    /// come into its room.
    pub fn take_first(&mut self, action: Action) {
        if self.apply(action) {
            self.actions.insert(self.first, action);
            self.first += 1;
        }
    }

    /// Counts room for what the op creates in a tier; no action.
    pub fn expect(&mut self, object: ObjectId, tier: TierId) {
        self.set(object, tier, Residency::Valid);
    }

    /// Counts bytes of a tier as not free; no action.
    pub fn reserve(&mut self, tier: TierId, bytes: Bytes) {
        self.taken[tier.index()] += i128::from(bytes.get());
    }

    /// The actions so far, in the order in which they are carried out.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The run ends with an action that a wrapped policy was refused.
    pub(crate) fn refuse(&mut self, why: Option<String>) {
        self.refused = self.refused.take().or(why);
    }

    /// The actions, and why one of them was not taken.
    pub(crate) fn done(self) -> (Vec<Action>, Option<String>) {
        (self.actions, self.refused)
    }

    /// Notes what an action changes; `false` if it is refused.
    fn apply(&mut self, action: Action) -> bool {
        let has_room = |object, tier| self.has_room(object, tier);
        let why = refusal(&action, self.uses(), has_room, |object| self.holders(object));
        if why.is_some() {
            self.refuse(why);
            return false;
        }
        match action {
            Action::Fetch { object, to } | Action::Prefetch { object, to } => {
                self.set(object, to, Residency::Valid);
            }
            Action::Evict { object, from, to } => {
                if self.holds(object, from) {
                    self.set(object, to, Residency::Valid);
                }
                self.set(object, from, Residency::Absent);
            }
            Action::Drop { object, tier } => self.set(object, tier, Residency::Absent),
            Action::InPlace { .. } | Action::Charge { .. } | Action::Delay { .. } => {}
        }
        true
    }

    fn set(&mut self, object: ObjectId, tier: TierId, residency: Residency) {
        let bytes = i128::from(self.bytes(object).get());
        match (self.has_room(object, tier), residency != Residency::Absent) {
            (false, true) => self.taken[tier.index()] += bytes,
            (true, false) => self.taken[tier.index()] -= bytes,
            _ => {}
        }
        self.changed.insert((object, tier), residency);
    }
}
