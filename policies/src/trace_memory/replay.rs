//! A trace's requests through an allocator, one after the other.
//!
//! Compaction acts as in a run: after every op where fragmentation is above its threshold, and
//! before a request that fits into no piece though its bytes are free.
//! Invariant: every object has one live block from its request to its release.

use std::collections::BTreeMap;
use tiersim_models::allocator::{Allocator, AllocatorBlock, AllocatorSpec, Full, Model};
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::memory_use::Share;
use tiersim_models::results::trace_memory::{Refused, Served};
use tiersim_models::units::Bytes;

/// An allocator and who has which block.
pub(super) struct Held<'a> {
    spec: &'a AllocatorSpec,
    model: Box<dyn Allocator>,
    blocks: BTreeMap<ObjectId, AllocatorBlock>,
    owners: BTreeMap<u64, ObjectId>,
    /// What it came to.
    pub(super) served: Served,
    ops: u64,
}

impl<'a> Held<'a> {
    /// Nothing in `capacity`.
    pub(super) fn new(spec: &'a AllocatorSpec, capacity: Bytes) -> Held<'a> {
        let (blocks, owners) = (BTreeMap::new(), BTreeMap::new());
        let model = spec.build(capacity);
        Held { spec, model, blocks, owners, served: Served::default(), ops: 0 }
    }

    /// Takes memory for an object; one of no bytes has no address.
    pub(super) fn take(&mut self, object: ObjectId, bytes: Bytes, stream: u16) -> Result<(), Full> {
        if bytes == Bytes::ZERO {
            return Ok(());
        }
        if self.spec.compaction.is_some()
            && !self.model.fits(bytes, stream)
            && self.model.stats().free >= bytes
        {
            self.compact();
        }
        let block = self.model.alloc(bytes, stream)?;
        self.blocks.insert(object, block);
        self.owners.insert(block.at, object);
        let stats = self.model.stats();
        self.served.allocated = self.served.allocated.max(stats.allocated);
        self.served.reserved = self.served.reserved.max(stats.reserved);
        Ok(())
    }

    /// Gives an object's memory back, if it has any here.
    pub(super) fn give(&mut self, object: ObjectId) {
        if let Some(block) = self.blocks.remove(&object) {
            self.owners.remove(&block.at);
            self.model.free(block);
        }
    }

    /// Bytes kept from others now.
    pub(super) fn reserved(&self) -> Bytes {
        self.model.stats().reserved
    }

    fn compact(&mut self) {
        let budget = self.spec.compaction.and_then(|compaction| compaction.at_once);
        let moves = self.model.compact(budget.unwrap_or(Bytes::MAX));
        if moves.is_empty() {
            return;
        }
        let owner = |was: AllocatorBlock| self.owners[&was.at];
        let moved: Vec<_> = moves.iter().map(|(was, is)| (owner(was), was, is)).collect();
        for (_, was, _) in &moved {
            self.owners.remove(&was.at);
        }
        for (object, _, is) in moved {
            self.owners.insert(is.at, object);
            self.blocks.insert(object, is);
        }
        self.served.compactions += 1;
        self.served.moved += moves.bytes;
    }

    /// An op has ended: moves what is due, and notes how fragmented memory is then.
    pub(super) fn op_ends(&mut self) {
        let fragmented = |by| self.model.stats().of(by);
        if self.spec.compaction.is_some_and(|set| fragmented(set.by) > set.above) {
            self.compact();
        }
        let stats = self.model.stats();
        self.ops += 1;
        let values = [stats.external(), stats.internal(), stats.total()];
        let Served { external, internal, total, .. } = &mut self.served;
        for (share, value) in [external, internal, total].into_iter().zip(values) {
            let mean = share.mean + (value - share.mean) / self.ops as f64;
            *share = Share { mean, highest: share.highest.max(value), end: value };
        }
    }
}

/// Serves all of a trace in `capacity`.
///
/// # Errors
/// The first request that was refused.
pub fn serve(
    workload: &Workload,
    spec: &AllocatorSpec,
    capacity: Bytes,
) -> Result<Served, Refused> {
    let mut held = Held::new(spec, capacity);
    let objects = &workload.trace.objects;
    let refused = |object: ObjectId, op: Option<OpId>| {
        move |Full { need, free, largest }: Full| {
            let object = objects[object.index()].name.to_string();
            Refused { object, op: op.map(OpId::index), need, free, largest }
        }
    };
    let first = workload.trace.ops.first().map_or(0, |op| op.stream);
    for (index, object) in objects.iter().enumerate().filter(|(_, object)| object.persistent) {
        let id = ObjectId::at(index);
        held.take(id, object.bytes, first).map_err(refused(id, None))?;
    }
    for op in (0..workload.trace.ops.len()).map(OpId::at) {
        let stream = workload.trace.ops[op.index()].stream;
        for &id in workload.births(op) {
            held.take(id, objects[id.index()].bytes, stream).map_err(refused(id, Some(op)))?;
        }
        workload.releases(op).iter().for_each(|&id| held.give(id));
        held.op_ends();
    }
    Ok(held.served)
}

/// Fewest bytes of blocks that an allocator can do with: those of objects, rounded where every
/// block of the model is.
pub(super) fn least_blocks(workload: &Workload, spec: &AllocatorSpec) -> Bytes {
    let granule = spec.model.granule().get();
    match spec.model {
        Model::Pool => floor(workload, |bytes| bytes.next_multiple_of(granule)),
        _ => Bytes::new(floor(workload, |bytes| bytes).get().next_multiple_of(granule)),
    }
}

/// The most bytes that are live at once, each object as `rounded`.
pub(super) fn floor(workload: &Workload, rounded: impl Fn(u64) -> u64) -> Bytes {
    let objects = &workload.trace.objects;
    let of = |id: &ObjectId| rounded(objects[id.index()].bytes.get());
    let persistent = objects.iter().filter(|object| object.persistent);
    let mut live: u64 = persistent.map(|object| rounded(object.bytes.get())).sum();
    let mut most = live;
    for op in (0..workload.trace.ops.len()).map(OpId::at) {
        live += workload.births(op).iter().map(of).sum::<u64>();
        most = most.max(live);
        live -= workload.releases(op).iter().map(of).sum::<u64>();
    }
    Bytes::new(most)
}
