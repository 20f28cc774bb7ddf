//! What a micro-batch leaves for its backward pass, read off the graph that steps are made of.
//!
//! One block between an embedding and a head goes forward and backward; what is kept is what the
//! backward pass still asks for. All blocks of a sort are alike, so a stage is sums over this
//! ([`crate::memory::activations`]).
//! Invariant: ops have no objects for the statistics of norms in one kernel, four bytes each; they
//! are added here and nowhere else.

use super::begin::begun;
use super::{Parallel, Training};
use crate::memory::{Overflow, product};
use crate::transformer::card::{Card, NormPlaces};
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::saved::{Core, KeptByNorm, Normed, SavedActivations, SavedFeed};
use crate::transformer::graph::state::ModelState;
use std::collections::BTreeSet;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::workload::{ObjectKind, Phase};

/// What one rank keeps of one micro-batch, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptActivations {
    /// A block's input: what a checkpoint is.
    pub input: u128,
    /// As much if the block's backward pass needs its input as it is, or the sum that takes its
    /// place; 0 where a norm copied it.
    pub own_input: u128,
    /// What a block keeps, its input too, but the core of attention and statistics.
    pub rest: u128,
    /// The core of attention: what selective recomputation computes again.
    pub core: u128,
    /// Statistics of norms and of attention in one kernel, which the published formulas leave out.
    pub statistics: u128,
    /// Of all that, what the backward pass is done with before it comes to the core.
    pub behind: u128,
    /// What the embedding keeps: masks of dropout, the input of a norm, cosines and sines.
    pub embedding: u128,
    /// The most that last norm, head and loss have at once, the last block's output too.
    pub head: u128,
}

/// The only pass of a short step: where its parts begin among the objects, and what it kept.
struct Walked {
    input: ObjectId,
    kept: SavedActivations,
    next: ObjectId,
    /// Objects of the block, and of the head behind it.
    block: std::ops::Range<usize>,
    head: std::ops::Range<usize>,
}

impl Training {
    /// What one micro-batch leaves on one rank, of the last block, its embedding and its head; kept
    /// even where steps are not generated, such as matrices that ranks split unequally, which are
    /// padded. The pipeline, ZeRO, the optimizer and checkpointing do not count.
    ///
    /// # Errors
    /// If an amount does not fit: a tensor 64 bits, a sum 128.
    pub fn kept(&self) -> Result<KeptActivations, Overflow> {
        self.kept_in(self.card.layers.saturating_sub(1))
    }

    /// The same of block `layer`.
    pub(crate) fn kept_in(&self, layer: u32) -> Result<KeptActivations, Overflow> {
        let shape = self.one_block(layer);
        shape.fits()?;
        let (mut maker, model) = begun(&shape);
        let walked = maker.there_and_back(&model);
        // A tensor that does not fit was cut.
        let is_cut = maker.build.trace.objects.iter().any(|row| row.bytes.get() == u64::MAX);
        if is_cut { Err(Overflow) } else { Ok(maker.sum_kept(&walked)) }
    }

    /// A step of one block, such as `layer`, and one micro-batch on the ranks of one tensor group.
    fn one_block(&self, layer: u32) -> Training {
        let mut card = self.card.clone();
        if let Some(experts) = &mut card.experts {
            experts.dense_first = u32::from(layer < experts.dense_first);
        }
        let ranks = self.parallel.tensor;
        let widths = [&mut card.ffn, &mut card.kv_heads, &mut card.vocab];
        for split in widths.into_iter().chain(card.experts.as_mut().map(|of| &mut of.ffn)) {
            *split = (*split).max(1).div_ceil(ranks).saturating_mul(ranks);
        }
        card.layers = 1;
        Training {
            card,
            batch: self.micro_batch,
            sequence: self.own_sequence(),
            checkpointing: super::Checkpointing::None,
            update: super::UpdateTime::After,
            parallel: Parallel {
                tensor: ranks,
                sequence: self.parallel.sequence,
                ..Parallel::default()
            },
            zero: super::Zero::default(),
            devices: 1,
            ..self.clone()
        }
    }

    /// Whether no sum of the graph exceeds 128 bits, and no matrix 64.
    fn fits(&self) -> Result<(), Overflow> {
        let Card { hidden, ffn, heads, head_dim, vocab, .. } = self.card;
        let [hidden, ffn, heads, head_dim, vocab] =
            [hidden, ffn, heads, head_dim, vocab].map(u128::from);
        let sequence = u128::from(self.sequence);
        let tokens = product(&[self.micro_batch.into(), sequence])?;
        let scores = product(&[tokens, sequence, heads, head_dim])?;
        let matrix = hidden * ffn.max(heads * head_dim).max(vocab);
        let is_large = tokens >= 1 << 56 || scores > u128::MAX >> 8 || matrix >= 1 << 56;
        if is_large { Err(Overflow) } else { Ok(()) }
    }
}

impl GraphBuilder<'_> {
    /// Forward and backward through embedding, block and head.
    fn there_and_back(&mut self, model: &ModelState) -> Walked {
        let made = |maker: &GraphBuilder<'_>| maker.build.trace.objects.len();
        let end = model.end.expect("a model of one stage has its end");
        let [first, behind] = [*model.blocks[0].first(), end.norm].map(|of| self.module(of));
        let is_kept = self.keeps_block_input(&model.blocks[0]);
        let embedded = self.embed(model, (first, is_kept));
        let start = made(self);
        let (kept, next) = self.block(&model.blocks[0], embedded.out, Some(behind));
        let block = start..made(self);
        let dx = self.head(model, end, next);
        let head = block.end..made(self);
        let dx = self.block_backward(&model.blocks[0], &kept, dx);
        if self.owned[model.tokens].trains {
            self.embed_backward(model, &embedded, dx);
        }
        Walked { input: embedded.out, kept, next, block, head }
    }

    fn sum_kept(&self, walked: &Walked) -> KeptActivations {
        let needed = self.needed();
        let size = |&object: &ObjectId| self.build.size(object);
        let shared: BTreeSet<ObjectId> = self.shared.rotary.values().flatten().copied().collect();
        let SavedActivations { normed, normed_parts, projected, behind: boundary, .. } =
            &walked.kept;
        let is_own = |object: &ObjectId| {
            let made = walked.block.contains(&object.index()) && *object != walked.next;
            (made && !shared.contains(object)) || *object == walked.input
        };
        let core = walked.kept.core();
        let statistics = walked.kept.statistics();
        let norms = self.norm_statistics(self.sizes.own_tokens);
        let parts = normed_parts.len() as u128 * norms;
        let [first, second] = normed.map(|normed| if normed.is_some() { norms } else { 0 });
        // Norms of what tokens are compressed to are of all tokens.
        let rows = if self.shape.card.latent.is_some() { walked.kept.qkv_norms.len() } else { 0 };
        let rows = rows as u128 * self.norm_statistics(self.sizes.tokens);
        let mut found = KeptActivations {
            input: self.sizes.of_kept(self.sizes.stream()),
            statistics: first + second + parts + rows,
            // Post-norm the first, too, stands behind attention.
            behind: parts + second + if self.shape.card.family.is_post_norm() { first } else { 0 },
            ..KeptActivations::default()
        };
        // Without a norm before its parts, nothing is copied.
        if self.shape.card.family.norm_places() == NormPlaces::BehindParts {
            found.own_input = found.input;
        }
        for object in &needed {
            if *object == walked.input {
                found.own_input = size(object);
            }
            if !is_own(object) {
                if object.index() < walked.block.start || shared.contains(object) {
                    found.embedding += size(object);
                }
                continue;
            }
            let of = if statistics.contains(object) {
                &mut found.statistics
            } else if core.contains(object) {
                &mut found.core
            } else {
                &mut found.rest
            };
            *of += size(object);
            let attends = core.contains(object) || walked.kept.core.sums() == Some(*object);
            if (object >= boundary || object == projected) && !attends {
                found.behind += size(object);
            }
        }
        found.head = self.most_of_head(walked);
        found
    }

    /// The first and the last op that touch each object.
    fn spans(&self) -> Vec<Option<(OpId, OpId)>> {
        let trace = &self.build.trace;
        let mut spans: Vec<Option<(OpId, OpId)>> = vec![None; trace.objects.len()];
        for op in (0..trace.ops.len()).map(OpId::at) {
            for touched in trace.uses_of(op) {
                spans[touched.object.index()].get_or_insert((op, op)).1 = op;
            }
        }
        spans
    }

    fn is_activation(&self, object: ObjectId) -> bool {
        self.build.trace.objects[object.index()].kind == ObjectKind::Activation
    }

    /// Activations that a backward pass asks for.
    fn needed(&self) -> Vec<ObjectId> {
        let is_late = |op: OpId| self.build.trace.ops[op.index()].phase == Phase::Backward;
        let spans = self.spans().into_iter().enumerate();
        let late = spans.filter(|(_, span)| span.is_some_and(|(_, last)| is_late(last)));
        late.map(|(index, _)| ObjectId::at(index)).filter(|&of| self.is_activation(of)).collect()
    }

    /// Bytes of the statistics of one norm of so many tokens that no object stands for.
    fn norm_statistics(&self, tokens: u128) -> u128 {
        let each = 4 * u128::from(self.shape.card.family.norm_statistics());
        if self.is_eager() { 0 } else { each * tokens }
    }

    /// The most activations of the head at once.
    fn most_of_head(&self, walked: &Walked) -> u128 {
        let ops = self.build.trace.ops.len();
        let (mut born, mut gone) = (vec![0u128; ops], vec![0u128; ops]);
        let all = walked.head.clone().map(ObjectId::at).chain([walked.next]);
        let spans = self.spans();
        for object in all.filter(|&object| self.is_activation(object)) {
            if let Some((first, last)) = spans[object.index()] {
                born[first.index()] += self.build.size(object);
                gone[last.index()] += self.build.size(object);
            }
        }
        let (mut alive, mut most) = (0, 0);
        for (born, gone) in born.into_iter().zip(gone) {
            alive += born;
            most = most.max(alive);
            alive -= gone;
        }
        most
    }
}

impl Core {
    /// The sums of the fused kernel.
    fn sums(&self) -> Option<ObjectId> {
        match self {
            Core::Flash(sums) => Some(*sums),
            _ => None,
        }
    }
}

impl SavedActivations {
    /// What attention keeps of its scores.
    fn core(&self) -> Vec<ObjectId> {
        match &self.core {
            Core::Nothing | Core::Flash(_) => Vec::new(),
            Core::Scores(softmax, dropped) => {
                [*softmax].into_iter().chain(dropped.iter().flat_map(|d| [d.0, d.1])).collect()
            }
            Core::EagerScores(of) => {
                let dropped = of.dropped.iter().flat_map(|d| [d.0, d.1]);
                of.qkv.into_iter().chain([of.softmax, of.narrow]).chain(dropped).collect()
            }
        }
    }

    /// What the published formulas leave out: a number or two per row.
    fn statistics(&self) -> Vec<ObjectId> {
        let norms = self.normed.iter().flatten();
        let norms = norms.chain(&self.qkv_norms).chain(&self.normed_parts);
        let of = |normed: &Normed| normed.kept.map(|KeptByNorm { statistics, .. }| statistics);
        let gates = match &self.feed {
            SavedFeed::Mixture(kept) if kept.groups.is_none() => Some(kept.gates),
            _ => None,
        };
        norms.filter_map(of).chain(self.core.sums()).chain(gates).collect()
    }
}
