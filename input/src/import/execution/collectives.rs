//! Which ops of an execution trace are collectives, and among how many ranks.
//!
//! Invariant: an op is one collective at most: the first that is asked for within it.

use super::nodes::Node;
use std::collections::BTreeMap;
use tiersim_models::collective::{Collective, CollectiveKind, MAX_COLLECTIVE, MAX_GROUP};
use tiersim_models::units::Bytes;

/// Nodes between an op and the one within it that says what it asks of others.
const DEEPEST: usize = 8;

/// By op of the trace: the collective that it asks for. What says so is a node within it, or itself, and
/// the first of them counts.
pub(super) fn collectives(nodes: &[Node], accesses: &[bool]) -> BTreeMap<usize, Collective> {
    let index: BTreeMap<i64, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let mut found = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some(words) = &node.collective else { continue };
        let (Some(kind), Ok(ranks)) = (words.kind(), u32::try_from(words.size())) else { continue };
        let parts = if kind == CollectiveKind::AllGather { u64::from(ranks) } else { 1 };
        let bytes = Bytes::new(words.bytes().saturating_mul(parts));
        let fits = ranks > 1 && u64::from(ranks) <= MAX_GROUP;
        if !fits || bytes == Bytes::ZERO || bytes > MAX_COLLECTIVE {
            continue;
        }
        let mut op = Some(at);
        for _ in 0..DEEPEST {
            match op {
                Some(outer) if !accesses[outer] => {
                    op = index.get(&nodes[outer].parent).copied().filter(|&inner| inner < outer);
                }
                _ => break,
            }
        }
        if let Some(op) = op.filter(|&op| accesses[op]) {
            found.entry(op).or_insert(Collective::within(kind, bytes, ranks));
        }
    }
    found
}
