//! In which order nodes become ops, and which of them an op waits for.
//!
//! Of the nodes that wait for nothing more the one with the lowest identity comes first: converters
//! number nodes as they began.
//! Invariant: an op comes behind all that its data dependencies name.

use super::Account;
use super::row::Row;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// By place: which rows come before it, by their index.
pub(super) struct Order {
    /// Rows, in the order of ops.
    pub(super) rows: Vec<u32>,
    /// The reverse: by row, its op.
    pub(super) ops: Vec<u32>,
}

/// Sorts rows by identity, and finds their order.
///
/// # Errors
/// Two nodes of one identity, or nodes that wait for each other: the rule and what was found.
pub(super) fn order(rows: &mut [Row], account: &mut Account) -> Result<Order, (String, String)> {
    rows.sort_by_key(|row| row.id);
    if let Some(two) = rows.windows(2).find(|two| two[0].id == two[1].id) {
        return Err(("a node has a number of its own".into(), format!("node {} twice", two[0].id)));
    }
    let count = rows.len();
    let (mut begins, mut waits) = (vec![0u32; count + 1], vec![0u32; count]);
    for (row, before) in edges(rows) {
        begins[before + 1] += 1;
        waits[row] += 1;
    }
    for row in 0..count {
        begins[row + 1] += begins[row];
    }
    let mut next = begins.clone();
    let mut behind = vec![0u32; begins[count] as usize];
    for (row, before) in edges(rows) {
        behind[next[before] as usize] = row as u32;
        next[before] += 1;
    }
    account.missing += rows.iter().map(|row| missing(rows, row)).sum::<u64>();
    let ready = (0..count).filter(|&row| waits[row] == 0).map(|row| Reverse(row as u32));
    let mut ready: BinaryHeap<_> = ready.collect();
    let mut order = Order { rows: Vec::with_capacity(count), ops: vec![u32::MAX; count] };
    while let Some(Reverse(row)) = ready.pop() {
        let at = row as usize;
        order.ops[at] = order.rows.len() as u32;
        order.rows.push(row);
        for &after in &behind[begins[at] as usize..begins[at + 1] as usize] {
            waits[after as usize] -= 1;
            if waits[after as usize] == 0 {
                ready.push(Reverse(after));
            }
        }
    }
    let stuck = count - order.rows.len();
    if let Some(row) = order.ops.iter().position(|&op| op == u32::MAX) {
        let found = format!("{stuck} nodes, node {} the first of them", rows[row].id);
        return Err(("no node waits for itself by its data dependencies".into(), found));
    }
    Ok(order)
}

/// The row of an identity.
pub(super) fn find(rows: &[Row], id: u64) -> Option<usize> {
    rows.binary_search_by_key(&id, |row| row.id).ok()
}

fn edges(rows: &[Row]) -> impl Iterator<Item = (usize, usize)> {
    let of = |(at, row): (usize, &Row)| {
        let before = row.data.iter().filter_map(|&id| find(rows, id));
        before.map(move |before| (at, before)).collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(of)
}

fn missing(rows: &[Row], row: &Row) -> u64 {
    let all = row.data.iter().chain(&row.control);
    all.filter(|&&id| find(rows, id).is_none()).count() as u64
}
