//! The blocks of Mooncake's requests: one request for each of `hash_ids`, in the order of the file.
//!
//! Names stand for all that a prompt starts with, so a cache of blocks is one of prefixes. Blocks
//! have no size here: what they hold depends on the model, and each counts 1.
//! Invariant: one line of the file is in memory at a time.

use crate::import::serving::mooncake::Lines;
use std::path::Path;
use tiersim_models::block_trace::{BATCH, NEVER, Request};
use tiersim_models::diagnostic::Diagnostics;

/// The blocks of a file.
pub(super) struct Prefixes {
    lines: Lines,
    /// The blocks of a line.
    blocks: Vec<u64>,
    /// How many of them have been handed out.
    taken: usize,
}

impl Prefixes {
    pub(super) fn open(path: &Path, sizes: bool) -> Result<Prefixes, Diagnostics> {
        if sizes {
            let remedy = "give --unit, and --capacity in blocks: each then counts 1";
            return Err(Diagnostics::one(path, None, "requests without sizes", "", remedy));
        }
        Ok(Prefixes { lines: Lines::open(path)?, blocks: Vec::new(), taken: 0 })
    }

    pub(super) fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Diagnostics> {
        while batch.len() < BATCH {
            if self.taken == self.blocks.len() {
                let Some(line) = self.lines.next()? else { break };
                (self.blocks, self.taken) = (line.hash_ids, 0);
            }
            let room = (BATCH - batch.len()).min(self.blocks.len() - self.taken);
            let blocks = &self.blocks[self.taken..self.taken + room];
            batch.extend(blocks.iter().map(|&object| Request { object, bytes: 1, next: NEVER }));
            self.taken += room;
        }
        Ok(())
    }
}
