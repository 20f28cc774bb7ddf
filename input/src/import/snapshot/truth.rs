//! What a snapshot itself says about every moment: segments from its own entries, blocks from the
//! addresses of its own allocations.
//!
//! An entry names the bytes that were asked for and the address that was given; how large the block
//! became follows from the free piece at that address and from when a piece is split. No search
//! is made, so nothing of the modelled allocator decides here. The state before the first entry
//! is had by undoing all entries from the end, as PyTorch's own viewer does.
//! Invariant: `reserved` and `active` are the sums over the segments and blocks listed.

use crate::import::snapshot::rows::{Action, Device, PoolId, What};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::allocator::caching::UsedBlock;

const SMALL: u64 = 1 << 20;
const SMALL_SEGMENT: u64 = 2 << 20;

/// A segment or mapped range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) bytes: u64,
    pub(super) stream: i64,
    pub(super) pool: PoolId,
    pub(super) small: bool,
    pub(super) expandable: bool,
}

/// When free pieces are split, and sizes are rounded.
pub(super) struct Rules<'a> {
    pub(super) expandable: bool,
    pub(super) max_split: u64,
    /// What large expandable segments are mapped by.
    pub(super) large: u64,
    pub(super) round: &'a dyn Fn(u64) -> u64,
}

/// The allocator's state as the file tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Truth {
    pub(super) ranges: BTreeMap<u64, Range>,
    pub(super) live: BTreeMap<u64, UsedBlock>,
    pub(super) reserved: u64,
    pub(super) active: u64,
    /// Entries that contradict the entries before them.
    pub(super) unexplained: u64,
    /// Pools of segments by the entry that made them, as segments at the end tell them: entries of
    /// old versions do not name their pool.
    pub(super) pools: BTreeMap<usize, PoolId>,
    /// Blocks from before the first entry that turned out to be larger: the bytes of each, by
    /// address.
    kept: BTreeMap<u64, u64>,
    /// Addresses of blocks that an entry allocated.
    told: BTreeSet<u64>,
}

impl Truth {
    /// The state at the end.
    pub(super) fn last(device: &Device) -> Truth {
        let mut truth = Truth::default();
        for segment in &device.segments {
            let range = Range {
                bytes: segment.bytes,
                stream: segment.stream,
                pool: segment.pool,
                small: segment.small,
                expandable: segment.expandable,
            };
            truth.ranges.insert(segment.at, range);
            truth.live.extend(segment.used.iter().map(|block| (block.at, *block)));
        }
        truth.sum();
        truth
    }

    fn sum(&mut self) {
        self.reserved = self.ranges.values().map(|range| range.bytes).fold(0, u64::saturating_add);
        self.active = self.live.values().map(|live| live.bytes).fold(0, u64::saturating_add);
    }

    /// The state before the first entry.
    pub(super) fn first(device: &Device, rules: &Rules<'_>) -> Truth {
        let mut truth = Truth::last(device);
        let mut inferred = BTreeSet::new();
        for (entry, action) in device.actions.iter().enumerate().rev() {
            match action.what {
                What::Alloc => {
                    truth.live.remove(&action.at);
                    inferred.remove(&action.at);
                }
                What::FreeCompleted => {
                    let (at, requested) = (action.at, action.bytes);
                    let bytes = (rules.round)(requested);
                    truth.live.insert(at, UsedBlock { at, bytes, requested, allocated: false });
                    inferred.insert(at);
                }
                What::FreeRequested => {
                    if let Some(live) = truth.live.get_mut(&action.at) {
                        live.allocated = true;
                    }
                }
                What::Grow => {
                    let pool = truth.shrink(action).map_or((0, 0), |range| range.pool);
                    if pool != (0, 0) {
                        truth.pools.insert(entry, pool);
                    }
                }
                What::Release => truth.grow(action, rules),
                What::OutOfMemory | What::Mark => {}
            }
        }
        // Such a block may have kept what was too little to split off, as its neighbours tell...
        for &at in &inferred {
            let extent = truth.extent(at);
            if let (Some((range, extent)), Some(live)) = (extent, truth.live.get(&at).copied()) {
                let bytes = block_size(live.requested, extent, range, rules);
                truth.live.insert(at, UsedBlock { bytes, ..live });
            }
        }
        truth.unexplained = 0;
        truth.sum();
        // ... or what begins behind it later on.
        let mut later = truth.clone();
        for action in &device.actions {
            later.apply(action, rules);
        }
        for (&at, &bytes) in &later.kept {
            if let Some(live) = truth.live.get_mut(&at).filter(|_| inferred.contains(&at)) {
                live.bytes = live.bytes.max(bytes);
            }
        }
        truth.sum();
        truth
    }

    /// Takes the next entry.
    pub(super) fn apply(&mut self, action: &Action, rules: &Rules<'_>) {
        match action.what {
            What::Alloc => self.alloc(action, rules),
            What::FreeRequested => match self.live.get_mut(&action.at) {
                Some(live) => live.allocated = false,
                None => self.unexplained += 1,
            },
            What::FreeCompleted => match self.live.remove(&action.at) {
                Some(live) => self.active = self.active.saturating_sub(live.bytes),
                None => self.unexplained += 1,
            },
            What::Grow => self.grow(action, rules),
            What::Release => drop(self.shrink(action)),
            What::OutOfMemory | What::Mark => {}
        }
    }

    fn alloc(&mut self, action: &Action, rules: &Rules<'_>) {
        self.reach(action.at, rules);
        let rounded = (rules.round)(action.bytes);
        let bytes = match self.extent(action.at) {
            Some((range, extent)) if extent >= rounded && !self.live.contains_key(&action.at) => {
                block_size(action.bytes, extent, range, rules)
            }
            _ => {
                self.unexplained += 1;
                rounded
            }
        };
        let (at, requested) = (action.at, action.bytes);
        let live = UsedBlock { at, bytes, requested, allocated: true };
        self.told.insert(action.at);
        self.active = self.active.saturating_add(bytes);
        if let Some(before) = self.live.insert(action.at, live) {
            self.active = self.active.saturating_sub(before.bytes);
        }
    }

    /// A block begins where a free piece begins. One that begins within shows that the block before
    /// that piece reaches there: it kept what was too little to split off, which nobody could know
    /// until now.
    fn reach(&mut self, at: u64, rules: &Rules<'_>) {
        let Some((&start, &range)) = self.ranges.range(..=at).next_back() else { return };
        let Some((&before, live)) = self.live.range_mut(start..at).next_back() else { return };
        let bytes = at - before;
        let Some(slack) = bytes.checked_sub(live.bytes).filter(|&slack| slack > 0) else { return };
        if range.bytes <= at - start || splits((rules.round)(live.requested), slack, range, rules) {
            return;
        }
        live.bytes = bytes;
        self.active = self.active.saturating_add(slack);
        if !self.told.contains(&before) {
            self.kept.entry(before).or_insert(bytes);
        }
    }

    /// The pool of the segment that an address lies in.
    pub(super) fn pool(&self, at: u64) -> Option<PoolId> {
        let (&start, range) = self.ranges.range(..=at).next_back()?;
        (at - start < range.bytes).then_some(range.pool)
    }

    /// The range that an address lies in, and the bytes from there to the next block or its end.
    fn extent(&self, at: u64) -> Option<(Range, u64)> {
        let (&start, &range) = self.ranges.range(..=at).next_back()?;
        let end = start.checked_add(range.bytes).filter(|&end| end > at)?;
        let next = self.live.range(at + 1..).next().map_or(end, |(&next, _)| next.min(end));
        Some((range, next - at))
    }

    fn grow(&mut self, action: &Action, rules: &Rules<'_>) {
        let (mut at, mut bytes) = (action.at, action.bytes);
        self.reserved = self.reserved.saturating_add(bytes);
        // Of a small one several handles may have been unmapped as one.
        let odd = action.mapped && !bytes.is_multiple_of(rules.large);
        let small = bytes == SMALL_SEGMENT || odd;
        let (stream, pool) = (action.stream, action.pool.unwrap_or((0, 0)));
        let mut range = Range { bytes, stream, pool, small, expandable: action.mapped };
        if action.mapped {
            // Neighbours of one expandable segment are one row of blocks.
            let before = self.ranges.range(..at).next_back().map(|(&at, &range)| (at, range));
            if let Some((start, near)) = before
                && near.expandable
                && start + near.bytes == at
                && near.stream == stream
                && near.small == small
            {
                (at, bytes, range) = (start, bytes + near.bytes, near);
            }
            let end = at + bytes;
            if let Some(&near) = self.ranges.get(&end)
                && near.expandable
                && near.stream == stream
                && near.small == small
            {
                self.ranges.remove(&end);
                bytes += near.bytes;
            }
        }
        if self.ranges.insert(at, Range { bytes, ..range }).is_some() && !action.mapped {
            self.unexplained += 1;
        }
    }

    fn shrink(&mut self, action: &Action) -> Option<Range> {
        let (from, end) = (action.at, action.at.saturating_add(action.bytes));
        let found = self.ranges.range(..=from).next_back().map(|(&at, &range)| (at, range));
        let Some((at, range)) = found.filter(|&(at, range)| at + range.bytes >= end) else {
            self.unexplained += 1;
            return None;
        };
        self.ranges.remove(&at);
        self.reserved = self.reserved.saturating_sub(action.bytes);
        if at < from {
            self.ranges.insert(at, Range { bytes: from - at, ..range });
        }
        if end < at + range.bytes {
            self.ranges.insert(end, Range { bytes: at + range.bytes - end, ..range });
        }
        Some(range)
    }
}

/// How large a block becomes that is cut from so many free bytes: `should_split`.
fn block_size(requested: u64, extent: u64, range: Range, rules: &Rules<'_>) -> u64 {
    let rounded = (rules.round)(requested);
    match extent.checked_sub(rounded) {
        Some(left) if !splits(rounded, left, range, rules) => extent,
        _ => rounded,
    }
}

/// Whether so much that is left of a free piece is split off.
fn splits(rounded: u64, left: u64, range: Range, rules: &Rules<'_>) -> bool {
    if range.small || range.expandable || rules.expandable {
        return left >= 512;
    }
    rounded < rules.max_split && left > SMALL
}

/// Stream, pool and whether it is of small blocks: each has an expandable segment of its own.
pub(super) type Owner = (i64, PoolId, bool);

/// The lowest address that is known of each expandable segment, by any entry or at the end.
pub(super) fn starts(device: &Device) -> BTreeMap<Owner, u64> {
    let mut starts: BTreeMap<Owner, u64> = BTreeMap::new();
    let mut add = |key, at: u64| {
        starts.entry(key).and_modify(|least| *least = at.min(*least)).or_insert(at);
    };
    for segment in device.segments.iter().filter(|segment| segment.expandable) {
        add((segment.stream, segment.pool, segment.small), segment.at);
    }
    let maps = device.actions.iter().filter(|action| action.what == What::Grow && action.mapped);
    for action in maps.filter(|action| action.pool.is_some()) {
        let small = action.bytes == SMALL_SEGMENT;
        add((action.stream, action.pool.unwrap_or((0, 0)), small), action.at);
    }
    starts
}

/// The addresses between expandable segments: none reserves more than to the next one.
pub(super) fn spacing(starts: &BTreeMap<Owner, u64>) -> Option<u64> {
    let mut starts: Vec<u64> = starts.values().copied().collect();
    starts.sort_unstable();
    starts.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > 0).min()
}

impl Truth {
    /// Starts of expandable segments that lie below what is mapped of them: addresses at their
    /// front are free, and the first to be mapped again.
    pub(super) fn fronts(&self, device: &Device) -> Vec<(Owner, u64)> {
        let mut lowest = starts(device);
        // Files that do not name pools have the shared one at least.
        let unnamed = |action: &&Action| action.mapped && action.pool.is_none();
        for action in device.actions.iter().filter(unnamed) {
            let owned = lowest.iter_mut().filter(|((stream, pool, small), start)| {
                let size = (action.bytes == SMALL_SEGMENT) == *small;
                *stream == action.stream && *pool == (0, 0) && size && action.at < **start
            });
            owned.for_each(|(_, start)| *start = action.at);
        }
        let mut fronts = Vec::new();
        for (&owner, &start) in &lowest {
            let mut ranges = self.ranges.range(start..);
            if let Some((&at, range)) = ranges.next()
                && at > start
                && range.expandable
                && (range.stream, range.pool, range.small) == owner
            {
                fronts.push((owner, start));
            }
        }
        fronts
    }
}
