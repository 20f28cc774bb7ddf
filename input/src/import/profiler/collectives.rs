//! Which activities are collectives of NCCL or RCCL: what several ranks did together.
//!
//! The library's kernels say what they do, but for sends and receives, which an all-to-all is made
//! of; PyTorch names a range for each call (`nccl:all_to_all`), whose first input is what goes in.
//! Invariant: of the kernels that one call launched the first alone counts.

use super::host::{Host, NOWHERE};
use super::items::{Item, Items};
use super::tables::{Tables, Work};
use std::collections::BTreeSet;
use tiersim_models::collective::CollectiveKind;
use tiersim_models::ids::OpId;

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its op in the trace of the rank.
    pub(crate) op: OpId,
    pub(crate) kind: CollectiveKind,
    /// What goes in on this rank; 0 where its shape is not recorded.
    pub(crate) bytes: u64,
}

/// All of them in the order in which they were asked for, and how many kernels of the library are
/// none that is known; `op_of` says the op of each item.
pub(super) fn collectives(
    (tables, host): (&Tables, &Host),
    items: &Items,
    op_of: &[OpId],
) -> (Vec<Seen>, u64) {
    let (mut seen, mut others, mut calls) = (Vec::new(), 0, BTreeSet::new());
    for (item, &op) in items.list.iter().zip(op_of) {
        let kernel = tables.names.get(item.name).to_ascii_lowercase();
        if items.device.is_none() || item.work != Work::Kernel || !kernel.contains("nccl") {
            continue;
        }
        let call = call_of(tables, host, item);
        let first = call.is_none_or(|call| calls.insert(call));
        let name = call.map(|call| tables.names.get(tables.ranges[call as usize].name));
        match kind_of(name.unwrap_or(&kernel)).filter(|_| first) {
            Some(kind) => {
                let bytes = call.map_or(0, |call| tables.ranges[call as usize].input_bytes);
                seen.push(Seen { op, kind, bytes });
            }
            None => others += 1,
        }
    }
    (seen, others)
}

/// The range of the call that launched an item, if the file has it.
fn call_of(tables: &Tables, host: &Host, item: &Item) -> Option<u32> {
    let label = host.of(item.range).label;
    let named = label != NOWHERE
        && tables.names.get(tables.ranges[label as usize].name).starts_with("nccl:");
    named.then_some(label)
}

/// By the name of a call, or of a kernel in small letters.
fn kind_of(name: &str) -> Option<CollectiveKind> {
    let words = [
        (["all_reduce", "allreduce"], CollectiveKind::AllReduce),
        (["all_gather", "allgather"], CollectiveKind::AllGather),
        (["reduce_scatter", "reducescatter"], CollectiveKind::ReduceScatter),
        (["all_to_all", "alltoall"], CollectiveKind::AllToAll),
        (["broadcast", "broadcast"], CollectiveKind::Broadcast),
    ];
    let found = words.iter().find(|(words, _)| words.iter().any(|word| name.contains(word)));
    found.map(|&(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::{CollectiveKind, kind_of};

    #[test]
    fn names_of_calls_and_kernels_say_what_they_are() {
        for (name, kind) in [
            ("nccl:all_to_all", Some(CollectiveKind::AllToAll)),
            ("nccl:_all_gather_base", Some(CollectiveKind::AllGather)),
            ("nccl:_reduce_scatter_base", Some(CollectiveKind::ReduceScatter)),
            ("nccl:send 0->1", None),
            ("nccldevkernel_allreduce_sum_bf16_ring_ll(", Some(CollectiveKind::AllReduce)),
            ("ncclkernel_sendrecv_ring_simple_sum_int8_t(", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
