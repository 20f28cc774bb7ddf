//! What an iteration costs: kernels and collectives of one rank, by group of layers.
//!
//! They are those of the graph that training and generation walk: a block is walked once for each
//! number of tokens that iterations have, and attention is put in for what the requests attend to.
//! Requests that decode are one kernel, whose shape has the mean of what they attend to and whose
//! FLOPs and bytes are the sum; prompts that begin alike are one kernel. Experts are as many as
//! equally likely draws give so many tokens in the mean over the layers.
//! Invariant: sums are made in 128 bits.

use super::reached::Reached;
use super::{GroupWork, Serving};
use crate::transformer::card::{Card, Experts, Windows};
use crate::transformer::generation::walk::begun;
use crate::transformer::graph::kv::Cache;
use crate::transformer::graph::sizes::Sizes;
use crate::transformer::training::{Kernels, Parallel, Router, Training};
use std::collections::BTreeMap;
use std::ops::Range;
use tiersim_models::collective::Collective;
use tiersim_models::kernel::{Attention, Kernel, Work};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{ObjectKind, Op, PartialUse, TraceMeta, Unit};

/// What an iteration has to do, or several alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    /// How many; each reads the weights.
    pub(super) iterations: u64,
    /// Tokens that go through the layers.
    pub(super) tokens: u64,
    /// Of which so many have a successor drawn.
    pub(super) drawn: u64,
    /// Tokens that are one sequence's only new one.
    decodes: u64,
    /// Tokens that those attend to, themselves included: in a layer that attends to all, and in one
    /// that attends to a window.
    attended: [u128; 2],
    /// Parts of prompts: how many have so many tokens behind so many others.
    prompts: BTreeMap<(u64, u64), u64>,
}

impl Load {
    /// Of so many iterations, nothing yet.
    pub(super) fn of(iterations: u64) -> Load {
        Load { iterations, ..Load::default() }
    }

    /// Adds `new` tokens behind `before` others, which attend to all before them or to `window` at
    /// most; `drawn` says whether the next one is drawn.
    pub(super) fn add(&mut self, window: Option<u32>, before: u64, new: u64, drawn: bool) {
        self.tokens += new;
        self.drawn += u64::from(drawn);
        if new == 1 {
            let most = window.map_or(u64::MAX, u64::from);
            self.decodes += 1;
            let [all, windowed] = &mut self.attended;
            *all += u128::from(before + 1);
            *windowed += u128::from((before + 1).min(most));
        } else {
            *self.prompts.entry((before, new)).or_default() += 1;
        }
    }

    fn each(&self, all: u64) -> u64 {
        all.div_ceil(self.iterations)
    }
}

/// What so many tokens are in one block, and around the blocks.
#[derive(Clone, Debug)]
struct Walked {
    block: GroupWork,
    /// Bytes of one token's queries, keys, values and mixed values, and of its cache.
    attention: u128,
    /// Bytes of the matrix that expands compressed keys and values, which attention reads.
    expand: u128,
    embedding: GroupWork,
    /// The most bytes of what ops hand on to each other.
    working: u128,
}

/// Blocks that are alike.
#[derive(Debug)]
struct Sort {
    layers: Range<u32>,
    /// The model with one of them.
    shape: Training,
    /// By tokens, and the seed of the draw of experts.
    walked: BTreeMap<(u64, u64), Walked>,
    /// By tokens.
    drawn: BTreeMap<u64, Reached>,
    /// Bytes of a block's weights.
    weights: u128,
}

/// A model in groups of layers.
#[derive(Debug)]
pub(super) struct Cost {
    /// The layers of each group.
    pub(super) groups: Vec<Range<u32>>,
    card: Card,
    /// Blocks that are alike, in the order of the layers.
    sorts: Vec<Sort>,
    kv: u128,
    /// By rows of the last norm and rows of logits: the kernels, and what they hand on.
    heads: BTreeMap<(u64, u64), (GroupWork, u128)>,
    /// Bytes of the tables, and of the last norm and the head.
    around: [u128; 2],
    /// Rows of tables that a token reads, and the bytes of one.
    rows: (u128, u128),
}

impl Sort {
    /// The experts that so many tokens reach.
    fn reached(&mut self, tokens: u64) -> Reached {
        let experts = &self.shape.card.experts;
        let of = || experts.as_ref().map_or(Reached::default(), |of| Reached::of(of, tokens));
        *self.drawn.entry(tokens).or_insert_with(of)
    }

    /// So many tokens in the embedding and one block, walked once; `kv` bytes of each are kept, and
    /// experts are drawn from a seed.
    fn walk(&mut self, (tokens, seed): (u64, u64), kv: u128) -> &Walked {
        let shape = &self.shape;
        self.walked.entry((tokens, seed)).or_insert_with(|| {
            let router = Router { seed, ..Router::default() };
            let drawn = Training { router, ..shape.clone() };
            let shape = &drawn;
            let (mut maker, model) = begun(shape, TraceMeta::default());
            let block = &model.blocks[0];
            maker.sizes = Sizes::of(shape, 1, 0, tokens);
            maker.cache = Some(Cache::new((1, 1), (tokens, 0), Some(tokens), false));
            let owner = maker.module(*block.first());
            let x = maker.embed(&model, (owner, true)).out;
            // What all layers share is made once.
            maker.shared_tables(block);
            let first = maker.build.trace.ops.len();
            maker.block(block, x, Some(owner));
            let expand = block.compression.as_ref();
            let expand = expand.map_or(0, |of| maker.unpacked_bytes(of.expand));
            let trace = maker.build.trace;
            let embedding = work(&trace.ops[..first]);
            let mut block = work(&trace.ops[first..]);
            let is_attention = |kernel: &Kernel| {
                matches!(kernel.work, Work::Attention(_) | Work::LatentAttention(_))
            };
            let attention: Vec<Kernel> =
                block.kernels.extract_if(.., |one| is_attention(one)).collect();
            let touched: u128 = attention.iter().map(|one| u128::from(one.bytes.get())).sum();
            let attention = (touched - expand) / u128::from(tokens) - kv;
            Walked { block, attention, expand, embedding, working: working(trace) }
        })
    }
}

impl Serving {
    /// The model with one block, such as `layer` is, and the same split.
    pub(super) fn shape(&self, layer: u32) -> Training {
        let experts = self.card.experts_of(layer);
        let experts = experts.map(|experts| Experts { dense_first: 0, ..experts });
        Training {
            formats: self.formats,
            kernels: self.kernels,
            router: Router::default(),
            parallel: Parallel { tensor: self.tensor, ..Parallel::default() },
            devices: self.devices,
            ..Training::new(Card { layers: 1, experts, ..self.card.clone() }, 1)
        }
    }
}

impl Cost {
    pub(super) fn new(job: &Serving) -> Cost {
        let Serving { card, formats, .. } = job;
        let weight = u128::from(formats.weights.bytes());
        let mut around = [0; 2];
        let sorts = card.sorts(card.layers).map(|(from, count)| {
            let shape = job.shape(from);
            let weights;
            [weights, around[0], around[1]] = weights_of(&shape);
            let (walked, drawn) = Default::default();
            Sort { layers: from..from + count, shape, walked, drawn, weights }
        });
        let sorts = sorts.collect();
        Cost {
            groups: split(card.layers, job.layer_groups),
            card: card.clone(),
            kv: u128::from(job.kv_bytes()),
            around,
            sorts,
            heads: BTreeMap::new(),
            rows: (
                if card.family.learns_positions() { 2 } else { 1 },
                u128::from(card.hidden) * weight,
            ),
        }
    }

    /// Bytes of the weights of a group.
    pub(super) fn weights(&self, group: usize) -> u128 {
        let of = |sort: &Sort| u128::from(self.alike(group, sort)) * sort.weights;
        self.sorts.iter().map(of).sum()
    }

    /// How many blocks of a sort a group has.
    fn alike(&self, group: usize, sort: &Sort) -> u64 {
        let layers = self.layers_of(group, sort);
        layers.end - layers.start
    }

    /// Which blocks of a sort a group has, counted from the first of the sort.
    fn layers_of(&self, group: usize, sort: &Sort) -> Range<u64> {
        let (group, sort) = (&self.groups[group], &sort.layers);
        let from = group.start.max(sort.start) - sort.start;
        let to = group.end.min(sort.end).max(sort.start) - sort.start;
        from.min(to).into()..to.into()
    }

    /// Bytes of the tables of tokens and positions.
    pub(super) fn tables(&self) -> u128 {
        self.around[0]
    }

    /// The rows that the tokens of an iteration look up; `None` for all of the tables.
    pub(super) fn looked_up(&self, load: &Load) -> Option<PartialUse> {
        let whole = u64::try_from(self.tables()).map_or(Bytes::MAX, Bytes::new);
        let rows = u128::from(load.each(load.tokens)) * self.rows.0;
        PartialUse::of(rows, self.rows.1, whole)
    }

    /// Bytes of the last norm and, unless it is tied, the head.
    pub(super) fn head(&self) -> u128 {
        self.around[1]
    }

    /// Bytes of what a layer's ops hand on to each other, and of the logits.
    pub(super) fn workspace(&mut self, load: &Load) -> u128 {
        let (tokens, drawn) = (load.each(load.tokens), load.each(load.drawn));
        let kv = self.kv;
        let working = |sort: &mut Sort| {
            let seeds = sort.reached(tokens).seeds;
            seeds.map(|seed| sort.walk((tokens, seed), kv).working).into_iter().max()
        };
        let most = self.sorts.iter_mut().filter_map(working).max().unwrap_or(0);
        most.max(self.end(tokens, drawn).1)
    }

    /// The work of a group.
    pub(super) fn of(&mut self, load: &Load, group: usize) -> GroupWork {
        let groups = self.groups.len();
        let iterations = load.iterations;
        let mut all = GroupWork::default();
        let mut add = |of: &GroupWork, times: u64| {
            let again = |one: &Kernel| Kernel { times: one.times * times, ..*one };
            all.kernels.extend(of.kernels.iter().map(again));
            for one in &of.collectives {
                let times = u32::try_from(u64::from(one.times) * times).unwrap_or(u32::MAX);
                all.collectives.push(Collective { times, ..*one });
            }
        };
        let (tokens, drawn) = (load.each(load.tokens), load.each(load.drawn));
        let [fewer, _] = self.sorts[0].reached(tokens).seeds;
        if group == 0 {
            add(&self.sorts[0].walk((tokens, fewer), self.kv).embedding, iterations);
        }
        for sort in 0..self.sorts.len() {
            let layers = self.layers_of(group, &self.sorts[sort]);
            let sort = &mut self.sorts[sort];
            let reached = sort.reached(tokens);
            for (seed, layers) in reached.seeds.into_iter().zip(reached.split(layers)) {
                if layers > 0 {
                    add(&sort.walk((tokens, seed), self.kv).block, layers * iterations);
                }
            }
        }
        for (window, layers) in self.windows(group) {
            let kernels = self.attention(load, window);
            add(&GroupWork { kernels, ..GroupWork::default() }, layers);
        }
        if group + 1 == groups && drawn > 0 {
            add(&self.end(tokens, drawn).0, iterations);
        }
        all
    }

    /// Layers of a group that attend to all tokens.
    pub(super) fn full_layers(&self, group: usize) -> u64 {
        let layers = &self.groups[group];
        let full = |windows: Windows| windows.full_in(layers.clone()).into();
        self.card.windows().map_or(layers.len() as u64, full)
    }

    /// What the layers of a group attend to, and how many do: those to all, and those to a window.
    fn windows(&self, group: usize) -> impl Iterator<Item = (Option<u32>, u64)> + use<> {
        let full = self.full_layers(group);
        let near = self.groups[group].len() as u64 - full;
        [(None, full), (self.card.window, near)].into_iter().filter(|&(_, layers)| layers > 0)
    }

    /// Attention of one layer, of all iterations.
    fn attention(&mut self, load: &Load, window: Option<u32>) -> Vec<Kernel> {
        let (kv, latent) = (self.kv, self.card.latent);
        let tokens = load.each(load.tokens);
        let [fewer, _] = self.sorts[0].reached(tokens).seeds;
        let Walked { attention: token, expand, .. } = *self.sorts[0].walk((tokens, fewer), kv);
        let mut sizes = Sizes::of(&self.sorts[0].shape, 1, 0, 1);
        sizes.attention.window = window.unwrap_or(0);
        let attended = load.attended[usize::from(window.is_some())];
        let kernel = |of: Attention, flops: u128, cache: u128| {
            let bytes = u128::from(of.batch) * u128::from(of.new) * token + expand + cache;
            let work = match latent {
                Some(latent) => Work::LatentAttention(latent.attention(of)),
                None => Work::Attention(of),
            };
            Kernel { times: load.iterations, ..Kernel::new(work, flops, bytes) }
        };
        let of_prompt = |(&(past, new), &batch): (&(u64, u64), &u64)| {
            let of = Attention { batch, past, new, ..sizes.attention };
            let flops = latent.map_or(of.flops(), |latent| latent.attention(of).flops());
            kernel(of, flops, u128::from(of.attended()) * u128::from(batch) * kv)
        };
        let mut all: Vec<Kernel> = load.prompts.iter().map(of_prompt).collect();
        if load.decodes > 0 {
            let mean = attended.div_ceil(u128::from(load.decodes));
            let past = u64::try_from(mean).unwrap_or(u64::MAX) - 1;
            // A mean over iterations need not be whole; FLOPs and bytes are.
            let each = |all: u128| all.div_ceil(u128::from(load.iterations));
            let of = Attention { batch: load.decodes, past, ..sizes.attention };
            let flops = match latent {
                Some(latent) => latent.attention(of).flops_of(attended),
                None => 4 * sizes.queries * attended,
            };
            let of = Attention { batch: load.each(load.decodes), ..of };
            all.push(kernel(of, each(flops), each(kv * attended)));
        }
        all
    }

    /// The last norm and the head for so many rows of logits; eager kernels norm all tokens.
    fn end(&mut self, tokens: u64, rows: u64) -> &(GroupWork, u128) {
        let shape = &self.sorts[0].shape;
        let normed = if shape.kernels == Kernels::Eager { tokens } else { rows.max(1) };
        self.heads.entry((normed, rows)).or_insert_with(|| {
            let (mut maker, model) = begun(shape, TraceMeta::default());
            let owner = maker.module(*model.blocks[0].first());
            maker.sizes = Sizes::of(shape, 1, 0, normed);
            let x = maker.kept(owner, "out", maker.sizes.stream(), owner);
            let end = model.end.expect("all of the model is here");
            maker.logits(end, x, Some(rows.max(1).into()));
            let trace = maker.build.trace;
            (work(&trace.ops), working(trace))
        })
    }
}

/// What the ops of a walk are; those of a kind that follow one another in a layer are one.
fn work(ops: &[Op]) -> GroupWork {
    let mut all = GroupWork::default();
    for op in ops {
        all.kernels.extend(op.kernels.iter().flat_map(|kernels| kernels.iter().copied()));
        let Unit::Network(new) = op.unit else { continue };
        let alike = |one: &&mut Collective| Collective { times: new.times, ..**one } == new;
        match all.collectives.iter_mut().find(alike) {
            Some(one) => one.times += new.times,
            None => all.collectives.push(new),
        }
    }
    all
}

/// Bytes that a rank has of a block's weights, of the tables with a norm behind them, and of the
/// last norm and, unless it is tied, the head.
fn weights_of(shape: &Training) -> [u128; 3] {
    let (maker, model) = begun(shape, TraceMeta::default());
    let of = |owned: usize| maker.owned[owned].bytes;
    let end = model.end.expect("all of the model is here");
    let head = (end.matrix != model.tokens).then_some(end.matrix);
    let blocks = model.blocks[0].modules();
    [
        blocks.into_iter().map(|(&owned, _)| of(owned)).sum(),
        model.embedding().map(of).sum(),
        [end.norm].into_iter().chain(head).map(of).sum(),
    ]
}

/// The most bytes that are alive at once beside weights and cache.
fn working(trace: tiersim_models::workload::Trace) -> u128 {
    let workload = Workload::new(trace);
    let of_pass = |kind| !matches!(kind, ObjectKind::Weight | ObjectKind::Kv);
    workload.most_alive(|object| of_pass(object.kind)).into()
}

/// Layers in groups that differ by one at most.
fn split(layers: u32, groups: u32) -> Vec<Range<u32>> {
    let at = |group: u32| (u64::from(layers) * u64::from(group) / u64::from(groups)) as u32;
    (0..groups).map(|group| at(group)..at(group + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_split_evenly() {
        assert_eq!(split(7, 3), [0..2, 2..4, 4..7]);
        assert_eq!(split(4, 4), [0..1, 1..2, 2..3, 3..4]);
    }
}
