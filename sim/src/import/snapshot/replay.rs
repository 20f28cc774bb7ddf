//! A snapshot's requests, fed to the model of the caching allocator.
//!
//! The model gets what a program and a driver decide: requests with sizes, streams and order, when
//! a stream is done with a block, when the driver was out of memory or the cache was emptied, and
//! the addresses of new segments. Whether a request needs a segment, of which size, and which
//! block it gets, is the model's own. After every action its reserved and active bytes are set
//! against those that the snapshot tells. Invariant: entries of segments belong to the action that
//! made them, so nothing is compared between them.

use crate::import::snapshot::deviation::{Replay, Sample, note};
use crate::import::snapshot::settings::Settings;
use crate::import::snapshot::truth::{Rules, Truth, spacing};
use crate::import::snapshot::{Action, Device, PoolId, Segment, What};
use std::collections::BTreeMap;
use tiersim_models::allocator::caching::{Caching, SegmentState, UsedBlock};
use tiersim_models::allocator::{Allocator, Block, CachingConfig, LARGEST};
use tiersim_models::units::Bytes;

/// Most actions that are kept for a chart.
const SAMPLES: usize = 2000;
/// What large expandable segments are mapped by.
const HANDLE: u64 = 20 << 20;
/// Bytes looked after where nobody says how large the device is.
const ROOM: u64 = 1 << 40;

/// Replays one device. `capacity` is the device's memory, or what `set_per_process_memory_fraction`
/// leaves of it; without it the model is out of memory when the snapshot shows that the device was.
/// `limit` is the deviation above which [`Deviation::first_above`] is noted.
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
    run.flush();
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
    lanes: BTreeMap<(i64, PoolId), u16>,
    /// The model's block of each address of the snapshot.
    live: BTreeMap<u64, (Block, bool)>,
    /// Bytes given back by entries that no action has explained yet.
    released: bool,
    /// Where the latest entries put a segment.
    grown: Option<u64>,
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
        let config = CachingConfig {
            expandable_segments: settings.expandable_segments,
            max_split: settings.max_split.map(Bytes::new),
            roundup_power2_divisions: 0,
            garbage_collection_threshold: threshold,
        };
        let mut model = Caching::new(room, config);
        model.set_divisions(settings.divisions);
        if let Some(bytes) = settings.rounding_limit {
            model.set_rounding_limit(Bytes::new(bytes));
        }
        if let (None, Some(bytes)) = (capacity, spacing(device)) {
            model.set_reservation(Bytes::new(bytes / HANDLE * HANDLE));
        }
        let sizes = model.clone();
        let round = |bytes| sizes.rounded(bytes);
        let truth = Truth::first(device, &rules(settings, &round));
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
            lanes: BTreeMap::new(),
            live: BTreeMap::new(),
            released: false,
            grown: None,
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
            let stream = self.lane(range.stream, range.pool)?;
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
                let (bytes, requested, allocated) = (live.bytes, live.requested, live.allocated);
                used.push(UsedBlock { at, bytes, requested, allocated });
            }
            for block in &used {
                let model = Block { at: block.at, bytes: Bytes::new(block.bytes) };
                self.live.insert(block.at, (model, block.allocated));
            }
            let (bytes, small) = (range.bytes, range.small);
            let expandable = range.expandable;
            segments.push(SegmentState { at, bytes, stream, small, expandable, used });
        }
        self.truth.unexplained += contradictions;
        self.model.restore(&segments)
    }

    /// The model's stream of a stream and pool.
    fn lane(&mut self, stream: i64, pool: PoolId) -> Result<u16, String> {
        let new = self.lanes.len();
        if let Some(&lane) = self.lanes.get(&(stream, pool)) {
            return Ok(lane);
        }
        let lane = u16::try_from(new).map_err(|_| "more than 65,536 streams and pools")?;
        self.lanes.insert((stream, pool), lane);
        self.model.keep(lane, pool != (0, 0));
        Ok(lane)
    }

    /// The pool that an action is about; of files that do not say it, that of the segment which
    /// lies there at the end.
    fn pool(&self, action: &Action) -> PoolId {
        if let Some(pool) = action.pool {
            return pool;
        }
        let after = self.device.segments.partition_point(|segment| segment.at <= action.at);
        let segment = after.checked_sub(1).map(|index| &self.device.segments[index]);
        let segment = segment.filter(|segment| action.at - segment.at < segment.bytes);
        segment.map_or((0, 0), |segment| segment.pool)
    }

    fn step(&mut self, entry: usize, action: &Action) -> Result<(), String> {
        if !matches!(action.what, What::Grow | What::Release | What::Alloc) && self.flush() {
            self.compare(entry.saturating_sub(1));
        }
        let round = |bytes| self.sizes.rounded(bytes);
        self.truth.apply(action, &rules(self.settings, &round));
        match action.what {
            What::Grow => {
                self.grown.get_or_insert(action.at);
                return Ok(());
            }
            What::Release => {
                if self.grown.is_some() {
                    // Memory ran out while an expandable segment grew.
                    self.grown = None;
                }
                let pool = self.pool(action);
                let lane = self.lane(action.stream, pool)?;
                // A private pool that gives memory back is no longer in use.
                self.model.keep(lane, false);
                self.released = true;
                return Ok(());
            }
            What::Alloc => self.alloc(action)?,
            What::FreeRequested => {
                self.found.frees += 1;
                if let Some((block, held)) = self.live.get_mut(&action.at)
                    && *held
                {
                    *held = false;
                    self.model.free_requested(*block);
                }
            }
            What::FreeCompleted => {
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

    fn alloc(&mut self, action: &Action) -> Result<(), String> {
        let pool = self.pool(action);
        let lane = self.lane(action.stream, pool)?;
        let grown = self.grown.take();
        let released = std::mem::take(&mut self.released);
        let bytes = Bytes::new(action.bytes.max(1));
        let whole = self.capacity.unwrap_or(Bytes::new(ROOM));
        let short = released && grown.is_some() && !self.settings.expandable_segments;
        if short && self.capacity.is_none() {
            // The driver had no more than this: which segments go is up to the model.
            self.model.set_capacity(Bytes::new(self.truth.reserved));
        } else if released {
            self.model.empty_cache();
        }
        let mut block = self.model.alloc_at(bytes, lane, grown);
        self.model.set_capacity(whole);
        if block.is_err() {
            block = self.model.alloc_at(bytes, lane, grown);
        }
        self.found.allocations += 1;
        match block {
            Ok(block) => {
                self.found.same_address += u64::from(block.at == action.at);
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

    /// Entries that gave memory back and that no allocation follows: the cache was emptied.
    fn flush(&mut self) -> bool {
        self.grown = None;
        let released = std::mem::take(&mut self.released);
        if released {
            self.model.empty_cache();
        }
        released
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
        note(&mut self.found.reserved, sample.reserved, sample.model_reserved, entry, limit);
        note(&mut self.found.active, sample.active, sample.model_active, entry, limit);
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

fn rules<'a>(settings: &Settings, round: &'a dyn Fn(u64) -> u64) -> Rules<'a> {
    let max_split = settings.max_split.unwrap_or(u64::MAX);
    Rules { expandable: settings.expandable_segments, max_split, round }
}
