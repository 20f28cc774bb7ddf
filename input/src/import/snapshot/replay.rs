//! A snapshot's requests, fed to the model of the caching allocator.
//!
//! The model gets what a program and a driver decide: requests with sizes, streams and order, when
//! a stream is done with a block, when the driver was out of memory or the cache was emptied, and
//! the addresses of new segments. Whether a request needs a segment, of which size, and which
//! block it gets, is the model's own. After every action its reserved and active bytes are set
//! against those that the snapshot tells. Invariant: entries of segments belong to the action that
//! made them, so nothing is compared between them.

use crate::import::snapshot::rows::{Action, Device, PoolId, Segment, What};
use crate::import::snapshot::truth::{Rules, Truth, spacing, starts};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::allocator::caching::{Caching, SegmentState, UsedBlock};
use tiersim_models::allocator::{Allocator, AllocatorBlock, CachingConfig, LARGEST};
use tiersim_models::results::snapshot::{Elsewhere, Replay, Sample, Settings};
use tiersim_models::units::Bytes;

/// Most actions that are kept for a chart.
const SAMPLES: usize = 2000;
/// Bytes looked after where nobody says how large the device is.
const ROOM: u64 = 1 << 40;

/// Replays one device. `capacity` is the device's memory, or what `set_per_process_memory_fraction`
/// leaves of it; without it the model is out of memory when the snapshot shows that the device was.
/// `limit` is the deviation above
/// which [`first_above`](tiersim_models::results::snapshot::Deviation::first_above) is noted.
pub fn replay(
    device: &Device,
    settings: &Settings,
    capacity: Option<Bytes>,
    limit: f64,
) -> Result<Replay, String> {
    let mut run = Run::new(device, settings, capacity)?;
    run.limit = limit;
    for (entry, action) in device.actions.iter().enumerate() {
        run.step(entry, action)?;
    }
    run.flush(What::Mark);
    if let Some(entry) = device.actions.len().checked_sub(1) {
        run.compare(entry);
    }
    Ok(run.finish())
}

struct Run<'a> {
    device: &'a Device,
    settings: &'a Settings,
    capacity: Option<Bytes>,
    limit: f64,
    model: Caching,
    /// Only rounds.
    sizes: Caching,
    truth: Truth,
    slots: BTreeMap<(i64, PoolId), u16>,
    /// Private pools that are no longer in use.
    done: BTreeSet<PoolId>,
    /// The model's block of each address of the snapshot.
    live: BTreeMap<u64, (AllocatorBlock, bool)>,
    /// Segments given back by entries that no action has explained yet.
    released: Vec<(Action, PoolId)>,
    /// The entry that put a segment somewhere, for the allocation that follows.
    grown: Option<Action>,
    /// `expandable_segments` of now.
    expandable: bool,
    /// A stream was done with a block just before memory was given back.
    synchronized: bool,
    compared: u64,
    stride: usize,
    found: Replay,
}

impl<'a> Run<'a> {
    fn new(
        device: &'a Device,
        settings: &'a Settings,
        capacity: Option<Bytes>,
    ) -> Result<Run<'a>, String> {
        let room = capacity.unwrap_or(Bytes::new(ROOM)).min(LARGEST);
        let threshold = capacity.map_or(0.0, |_| settings.garbage_collection_threshold);
        let expandable = begins_expandable(device, settings);
        let config = CachingConfig {
            expandable_segments: expandable,
            max_split: settings.max_split.map(Bytes::new),
            roundup_power2_divisions: 0,
            garbage_collection_threshold: threshold,
            ..CachingConfig::default()
        };
        let mut model = Caching::new(room, config);
        model.set_divisions(settings.divisions);
        if let Some(bytes) = settings.rounding_limit {
            model.set_rounding_limit(Bytes::new(bytes));
        }
        if let Some(bytes) = settings.large_segment {
            model.set_large_segment(Bytes::new(bytes));
        }
        if let (None, Some(bytes)) = (capacity, spacing(&starts(device))) {
            let handle = settings.large_segment.unwrap_or(20 << 20);
            model.set_reservation(Bytes::new(bytes / handle * handle));
        }
        let sizes = model.clone();
        let round = |bytes| sizes.rounded(bytes);
        let truth = Truth::first(device, &rules(settings, expandable, &round));
        let entries = device.actions.len();
        let began_with = truth.reserved;
        let found = Replay {
            device: device.number,
            entries,
            began_with,
            segments: device.segments.len(),
            ..Replay::default()
        };
        let mut run = Run {
            device,
            settings,
            capacity,
            limit: f64::INFINITY,
            model,
            sizes,
            truth,
            slots: BTreeMap::new(),
            live: BTreeMap::new(),
            done: BTreeSet::new(),
            released: Vec::new(),
            grown: None,
            expandable,
            synchronized: false,
            compared: 0,
            stride: entries.div_ceil(SAMPLES).max(1),
            found,
        };
        run.begin()?;
        Ok(run)
    }

    /// Gives the model the state before the first entry.
    fn begin(&mut self) -> Result<(), String> {
        let mut segments = Vec::new();
        let mut contradictions = 0;
        let ranges: Vec<_> = self.truth.ranges.iter().map(|(&at, &range)| (at, range)).collect();
        for (at, range) in ranges {
            let stream = self.slot(range.stream, range.pool)?;
            let limit = at.saturating_add(range.bytes);
            let blocks = self.truth.live.range(at..limit);
            let mut used: Vec<UsedBlock> = Vec::new();
            let mut free = at;
            for (&at, live) in blocks {
                // Blocks that cannot all be there: the file contradicts itself.
                let end = at.saturating_add(live.bytes);
                if at < free || end == at || end > limit {
                    contradictions += 1;
                    continue;
                }
                free = end;
                used.push(UsedBlock { at, ..*live });
            }
            for block in &used {
                let model = AllocatorBlock { at: block.at, bytes: Bytes::new(block.bytes) };
                self.live.insert(block.at, (model, block.allocated));
            }
            let (bytes, small) = (range.bytes, range.small);
            let expandable = range.expandable;
            segments.push(SegmentState { at, bytes, stream, small, expandable, used });
        }
        for ((stream, pool, small), at) in self.truth.fronts(self.device) {
            let (stream, used) = (self.slot(stream, pool)?, Vec::new());
            segments.push(SegmentState { at, bytes: 0, stream, small, expandable: true, used });
        }
        self.truth.unexplained += contradictions;
        self.model.restore(&segments)
    }

    /// The model's stream of a stream and pool.
    fn slot(&mut self, stream: i64, pool: PoolId) -> Result<u16, String> {
        let new = self.slots.len();
        if let Some(&slot) = self.slots.get(&(stream, pool)) {
            return Ok(slot);
        }
        let slot = u16::try_from(new).map_err(|_| "more than 65,536 streams and pools")?;
        self.slots.insert((stream, pool), slot);
        self.model.keep(slot, pool != (0, 0) && !self.done.contains(&pool));
        Ok(slot)
    }

    fn step(&mut self, entry: usize, action: &Action) -> Result<(), String> {
        if !matches!(action.what, What::Grow | What::Release | What::Alloc)
            && self.flush(action.what)
        {
            self.compare(entry.saturating_sub(1));
        }
        let told = action.pool.or_else(|| self.truth.pools.get(&entry).copied());
        let before = self.truth.pool(action.at);
        let action = &Action { pool: told, ..*action };
        let round = |bytes| self.sizes.rounded(bytes);
        self.truth.apply(action, &rules(self.settings, self.expandable, &round));
        let pool = told.or(before).or_else(|| self.truth.pool(action.at)).unwrap_or((0, 0));
        match action.what {
            What::Grow => {
                self.grown.get_or_insert(*action);
                return Ok(());
            }
            What::Release => {
                // If memory ran out while an expandable segment grew, it grows anew.
                self.grown = None;
                self.released.push((*action, pool));
                return Ok(());
            }
            What::Alloc => self.alloc(entry, action, pool)?,
            What::FreeRequested => {
                self.found.frees += 1;
                self.synchronized = false;
                if let Some((block, held)) = self.live.get_mut(&action.at)
                    && *held
                {
                    *held = false;
                    self.model.free_requested(*block);
                }
            }
            What::FreeCompleted => {
                self.synchronized = true;
                if let Some((block, held)) = self.live.remove(&action.at) {
                    if held {
                        self.model.free_requested(block);
                    }
                    self.model.free_completed(block);
                }
            }
            What::OutOfMemory | What::Mark => {}
        }
        self.compare(entry);
        Ok(())
    }

    fn alloc(&mut self, entry: usize, action: &Action, pool: PoolId) -> Result<(), String> {
        let slot = self.slot(action.stream, pool)?;
        let grown = self.grown.take();
        let hint = grown.map(|grown| grown.at);
        if let Some(grown) = grown {
            self.model.set_expandable(grown.mapped);
            // A private pool may have an allocator of its own, which does not expand.
            if pool == (0, 0) {
                self.expandable = grown.mapped;
            }
        }
        let bytes = Bytes::new(action.bytes.max(1));
        let short = grown.is_some_and(|grown| !grown.mapped) && self.capacity.is_none();
        let mut block = if short && self.oversize_only() {
            // The driver had no more than this: which segments go is up to the model.
            self.model.set_capacity(Bytes::new(self.truth.reserved));
            self.released.clear();
            self.model.alloc_at(bytes, slot, hint)
        } else {
            let late = self.release() && grown.is_some() && self.synchronized;
            match late {
                true => self.model.alloc_new(bytes, slot, hint),
                false => self.model.alloc_at(bytes, slot, hint),
            }
        };
        self.synchronized = false;
        self.model.set_capacity(self.capacity.unwrap_or(Bytes::new(ROOM)));
        if block.is_err() {
            block = self.model.alloc_at(bytes, slot, hint);
        }
        self.model.set_expandable(self.expandable);
        self.found.allocations += 1;
        match block {
            Ok(block) => {
                let (bytes, at, model_at) = (action.bytes, action.at, block.at);
                match model_at == at {
                    true => self.found.same_address += 1,
                    false => {
                        let elsewhere = Elsewhere { entry, bytes, at, model_at };
                        self.found.first_elsewhere.get_or_insert(elsewhere);
                    }
                }
                if let Some((old, held)) = self.live.insert(action.at, (block, true)) {
                    // The entry that freed it is missing.
                    if held {
                        self.model.free_requested(old);
                    }
                    self.model.free_completed(old);
                }
            }
            Err(_) => self.found.refused += 1,
        }
        Ok(())
    }

    /// Whether only blocks were given back that `release_available_cached_blocks` takes.
    fn oversize_only(&self) -> bool {
        let Some(limit) = self.settings.max_split else { return false };
        let Some(&(first, _)) = self.released.first() else { return false };
        let oversize = |(action, _): &(Action, PoolId)| {
            !action.mapped && action.bytes >= limit && action.stream == first.stream
        };
        !self.collects() && self.released.iter().all(oversize)
    }

    /// Whether the garbage collector is on, and nobody says from how many bytes on it collects.
    fn collects(&self) -> bool {
        self.settings.garbage_collection_threshold > 0.0 && self.capacity.is_none()
    }

    /// Entries that gave memory back and that no allocation follows: the cache was emptied, or what
    /// was given back for a request was not enough and it waits for streams.
    fn flush(&mut self, next: What) -> bool {
        self.grown = None;
        if next == What::FreeCompleted && self.oversize_only() {
            let starts = self.released.drain(..).map(|(action, _)| action.at).collect();
            self.model.release_at(&starts);
            return true;
        }
        self.release()
    }

    /// Gives back in the model what the latest entries gave back: all that is free, of the pools
    /// that they name. Which segments are free is the model's own, except for the collector's.
    fn release(&mut self) -> bool {
        let released = std::mem::take(&mut self.released);
        if released.is_empty() {
            return false;
        }
        let pools: BTreeSet<PoolId> = released.iter().map(|&(_, pool)| pool).collect();
        // A private pool that gives memory back is no longer in use.
        self.done.extend(&pools);
        self.done.remove(&(0, 0));
        if self.collects() && released.iter().all(|(action, _)| !action.mapped) {
            self.model.release_at(&released.iter().map(|(action, _)| action.at).collect());
            return true;
        }
        let shared = pools.contains(&(0, 0));
        for (&(_, pool), &slot) in &self.slots {
            self.model.keep(
                slot,
                if shared {
                    pool != (0, 0) && !self.done.contains(&pool)
                } else {
                    !pools.contains(&pool)
                },
            );
        }
        self.model.empty_cache();
        for (&(_, pool), &slot) in &self.slots {
            self.model.keep(slot, pool != (0, 0) && !self.done.contains(&pool));
        }
        true
    }

    fn compare(&mut self, entry: usize) {
        let stats = self.model.stats();
        let sample = Sample {
            entry,
            reserved: self.truth.reserved,
            model_reserved: stats.reserved.get(),
            active: self.truth.active,
            model_active: stats.active.get(),
        };
        self.compared += 1;
        let limit = self.limit;
        self.found.reserved.note(sample.reserved, sample.model_reserved, entry, limit);
        self.found.active.note(sample.active, sample.model_active, entry, limit);
        let last = self.found.samples.last().map(|sample| sample.entry);
        if last.is_none_or(|last| entry >= last + self.stride) || entry + 1 == self.found.entries {
            self.found.samples.push(sample);
        }
    }

    fn finish(mut self) -> Replay {
        let count = self.compared.max(1) as f64;
        self.found.reserved.mean /= count;
        self.found.active.mean /= count;
        let last = Truth::last(self.device);
        let ends = self.truth.live.iter().filter(|&(at, live)| last.live.get(at) != Some(live));
        let missing = last.live.keys().filter(|at| !self.truth.live.contains_key(at));
        self.found.unexplained = self.truth.unexplained + (ends.count() + missing.count()) as u64;
        let mine = self.model.segments();
        let same = |segment: &&Segment| mine.binary_search(&(segment.at, segment.bytes)).is_ok();
        self.found.same_segments = self.device.segments.iter().filter(same).count();
        self.found.model_segments = mine.len();
        let stats = self.model.stats();
        self.found.releases = stats.releases;
        let total = |bytes: fn(&Segment) -> u64| {
            self.device.segments.iter().map(bytes).fold(0, u64::saturating_add)
        };
        self.found.end = Sample {
            entry: self.found.entries,
            reserved: total(|segment| segment.bytes),
            model_reserved: stats.reserved.get(),
            active: total(|segment| segment.active),
            model_active: stats.active.get(),
        };
        self.found
    }
}

fn rules<'a>(settings: &Settings, expandable: bool, round: &'a dyn Fn(u64) -> u64) -> Rules<'a> {
    let max_split = settings.max_split.unwrap_or(u64::MAX);
    let large = settings.large_segment.unwrap_or(20 << 20);
    Rules { expandable, max_split, large, round }
}

/// `expandable_segments` before the first entry: settings tell what was set last.
fn begins_expandable(device: &Device, settings: &Settings) -> bool {
    let shared = |action: &&Action| action.pool.unwrap_or((0, 0)) == (0, 0);
    let mut grown = device.actions.iter().filter(|action| action.what == What::Grow);
    grown.find(shared).map_or(settings.expandable_segments, |action| action.mapped)
}
