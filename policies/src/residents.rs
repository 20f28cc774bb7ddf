//! Who can stay in HBM so that every op still finds room for what it uses, and where the rest goes.
//!
//! What a run must have there anyway is known from the workload: the objects of each op, be they
//! residents or visitors, at the time of that op. A resident takes its room also while it idles.
//! Whoever stays is asked once, in the order that a policy prefers; a tree of maxima over the ops
//! answers in the logarithm of their number.
//! Invariant: with exact memory and a plan that fetches on demand, no op lacks room for its objects
//! because of a resident.

use crate::access::Access;
use crate::policy::Policy;
use crate::recipe::Setting;
use crate::static_placement::StaticPlacement;
use crate::visits::Visits;
use std::cmp::Ordering;
use std::ops::Range;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{ObjectId, OpId, TierId};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Trace};

/// A placement under construction.
#[derive(Clone, Debug)]
pub struct Residents<'a> {
    trace: &'a Trace,
    /// What the workload does with each object.
    pub visits: Visits,
    access: Access,
    hbm: Headroom,
    spill: Vec<(TierId, Headroom)>,
    homes: Vec<Option<TierId>>,
}

impl<'a> Residents<'a> {
    /// Nobody is at home anywhere yet. What cannot stay goes to `spill`, in order.
    pub fn new(setting: &Setting<'a>, access: Access, spill: &[TierId]) -> Residents<'a> {
        let trace = &setting.workload.trace;
        let ops = trace.ops.len();
        let visiting = |op: usize| match access {
            Access::InPlace(_) => 0,
            Access::Migrate { .. } => {
                let uses = trace.uses_of(OpId::at(op)).iter();
                uses.map(|touched| wide(trace.objects[touched.object.index()].bytes)).sum()
            }
        };
        let room = |tier: TierId, held: Vec<i128>| {
            Headroom::new(setting.memory.usable(tier).most(), &held)
        };
        let beyond = spill.iter().filter(|&&tier| tier != HBM);
        Residents {
            trace,
            visits: Visits::new(setting.workload),
            access,
            hbm: room(HBM, (0..ops).map(visiting).collect()),
            spill: beyond.map(|&tier| (tier, room(tier, vec![0; ops]))).collect(),
            homes: vec![None; trace.objects.len()],
        }
    }

    /// The objects of these kinds that ever exist, in the order of the trace's table.
    pub fn of_kinds(&self, kinds: &[ObjectKind]) -> Vec<ObjectId> {
        let objects = (0..self.trace.objects.len()).map(ObjectId::at);
        let asked = |object: &ObjectId| {
            kinds.contains(&self.trace.objects[object.index()].kind)
                && !self.visits.life(*object).is_empty()
        };
        objects.filter(asked).collect()
    }

    /// An object's size.
    pub fn bytes(&self, object: ObjectId) -> Bytes {
        self.trace.objects[object.index()].bytes
    }

    /// Whether an object that visits HBM takes room there while an op uses it, as residents do.
    pub fn visitors_count(&self) -> bool {
        matches!(self.access, Access::Migrate { .. })
    }

    /// Bytes that a replay saves if the object stays.
    pub fn saved(&self, object: ObjectId) -> u64 {
        self.visits.saved(object, self.bytes(object), self.access)
    }

    /// Which of two objects saves more for what it holds: moved bytes per byte and idle op. Equal
    /// ones by size, the smaller first.
    pub fn denser(&self, a: ObjectId, b: ObjectId) -> Ordering {
        let cost =
            |object| u128::from(self.bytes(object).get()) * u128::from(self.visits.idle(object));
        // A quotient, so that the order is total: what costs nothing comes first, and products of
        // large numbers do not overflow.
        let density = |object| match cost(object) {
            0 => f64::INFINITY,
            cost => self.saved(object) as f64 / cost as f64,
        };
        let smaller = || self.bytes(a).cmp(&self.bytes(b)).then(a.cmp(&b));
        density(b).total_cmp(&density(a)).then_with(smaller)
    }

    /// Keeps objects of all other kinds, those that idle least first: what a rule does not speak of
    /// stays where it is made, if it can.
    pub fn keep_others(&mut self, kinds: &[ObjectKind]) {
        let others: Vec<ObjectKind> =
            ObjectKind::ALL.into_iter().filter(|kind| !kinds.contains(kind)).collect();
        let mut objects = self.of_kinds(&others);
        objects.sort_by_key(|&object| (self.visits.idle(object), object));
        self.place(&objects);
    }

    /// Nobody takes so many bytes of HBM from here on: they are for what is fetched ahead.
    pub fn reserve(&mut self, bytes: Bytes) {
        self.hbm.capacity -= wide(bytes);
    }

    /// Keeps those that find room, in this order, and sends the others away.
    pub fn place(&mut self, objects: &[ObjectId]) {
        for &object in objects {
            self.keep(object);
        }
        for &object in objects {
            self.send(object);
        }
    }

    /// Keeps an object in HBM if every op of its life still has room; says whether it stays.
    pub fn keep(&mut self, object: ObjectId) -> bool {
        if let Some(home) = self.homes[object.index()] {
            return home == HBM;
        }
        let bytes = wide(self.bytes(object));
        let (life, uses) = (self.visits.life(object), self.visits.uses(object));
        let counted = self.visitors_count();
        let change = |room: &mut Headroom, bytes: i128| {
            room.add(life.clone(), bytes);
            for &(op, _) in uses.iter().filter(|_| counted) {
                room.add(op..op + 1, -bytes);
            }
        };
        change(&mut self.hbm, bytes);
        let stays = self.hbm.most(life.clone()) <= self.hbm.capacity;
        if stays {
            self.homes[object.index()] = Some(HBM);
        } else {
            change(&mut self.hbm, -bytes);
        }
        stays
    }

    /// Keeps all of these objects in HBM or none; says whether they stay. They are at home nowhere
    /// yet.
    pub fn keep_all(&mut self, objects: &[ObjectId]) -> bool {
        for (kept, &object) in objects.iter().enumerate() {
            if !self.keep(object) {
                objects[..kept].iter().for_each(|&object| self.leave(object));
                return false;
            }
        }
        true
    }

    /// An object that was kept is at home nowhere again.
    fn leave(&mut self, object: ObjectId) {
        let bytes = wide(self.bytes(object));
        self.hbm.add(self.visits.life(object), -bytes);
        if self.visitors_count() {
            for &(op, _) in self.visits.uses(object) {
                self.hbm.add(op..op + 1, bytes);
            }
        }
        self.homes[object.index()] = None;
    }

    /// Gives an object that is at home nowhere a tier of those to send to, if that has room for all
    /// its life; says whether it has.
    pub fn put(&mut self, object: ObjectId, tier: TierId) -> bool {
        let (bytes, life) = (wide(self.bytes(object)), self.visits.life(object));
        let Some((_, room)) = self.spill.iter_mut().find(|(other, _)| *other == tier) else {
            return false;
        };
        room.add(life.clone(), bytes);
        let fits = room.most(life.clone()) <= room.capacity;
        if fits {
            self.homes[object.index()] = Some(tier);
        } else {
            room.add(life, -bytes);
        }
        fits
    }

    /// Takes an object away from where it was put.
    pub fn take(&mut self, object: ObjectId, tier: TierId) {
        let (bytes, life) = (wide(self.bytes(object)), self.visits.life(object));
        if let Some((_, room)) = self.spill.iter_mut().find(|(other, _)| *other == tier) {
            room.add(life, -bytes);
        }
        self.homes[object.index()] = None;
    }

    /// Sends an object that is at home nowhere to the first tier that has room for all its life.
    /// If none has, or there is none, its home is decided when the run is there.
    pub fn send(&mut self, object: ObjectId) {
        if self.homes[object.index()].is_some() {
            return;
        }
        let tiers: Vec<TierId> = self.spill.iter().map(|(tier, _)| *tier).collect();
        if tiers.into_iter().any(|tier| self.put(object, tier)) {
            return;
        }
        self.homes[object.index()] = Some(self.spill.first().map_or(HBM, |(tier, _)| *tier));
    }

    /// Whether an object was given HBM as its home.
    pub fn stays(&self, object: ObjectId) -> bool {
        self.homes[object.index()] == Some(HBM)
    }

    /// Bytes of HBM that stay free throughout these ops.
    pub fn free(&self, ops: Range<u32>) -> Bytes {
        let free = self.hbm.capacity - self.hbm.most(ops);
        Bytes::new(u64::try_from(free.max(0)).unwrap_or(u64::MAX))
    }

    /// The home of every object, by object id; those that were not asked about are in HBM.
    pub fn homes(self) -> Vec<TierId> {
        self.homes.into_iter().map(|home| home.unwrap_or(HBM)).collect()
    }
}

/// The policy of these homes: what stays leaves for a tier of `spill`, or any other, only where an
/// op does not fit otherwise. It was made of the whole trace.
pub fn policy_of(
    (name, homes): (&'static str, Vec<TierId>),
    access: Access,
    spill: &[TierId],
    setting: &Setting<'_>,
) -> Box<dyn Policy> {
    let placed = StaticPlacement::of_objects(name, &setting.workload.trace, homes, access);
    Box::new(placed.spilling(&spill_through(spill, setting.hardware)).foreseen())
}

/// These tiers without HBM, each once: all that a policy may use whose framework was given no more.
pub fn spill_among(named: impl IntoIterator<Item = TierId>) -> Vec<TierId> {
    let mut tiers: Vec<TierId> = Vec::new();
    for tier in named {
        if tier != HBM && !tiers.contains(&tier) {
            tiers.push(tier);
        }
    }
    tiers
}

/// These tiers without HBM, each once, and then the machine's others.
pub fn spill_through(first: &[TierId], hardware: &Hardware) -> Vec<TierId> {
    spill_among(first.iter().copied().chain(hardware.tier_ids()))
}

fn wide(bytes: Bytes) -> i128 {
    i128::from(bytes.get())
}

/// Bytes held in a tier during each op: a tree in which a node knows the most of its range.
#[derive(Clone, Debug)]
struct Headroom {
    capacity: i128,
    leaves: usize,
    /// By node: the most of its range without what its ancestors add.
    most: Vec<i128>,
    /// By node: what is added to all of its range.
    added: Vec<i128>,
}

impl Headroom {
    fn new(capacity: Bytes, held: &[i128]) -> Headroom {
        let leaves = held.len().next_power_of_two().max(1);
        let mut most = vec![0; 2 * leaves];
        most[leaves..leaves + held.len()].copy_from_slice(held);
        for node in (1..leaves).rev() {
            most[node] = most[2 * node].max(most[2 * node + 1]);
        }
        Headroom { capacity: wide(capacity), leaves, most, added: vec![0; 2 * leaves] }
    }

    fn add(&mut self, ops: Range<u32>, bytes: i128) {
        self.add_below(1, 0..self.leaves, &(ops.start as usize..ops.end as usize), bytes);
    }

    fn add_below(&mut self, node: usize, span: Range<usize>, ops: &Range<usize>, bytes: i128) {
        if ops.end <= span.start || span.end <= ops.start {
            return;
        }
        if ops.start <= span.start && span.end <= ops.end {
            self.most[node] += bytes;
            self.added[node] += bytes;
            return;
        }
        let middle = span.start + span.len() / 2;
        self.add_below(2 * node, span.start..middle, ops, bytes);
        self.add_below(2 * node + 1, middle..span.end, ops, bytes);
        self.most[node] = self.added[node] + self.most[2 * node].max(self.most[2 * node + 1]);
    }

    /// The most that is held during any of these ops; 0 for none.
    fn most(&self, ops: Range<u32>) -> i128 {
        let ops = ops.start as usize..ops.end as usize;
        self.most_below(1, 0..self.leaves, &ops).unwrap_or(0)
    }

    fn most_below(&self, node: usize, span: Range<usize>, ops: &Range<usize>) -> Option<i128> {
        if ops.end <= span.start || span.end <= ops.start {
            return None;
        }
        if ops.start <= span.start && span.end <= ops.end {
            return Some(self.most[node]);
        }
        let middle = span.start + span.len() / 2;
        let left = self.most_below(2 * node, span.start..middle, ops);
        let right = self.most_below(2 * node + 1, middle..span.end, ops);
        left.max(right).map(|most| most + self.added[node])
    }
}
