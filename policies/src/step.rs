//! One op's transaction: the actions that a policy takes for it, and what they make of the state.
//!
//! Every action changes what the next question is answered with, as the planner will carry the
//! actions out in their order. An action that the ledger would refuse in that state is not taken,
//! and the run ends with it. Whether there is room is not looked at: [`Step::fits`] says it, the
//! ledger judges, and in a tier that is not exact what fits is an estimate, for there the planner
//! asks for more room itself.

use crate::action::{Action, Refusal, refusal};
use crate::view::View;
use smallvec::SmallVec;
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

/// Memory that one step after another uses.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The actions of the step before, in the order in which they are carried out.
    pub actions: Vec<Action>,
    /// Objects that actions have changed, each once, with what tiers have of them by then.
    changed: Vec<(ObjectId, [Option<Residency>; MAX_TIERS])>,
    /// By object: where it is among these, if it is there at all.
    at: Vec<u32>,
}

/// The state before one op with the actions that are taken for it.
pub struct Step<'a> {
    view: View<'a>,
    buffers: Buffers,
    /// How many of the actions come first whatever was taken before them.
    first: usize,
    /// By tier: bytes taken less bytes given back.
    taken: [i128; MAX_TIERS],
    refused: Option<Refusal>,
}

impl<'a> Step<'a> {
    /// No action so far.
    pub fn new(view: &View<'a>) -> Step<'a> {
        Step::over(view, Buffers::default())
    }

    /// As [`Step::new`], with memory that is used again.
    pub fn over(view: &View<'a>, mut buffers: Buffers) -> Step<'a> {
        buffers.actions.clear();
        buffers.changed.clear();
        Step { view: *view, buffers, first: 0, taken: [0; MAX_TIERS], refused: None }
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

    /// What an object takes in a tier: its bytes, or fewer where the tier stores it packed.
    pub fn room_of(&self, object: ObjectId, tier: TierId) -> Bytes {
        self.view.room_of(object, tier)
    }

    /// What a tier has of an object.
    pub fn residency(&self, object: ObjectId, tier: TierId) -> Residency {
        match self.change(object).and_then(|change| change[tier.index()]) {
            Some(residency) => residency,
            None if self.view.holds(object, tier) => Residency::Valid,
            None if self.view.is_allocated(object, tier) => Residency::Stale,
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
    pub fn is_allocated(&self, object: ObjectId, tier: TierId) -> bool {
        self.residency(object, tier) != Residency::Absent
    }

    /// Whether the object has been in HBM since before the first action.
    pub fn stays_in_hbm(&self, object: ObjectId) -> bool {
        self.view.is_allocated(object, HBM) && self.is_allocated(object, HBM)
    }

    /// The tiers with the object's present contents, nearest (lowest id) first.
    pub fn holders(&self, object: ObjectId) -> SmallVec<[TierId; 2]> {
        if self.change(object).is_none() {
            return self.view.ledger.tiers_of(object);
        }
        let tiers = (0..self.view.ledger.tiers()).map(TierId::at);
        tiers.filter(|&tier| self.holds(object, tier)).collect()
    }

    /// The nearest tier that holds the object's present contents; `None` before its birth.
    pub fn nearest(&self, object: ObjectId) -> Option<TierId> {
        match self.change(object) {
            None => self.view.ledger.nearest(object),
            Some(_) => self.holders(object).first().copied(),
        }
    }

    /// Bytes that are free, as [`View::free`] counts them; none where more is taken than there is.
    pub fn free(&self, tier: TierId) -> Bytes {
        let free = i128::from(self.view.free(tier).get()) - self.taken[tier.index()];
        Bytes::new(u64::try_from(free.max(0)).unwrap_or(u64::MAX))
    }

    /// Whether so many more bytes are free, in whatever pieces.
    pub fn has_free(&self, tier: TierId, bytes: Bytes) -> bool {
        self.has_free_after(tier, bytes, Bytes::ZERO)
    }

    /// The same once so many others are given up. Where more is taken than there is, these pay for
    /// that first.
    pub fn has_free_after(&self, tier: TierId, bytes: Bytes, given_up: Bytes) -> bool {
        let need = self.taken[tier.index()] + i128::from(bytes.get());
        need <= i128::from(self.view.free(tier).get()) + i128::from(given_up.get())
    }

    /// Whether so many more bytes can be allocated in one piece.
    pub fn fits(&self, tier: TierId, bytes: Bytes) -> bool {
        let need = self.taken[tier.index()] + i128::from(bytes.get());
        self.view.fits(tier, Bytes::new(u64::try_from(need.max(0)).unwrap_or(u64::MAX)))
    }

    /// Whether the tier has or can take the object.
    pub fn can_enter(&self, object: ObjectId, tier: TierId) -> bool {
        self.is_allocated(object, tier) || self.fits(tier, self.room_of(object, tier))
    }

    /// Bytes of HBM that the op needs and has not: of what it fetches and of what it creates.
    pub fn missing(&self) -> Bytes {
        let missing = self.uses().iter().filter(|used| !self.is_allocated(used.object, HBM));
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
            self.buffers.actions.push(action);
        }
    }

    /// Takes an action ahead of all but those that were taken so: what leaves, before what is to
    /// come into its room.
    pub fn take_first(&mut self, action: Action) {
        if self.apply(action) {
            self.buffers.actions.insert(self.first, action);
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

    /// Counts no more of a tier as free than there was before the first action.
    pub fn forfeit(&mut self, tier: TierId) {
        self.taken[tier.index()] = self.taken[tier.index()].max(0);
    }

    /// Whether an action copies an object out of HBM for later.
    pub fn is_copied_out(&self, object: ObjectId) -> bool {
        self.actions().iter().any(|action| copies_out(action, object))
    }

    /// Lets an object leave HBM with the action that copies it out; `false` if none does.
    pub fn leave_with_copy(&mut self, object: ObjectId) -> bool {
        let copy = self.buffers.actions.iter_mut().find(|action| copies_out(action, object));
        let Some(copy) = copy else { return false };
        if let Action::Prefetch { object, to } = *copy {
            *copy = Action::Evict { object, from: HBM, to };
        }
        self.set(object, HBM, Residency::Absent);
        true
    }

    /// The actions so far, in the order in which they are carried out.
    pub fn actions(&self) -> &[Action] {
        &self.buffers.actions
    }

    /// The run ends with what a wrapped policy was refused.
    pub(crate) fn refuse(&mut self, why: Option<Refusal>) {
        self.refused = self.refused.take().or(why);
    }

    /// The actions, and why one of them was not taken.
    pub(crate) fn done(self) -> (Buffers, Option<Refusal>) {
        (self.buffers, self.refused)
    }

    /// What tiers have of an object, where an action has changed that.
    fn change(&self, object: ObjectId) -> Option<&[Option<Residency>; MAX_TIERS]> {
        let at = *self.buffers.at.get(object.index())? as usize;
        self.buffers.changed.get(at).filter(|(of, _)| *of == object).map(|(_, change)| change)
    }

    /// Whether a tier beside this one holds the object's present contents.
    fn is_held_beside(&self, object: ObjectId, tier: Option<TierId>) -> bool {
        match self.change(object) {
            None => self.view.ledger.is_held_beside(object, tier),
            Some(_) => self.holders(object).into_iter().any(|holder| Some(holder) != tier),
        }
    }

    /// Notes what an action changes; `false` if it is refused.
    fn apply(&mut self, action: Action) -> bool {
        let is_allocated = |object, tier| self.is_allocated(object, tier);
        let beside = |object, tier| self.is_held_beside(object, tier);
        let why = refusal(&action, self.uses(), is_allocated, beside);
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
        let bytes = i128::from(self.room_of(object, tier).get());
        match (self.is_allocated(object, tier), residency != Residency::Absent) {
            (false, true) => self.taken[tier.index()] += bytes,
            (true, false) => self.taken[tier.index()] -= bytes,
            _ => {}
        }
        if self.change(object).is_none() {
            let Buffers { changed, at, .. } = &mut self.buffers;
            at.resize(self.view.workload.trace.objects.len(), 0);
            at[object.index()] = changed.len() as u32;
            changed.push((object, [None; MAX_TIERS]));
        }
        let at = self.buffers.at[object.index()] as usize;
        self.buffers.changed[at].1[tier.index()] = Some(residency);
    }
}

fn copies_out(action: &Action, object: ObjectId) -> bool {
    matches!(*action, Action::Prefetch { object: copied, to } if copied == object && to != HBM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Allocation;
    use crate::ledger::{AllocationRequest, Ledger, Slot};
    use crate::tickets::Tickets;
    use tiersim_models::hardware::Memory;
    use tiersim_models::lifetime::Workload;
    use tiersim_models::results::Lookahead;
    use tiersim_models::workload::{Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta};

    const DRAM: TierId = TierId(1);
    const NEAR: ObjectId = ObjectId(0);
    const FAR: ObjectId = ObjectId(1);
    const BOTH: ObjectId = ObjectId(2);
    const BORN: ObjectId = ObjectId(3);

    /// HBM of 100 bytes and DRAM of 50. In HBM lie 20 and 10 bytes, in DRAM 15 and the same 10; an
    /// op uses what is in DRAM and creates 30 bytes.
    fn ask(question: impl FnOnce(&mut Step<'_>)) {
        let object = |(name, bytes)| Object {
            persistent: name != "born",
            ..Object::new(name, ObjectKind::Weight, Bytes::new(bytes))
        };
        let objects = [("near", 20), ("far", 15), ("both", 10), ("born", 30)].map(object);
        let uses = vec![Use::whole(FAR, Mode::Read), Use::whole(BORN, Mode::Write)];
        let ops = vec![Op::new(0, Phase::Forward, "op", 0..2)];
        let (meta, modules) = (TraceMeta::default(), Vec::new());
        let objects = objects.into();
        let workload = Workload::new(Trace { meta, modules, objects, ops, uses });
        let memory = Memory::of([100, 50].map(Bytes::new));
        let mut ledger = Ledger::new(&memory, 4, 1);
        for (object, tier) in [(NEAR, HBM), (FAR, DRAM), (BOTH, HBM), (BOTH, DRAM)] {
            let bytes = workload.trace.objects[object.index()].bytes;
            let request =
                AllocationRequest { allocation: Allocation { object, tier, bytes }, stream: 0 };
            let allocated = ledger.allocate(request, &Tickets::default(), &mut Default::default());
            allocated.expect("there is room");
            ledger.slots_mut(object).push(Slot::new(tier, None));
        }
        let (workload, ledger, lookahead) = (&workload, &ledger, Lookahead::Past);
        question(&mut Step::new(&View { workload, ledger, occurrence: 0, total: 1, lookahead }));
    }

    #[test]
    fn a_step_shows_the_state_with_the_actions_taken() {
        ask(|step| {
            let free = |step: &Step<'_>| [HBM, DRAM].map(|tier| step.free(tier).get());
            assert_eq!((free(step), step.missing().get(), step.born().get()), ([70, 25], 45, 30));
            step.fetch(FAR, HBM);
            assert_eq!(
                (free(step), step.nearest(FAR), step.missing().get()),
                ([55, 25], Some(HBM), 30)
            );
            step.evict(NEAR, HBM, DRAM);
            assert_eq!((free(step), step.holders(NEAR).to_vec()), ([75, 5], vec![DRAM]));
            assert!(!step.fits(DRAM, Bytes::new(6)) && step.fits(DRAM, Bytes::new(5)));
            assert!(step.can_enter(FAR, DRAM) && !step.can_enter(BORN, DRAM));
            step.take_first(Action::Drop { object: BOTH, tier: DRAM });
            step.expect(BORN, HBM);
            assert_eq!((free(step), step.missing()), ([45, 15], Bytes::ZERO));
            assert!(
                step.holds(BORN, HBM) && !step.is_allocated(BOTH, DRAM) && step.stays_in_hbm(BOTH)
            );
            step.reserve(HBM, Bytes::new(50));
            assert_eq!((free(step), step.has_free(HBM, Bytes::ZERO)), ([0, 15], false));
            let after = |bytes| step.has_free_after(HBM, Bytes::new(3), Bytes::new(bytes));
            assert_eq!([7, 8].map(after), [false, true], "5 are owed");
            let [first, second, third] = step.actions() else { panic!("three actions") };
            assert_eq!(*first, Action::Drop { object: BOTH, tier: DRAM });
            assert_eq!([second, third].map(Action::object), [Some(FAR), Some(NEAR)]);
            // Only the view shows what was there when the op came.
            assert!(step.view().in_hbm(NEAR) && step.view().free(HBM).get() == 70);
        });
    }

    #[test]
    fn a_step_takes_nothing_that_the_ledger_would_refuse() {
        let drop = |object, tier| Action::Drop { object, tier };
        let evict = |object, from, to| Action::Evict { object, from, to };
        let refused = [
            (Action::Fetch { object: BORN, to: HBM }, "must exist"),
            (Action::Prefetch { object: BORN, to: DRAM }, "must exist"),
            (evict(FAR, HBM, DRAM), "must have room in the tier that it leaves"),
            (evict(NEAR, HBM, HBM), "to another tier"),
            (drop(NEAR, HBM), "the only copy"),
            (drop(NEAR, DRAM), "must have room in the tier"),
            (Action::InPlace { object: NEAR }, "only what the op uses"),
        ];
        for (action, why) in refused {
            ask(|step| {
                step.take(action);
                assert!(step.actions().is_empty(), "{action:?}");
                let refused = step.refused.as_ref().expect("it is refused");
                assert!(refused.rule.contains(why), "{refused}");
                let named = refused.said(&|_| "the object".into(), &|_| "a tier".into());
                assert!(named.contains("the object") && !named.contains("Id("), "{named}");
            });
        }
        // What was taken before counts: a copy that is the only one by now, and one that has left.
        for (before, action) in
            [(drop(BOTH, HBM), drop(BOTH, DRAM)), (evict(NEAR, HBM, DRAM), evict(NEAR, HBM, DRAM))]
        {
            ask(|step| {
                step.take(before);
                step.take(action);
                assert_eq!(step.actions(), [before]);
            });
        }
    }
}
