//! How allocators used the memory of tiers: for `summary.json`, and over time as `allocators.csv`.
//!
//! Invariant: nothing is written of tiers that are exact, so a run without allocators has the same
//! files as before there were any.

use crate::ChartError;
use crate::words::finite;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tiersim_models::allocator::BucketStats;
use tiersim_models::results::memory_use::{MemoryUse, Point};
use tiersim_models::results::{Figures, RunRecord};

/// The memory of one tier over one case.
#[derive(Clone, Debug, Serialize)]
pub struct AllocatorSummary {
    /// The tier.
    pub tier: String,
    /// Its allocator in words.
    pub allocator: String,
    /// Most bytes of live blocks.
    pub peak_allocated_bytes: u64,
    /// Most bytes that the allocator kept from others.
    pub peak_reserved_bytes: u64,
    /// External fragmentation, mean over ops.
    pub external_mean: Option<f64>,
    /// The highest after any op.
    pub external_highest: Option<f64>,
    /// After the last op.
    pub external_end: Option<f64>,
    /// Internal fragmentation, mean over ops.
    pub internal_mean: Option<f64>,
    /// The highest after any op.
    pub internal_highest: Option<f64>,
    /// After the last op.
    pub internal_end: Option<f64>,
    /// How often objects were moved together.
    pub compactions: u64,
    /// Bytes that this copied.
    pub compacted_bytes: u64,
    /// Objects evicted because no piece was large enough.
    pub forced_evictions: u64,
    /// Prefetches given up for the same reason.
    pub abandoned_prefetches: u64,
    /// Free pieces after the last op, by the power of two at or below their size.
    pub free_pieces: Map<String, Value>,
    /// Buckets after the last op.
    pub buckets: Vec<BucketSummary>,
    /// The highest external fragmentation that a compaction found; the others are what it left.
    pub compacted_from: Option<f64>,
}

/// One bucket.
#[derive(Clone, Debug, Serialize)]
pub struct BucketSummary {
    /// Size of a slot.
    pub slot_bytes: u64,
    /// Slots in use.
    pub live: u64,
    /// Slots of all its slabs.
    pub slots: u64,
    /// What was asked for, over slots in use.
    pub requested_bytes: u64,
    /// Requests served over the run.
    pub served: u64,
}

/// One per tier that is not exact; `None` if all are.
pub(crate) fn allocators(record: &RunRecord, figures: &Figures) -> Option<Vec<AllocatorSummary>> {
    let one = |(tier, memory): &(usize, MemoryUse)| AllocatorSummary {
        tier: record.tiers[*tier].0.clone(),
        allocator: memory.allocator.clone(),
        peak_allocated_bytes: memory.peak_allocated.get(),
        peak_reserved_bytes: memory.peak_reserved.get(),
        external_mean: finite(memory.external.mean),
        external_highest: finite(memory.external.highest),
        external_end: finite(memory.external.end),
        internal_mean: finite(memory.internal.mean),
        internal_highest: finite(memory.internal.highest),
        internal_end: finite(memory.internal.end),
        compactions: memory.compactions,
        compacted_bytes: memory.compacted.get(),
        forced_evictions: memory.forced,
        abandoned_prefetches: memory.given_up,
        free_pieces: pieces(memory),
        buckets: memory.buckets.iter().map(bucket).collect(),
        compacted_from: finite(memory.compacted_from),
    };
    let all: Vec<AllocatorSummary> = figures.memory.iter().map(one).collect();
    (!all.is_empty()).then_some(all)
}

fn pieces(memory: &MemoryUse) -> Map<String, Value> {
    let counts = memory.free_pieces.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(power, count)| ((1u64 << power).to_string(), json!(count))).collect()
}

fn bucket(stats: &BucketStats) -> BucketSummary {
    BucketSummary {
        slot_bytes: stats.slot.get(),
        live: stats.live,
        slots: stats.slots,
        requested_bytes: stats.requested.get(),
        served: stats.served,
    }
}

/// Free pieces by the power of two at or below their size: `512:3 2097152:1`.
fn pieces_of(point: &Point) -> String {
    let pieces = point.free_pieces.iter();
    let words = pieces.map(|&(power, count)| format!("{}:{count}", 1u64 << power));
    words.collect::<Vec<_>>().join(" ")
}

/// `allocators.csv`: the memory of every tier that is not exact over the ops of the run, or `None`
/// if all are exact.
pub fn allocators_csv(record: &RunRecord) -> Result<Option<Vec<u8>>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "label",
        "tier",
        "op",
        "allocated_bytes",
        "reserved_bytes",
        "external_mean",
        "external_highest",
        "step",
        "internal_mean",
        "internal_highest",
        "free_pieces",
    ])?;
    let mut rows = 0;
    for case in &record.results {
        let Some(figures) = case.outcome.figures() else { continue };
        for (tier, memory) in &figures.memory {
            for point in &memory.series {
                rows += 1;
                writer.write_record([
                    crate::csv::guarded(&case.label),
                    crate::csv::guarded(&record.tiers[*tier].0),
                    point.occurrence.to_string(),
                    point.allocated.get().to_string(),
                    point.reserved.get().to_string(),
                    point.mean.to_string(),
                    point.highest.to_string(),
                    point.step.to_string(),
                    point.internal_mean.to_string(),
                    point.internal_highest.to_string(),
                    pieces_of(point),
                ])?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))?;
    Ok((rows > 0).then_some(bytes))
}
