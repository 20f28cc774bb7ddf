//! What there is of keys and values of past tokens.

use std::ops::Range;
use tiersim_models::ids::ObjectId;

/// The cache of a job that generates text.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// By layer and batch, the blocks that exist.
    pub(super) blocks: Vec<Vec<ObjectId>>,
    /// By layer and batch, the blocks before those, which nothing attends to any more.
    pub(super) behind: Vec<u64>,
    pub(super) batches: usize,
    /// The batch whose turn it is.
    pub(crate) batch: usize,
    /// Positions of a sequence that this rank has before and behind the pass at work.
    pub(crate) span: Range<u64>,
    /// Positions of a block, and of a sequence at the end, on this rank.
    pub(super) size: u64,
    pub(super) positions: u64,
    /// Whether blocks are pieces that lie anywhere.
    pub(super) paged: bool,
    /// Positions that are there before the first step.
    pub(super) held: u64,
    /// Whether decode steps attend on the host's processors.
    pub(super) on_host: bool,
    /// Whether every pass makes keys and values anew, which are two objects then.
    pub(crate) is_made_anew: bool,
}

impl Cache {
    /// Nothing but what `held` positions have before the first step; one block without
    /// `kv_block`.
    pub(crate) fn new(
        (layers, batches): (u32, u32),
        (positions, held): (u64, u64),
        kv_block: Option<u64>,
        on_host: bool,
    ) -> Cache {
        let size = kv_block.unwrap_or(positions).min(positions).max(1);
        let blocks = vec![Vec::new(); layers as usize * batches as usize];
        let behind = vec![0; blocks.len()];
        let (batches, batch, paged) = (batches as usize, 0, kv_block.is_some());
        let (span, is_made_anew) = (0..positions, false);
        Cache {
            blocks,
            behind,
            batches,
            batch,
            span,
            size,
            positions,
            paged,
            held,
            on_host,
            is_made_anew,
        }
    }
}
