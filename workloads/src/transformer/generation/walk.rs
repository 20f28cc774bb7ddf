//! The steps of generation: the forward pass of training, token by token, with a cache.

use super::{AttentionOn, Generation};
use crate::build::Builder;
use crate::transformer::graph::kv::Cache;
use crate::transformer::graph::network::Groups;
use crate::transformer::graph::pass::{Compressed, GraphBuilder, Reduction};
use crate::transformer::graph::saved::Shared;
use crate::transformer::graph::sizes::Sizes;
use crate::transformer::graph::state::{ModelState, State};
use crate::transformer::training::{Parallel, Training};
use std::collections::BTreeMap;
use tiersim_models::ids::ObjectId;
use tiersim_models::workload::{Phase, Recorded, TraceMeta};

/// One batch in one step.
#[derive(Clone, Copy, Debug)]
struct Pass {
    step: u32,
    batch: u32,
    /// Positions that each sequence already has in the cache.
    before: u64,
    /// New positions of each sequence.
    new: u64,
}

impl Generation {
    /// The same model and split as a step of training has them: what the graph is made from.
    pub(in crate::transformer) fn shape(&self) -> Training {
        Training {
            batch: self.batch,
            micro_batch: self.batch,
            formats: self.formats,
            kernels: self.kernels,
            parallel: Parallel {
                tensor: self.tensor,
                context: self.context,
                ..Parallel::default()
            },
            devices: self.devices,
            router: self.router,
            ..Training::new(self.card.clone(), self.prompt)
        }
    }
}

pub(super) fn generate(job: &Generation) -> Builder {
    let shape = job.shape();
    let (mut maker, model) = begun(&shape, meta(job));
    let held = if job.prefill { 0 } else { job.prompt };
    let counts = (job.card.layers, job.batches);
    let on_host = job.attention == AttentionOn::Host;
    let own = (job.own(job.positions()), job.own(held));
    let mut cache = Cache::new(counts, own, job.kv_block, on_host);
    cache.is_made_anew = job.grows_by_copies();
    maker.cache = Some(cache);
    for step in 0..job.tokens {
        let is_prefill = job.prefill && step == 0;
        let phase = if is_prefill { Phase::Prefill } else { Phase::Decode };
        (maker.build.step, maker.build.phase) = (step, phase);
        let before = match (job.prefill, step) {
            (true, 0) => 0,
            (true, step) => job.prompt + u64::from(step) - 1,
            (false, step) => job.prompt + u64::from(step),
        };
        let new = if is_prefill { job.prompt } else { 1 };
        let passes: Vec<Pass> =
            (0..job.batches).map(|batch| Pass { step, batch, before, new }).collect();
        maker.walk(job, &model, &passes);
    }
    maker.build
}

/// A trace of which nothing is made yet but the weights.
pub(in crate::transformer) fn begun(
    shape: &Training,
    meta: TraceMeta,
) -> (GraphBuilder<'_>, ModelState) {
    let mut build = Builder::new(meta);
    let (model, owned) = State::model(shape, &mut build, false);
    let groups = Groups::new(shape).expect("one group of ranks, in as many servers as it needs");
    let (sizes, prefix, reduction) = (Sizes::new(shape), String::new(), Reduction::default());
    let (micro, cache, low_rank) = (0, None, BTreeMap::new());
    let maker = GraphBuilder {
        shape,
        build,
        owned,
        sizes,
        groups,
        micro,
        prefix,
        reduction,
        cache,
        low_rank,
        trains: false,
        compressed: Compressed::default(),
        shared: Shared::default(),
        later: Vec::new(),
    };
    (maker, model)
}

impl GraphBuilder<'_> {
    /// All batches of a step, layer by layer.
    fn walk(&mut self, job: &Generation, model: &ModelState, passes: &[Pass]) {
        let end = model.end.expect("all of the model is here");
        let mut hidden: Vec<ObjectId> = Vec::with_capacity(passes.len());
        for &pass in passes {
            self.turn(job, pass);
            let owner = self.module(*model.blocks[0].first());
            hidden.push(self.embed(model, (owner, true)).out);
        }
        for (index, block) in model.blocks.iter().enumerate() {
            let next = model.blocks.get(index + 1).map_or(end.norm, |block| *block.first());
            let owner = self.module(next);
            for (x, &pass) in hidden.iter_mut().zip(passes) {
                self.turn(job, pass);
                (_, *x) = self.block(block, *x, Some(owner));
            }
        }
        for (&x, &pass) in hidden.iter().zip(passes) {
            self.turn(job, pass);
            // The last position of each sequence.
            let [.., logits] = self.logits(end, x, Some(job.batch.into()));
            if self.is_ring() && pass.before == 0 {
                self.tell_tokens(end.head, logits, job.batch.into());
            }
        }
    }

    /// What comes next belongs to this batch.
    fn turn(&mut self, job: &Generation, pass: Pass) {
        // A prompt is spread over the ranks, and each of them works on a token behind it.
        let (span, new) =
            (job.own(pass.before)..job.own(pass.before + pass.new), job.own(pass.new));
        self.sizes = Sizes::of(self.shape, job.batch.into(), span.end - new, new);
        self.micro = pass.step.saturating_mul(job.batches).saturating_add(pass.batch);
        self.prefix = format!("t{}.b{}.", pass.step, pass.batch);
        if let Some(cache) = &mut self.cache {
            (cache.batch, cache.span) = (pass.batch as usize, span);
        }
    }
}

fn meta(job: &Generation) -> TraceMeta {
    let Generation { card, batch, batches, prompt, tokens, .. } = job;
    let first = if job.prefill { "prefill and " } else { "" };
    let over = match job.context {
        1 => String::new(),
        ranks => format!(", each sequence over {ranks} ranks"),
    };
    TraceMeta {
        name: format!("{}-generate", card.name),
        about: format!(
            "generated from the card of {}: {first}decode of {tokens} tokens behind prompts of \
             {prompt}, {batches} batches of {batch}{over}; no durations were recorded",
            card.name
        ),
        precision: job.formats.products().word().to_owned(),
        batch: batch * batches,
        sequence: 1,
        recorded: Recorded::default(),
    }
}
