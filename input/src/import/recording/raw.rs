//! The files of a recording, as they are.
//!
//! Only what the importer needs is read; other keys of the JSON files are ignored, since recorders
//! write whatever describes their run.
//! Invariant: in a [`Recording`] every id of an op is a row of `objects`, every element type has a
//! size, and every parameter, gradient and optimizer state has an owner.

use super::adam::{self, Adam, Known, beta2};
use super::words::{element_type, short_name};
use crate::json::{self, Lines};
use crate::trace::rows::{Row, read_table, whole_number};
use crate::trace::tables::{Findings, LIMITS, ReadBudget, Source, describe, regular_file};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::workload::Phase;

const REMEDY: &str = "write what the recorder writes";
const MAX_RUN_BYTES: u64 = 1 << 20;
/// Bytes that an object, what is made of it if an op uses it, an op and a storage that an op names
/// take at most, texts apart, while the trace is made of them; the tests of hostile files hold
/// these numbers against what is taken.
const OBJECT_BYTES: usize = 160;
const USED_BYTES: usize = 280;
const OP_BYTES: usize = 500;
const USE_BYTES: usize = 24;
/// The same of a row of the parameters and of their statistics.
const PARAM_BYTES: usize = 150;
const ADAM_BYTES: usize = 300;

/// A recording in memory.
pub(super) struct Recording {
    pub(super) run: Run,
    pub(super) ops_file: PathBuf,
    pub(super) ops: Vec<RawOp>,
    pub(super) objects: Vec<RawObject>,
}

/// What `run.json` says of the run.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Run {
    pub(super) batch: u32,
    pub(super) seq: u32,
    pub(super) dtype: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) date: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) optimizer: String,
    #[serde(default)]
    pub(super) device: String,
    #[serde(default)]
    pub(super) torch: String,
    #[serde(default)]
    pub(super) cpu: Vec<String>,
    #[serde(default)]
    pub(super) threads: u32,
}

/// One row of `ops.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct RawOp {
    /// Its position.
    pub(super) i: u64,
    pub(super) step: u32,
    #[serde(rename = "ph", deserialize_with = "phase")]
    pub(super) phase: Phase,
    pub(super) op: String,
    /// Right for forward ops only: the recorder's hooks do not follow the backward pass.
    #[serde(rename = "mod", default)]
    pub(super) module: String,
    /// Start in wall ns.
    pub(super) t: u64,
    /// CPU time in ns.
    pub(super) c: u64,
    pub(super) view: u8,
    /// Storages in the order of the arguments, repeated where an op has several views of one.
    pub(super) r: Vec<u32>,
    pub(super) w: Vec<u32>,
}

/// What the recorder says an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawKind {
    Param,
    Grad,
    OptState,
    Input,
    Buffer,
    Tmp,
    Kv,
}

/// One row of `objects.csv`.
#[derive(Debug)]
pub(super) struct RawObject {
    pub(super) bytes: u64,
    pub(super) kind: RawKind,
    /// For gradients and optimizer state it begins with the parameter's name.
    pub(super) name: String,
    /// Of the element types of PyTorch.
    pub(super) dtype: &'static str,
    pub(super) element_bytes: u64,
    pub(super) shape: Vec<u64>,
    /// Freed before this op.
    pub(super) death: Option<u64>,
    /// The module that owns the parameter behind it.
    pub(super) owner: Option<Rc<str>>,
    /// Boxed, for few objects have some.
    pub(super) statistics: Option<Box<Known>>,
}

impl RawObject {
    /// How many elements the storage has.
    pub(super) fn elements(&self) -> u64 {
        self.bytes / self.element_bytes
    }
}

const OBJECT_COLUMNS: &str = "id bytes kind name dtype shape birth_op? last_use_op? death_op";
const PARAM_COLUMNS: &str = "param module shape? numel? bytes?";
const ADAM_COLUMNS: &str = "step param module? numel? mean_abs_exp_avg mean_exp_avg_sq? \
                            mean_sqrt_exp_avg_sq mean_abs_param?";

/// Reads a recording, or says everything that is wrong with its files.
pub(super) fn read(folder: &Path) -> Result<Recording, Diagnostics> {
    let (budget, findings) = (ReadBudget::default(), Findings::default());
    let mut reader = Reader { folder, budget, findings };
    let described = folder.join("run.json").symlink_metadata().is_ok();
    let run = described.then(|| read_run(folder).map_err(|said| reader.findings.extend(said)));
    let owners = reader.params();
    let optimizer = run.as_ref().and_then(|run| Some(run.as_ref().ok()?.optimizer.as_str()));
    let statistics = reader.adam(optimizer.and_then(beta2));
    let objects = reader.objects(&owners, &statistics);
    let (ops_file, ops) = reader.ops(objects.len());
    let Reader { mut budget, mut findings, .. } = reader;
    let mut used = vec![false; objects.len()];
    let named = ops.iter().flat_map(|op| op.r.iter().chain(&op.w));
    named.for_each(|&id| used.get_mut(id as usize).into_iter().for_each(|used| *used = true));
    let used = used.into_iter().filter(|used| *used).count();
    if let Err(rule) = budget.take(0, used * USED_BYTES) {
        findings.push(&ops_file, None, rule, "more", "record fewer steps");
    }
    let run = run.unwrap_or_else(|| {
        run_of(folder, &ops, &objects).ok_or_else(|| {
            let rule = "without `run.json` the first `embedding` says batch and sequence";
            findings.push(folder, None, rule, "none with tokens of two dimensions", "add run.json");
        })
    });
    let problems = findings.finish();
    match run {
        Ok(run) => problems.into_result(Recording { run, ops_file, ops, objects }),
        Err(()) => Err(problems),
    }
}

fn read_run(folder: &Path) -> Result<Run, Diagnostics> {
    let path = folder.join("run.json");
    regular_file(&path, MAX_RUN_BYTES)?;
    let text = std::fs::read_to_string(&path).map_err(|error| describe(&path, &error))?;
    let mut run: Run =
        serde_json::from_str(&text).map_err(|error| json::problem(&path, 1, &error, REMEDY))?;
    if run.name.is_empty() {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        run.name = name.unwrap_or_else(|| "recording".into());
    }
    Ok(run)
}

/// Whether there is such a table, packed or not.
fn is_there(folder: &Path, table: &str) -> bool {
    let there = |end: &str| folder.join(format!("{table}{end}")).symlink_metadata().is_ok();
    ["", ".gz", ".zst"].into_iter().any(there)
}

/// What the recording itself says of a run that no `run.json` describes: the element type of most
/// of the parameters' bytes, and the shape of the first tokens that are looked up.
fn run_of(folder: &Path, ops: &[RawOp], objects: &[RawObject]) -> Option<Run> {
    let look_up = ops.iter().find(|op| short_name(&op.op) == "embedding")?;
    let &[.., tokens] = &look_up.r[..] else { return None };
    let &[batch, sequence] = &objects.get(tokens as usize)?.shape[..] else { return None };
    let decodes = ops.iter().any(|op| op.phase == Phase::Decode);
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    for object in objects.iter().filter(|object| object.kind == RawKind::Param) {
        *types.entry(object.dtype).or_default() += object.bytes;
    }
    let (dtype, _) = types.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    Some(Run {
        batch: u32::try_from(batch).ok()?,
        // A step of generation makes one token per sequence.
        seq: if decodes { 1 } else { u32::try_from(sequence).ok()? },
        dtype: dtype.to_owned(),
        name: folder.file_name()?.to_string_lossy().into_owned(),
        ..Run::default()
    })
}

/// The tables of a recording as they are read.
struct Reader<'f> {
    folder: &'f Path,
    budget: ReadBudget,
    findings: Findings,
}

impl Reader<'_> {
    /// Reads a table; `each` gets its rows and what these may take in memory.
    fn table(
        &mut self,
        name: &str,
        columns: &'static str,
        mut each: impl FnMut(&mut Row<'_>, &mut ReadBudget),
    ) {
        let (source, budget) = (Source::open(self.folder, name, true, LIMITS), &mut self.budget);
        read_table(source, columns, &mut self.findings, |row| each(row, budget));
    }

    fn params(&mut self) -> BTreeMap<String, Rc<str>> {
        let mut owners = BTreeMap::new();
        if !is_there(self.folder, "params.csv") {
            return owners;
        }
        self.table("params.csv", PARAM_COLUMNS, |row, budget| {
            let (param, module) = (row.name("param").to_string(), row.name("module"));
            if !row.fits(budget, PARAM_BYTES + param.len() + module.len()) {
                return;
            }
            if owners.insert(param, Rc::from(module.as_str())).is_some() {
                let found = row.text("param").to_owned();
                row.problem("a parameter is listed once", found, "remove one of the rows");
            }
        });
        owners
    }

    /// The statistics of the steps in the file, by parameter.
    fn adam(&mut self, beta2: Option<f64>) -> BTreeMap<String, Known> {
        let mut adam = Adam::default();
        if is_there(self.folder, "adam_state.csv") {
            self.table("adam_state.csv", ADAM_COLUMNS, |row, budget| {
                let (step, param): (u32, String) = (row.whole("step"), row.name("param").into());
                let read = adam::Row {
                    adam_m: row.real_or_none("mean_abs_exp_avg"),
                    adam_v: row.real_or_none("mean_sqrt_exp_avg_sq"),
                    second: row.real_or_none("mean_exp_avg_sq"),
                    elements: row.whole_or_none("numel"),
                };
                if row.fits(budget, ADAM_BYTES + param.len()) {
                    adam.steps.entry(step).or_default().insert(param, read);
                }
            });
        }
        adam.known(beta2)
    }

    fn objects(
        &mut self,
        owners: &BTreeMap<String, Rc<str>>,
        statistics: &BTreeMap<String, Known>,
    ) -> Vec<RawObject> {
        let mut objects = Vec::new();
        self.table("objects.csv", OBJECT_COLUMNS, |row, budget| {
            let object = read_object(row, owners, statistics);
            let owner = object.owner.as_ref().filter(|_| owners.is_empty());
            let texts = 2 * object.name.len() + owner.map_or(0, |owner| owner.len());
            if row.fits(budget, OBJECT_BYTES + texts + object.shape.len() * size_of::<u64>()) {
                objects.push(object);
            }
        });
        objects
    }

    fn ops(&mut self, objects: usize) -> (PathBuf, Vec<RawOp>) {
        let (mut ops, findings) = (Vec::<RawOp>::new(), &mut self.findings);
        let mut lines = match Source::open(self.folder, "ops.jsonl", false, LIMITS) {
            Ok(source) => Lines::<RawOp>::of(source, REMEDY),
            Err(problems) => {
                findings.extend(problems);
                return (self.folder.join("ops.jsonl"), ops);
            }
        };
        while let Some((op, length)) = lines.next(u64::MAX, findings) {
            let (path, index) = (&lines.path, lines.count - 1);
            let place = Some(Place { line: lines.count, column: 0 });
            if op.i != index {
                let rule = format!("op {index} comes next");
                findings.push(path, place, rule, op.i.to_string(), "keep every row, in order");
            }
            if let Some(bad) = op.r.iter().chain(&op.w).find(|id| **id as usize >= objects) {
                let rule = format!("storages are rows of objects.csv, which has {objects}");
                findings.push(path, place, rule, bad.to_string(), "add the object");
            }
            let live = OP_BYTES
                + 2 * op.op.len()
                + op.module.len()
                + USE_BYTES * (op.r.len() + op.w.len());
            if let Err(rule) = self.budget.take(length, live) {
                findings.push(path, place, rule, "more", "record fewer steps");
                break;
            }
            ops.push(op);
            if lines.count == u64::from(u32::MAX) {
                break;
            }
        }
        (lines.path, ops)
    }
}

fn read_object(
    row: &mut Row<'_>,
    owners: &BTreeMap<String, Rc<str>>,
    statistics: &BTreeMap<String, Known>,
) -> RawObject {
    row.expect_id();
    let kinds = [
        ("param", RawKind::Param),
        ("grad", RawKind::Grad),
        ("optstate", RawKind::OptState),
        ("input", RawKind::Input),
        ("buffer", RawKind::Buffer),
        ("tmp", RawKind::Tmp),
        ("kv", RawKind::Kv),
    ];
    let kind = row.word("kind", &kinds, RawKind::Tmp);
    let name = row.name("name").to_string();
    let param = match kind {
        RawKind::Param | RawKind::Grad => Some(name.as_str()),
        RawKind::OptState => name.rsplit_once('.').map(|(param, _)| param),
        _ => None,
    };
    let mut owner = param.and_then(|param| owners.get(param)).cloned();
    if owners.is_empty() {
        // Without the table a parameter belongs to what its name begins with.
        owner = param.map(|param| param.rsplit_once('.').map_or("", |(module, _)| module).into());
    }
    if matches!(kind, RawKind::Param | RawKind::Grad | RawKind::OptState) && owner.is_none() {
        row.problem("it belongs to a parameter of params.csv", name.clone(), "add the parameter");
    }
    let dtype = row.name("dtype");
    let (dtype, element_bytes) = element_type(&dtype).unwrap_or_else(|| {
        row.problem("dtype is an element type of PyTorch", dtype.to_string(), "such as float32");
        ("", 1)
    });
    let bytes: u64 = row.whole("bytes");
    if !bytes.is_multiple_of(element_bytes) {
        let rule = format!("bytes are a multiple of {element_bytes}, the size of {dtype}");
        row.problem(rule, bytes.to_string(), "correct one of them");
    }
    let of_param = if kind == RawKind::Param { statistics.get(&name) } else { None };
    RawObject {
        bytes,
        kind,
        dtype,
        element_bytes,
        shape: shape(row),
        death: row.whole_or_none("death_op"),
        owner,
        statistics: of_param.cloned().map(Box::new),
        name,
    }
}

fn shape(row: &mut Row<'_>) -> Vec<u64> {
    let text = row.text("shape").to_owned();
    if text.is_empty() {
        return Vec::new();
    }
    let dims: Option<Vec<u64>> = text.split('x').map(whole_number).collect();
    dims.unwrap_or_else(|| {
        row.problem("shape is sizes joined by 'x'", text, "such as 2x256x768");
        Vec::new()
    })
}

fn phase<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Phase, D::Error> {
    let word = String::deserialize(from)?;
    match word.as_str() {
        "fwd" => Ok(Phase::Forward),
        "bwd" => Ok(Phase::Backward),
        "opt" => Ok(Phase::Optimizer),
        "prefill" => Ok(Phase::Prefill),
        "decode" => Ok(Phase::Decode),
        _ => {
            let rule = "the phase is one of fwd, bwd, opt, prefill, decode";
            Err(serde::de::Error::custom(rule))
        }
    }
}
