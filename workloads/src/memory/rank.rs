//! What one rank of a job has of a model, module by module: the first stage of a pipeline, its part
//! of every matrix, and as many experts as its group leaves it.
//!
//! The modules and how they are split are those of generated steps (`transformer::modules`), and
//! ZeRO cuts each of them by itself, as there: the account of a model and the objects of its trace
//! are the same bytes.
//! Invariant: all blocks of a sort are alike, so one stands for them.

use super::account::{Keeps, Pipeline};
use super::optimizer::{Tensor, of_tensors};
use super::zero::{MILLION, State, shard};
use super::{Overflow, product, share, total};
use crate::transformer::adapted::adapt;
use crate::transformer::adapters::Lora;
use crate::transformer::card::Card;
use crate::transformer::format::Format;
use crate::transformer::modules::around::EmbeddingAndHead;
use crate::transformer::modules::{Block, Compression, Feed, FeedForward, Mixture, Module, block};
use crate::transformer::packed::Packed;
use crate::transformer::training::Optimizer;

/// A module's parameters on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankModule {
    tensors: Vec<Tensor>,
    /// Whether it belongs to an expert: those are spread over data-parallel ranks.
    pub(super) expert: bool,
    /// Whether it is trained, and not frozen beside adapters.
    pub(super) trains: bool,
    /// Its parameters that are packed, if those of blocks are.
    packs: u128,
}

/// What one rank has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Tables, and a norm behind them.
    pub(super) embedding: Vec<RankModule>,
    /// In the order in which a backward pass is done with them.
    pub(super) block: Vec<RankModule>,
    pub(super) blocks: u64,
    /// Blocks in front that differ from those, and how many there are; none where there are stages
    /// of which steps are known.
    pub(super) front: Vec<(u64, Vec<RankModule>)>,
    /// Last norm and head, where there is one stage; a tied head is the first table.
    pub(super) head: Vec<RankModule>,
    pub(super) is_tied: bool,
    data: u64,
    expert: u64,
    stages: u64,
    /// Chunks of blocks that one rank has, of a pipeline that is interleaved.
    interleave: u64,
}

/// Bytes of a parameter's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Format of weights.
    pub weights: Format,
    /// How the matrices of blocks are stored, if not in it.
    pub packed: Option<Packed>,
    /// Format of gradients.
    pub gradients: Format,
    /// What the optimizer keeps.
    pub optimizer: Keeps,
}

impl RankModule {
    fn of(part: &Module, split: &Pipeline, expert: bool, trains: bool) -> RankModule {
        let local = part.tensors.iter().map(|tensor| tensor.local(split.tensor).kept());
        let packs = if part.packs { part.products(split.tensor) } else { 0 };
        RankModule { tensors: local.collect(), expert, trains, packs }
    }

    pub(super) fn params(&self) -> u128 {
        self.tensors.iter().map(Tensor::numbers).sum()
    }

    /// Bytes of its weights.
    fn weights(&self, format: Format, packed: Option<Packed>) -> Result<u128, Overflow> {
        let Some(packed) = packed else { return product(&[self.params(), format.bytes().into()]) };
        let others = product(&[self.params() - self.packs, format.bytes().into()])?;
        total([packed.bytes(self.packs), others])
    }

    fn state(&self, bytes: &Bytes, stage: u8, replicas: u64) -> Result<State, Overflow> {
        let (params, replicas) = (self.params(), u128::from(replicas));
        let each = |format: Format| product(&[params, format.bytes().into()]);
        let weights = shard(self.weights(bytes.weights, bytes.packed)?, 3, stage, replicas);
        if !self.trains {
            return Ok(State { weights, ..State::default() });
        }
        let kept = match bytes.optimizer {
            Keeps::PerParameter(millionths) => {
                let all = product(&[params, millionths.into()])?;
                shard(share(all, MILLION.into()), 1, stage, replicas)
            }
            Keeps::Named(named) => of_named(named, bytes.weights, &self.tensors, stage, replicas)?,
        };
        Ok(State {
            weights,
            gradients: shard(each(bytes.gradients)?, 2, stage, replicas),
            optimizer: kept,
        })
    }
}

/// The modules of a block, and whether they belong to an expert, as a backward pass is done with
/// them.
fn backward(block: &Block) -> Vec<(&Module, bool)> {
    fn up(feed: &FeedForward, expert: bool) -> impl Iterator<Item = (&Module, bool)> {
        let all = [&feed.down_proj].into_iter().chain(feed.up_proj.iter().rev());
        all.map(move |module| (module, expert))
    }
    let mut all = Vec::new();
    all.extend(block.part_norms.get(1).map(|module| (module, false)));
    match &block.feed {
        Feed::Dense(feed) => all.extend(up(feed, false)),
        Feed::Mixture(Mixture { router, experts, shared }) => {
            all.extend(experts.iter().rev().flat_map(|feed| up(feed, true)));
            all.push((router, false));
            if let Some((feed, gate)) = shared {
                all.extend(up(feed, false).chain(gate.iter().map(|gate| (gate, false))));
            }
        }
    }
    let rest = block.norm_2.iter().chain(block.part_norms.first()).chain([&block.out]);
    // What expands compressed tokens, its norm, and what compresses: of rows, then of queries.
    let expands = block.compression.iter().flat_map(|of| {
        let queries = of.queries.as_ref().map(|[_, norm]| [&block.qkv[0], norm]);
        let queries = queries.into_iter().flatten();
        [&of.expand, &of.rows[1]].into_iter().chain(queries).chain([&of.rows[0]])
    });
    let first: Vec<&Module> = match &block.compression {
        Some(Compression { queries: Some([down, _]), .. }) => vec![down],
        _ => block.qkv.iter().rev().collect(),
    };
    let rest = rest.chain(&block.head_norms).chain(expands).chain(first).chain(&block.norm_1);
    all.extend(rest.map(|module| (module, false)));
    all
}

/// Every piece of state is cut by itself.
fn of_named(
    named: Optimizer,
    weights: Format,
    tensors: &[Tensor],
    stage: u8,
    replicas: u128,
) -> Result<u128, Overflow> {
    let states = of_tensors(named, weights, tensors)?.states();
    total(states.map(|bytes| shard(bytes, 1, stage, replicas)))
}

impl Rank {
    /// What the first stage's ranks have of `card`, of which adapters alone are trained if there
    /// are any; `data` replicas of the model.
    pub fn of(card: &Card, lora: Option<Lora>, split: &Pipeline, data: u64) -> Rank {
        let around = EmbeddingAndHead::new(card);
        let of = |part: &Module| RankModule::of(part, split, false, lora.is_none());
        let has_head = split.stages == 1;
        let head = around.end().filter(|_| has_head);
        let expert = u32::try_from(split.expert.max(1)).unwrap_or(u32::MAX);
        let modules = |layer: u32| -> Vec<RankModule> {
            let mut one = block(card, layer, expert);
            if let Some(lora) = lora {
                adapt(&mut one, card, lora);
            }
            let each = backward(&one).into_iter().flat_map(|(part, expert)| {
                // Behind that of the frozen matrix come the gradients of B and of A.
                let adapter = part.adapter.iter().flat_map(|both| both.iter().rev());
                let adapter = adapter.map(move |part| RankModule::of(part, split, expert, true));
                [RankModule::of(part, split, expert, lora.is_none())].into_iter().chain(adapter)
            });
            each.collect()
        };
        let here = u64::from(card.layers).div_ceil(split.stages);
        let sorts = card.sorts(u32::try_from(here).unwrap_or(u32::MAX));
        let sorts = sorts.map(|(layer, count)| (u64::from(count), modules(layer)));
        let mut front: Vec<(u64, Vec<RankModule>)> = sorts.collect();
        let (blocks, block) = front.pop().unwrap_or((0, modules(0)));
        Rank {
            embedding: around.embedding().map(of).collect(),
            block,
            blocks,
            front,
            head: head.map(of).collect(),
            is_tied: has_head && around.head.is_none(),
            data,
            expert: split.expert.max(1),
            stages: split.stages,
            interleave: split.interleave,
        }
    }

    /// Blocks that are alike, from the first to the last, and how many there are.
    pub(super) fn sorts(&self) -> impl DoubleEndedIterator<Item = (u64, &Vec<RankModule>)> {
        let front = self.front.iter().map(|(count, block)| (*count, block));
        front.chain([(self.blocks, &self.block)])
    }

    /// Modules, and how many there are of each.
    fn modules(&self) -> impl Iterator<Item = (u64, &RankModule)> {
        let around = self.embedding.iter().chain(&self.head).map(|module| (1, module));
        let blocks = self.sorts();
        around.chain(blocks.flat_map(|(count, block)| block.iter().map(move |part| (count, part))))
    }

    /// Ranks that have the same module.
    pub(super) fn replicas(&self, module: &RankModule) -> u64 {
        if module.expert { (self.data / self.expert).max(1) } else { self.data }
    }

    /// Its parameters.
    pub fn params(&self) -> Result<u128, Overflow> {
        self.params_of(|_| true)
    }

    /// Those of them that are trained.
    pub fn trained(&self) -> Result<u128, Overflow> {
        self.params_of(|module| module.trains)
    }

    fn params_of(&self, wanted: impl Fn(&RankModule) -> bool) -> Result<u128, Overflow> {
        let all = self.modules().filter(|(_, module)| wanted(module));
        let all = all.map(|(times, module)| product(&[times.into(), module.params()]));
        total(all.collect::<Result<Vec<u128>, Overflow>>()?)
    }

    /// Its state at a stage of ZeRO.
    pub fn state(&self, bytes: &Bytes, stage: u8) -> Result<State, Overflow> {
        self.modules().try_fold(State::default(), |all, (times, module)| {
            let one = module.state(bytes, stage, self.replicas(module))?;
            let add = |all, one| total([all, product(&[times.into(), one])?]);
            Ok(State {
                weights: add(all.weights, one.weights)?,
                gradients: add(all.gradients, one.gradients)?,
                optimizer: add(all.optimizer, one.optimizer)?,
            })
        })
    }

    /// Most weights that stage 3 has gathered at once, in bytes: of the modules that one visit
    /// uses, of those before and behind the blocks or of one block, and of as many visits as are
    /// gathered ahead; where they `stay` for the backward pass, of all blocks and what is behind
    /// them. Where weights are `away` from the device, those that no other rank has a part of come
    /// too.
    pub fn gathered(
        &self,
        (weights, packed): (Format, Option<Packed>),
        ahead: u64,
        [away, stay]: [bool; 2],
    ) -> Result<u128, Overflow> {
        let of = |modules: &[RankModule]| {
            let shared = modules.iter().filter(|module| away || self.replicas(module) > 1);
            let all: Result<Vec<u128>, Overflow> =
                shared.map(|module| module.weights(weights, packed)).collect();
            total(all?)
        };
        let embedding = of(&self.embedding)?;
        let table = if self.is_tied { of(&self.embedding[..1])? } else { 0 };
        let head = total([of(&self.head)?, table])?;
        let at_once = usize::try_from(ahead).unwrap_or(usize::MAX).saturating_add(1);
        let mut blocks = Vec::new();
        let mut whole = if self.stages == 1 { head } else { 0 };
        for (count, block) in self.sorts() {
            blocks.extend(vec![of(block)?; at_once.min(count as usize)]);
            whole = total([whole, product(&[of(block)?, count.into()])?])?;
        }
        if stay {
            // The table is used before the blocks, and gathered with those that are ahead; in a
            // pipeline beside all that earlier micro-batches left for their backward passes.
            let first = blocks.iter().take(at_once - 1).copied();
            let start = total([embedding].into_iter().chain(first))?;
            return if self.stages > 1 { total([whole, embedding]) } else { Ok(whole.max(start)) };
        }
        let back: Vec<u128> = blocks.iter().rev().copied().collect();
        let ends = if self.stages == 1 { vec![head] } else { Vec::new() };
        // Up, down, and up again with the next micro-batch.
        let visits = [&[embedding][..], &blocks, &ends, &back, &[embedding], &blocks].concat();
        // The first stage of a pipeline goes up with several micro-batches one after the other.
        let chunk = self.blocks.div_ceil(self.interleave.max(1));
        let chunk = &blocks[..blocks.len().min(usize::try_from(chunk).unwrap_or(usize::MAX))];
        let several = if self.stages > 1 { 3 } else { 0 };
        let up = [&[embedding][..], chunk].concat().repeat(several);
        let windows = [visits, up].into_iter().filter(|visits| !visits.is_empty());
        let sums = windows.flat_map(|visits| {
            let windows = visits.windows(at_once.min(visits.len()));
            windows.map(|window| total(window.iter().copied())).collect::<Vec<_>>()
        });
        Ok(sums.collect::<Result<Vec<u128>, Overflow>>()?.into_iter().max().unwrap_or(0))
    }

    /// Most gradients that wait, whole, to be reduced into shards from stage 2 on: a bucket that
    /// fills, which is less than `bucket` bytes and the module that fills it, and another one on
    /// its way, of this pass or, if a step has `several`, of the one before. Experts have buckets
    /// of their own, of which one is on its way. The gradient of a tied table is held until the
    /// pass is through. Where gradients `leave` the device, those of modules that one rank has for
    /// itself wait too, in no bucket.
    pub fn waiting(
        &self,
        gradients: Format,
        bucket: u64,
        several: bool,
        leave: bool,
    ) -> Result<u128, Overflow> {
        let each = u128::from(gradients.bytes());
        let bytes = |module: &RankModule| product(&[module.params(), each]);
        let waits = |module: &RankModule| leave || self.replicas(module) > 1;
        let bucket = if self.data > 1 { bucket } else { 0 };
        let is_held =
            self.is_tied && self.embedding.iter().all(|table| table.trains && waits(table));
        let held = if is_held { self.embedding.first().map_or(Ok(0), bytes)? } else { 0 };
        let (mut every, mut filling, mut on_its_way) = (0, 0, 0);
        for expert in [false, true] {
            let (mut all, mut largest) = (0, 0);
            for (times, module) in self.modules() {
                if module.trains && module.expert == expert && waits(module) {
                    all = total([all, product(&[times.into(), bytes(module)?])?])?;
                    largest = largest.max(bytes(module)?);
                }
            }
            let full = all.min(total([bucket.into(), largest])?);
            every = total([every, all])?;
            filling = total([filling, full])?;
            on_its_way = full.max(on_its_way);
        }
        let waiting = total([filling, on_its_way])?;
        total([held, if several { waiting } else { waiting.min(every) }])
    }
}
