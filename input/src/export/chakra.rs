//! A trace as an execution trace of MLCommons Chakra, for simulators that read such files.
//!
//! Ops are nodes that compute, collectives and sends; what the trace itself moves between device
//! and host are loads and stores (`order`). Times are whole microseconds there: each stream is
//! rounded as a whole, so its sum is right. What Chakra has no word for goes into attributes of our
//! own and into nodes that only describe, from which the trace is read back as it was.
//! Invariant: dependencies point to earlier nodes, and no message is longer than readers take.

mod attributes;
mod order;

use crate::import::chakra::said::{self, names, text};
use crate::import::chakra::wire::{Attribute, GlobalMetadata, MOST_MESSAGE, Node, Value, kinds};
use attributes::{of_object, on_host, private, public, small, tensors};
use order::{Move, Order, Placed, Side};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::OpId;
use tiersim_models::workload::{Op, Trace, TraceProblem, Unit};

/// The version of `et_def.proto` that Chakra's own converters write.
const CHAKRA: &str = "0.0.4";

/// Steps of statistics in one node.
const STEPS: usize = 4096;

/// What a file is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All that the trace says: it can be read back.
    Whole,
    /// What Chakra has a word for, and nothing else.
    Plain,
}

/// A file, and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// The file.
    pub bytes: Vec<u8>,
    /// What is in it.
    pub counts: Counts,
}

/// Counts of a file that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes that compute, those of the host among them.
    pub compute: u64,
    /// Of these on the host.
    pub host: u64,
    /// Collectives, but for sends.
    pub collectives: u64,
    /// Sends.
    pub sends: u64,
    /// Loads from the host, and their bytes.
    pub loads: (u64, u128),
    /// Stores to the host, and their bytes.
    pub stores: (u64, u128),
    /// Nodes that describe modules, objects and statistics.
    pub describing: u64,
    /// Data dependencies.
    pub data: u64,
    /// Microseconds of all nodes.
    pub micros: u64,
    /// Nodes that say a duration.
    pub timed: u64,
    /// Groups of ranks by `pg_name`, as ranks within a server x servers.
    pub groups: Vec<(String, String)>,
    /// Ops that use so much that their tensors are left out of the public part.
    pub long: u64,
}

impl Counts {
    /// All nodes.
    pub fn nodes(&self) -> u64 {
        let Counts { compute, collectives, sends, loads, stores, describing, .. } = self;
        compute + collectives + sends + loads.0 + stores.0 + describing
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { compute, host, collectives, sends, loads, stores, describing, .. } = self;
        writeln!(f, "{} nodes: {compute} that compute ({host} on the host),", self.nodes())?;
        writeln!(f, "  {collectives} collectives, {sends} sends, {describing} that describe")?;
        let ((loads, loaded), (stores, stored)) = (loads, stores);
        writeln!(f, "  {loads} loads of {loaded} bytes, {stores} stores of {stored} bytes")?;
        let Counts { data, micros, timed, .. } = self;
        write!(f, "{data} data dependencies; {micros} us in all, on {timed} nodes")?;
        for (name, group) in &self.groups {
            write!(f, "\npg_name {name:?}: {group} ranks (in a server x servers)")?;
        }
        if self.long > 0 {
            write!(f, "\n{} nodes of ops that use very much list no tensors", self.long)?;
        }
        Ok(())
    }
}

/// Writes a trace that was read of `from`.
///
/// # Errors
/// What keeps it from being written so that it can be read: rules that it breaks, no ops, or an op
/// that says more than a message holds.
pub fn export_chakra(trace: &Trace, from: &Path, detail: Detail) -> Result<Exported, Diagnostics> {
    let mut problems = Diagnostics::default();
    for TraceProblem { table, row, found, remedy } in trace.problems() {
        problems.push(from, None, format!("{table}, row {row}: {found}"), "", remedy);
    }
    if problems.0.is_empty() && trace.ops.is_empty() {
        let remedy = "take a trace that has ops";
        problems.push(from, None, "a Chakra trace has nodes, and this trace has no op", "", remedy);
    }
    if !problems.0.is_empty() {
        return Err(problems);
    }
    let mut writing = Writing {
        trace,
        detail,
        groups: groups(trace),
        elapsed: BTreeMap::new(),
        exported: Exported { bytes: Vec::new(), counts: Counts::default() },
        next: 1,
    };
    let told = |rule: String| {
        let remedy = "split what says so much, or leave it out of the trace";
        Diagnostics::one(from, None, rule, "", remedy)
    };
    writing.all().map_err(told)?;
    Ok(writing.exported)
}

/// Numbers of the groups of a trace: 0, which is all ranks to readers, if there is one group only.
fn groups(trace: &Trace) -> BTreeMap<(u32, u32), String> {
    let group = |op: &Op| match op.unit {
        Unit::Network(Collective { within, servers, .. }) => Some(((within, servers), 0)),
        _ => None,
    };
    let all: BTreeMap<(u32, u32), u8> = trace.ops.iter().filter_map(group).collect();
    let first = usize::from(all.len() > 1);
    all.into_keys().zip(first..).map(|(group, number)| (group, number.to_string())).collect()
}

/// A file on its way.
struct Writing<'a> {
    trace: &'a Trace,
    detail: Detail,
    groups: BTreeMap<(u32, u32), String>,
    /// By stream the picoseconds so far.
    elapsed: BTreeMap<u16, u64>,
    exported: Exported,
    /// The number of the next node that describes.
    next: u64,
}

impl Writing<'_> {
    fn all(&mut self) -> Result<(), String> {
        let groups = self.groups.iter();
        let groups =
            groups.map(|((within, servers), name)| (name.clone(), format!("{within}x{servers}")));
        self.exported.counts.groups = groups.collect();
        self.push(&self.head(), || "the description of the trace".to_owned())?;
        if self.detail == Detail::Whole {
            self.describe()?;
        }
        let mut order = Order::new(self.trace, self.next);
        for id in 0..self.trace.ops.len() {
            let Placed { moves, node, after } = order.place();
            for one in &moves {
                let moved = self.moved(one);
                self.push(&moved, || format!("node {}", one.node))?;
            }
            self.op(OpId::at(id), node, after)?;
        }
        Ok(())
    }

    /// Writes a message behind its length.
    fn push(&mut self, message: &impl Message, what: impl Fn() -> String) -> Result<(), String> {
        if message.encoded_len() as u64 > MOST_MESSAGE {
            return Err(format!("{} is longer than 1 MiB, which readers refuse", what()));
        }
        // Growing a buffer does not fail.
        let _ = message.encode_length_delimited(&mut self.exported.bytes);
        Ok(())
    }

    fn head(&self) -> GlobalMetadata {
        let Trace { meta, modules, objects, ops, .. } = self.trace;
        let mut attr = Vec::new();
        if !meta.recorded.when.is_empty() {
            attr.push(text("time", &meta.recorded.when));
        }
        if self.detail == Detail::Whole {
            let count = |name, number| Attribute::new(name, Value::Uint32(number));
            let large = |name, number| Attribute::new(name, Value::Uint64(number));
            let rows: usize =
                objects.iter().filter_map(|one| Some(one.history.as_ref()?.len())).sum();
            attr.extend([
                count(names::SCHEMA, said::VERSION),
                text(names::NAME, &meta.name),
                text(names::ABOUT, &meta.about),
                text(names::PRECISION, &meta.precision),
                count(names::BATCH, meta.batch),
                count(names::SEQUENCE, meta.sequence),
                text(names::HOW, &meta.recorded.how),
                text(names::WHEN, &meta.recorded.when),
                text(names::ON, &meta.recorded.on),
                large(names::MODULES, modules.len() as u64),
                large(names::OBJECTS, objects.len() as u64),
                large(names::OPS, ops.len() as u64),
                large(names::STATISTICS_ROWS, rows as u64),
            ]);
        }
        GlobalMetadata { version: CHAKRA.to_owned(), attr }
    }

    /// Writes nodes for modules, objects and their statistics.
    fn describe(&mut self) -> Result<(), String> {
        let Trace { modules, objects, .. } = self.trace;
        for (id, name) in modules.iter().enumerate() {
            self.described(name, vec![small(names::MODULE_ID, id)])?;
        }
        for (id, object) in objects.iter().enumerate() {
            self.described(&object.name, of_object(id, object))?;
        }
        for (id, object) in objects.iter().enumerate() {
            for steps in object.history.iter().flat_map(|history| history.chunks(STEPS)) {
                let steps = text(names::STATISTICS, said::statistics_text(steps));
                let name = format!("statistics of object {id}");
                self.described(&name, vec![small(names::STATISTICS_OF, id), steps])?;
            }
        }
        Ok(())
    }

    fn described(&mut self, name: &str, attr: Vec<Attribute>) -> Result<(), String> {
        let (id, name, kind) = (self.next, name.to_owned(), kinds::METADATA);
        self.next += 1;
        self.exported.counts.describing += 1;
        self.push(&Node { id, name, kind, attr, ..Node::default() }, || format!("node {id}"))
    }

    /// An object that is copied between device and host.
    fn moved(&mut self, one: &Move) -> Node {
        let object = &self.trace.objects[one.object.index()];
        let counts = &mut self.exported.counts;
        let (kind, word, sum) = match one.to {
            Side::Device => (kinds::LOAD, "load", &mut counts.loads),
            Side::Host => (kinds::STORE, "store", &mut counts.stores),
        };
        *sum = (sum.0 + 1, sum.1 + u128::from(object.bytes.get()));
        counts.data += one.after.len() as u64;
        let size = Value::Uint64(object.bytes.get());
        let mut attr = vec![on_host(false), Attribute::new("tensor_size", size)];
        if self.detail == Detail::Whole {
            attr.push(small(names::MOVE_OF, one.object.index()));
        }
        Node {
            id: one.node,
            name: format!("{word} {}", object.name),
            kind,
            data_deps: one.after.clone(),
            attr,
            ..Node::default()
        }
    }

    fn op(&mut self, id: OpId, node: u64, after: Vec<u64>) -> Result<(), String> {
        let trace = self.trace;
        let op = &trace.ops[id.index()];
        let micros = self.micros(op);
        let counts = &mut self.exported.counts;
        counts.data += after.len() as u64;
        counts.micros += micros;
        counts.timed += u64::from(micros > 0);
        let (kind, host) = match op.unit {
            Unit::Network(of) if of.kind == CollectiveKind::SendRecv => (kinds::SEND, false),
            Unit::Network(_) => (kinds::COLLECTIVE, false),
            Unit::Cpu => (kinds::COMPUTE, true),
            // What took its time was not the device; what is priced as its work is like it.
            Unit::Idle => (kinds::COMPUTE, op.duration.is_some()),
            Unit::Device => (kinds::COMPUTE, false),
        };
        let sum = match kind {
            kinds::SEND => &mut counts.sends,
            kinds::COLLECTIVE => &mut counts.collectives,
            _ => &mut counts.compute,
        };
        *sum += 1;
        counts.host += u64::from(host);
        let mut attr = public(op, host, &self.groups);
        if self.detail == Detail::Whole {
            attr.extend(private(trace, id, micros));
        }
        let start = op.at.or(op.release).map_or(0, |time| time.ps() / 1_000_000);
        let (inputs, outputs) = tensors(trace, id, Side::of(op.unit));
        let mut made = Node {
            id: node,
            name: op.name.to_string(),
            kind,
            ctrl_deps: Vec::new(),
            data_deps: after,
            start_time_micros: start,
            duration_micros: micros,
            inputs,
            outputs,
            attr,
        };
        if made.encoded_len() as u64 > MOST_MESSAGE {
            self.exported.counts.long += 1;
            (made.inputs, made.outputs) = (None, None);
        }
        self.push(&made, || format!("the node of op {}, with all that it uses,", id.0))
    }

    /// Whole microseconds of an op: what the stream has taken by its end, rounded, less what it had
    /// by its beginning.
    fn micros(&mut self, op: &Op) -> u64 {
        let round = |ps: u64| u64::try_from((u128::from(ps) + 500_000) / 1_000_000).unwrap_or(0);
        let elapsed = self.elapsed.entry(op.stream).or_default();
        let before = round(*elapsed);
        // A trace's durations sum to less than 2^64.
        *elapsed += op.duration.map_or(0, |span| span.ps());
        round(*elapsed) - before
    }
}
