//! From nodes to a trace: streams, edges between them, objects and their uses.
//!
//! Invariant: op i is the node at place i of the order, and waits for no later one.

use super::Account;
use super::order::{Order, find, order};
use super::row::{Row, Work, plain};
use crate::import::execution::Account as Objects;
use crate::import::execution::graph::{ALLOCATE, Graph, device};
use crate::import::names::Names;
use crate::trace::tables::unpacked_name;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{
    Gaps, Known, Mode, Object, ObjectKind, Op, Phase, Recorded, Trace, TraceMeta, Unit, Use,
};

/// Makes the trace.
///
/// # Errors
/// What keeps the nodes from having an order or streams.
pub(super) fn build(
    path: &Path,
    mut rows: Vec<Row>,
    names: &Names,
    gaps: Gaps,
    account: &mut Account,
) -> Result<Trace, Diagnostics> {
    let order = order(&mut rows, account).map_err(|(rule, found)| {
        Diagnostics::one(path, None, rule, found, "check what wrote the file")
    })?;
    let streams = streams(&rows, &order).ok_or_else(|| {
        let rule = "a Chakra trace has at most 65,536 threads and streams";
        Diagnostics::one(path, None, rule, "", "check what wrote the file")
    })?;
    let after = after(&rows, &order, &streams, account);
    let phases = phases(&rows);
    let device = device(rows.iter().filter_map(|row| row.node.as_deref()), names);
    account.device = device.map_or("no device", |id| names.get(id)).to_owned();
    let mut making = Making {
        graph: Graph::new(names, device),
        objects: Objects::default(),
        writers: BTreeMap::new(),
        memory: Vec::new(),
        memory_of: vec![None; rows.len()],
    };
    let (mut ops, mut uses) = (Vec::with_capacity(rows.len()), Vec::new());
    for (at, after) in order.rows.iter().map(|&at| at as usize).zip(after) {
        let (row, start) = (&rows[at], uses.len() as u32);
        let name = names.get(row.name);
        let bytes = match row.work {
            Work::Host => {
                if ALLOCATE.contains(&plain(name)) {
                    let outputs = row.node.iter().flat_map(|node| &node.outputs);
                    outputs.for_each(|tensor| making.graph.begin(tensor));
                }
                0
            }
            _ => making.uses((at, row), &rows, phases[at], &mut uses),
        };
        let mut op = Op::new(0, phases[at], name, start..uses.len() as u32);
        (op.stream, op.after, op.flops) = (streams[at], after, row.flops);
        op.bytes = Bytes::new(if row.size > 0 { row.size } else { bytes });
        op.unit = unit(row, account);
        op.duration = match row.work {
            Work::Host if gaps == Gaps::Drop => Some(Span::ZERO),
            // What says its work and no time is priced by that.
            Work::Compute if row.micros == 0 && row.flops > 0 => None,
            _ => Some(Span::from_ps(row.micros * 1_000_000)),
        };
        ops.push(op);
    }
    let objects = making.finish(&mut uses, account);
    let meta = meta(path, account);
    Ok(Trace { meta, modules: Vec::new(), objects, ops, uses })
}

/// By row its stream: one for each thread of the host and each stream of the device; without them
/// one for the host, one for compute, one for memory and one for the network.
fn streams(rows: &[Row], order: &Order) -> Option<Vec<u16>> {
    let mut known = BTreeMap::new();
    let mut streams = vec![0; rows.len()];
    for &at in &order.rows {
        let row = &rows[at as usize];
        let resource = match row.work {
            Work::Host => 0,
            Work::Compute => 1,
            Work::Load | Work::Store => 2,
            Work::Network(..) => 3,
        };
        let key = match row.thread {
            Some(thread) => (resource.min(1), Some(thread)),
            None => (resource, None),
        };
        let next = u16::try_from(known.len()).ok();
        streams[at as usize] = match known.get(&key) {
            Some(&stream) => stream,
            None => *known.entry(key).or_insert(next?),
        };
    }
    Some(streams)
}

/// By op: of each other stream the last op that it waits for.
fn after(rows: &[Row], order: &Order, streams: &[u16], account: &mut Account) -> Vec<Vec<OpId>> {
    let mut all = Vec::with_capacity(rows.len());
    for (op, &at) in order.rows.iter().enumerate() {
        let row = &rows[at as usize];
        let mut last: BTreeMap<u16, u32> = BTreeMap::new();
        let data = row.data.iter().map(|id| (id, true));
        for (&id, data) in data.chain(row.control.iter().map(|id| (id, false))) {
            let Some(before) = find(rows, id) else { continue };
            let awaited = order.ops[before];
            if awaited as usize >= op {
                account.contradicted += u64::from(!data);
            } else if streams[before] != streams[at as usize] {
                let last = last.entry(streams[before]).or_default();
                *last = awaited.max(*last);
            }
        }
        let mut after: Vec<OpId> = last.into_values().map(OpId).collect();
        after.sort_unstable();
        all.push(after);
    }
    all
}

/// By row, from what started it: rows are in the order of identities, and who starts comes first.
/// PyTorch runs the backward pass on a thread of its own.
fn phases(rows: &[Row]) -> Vec<Phase> {
    let on_host = || rows.iter().filter(|row| row.work == Work::Host && row.thread.is_some());
    let first = on_host().next().and_then(|row| row.thread);
    let others = on_host().filter(|row| row.backward && row.thread != first);
    let backward_threads: BTreeSet<Option<u64>> = others.map(|row| row.thread).collect();
    let mut marks: Vec<(bool, bool)> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let parent = row.control.first().and_then(|&id| find(rows, id)).filter(|&of| of < at);
        let (backward, optimizer) = parent.map_or((false, false), |of| marks[of]);
        let own = row.backward || row.work == Work::Host && backward_threads.contains(&row.thread);
        marks.push((backward || own, optimizer || row.optimizer));
    }
    let trains = marks.iter().any(|&(backward, optimizer)| backward || optimizer);
    let phase = |&(backward, optimizer): &(bool, bool)| match (backward, optimizer) {
        (_, true) => Phase::Optimizer,
        (true, _) => Phase::Backward,
        _ if trains => Phase::Forward,
        _ => Phase::Other,
    };
    marks.iter().map(phase).collect()
}

fn unit(row: &Row, account: &mut Account) -> Unit {
    match row.work {
        Work::Host => Unit::Idle,
        Work::Network(Some(kind), ranks) if row.size > 0 => match (ranks, row.micros) {
            // Among how many is not known, but how long it took is.
            (None, 1..) => Unit::Device,
            _ => {
                account.collectives += 1;
                account.assumed += u64::from(ranks.is_none());
                let ranks = ranks.unwrap_or(2);
                // Nodes say what goes in on one rank, and an all-gather makes as many times more.
                let times = if kind == CollectiveKind::AllGather { ranks.into() } else { 1 };
                let bytes = Bytes::new(row.size.saturating_mul(times));
                Unit::Network(Collective::within(kind, bytes, ranks))
            }
        },
        _ => Unit::Device,
    }
}

/// Objects as they are found.
struct Making<'a> {
    graph: Graph<'a>,
    objects: Objects,
    /// By storage: who started the op that wrote it last.
    writers: BTreeMap<i64, u64>,
    /// What is loaded and stored, behind the tensors.
    memory: Vec<Object>,
    /// By row: which of these it loads.
    memory_of: Vec<Option<u32>>,
}

/// Objects of loads and stores are numbered down from here until all tensors are known.
const LAST: u32 = u32::MAX;

impl Making<'_> {
    /// Adds the uses of an op of the device; returns the bytes of its tensors.
    fn uses(
        &mut self,
        (at, row): (usize, &Row),
        rows: &[Row],
        phase: Phase,
        uses: &mut Vec<Use>,
    ) -> u64 {
        let mut node = row.node.as_deref().cloned().unwrap_or_default();
        // Kernels of one op write parts of what it returns: the second makes no new object.
        let parent = row.control.first().copied();
        for tensor in &node.outputs {
            if let Some(parent) = parent {
                let before = self.writers.insert(tensor.storage, parent);
                if before == Some(parent) {
                    node.inputs.push(*tensor);
                }
            }
        }
        let bytes = self.graph.uses(&node, phase, false, uses, &mut self.objects);
        let what = match row.work {
            Work::Load => Some(("load", Mode::Read)),
            Work::Store => Some(("store", Mode::Write)),
            _ => None,
        };
        if let Some((what, mode)) = what.filter(|_| row.size > 0) {
            let name = format!("{what} of node {}", row.id);
            let object = Object::new(name, ObjectKind::Buffer, Bytes::new(row.size));
            let index = self.memory.len() as u32;
            self.memory.push(Object { persistent: true, ..object });
            if mode == Mode::Read {
                self.memory_of[at] = Some(index);
            }
            uses.push(Use::whole(ObjectId(LAST - index), mode));
        }
        // What waits for a load reads what was loaded.
        let mut loads: Vec<u32> = row
            .data
            .iter()
            .filter_map(|&id| self.memory_of[find(rows, id)?])
            .filter(|_| row.work == Work::Compute)
            .collect();
        loads.sort_unstable();
        loads.dedup();
        uses.extend(loads.into_iter().map(|index| Use {
            known: Known::Inferred,
            ..Use::whole(ObjectId(LAST - index), Mode::Read)
        }));
        bytes
    }

    fn finish(mut self, uses: &mut [Use], account: &mut Account) -> Vec<Object> {
        let mut objects = self.graph.objects(&mut self.objects);
        let (tensors, memory) = (objects.len() as u32, self.memory.len() as u32);
        for one in uses {
            if one.object.0 > LAST - memory {
                one.object = ObjectId(tensors + (LAST - one.object.0));
            }
        }
        objects.append(&mut self.memory);
        let total = |all: &mut dyn Iterator<Item = &Object>| {
            all.fold((0, 0u64), |(count, bytes), object| {
                (count + 1, bytes.saturating_add(object.bytes.get()))
            })
        };
        account.objects = total(&mut objects.iter());
        account.persistent = total(&mut objects.iter().filter(|object| object.persistent));
        objects
    }
}

fn meta(path: &Path, account: &Account) -> TraceMeta {
    let name = unpacked_name(path);
    let name = name.trim_end_matches(".tar").trim_end_matches(".et");
    TraceMeta {
        name: if name.is_empty() { "chakra".to_owned() } else { name.to_owned() },
        about: format!(
            "Imported from a Chakra execution trace: {} nodes, {} of them on the host.",
            account.nodes, account.host
        ),
        precision: "recorded".to_owned(),
        batch: 1,
        sequence: 1,
        recorded: Recorded {
            how: format!("Chakra, schema {}", account.schema),
            when: account.when.clone(),
            on: account.device.clone(),
        },
    }
}
