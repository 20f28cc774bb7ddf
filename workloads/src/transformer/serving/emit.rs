//! Rows of the trace: one op per group of layers and iteration, behind it what ranks do together
//! where matrices are split, and one that waits for arrivals where an iteration begins with new
//! requests.
//!
//! Objects: the tables, the weights of each group, the head, per block one object for each group, or
//! two where some of its layers attend to a window, and per iteration what its ops hand on. Blocks
//! live from the op that writes them first to the last one before they have to go; without a name
//! the part of a window goes when the window has passed it.
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

/// What a block is made of: keys and values of layers of one group that attend alike.
#[derive(Clone, Copy, Debug)]
struct Part {
    group: usize,
    bytes: u64,
    /// Pieces that lie apart: keys and values of each layer.
    pieces: u128,
    /// Whether its layers attend to all positions, and not to a window.
    is_full: bool,
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
    /// What each block is made of, group by group.
    parts: Vec<Part>,
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
            precision: job.formats.products().word().to_owned(),
            batch: 1,
            sequence: 1,
            recorded: Recorded::default(),
        };
        let (row, each) = (u64::from(job.block_tokens) * job.kv_bytes(), job.card.cached(1).1);
        let parts = cost.groups.iter().enumerate().flat_map(|(group, layers)| {
            let full = cost.full_layers(group);
            let sorts = [(full, true), (layers.len() as u64 - full, false)];
            sorts.map(|(layers, is_full)| {
                let pieces = u128::from(layers * each);
                Part { group, bytes: layers * row, pieces, is_full }
            })
        });
        let parts = parts.filter(|part| part.pieces > 0).collect();
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
        Ok(Emit { job, build, tables, weights, head, blocks, parts, steps: 0, reuses })
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
        let rows = touched.len() * self.parts.len() + 8 * groups;
        let rows = (self.build.trace.uses.len() + rows) as u64;
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
            let of_group = self.parts.iter().enumerate().filter(|(_, part)| part.group == group);
            for (index, part) in of_group {
                let block = |&(first, touched): &(ObjectId, Touched)| {
                    let object = ObjectId(first.0 + index as u32);
                    part.used(object, touched, self.job.block_tokens)
                };
                self.build.trace.uses.extend(modes.iter().filter_map(block));
            }
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
        self.note_reuses(touched, &ops);
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
        for Part { group, bytes, is_full, .. } in self.parts.clone() {
            let is_one = self.parts.iter().filter(|part| part.group == group).count() == 1;
            let near = if is_full || is_one { "" } else { ".window" };
            let name = format!("kv.{block}.{group}{near}");
            self.object(name, ObjectKind::Kv, bytes, Some(ModuleId::at(group + 1)));
        }
        self.blocks[block as usize] = Some(first);
        first
    }

    fn note_reuses(&mut self, touched: &[Touched], ops: &[OpId]) {
        for one in touched.iter().filter(|one| one.reused) {
            let first = self.blocks[one.block as usize].expect("it is touched");
            let parts = self.parts.iter().enumerate();
            let read = parts.filter(|(_, part)| one.is_near || part.is_full);
            let found =
                |(index, part): (usize, &Part)| (ops[part.group], ObjectId(first.0 + index as u32));
            self.reuses.extend(read.map(found));
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
        for object in &mut self.build.trace.objects[first.index()..first.index() + self.parts.len()]
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

impl Part {
    /// How an op of its group uses it.
    fn used(&self, object: ObjectId, touched: Touched, block_tokens: u32) -> Option<Use> {
        let Touched { mode, fresh, is_near, .. } = touched;
        if mode == Mode::Read {
            return (is_near || self.is_full).then(|| Use::whole(object, mode));
        }
        let token = u128::from(self.bytes) / self.pieces / u128::from(block_tokens);
        let part = PartialUse::of(self.pieces, token * u128::from(fresh), Bytes::new(self.bytes));
        let part = part.filter(|_| mode != Mode::Write);
        Some(Use { part, ..Use::whole(object, mode) })
    }
}

/// A number that is too large for the rows of a trace.
fn overflow(_: std::num::TryFromIntError) -> ServingProblem {
    ServingProblem::Overflow
}
