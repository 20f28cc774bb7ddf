//! What a trace asks of memory, answered without a machine: every object in one tier.
//!
//! The requests are those that a plan makes which keeps everything there: what persists first, in
//! the order of its ids; then by op what it is the first to use, and after it what it is the last
//! to. So a capacity that serves here is one in which `AllHbm` runs, to the byte.
//! Invariant: nothing here depends on time; the same trace and allocator give the same answer.

mod ahead;
mod leaks;
mod least;
mod replay;

use tiersim_models::allocator::{AllocatorSpec, LARGEST};
use tiersim_models::ids::OpId;
use tiersim_models::lifetime::Workload;
use tiersim_models::results::trace_memory::TraceMemory;
use tiersim_models::units::Bytes;

pub use self::ahead::ahead;
pub use self::leaks::leaks;
pub use self::least::least_pool;
use self::replay::floor;
pub use self::replay::serve;

/// All of it: the least pool, the requests in `capacity` or else in that pool, offsets ahead and
/// leaks.
///
/// # Errors
/// The allocator keeps more for the trace than a quarter of what a model looks after.
pub fn trace_memory(
    workload: &Workload,
    spec: &AllocatorSpec,
    capacity: Option<Bytes>,
) -> Result<TraceMemory, String> {
    let most = Bytes::new(LARGEST.get() / 4);
    let ample = serve(workload, spec, LARGEST).ok().filter(|ample| ample.reserved <= most);
    let ample = ample.ok_or_else(|| {
        let floor = floor(workload, |bytes| bytes);
        format!("the trace needs at most {most} (found {floor} asked for at once); cut it")
    })?;
    let least = least_pool(workload, spec, ample.reserved);
    let capacity = capacity.unwrap_or(least.bytes);
    let objects = &workload.trace.objects;
    let persistent = objects.iter().filter(|object| object.persistent).count();
    let ops = (0..workload.trace.ops.len()).map(OpId::at);
    Ok(TraceMemory {
        trace: workload.trace.meta.name.clone(),
        allocator: spec.to_string(),
        steps: workload.step_ends().len(),
        requests: (persistent, ops.map(|op| workload.births(op).len()).sum()),
        floor: floor(workload, |bytes| bytes),
        ample: ample.reserved,
        least,
        served: serve(workload, spec, capacity),
        capacity,
        ahead: ahead(workload, spec),
        leaks: leaks(workload),
    })
}
