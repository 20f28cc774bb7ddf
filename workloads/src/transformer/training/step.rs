//! Carries out the schedule, task by task.
//!
//! Consecutive tasks with the same weights are one visit: what ZeRO has partitioned is gathered
//! once per visit, and ahead of it by as many visits as are to be prefetched.
//! A pipeline's bubble is (p - 1) times the forward and backward pass of one virtual stage, which
//! is (p - 1)/m of a stage (Narayanan et al., 2021, section 2.2.2), as idle ops that copy what the
//! device does in it; what collectives add to it is left out. What the last stage takes longer for
//! a micro-batch than this one is waited for too ([`super::last_stage`]).

use super::begin::begun;
use super::last_stage::LastStage;
use super::schedule::{self, Item, Pass, Task};
use super::zero::Visit;
use super::{Training, UpdateTime};
use crate::build::{Builder, ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use crate::transformer::graph::embedding::Embedded;
use crate::transformer::graph::network::Group;
use crate::transformer::graph::pass::{GraphBuilder, Streamed};
use crate::transformer::graph::saved::SavedActivations;
use crate::transformer::graph::sizes::Sizes;
use crate::transformer::graph::state::ModelState;
use std::collections::BTreeMap;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::workload::{CollectiveKind, ObjectKind, Op, Phase, Unit};

/// What passes leave for others.
#[derive(Default)]
struct BoundaryTensors {
    embedded: BTreeMap<u32, Embedded>,
    /// By micro-batch and block.
    kept: BTreeMap<(u32, usize), SavedActivations>,
    /// The output of what ran last, and the gradient of its input.
    x: Option<ObjectId>,
    dx: Option<ObjectId>,
}

/// The whole step, unchecked.
pub(super) fn step(shape: &Training) -> Builder {
    let (mut maker, model) = begun(shape);
    let loader = maker.loader();
    maker.step(&model, loader);
    maker.build
}

impl GraphBuilder<'_> {
    /// A step: the passes of all micro-batches, and the update.
    pub(super) fn step(&mut self, model: &ModelState, loader: Option<ObjectId>) {
        self.load(model, loader);
        let (shape, spread) = (self.shape, self.spread(model));
        let is_shared = shape.parallel.pipeline > 1 && shape.card.tied && shape.lora.is_none();
        let table = is_shared.then_some(model.tokens);
        (self.reduction, self.shared) = Default::default();
        if shape.update == UpdateTime::InBackward {
            self.reduction.streamed = Some(Streamed { spread, table, ..Streamed::default() });
            self.run(model, &schedule::items(shape, model), true);
            self.end_streamed_update();
            return;
        }
        self.run(model, &schedule::items(shape, model), true);
        self.build.phase = Phase::Backward;
        self.build.recompute = "";
        self.sum_gradients(&spread, self.groups.tensor);
        self.sum_gradients(table.as_slice(), self.groups.ends);
        self.build.phase = Phase::Optimizer;
        self.update();
    }

    /// Bytes of the tokens of a step.
    fn loaded(&self) -> u128 {
        let token = self.shape.loader.map_or(0, |loader| u128::from(loader.token_bytes));
        u128::from(self.shape.batch) * u128::from(self.shape.own_sequence()) * token
    }

    /// The memory that the data pipeline holds.
    pub(super) fn loader(&mut self) -> Option<ObjectId> {
        let loader = self.shape.loader?;
        let bytes = u128::from(loader.workers) * u128::from(loader.prefetch) * self.loaded();
        let size = (bytes, Format::Int8);
        let held = self.build.object("loader".into(), ObjectKind::Buffer, size, None);
        Some(self.build.persist(held))
    }

    /// The data pipeline takes its batch out of the memory that it holds.
    fn load(&mut self, model: &ModelState, held: Option<ObjectId>) {
        let Some(held) = held else { return };
        let (batch, module) = (self.loaded(), self.module(model.tokens));
        self.build.phase = Phase::Other;
        let touches = [change(held).part(2 * batch)];
        self.build.op_on(Unit::Cpu, self.sibling(2), "load", module, 0, &touches);
    }

    /// Modules whose gradients are spread over the tensor group, since each rank had some of the
    /// tokens or heads.
    fn spread(&self, model: &ModelState) -> Vec<usize> {
        let parallel = self.shape.parallel;
        let norms = self.shape.card.head_norms();
        let heads =
            |owned: usize| model.blocks.iter().any(|block| block.has_of_heads(&owned, norms));
        let all = 0..if parallel.tensor > 1 { self.owned.len() } else { 0 };
        // An adapter's matrix that is whole stands beside one that is split.
        let any = parallel.sequence || self.shape.lora.is_some();
        let whole = all.filter(|&owned| {
            let row = &self.owned[owned];
            row.trains && (row.is_whole && any || heads(owned))
        });
        whole.collect()
    }

    /// Sums of gradients over a group: of what is spread over the tensor group, and of a tied
    /// matrix over the first and the last stage.
    pub(super) fn sum_gradients(&mut self, all: &[usize], group: Group) {
        let Some(&first) = all.first() else { return };
        let pieces = all.iter().flat_map(|&owned| &self.owned[owned].gradient);
        let objects: Vec<ObjectId> = pieces.map(|&(_, object)| object).collect();
        let bytes = objects.iter().map(|&object| self.build.size(object)).sum();
        let touches: Vec<ObjectAccess> = objects.into_iter().map(change).collect();
        let (kind, stream) = (CollectiveKind::AllReduce, self.sibling(1));
        let module = self.module(first);
        self.build.op_on(group.does(kind, bytes), stream, kind.word(), module, 0, &touches);
    }

    /// The weights that a task needs.
    fn needs(&self, model: &ModelState, task: Task) -> Vec<usize> {
        match task {
            Task::Embed => model.embedding().collect(),
            Task::Forward(block) | Task::Recompute(block, _) | Task::Backward(block) => {
                let modules = model.blocks[block].modules().into_iter().map(|(&owned, _)| owned);
                let with = |owned: usize| {
                    [owned].into_iter().chain(self.owned[owned].adapter.into_iter().flatten())
                };
                modules.flat_map(with).collect()
            }
            Task::Head => model.end.map_or(Vec::new(), |end| end.modules().collect()),
            Task::EmbedBackward => {
                model.norm_0.into_iter().filter(|&norm| self.owned[norm].trains).collect()
            }
            _ => Vec::new(),
        }
    }

    fn run(&mut self, model: &ModelState, items: &[Item], is_whole: bool) {
        let mut visits: Vec<Visit> = Vec::new();
        let mut visit_of = Vec::with_capacity(items.len());
        for item in items {
            let needs = self.needs(model, item.task);
            if !needs.is_empty() && visits.last().is_none_or(|visit| visit.needs != needs) {
                visits.push(Visit { needs: needs.clone(), ..Visit::default() });
            }
            visit_of.push((!needs.is_empty()).then(|| visits.len() - 1));
            if let Some(visit) = visits.last_mut() {
                visit.given_back.extend(match item.task {
                    Task::Head | Task::Backward(_) => needs,
                    // Its table is in no backward op, and is given back with the rest.
                    Task::EmbedBackward => model.embedding().collect(),
                    _ => Vec::new(),
                });
            }
        }
        let (mut gathered, mut next) = (BTreeMap::new(), 0);
        let mut boundary = BoundaryTensors::default();
        let mut last_stage = LastStage::default();
        for (item, visit) in items.iter().zip(visit_of) {
            self.enter(item);
            if let Some(visit) = visit {
                let ahead = visit + self.shape.zero.prefetch as usize;
                while next < visits.len() && next <= ahead {
                    gathered.insert(next, self.gather(&visits[next], next));
                    next += 1;
                }
                for (owned, whole) in gathered.remove(&visit).unwrap_or_default() {
                    self.owned[owned].whole = whole;
                }
            }
            match item.task {
                Task::Bubble if is_whole => self.bubble(model),
                Task::LastStageBegins if is_whole => self.last_stage_begins(&mut last_stage),
                Task::LastStageEnds if is_whole => self.last_stage_ends(&mut last_stage),
                _ => {}
            }
            self.task(model, item, &mut boundary);
        }
    }

    /// Phase and names of a task.
    fn enter(&mut self, item: &Item) {
        let Pass { micro, virtual_stage, is_forward } = item.pass;
        let is_forward = is_forward && item.task != Task::Bubble;
        self.build.phase = if is_forward { Phase::Forward } else { Phase::Backward };
        let recompute = matches!(item.task, Task::Recompute(..));
        self.build.recompute = if recompute { "recompute_" } else { "" };
        let way = match (is_forward, recompute) {
            (true, _) => "",
            (false, true) => "again.",
            (false, false) => "back.",
        };
        let samples = schedule::split(self.shape.batch, self.shape.micro_batch).nth(micro as usize);
        let samples = samples.expect("a micro-batch is one of those that the batch is cut into");
        self.sizes = Sizes::of(self.shape, samples.into(), 0, self.shape.own_sequence());
        self.reduction.is_last = micro + 1 == self.shape.micro_batches();
        self.micro = micro;
        self.prefix = if self.shape.parallel.interleave > 1 {
            format!("m{micro}.{virtual_stage}.{way}")
        } else {
            format!("m{micro}.{way}")
        };
    }

    fn task(&mut self, model: &ModelState, item: &Item, boundary: &mut BoundaryTensors) {
        let micro = item.pass.micro;
        let tokens = self.module(model.tokens);
        match item.task {
            Task::Embed => {
                let owner = self.module(*model.blocks[0].first());
                let embedded = self.embed(model, (owner, self.keeps_input_of(model, 0)));
                boundary.x = Some(embedded.out);
                boundary.embedded.insert(micro, embedded);
            }
            Task::Receive(block) => {
                let owner = self.module(*model.blocks[block].first());
                let is_kept = self.keeps_input_of(model, block);
                let x = self.kept_if(is_kept, owner, ("in", self.sizes.stream()), owner);
                self.send(owner, x, true);
                boundary.x = Some(x);
            }
            Task::Forward(block) => {
                let x = boundary.x.expect("a block follows what makes its input");
                let owner = self.owner_behind(model, block);
                self.before_block();
                let (mut kept, next) = self.block(&model.blocks[block], x, owner);
                let stretch = schedule::blocks(self.shape, item.pass.virtual_stage);
                let place = (Some(block - stretch.start), stretch.len());
                self.behind_block(model.blocks[block].attention, place, &mut kept, next);
                boundary.kept.insert((micro, block), kept);
                boundary.x = Some(next);
            }
            Task::Send => {
                let x = boundary.x.take().expect("a virtual stage has blocks");
                self.send(tokens, x, false);
            }
            Task::Head => {
                let x = boundary.x.take().expect("a model has blocks");
                let end = model.end.expect("a head is run where it is");
                boundary.dx = Some(self.head(model, end, x));
            }
            Task::ReceiveGradient => {
                let dx = self.buffer(tokens, "out.grad.received", self.sizes.stream());
                self.send(tokens, dx, true);
                boundary.dx = Some(dx);
            }
            Task::Recompute(block, hands_on) => {
                let x = boundary.kept[&(micro, block)].input;
                let x = boundary.x.take().unwrap_or(x);
                let behind = hands_on.then(|| &model.blocks[block + 1]);
                let behind = behind.filter(|behind| self.keeps_block_input(behind));
                let owner = behind.map(|behind| self.module(*behind.first()));
                let by = model.blocks[block].attention;
                self.whole_again(by, &[x]);
                self.before_block();
                let (mut kept, next) = self.block(&model.blocks[block], x, owner);
                self.behind_block(by, (None, 0), &mut kept, next);
                boundary.kept.insert((micro, block), kept);
                boundary.x = Some(next);
            }
            Task::Backward(block) => {
                boundary.x = None;
                let kept = boundary.kept.remove(&(micro, block)).expect("forward comes first");
                let dy = boundary.dx.expect("a gradient comes from behind");
                let all: Vec<ObjectId> =
                    kept.compressed.iter().copied().chain([kept.input]).collect();
                self.whole_again(model.blocks[block].attention, &all);
                boundary.dx = Some(self.block_backward(&model.blocks[block], &kept, dy));
            }
            Task::SendGradient => {
                let dx = boundary.dx.take().expect("a virtual stage has blocks");
                self.send(tokens, dx, false);
                self.reduce_rest();
            }
            Task::EmbedBackward => {
                let embedded = boundary.embedded.remove(&micro).expect("forward comes first");
                let dx = boundary.dx.take().expect("a virtual stage has blocks");
                if self.owned[model.tokens].trains {
                    self.embed_backward(model, &embedded, dx);
                }
                self.reduce_rest();
            }
            Task::Bubble | Task::LastStageBegins | Task::LastStageEnds => {}
        }
    }

    /// Who keeps a block's output; nobody where it only goes to the next stage, or no backward pass
    /// needs it.
    fn owner_behind(&self, model: &ModelState, block: usize) -> Option<ModuleId> {
        let is_last = (block + 1).is_multiple_of(self.stretch(model));
        match (is_last, model.end) {
            (true, Some(end)) => Some(self.module(end.norm)),
            (true, None) => None,
            (false, _) if !self.keeps_input_of(model, block + 1) => None,
            (false, _) => Some(self.module(*model.blocks[block + 1].first())),
        }
    }

    /// Whether a block's input outlives its forward pass: its backward pass needs it, or the block
    /// is computed again from it.
    fn keeps_input_of(&self, model: &ModelState, block: usize) -> bool {
        let stretch = self.stretch(model);
        let (first, _) = schedule::recomputed(self.shape, stretch);
        block % stretch < first || self.keeps_block_input(&model.blocks[block])
    }

    /// Blocks of a virtual stage.
    fn stretch(&self, model: &ModelState) -> usize {
        (model.blocks.len() / self.shape.parallel.interleave as usize).max(1)
    }

    /// A tensor of the residual stream from or to a neighbour. Where every rank of a tensor group
    /// has all of it, each sends its part, and those that receive gather the parts (Narayanan et
    /// al., 2021, section 4.1).
    fn send(&mut self, by: ModuleId, x: ObjectId, is_received: bool) {
        let (whole, ranks) = (self.build.size(x), u128::from(self.shape.parallel.tensor));
        let is_cut = ranks > 1 && !self.shape.parallel.sequence;
        let bytes = if is_cut { whole.div_ceil(ranks) } else { whole };
        let unit = self.groups.next.does(CollectiveKind::SendRecv, bytes);
        let touches = [if is_received { write(x) } else { read(x) }.part(bytes)];
        self.build.op_on(unit, 0, CollectiveKind::SendRecv.word(), by, 0, &touches);
        if is_cut && is_received {
            self.tensor(CollectiveKind::AllGather, by, whole, &[change(x)]);
        }
    }

    /// Idle ops for the passes that other stages make meanwhile.
    fn bubble(&mut self, model: &ModelState) {
        let stages = self.shape.parallel.pipeline;
        // Where stages do not divide the layers, so many have a block less than the first.
        let fewer = match self.shape.card.layers % stages {
            0 => 0,
            more => stages - more,
        };
        // Modules of a block are numbered one after the other.
        let last = model.blocks.last().map(|block| self.module(*block.first()));
        for op in self.of_one_virtual_stage(model) {
            let times = if op.module >= last { stages - 1 - fewer } else { stages - 1 };
            for _ in 0..times {
                self.build.idle(0, "pipeline_bubble", &op);
            }
        }
    }

    /// What the device does for the blocks of one virtual stage, forward and backward.
    fn of_one_virtual_stage(&self, model: &ModelState) -> Vec<Op> {
        let (mut maker, _) = begun(self.shape);
        let of = |is_forward| Pass { is_forward, micro: 0, virtual_stage: 0 };
        let items = [of(true), of(false)]
            .into_iter()
            .flat_map(|pass| schedule::items_of(self.shape, model, pass));
        maker.run(model, &items.collect::<Vec<Item>>(), false);
        let around: Vec<ModuleId> = model.embedding().map(|owned| self.module(owned)).collect();
        let ops = maker.build.trace.ops.into_iter();
        ops.filter(|op| op.unit == Unit::Device && !op.module.is_some_and(|m| around.contains(&m)))
            .collect()
    }
}
