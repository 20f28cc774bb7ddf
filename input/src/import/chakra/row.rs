//! What is kept of a node.
//!
//! Invariant: what a node says in several ways (a field, or attributes of any type) is one value.

use super::Account;
use super::literal::json;
use super::wire::{self, Values as Literal, kinds};
use crate::import::execution::graph::ALLOCATE;
use crate::import::execution::nodes::{Node, Tensor, Values, changed};
use crate::import::names::Names;
use tiersim_models::collective::CollectiveKind;
use tiersim_models::ids::OpId;
use tiersim_models::workload::Op;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// It only describes, or runs on the host.
    Host,
    Compute,
    Load,
    Store,
    /// With what is known of it: the pattern, and the ranks of the group.
    Network(Option<CollectiveKind>, Option<u32>),
}

/// A node.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: u32,
    /// Its tensors and what it changes of them, if it has any that count; most have none.
    pub(super) node: Option<Box<Node>>,
    pub(super) id: u64,
    pub(super) work: Work,
    /// Thread of the host or stream of the device, if it is said.
    pub(super) thread: Option<u64>,
    pub(super) micros: u64,
    pub(super) flops: u64,
    /// Bytes that it moves, as it says itself.
    pub(super) size: u64,
    pub(super) backward: bool,
    pub(super) optimizer: bool,
    pub(super) data: Box<[u64]>,
    pub(super) control: Box<[u64]>,
}

/// Durations of more than this are no microseconds: 203 days, and 2^64 ps are 213.
const MOST_MICROS: u64 = 1 << 44;

/// What lists of a node and of its op take beside what is in them, its places in both orders, and what
/// sorting takes.
const ROW_BYTES: usize = 64;

/// What names of an optimizer's ops begin with.
const OPTIMIZER: [&str; 3] = ["Optimizer.step#", "aten::_foreach_", "aten::_fused_"];

impl Row {
    /// Keeps what is used of a node; about how many bytes that takes, and what is made of it.
    ///
    /// # Errors
    /// A rule that it breaks.
    pub(super) fn new(
        from: &wire::Node,
        names: &mut Names,
        account: &mut Account,
    ) -> Result<(Row, usize), String> {
        let (work, micros) = counted(from, account)?;
        let (name, named) = names.id(&from.name);
        let node = tensors(from, work, names, account);
        let node = node.map(|node| Box::new(Node { name, ..node }));
        let size_of = match work {
            Work::Network(..) => "comm_size",
            _ => "tensor_size",
        };
        let size = from.number(size_of);
        account.sizeless += u64::from(size.is_none() && from.said().value(size_of).is_some());
        let given = |name: &str| from.number(name).is_some_and(|number| number > 0);
        let row = Row {
            name,
            node,
            id: from.id,
            work,
            thread: from.number("tid"),
            micros,
            flops: from.number("num_ops").unwrap_or(0),
            size: size.unwrap_or(0),
            backward: from.name.contains("ackward") || given("fw_parent") || given("fw_tid"),
            optimizer: OPTIMIZER.iter().any(|begin| from.name.starts_with(begin)),
            data: from.data_deps.as_slice().into(),
            control: from.ctrl_deps.as_slice().into(),
        };
        let bytes = row.bytes() + named + names.get(name).len();
        Ok((row, bytes))
    }

    /// About what it takes in memory beside its name, and what is made of it: an op, what that waits
    /// for, and its place in the order.
    fn bytes(&self) -> usize {
        let node =
            self.node.as_ref().map_or(0, |node| 2 * size_of::<Node>() + node.tensors_bytes());
        let made = size_of::<Op>() + size_of::<Vec<OpId>>() + ROW_BYTES;
        size_of::<Row>() + made + node + 28 * (self.data.len() + self.control.len())
    }
}

/// Counts a node; what it does, and for how many microseconds.
///
/// # Errors
/// A rule that it breaks.
pub(super) fn counted(from: &wire::Node, account: &mut Account) -> Result<(Work, u64), String> {
    account.nodes += 1;
    account.data += from.data_deps.len() as u64;
    account.control += from.ctrl_deps.len() as u64;
    let micros = match (from.duration_micros, from.said().value("runtime")) {
        (0, Some(_)) => from.number("runtime").ok_or_else(|| {
            format!(
                "a node takes 0 to 2^44 us; node {} says a runtime that is none of these",
                from.id
            )
        })?,
        (micros, _) => micros,
    };
    if micros > MOST_MICROS {
        return Err(format!("a node takes at most 2^44 us; node {} says {micros}", from.id));
    }
    account.timed += u64::from(micros > 0);
    account.micros = account.micros.saturating_add(micros);
    let work = work(from)?;
    account.host += u64::from(work == Work::Host && from.kind != kinds::METADATA);
    account.memory += u64::from(matches!(work, Work::Load | Work::Store));
    account.network += u64::from(matches!(work, Work::Network(..)));
    Ok((work, micros))
}

fn work(from: &wire::Node) -> Result<Work, String> {
    let on_host = from.number("is_cpu_op").is_some_and(|yes| yes > 0);
    Ok(match from.kind {
        kinds::INVALID | kinds::METADATA => Work::Host,
        kinds::STORAGE..=kinds::CHECKPOINT => Work::Host,
        kinds::LOAD => Work::Load,
        kinds::STORE => Work::Store,
        _ if on_host => Work::Host,
        kinds::COMPUTE => Work::Compute,
        kinds::SEND | kinds::RECEIVE => Work::Network(Some(CollectiveKind::SendRecv), Some(2)),
        kinds::COLLECTIVE => {
            let ranks = from.number("group_size").and_then(|ranks| u32::try_from(ranks).ok());
            Work::Network(from.number("comm_type").and_then(pattern), ranks.filter(|&n| n > 0))
        }
        kind => {
            let id = from.id;
            return Err(format!("the kind of a node is 0 to 10; node {id} says {kind}"));
        }
    })
}

/// `CollectiveCommType`. What gathers, scatters or sums in one place sends as much over each joint
/// of a ring as a broadcast; a barrier sends nothing.
pub(super) fn pattern(kind: u64) -> Option<CollectiveKind> {
    Some(match kind {
        0 => CollectiveKind::AllReduce,
        2 => CollectiveKind::AllGather,
        1 | 3 | 4 | 5 => CollectiveKind::Broadcast,
        6 => CollectiveKind::AllToAll,
        7 | 8 => CollectiveKind::ReduceScatter,
        _ => return None,
    })
}

/// The tensors of a node of the device, or of one that allocates on the host's behalf.
fn tensors(
    from: &wire::Node,
    work: Work,
    names: &mut Names,
    account: &mut Account,
) -> Option<Node> {
    let allocates = ALLOCATE.contains(&plain(&from.name));
    if work == Work::Host && !allocates {
        return None;
    }
    let schema = from.said().text("op_schema").unwrap_or_default();
    let mut node = Node { changed: changed(schema, &from.name), ..Node::default() };
    if work != Work::Host {
        read(from.inputs.as_ref(), &mut node.inputs, names, account);
    }
    read(from.outputs.as_ref(), &mut node.outputs, names, account);
    (!node.inputs.is_empty() || !node.outputs.is_empty()).then_some(node)
}

/// A name without the number that the converter appends to parts of an op: `aten::empty(0)`.
pub(super) fn plain(name: &str) -> &str {
    name.rsplit_once('(').map_or(name, |(plain, _)| plain)
}

fn read(from: Option<&Literal>, out: &mut Vec<Tensor>, names: &mut Names, account: &mut Account) {
    let Some(text) = from.map(|from| from.values.as_str()).filter(|text| !text.is_empty()) else {
        return;
    };
    let text = json(text);
    let mut parser = serde_json::Deserializer::from_str(&text);
    if Values::new(names, out).element(&mut parser).is_err() {
        out.clear();
        account.unread += 1;
    }
}
