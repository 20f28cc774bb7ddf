//! How far the model is from a snapshot: what a replay found.
//!
//! Invariant: a deviation is a share of what the snapshot tells at that action; where that is 0,
//! it is 0 if the model agrees and 1 if not.

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

/// Adds one comparison; the mean is a sum until all are in.
pub(super) fn note(deviation: &mut Deviation, truth: u64, model: u64, entry: usize, limit: f64) {
    let share = match (truth, model) {
        (0, 0) => 0.0,
        (0, _) => 1.0,
        (truth, model) => truth.abs_diff(model) as f64 / truth as f64,
    };
    deviation.peak = deviation.peak.max(truth);
    deviation.model_peak = deviation.model_peak.max(model);
    deviation.mean += share;
    if share > deviation.max {
        (deviation.max, deviation.at) = (share, entry);
    }
    if share > limit {
        deviation.first_above.get_or_insert(entry);
    }
}

impl Replay {
    /// The largest deviation of either number, at the end too.
    pub fn worst(&self) -> f64 {
        let mut end = [Deviation::default(); 2];
        note(&mut end[0], self.end.reserved, self.end.model_reserved, 0, f64::INFINITY);
        note(&mut end[1], self.end.active, self.end.model_active, 0, f64::INFINITY);
        let end = end[0].max.max(end[1].max);
        self.reserved.max.max(self.active.max).max(end)
    }
}
