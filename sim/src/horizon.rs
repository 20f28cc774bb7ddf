//! Whether a run surely ends before the clock does.
//!
//! Time is `u64` picoseconds, 213 days. Numbers that are each in range can still add up to more (an
//! exbyte over a slow link), and an overflow in the middle of a run would be a crash. So the longest
//! that a run can take is bounded before it starts: every use of every object is copied back and
//! forth over every link there is, and used in place in every tier.

use crate::durations::Durations;
use tiersim_models::hardware::{Hardware, Law};
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, PS_PER_S};

/// A generous bound on how far a jittered duration strays from its mean.
const STRAY: u128 = 1000;

/// Nothing if the run fits the clock, else what is wrong in words.
pub(crate) fn check(
    hardware: &Hardware,
    workload: &Workload,
    durations: &Durations,
    repeat: u32,
) -> Result<(), String> {
    let laws: Vec<Law> = hardware.lanes().map(|lane| hardware.lane_law(lane)).collect();
    let accesses: Vec<Law> = hardware.tiers.iter().map(|tier| tier.access).collect();
    let everywhere = |laws: &[Law], bytes: Bytes| -> u128 {
        laws.iter().map(|law| longest(law, bytes, hardware.chunk)).sum()
    };
    let ops = workload.trace.ops.len();
    let mut total = u128::from(durations.longest().ps()) * STRAY * ops as u128;
    for op in (0..ops).map(OpId::at) {
        for touched in workload.trace.uses_of(op) {
            let bytes = workload.trace.objects[touched.object.index()].bytes;
            total += 4 * everywhere(&laws, bytes) + everywhere(&accesses, bytes);
        }
        for &(_, bytes) in workload.outputs(op).iter().chain(workload.weights(op)) {
            total += everywhere(&accesses, bytes);
        }
    }
    total = total.saturating_mul(u128::from(repeat));
    if total < u128::from(u64::MAX) {
        return Ok(());
    }
    let largest = workload.trace.objects.iter().max_by_key(|object| object.bytes);
    let largest = largest.map_or(String::new(), |object| {
        format!("; the largest object is {} with {}", object.name, object.bytes)
    });
    let seconds = total / u128::from(PS_PER_S);
    Err(format!(
        "{} replays on {} could take {seconds} s, longer than the simulated clock of 213 days{largest}",
        repeat, hardware.name
    ))
}

/// The time for `bytes` in chunks, each with its own set-up, in picoseconds.
fn longest(law: &Law, bytes: Bytes, chunk: Bytes) -> u128 {
    let chunks = u128::from(bytes.get() / chunk.get().max(1)) + 1;
    let moving = u128::from(bytes.get()) * u128::from(PS_PER_S) / u128::from(law.rate.get());
    chunks * (u128::from(law.setup.ps()) + 1) + moving
}
