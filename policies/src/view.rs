//! What a policy may see when it is asked: the op, what is where, what is free. No time.

use crate::ledger::Ledger;
use tiersim_models::hardware::{Capacity, HBM};
use tiersim_models::ids::{ModuleId, ObjectId, OpId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::Lookahead;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, Op, Use};

/// The state of the plan before one op.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) ledger: &'a Ledger,
    pub(crate) occurrence: u64,
    pub(crate) total: u64,
    pub(crate) lookahead: Lookahead,
}

impl<'a> View<'a> {
    /// How many ops come before this one in the run.
    pub fn occurrence(&self) -> u64 {
        self.occurrence
    }

    /// How many replays of the trace come before that of this op.
    pub fn replay(&self) -> u64 {
        self.occurrence / self.workload.trace.ops.len() as u64
    }

    /// The op that the policy is asked about.
    pub fn op(&self) -> &'a Op {
        &self.workload.trace.ops[self.op_id(self.occurrence).index()]
    }

    /// Its objects.
    pub fn uses(&self) -> &'a [Use] {
        self.workload.trace.uses_of(self.op_id(self.occurrence))
    }

    /// Modules whose forward ends with this op, with the bytes of their output.
    pub fn outputs(&self) -> &'a [(ModuleId, Bytes)] {
        self.workload.outputs(self.op_id(self.occurrence))
    }

    /// Modules whose weights this op is the first of its pass to use, with their weight bytes.
    pub fn weights(&self) -> &'a [(ModuleId, Bytes)] {
        self.workload.weights(self.op_id(self.occurrence))
    }

    /// The objects of the op `ahead` ops later (0 is this one); `None` past the end of the run or
    /// beyond the policy's declared lookahead.
    pub fn ahead(&self, ahead: u64) -> Option<&'a [Use]> {
        Some(self.workload.trace.uses_of(self.op_ahead(ahead)?))
    }

    /// Bytes that the op `ahead` ops later newly allocates; `None` as for [`View::ahead`].
    pub fn births_ahead(&self, ahead: u64) -> Option<Bytes> {
        let born = self.workload.births(self.op_ahead(ahead)?);
        Some(born.iter().map(|&object| self.object(object).bytes).sum())
    }

    /// An object's record.
    pub fn object(&self, object: ObjectId) -> &'a Object {
        &self.workload.trace.objects[object.index()]
    }

    /// Whether the tier holds the object's present contents.
    pub fn holds(&self, object: ObjectId, tier: TierId) -> bool {
        self.ledger.holds(object, tier)
    }

    /// Whether HBM holds the object's present contents.
    pub fn in_hbm(&self, object: ObjectId) -> bool {
        self.holds(object, HBM)
    }

    /// Whether the object has room in the tier, be its contents present or stale.
    pub fn is_allocated(&self, object: ObjectId, tier: TierId) -> bool {
        self.ledger.is_allocated(object, tier)
    }

    /// The nearest tier that holds the object's present contents; `None` before its birth.
    pub fn nearest(&self, object: ObjectId) -> Option<TierId> {
        self.ledger.nearest(object)
    }

    /// Whether the object has room outside HBM, be its contents there present or stale.
    pub fn is_outside(&self, object: ObjectId) -> bool {
        self.ledger.slots(object).iter().any(|slot| slot.tier != HBM)
    }

    /// Whether free bytes are all that counts in the tier.
    pub fn is_exact(&self, tier: TierId) -> bool {
        self.ledger.is_exact(tier)
    }

    /// Whether the object exists by now.
    pub fn exists(&self, object: ObjectId) -> bool {
        self.ledger.exists(object)
    }

    /// Bytes in no object's room, as the tier's allocator counts them (rounded up as it does). In
    /// an exact tier, the default, all of them can be allocated. In others one object needs them in
    /// one piece: [`View::fits`] says whether there is one,
    /// and [`crate::policy::Policy::make_room`] is asked where there is not.
    pub fn free(&self, tier: TierId) -> Bytes {
        self.ledger.free(tier)
    }

    /// Whether no object has room in the tier.
    pub fn is_empty(&self, tier: TierId) -> bool {
        self.ledger.held(tier).allocated == Bytes::ZERO
    }

    /// Whether one object of so many bytes can be allocated in the tier.
    pub fn fits(&self, tier: TierId, bytes: Bytes) -> bool {
        self.ledger.fits(tier, bytes, self.op().stream)
    }

    /// What an object takes in a tier: its bytes, or fewer where the tier stores it packed.
    pub fn room_of(&self, object: ObjectId, tier: TierId) -> Bytes {
        self.ledger.room_of(object, tier, self.object(object).bytes)
    }

    /// What objects can have of the tier.
    pub fn capacity(&self, tier: TierId) -> Capacity {
        self.ledger.capacity(tier)
    }

    fn op_ahead(&self, ahead: u64) -> Option<OpId> {
        let visible = match self.lookahead {
            Lookahead::Past => ahead == 0,
            Lookahead::Window(window) => ahead <= u64::from(window),
            Lookahead::Oracle => true,
        };
        let occurrence = self.occurrence.checked_add(ahead)?;
        (visible && occurrence < self.total).then(|| self.op_id(occurrence))
    }

    fn op_id(&self, occurrence: u64) -> OpId {
        OpId::at((occurrence % self.workload.trace.ops.len() as u64) as usize)
    }
}
