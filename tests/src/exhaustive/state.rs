//! One moment of a plan on a star: what is where, and when it will be.
//!
//! Moments are kept only as far as the future can tell them apart: whatever comes starts no earlier
//! than the op before has ended, so nothing is earlier than that. Free bytes of HBM are units, each
//! with the moment from which it is free. An allocation takes those that are free first: the ledger
//! takes those that were given back first, which is at best as early.
//! Invariant: `Ord` of moments is all that the search compares; residency is all that it indexes.

use crate::prelude::*;
use smallvec::SmallVec;

/// Most objects, tiers, and units of HBM.
pub(super) const OBJECTS: usize = 3;
pub(super) const TIERS: usize = 3;
pub(super) const HBM_SLOTS: usize = 8;

/// A star with whole units of memory.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Units of HBM.
    pub hbm: usize,
    /// Bytes of a unit.
    pub unit: u64,
    /// By object: its units.
    pub units: Vec<usize>,
    /// By tier outside HBM, from tier 1 on: the link's laws inwards and outwards, and use in place.
    pub tiers: Vec<[Law; 3]>,
    /// By op, in picoseconds.
    pub durations: Vec<u32>,
}

/// Something that a policy can do, or the op itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Copy to HBM.
    Fetch(usize),
    /// Copy from HBM to a tier and stay.
    Copy(usize, u8),
    /// Copy from HBM to a tier and leave.
    Leave(usize, u8),
    /// Give up the room in HBM.
    GiveUp(usize),
    /// Give up the copy in a tier outside.
    Drop(usize, u8),
    /// Run the op, with its objects born in these tiers.
    Run {
        /// In the order of births.
        births: [u8; OBJECTS],
    },
}

/// Room of an object in a tier: absent, stale or valid.
const ABSENT: u8 = 0;
const STALE: u8 = 1;
const VALID: u8 = 2;
/// Valid, fetched, and not used since.
const FRESH: u8 = 3;

/// When the contents arrived, or the room was left; and when its last user ends.
const FILLED: usize = 1 + 2 * (TIERS - 1);
const USERS: usize = FILLED + OBJECTS * TIERS;
const FREE: usize = USERS + OBJECTS * TIERS;
const MOMENTS: usize = FREE + HBM_SLOTS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    slots: [u8; OBJECTS * TIERS],
    /// The end of the last op, of the last copy of each channel, and the rest as named above.
    moments: [u32; MOMENTS],
    free: u8,
}

fn slot(object: usize, tier: usize) -> usize {
    object * TIERS + tier
}

fn channel(tier: usize, outwards: bool) -> usize {
    1 + 2 * (tier - 1) + usize::from(outwards)
}

fn on_host(workload: &Workload, op: OpId) -> bool {
    workload.trace.ops[op.index()].unit == Unit::Cpu
}

fn ps(law: Law, bytes: u64) -> u32 {
    u32::try_from(law.span_of(Bytes::new(bytes)).ps()).expect("tiny times")
}

impl State {
    /// Every way to place what exists before the first op.
    pub(super) fn starts(machine: &Machine, workload: &Workload, both: bool) -> Vec<State> {
        let nothing = State {
            slots: [ABSENT; OBJECTS * TIERS],
            moments: [0; MOMENTS],
            free: machine.hbm as u8,
        };
        let mut starts = vec![nothing];
        for (object, record) in workload.trace.objects.iter().enumerate() {
            if !record.persistent {
                continue;
            }
            let units = machine.units[object] as u8;
            let mut more = Vec::new();
            for state in starts {
                for outside in 0..=machine.tiers.len() {
                    for inside in [false, true] {
                        let holds = (outside > 0, inside);
                        let allowed = holds != (false, false) && (both || holds != (true, true));
                        if !allowed || (inside && state.free < units) {
                            continue;
                        }
                        let mut next = state;
                        if outside > 0 {
                            next.slots[slot(object, outside)] = VALID;
                        }
                        if inside {
                            next.slots[slot(object, 0)] = VALID;
                            next.free -= units;
                        }
                        more.push(next);
                    }
                }
            }
            starts = more;
        }
        starts
    }

    /// The end of the last op.
    pub(super) fn now(&self) -> u32 {
        self.moments[0]
    }

    /// What is where, as a number.
    pub(super) fn residency(&self) -> u32 {
        self.slots.iter().fold(0, |sum, &slot| 4 * sum + u32::from(slot))
    }

    /// Whether nothing here is later than there; both have the same residency.
    pub(super) fn is_no_later(&self, other: &State) -> bool {
        self.moments.iter().zip(&other.moments).all(|(own, other)| own <= other)
    }

    fn is(&self, object: usize, tier: usize, what: u8) -> bool {
        self.slots[slot(object, tier)] == what
    }

    /// The lowest tier with the contents of an object.
    pub(super) fn nearest(&self, object: usize) -> Option<TierId> {
        (0..TIERS).find(|&tier| self.slots[slot(object, tier)] >= VALID).map(TierId::at)
    }

    /// What a policy can do before an op; what cannot help is left out: objects that no op uses any
    /// more need no copy, and a lone copy outside costs nothing.
    pub(super) fn acts(
        &self,
        machine: &Machine,
        workload: &Workload,
        op: OpId,
    ) -> SmallVec<[Act; 12]> {
        let mut acts = SmallVec::new();
        for object in 0..machine.units.len() {
            let Some(nearest) = self.nearest(object) else { continue };
            let id = ObjectId::at(object);
            let later = (op.index()..workload.trace.ops.len()).map(OpId::at);
            let used =
                later.flat_map(|op| workload.trace.uses_of(op)).any(|use_| use_.object == id);
            let room = !self.is(object, 0, ABSENT);
            if used && nearest != HBM && (room || usize::from(self.free) >= machine.units[object]) {
                acts.push(Act::Fetch(object));
            }
            let outside = || (1..=machine.tiers.len()).filter(|&tier| self.is(object, tier, VALID));
            // What was fetched for nothing had better not been fetched.
            let fresh = self.is(object, 0, FRESH);
            if nearest == HBM && !fresh {
                for tier in (1..=machine.tiers.len()).filter(|&t| !self.is(object, t, VALID)) {
                    acts.push(Act::Leave(object, tier as u8));
                    if used {
                        acts.push(Act::Copy(object, tier as u8));
                    }
                }
            }
            if room && !fresh && outside().next().is_some() {
                acts.push(Act::GiveUp(object));
            }
            if outside().count() > 1 {
                acts.extend(outside().map(|tier| Act::Drop(object, tier as u8)));
            }
        }
        acts
    }

    /// Takes an action that [`State::acts`] has named.
    pub(super) fn after(mut self, machine: &Machine, act: Act) -> State {
        match act {
            Act::Fetch(object) => {
                let from = self.source(machine, object);
                self.copy(machine, object, (from, 0));
            }
            Act::Copy(object, to) => {
                self.copy(machine, object, (0, usize::from(to)));
            }
            Act::Leave(object, to) => {
                // Whoever uses the room must end before it is given up.
                let users = self.moments[USERS + slot(object, 0)];
                let channel = channel(usize::from(to), true);
                self.moments[channel] = self.moments[channel].max(users);
                let end = self.copy(machine, object, (0, usize::from(to)));
                self.leave(machine, object, 0, end);
            }
            Act::GiveUp(object) => self.give_up(machine, object, 0),
            Act::Drop(object, tier) => self.give_up(machine, object, usize::from(tier)),
            Act::Run { .. } => unreachable!("an op is run, not taken"),
        }
        self.forget();
        self
    }

    /// The quickest copy of an object to fetch, of equal ones that of the lowest tier.
    fn source(&self, machine: &Machine, object: usize) -> usize {
        let bytes = machine.units[object] as u64 * machine.unit;
        let holders = (1..=machine.tiers.len()).filter(|&tier| self.is(object, tier, VALID));
        let quickest = holders.min_by_key(|&tier| (ps(machine.tiers[tier - 1][0], bytes), tier));
        quickest.expect("a fetch has a source")
    }

    /// Copies over one channel; when it ends.
    fn copy(&mut self, machine: &Machine, object: usize, (from, to): (usize, usize)) -> u32 {
        let (channel, law) = match to {
            0 => (channel(from, false), machine.tiers[from - 1][0]),
            to => (channel(to, true), machine.tiers[to - 1][1]),
        };
        let (source, goal) = (slot(object, from), slot(object, to));
        let mut start = self.now().max(self.moments[channel]);
        start = start.max(self.moments[FILLED + source]);
        start = start.max(self.moments[FILLED + goal]).max(self.moments[USERS + goal]);
        if self.slots[goal] == ABSENT && to == 0 {
            start = start.max(self.allocate(machine.units[object]));
        }
        let end = start + ps(law, machine.units[object] as u64 * machine.unit);
        self.moments[channel] = end;
        self.slots[goal] = if to == 0 { FRESH } else { VALID };
        (self.moments[FILLED + goal], self.moments[USERS + goal]) = (end, 0);
        let users = &mut self.moments[USERS + source];
        *users = (*users).max(end);
        end
    }

    /// Takes units of HBM; from when they are free.
    fn allocate(&mut self, units: usize) -> u32 {
        let free = &mut self.moments[FREE..];
        let from = free[..units].iter().copied().max().unwrap_or(0);
        free.copy_within(units.., 0);
        let last = free.len() - units;
        free[last..].fill(0);
        self.free -= units as u8;
        from
    }

    /// Room is left at a moment.
    fn leave(&mut self, machine: &Machine, object: usize, tier: usize, at: u32) {
        let slot = slot(object, tier);
        self.slots[slot] = ABSENT;
        (self.moments[FILLED + slot], self.moments[USERS + slot]) = (at, 0);
        if tier == 0 {
            let (free, units) = (usize::from(self.free), machine.units[object]);
            self.moments[FREE + free..FREE + free + units].fill(at);
            self.free += units as u8;
        }
    }

    fn give_up(&mut self, machine: &Machine, object: usize, tier: usize) {
        let slot = slot(object, tier);
        let at = self.moments[FILLED + slot].max(self.moments[USERS + slot]);
        self.leave(machine, object, tier, at);
    }

    /// What an op creates: what begins to live, and what an op on the CPU overwrites whole that
    /// the host does not hold.
    pub(super) fn born(&self, workload: &Workload, op: OpId) -> SmallVec<[ObjectId; OBJECTS]> {
        let mut born = SmallVec::from_slice(workload.births(op));
        for touched in workload.trace.uses_of(op).iter().filter(|_| on_host(workload, op)) {
            let object = touched.object.index();
            let exists = self.nearest(object).is_some();
            if touched.mode == Mode::Write && exists && self.in_host(object).is_none() {
                born.push(touched.object);
            }
        }
        born
    }

    /// The tier in which an op on the CPU uses an object: all outside HBM are memory of the host.
    fn in_host(&self, object: usize) -> Option<usize> {
        (1..TIERS).find(|&tier| self.is(object, tier, VALID))
    }

    /// The tier in which an op uses an object.
    fn used_in(&self, workload: &Workload, op: OpId, object: usize) -> usize {
        match on_host(workload, op) {
            true => self.in_host(object).expect("it was moved or made there"),
            false => self.nearest(object).expect("it exists").index(),
        }
    }

    /// Runs an op, once for each way to place what it creates.
    pub(super) fn run(
        &self,
        machine: &Machine,
        workload: &Workload,
        op: OpId,
        ends: &mut Vec<(State, [u8; OBJECTS])>,
    ) {
        let born = self.born(workload, op);
        let on_host = on_host(workload, op);
        let uses = workload.trace.uses_of(op).iter().map(|touched| touched.object);
        let mut others = uses.filter(|object| !born.contains(object));
        if on_host && others.any(|object| self.in_host(object.index()).is_none()) {
            return;
        }
        let least = usize::from(on_host);
        let tiers = machine.tiers.len() + 1 - least;
        let mut before = *self;
        for object in born.iter().map(|object| object.index()) {
            let held = (0..TIERS).filter(|&tier| !self.is(object, tier, ABSENT));
            held.for_each(|tier| before.give_up(machine, object, tier));
        }
        for mut choice in 0..tiers.pow(born.len() as u32) {
            let (mut state, mut births, mut start) = (before, [0; OBJECTS], self.now());
            let mut fits = true;
            for (index, object) in born.iter().enumerate() {
                let (object, tier) = (object.index(), least + choice % tiers);
                choice /= tiers;
                births[index] = tier as u8;
                let slot = slot(object, tier);
                start = start.max(state.moments[FILLED + slot]);
                if tier == 0 {
                    fits &= usize::from(state.free) >= machine.units[object];
                    if !fits {
                        break;
                    }
                    start = start.max(state.allocate(machine.units[object]));
                }
                state.slots[slot] = VALID;
                (state.moments[FILLED + slot], state.moments[USERS + slot]) = (0, 0);
            }
            if fits {
                state.computes(machine, workload, op, start);
                ends.push((state, births));
            }
        }
    }

    fn computes(&mut self, machine: &Machine, workload: &Workload, op: OpId, mut start: u32) {
        let mut span = machine.durations[op.index()];
        for touched in workload.trace.uses_of(op) {
            let object = touched.object.index();
            let tier = self.used_in(workload, op, object);
            let slot = slot(object, tier);
            start = start.max(self.moments[FILLED + slot]);
            if touched.mode.writes() {
                start = start.max(self.moments[USERS + slot]);
            }
            if tier > 0 && !on_host(workload, op) {
                span += ps(machine.tiers[tier - 1][2], machine.units[object] as u64 * machine.unit);
            }
        }
        let end = start + span;
        for touched in workload.trace.uses_of(op) {
            let object = touched.object.index();
            let tier = self.used_in(workload, op, object);
            let used = slot(object, tier);
            let users = self.moments[USERS + used];
            self.moments[USERS + used] = users.max(end);
            self.slots[used] = VALID;
            if touched.mode.writes() {
                self.moments[FILLED + used] = end;
                for other in (0..TIERS).filter(|&other| other != tier) {
                    let other = &mut self.slots[slot(object, other)];
                    *other = (*other).min(STALE);
                }
            }
        }
        self.moments[0] = end;
        for object in workload.releases(op) {
            for tier in 0..TIERS {
                if !self.is(object.index(), tier, ABSENT) {
                    let slot = slot(object.index(), tier);
                    let users = self.moments[FILLED + slot].max(self.moments[USERS + slot]);
                    self.leave(machine, object.index(), tier, end.max(users));
                }
            }
        }
        self.forget();
    }

    /// Nothing starts before the last op has ended, so no earlier moment matters.
    fn forget(&mut self) {
        let now = self.now();
        let free = FREE + usize::from(self.free);
        self.moments[1..free].iter_mut().for_each(|moment| *moment = (*moment).max(now));
        self.moments[FREE..free].sort_unstable();
    }

    /// The planner's words for an act from this state, last first.
    pub(super) fn actions(
        &self,
        machine: &Machine,
        workload: &Workload,
        op: OpId,
        act: Act,
        script: &mut Vec<Action>,
    ) {
        let id = ObjectId::at;
        let tier = |tier: u8| TierId(tier);
        match act {
            Act::Fetch(object) => script.push(Action::Fetch { object: id(object), to: HBM }),
            Act::Copy(object, to) => {
                script.push(Action::Fetch { object: id(object), to: tier(to) });
            }
            Act::Leave(object, to) => {
                script.push(Action::Evict { object: id(object), from: HBM, to: tier(to) });
            }
            Act::GiveUp(object) => script.push(Action::Drop { object: id(object), tier: HBM }),
            Act::Drop(object, from) => {
                script.push(Action::Drop { object: id(object), tier: tier(from) });
            }
            // An op on the CPU pays for nothing.
            Act::Run { .. } if on_host(workload, op) => {}
            Act::Run { births } => {
                let born = workload.births(op);
                for touched in workload.trace.uses_of(op) {
                    let object = touched.object;
                    let new = born.iter().position(|&other| other == object);
                    let place = match new {
                        Some(index) => tier(births[index]),
                        None => self.nearest(object.index()).expect("it exists"),
                    };
                    if place != HBM {
                        let bytes = machine.units[object.index()] as u64 * machine.unit;
                        script.push(Action::Charge { tier: place, bytes: Bytes::new(bytes) });
                        script.push(Action::InPlace { object });
                    }
                }
            }
        }
    }
}
