//! A memory snapshot held against the model of the caching allocator: what a replay found.
//!
//! Invariant: a deviation is a share of what the snapshot tells at that action; where that is 0,
//! it is 0 if the model agrees and 1 if not.

use crate::allocator::caching::INTERVALS;

/// Settings of the caching allocator; what a file does not say has PyTorch's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `expandable_segments`.
    pub expandable_segments: bool,
    /// `max_split_size` in bytes; [`None`] without limit.
    pub max_split: Option<u64>,
    /// `max_non_split_rounding_mb`, in bytes.
    pub rounding_limit: Option<u64>,
    /// `large_segment_size_mb`, in bytes; [`None`] for 20 MiB.
    pub large_segment: Option<u64>,
    /// `garbage_collection_threshold`; 0 for never.
    pub garbage_collection_threshold: f64,
    /// `roundup_power2_divisions` by size: below 2 MiB, below 4, and so on.
    pub divisions: [u32; INTERVALS],
    /// Settings that are not modelled though they move blocks.
    pub ignored: Vec<String>,
}

/// Deviation of one number over all actions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    /// The largest, as a share of what the snapshot tells at that action.
    pub max: f64,
    /// The entry at which it was, counted from 0.
    pub at: usize,
    /// The mean over all compared actions.
    pub mean: f64,
    /// The first entry above the limit.
    pub first_above: Option<usize>,
    /// The most bytes after any action, as the snapshot tells.
    pub peak: u64,
    /// The same in the model.
    pub model_peak: u64,
}

/// An allocation that the model placed at another address than the snapshot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The entry, counted from 0.
    pub entry: usize,
    /// Bytes asked for.
    pub bytes: u64,
    /// The snapshot's address.
    pub at: u64,
    /// The model's.
    pub model_at: u64,
}

/// Bytes at one action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The entry, counted from 0.
    pub entry: usize,
    /// Reserved, as the snapshot tells.
    pub reserved: u64,
    /// Reserved, in the model.
    pub model_reserved: u64,
    /// Active, as the snapshot tells.
    pub active: u64,
    /// Active, in the model.
    pub model_active: u64,
}

/// What a replay of one device found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// The device.
    pub device: usize,
    /// Entries of its trace.
    pub entries: usize,
    /// Allocations among them.
    pub allocations: u64,
    /// Frees among them, as they were requested.
    pub frees: u64,
    /// Of these, those that the model placed at the address that the snapshot names.
    pub same_address: u64,
    /// The first that it placed elsewhere: later ones may only follow from it.
    pub first_elsewhere: Option<Elsewhere>,
    /// Allocations that the model could not meet.
    pub refused: u64,
    /// Times that memory went back to the driver.
    pub releases: u64,
    /// Entries that contradict those before them, or that end in other blocks than the snapshot
    /// has.
    pub unexplained: u64,
    /// Bytes reserved before the first entry.
    pub began_with: u64,
    /// Deviation of reserved bytes.
    pub reserved: Deviation,
    /// Deviation of active bytes.
    pub active: Deviation,
    /// Segments that the snapshot lists.
    pub segments: usize,
    /// Of these, those that the model has at the end, with address and size.
    pub same_segments: usize,
    /// Segments that the model has at the end.
    pub model_segments: usize,
    /// Bytes at the end: the snapshot's own sums over its segments, and the model's.
    pub end: Sample,
    /// Bytes along the way, for a chart: at most some 2,000 actions.
    pub samples: Vec<Sample>,
}

impl Deviation {
    /// Adds one comparison; the mean is a sum until all are in.
    pub fn note(&mut self, truth: u64, model: u64, entry: usize, limit: f64) {
        let share = match (truth, model) {
            (0, 0) => 0.0,
            (0, _) => 1.0,
            (truth, model) => truth.abs_diff(model) as f64 / truth as f64,
        };
        self.peak = self.peak.max(truth);
        self.model_peak = self.model_peak.max(model);
        self.mean += share;
        if share > self.max {
            (self.max, self.at) = (share, entry);
        }
        if share > limit {
            self.first_above.get_or_insert(entry);
        }
    }
}

impl Replay {
    /// The largest deviation of either number, at the end too.
    pub fn worst(&self) -> f64 {
        let mut end = [Deviation::default(); 2];
        end[0].note(self.end.reserved, self.end.model_reserved, 0, f64::INFINITY);
        end[1].note(self.end.active, self.end.model_active, 0, f64::INFINITY);
        let end = end[0].max.max(end[1].max);
        self.reserved.max.max(self.active.max).max(end)
    }
}
