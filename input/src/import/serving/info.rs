//! Requests in numbers: what `tiersim trace info` prints of a file of them.
//!
//! Invariant: reads the requests only; two calls give the same text.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use tiersim_models::requests::{Request, ServingRequests};

/// Requests in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestsInfo {
    /// How many.
    pub requests: u64,
    /// How many more got no answer, and are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// From the first arrival to the last, in seconds.
    pub span_s: f64,
    /// The most that arrive within a second, counted from the first arrival.
    pub busiest_second: u64,
    /// Tokens of prompts.
    pub prompt: TokensInfo,
    /// Tokens of answers.
    pub output: TokensInfo,
    /// Blocks of prompts, where the file names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlocksInfo>,
}

/// More requests a second than this may be times of another unit.
const CROWDED: f64 = 1000.0;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Tokens of all requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TokensInfo {
    /// Together.
    pub sum: u64,
    /// On average.
    pub mean: f64,
    /// The median, by nearest rank.
    pub p50: u32,
    /// The 95th percentile.
    pub p95: u32,
    /// The 99th percentile.
    pub p99: u32,
    /// The most.
    pub most: u32,
}

/// Blocks that prompts begin with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlocksInfo {
    /// Tokens of a block.
    pub tokens: u32,
    /// Blocks of all prompts.
    pub all: u64,
    /// Of these, different ones.
    pub different: u64,
    /// Blocks at the start of a prompt that an earlier one had: what a cache without end finds.
    pub found: u64,
}

/// What requests are together.
pub fn requests_info(requests: &ServingRequests) -> RequestsInfo {
    let list = &requests.list;
    let first = list.first().map_or(0, |one| one.arrival.ps());
    let last = list.last().map_or(0, |one| one.arrival.ps());
    let second = |one: &Request| (one.arrival.ps() - first) / 1_000_000_000_000;
    let busiest = list.chunk_by(|one, next| second(one) == second(next)).map(<[Request]>::len);
    RequestsInfo {
        requests: list.len() as u64,
        failed: requests.failed,
        span_s: (last - first) as f64 / 1e12,
        busiest_second: busiest.max().unwrap_or(0) as u64,
        prompt: tokens(list.iter().map(|one| one.prompt).collect()),
        output: tokens(list.iter().map(|one| one.output).collect()),
        blocks: requests.block_tokens.map(|tokens| blocks(requests, tokens)),
    }
}

fn tokens(mut all: Vec<u32>) -> TokensInfo {
    all.sort_unstable();
    let Some(&most) = all.last() else { return TokensInfo::default() };
    let sum: u64 = all.iter().map(|&count| u64::from(count)).sum();
    let rank = |percent: usize| all[(all.len() * percent).div_ceil(100) - 1];
    let [p50, p95, p99] = [50, 95, 99].map(rank);
    TokensInfo { sum, mean: sum as f64 / all.len() as f64, p50, p95, p99, most }
}

fn blocks(requests: &ServingRequests, tokens: u32) -> BlocksInfo {
    let (mut seen, mut all, mut found) = (BTreeSet::new(), 0, 0);
    for one in &requests.list {
        let names = &requests.names[one.blocks.start as usize..one.blocks.end as usize];
        found += names.iter().take_while(|name| seen.contains(*name)).count() as u64;
        all += names.len() as u64;
        seen.extend(names.iter().copied());
    }
    BlocksInfo { tokens, all, different: seen.len() as u64, found }
}

impl fmt::Display for RequestsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestsInfo { requests, span_s, busiest_second, .. } = self;
        let rate = if *span_s > 0.0 { *requests as f64 / span_s } else { 0.0 };
        writeln!(f, "{requests} requests within {span_s:.3} s, {rate:.3} a second on average,")?;
        writeln!(f, "  {busiest_second} in the busiest second")?;
        if rate > CROWDED {
            writeln!(f, "  (`timestamp` of JSON lines counts as milliseconds)")?;
        }
        if self.failed > 0 {
            writeln!(f, "  {} more failed: without an answer they are left out", self.failed)?;
        }
        writeln!(f, "\ntokens           sum       mean     p50     p95     p99    most")?;
        for (what, of) in [("prompts", &self.prompt), ("answers", &self.output)] {
            let TokensInfo { sum, mean, p50, p95, p99, most } = of;
            writeln!(f, "{what}  {sum:>11} {mean:>10.1} {p50:>7} {p95:>7} {p99:>7} {most:>7}")?;
        }
        if let Some(BlocksInfo { tokens, all, different, found }) = &self.blocks {
            let share = if *all > 0 { 100.0 * *found as f64 / *all as f64 } else { 0.0 };
            writeln!(
                f,
                "\n{all} blocks of {tokens} tokens at the start of prompts, {different} different;"
            )?;
            writeln!(
                f,
                "  {found} ({share:.1} %) were there before: what a cache without end finds"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BlocksInfo, requests_info};
    use tiersim_models::requests::ServingRequests;
    use tiersim_models::units::Time;

    #[test]
    fn requests_are_counted() {
        let mut requests = ServingRequests::new(Some(4));
        let ms = |ms: u64| Time::from_ps(ms * 1_000_000_000);
        for (at, prompt, output, names) in [
            (500, 8, 1, &[1, 2][..]),
            (900, 5, 2, &[1, 3]),
            (1600, 12, 9, &[1, 4, 2]),
            (1601, 8, 3, &[1, 2]),
        ] {
            requests.push(ms(at), prompt, output, names).expect("it is one");
        }
        let info = requests_info(&requests);
        assert_eq!((info.requests, info.busiest_second, info.span_s), (4, 2, 1.101));
        let prompt = &info.prompt;
        assert_eq!((prompt.sum, prompt.p50, prompt.p95, prompt.most), (33, 8, 12, 12));
        let blocks = BlocksInfo { tokens: 4, all: 9, different: 4, found: 4 };
        assert_eq!(info.blocks, Some(blocks));
        assert!(info.to_string().contains("4 (44.4 %) were there before"), "{info}");
    }
}
