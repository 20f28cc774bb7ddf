//! The rows of a snapshot: segments with their blocks, and what happened.

use crate::import::snapshot::settings;
use crate::import::snapshot::sites::{Site, Sites};
use crate::import::snapshot::tree::{Item, Problem, Tree};
use tiersim_models::allocator::caching::UsedBlock;
use tiersim_models::results::snapshot::Settings;

/// A file's snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Devices with a segment or an action, by number.
    pub devices: Vec<Device>,
    /// `PYTORCH_CUDA_ALLOC_CONF` as the allocator had read it.
    pub settings: Settings,
    /// Where the program asked for memory, by [`Action::site`].
    pub sites: Vec<Site>,
    /// Whether it lists the allocator's segments; where it does not, what is there at the end is what
    /// its entries leave.
    pub has_segments: bool,
}

impl Snapshot {
    /// Where the program was at an action.
    pub fn site(&self, action: &Action) -> &Site {
        &self.sites[action.site as usize]
    }
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Its number.
    pub number: usize,
    /// Segments at the end, by rising address.
    pub segments: Vec<Segment>,
    /// What happened, in order; the oldest may be lost.
    pub actions: Vec<Action>,
}

/// A private pool, `MempoolId_t`; (0, 0) for what all share.
pub type PoolId = (i64, i64);

/// Memory that the driver gave out in one piece, or a range of an expandable segment that is
/// mapped.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Its first byte.
    pub at: u64,
    /// `total_size` in bytes.
    pub bytes: u64,
    /// `active_size` in bytes, as the file states it.
    pub active: u64,
    /// The stream that its blocks belong to.
    pub stream: i64,
    /// The pool that it belongs to.
    pub pool: PoolId,
    /// Whether it is of the small pool.
    pub small: bool,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// Blocks in use.
    pub used: Vec<UsedBlock>,
}

/// What an [`Action`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A block was handed out.
    Alloc,
    /// A block was given back, and a stream may still use it.
    FreeRequested,
    /// No stream uses it any more: it is free.
    FreeCompleted,
    /// `cudaMalloc`, or more of an expandable segment was mapped.
    Grow,
    /// `cudaFree`, or a part of an expandable segment was unmapped.
    Release,
    /// A request was refused.
    OutOfMemory,
    /// Anything else: a snapshot was taken.
    Mark,
}

/// One entry of `device_traces`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What happened.
    pub what: What,
    /// Whether it is about a range of an expandable segment.
    pub mapped: bool,
    /// The first byte that it is about; 0 where there is none.
    pub at: u64,
    /// Bytes: of blocks what was asked for.
    pub bytes: u64,
    /// The stream.
    pub stream: i64,
    /// The pool, where the entry says it.
    pub pool: Option<PoolId>,
    /// When, in microseconds, where the entry says it.
    pub time_us: Option<u64>,
    /// Which of the snapshot's sites.
    pub site: u32,
}

const REMEDY: &str = "record with torch.cuda.memory._record_memory_history() before the first \
                      tensor and write with torch.cuda.memory._dump_snapshot(path)";

/// Addresses have 57 bits at most, and sizes no more.
const LIMIT: i64 = 1 << 57;

/// Rows of real snapshots take some 50 bytes and more.
const BYTES_PER_ROW: usize = 32;
/// Rows that any file may have.
const FREE_ROWS: usize = 1 << 16;

/// Takes a snapshot out of plain data.
struct Reader<'a> {
    tree: &'a Tree,
    /// Rows that may still come.
    rows: usize,
    sites: Sites,
}

/// The snapshot that plain data is.
pub(super) fn snapshot(tree: &Tree) -> Result<Snapshot, Problem> {
    let rows = tree.len() / BYTES_PER_ROW + FREE_ROWS;
    Reader { tree, rows, sites: Sites::default() }.snapshot()
}

fn problem<T>(rule: impl Into<String>, found: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { rule: rule.into(), found: found.into(), remedy: REMEDY })
}

impl<'a> Reader<'a> {
    fn snapshot(&mut self) -> Result<Snapshot, Problem> {
        let root = self.tree.root();
        // Some keep the history alone.
        let has_segments = self.tree.get(root, "segments").is_some()
            || self.tree.get(root, "device_traces").is_none();
        let segments = match has_segments {
            true => Some(self.rows_of(root, "the snapshot", "segments")?),
            false => None,
        };
        let traces = self.rows_of(root, "the snapshot", "device_traces")?;
        let mut devices: Vec<Device> = Vec::new();
        for (number, trace) in traces.enumerate() {
            let place = format!("device_traces[{number}]");
            let Some(entries) = self.tree.list(trace) else {
                return problem(format!("{place} is a list"), self.tree.describe(trace));
            };
            self.count(entries.len(), &place)?;
            let actions = entries.enumerate();
            let actions = actions.map(|(index, entry)| self.action(entry, &place, index));
            let actions: Result<Vec<Option<Action>>, Problem> = actions.collect();
            let actions = actions?.into_iter().flatten().collect();
            devices.push(Device { number, actions, segments: Vec::new() });
        }
        for (index, segment) in segments.into_iter().flatten().enumerate() {
            let place = format!("segments[{index}]");
            let number = self.whole_or(segment, &place, "device", 0)? as usize;
            let segment = self.segment(segment, &place)?;
            if number >= devices.len() {
                if number > 1024 {
                    return problem(format!("{place}: a device below 1024"), number.to_string());
                }
                let new = devices.len()..=number;
                devices.extend(new.map(|number| Device { number, ..Device::default() }));
            }
            devices[number].segments.push(segment);
        }
        devices.retain(|device| !device.segments.is_empty() || !device.actions.is_empty());
        devices.iter_mut().for_each(|device| device.segments.sort_by_key(|segment| segment.at));
        let settings = settings::read(self.tree, self.tree.get(root, "allocator_settings"))?;
        let sites = std::mem::take(&mut self.sites.list);
        Ok(Snapshot { devices, settings, sites, has_segments })
    }

    fn action(
        &mut self,
        entry: Item,
        place: &str,
        index: usize,
    ) -> Result<Option<Action>, Problem> {
        let place = || format!("{place}[{index}]");
        let name = self.tree.get(entry, "action");
        let Some(name) = name.and_then(|name| self.tree.text(name)) else {
            return problem(format!("{}: an entry has an action", place()), "none");
        };
        let (what, mapped) = match name {
            "alloc" => (What::Alloc, false),
            "free_requested" | "free" => (What::FreeRequested, false),
            "free_completed" => (What::FreeCompleted, false),
            "segment_alloc" => (What::Grow, false),
            "segment_map" => (What::Grow, true),
            "segment_free" => (What::Release, false),
            "segment_unmap" => (What::Release, true),
            "oom" => (What::OutOfMemory, false),
            "snapshot" | "annotate" | "user_defined" => (What::Mark, false),
            other => {
                let rule = format!("{}: a known action", place());
                return problem(rule, format!("{other:?}"));
            }
        };
        let bare = matches!(what, What::OutOfMemory | What::Mark);
        let number = |key: &str| match self.tree.get(entry, key) {
            None if bare => Ok(0),
            found => self.natural(found, place, key),
        };
        let at = if bare { 0 } else { number("addr")? };
        let stream = match self.tree.get(entry, "stream") {
            Some(Item::Int(stream)) => stream,
            _ => 0,
        };
        let pool = self.tree.get(entry, "pool_id").and_then(|id| self.pool(id));
        let bytes = number("size")?;
        let time_us = match self.tree.get(entry, "time_us") {
            Some(Item::Int(time)) => u64::try_from(time).ok(),
            _ => None,
        };
        let site = self.sites.of(self.tree, self.tree.get(entry, "frames"));
        Ok(Some(Action { what, mapped, at, bytes, stream, pool, time_us, site }))
    }

    fn segment(&mut self, segment: Item, place: &str) -> Result<Segment, Problem> {
        let at = self.whole(segment, place, "address")?;
        let blocks = self.rows_of(segment, place, "blocks")?;
        let mut used = Vec::new();
        let mut next = at;
        for (index, block) in blocks.enumerate() {
            let place = format!("{place}.blocks[{index}]");
            let bytes = self.whole(block, &place, "size")?;
            // Blocks tile their segment; files of old versions do not say where each lies.
            let here = self.whole_or(block, &place, "address", next)?;
            let Some(end) = here.checked_add(bytes) else {
                return problem(format!("{place}: a block ends below 2^64"), bytes.to_string());
            };
            next = end;
            let state = self.tree.get(block, "state").and_then(|state| self.tree.text(state));
            let allocated = match state {
                Some("active_allocated") => true,
                Some("active_pending_free" | "active_awaiting_free") => false,
                Some("inactive") => continue,
                other => {
                    let rule = format!("{place}: a known state");
                    return problem(rule, format!("{other:?}"));
                }
            };
            let requested = self.whole_or(block, &place, "requested_size", bytes)?;
            used.push(UsedBlock { at: here, bytes, requested, allocated });
        }
        used.sort_by_key(|block| block.at);
        let kind = self.tree.get(segment, "segment_type").and_then(|kind| self.tree.text(kind));
        let pool = self.tree.get(segment, "segment_pool_id").and_then(|id| self.pool(id));
        let stream = match self.tree.get(segment, "stream") {
            Some(Item::Int(stream)) => stream,
            _ => 0,
        };
        let sum = used.iter().map(|block| block.bytes).fold(0, u64::saturating_add);
        Ok(Segment {
            at,
            bytes: self.whole(segment, place, "total_size")?,
            active: self.whole_or(segment, place, "active_size", sum)?,
            stream,
            pool: pool.unwrap_or((0, 0)),
            small: kind == Some("small"),
            expandable: self.tree.get(segment, "is_expandable") == Some(Item::Bool(true)),
            used,
        })
    }

    fn pool(&self, id: Item) -> Option<PoolId> {
        let mut parts = self.tree.list(id)?;
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Item::Int(first)), Some(Item::Int(second)), None) => Some((first, second)),
            _ => None,
        }
    }

    fn rows_of(
        &mut self,
        of: Item,
        place: &str,
        key: &str,
    ) -> Result<impl ExactSizeIterator<Item = Item> + use<'a>, Problem> {
        let found = self.tree.get(of, key);
        match found.and_then(|found| self.tree.list(found)) {
            Some(rows) => {
                self.count(rows.len(), place)?;
                Ok(rows)
            }
            None => {
                let found = found.map_or("none".to_owned(), |found| self.tree.describe(found));
                problem(format!("{place} has a list {key:?}"), found)
            }
        }
    }

    /// A file can share a list a million times; an honest one does not repeat rows.
    fn count(&mut self, rows: usize, place: &str) -> Result<(), Problem> {
        match self.rows.checked_sub(rows) {
            Some(left) => {
                self.rows = left;
                Ok(())
            }
            None => {
                let rule = format!("{place}: a row takes {BYTES_PER_ROW} bytes of the file");
                problem(rule, "more rows")
            }
        }
    }

    fn natural(
        &self,
        found: Option<Item>,
        place: impl Fn() -> String,
        key: &str,
    ) -> Result<u64, Problem> {
        match found {
            Some(Item::Int(value)) if (0..LIMIT).contains(&value) => Ok(value as u64),
            found => {
                let found = found.map_or("none".to_owned(), |found| self.tree.describe(found));
                problem(format!("{}: {key:?} is a number from 0 to 2^57", place()), found)
            }
        }
    }

    fn whole(&self, of: Item, place: &str, key: &str) -> Result<u64, Problem> {
        self.natural(self.tree.get(of, key), || place.to_owned(), key)
    }

    fn whole_or(&self, of: Item, place: &str, key: &str, or: u64) -> Result<u64, Problem> {
        if self.tree.get(of, key).is_none() { Ok(or) } else { self.whole(of, place, key) }
    }
}
