//! Rows of the trace: one op per group of layers and iteration, behind it what ranks do together
//! where matrices are split, and one that waits for arrivals where an iteration begins with new
//! requests.
//!
//! Objects: the tables, the weights of each group, the head, per block one object for each group,
//! and per iteration what its ops hand on. Blocks live from the op that writes them first to the
//! last one before they have to go.
//! Invariant: an op names an object once.

use super::cost::{Cost, Load};
use super::pool::BlockId;
use super::{GroupWork, MAX_USES, Serving, ServingProblem};
use crate::build::Builder;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::kernel::Kernel;
use tiersim_models::units::{Bytes, Time};
use tiersim_models::workload::{
    Mode, ObjectKind, Op, PartialUse, Phase, Recorded, Trace, TraceMeta, Unit, Use,
};

/// An iteration touches a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    pub(super) block: BlockId,
    /// Reads, or writes and perhaps reads too.
    pub(super) mode: Mode,
    /// Tokens that are added to it.
    pub(super) fresh: u64,
    /// Whether it is read in layers too that attend to a window.
    pub(super) is_near: bool,
    /// Whether a request finds it that has not computed it.
    pub(super) reused: bool,
}

/// A trace in the making.
pub(super) struct Emit<'a> {
    job: &'a Serving,
    build: Builder,
    /// Modules: the tables, the groups, the head.
    tables: ObjectId,
    weights: Vec<ObjectId>,
    head: ObjectId,
    /// By block: its first object, once it has been written.
    blocks: Vec<Option<ObjectId>>,
    /// Bytes of a block, by group.
    block_bytes: Vec<u64>,
    steps: u32,
    reuses: Vec<(OpId, ObjectId)>,
}

impl<'a> Emit<'a> {
    pub(super) fn new(job: &'a Serving, cost: &Cost) -> Result<Emit<'a>, ServingProblem> {
        let groups =
            cost.groups.iter().map(|layers| format!("layers.{}-{}", layers.start, layers.end - 1));
        let modules = ["embedding".to_owned()].into_iter().chain(groups).chain(["head".to_owned()]);
        let meta = TraceMeta {
            name: format!("{}-serve", job.card.name),
            about: format!(
                "requests served by {}: iterations of continuous batching with at most {} requests and \
                 {} tokens, {} blocks of {} tokens; no durations were recorded",
                job.card.name,
                job.max_batch,
                job.max_tokens_per_step,
                job.kv_blocks,
                job.block_tokens
            ),
            precision: job.formats.weights.word().to_owned(),
            batch: 1,
            sequence: 1,
            recorded: Recorded::default(),
        };
        let row = u64::from(job.block_tokens) * job.kv_bytes();
        let block_bytes = cost.groups.iter().map(|layers| layers.len() as u64 * row).collect();
        let bytes = std::iter::once(cost.tables())
            .chain((0..cost.groups.len()).map(|group| cost.weights(group)))
            .chain([cost.head()]);
        let mut build = Builder::new(meta);
        let mut weights = Vec::new();
        for (name, bytes) in modules.zip(bytes) {
            let module = build.module(&name);
            let size = (u64::try_from(bytes).map_err(overflow)?.into(), job.formats.weights);
            let name = format!("{name}.weight");
            let weight = build.object(name, ObjectKind::Weight, size, Some(module));
            weights.push(build.persist(weight));
        }
        let head = weights.pop().expect("a head is there");
        let tables = weights.remove(0);
        let (blocks, reuses) = Default::default();
        Ok(Emit { job, build, tables, weights, head, blocks, block_bytes, steps: 0, reuses })
    }

    fn object(
        &mut self,
        name: String,
        kind: ObjectKind,
        bytes: u64,
        module: Option<ModuleId>,
    ) -> ObjectId {
        self.build.object(name, kind, (bytes.into(), self.job.formats.of(kind)), module)
    }

    /// The ops of an iteration; returns the first that computes, and the last. `touched` is sorted
    /// by block, those that write first.
    pub(super) fn iteration(
        &mut self,
        phase: Phase,
        release: Option<Time>,
        load: &Load,
        cost: &mut Cost,
        touched: &[Touched],
    ) -> Result<(OpId, OpId), ServingProblem> {
        let groups = cost.groups.len();
        let rows = (self.build.trace.uses.len() + (touched.len() + 8) * groups) as u64;
        if rows > MAX_USES {
            return Err(ServingProblem::Rows(MAX_USES));
        }
        self.reuses.clear();
        if let Some(release) = release {
            // What the policy does for the next op happens when this one has ended: not before.
            let at = self.build.trace.uses.len() as u32;
            let (unit, release) = (Unit::Idle, Some(release));
            let arrival = Op::new(self.steps, phase, "arrival", at..at);
            self.build.trace.ops.push(Op { unit, release, ..arrival });
        }
        let mut ops = Vec::with_capacity(groups);
        let work = u64::try_from(cost.workspace(load)).map_err(overflow)?;
        let work = self.object(format!("i{}.work", self.steps), ObjectKind::Activation, work, None);
        let modes = self.modes(touched);
        for group in 0..groups {
            let GroupWork { kernels, collectives } = cost.of(load, group);
            let sum = |of: &dyn Fn(&Kernel) -> u64| {
                let all = kernels.iter().map(|one| u128::from(of(one)) * u128::from(one.times));
                u64::try_from(all.sum::<u128>()).map_err(overflow)
            };
            let (flops, bytes) = (sum(&|one| one.flops)?, sum(&|one| one.bytes.get())?);
            let start = self.build.trace.uses.len() as u32;
            let read = |object| Use::whole(object, Mode::Read);
            let (ends, tied) = (group + 1 == groups, self.job.card.tied);
            let tables = match () {
                () if ends && tied => Some(read(self.tables)),
                () if group == 0 => Some(Use { part: cost.looked_up(load), ..read(self.tables) }),
                () => None,
            };
            let head = ends.then_some(read(self.head));
            let mode = if group == 0 { Mode::Write } else { Mode::ReadWrite };
            let fixed = [Some(read(self.weights[group])), Some(Use::whole(work, mode))];
            let fixed = tables.into_iter().chain(fixed.into_iter().flatten()).chain(head);
            self.build.trace.uses.extend(fixed);
            // Keys and values of each layer lie apart.
            let each = u128::from(self.job.card.cached(self.job.tensor).1);
            let pieces = each * cost.groups[group].len() as u128;
            let full = each * u128::from(cost.full_layers(group));
            let held = self.block_bytes[group];
            let token = u128::from(held) / pieces / u128::from(self.job.block_tokens);
            let block = |&(object, Touched { mode, fresh, is_near, .. }): &(ObjectId, Touched)| {
                let (pieces, bytes) = match mode {
                    Mode::Read => {
                        let read = if is_near { pieces } else { full };
                        (read, u128::from(held) / pieces)
                    }
                    _ => (pieces, token * u128::from(fresh)),
                };
                let part = PartialUse::of(pieces, bytes, Bytes::new(held));
                let part = part.filter(|_| mode != Mode::Write);
                let object = ObjectId(object.0 + group as u32);
                (pieces > 0).then_some(Use { part, ..Use::whole(object, mode) })
            };
            self.build.trace.uses.extend(modes.iter().filter_map(block));
            let end = self.build.trace.uses.len() as u32;
            let name = if phase == Phase::Prefill { "prefill" } else { "decode" };
            let module = Some(ModuleId::at(group + 1));
            ops.push(OpId::at(self.build.trace.ops.len()));
            self.build.trace.ops.push(Op {
                module,
                flops,
                bytes: Bytes::new(bytes),
                kernels: Some(kernels.into()),
                ..Op::new(self.steps, phase, name, start..end)
            });
            for collective in collectives {
                let at = self.build.trace.uses.len() as u32;
                self.build.trace.uses.push(Use::whole(work, Mode::ReadWrite));
                let name = collective.kind.word();
                let op = Op::new(self.steps, phase, name, at..at + 1);
                self.build.trace.ops.push(Op { module, unit: Unit::Network(collective), ..op });
            }
        }
        self.note_reuses(touched, &ops, cost);
        self.steps += 1;
        Ok((ops[0], OpId::at(self.build.trace.ops.len() - 1)))
    }

    /// The first object of each block that is touched, once, and how; makes those that are not
    /// there.
    fn modes(&mut self, touched: &[Touched]) -> Vec<(ObjectId, Touched)> {
        let mut modes = Vec::with_capacity(touched.len());
        let mut before = None;
        for one in touched.iter().filter(|one| before.replace(one.block) != Some(one.block)) {
            let index = one.block as usize;
            if self.blocks.len() <= index {
                self.blocks.resize(index + 1, None);
            }
            modes.push(match self.blocks[index] {
                Some(object) => (object, *one),
                None => (self.make(one.block), Touched { mode: Mode::Write, ..*one }),
            });
        }
        modes
    }

    fn make(&mut self, block: BlockId) -> ObjectId {
        let first = ObjectId::at(self.build.trace.objects.len());
        for group in 0..self.block_bytes.len() {
            let (bytes, module) = (self.block_bytes[group], ModuleId::at(group + 1));
            self.object(format!("kv.{block}.{group}"), ObjectKind::Kv, bytes, Some(module));
        }
        self.blocks[block as usize] = Some(first);
        first
    }

    fn note_reuses(&mut self, touched: &[Touched], ops: &[OpId], cost: &Cost) {
        for one in touched.iter().filter(|one| one.reused) {
            let object = self.blocks[one.block as usize].expect("it is touched");
            let reads = |group: usize| one.is_near || cost.full_layers(group) > 0;
            let ops = ops.iter().enumerate().filter(|&(group, _)| reads(group));
            let part = |(group, &op): (usize, &OpId)| (op, ObjectId(object.0 + group as u32));
            self.reuses.extend(ops.map(part));
        }
    }

    /// What the last iteration found.
    pub(super) fn reuses(&self) -> impl Iterator<Item = (OpId, ObjectId)> {
        let mut all = self.reuses.clone();
        all.sort_unstable();
        all.into_iter()
    }

    /// A block goes before the next op.
    pub(super) fn forget(&mut self, block: BlockId) {
        let last = OpId::at(self.build.trace.ops.len() - 1);
        self.freed_after(block, last);
    }

    fn freed_after(&mut self, block: BlockId, op: OpId) {
        let Some(Some(first)) = self.blocks.get(block as usize).copied() else { return };
        for object in
            &mut self.build.trace.objects[first.index()..first.index() + self.block_bytes.len()]
        {
            object.freed_after = Some(op);
        }
    }

    /// The trace; `kept` blocks are there at its end.
    pub(super) fn finish(mut self, kept: impl Iterator<Item = BlockId>) -> Trace {
        if let Some(last) = self.build.trace.ops.len().checked_sub(1).map(OpId::at) {
            kept.for_each(|block| self.freed_after(block, last));
        }
        self.build.trace
    }
}

/// A number that is too large for the rows of a trace.
fn overflow(_: std::num::TryFromIntError) -> ServingProblem {
    ServingProblem::Overflow
}
