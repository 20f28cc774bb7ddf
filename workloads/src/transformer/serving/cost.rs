//! What an iteration costs: kernels and collectives of one rank, by group of layers.
//!
//! They are those of the graph that training and generation walk: a block is walked once for each
//! number of tokens that iterations have, and attention is put in for what the requests attend to.
//! Requests that decode are one kernel, whose shape has the mean of what they attend to and whose
//! FLOPs and bytes are the sum; prompts that begin alike are one kernel. Experts are those that
//! equally likely draws give so many tokens, the same in every layer.
//! Invariant: sums are made in 128 bits.

use super::{GroupWork, Serving};
use crate::transformer::card::Card;
use crate::transformer::generation::walk::begun;
use crate::transformer::graph::pass::Sizes;
use crate::transformer::graph::state::Cache;
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
    /// Tokens that those attend to, themselves included.
    attended: u128,
    /// Parts of prompts: how many have so many tokens behind so many others.
    prompts: BTreeMap<(u64, u64), u64>,
}

impl Load {
    /// Of so many iterations, nothing yet.
    pub(super) fn of(iterations: u64) -> Load {
        Load { iterations, ..Load::default() }
    }

    /// Adds `new` tokens behind `before` others, which attend to `window` at most; `drawn` says
    /// whether the next one is drawn.
    pub(super) fn add(&mut self, window: Option<u32>, before: u64, new: u64, drawn: bool) {
        self.tokens += new;
        self.drawn += u64::from(drawn);
        if new == 1 {
            let most = window.map_or(u64::MAX, u64::from);
            self.decodes += 1;
            self.attended += u128::from((before + 1).min(most));
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
    embedding: GroupWork,
    /// The most bytes of what ops hand on to each other.
    working: u128,
}

/// A model in groups of layers.
#[derive(Debug)]
pub(super) struct Cost {
    /// The layers of each group.
    pub(super) groups: Vec<Range<u32>>,
    /// The model with one block.
    shape: Training,
    kv: u128,
    /// By tokens.
    walked: BTreeMap<u64, Walked>,
    /// By rows of the last norm and rows of logits: the kernels, and what they hand on.
    heads: BTreeMap<(u64, u64), (GroupWork, u128)>,
    /// Bytes of a block's weights, of the tables, and of the last norm and the head.
    weights: [u128; 3],
    /// Rows of tables that a token reads, and the bytes of one.
    rows: (u128, u128),
}

impl Serving {
    /// The model with one block and the same split.
    pub(super) fn shape(&self) -> Training {
        Training {
            formats: self.formats,
            kernels: self.kernels,
            router: Router::default(),
            parallel: Parallel { tensor: self.tensor, ..Parallel::default() },
            devices: self.devices,
            ..Training::new(Card { layers: 1, ..self.card.clone() }, 1)
        }
    }
}

impl Cost {
    pub(super) fn new(job: &Serving) -> Cost {
        let (Serving { card, formats, .. }, shape) = (job, job.shape());
        let weight = u128::from(formats.weights.bytes());
        Cost {
            groups: split(card.layers, job.layer_groups),
            kv: u128::from(job.kv_bytes()),
            weights: weights(&shape),
            shape,
            walked: BTreeMap::new(),
            heads: BTreeMap::new(),
            rows: (
                if card.family.learns_positions() { 2 } else { 1 },
                u128::from(card.hidden) * weight,
            ),
        }
    }

    /// Bytes of the weights of a group.
    pub(super) fn weights(&self, group: usize) -> u128 {
        self.groups[group].len() as u128 * self.weights[0]
    }

    /// Bytes of the tables of tokens and positions.
    pub(super) fn tables(&self) -> u128 {
        self.weights[1]
    }

    /// The rows that the tokens of an iteration look up; `None` for all of the tables.
    pub(super) fn looked_up(&self, load: &Load) -> Option<PartialUse> {
        let whole = u64::try_from(self.tables()).map_or(Bytes::MAX, Bytes::new);
        let rows = u128::from(load.each(load.tokens)) * self.rows.0;
        PartialUse::of(rows, self.rows.1, whole)
    }

    /// Bytes of the last norm and, unless it is tied, the head.
    pub(super) fn head(&self) -> u128 {
        self.weights[2]
    }

    /// Bytes of what a layer's ops hand on to each other, and of the logits.
    pub(super) fn workspace(&mut self, load: &Load) -> u128 {
        let (tokens, drawn) = (load.each(load.tokens), load.each(load.drawn));
        self.walk(tokens).working.max(self.end(tokens, drawn).1)
    }

    /// The work of a group.
    pub(super) fn of(&mut self, load: &Load, group: usize) -> GroupWork {
        let (layers, groups) = (self.groups[group].len() as u64, self.groups.len());
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
        if group == 0 {
            add(&self.walk(tokens).embedding, iterations);
        }
        add(&self.walk(tokens).block, layers * iterations);
        let attention = GroupWork { kernels: self.attention(load), ..GroupWork::default() };
        add(&attention, layers);
        if group + 1 == groups && drawn > 0 {
            add(&self.end(tokens, drawn).0, iterations);
        }
        all
    }

    /// Attention of one layer, of all iterations.
    fn attention(&mut self, load: &Load) -> Vec<Kernel> {
        let token = self.walk(load.each(load.tokens)).attention;
        let (sizes, kv) = (Sizes::of(&self.shape, 1, 0, 1), self.kv);
        let kernel = |of: Attention, flops: u128, cache: u128| {
            let bytes = u128::from(of.batch) * u128::from(of.new) * token + cache;
            Kernel { times: load.iterations, ..Kernel::new(Work::Attention(of), flops, bytes) }
        };
        let of_prompt = |(&(past, new), &batch): (&(u64, u64), &u64)| {
            let of = Attention { batch, past, new, ..sizes.attention };
            kernel(of, of.flops(), u128::from(of.attended()) * u128::from(batch) * kv)
        };
        let mut all: Vec<Kernel> = load.prompts.iter().map(of_prompt).collect();
        if load.decodes > 0 {
            let mean = load.attended.div_ceil(u128::from(load.decodes));
            let past = u64::try_from(mean).unwrap_or(u64::MAX) - 1;
            let of = Attention { batch: load.each(load.decodes), past, ..sizes.attention };
            // A mean over iterations need not be whole; FLOPs and bytes are.
            let each = |all: u128| all.div_ceil(u128::from(load.iterations));
            let flops = each(4 * sizes.queries * load.attended);
            all.push(kernel(of, flops, each(kv * load.attended)));
        }
        all
    }

    /// So many tokens in the embedding and one block, walked once.
    fn walk(&mut self, tokens: u64) -> &Walked {
        let (shape, kv) = (&self.shape, self.kv);
        self.walked.entry(tokens).or_insert_with(|| {
            let (mut maker, model) = begun(shape, TraceMeta::default());
            maker.sizes = Sizes::of(shape, 1, 0, tokens);
            maker.cache = Some(Cache::new((1, 1), (tokens, 0), None, false));
            let owner = maker.module(model.blocks[0].norm_1);
            let x = maker.embed(&model, owner).out;
            // What all layers share is made once.
            maker.shared_tables(&model.blocks[0]);
            let first = maker.build.trace.ops.len();
            maker.block(&model.blocks[0], x, Some(owner));
            let trace = maker.build.trace;
            let embedding = work(&trace.ops[..first]);
            let mut block = work(&trace.ops[first..]);
            let is_attention = |kernel: &Kernel| matches!(kernel.work, Work::Attention(_));
            let attention: Vec<Kernel> =
                block.kernels.extract_if(.., |one| is_attention(one)).collect();
            let touched: u128 = attention.iter().map(|one| u128::from(one.bytes.get())).sum();
            let attention = touched / u128::from(tokens) - kv;
            Walked { block, attention, embedding, working: working(trace) }
        })
    }

    /// The last norm and the head for so many rows of logits; eager kernels norm all tokens.
    fn end(&mut self, tokens: u64, rows: u64) -> &(GroupWork, u128) {
        let shape = &self.shape;
        let normed = if shape.kernels == Kernels::Eager { tokens } else { rows.max(1) };
        self.heads.entry((normed, rows)).or_insert_with(|| {
            let (mut maker, model) = begun(shape, TraceMeta::default());
            let owner = maker.module(model.blocks[0].norm_1);
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
fn weights(shape: &Training) -> [u128; 3] {
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
