//! Serving requests: from arrivals to a trace of iterations, by a stated scheduler.
//!
//! The scheduler batches continuously (Yu et al., "Orca", OSDI 2022): in every iteration each
//! running request decodes one token, and what is left of a budget of tokens goes to prompts in
//! chunks, first come first served (Agrawal et al., "Sarathi-Serve", OSDI 2024). Keys and values
//! are blocks (Kwon et al., "PagedAttention", SOSP 2023); those that have names stay when their
//! request has ended, until the room of all blocks is needed, and serve every later prompt that
//! starts alike. It has no clock: iterations last as long as the roofline of the device says, so
//! the order of the ops is one of everything in HBM. Where blocks are, and what moves, is the
//! policy's business.
//! Invariant: a request that is admitted runs to its end; nothing is preempted, as the room of its
//! whole answer is kept from the start.

mod cost;
mod emit;
mod pool;
mod reached;
mod schedule;

use super::card::Card;
use super::format::Formats;
use super::graph::network::tensor_problem;
use super::training::Kernels;
use crate::limits::ShapeProblem;
use std::fmt;
use tiersim_models::collective::Collective;
use tiersim_models::kernel::Kernel;
use tiersim_models::requests::ServingRequests;
use tiersim_models::serving_plan::Served;
use tiersim_models::units::{Bytes, Span};

/// How a model serves requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serving {
    /// The model.
    pub card: Card,
    /// The format of each kind of object.
    pub formats: Formats,
    /// Tokens of a block of keys and values; that of the names where requests have names.
    pub block_tokens: u32,
    /// Blocks that exist at most at a time, in all tiers together.
    pub kv_blocks: u64,
    /// Requests that run at most at a time.
    pub max_batch: u32,
    /// Tokens of an iteration, of prompts and answers together.
    pub max_tokens_per_step: u32,
    /// Groups of layers: an iteration has so many ops, and a block so many objects.
    pub layer_groups: u32,
    /// Iterations that one op stands for at most, where each decodes the same requests.
    pub merge: u32,
    /// Which kernels run.
    pub kernels: Kernels,
    /// Ranks that each matrix is split over; the trace is that of one of them.
    pub tensor: u32,
    /// Devices of one server: the ranks that are neighbours.
    pub devices: u32,
}

/// What one rank does in a group of layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupWork {
    /// What the device runs, one after the other.
    pub kernels: Vec<Kernel>,
    /// What it does with the other ranks.
    pub collectives: Vec<Collective>,
}

/// How long that takes; `None` if it outlasts the clock.
pub type Pace<'a> = &'a dyn Fn(&GroupWork) -> Option<Span>;

/// Why requests cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingProblem {
    /// A rule that the options break.
    Option(ShapeProblem),
    /// A request needs more blocks than there are: which, counted from 0, and how many.
    TooFewBlocks(usize, u64),
    /// A request has more positions than the model: which, counted from 0, and how many.
    Positions(usize, u64),
    /// The trace would have more rows than this.
    Rows(u64),
    /// An op, or all of them, would outlast the clock or 64 bits.
    Overflow,
}

impl fmt::Display for ServingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServingProblem::Option(problem) => f.write_str(&problem.rule),
            ServingProblem::TooFewBlocks(request, blocks) => {
                write!(
                    f,
                    "request {request} needs {blocks} blocks at a time, more than `kv_blocks`"
                )
            }
            ServingProblem::Positions(request, positions) => {
                write!(
                    f,
                    "request {request} has {positions} positions, more than the model's table"
                )
            }
            ServingProblem::Rows(most) => {
                write!(f, "a generated trace has at most {most} uses of objects, this one more")
            }
            ServingProblem::Overflow => {
                f.write_str("the requests outlast the clock of 213 days, or 2^64 FLOPs or bytes")
            }
        }
    }
}

impl ServingProblem {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            ServingProblem::Option(problem) => problem.remedy,
            ServingProblem::TooFewBlocks(..) => "raise `kv_blocks`, or leave the request out",
            ServingProblem::Positions(..) => "leave the request out, or take another model",
            ServingProblem::Rows(_) => {
                "serve fewer requests, in larger blocks, or merge iterations"
            }
            ServingProblem::Overflow => "serve fewer requests",
        }
    }
}

/// Most uses of a generated trace.
pub const MAX_USES: u64 = 1 << 25;

impl Serving {
    /// Every rule that the options break with these requests; empty if they can be served, unless a
    /// limit shows on the way.
    pub fn problems(&self, requests: &ServingRequests) -> Vec<ServingProblem> {
        let mut found = Vec::new();
        let mut add = |field, rule: String, remedy| {
            found.push(ServingProblem::Option(ShapeProblem { field, rule, remedy }));
        };
        let ranges = [
            ("block_tokens", u64::from(self.block_tokens), 1 << 20),
            ("kv_blocks", self.kv_blocks, 1 << 31),
            ("max_batch", u64::from(self.max_batch), 1 << 20),
            ("max_tokens_per_step", u64::from(self.max_tokens_per_step), 1 << 30),
            ("layer_groups", u64::from(self.layer_groups), u64::from(self.card.layers)),
            ("merge", u64::from(self.merge), 1 << 20),
        ];
        for (field, value, most) in ranges {
            if !(1..=most).contains(&value) {
                let rule = format!("`{field}` must lie between 1 and {most}, and is {value}");
                add(field, rule, "write a number in that range");
            }
        }
        let tensor = tensor_problem(&self.card, self.tensor, self.devices);
        for problem in tensor.into_iter().chain(self.card.generation_problem()) {
            add(problem.field, problem.rule, problem.remedy);
        }
        for problem in self.shape(0).eager_problems() {
            add(problem.field, problem.rule, problem.remedy);
        }
        if self.max_tokens_per_step <= self.max_batch {
            let rule = format!(
                "`max_tokens_per_step` must be above `max_batch`, which is {}",
                self.max_batch
            );
            add("max_tokens_per_step", rule, "leave room for prompts beside all that decode");
        }
        if let Some(tokens) = requests.block_tokens.filter(|&tokens| tokens != self.block_tokens) {
            let rule = format!("`block_tokens` must be that of the requests' names, {tokens}");
            add("block_tokens", rule, "write the same number");
        }
        if let Some(problem) = self.formats.packed.and_then(|packed| packed.problem()) {
            found.push(ServingProblem::Option(problem));
        }
        if !found.is_empty() {
            return found;
        }
        for (index, request) in requests.list.iter().enumerate() {
            let positions = u64::from(request.prompt) + u64::from(request.output) - 1;
            let blocks = self.blocks_of(request.prompt, request.output);
            if blocks > self.kv_blocks {
                found.push(ServingProblem::TooFewBlocks(index, blocks));
            } else if blocks * u64::from(self.layer_groups) > MAX_USES {
                found.push(ServingProblem::Rows(MAX_USES));
            } else if self.card.positions > 0 && positions > u64::from(self.card.positions) {
                found.push(ServingProblem::Positions(index, positions));
            }
        }
        found
    }

    /// Blocks of a request at its end. Its answer has blocks of its own; the last token of it is
    /// never attended to.
    fn blocks_of(&self, prompt: u32, output: u32) -> u64 {
        let blocks = |tokens: u32| u64::from(tokens.div_ceil(self.block_tokens));
        blocks(prompt) + blocks(output - 1)
    }

    /// Bytes of keys and values of one token in one layer, on one rank.
    fn kv_bytes(&self) -> u64 {
        let (numbers, pieces) = self.card.cached(self.tensor);
        pieces * numbers * self.formats.kv.bytes()
    }

    /// Bytes of one block: keys and values of its tokens in all layers, on one rank.
    pub fn block_bytes(&self) -> Bytes {
        let layer = u64::from(self.block_tokens) * self.kv_bytes();
        Bytes::new(layer * u64::from(self.card.layers))
    }

    /// Serves requests; the same for the same requests and pace.
    ///
    /// # Errors
    /// [`Serving::problems`], and limits that show on the way: see [`ServingProblem`].
    pub fn serve(
        &self,
        requests: &ServingRequests,
        pace: Pace<'_>,
    ) -> Result<Served, ServingProblem> {
        match self.problems(requests).into_iter().next() {
            Some(problem) => Err(problem),
            None => schedule::serve(self, requests, pace),
        }
    }
}
