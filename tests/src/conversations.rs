//! The shipped trace of requests: conversations, in the format of Mooncake's traces.
//!
//! Conversations begin at random and go through turns. Each starts with one of a few system
//! prompts, most of them with the first, some go on with a long document; every turn's prompt is
//! all that was said before and a new message. Lengths are log-normal. A block of 512 tokens is
//! named when it is full, and again by every prompt that ends in the middle of it: those blocks are
//! nobody else's.
//! Invariant: the same seed makes the same bytes.

use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use rand_distr::{Distribution, Exp, LogNormal, Uniform};
use std::fmt::Write;

/// Tokens of a block.
const BLOCK: u64 = 512;
/// Requests of the trace.
const REQUESTS: usize = 300;
/// Mean time between the beginnings of conversations, in milliseconds.
const APART: f64 = 3000.0;
/// Mean time from an answer to the next message of its conversation, in milliseconds.
const PAUSE: f64 = 20_000.0;
/// Blocks of each system prompt.
const SYSTEMS: [u64; 4] = [6, 3, 2, 1];
/// The longest prompt.
const LONGEST: u64 = 30_000;

/// What is said so far.
struct Conversation {
    tokens: u64,
    /// Names of the blocks that are full.
    blocks: Vec<u64>,
}

/// Draws, and names of blocks.
struct ConversationBuilder {
    rng: ChaCha12Rng,
    next_name: u64,
}

/// One line.
struct Line {
    at: u64,
    input: u64,
    output: u64,
    names: Vec<u64>,
}

/// The trace; the shipped one has seed 1.
pub fn requests(seed: u64) -> String {
    let rng = ChaCha12Rng::seed_from_u64(seed);
    let mut maker = ConversationBuilder { rng, next_name: 0 };
    let systems = SYSTEMS.map(|blocks| (0..blocks).map(|_| maker.name()).collect::<Vec<u64>>());
    let mut lines: Vec<Line> = Vec::new();
    let mut begins = 0.0;
    // Enough conversations that the first requests of all of them are all that there are.
    for _ in 0..REQUESTS {
        begins += maker.exponential(APART);
        maker.conversation(&systems, begins, &mut lines);
    }
    lines.sort_by_key(|line| line.at);
    lines.truncate(REQUESTS);
    let first = lines.first().map_or(0, |line| line.at);
    let mut text = String::new();
    for Line { at, input, output, names } in lines {
        let at = at - first;
        let _ = writeln!(
            text,
            "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": {output}, \
             \"hash_ids\": {names:?}}}"
        );
    }
    text
}

impl ConversationBuilder {
    fn name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name - 1
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        Exp::new(1.0 / mean).expect("a mean above 0").sample(&mut self.rng)
    }

    /// Tokens of a text whose median is `median`.
    fn tokens(&mut self, median: f64, sigma: f64, most: u64) -> u64 {
        let law = LogNormal::new(median.ln(), sigma).expect("a spread above 0");
        (law.sample(&mut self.rng).round() as u64).clamp(1, most)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        Uniform::new(0.0, 1.0).expect("a range").sample(&mut self.rng)
    }

    fn conversation(&mut self, systems: &[Vec<u64>], begins: f64, lines: &mut Vec<Line>) {
        // Half of all conversations have the first system prompt, half of the others the second.
        let mut which = 0;
        while which + 1 < systems.len() && self.share() >= 0.5 {
            which += 1;
        }
        let blocks = systems[which].clone();
        let mut said = Conversation { tokens: blocks.len() as u64 * BLOCK, blocks };
        if self.share() < 0.4 {
            let document = self.tokens(6000.0, 0.8, 20_000);
            said.say(document, self);
        }
        let mut at = begins;
        loop {
            let message = self.tokens(250.0, 1.0, 4000);
            said.say(message, self);
            if said.tokens > LONGEST {
                return;
            }
            let output = self.tokens(180.0, 0.7, 1000);
            let mut names = said.blocks.clone();
            if !said.tokens.is_multiple_of(BLOCK) {
                names.push(self.name());
            }
            lines.push(Line { at: at.round() as u64, input: said.tokens, output, names });
            said.say(output, self);
            at += self.exponential(PAUSE);
            // Four turns on average.
            if self.share() < 0.25 {
                return;
            }
        }
    }
}

impl Conversation {
    fn say(&mut self, tokens: u64, maker: &mut ConversationBuilder) {
        self.tokens += tokens;
        while (self.blocks.len() as u64 + 1) * BLOCK <= self.tokens {
            let name = maker.name();
            self.blocks.push(name);
        }
    }
}
