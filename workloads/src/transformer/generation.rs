//! Generating text: prefill of a prompt and one decode step per further token.
//!
//! Sequences go through a layer in `batches` batches before the next layer's turn, so that weights
//! that have come from afar serve them all: the zig-zag block schedule of Sheng et al., "FlexGen",
//! ICML 2023, section 4.1; with one batch it is the usual order. Keys and values are objects of
//! their own per layer, batch and block of positions. Attention to them runs on the device, or, in
//! decode steps, on the host's processors, where only queries and results cross the link (FlexGen,
//! section 4.2). Over several ranks each has its part of the cache, see `super::graph::shards`.
//! Where weights, cache and activations are is the policy's business.
//! Invariant: a job without [`Generation::problems`] makes a trace without `Trace::problems`.

pub(in crate::transformer) mod walk;

use super::card::Card;
use super::format::Formats;
use super::graph::network::tensor_problem;
use super::graph::ring::{MOST_TURNS, pieces};
use super::graph::shards::context_problems;
use super::packed::most_unpacked;
use super::training::{Kernels, Router, own_sequence};
use crate::limits::{MAX_OPS, ShapeProblem};
use serde::Deserialize;
use tiersim_models::workload::Trace;

/// Where attention to the cache is computed in decode steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionOn {
    /// By the device: the cache is in HBM for it, or used in place.
    Device,
    /// By the host's processors: the cache is in the host's memory.
    Host,
}

/// Text generation by one rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation {
    /// The model.
    pub card: Card,
    /// The format of each kind of object.
    pub formats: Formats,
    /// Sequences that go through a layer at once.
    pub batch: u32,
    /// How many such batches go through a layer before the next layer comes.
    pub batches: u32,
    /// Tokens of each prompt.
    pub prompt: u64,
    /// Tokens that each sequence grows by: one step each. The first comes of the prefill.
    pub tokens: u32,
    /// Whether the first step is the prefill; without it all steps decode and the cache of the
    /// prompt is there from the start.
    pub prefill: bool,
    /// Where decode steps attend.
    pub attention: AttentionOn,
    /// Which kernels run.
    pub kernels: Kernels,
    /// Positions of a block of the cache; all in one block without it.
    pub kv_block: Option<u64>,
    /// Ranks that each matrix is split over.
    pub tensor: u32,
    /// Ranks that each sequence is split over, with its keys and values; all have all weights.
    pub context: u32,
    /// Devices of one server: the ranks that are neighbours.
    pub devices: u32,
    /// Which experts tokens choose, in a model that has experts.
    pub router: Router,
}

/// The largest numbers.
const MOST_POSITIONS: u64 = 1 << 40;
const MOST_SEQUENCES: u64 = 1 << 20;

impl Generation {
    /// Every rule that it breaks; empty for one that makes a trace.
    pub fn problems(&self) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        let mut add =
            |field, rule: String, remedy| found.push(ShapeProblem { field, rule, remedy });
        let sequences = u64::from(self.batch) * u64::from(self.batches);
        if !(1..=MOST_SEQUENCES).contains(&sequences) {
            let rule = format!("`batch` x `batches` must lie between 1 and {MOST_SEQUENCES}");
            add("batch", rule, "write how many sequences are generated at once");
        }
        if !(1..=MOST_POSITIONS).contains(&self.prompt) {
            let rule = format!("`prompt` must lie between 1 and {MOST_POSITIONS}");
            add("prompt", rule, "write the tokens of a prompt");
        }
        if self.tokens == 0 {
            let rule = "`tokens` must be 1 or more".to_owned();
            add("tokens", rule, "write how many tokens are generated per sequence");
        }
        let (most, wanted) = (u64::from(self.card.positions), self.positions());
        if most > 0 && wanted > most {
            let rule = format!("{wanted} positions, more than the model's table, which has {most}");
            add("tokens", rule, "shorten the prompt, or generate fewer `tokens`");
        }
        if self.kv_block == Some(0) {
            add(
                "kv_block",
                "a block has 1 position or more".to_owned(),
                "leave it out, or write 16",
            );
        }
        found.extend(self.card.generation_problem());
        found.extend(tensor_problem(&self.card, self.tensor, self.devices));
        if found.is_empty() {
            found.extend(context_problems(&self.shape()));
            found.extend(self.split_problems());
        }
        if found.is_empty() {
            found.extend(self.eager_problems());
        }
        found.extend(self.formats.packed.and_then(|packed| packed.problem()));
        if self.card.latent.is_some() && self.attention == AttentionOn::Host {
            let rule = "compressed keys and values are attended to by devices".to_owned();
            let remedy = "choose `device`";
            found.push(ShapeProblem { field: "attention_on", rule, remedy });
        }
        if found.is_empty() {
            self.amounts(&mut found);
        }
        found
    }

    fn amounts(&self, found: &mut Vec<ShapeProblem>) {
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let (ops, uses) = (self.most_ops(), self.most_uses());
        if ops > u128::from(MAX_OPS) {
            let rule = format!("a generated trace has at most {MAX_OPS} ops, this one {ops}");
            let remedy =
                "generate fewer `tokens` or `batches`, or `serve` the request with `merge`";
            add("tokens", rule, remedy);
        } else if uses > 1 << 26 {
            let rule =
                format!("a generated trace has at most {} uses, this one {uses}", 1u64 << 26);
            add("kv_block", rule, "write larger blocks, or generate fewer `tokens`");
        }
        let sequences = u128::from(self.batch) * u128::from(self.batches);
        let [positions, first] =
            [self.positions(), if self.prefill { 0 } else { self.prompt }].map(u128::from);
        let layers = u128::from(self.card.layers);
        let held = u128::from(self.own(self.positions()));
        let kv = held * sequences * u128::from(self.kv_bytes()) * layers;
        // All of the cache is read in every step, and hidden states of new positions are far less
        // than 8 bytes x ffn, on all ranks together.
        let hidden = (positions - first) * sequences * (16 * u128::from(self.widest())).max(1);
        let touched = kv.saturating_mul(self.tokens.into()).saturating_add(hidden * layers * 4);
        // No operation's results stay in registers, and copies of the cache are read and written.
        let is_eager = self.kernels == Kernels::Eager;
        let touched = touched.saturating_mul(if is_eager { 16 } else { 1 });
        // The pairs of one op of attention.
        let pairs = if self.prefill { positions * held } else { held } * u128::from(self.batch);
        let [heads, head] = [self.card.heads, self.card.head_dim].map(u128::from);
        let (row, expanded) = self.card.latent.map_or((0, 0), |latent| {
            let [rank, rotary, value] = [latent.rank, latent.rotary, latent.value].map(u128::from);
            (rank + rotary, positions * u128::from(self.batch) * rank * (head + value))
        });
        let flops = 8 * heads * (pairs * (head + row)).saturating_add(expanded);
        if touched > u128::from(u64::MAX) || flops > u128::from(u64::MAX) {
            let rule = "the bytes of all ops and the FLOPs of each must stay below 2^64".to_owned();
            add("prompt", rule, "choose fewer sequences or shorter ones, or more `context` ranks");
        }
    }

    /// What a split of the cache is not known of.
    fn split_problems(&self) -> Vec<ShapeProblem> {
        if self.context == 1 {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        if self.attention == AttentionOn::Host {
            let rule = "parts of a cache are attended to by devices: `context` is above 1";
            add("attention_on", rule.to_owned(), "choose `device`, or write `context: 1`");
        }
        let pieces = pieces(self.context, self.card.family.is_causal());
        if self.prefill && pieces > 0 && !self.prompt.is_multiple_of(pieces) {
            let rule = format!("{pieces} must divide `prompt`, which is {}", self.prompt);
            add("context", rule, "pad the prompt to equal chunks, two for each rank");
        }
        found
    }

    /// What eager kernels are not known of.
    fn eager_problems(&self) -> Vec<ShapeProblem> {
        let mut found = self.shape().eager_problems();
        if self.grows_by_copies() && (!self.prefill || self.attention == AttentionOn::Host) {
            let rule = "eager kernels make a cache without blocks anew for each token: it begins \
                        with the prompt, and is on the device";
            let remedy = "write `kv_block`: blocks grow where they lie";
            found.push(ShapeProblem { field: "kv_block", rule: rule.to_owned(), remedy });
        }
        found
    }

    /// Whether each step copies all keys and values to where they have room for its own, as
    /// `transformers`' `DynamicCache` does.
    pub(super) fn grows_by_copies(&self) -> bool {
        self.kernels == Kernels::Eager && self.kv_block.is_none()
    }

    /// Positions of a sequence at the end.
    pub fn positions(&self) -> u64 {
        self.prompt + u64::from(self.tokens) - u64::from(self.prefill)
    }

    /// Of so many positions of a sequence, those that this rank has.
    fn own(&self, positions: u64) -> u64 {
        own_sequence(positions, self.context.into())
    }

    /// Bytes of keys and values of one position in one layer, on this rank.
    pub fn kv_bytes(&self) -> u64 {
        let (numbers, pieces) = self.card.cached(self.tensor);
        pieces * numbers * self.formats.kv.bytes()
    }

    fn widest(&self) -> u64 {
        let card = &self.card;
        let experts =
            card.experts.map_or(0, |experts| u64::from(experts.ffn) * u64::from(experts.active));
        let heads = u64::from(card.heads + 2 * card.kv_heads) * u64::from(card.head_dim);
        [u64::from(card.hidden), u64::from(card.ffn), experts, heads].into_iter().max().unwrap_or(1)
    }

    fn most_ops(&self) -> u128 {
        // Two norms, three matrices and two norms of heads, rotary positions, attention and what it
        // stores, a matrix, two sums over ranks, two residuals, and four of a feed-forward part;
        // of experts three each beside a router, copies, sums, and six of the shared one.
        let experts = self.card.experts.map_or(4, |experts| 3 * u128::from(experts.count) + 10);
        let count = self.card.experts.map(|experts| experts.count.into());
        let unpacked = most_unpacked(self.formats.packed, count);
        let passes = u128::from(self.tokens) * u128::from(self.batches);
        let layers = u128::from(self.card.layers);
        // Parts of attention are put together by three ops; a ring of a prompt has an exchange,
        // attention and a sum for each turn.
        let [combined, ring] = match self.context {
            1 => [0, 0],
            ranks => [3, 3 * (1 + u128::from(ranks.saturating_sub(1)).min(MOST_TURNS.into()))],
        };
        let prompts = u128::from(self.prefill) * u128::from(self.batches);
        // As in training, no fewer than eager kernels have.
        let [eager, around] = if self.kernels == Kernels::Eager { [80, 140] } else { [0, 6] };
        let parts = if self.card.family.norms_parts() { 2 } else { 0 };
        let each = 15 + parts + experts + unpacked + combined + eager;
        passes * (layers * each + around) + prompts * (layers * ring + 1)
    }

    fn most_uses(&self) -> u128 {
        let positions = self.own(self.positions());
        let blocks = self.kv_block.map_or(1, |block| u128::from(positions.div_ceil(block)));
        let passes = u128::from(self.tokens) * u128::from(self.batches);
        self.most_ops() * 6 + passes * u128::from(self.card.layers) * blocks
    }

    /// The trace; the same for the same job.
    ///
    /// Panics if it has [`Generation::problems`].
    pub fn trace(&self) -> Trace {
        let problems = self.problems();
        assert!(problems.is_empty(), "a job with problems: {problems:?}");
        let build = walk::generate(self);
        debug_assert_eq!(build.problem(), None, "{self:?}");
        let trace = build.trace;
        debug_assert!(trace.ops.len() as u128 <= self.most_ops(), "{} ops", trace.ops.len());
        debug_assert!(trace.uses.len() as u128 <= self.most_uses(), "{} uses", trace.uses.len());
        trace
    }
}
