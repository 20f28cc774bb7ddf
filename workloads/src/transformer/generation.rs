//! Generating text: prefill of a prompt and one decode step per further token.
//!
//! Sequences go through a layer in `batches` batches before the next layer's turn, so that weights
//! that have come from afar serve them all: the zig-zag block schedule of Sheng et al., "FlexGen",
//! ICML 2023, section 4.1; with one batch it is the usual order. Keys and values are objects of
//! their own per layer, batch and block of positions. Attention to them runs on the device, or, in
//! decode steps, on the host's processors, where only queries and results cross the link (FlexGen,
//! section 4.2). Where weights, cache and activations are is the policy's business.
//! Invariant: a job without [`Generation::problems`] makes a trace without `Trace::problems`.

pub(in crate::transformer) mod walk;

use super::card::Card;
use super::format::Formats;
use super::graph::network::tensor_problem;
use super::packed::most_unpacked;
use super::training::{Kernels, Router};
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
    /// Ranks of that group in one server.
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
        if self.kv_block == Some(0) {
            add(
                "kv_block",
                "a block has 1 position or more".to_owned(),
                "leave it out, or write 16",
            );
        }
        found.extend(self.card.generation_problem());
        found.extend(tensor_problem(&self.card, self.tensor, self.devices));
        found.extend(self.formats.packed.and_then(|packed| packed.problem()));
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
            add("tokens", rule, "generate fewer `tokens`, or fewer `batches`");
        } else if uses > 1 << 26 {
            let rule =
                format!("a generated trace has at most {} uses, this one {uses}", 1u64 << 26);
            add("kv_block", rule, "write larger blocks, or generate fewer `tokens`");
        }
        let positions = u128::from(self.positions());
        let sequences = u128::from(self.batch) * u128::from(self.batches);
        let kv = positions * sequences * u128::from(self.kv_bytes()) * u128::from(self.card.layers);
        // All of the cache is read in every step, and hidden states are far less than 8 bytes x
        // ffn.
        let hidden = positions * sequences * (16 * u128::from(self.widest())).max(1);
        let steps = u128::from(self.tokens);
        let touched = (kv + hidden * u128::from(self.card.layers) * 4) * steps;
        let pairs = positions * positions * sequences;
        let flops = 8 * pairs * u128::from(self.card.heads) * u128::from(self.card.head_dim);
        if touched > u128::from(u64::MAX)
            || flops * u128::from(self.card.layers) > u128::from(u64::MAX)
        {
            let rule = "the bytes and FLOPs of all ops must stay below 2^64".to_owned();
            add("prompt", rule, "choose fewer sequences, or shorter ones");
        }
    }

    /// Positions of a sequence at the end.
    pub fn positions(&self) -> u64 {
        self.prompt + u64::from(self.tokens) - u64::from(self.prefill)
    }

    /// Bytes of keys and values of one position in one layer, on this rank.
    pub fn kv_bytes(&self) -> u64 {
        let heads = u64::from(self.card.kv_heads) / u64::from(self.tensor.max(1));
        2 * heads * u64::from(self.card.head_dim) * self.formats.kv.bytes()
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
        passes * (u128::from(self.card.layers) * (15 + experts + unpacked) + 6)
    }

    fn most_uses(&self) -> u128 {
        let blocks = self.kv_block.map_or(1, |block| u128::from(self.positions().div_ceil(block)));
        let passes = u128::from(self.tokens) * u128::from(self.batches);
        self.most_ops() * 6 + passes * u128::from(self.card.layers) * blocks
    }

    /// The trace; the same for the same job.
    ///
    /// Panics if it has [`Generation::problems`].
    pub fn trace(&self) -> Trace {
        let problems = self.problems();
        assert!(problems.is_empty(), "a job with problems: {problems:?}");
        let trace = walk::generate(self);
        debug_assert!(trace.ops.len() as u128 <= self.most_ops(), "{} ops", trace.ops.len());
        debug_assert!(trace.uses.len() as u128 <= self.most_uses(), "{} uses", trace.uses.len());
        trace
    }
}
