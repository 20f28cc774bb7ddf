//! How allocators used the memory of tiers: for `summary.json`, and over time as `allocators.csv`.
//!
//! Invariant: nothing is written of tiers that are exact, so a run without allocators has the same
//! files as before there were any.

use crate::ChartError;
use serde_json::{Value, json};
use tiersim_models::allocator::BucketStats;
use tiersim_models::results::memory_use::{MemoryUse, Point};
use tiersim_models::results::{Conditions, Figures, RunRecord};

/// One per tier that is not exact; `null` if all are.
pub(crate) fn allocators(on: &Conditions, figures: &Figures) -> Value {
    if figures.memory.is_empty() {
        return Value::Null;
    }
    let one = |(tier, memory): &(usize, MemoryUse)| {
        json!({
            "tier": on.tier_name(*tier),
            "allocator": memory.allocator,
            "peak_allocated_bytes": memory.peak_allocated.get(),
            "peak_reserved_bytes": memory.peak_reserved.get(),
            "external_mean": memory.external.mean,
            "external_highest": memory.external.highest,
            "external_end": memory.external.end,
            "internal_mean": memory.internal.mean,
            "internal_highest": memory.internal.highest,
            "internal_end": memory.internal.end,
            "compactions": memory.compactions,
            "compacted_bytes": memory.compacted.get(),
            "forced_evictions": memory.forced,
            "abandoned_prefetches": memory.given_up,
            "free_pieces": pieces(memory),
            "buckets": memory.buckets.iter().map(bucket).collect::<Vec<_>>(),
            "compacted_from": memory.compacted_from,
            "total_mean": memory.total.mean,
            "total_highest": memory.total.highest,
            "total_end": memory.total.end,
        })
    };
    figures.memory.iter().map(one).collect()
}

/// Free pieces after the last op, by the power of two at or below their size.
fn pieces(memory: &MemoryUse) -> Value {
    let counts = memory.free_pieces.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(power, count)| ((1u64 << power).to_string(), *count)).collect()
}

fn bucket(stats: &BucketStats) -> Value {
    json!({
        "slot_bytes": stats.slot.get(),
        "live": stats.live,
        "slots": stats.slots,
        "requested_bytes": stats.requested.get(),
        "served": stats.served,
    })
}

/// Free pieces by the power of two at or below their size: `512:3 2097152:1`.
fn pieces_of(point: &Point) -> String {
    let pieces = point.free_pieces.iter();
    let words = pieces.map(|&(power, count)| format!("{}:{count}", 1u64 << power));
    words.collect::<Vec<_>>().join(" ")
}

/// `allocators.csv`: the memory of every tier that is not exact over the ops of the run, or `None`
/// if all are exact.
pub(crate) fn allocators_csv(record: &RunRecord) -> Result<Option<Vec<u8>>, ChartError> {
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
        "total_mean",
        "total_highest",
    ])?;
    let mut rows = 0;
    for case in &record.results {
        let Some(figures) = case.outcome.figures() else { continue };
        for (tier, memory) in &figures.memory {
            for point in &memory.series {
                rows += 1;
                writer.write_record([
                    crate::csv::guarded(&case.label),
                    crate::csv::guarded(record.of(case).tier_name(*tier)),
                    point.occurrence.to_string(),
                    point.allocated.get().to_string(),
                    point.reserved.get().to_string(),
                    point.mean.to_string(),
                    point.highest.to_string(),
                    point.step.to_string(),
                    point.internal_mean.to_string(),
                    point.internal_highest.to_string(),
                    pieces_of(point),
                    point.total_mean.to_string(),
                    point.total_highest.to_string(),
                ])?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))?;
    Ok((rows > 0).then_some(bytes))
}
