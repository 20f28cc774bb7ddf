//! What became of requests: waiting, first token, tokens behind it, and what was not computed
//! again.
//!
//! A token is there when the op that computes it ends. One op may stand for several decode
//! iterations; a request's first and last token are always those of an op's end.
//! Invariant: in the order of arrival, one entry per request of the plan.

use crate::ids::OpId;
use crate::results::Steps;
use crate::serving_plan::{Course, Plan};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// Bytes of keys and values that requests found because they had been computed for others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixHits {
    /// By tier; tiers behind the last one are 0.
    pub tiers: Vec<u64>,
    /// Of blocks that another request's part of the same op computes.
    pub in_the_op: u64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFigures {
    /// When it arrived.
    pub arrival: Time,
    /// Tokens of its answer.
    pub output: u32,
    /// Until the first iteration that works for it could begin: the op before it had ended.
    pub queued: Span,
    /// TTFT: until its first token was there.
    pub first_token: Span,
    /// Until its last token was there.
    pub latency: Span,
}

impl RequestFigures {
    /// TPOT: the mean time of a token behind the first, rounded up; none for an answer of one.
    pub fn per_token(&self) -> Option<Span> {
        let tokens = self.output.checked_sub(1).filter(|&tokens| tokens > 0)?;
        let all = self.latency.ps() - self.first_token.ps();
        Some(Span::from_ps(all.div_ceil(u64::from(tokens))))
    }
}

/// Mean and percentiles in milliseconds; not a number where there is nothing to take them over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// All requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingFigures {
    /// In the order of arrival.
    pub requests: Vec<RequestFigures>,
    /// When the last token was there, counted from the start of the run.
    pub end: Time,
    /// Blocks of prompts.
    pub blocks: u64,
    /// Of these, blocks that had been computed before.
    pub hits: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Of these, tokens that were not computed again.
    pub hit_tokens: u64,
    /// Bytes of keys and values that requests found, and where.
    pub found: PrefixHits,
}

impl ServingFigures {
    /// From a plan, the end of each of its ops, and where reused blocks were found.
    pub fn of(plan: &Plan, ends: &[Time], found: &PrefixHits) -> ServingFigures {
        let end = |op: OpId| ends[op.index()];
        let request = |course: &Course| {
            let since = |op: OpId| end(op).since(course.arrival);
            // The op before it waits for its arrival.
            let turn = course.first.0.checked_sub(1).map(OpId);
            RequestFigures {
                arrival: course.arrival,
                output: course.output,
                queued: turn.map_or(Span::ZERO, since),
                first_token: since(course.token),
                latency: since(course.last),
            }
        };
        let sum = |of: &dyn Fn(&Course) -> u32| -> u64 {
            plan.requests.iter().map(|course| u64::from(of(course))).sum()
        };
        ServingFigures {
            requests: plan.requests.iter().map(request).collect(),
            end: plan.requests.iter().map(|course| end(course.last)).max().unwrap_or_default(),
            blocks: sum(&|course| course.blocks),
            hits: sum(&|course| course.hits),
            prompt_tokens: sum(&|course| course.prompt),
            hit_tokens: sum(&|course| course.hit_tokens),
            found: found.clone(),
        }
    }

    /// Tokens of all answers.
    pub fn output_tokens(&self) -> u64 {
        self.requests.iter().map(|request| u64::from(request.output)).sum()
    }

    /// Tokens of answers per second, from the start of the run to the last of them.
    pub fn tokens_per_s(&self) -> f64 {
        self.output_tokens() as f64 / (self.end.as_ms() / 1e3)
    }

    /// Share of the blocks of prompts that had been computed before.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.blocks as f64
    }

    /// Over the requests that have such a figure.
    fn spread(&self, of: impl Fn(&RequestFigures) -> Option<Span>) -> Spread {
        let all: Steps = self.requests.iter().filter_map(of).collect();
        let mean = all.total() as f64 / 1e9 / all.len() as f64;
        let [p50, p95, p99] = [50, 95, 99].map(|percent| all.ms_percentile(percent));
        Spread { mean, p50, p95, p99 }
    }

    /// The mean over the requests that have such a figure, rounded down; 0 where none has.
    pub fn mean(&self, of: impl Fn(&RequestFigures) -> Option<Span>) -> Span {
        let all: Steps = self.requests.iter().filter_map(of).collect();
        let mean = all.total() / (all.len() as u128).max(1);
        Span::from_ps(u64::try_from(mean).expect("no mean exceeds the largest"))
    }

    /// TTFT.
    pub fn first_token_ms(&self) -> Spread {
        self.spread(|request| Some(request.first_token))
    }

    /// TPOT, over requests with two tokens or more.
    pub fn per_token_ms(&self) -> Spread {
        self.spread(RequestFigures::per_token)
    }

    /// From arrival to the last token.
    pub fn latency_ms(&self) -> Spread {
        self.spread(|request| Some(request.latency))
    }

    /// From arrival to the first iteration that could work for a request.
    pub fn queued_ms(&self) -> Spread {
        self.spread(|request| Some(request.queued))
    }
}
