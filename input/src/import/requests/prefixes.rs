//! The blocks of Mooncake's requests: one request for each of `hash_ids`, in the order of the file.
//!
//! Names stand for all that a prompt starts with, so a cache of blocks is one of prefixes. Blocks
//! have no size here: what they hold depends on the model, and each counts 1. All of a prompt are
//! asked for when it arrives.
//! Invariant: one line of the file is in memory at a time.

use super::{Seen, sizes_missing};
use crate::import::serving::mooncake::Lines;
use std::path::Path;
use tiersim_models::block_trace::{BATCH, NEVER, Request};
use tiersim_models::diagnostic::Diagnostics;

/// The blocks of a file.
pub(super) struct Prefixes {
    lines: Lines,
    /// The blocks of a line.
    blocks: Vec<u64>,
    /// When it arrives, in ps.
    at_ps: u64,
    /// How many of them have been handed out.
    taken: usize,
}

impl Prefixes {
    pub(super) fn open(path: &Path, sizes: bool) -> Result<Prefixes, Diagnostics> {
        if sizes {
            return Err(sizes_missing(path));
        }
        Ok(Prefixes { lines: Lines::open(path)?, blocks: Vec::new(), at_ps: 0, taken: 0 })
    }

    pub(super) fn next_batch(
        &mut self,
        batch: &mut Vec<Request>,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> Result<(), Diagnostics> {
        while batch.len() < BATCH {
            if self.taken == self.blocks.len() {
                let Some(line) = self.lines.next()? else { break };
                self.at_ps = line.at_ps().map_err(|(rule, found)| {
                    self.lines.wrong(rule, found, "count from the first request")
                })?;
                let Some(blocks) = line.hash_ids else {
                    let rule = "requests without hash_ids name no blocks";
                    return Err(self.lines.wrong(
                        rule,
                        String::new(),
                        "name a trace that has them",
                    ));
                };
                (self.blocks, self.taken) = (blocks, 0);
            }
            let room = (BATCH - batch.len()).min(self.blocks.len() - self.taken);
            let blocks = &self.blocks[self.taken..self.taken + room];
            batch.extend(blocks.iter().map(|&object| Request { object, bytes: 1, next: NEVER }));
            if let Some(seen) = &mut seen {
                let at_ps = Some(u128::from(self.at_ps));
                seen.resize(batch.len(), Seen { at_ps, mode: None });
            }
            self.taken += room;
        }
        Ok(())
    }
}
