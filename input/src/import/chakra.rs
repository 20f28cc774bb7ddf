//! Execution traces of MLCommons Chakra: nodes with durations, what they wait for, and what goes
//! over the network.
//!
//! A file is a stream of protobuf messages, or of such as JSON, read one at a time. Data
//! dependencies are the order, as they are to simulators that read such files; who started whom
//! (control dependencies) counts where it does not contradict them. Tensors are known where
//! PyTorch's converter wrote them.
//! What `tiersim trace export` wrote is the trace that it was (`own`), nothing is inferred.
//! Invariant: of a file of others each node is one op, with the time that the file says.

mod build;
#[cfg(not(target_family = "wasm"))]
mod json;
mod literal;
mod order;
mod own;
mod row;
pub(crate) mod said;
pub(crate) mod wire;

use crate::import::names::Names;
use crate::import::stream::MOST_TEXT;
use crate::trace::tables::{Findings, LIMITS, Limits, ReadBudget, describe, unpacked_by_magic};
use own::Own;
use row::Row;
use std::fmt;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::workload::{Gaps, Trace};
pub(crate) use wire::is_chakra;
use wire::{Broken, Messages, Nodes, Said};

/// A native trace, and what was seen, inferred and assumed on the way to it.
pub type Imported = crate::import::imported::Imported<Account>;

/// Counts of the file and of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Nodes of the file: what the host does, what the device computes, loads and stores, what
    /// goes over the network, and what only describes.
    pub nodes: u64,
    /// Of these on the host.
    pub host: u64,
    /// Loads and stores.
    pub memory: u64,
    /// Collectives, sends and receipts on the device.
    pub network: u64,
    /// Of these such that are collectives of the trace.
    pub collectives: u64,
    /// Of these such whose ranks are assumed.
    pub assumed: u64,
    /// Schema of what it was converted from, or its version.
    pub schema: String,
    /// When it was recorded.
    pub when: String,
    /// Data and control dependencies.
    pub data: u64,
    /// Control dependencies.
    pub control: u64,
    /// Control dependencies that data dependencies contradict.
    pub contradicted: u64,
    /// Dependencies on nodes that are not in the file.
    pub missing: u64,
    /// Microseconds of all nodes.
    pub micros: u64,
    /// Nodes that say a duration.
    pub timed: u64,
    /// Lists of tensors that could not be read.
    pub unread: u64,
    /// Sizes that are no number of bytes.
    pub sizeless: u64,
    /// Objects and their bytes.
    pub objects: (u64, u64),
    /// Of these, such as persist.
    pub persistent: (u64, u64),
    /// The device whose memory counts.
    pub device: String,
    /// Whether tiersim wrote it, so that nothing was inferred.
    pub own: bool,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { nodes, host, memory, network, schema, data, control, .. } = self;
        if self.own {
            writeln!(f, "seen: {nodes} nodes that tiersim wrote; {} us in all, of", self.micros)?;
            writeln!(f, "  {} nodes; {data} data and {control} control dependencies", self.timed)?;
            writeln!(f, "kept: every op, object and use as it was, and nothing is inferred;")?;
            return write!(f, "  {memory} loads and stores are left out, which policies decide on");
        }
        writeln!(f, "seen: {nodes} nodes (schema {schema}), {host} of them on the host, {memory}")?;
        writeln!(f, "  loads and stores, {network} on the network; {} us in all, of", self.micros)?;
        writeln!(f, "  {} nodes; {data} data and {control} control dependencies", self.timed)?;
        let ((objects, bytes), (kept, kept_bytes)) = (self.objects, self.persistent);
        writeln!(f, "inferred: {objects} objects of {bytes} bytes on {}; of", self.device)?;
        writeln!(f, "  these {kept} of {kept_bytes} bytes persist, read before they are written")?;
        if self.contradicted + self.missing > 0 {
            let Account { contradicted, missing, .. } = self;
            writeln!(
                f,
                "left out: {missing} dependencies on nodes that are not there, {contradicted}"
            )?;
            writeln!(f, "  control dependencies that data dependencies contradict")?;
        }
        for (count, what) in [
            (self.unread, "lists of tensors that are none"),
            (self.sizeless, "sizes that are no number of bytes"),
        ] {
            if count > 0 {
                writeln!(f, "left out: {count} {what}")?;
            }
        }
        let own = network - self.collectives;
        if own > 0 {
            writeln!(f, "assumed: {own} ops on the network take the time that the file says, for")?;
            writeln!(f, "  it does not say among how many ranks")?;
        }
        if self.assumed > 0 {
            writeln!(f, "assumed: {} collectives are of 2 ranks of one server", self.assumed)?;
        }
        writeln!(f, "not known: when the host was late (nodes start as soon as they can), when")?;
        write!(f, "  memory is given back (an object lives to its last use), where steps end")
    }
}

/// Makes a trace of a Chakra trace, packed or not.
///
/// # Errors
/// What is wrong with the file, with the place in bytes.
pub fn import_chakra(path: &Path, gaps: Gaps) -> Result<Imported, Diagnostics> {
    let limits = Limits { expanded: MOST_TEXT, ..LIMITS };
    let (from, most) = unpacked_by_magic(path, limits)?;
    let mut messages = messages(path, from, most)?;
    let mut account = Account::default();
    let trace = match read(&mut *messages, gaps, &mut account) {
        Ok(Content::Rows(rows, names)) => build::build(path, rows, &names, gaps, &mut account)?,
        Ok(Content::Own(trace)) => trace,
        Err(broken) => return Err(refused(path, broken, &*messages)),
    };
    let mut findings = Findings::default();
    findings.unsound(path, &trace);
    findings.finish().into_result(Imported { trace, account })
}

/// The messages of a file, as protobuf or as JSON.
fn messages<'a>(
    path: &Path,
    mut from: impl Read + 'a,
    most: u64,
) -> Result<Box<dyn Nodes + 'a>, Diagnostics> {
    let mut head = Vec::new();
    let read = from.by_ref().take(HEAD).read_to_end(&mut head);
    read.map_err(|error| describe(path, &error))?;
    let whole = Cursor::new(head.clone()).chain(from);
    let from = BufReader::with_capacity(1 << 16, whole);
    // Pages of the simulator read none, and are smaller without.
    #[cfg(not(target_family = "wasm"))]
    if begins_json(&head) {
        return Ok(Box::new(json::Objects::new(&head, from, most)));
    }
    Ok(Box::new(Messages::new(from, most)))
}

/// So many bytes tell in which form a file is.
const HEAD: u64 = 8192;

/// Whether a file begins as an object of JSON does: `{` and a new line would be the length of a
/// message and its first field, too.
pub(crate) fn begins_json(head: &[u8]) -> bool {
    let within = head.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    within.is_some_and(|rest| matches!(rest, [b'"' | b'}', ..]))
}

/// Whether JSON begins as a trace of Chakra does.
pub(crate) fn is_chakra_json(text: &str) -> bool {
    #[cfg(not(target_family = "wasm"))]
    return json::is_chakra_json(text);
    #[cfg(target_family = "wasm")]
    return text.is_empty();
}

/// What a file may break beside the form of messages.
enum Refused {
    Broken(Broken),
    Rule(String),
    /// A rule of files that tiersim wrote.
    Own(String),
}

impl From<Broken> for Refused {
    fn from(broken: Broken) -> Refused {
        Refused::Broken(broken)
    }
}

/// What was read of a file.
enum Content {
    /// Nodes, of which a trace is to be made.
    Rows(Vec<Row>, Names),
    /// The trace itself.
    Own(Trace),
}

fn read(messages: &mut dyn Nodes, gaps: Gaps, account: &mut Account) -> Result<Content, Refused> {
    let (mut names, mut budget) = (Names::default(), ReadBudget::default());
    let Some((head, length)) = messages.head()? else {
        return Err(Refused::Rule("a Chakra trace begins with a description of itself".into()));
    };
    budget.take(length, 0).map_err(Refused::Rule)?;
    let said = Said(&head.attr);
    // Shortened as names are, for it stands in the trace.
    let mut text = |name: &str| said.text(name).map(|text| names.kept(text)).unwrap_or_default();
    (account.schema, account.when) = (text("schema"), text("time"));
    if account.schema.is_empty() {
        let said = if head.version.is_empty() { "not said" } else { &head.version };
        account.schema = names.kept(said);
    }
    if let Some(mut own) = Own::of(&head, gaps).map_err(Refused::Own)? {
        while let Some((node, length)) = messages.node()? {
            let bytes = own.node(&node, account).map_err(Refused::Own)?;
            budget.take(length, bytes).map_err(Refused::Rule)?;
        }
        return own.finish(account).map(Content::Own).map_err(Refused::Own);
    }
    let mut rows = Vec::new();
    while let Some((node, length)) = messages.node()? {
        let (row, bytes) = Row::new(&node, &mut names, account).map_err(Refused::Rule)?;
        budget.take(length, bytes).map_err(Refused::Rule)?;
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(Refused::Rule("a Chakra trace has nodes".into()));
    }
    rows.shrink_to_fit();
    Ok(Content::Rows(rows, names))
}

fn refused(path: &Path, refused: Refused, messages: &dyn Nodes) -> Diagnostics {
    let found = messages.place();
    let one = |rule: String, remedy| Diagnostics::one(path, None, rule, found.clone(), remedy);
    match refused {
        Refused::Rule(rule) => one(rule, "check what wrote the file"),
        Refused::Own(rule) => one(
            rule,
            "export the trace again, or take tiersim_schema out of the head: the file is then read \
             as one of another program",
        ),
        Refused::Broken(Broken::Rule(rule)) => {
            one(rule.into(), "copy the file again, or check what wrote it")
        }
        Refused::Broken(Broken::Message(error)) => {
            let rule = format!("a message is not as et_def.proto has it: {error}");
            one(rule, "convert the trace again with a Chakra of 2023 or later")
        }
        Refused::Broken(Broken::Form(error)) => {
            let rule = format!("a node is not as et_def.proto has it: {error}");
            one(rule, "write the file again with `chakra_jsonizer`, or take the protobuf itself")
        }
        Refused::Broken(Broken::Io(error)) => describe(path, &error),
    }
}
