//! From nodes to a trace: which nodes are ops, which storages are one object, what persists.
//!
//! Invariant: an object's uses are in the order of its nodes, and the first use of one that does not
//! persist writes it.

use super::collectives::collectives;
use super::nodes::{Node, Tensor};
use super::{Account, Imported, Row};
use crate::import::names::Names;
use crate::trace::tables::unpacked_name;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::ObjectId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{
    Known, Mode, Object, ObjectKind, Op, Phase, Recorded, Trace, TraceMeta, Unit, Use,
};

/// Ops that touch no memory, though tensors go in and out.
const NO_ACCESS: [&str; 24] = [
    "aten::as_strided",
    "aten::view",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::transpose",
    "aten::t",
    "aten::permute",
    "aten::expand",
    "aten::slice",
    "aten::select",
    "aten::narrow",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::detach",
    "detach",
    "aten::alias",
    "aten::result_type",
    "aten::resize_",
    "aten::set_",
    "aten::split",
    "aten::chunk",
    "aten::unbind",
    "aten::flatten",
    "aten::lift_fresh",
];
/// Ops that allocate, and do no more.
pub(in crate::import) const ALLOCATE: [&str; 4] =
    ["aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided"];
/// Ops that own kernels beside those of the ops within them.
const OWN: [&str; 5] =
    ["aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::convolution_"];

/// What a node lies in.
#[derive(Clone, Copy, Default)]
struct Within {
    backward: bool,
    optimizer: bool,
    zero_grad: bool,
    accumulate: bool,
}

/// One object.
struct Made {
    bytes: u64,
    persistent: bool,
    storage: i64,
    /// Phases in which it is first and last used, and all in which it is read and written.
    first: Phase,
    last: Phase,
    written: BTreeSet<Phase>,
    accumulated: bool,
}

/// Makes the trace.
///
/// # Errors
/// That no node is an op on memory.
pub(super) fn build(
    path: &Path,
    mut nodes: Vec<Node>,
    names: &Names,
    schema: String,
) -> Result<(Imported, Vec<Row>), Diagnostics> {
    // Numbers are given as ops begin; the file lists them as they end.
    nodes.sort_by_key(|node| node.id);
    let device = device(&nodes, names);
    let mut account = Account { nodes: nodes.len() as u64, schema, ..Account::default() };
    account.device = device.map_or_else(|| "none".to_owned(), |id| names.get(id).to_owned());
    let all = nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs));
    let storages: BTreeSet<i64> = all.map(|tensor| tensor.storage).collect();
    account.storages = storages.len() as u64;
    let (within, accesses, allocations) = classify(&nodes, names);
    let collectives = collectives(&nodes, &accesses);
    let mut graph = Graph::new(names, device);
    let (mut ops, mut uses) = (Vec::new(), Vec::new());
    let (mut step, mut updated) = (0, false);
    let places: BTreeMap<i64, u32> =
        nodes.iter().enumerate().map(|(at, node)| (node.id, at as u32)).collect();
    let row = |node: &Node| Row {
        collective: node.collective.clone(),
        parent: places.get(&node.parent).copied(),
        record_function: node.record_function,
        thread: node.thread,
        name: node.name,
        op: None,
    };
    let mut rows: Vec<Row> = nodes.iter().map(row).collect();
    for (at, (node, within)) in nodes.iter().zip(&within).enumerate() {
        let name = names.get(node.name);
        for &inner in allocations.get(&at).into_iter().flatten() {
            nodes[inner].outputs.iter().for_each(|tensor| graph.begin(tensor));
        }
        if !accesses[at] {
            account.left_out += u64::from(!ALLOCATE.contains(&name));
            continue;
        }
        if within.optimizer {
            updated = true;
        } else if updated && !within.zero_grad {
            (step, updated) = (step + 1, false);
        }
        let phase = match within {
            Within { optimizer: true, .. } | Within { zero_grad: true, .. } => Phase::Optimizer,
            Within { backward: true, .. } => Phase::Backward,
            _ => Phase::Forward,
        };
        let start = uses.len() as u32;
        let bytes = graph.uses(node, phase, within.accumulate, &mut uses, &mut account);
        if uses.len() as u32 == start {
            account.left_out += 1;
            continue;
        }
        let flops = flops(name, node);
        account.products += u64::from(flops > 0);
        rows[at].op = Some(ops.len() as u32);
        let (flops, bytes) = (flops, Bytes::new(bytes));
        let unit = collectives.get(&at).map_or(Unit::Device, |&one| Unit::Network(one));
        account.collectives += u64::from(unit != Unit::Device);
        ops.push(Op { flops, bytes, unit, ..Op::new(step, phase, name, start..uses.len() as u32) });
    }
    if ops.is_empty() {
        let rule = "an execution trace of PyTorch holds ops on tensors";
        let found = format!("{} nodes, none of which is one", account.nodes);
        return Err(Diagnostics::one(path, None, rule, found, "record some steps of a model"));
    }
    if !updated && step > 0 {
        // What follows the last update is no step of its own.
        ops.iter_mut().for_each(|op: &mut Op| op.step = op.step.min(step - 1));
    }
    account.steps = u64::from(ops.last().map_or(0, |op| op.step)) + 1;
    account.ops = ops.len() as u64;
    let objects = graph.objects(&mut account);
    let modules = Vec::new();
    let trace = Trace { meta: meta(path, &account), modules, objects, ops, uses };
    Ok((Imported { trace, account }, rows))
}

/// The device of most tensors that is not the host; the host where there is no other.
pub(in crate::import) fn device<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
    names: &Names,
) -> Option<u32> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let all = nodes.into_iter().flat_map(|node| node.inputs.iter().chain(&node.outputs));
    // A tensor of nothing is on no device.
    for tensor in all.filter(|tensor| tensor.bytes > 0) {
        *counts.entry(tensor.device).or_default() += 1;
    }
    let key = |(id, count): (&u32, &u64)| (names.get(*id) != "cpu", *count, std::cmp::Reverse(*id));
    counts.iter().max_by_key(|&(id, count)| key((id, count))).map(|(id, _)| *id)
}

/// What each node lies in, whether it is an op of the trace, and by node the allocations that are
/// its own: what an op allocates within itself is there before it writes.
fn classify(
    nodes: &[Node],
    names: &Names,
) -> (Vec<Within>, Vec<bool>, BTreeMap<usize, Vec<usize>>) {
    let index: BTreeMap<i64, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let mut within = vec![Within::default(); nodes.len()];
    let mut parents = vec![None; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        // A parent begins before what lies in it.
        let parent = index.get(&node.parent).copied().filter(|&parent| parent < at);
        let mut own = parent.map_or(Within::default(), |parent| within[parent]);
        let name = names.get(node.name);
        own.backward |= name.starts_with("autograd::engine::evaluate_function");
        own.accumulate |= name.ends_with("AccumulateGrad");
        own.optimizer |= name.starts_with("Optimizer.step#");
        own.zero_grad |= name.starts_with("Optimizer.zero_grad#");
        (within[at], parents[at]) = (own, parent);
    }
    let mut accesses = vec![false; nodes.len()];
    let mut covered = vec![false; nodes.len()];
    // Inner nodes come behind outer ones: backwards, each knows what lies in it.
    for (at, node) in nodes.iter().enumerate().rev() {
        let name = names.get(node.name);
        let silent = NO_ACCESS.contains(&name) || ALLOCATE.contains(&name) || !node.op;
        let owns = OWN.iter().any(|own| name.starts_with(own));
        accesses[at] = !silent && (!covered[at] || owns);
        if let Some(parent) = parents[at].filter(|_| accesses[at] || covered[at]) {
            covered[parent] = true;
        }
    }
    let mut owners: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut allocations: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        owners[at] = parents[at].and_then(|outer| match accesses[outer] {
            true => Some(outer),
            false => owners[outer],
        });
        if ALLOCATE.contains(&names.get(node.name)) {
            allocations.entry(owners[at].unwrap_or(at)).or_default().push(at);
        }
    }
    (within, accesses, allocations)
}

/// Multiplications and additions of a product of matrices: m k, k n and m n numbers make m k n.
fn flops(name: &str, node: &Node) -> u64 {
    let first = match name {
        "aten::mm" => 0,
        "aten::addmm" => 1,
        _ => return 0,
    };
    let (left, right) = (node.inputs.get(first), node.inputs.get(first + 1));
    let (Some(left), Some(right), Some(out)) = (left, right, node.outputs.first()) else {
        return 0;
    };
    let square = [left, right, out].map(|tensor| u128::from(tensor.numbers));
    let square = square[0].checked_mul(square[1]).and_then(|two| two.checked_mul(square[2]));
    let product = square.map_or(0, u128::isqrt).saturating_mul(2);
    u64::try_from(product).ok().filter(|&flops| flops < 1 << 50).unwrap_or(0)
}

pub(in crate::import) struct Graph<'a> {
    names: &'a Names,
    device: Option<u32>,
    /// By storage: the object that it is now.
    current: BTreeMap<i64, u32>,
    made: Vec<Made>,
}

impl<'a> Graph<'a> {
    /// Without objects yet.
    pub(in crate::import) fn new(names: &'a Names, device: Option<u32>) -> Graph<'a> {
        Graph { names, device, current: BTreeMap::new(), made: Vec::new() }
    }

    /// A storage is allocated: what had its address is gone.
    pub(in crate::import) fn begin(&mut self, tensor: &Tensor) {
        if Some(tensor.device) == self.device {
            self.current.remove(&tensor.storage);
        }
    }

    /// Adds the uses of an op; returns the bytes that it reads and writes.
    pub(in crate::import) fn uses(
        &mut self,
        node: &Node,
        phase: Phase,
        accumulates: bool,
        uses: &mut Vec<Use>,
        account: &mut Account,
    ) -> u64 {
        let mut found: BTreeMap<i64, (bool, bool, u64)> = BTreeMap::new();
        let mut bytes = 0u64;
        let inputs = node.inputs.iter().map(|tensor| {
            let changed = tensor.argument < 64 && node.changed >> tensor.argument & 1 == 1;
            (tensor, true, changed)
        });
        let outputs = node.outputs.iter().map(|tensor| (tensor, false, true));
        for (tensor, read, written) in inputs.chain(outputs) {
            if tensor.bytes == 0 {
                continue;
            }
            if Some(tensor.device) != self.device {
                account.elsewhere += 1;
                continue;
            }
            bytes = bytes.saturating_add(tensor.bytes).min(1 << 50);
            let of = found.entry(tensor.storage).or_default();
            *of = (of.0 || read, of.1 || written, of.2.max(tensor.end));
        }
        // What fills or copies over a storage needs nothing of it.
        let overwrites =
            matches!(self.names.get(node.name), "aten::fill_" | "aten::zero_" | "aten::copy_");
        for (storage, (read, written, end)) in found {
            if !read {
                // What is returned and was not taken is new.
                self.current.remove(&storage);
            }
            let fresh = !self.current.contains_key(&storage);
            let first = node.inputs.first().is_some_and(|tensor| tensor.storage == storage);
            let whole =
                self.current.get(&storage).is_none_or(|&id| self.made[id as usize].bytes <= end);
            let reads = read && !(overwrites && first && whole);
            if fresh {
                let persistent = reads;
                let made = Made {
                    bytes: 0,
                    persistent,
                    storage,
                    first: phase,
                    last: phase,
                    written: BTreeSet::new(),
                    accumulated: false,
                };
                self.current.insert(storage, self.made.len() as u32);
                self.made.push(made);
            }
            let id = self.current[&storage];
            let made = &mut self.made[id as usize];
            (made.bytes, made.last) = (made.bytes.max(end), phase);
            if written {
                made.written.insert(phase);
                made.accumulated |= accumulates;
            }
            let mode = match (reads, written) {
                (_, false) => Mode::Read,
                (false, true) => Mode::Write,
                (true, true) => Mode::ReadWrite,
            };
            uses.push(Use { known: Known::Seen, ..Use::whole(ObjectId(id), mode) });
        }
        bytes
    }

    pub(in crate::import) fn objects(&self, account: &mut Account) -> Vec<Object> {
        let object = |(index, made): (usize, &Made)| {
            let kind = match made {
                Made { accumulated: true, .. } => ObjectKind::Gradient,
                Made { persistent: true, .. } if made.written.contains(&Phase::Optimizer) => {
                    match made.first {
                        Phase::Forward => ObjectKind::Weight,
                        _ => ObjectKind::Optimizer,
                    }
                }
                Made {
                    persistent: false, first: Phase::Forward, last: Phase::Backward, ..
                } => ObjectKind::Activation,
                _ => ObjectKind::Buffer,
            };
            account.objects.0 += 1;
            account.objects.1 = account.objects.1.saturating_add(made.bytes);
            if made.persistent {
                account.persistent.0 += 1;
                account.persistent.1 = account.persistent.1.saturating_add(made.bytes);
            }
            let name = format!("storage {} object {index}", made.storage);
            Object {
                persistent: made.persistent,
                ..Object::new(name, kind, Bytes::new(made.bytes))
            }
        };
        self.made.iter().enumerate().map(object).collect()
    }
}

fn meta(path: &Path, account: &Account) -> TraceMeta {
    let name = unpacked_name(path);
    let name = name.trim_end_matches(".tar").trim_end_matches(".json");
    TraceMeta {
        name: name.to_owned(),
        about: format!(
            "Imported from an execution trace of PyTorch: {} objects of {} storages on {}; no times.",
            account.objects.0, account.storages, account.device
        ),
        precision: "recorded".to_owned(),
        batch: 1,
        sequence: 1,
        recorded: Recorded {
            how: format!("ExecutionTraceObserver, schema {}", account.schema),
            when: String::new(),
            on: account.device.clone(),
        },
    }
}
