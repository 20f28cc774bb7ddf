//! Which activities are collectives of NCCL or RCCL: what several ranks did together.
//!
//! The library's kernels say what they do, but for sends and receives, which an all-to-all is made
//! of; PyTorch names a range for each call (`nccl:all_to_all`), whose first input is what goes in.
//! Where the trace says nothing of a call's group, an execution trace of the same steps may.
//! Invariant: of the kernels that one call launched the first alone counts.

use super::host::{Host, NOWHERE};
use super::items::{Item, Items};
use super::tables::{Activity, Tables, Work};
use crate::import::groups::{Said, kind_of};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Who takes part, if that is said: which group of the rank's.
    pub(crate) group: Option<u32>,
    /// Whether only an execution trace says it.
    pub(crate) lent: bool,
}

/// All of them in the order in which they were asked for, and how many kernels of the library are
/// none that is known; `op_of` says the op of each item.
pub(super) fn collectives(
    (tables, host): (&Tables, &Host),
    items: &Items,
    op_of: &[OpId],
    theirs: &BTreeMap<u32, Said>,
) -> (Vec<Seen>, u64) {
    let (mut seen, mut others, mut calls) = (Vec::new(), 0, BTreeSet::new());
    for (item, &op) in items.list.iter().zip(op_of) {
        let kernel = tables.names.get(item.name).to_ascii_lowercase();
        let named = is_named(tables, &kernel, (item.stream, item.start));
        if items.device.is_none() || item.work != Work::Kernel || !named {
            continue;
        }
        let call = call_of(tables, host, item);
        let (said, lent) = said_of(tables, host, item, theirs);
        let asked = call.or(said.and_then(|(range, _)| range));
        let first = asked.is_none_or(|call| calls.insert(call));
        let said = said.map(|(_, said)| said);
        let name = call.map(|call| tables.names.get(tables.ranges[call as usize].name));
        let kind = said.and_then(|said| said.kind).or_else(|| kind_of(name.unwrap_or(&kernel)));
        match kind.filter(|_| first) {
            Some(kind) => {
                let shapes = || call.map_or(0, |call| tables.ranges[call as usize].input_bytes);
                let bytes = said.map(|said| said.bytes).filter(|&bytes| bytes > 0);
                let bytes = bytes.unwrap_or_else(shapes);
                let group = said.and_then(|said| said.group);
                seen.push(Seen { op, kind, bytes, group, lent: lent && group.is_some() });
            }
            None => others += 1,
        }
    }
    (seen, others)
}

/// Whether an activity is a kernel of the library.
pub(super) fn is_library(tables: &Tables, activity: &Activity) -> bool {
    let kernel = tables.names.get(activity.name).to_ascii_lowercase();
    is_named(tables, &kernel, (activity.stream, activity.start))
}

/// Kernels of other libraries are known by what Kineto says of them.
fn is_named(tables: &Tables, kernel: &str, at: (u32, i64)) -> bool {
    kernel.contains("nccl") || tables.said.contains_key(&at)
}

/// What is said of the collective that an item is: of its kernel, or of one of the ranges that it was
/// launched in, and of which. What is not said there an execution trace says, if there is one; whether
/// it did.
fn said_of(
    tables: &Tables,
    host: &Host,
    item: &Item,
    theirs: &BTreeMap<u32, Said>,
) -> (Option<(Option<u32>, Said)>, bool) {
    let asked = within(host, item, &tables.asked);
    let own = asked.map(|(range, said)| (Some(range), said));
    let of_kernel = || tables.said.get(&(item.stream, item.start)).map(|&said| (None, said));
    let own = own.or_else(of_kernel);
    if own.is_some_and(|(_, said)| said.group.is_some()) {
        return (own, false);
    }
    let theirs = within(host, item, theirs).map(|(range, said)| (Some(range), said));
    match (own, theirs) {
        (Some((range, own)), Some((other, theirs))) => {
            let bytes = if own.bytes > 0 { own.bytes } else { theirs.bytes };
            let said = Said { kind: own.kind.or(theirs.kind), bytes, group: theirs.group };
            (Some((range.or(other), said)), true)
        }
        (None, theirs) => (theirs, true),
        (own, None) => (own, false),
    }
}

/// What is said of one of the ranges that an item was launched in, and of which.
fn within(host: &Host, item: &Item, all: &BTreeMap<u32, Said>) -> Option<(u32, Said)> {
    let mut range = item.range;
    // Between the launch and `record_param_comms` stand few, and perhaps none.
    for _ in 0..DEEPEST {
        if all.is_empty() || range == NOWHERE {
            break;
        }
        if let Some(&said) = all.get(&range) {
            return Some((range, said));
        }
        range = host.of(range).parent;
    }
    None
}

/// Ranges between a launch and the one that says what it is for.
const DEEPEST: usize = 8;

/// The range of the call that launched an item, if the file has it.
fn call_of(tables: &Tables, host: &Host, item: &Item) -> Option<u32> {
    let label = host.of(item.range).label;
    let named = label != NOWHERE
        && tables.names.get(tables.ranges[label as usize].name).starts_with("nccl:");
    named.then_some(label)
}
