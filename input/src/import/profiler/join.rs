//! A profiler's trace joined with an execution trace of the same steps: times and kernels of the
//! one, tensors of the other.
//!
//! Both have a row for each op. Newer ones agree on `Record function id`; of older ones ops of a
//! thread follow one another in the same order under the same names, but for some that only one of
//! the two has. What a kernel uses is what the op uses that it was launched in.
//! Names repeat, so some rows of any other run are found too: a pair of which few are is refused.
//! Invariant: two rows that are one op have the same name.

use super::host::Host;
use super::items::Item;
use super::tables::{Kind, NONE, Range, Tables};
use crate::import::execution::Tensors;
use crate::import::groups::Words;
use std::collections::BTreeMap;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Mode, Object};

/// Rows between one that says what a collective is and one that was found.
const DEEPEST: usize = 8;
/// How far ahead rows are looked at that only one of the two has.
const AHEAD: usize = 64;
/// Of the rows of the shorter of the two one in so many is found at least. Of real pairs four in five
/// and more are; of another run at most one in nine, by names that all programs have.
const ONE_IN: usize = 2;

/// What the execution trace says of the items.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) objects: Vec<Object>,
    /// Item, object, how.
    pub(super) uses: Vec<(u32, u32, Mode)>,
    /// Rows of the execution trace that were found, and all of them.
    pub(super) found: (u64, u64),
    /// By what.
    pub(super) by: &'static str,
    /// What rows of the execution trace say of the collectives that ranges ask for.
    pub(super) asked: Vec<(u32, Words)>,
}

/// Finds the ops of an execution trace again, and gives their tensors to the items.
///
/// # Errors
/// That the execution trace is of another run, or of other steps.
pub(super) fn join(
    path: &Path,
    (tables, host): (&Tables, &Host),
    items: &[Item],
    tensors: &Tensors,
) -> Result<Joined, Diagnostics> {
    // Either may go on for longer than the other.
    let ours = tables.ranges.iter().filter(|range| is_row(range)).count();
    let shorter = ours.min(tensors.nodes.len());
    let by_id = by_id(tables, tensors);
    let (nodes, by) = match by_id.len() * ONE_IN >= shorter {
        true => (by_id, "Record function id"),
        false => (by_order(tables, host, tensors), "order and name"),
    };
    if nodes.len() * ONE_IN < shorter {
        return Err(of_another_run(path, nodes.len(), (ours, tensors.nodes.len())));
    }
    let mut joined = Joined { objects: tensors.trace.objects.clone(), by, ..Joined::default() };
    joined.found = (nodes.len() as u64, tensors.nodes.len() as u64);
    joined.asked = asked(&nodes, tensors);
    // By range: the op of the execution trace that it, or what it lies in, is.
    let mut ops: Vec<Option<u32>> = vec![None; tables.ranges.len()];
    for &id in &host.order {
        let own = nodes.get(&id).and_then(|&node| tensors.nodes[node as usize].op);
        let outer = ops.get(host.of(id).parent as usize).copied().flatten();
        ops[id as usize] = own.or(outer);
    }
    for (index, item) in items.iter().enumerate() {
        let Some(op) = ops.get(item.range as usize).copied().flatten() else { continue };
        let uses = tensors.trace.ops[op as usize].uses.clone();
        for one in &tensors.trace.uses[uses.start as usize..uses.end as usize] {
            joined.uses.push((index as u32, one.object.0, one.mode));
        }
    }
    joined.settle();
    Ok(joined)
}

/// Whether an execution trace has a row for a range.
fn is_row(range: &Range) -> bool {
    range.kind != Kind::Module
}

/// Why so few rows were found.
fn of_another_run(path: &Path, found: usize, (ours, theirs): (usize, usize)) -> Diagnostics {
    let rule = "an execution trace is of the same steps as the profile that it is joined with";
    let found = format!(
        "{found} rows are in both, of {ours} ops and ranges of the profile and {theirs} nodes of the \
         execution trace"
    );
    let remedy = "give the execution trace of this very run, recorded over the same steps, or leave \
                  --execution-trace out";
    Diagnostics::one(path, None, rule, found, remedy)
}

impl Joined {
    /// An object whose first use reads it was there before, whatever it was in the execution trace:
    /// what wrote it there launched nothing here.
    /// What no kernel uses is left out.
    fn settle(&mut self) {
        let mut seen = vec![false; self.objects.len()];
        for &(_, object, mode) in &self.uses {
            let object = object as usize;
            if !std::mem::replace(&mut seen[object], true) && mode != Mode::Write {
                self.objects[object].persistent = true;
            }
        }
        let mut ids = Vec::with_capacity(seen.len());
        let mut next = 0;
        for &used in &seen {
            ids.push(next);
            next += u32::from(used);
        }
        let mut used = seen.into_iter();
        self.objects.retain(|_| used.next().unwrap_or(false));
        self.uses.iter_mut().for_each(|one| one.1 = ids[one.1 as usize]);
    }
}

/// By range, of those that rows of the execution trace were found to be: what these, or rows within
/// them that were not found, say of a collective. Of several the first counts.
fn asked(found: &BTreeMap<u32, u32>, tensors: &Tensors) -> Vec<(u32, Words)> {
    let ranges: BTreeMap<u32, u32> = found.iter().map(|(&range, &node)| (node, range)).collect();
    let mut asked: BTreeMap<u32, Words> = BTreeMap::new();
    for (at, row) in tensors.nodes.iter().enumerate() {
        let Some(words) = &row.collective else { continue };
        let mut node = Some(at as u32);
        for _ in 0..DEEPEST {
            let Some(outer) = node else { break };
            if let Some(&range) = ranges.get(&outer) {
                asked.entry(range).or_insert_with(|| (**words).clone());
                break;
            }
            node = tensors.nodes[outer as usize].parent;
        }
    }
    asked.into_iter().collect()
}

/// By range: the node with its number and name.
fn by_id(tables: &Tables, tensors: &Tensors) -> BTreeMap<u32, u32> {
    let mut numbers: BTreeMap<i64, u32> = BTreeMap::new();
    for (node, row) in tensors.nodes.iter().enumerate() {
        if row.record_function > 0 {
            numbers.insert(row.record_function, node as u32);
        }
    }
    let mut found = BTreeMap::new();
    for (id, range) in tables.ranges.iter().enumerate() {
        let node = numbers.get(&range.record_function).filter(|_| range.record_function != NONE);
        let Some(&node) = node else { continue };
        if tensors.names.get(tensors.nodes[node as usize].name) == tables.names.get(range.name) {
            found.insert(id as u32, node);
        }
    }
    found
}

/// By range: the node at its place among those of its thread. Threads of the two pair up by how
/// much they have.
fn by_order(tables: &Tables, host: &Host, tensors: &Tensors) -> BTreeMap<u32, u32> {
    let mut ours: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &id in &host.order {
        let range = &tables.ranges[id as usize];
        if is_row(range) {
            ours.entry(range.thread).or_default().push(id);
        }
    }
    let mut theirs: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (node, row) in tensors.nodes.iter().enumerate() {
        theirs.entry(row.thread).or_default().push(node as u32);
    }
    let mut ours: Vec<Vec<u32>> = ours.into_values().collect();
    let mut theirs: Vec<Vec<u32>> = theirs.into_values().collect();
    ours.sort_by_key(|list| std::cmp::Reverse(list.len()));
    theirs.sort_by_key(|list| std::cmp::Reverse(list.len()));
    let mut found = BTreeMap::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let name = |id: &u32| tables.names.get(tables.ranges[*id as usize].name);
        let other = |node: &u32| tensors.names.get(tensors.nodes[*node as usize].name);
        let ours_names: Vec<&str> = ours.iter().map(name).collect();
        let their_names: Vec<&str> = theirs.iter().map(other).collect();
        for (a, b) in aligned(&ours_names, &their_names) {
            found.insert(ours[a], theirs[b]);
        }
    }
    found
}

/// Pairs of rows with one name, in the order of both. Where names differ, the fewest rows are left
/// out that make two pairs in a row.
fn aligned(ours: &[&str], theirs: &[&str]) -> Vec<(usize, usize)> {
    let (mut a, mut b) = (0, 0);
    let mut pairs = Vec::new();
    let same =
        |a: usize, b: usize| matches!((ours.get(a), theirs.get(b)), (Some(x), Some(y)) if x == y);
    while a < ours.len() && b < theirs.len() {
        if same(a, b) {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
            continue;
        }
        let next = (1..=AHEAD).find_map(|left_out| {
            let both = |skip: usize| (a + skip, b + left_out - skip);
            let fits = |&(a, b): &(usize, usize)| {
                let last = a + 1 >= ours.len() || b + 1 >= theirs.len();
                same(a, b) && (last || same(a + 1, b + 1))
            };
            (0..=left_out).map(both).find(fits)
        });
        (a, b) = next.unwrap_or((a + 1, b + 1));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn rows_that_only_one_has_are_left_out() {
        let pairs = aligned(&["a", "b", "x", "c", "d"], &["y", "a", "b", "c", "d", "e"]);
        assert_eq!(pairs, [(0, 1), (1, 2), (3, 3), (4, 4)]);
        assert_eq!(aligned(&["a"], &[]), []);
        assert_eq!(aligned(&["a", "b"], &["c", "d"]), []);
    }
}
