//! Requests to a served model: when each arrives, how long its prompt and its answer are, and which
//! blocks of tokens its prompt starts with.
//!
//! A block is named by a hash of its tokens and of all before it, so that two prompts share exactly
//! the blocks of the same names at their start (Qin et al., "Mooncake", FAST 2025).
//! Invariant: requests are in the order of arrival, those of one moment in the order of their file,
//! and each has a prompt and an answer of 1 to [`MOST_TOKENS`] tokens.

use crate::units::Time;
use std::ops::Range;

/// The longest prompt, and the longest answer, in tokens: 2^30.
pub const MOST_TOKENS: u32 = 1 << 30;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrives; the first of a trace may arrive at any moment.
    pub arrival: Time,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens of the answer.
    pub output: u32,
    /// The names of its blocks, in [`ServingRequests::names`]; empty where the trace has none.
    pub blocks: Range<u32>,
}

/// The requests of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServingRequests {
    /// In the order of arrival.
    pub list: Vec<Request>,
    /// Names of blocks, request by request.
    pub names: Vec<u64>,
    /// Tokens of a block; `None` where the trace names no blocks. The last block of a prompt may be
    /// shorter.
    pub block_tokens: Option<u32>,
    /// How many of the trace got no answer: these are not in the list.
    pub failed: u64,
}

/// Why a request is not one of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestProblem {
    /// A prompt of none or too many tokens.
    Prompt,
    /// An answer of none or too many tokens.
    Output,
    /// Not one name for each block of the prompt; this many are.
    Blocks(u32),
    /// 2^32 names of blocks or more in all.
    TooMany,
}

impl ServingRequests {
    /// No requests yet, whose blocks have so many tokens, if they are named.
    ///
    /// Panics if `block_tokens` is 0.
    pub fn new(block_tokens: Option<u32>) -> ServingRequests {
        assert_ne!(block_tokens, Some(0), "a block has tokens");
        ServingRequests { list: Vec::new(), names: Vec::new(), block_tokens, failed: 0 }
    }

    /// Adds a request; [`ServingRequests::sort`] puts it in its place.
    ///
    /// # Errors
    /// A rule that it breaks; it is then not added.
    pub fn push(
        &mut self,
        arrival: Time,
        prompt: u64,
        output: u64,
        names: &[u64],
    ) -> Result<(), RequestProblem> {
        let tokens = |count: u64| {
            let count = u32::try_from(count).ok();
            count.filter(|count| (1..=MOST_TOKENS).contains(count))
        };
        let prompt = tokens(prompt).ok_or(RequestProblem::Prompt)?;
        let output = tokens(output).ok_or(RequestProblem::Output)?;
        let blocks = self.block_tokens.map_or(0, |tokens| prompt.div_ceil(tokens));
        if names.len() != blocks as usize {
            return Err(RequestProblem::Blocks(blocks));
        }
        let from = self.names.len() as u32;
        let to = u32::try_from(self.names.len() + names.len());
        let to = to.map_err(|_| RequestProblem::TooMany)?;
        self.names.extend_from_slice(names);
        self.list.push(Request { arrival, prompt, output, blocks: from..to });
        Ok(())
    }

    /// Puts all in the order of arrival, those of one moment in the order in which they were added.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|request| request.arrival);
    }

    /// The names of a request's blocks, from the start of its prompt on.
    pub fn names_of(&self, request: &Request) -> &[u64] {
        &self.names[request.blocks.start as usize..request.blocks.end as usize]
    }

    /// Keeps the first `count` requests only.
    pub fn keep_first(&mut self, count: usize) {
        self.list.truncate(count);
    }

    /// Keeps the requests that arrive before `end` only.
    pub fn keep_before(&mut self, end: Time) {
        self.list.truncate(self.list.partition_point(|request| request.arrival < end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_moment_keep_their_order() {
        let mut requests = ServingRequests::new(Some(512));
        for (at, prompt) in [(5, 1), (3, 512), (5, 513), (3, 4)] {
            let names = vec![prompt; (prompt as usize).div_ceil(512)];
            let added = requests.push(Time::from_ps(at), prompt, 1, &names);
            assert_eq!(added, Ok(()));
        }
        requests.sort();
        let prompts: Vec<u32> = requests.list.iter().map(|request| request.prompt).collect();
        assert_eq!(prompts, [512, 4, 1, 513]);
        assert_eq!(requests.names_of(&requests.list[3]), [513, 513]);
        requests.keep_before(Time::from_ps(5));
        assert_eq!(requests.list.len(), 2);
    }

    #[test]
    fn what_is_no_request_is_refused_and_leaves_nothing() {
        let mut requests = ServingRequests::new(Some(16));
        let most = u64::from(MOST_TOKENS);
        let mut push =
            |prompt, output, names: &[u64]| requests.push(Time::ZERO, prompt, output, names);
        assert_eq!(push(0, 1, &[]), Err(RequestProblem::Prompt));
        assert_eq!(push(most + 1, 1, &[]), Err(RequestProblem::Prompt));
        assert_eq!(push(1, 0, &[0]), Err(RequestProblem::Output));
        assert_eq!(push(1, u64::MAX, &[0]), Err(RequestProblem::Output));
        assert_eq!(push(17, 1, &[0]), Err(RequestProblem::Blocks(2)));
        assert_eq!(push(16, 1, &[0, 1]), Err(RequestProblem::Blocks(1)));
        assert_eq!(requests, ServingRequests::new(Some(16)));
    }
}
