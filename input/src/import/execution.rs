//! Execution traces of PyTorch: which op read and wrote which storage, in order, without times.
//!
//! `ExecutionTraceObserver` writes one node per op and range. A storage is known by its address, so
//! one number stands for many storages one after the other: each time an op allocates, another
//! object begins. Ops nest, and only the innermost that touches memory counts, or the one that owns
//! kernels.
//! Invariant: every use is one that a node shows; what persists is what is read before it is
//! written.

mod collectives;
pub(super) mod graph;
pub(super) mod nodes;

use crate::import::groups::{Words, listed};
use crate::import::names::{Names, told};
use crate::import::stream::{opened, refused};
use crate::trace::tables::{Findings, ReadBudget};
use nodes::{Node, NodeSeed};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::BufRead;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::Trace;

/// A native trace, and what was seen and left out on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Counts of the file and of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Nodes of the file.
    pub nodes: u64,
    /// Its schema.
    pub schema: String,
    /// Storages by the file's numbers.
    pub storages: u64,
    /// Objects that they are, one after the other, and their bytes.
    pub objects: (u64, u64),
    /// Of these, such that are read before they are written, and their bytes.
    pub persistent: (u64, u64),
    /// Ops of the trace.
    pub ops: u64,
    /// Ops that touch no memory of the device, or leave that to ops within them.
    pub left_out: u64,
    /// Steps.
    pub steps: u64,
    /// The device whose memory counts.
    pub device: String,
    /// Tensors on other devices.
    pub elsewhere: u64,
    /// Products whose FLOPs are known.
    pub products: u64,
    /// Ops that are collectives of several ranks.
    pub collectives: u64,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { nodes, schema, storages, device, ops, left_out, steps, products, .. } = self;
        writeln!(f, "seen: {nodes} nodes (schema {schema}), {storages} storages by address")?;
        writeln!(
            f,
            "  {ops} ops on {device} in {steps} steps; {left_out} nodes that touch nothing"
        )?;
        let ((objects, bytes), (kept, kept_bytes)) = (self.objects, self.persistent);
        writeln!(f, "inferred: {objects} objects of {bytes} bytes, a new one at each allocation")?;
        writeln!(
            f,
            "  {kept} of {kept_bytes} bytes persist: they are read before they are written"
        )?;
        writeln!(f, "  FLOPs of {products} products; bytes of all ops, from their tensors")?;
        if self.collectives > 0 {
            writeln!(
                f,
                "  {} collectives, among as many ranks as their group has",
                self.collectives
            )?;
        }
        if self.elsewhere > 0 {
            writeln!(f, "  {} uses of tensors on other devices, left out", self.elsewhere)?;
        }
        writeln!(
            f,
            "not known: times (use `time: roofline(...)`), and when memory is given back: an"
        )?;
        write!(f, "  object lives to its last use; FLOPs of ops that are no products of matrices")
    }
}

/// One row of an execution trace.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What it says of a collective.
    pub(super) collective: Option<Box<Words>>,
    /// The row that it lies in.
    pub(super) parent: Option<u32>,
    /// Its number in a trace of the profiler.
    pub(super) record_function: i64,
    pub(super) thread: i64,
    pub(super) name: u32,
    /// Its op in the trace that is made.
    pub(super) op: Option<u32>,
}

/// An execution trace, to be joined with what has times.
#[derive(Debug)]
pub(super) struct Tensors {
    pub(super) names: Names,
    /// In the order in which they began.
    pub(super) nodes: Vec<Row>,
    /// What it makes alone.
    pub(super) trace: Trace,
    /// Ranks of groups by their names, where they are listed.
    pub(super) groups: BTreeMap<String, Vec<u32>>,
}

/// Makes a trace of an execution trace, packed or not.
///
/// # Errors
/// What is wrong with the file, with line, column and node, or that it holds no op.
pub fn import_execution(path: &Path) -> Result<Imported, Diagnostics> {
    read(path, None).map(|(imported, ..)| imported)
}

/// The same, row by row; of a file that was opened, if it was, with its length.
///
/// # Errors
/// As [`import_execution`].
pub(super) fn read_tensors(
    path: &Path,
    file: Option<(u64, Box<dyn BufRead>)>,
) -> Result<Tensors, Diagnostics> {
    let (imported, nodes, names, groups) = read(path, file)?;
    Ok(Tensors { names, nodes, trace: imported.trace, groups })
}

/// Ranks of groups by their names.
type Listed = BTreeMap<String, Vec<u32>>;

fn read(
    path: &Path,
    file: Option<(u64, Box<dyn BufRead>)>,
) -> Result<(Imported, Vec<Row>, Names, Listed), Diagnostics> {
    let (text, passed) = opened(path, file)?;
    let mut reading = Reading::default();
    let mut parser = serde_json::Deserializer::from_reader(text);
    let bytes = || passed.bytes.get();
    let result = Document(&mut reading, &bytes).deserialize(&mut parser);
    if let Err(error) = result.and_then(|()| parser.end()) {
        return Err(refused(path, error, &format!("node {}", reading.nodes.len())));
    }
    if !reading.found {
        let rule = "an execution trace of PyTorch has a list `nodes`";
        return Err(Diagnostics::one(path, None, rule, "", "check what the file is"));
    }
    let texts = reading.nodes.iter().filter_map(|node| node.groups.as_deref());
    let listed = texts.flat_map(listed).collect();
    let (imported, rows) = graph::build(path, reading.nodes, &reading.names, reading.schema)?;
    let mut findings = Findings::default();
    findings.unsound(path, &imported.trace);
    if !findings.is_empty() {
        return Err(findings.finish());
    }
    Ok((imported, rows, reading.names, listed))
}

#[derive(Default)]
struct Reading {
    names: Names,
    nodes: Vec<Node>,
    schema: String,
    budget: ReadBudget,
    /// Bytes of text that the budget knows of.
    told: u64,
    found: bool,
}

struct Document<'a>(&'a mut Reading, &'a dyn Fn() -> u64);
struct Nodes<'a>(&'a mut Reading, &'a dyn Fn() -> u64);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an execution trace of PyTorch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "nodes" => map.next_value_seed(Nodes(&mut *self.0, self.1))?,
                "schema" => self.0.schema = told(&map.next_value::<String>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Nodes<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Nodes<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let reading = self.0;
        reading.found = true;
        while let Some(node) = seq.next_element_seed(NodeSeed(&mut reading.names))? {
            let bytes = (self.1)();
            let more = usize::try_from(bytes - reading.told).unwrap_or(usize::MAX);
            reading.told = bytes;
            reading.budget.take(more, node.bytes()).map_err(A::Error::custom)?;
            reading.nodes.push(node);
        }
        Ok(())
    }
}
