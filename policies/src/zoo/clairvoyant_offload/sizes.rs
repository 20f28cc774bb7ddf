//! What the sizes of objects say: who is too small to move, and how much may be on its way.
//!
//! Invariant: what stays is a small share of HBM.

use super::estimate::Estimate;
use crate::recipe::Setting;
use tiersim_models::hardware::HBM;
use tiersim_models::ids::TierId;
use tiersim_models::units::Bytes;

/// Small objects that stay take one of so many bytes of HBM at most.
const CRUMBS: u64 = 100;

/// Objects that a link takes longer to set up than to carry, the smallest first, as long as all of
/// them together are a small share of HBM.
pub(super) fn staying(setting: &Setting<'_>, spill: &[TierId], estimate: &Estimate) -> Vec<bool> {
    let objects = &setting.workload.trace.objects;
    let mut stays = vec![false; objects.len()];
    let Some(&to) = spill.first() else { return stays };
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_key(|&object| (objects[object].bytes, object));
    let set_up = estimate.span(HBM, to, Bytes::ZERO);
    let mut left = setting.memory.usable(HBM).most().get() / CRUMBS;
    for object in order {
        let bytes = objects[object].bytes;
        let rest = left.checked_sub(bytes.get());
        let Some(rest) = rest.filter(|_| estimate.span(HBM, to, bytes) <= 2 * set_up) else {
            break;
        };
        (left, stays[object]) = (rest, true);
    }
    stays
}

/// The largest object: so much of HBM is held by what comes while something else leaves.
pub(super) fn under_way(setting: &Setting<'_>) -> Bytes {
    let objects = setting.workload.trace.objects.iter();
    objects.map(|object| object.bytes).max().unwrap_or(Bytes::ZERO)
}
