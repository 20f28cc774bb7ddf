//! Where the nodes of a machine stand: in columns by their distance from the device.
//!
//! A link joins nodes of the same column or of two neighbouring ones, because columns are
//! breadth-first distances. Within a column nodes are ordered by where their neighbours to the left
//! stand (the barycentre method: Sugiyama, Tagawa, Toda, IEEE Trans. SMC 11(2), 1981), which keeps
//! crossings few.
//! Invariant: every node stands in exactly one place, and the same machine gives the same places.

use std::collections::VecDeque;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::NodeId;

/// The nodes of each column, from top to bottom.
pub(super) type Columns = Vec<Vec<NodeId>>;

/// The columns of a machine, the device's own memory alone in the first.
pub(super) fn columns(hardware: &Hardware) -> Columns {
    let distances = distances(hardware);
    let joined = distances.iter().flatten().max().map_or(0, |&most| most + 1);
    let stray = distances.iter().any(Option::is_none);
    let mut columns: Columns = vec![Vec::new(); joined + usize::from(stray)];
    for node in hardware.node_ids() {
        // What nothing joins to the device stands by itself at the end.
        columns[distances[node.index()].unwrap_or(joined)].push(node);
    }
    for column in 1..columns.len() {
        let left = columns[column - 1].clone();
        let mut keyed: Vec<(u64, NodeId)> =
            columns[column].iter().map(|&node| (centre(hardware, node, &left), node)).collect();
        keyed.sort();
        columns[column] = keyed.into_iter().map(|(_, node)| node).collect();
    }
    columns
}

/// The column of each node.
pub(super) fn column_of(columns: &Columns, node: NodeId) -> usize {
    let holds = |column: &Vec<NodeId>| column.contains(&node);
    columns.iter().position(holds).expect("every node stands somewhere")
}

/// Links between every node and the device; `None` if nothing leads there.
fn distances(hardware: &Hardware) -> Vec<Option<usize>> {
    let mut distances = vec![None; hardware.node_ids().count()];
    distances[0] = Some(0);
    let mut next = VecDeque::from([NodeId::at(0)]);
    while let Some(node) = next.pop_front() {
        let further = distances[node.index()].map(|distance: usize| distance + 1);
        for neighbour in neighbours(hardware, node) {
            if distances[neighbour.index()].is_none() {
                distances[neighbour.index()] = further;
                next.push_back(neighbour);
            }
        }
    }
    distances
}

fn neighbours(hardware: &Hardware, node: NodeId) -> impl Iterator<Item = NodeId> {
    hardware.links.iter().filter_map(move |link| match (link.near == node, link.far == node) {
        (true, _) => Some(link.far),
        (_, true) => Some(link.near),
        _ => None,
    })
}

/// Mean position of a node's neighbours in the column to its left, in thousandths.
fn centre(hardware: &Hardware, node: NodeId, left: &[NodeId]) -> u64 {
    let place = |other| left.iter().position(|&there| there == other);
    let places: Vec<usize> = neighbours(hardware, node).filter_map(place).collect();
    let (sum, count) = (places.iter().sum::<usize>() as u64, places.len() as u64);
    (1000 * sum).checked_div(count).unwrap_or(u64::MAX)
}
