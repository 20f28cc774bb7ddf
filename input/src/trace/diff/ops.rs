//! Ops of two traces: which of one is which of the other, and what they do not say alike.

use super::{Listed, Pair, change, more, rising, short};
use crate::trace::units::fields as unit_fields;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::workload::{Known, Op, Trace, Use};

/// In what the ops differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpsDiff {
    /// Ops that are in A only.
    pub only_a: u64,
    /// Ops that are in B only.
    pub only_b: u64,
    /// Ops that are in both and do not say the same.
    pub differing: u64,
    /// Of these, such as differ in nothing that any run heeds: when they started on the recording
    /// device, and how their uses are known.
    pub unheeded: u64,
    /// Ops that are in both and come in another order: as few as explain it.
    pub moved: u64,
    /// By name, the largest changes of recorded time, FLOPs and bytes first.
    #[serde(flatten)]
    pub names: Listed<NameDiff>,
}

impl OpsDiff {
    /// Whether they run alike.
    pub(super) fn are_same(&self) -> bool {
        self.others() + self.moved == 0
    }

    /// How many do not run alike, whatever their order.
    pub(super) fn others(&self) -> u64 {
        self.only_a + self.only_b + self.differing - self.unheeded
    }
}

/// Columns that no run heeds.
const UNHEEDED: [&str; 2] = ["at_ns", "known"];

/// Ops of one name that are not all the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NameDiff {
    /// The name.
    pub name: String,
    /// How many there are.
    pub ops: Pair<u128>,
    /// Of these in A only.
    pub only_a: u64,
    /// In B only.
    pub only_b: u64,
    /// In both, and not the same.
    pub differing: u64,
    /// Of these, such as differ in nothing that any run heeds.
    pub unheeded: u64,
    /// Recorded time of all of that name.
    pub duration_ns: Pair<u128>,
    /// Floating-point operations.
    pub flops: Pair<u128>,
    /// Bytes read and written.
    pub bytes: Pair<u128>,
    /// Columns of `ops.csv` in which those in both differ, and `uses`.
    pub fields: BTreeSet<&'static str>,
    /// The first of those that differ, in words.
    pub first: String,
}

/// Which op is which: by op of A that of B, and the reverse.
pub(super) struct Found {
    pub(super) in_b: Vec<Option<OpId>>,
    pub(super) in_a: Vec<Option<OpId>>,
}

type Key<'a> = (u32, &'a str, &'a str);

/// By the number of a step in its trace, name and, if asked for, module: the ops that are not found
/// yet, in order.
fn by_key<'a>(
    trace: &'a Trace,
    by_module: bool,
    found: &[Option<OpId>],
) -> BTreeMap<Key<'a>, Vec<OpId>> {
    let mut all: BTreeMap<Key<'_>, Vec<OpId>> = BTreeMap::new();
    let (mut step, mut last) = (0, None);
    for (id, op) in trace.ops.iter().enumerate() {
        step += u32::from(last.is_some_and(|last| last != op.step));
        last = Some(op.step);
        let module = if by_module { module(trace, op.module) } else { "" };
        if found[id].is_none() {
            all.entry((step, op.name.as_str(), module)).or_default().push(OpId::at(id));
        }
    }
    all
}

pub(super) fn module(trace: &Trace, id: Option<ModuleId>) -> &str {
    id.map_or("", |id| &trace.modules[id.index()])
}

fn find(a: &Trace, b: &Trace) -> Found {
    let mut found = Found { in_b: vec![None; a.ops.len()], in_a: vec![None; b.ops.len()] };
    // Modules may be called otherwise: what is left is found by step and name.
    for by_module in [true, false] {
        let others = by_key(b, by_module, &found.in_a);
        for (key, ids) in by_key(a, by_module, &found.in_b) {
            for (&a, &b) in ids.iter().zip(others.get(&key).into_iter().flatten()) {
                found.in_b[a.index()] = Some(b);
                found.in_a[b.index()] = Some(a);
            }
        }
    }
    found
}

/// Compares the ops of two traces.
pub(super) fn ops(a: &Trace, b: &Trace, top: usize) -> (OpsDiff, Found) {
    let found = find(a, b);
    let mut names: BTreeMap<&str, NameDiff> = BTreeMap::new();
    let both = || found.in_b.iter().flatten();
    let moved = (both().count() - rising(both().map(|op| op.0))) as u64;
    for (id, op) in a.ops.iter().enumerate() {
        let row = names.entry(&op.name).or_default();
        sum(row, op, |pair| &mut pair.a);
        let Some(other) = found.in_b[id] else {
            row.only_a += 1;
            say(row, || format!("{}, in A only", place(id, op)));
            continue;
        };
        let fields = fields((a, OpId::at(id)), (b, other), &found);
        if !fields.is_empty() {
            row.differing += 1;
            let unheeded = |field: &Field| UNHEEDED.contains(&field.name);
            row.unheeded += u64::from(fields.iter().all(unheeded));
            say(row, || {
                let words: Vec<String> = fields.iter().map(Field::words).collect();
                format!("{}: {}", place(id, op), words.join("; "))
            });
            row.fields.extend(fields.into_iter().map(|field| field.name));
        }
    }
    for (id, op) in b.ops.iter().enumerate() {
        let row = names.entry(&op.name).or_default();
        sum(row, op, |pair| &mut pair.b);
        if found.in_a[id].is_none() {
            row.only_b += 1;
            say(row, || format!("{}, in B only", place(id, op)));
        }
    }
    let others = names.into_iter().filter(|(_, row)| row.only_a + row.only_b + row.differing > 0);
    let mut rows: Vec<NameDiff> =
        others.map(|(name, row)| NameDiff { name: name.to_owned(), ..row }).collect();
    let count = |of: fn(&NameDiff) -> u64| rows.iter().map(of).sum();
    let (only_a, only_b) = (count(|row| row.only_a), count(|row| row.only_b));
    let (differing, unheeded) = (count(|row| row.differing), count(|row| row.unheeded));
    rows.sort_by_key(|row| {
        let others = row.only_a + row.only_b + row.differing;
        Reverse(([row.duration_ns, row.flops, row.bytes].map(Pair::apart), others))
    });
    let names = Listed::of(rows, top);
    (OpsDiff { only_a, only_b, differing, unheeded, moved, names }, found)
}

fn sum(row: &mut NameDiff, op: &Op, side: fn(&mut Pair<u128>) -> &mut u128) {
    *side(&mut row.ops) += 1;
    *side(&mut row.duration_ns) += op.duration.map_or(0, |span| u128::from(span.ps() / 1000));
    *side(&mut row.flops) += u128::from(op.flops);
    *side(&mut row.bytes) += u128::from(op.bytes.get());
}

fn say(row: &mut NameDiff, words: impl FnOnce() -> String) {
    if row.first.is_empty() {
        row.first = words();
    }
}

fn place(id: usize, op: &Op) -> String {
    format!("op {id} (step {}, {})", op.step, op.phase.word())
}

/// A column in which two ops differ, with what both say if that is short.
struct Field {
    name: &'static str,
    said: Option<[String; 2]>,
}

impl Field {
    fn words(&self) -> String {
        match &self.said {
            Some([a, b]) => format!("{} {a} -> {b}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// Columns in which an op of A and one of B differ.
fn fields((a, in_a): (&Trace, OpId), (b, in_b): (&Trace, OpId), found: &Found) -> Vec<Field> {
    let (one, other) = (&a.ops[in_a.index()], &b.ops[in_b.index()]);
    let mut all = Vec::new();
    let mut short = |name, a: String, b: String| {
        if a != b {
            all.push(Field { name, said: Some([a, b]) });
        }
    };
    let ns = |ps: Option<u64>| ps.map_or("none".to_owned(), |ps| format!("{}", ps as f64 / 1e3));
    short("step", one.step.to_string(), other.step.to_string());
    short("phase", one.phase.word().to_owned(), other.phase.word().to_owned());
    let named = |trace, op: &Op| format!("{:?}", module(trace, op.module));
    short("module", named(a, one), named(b, other));
    short("stream", one.stream.to_string(), other.stream.to_string());
    short("rank", one.rank.0.to_string(), other.rank.0.to_string());
    short("flops", one.flops.to_string(), other.flops.to_string());
    short("bytes", one.bytes.get().to_string(), other.bytes.get().to_string());
    let unit = |op: &Op| unit_fields(op.unit).join(" ").trim_end().to_owned();
    short("unit", unit(one), unit(other));
    let mut time = |name, a: Option<u64>, b: Option<u64>| {
        if a != b {
            all.push(Field { name, said: Some([ns(a), ns(b)]) });
        }
    };
    let ps = |op: &Op| op.duration.map(|span| span.ps());
    time("duration_ns", ps(one), ps(other));
    time("at_ns", one.at.map(|at| at.ps()), other.at.map(|at| at.ps()));
    time("release_ns", one.release.map(|at| at.ps()), other.release.map(|at| at.ps()));
    let mut long = |name, same: bool| {
        if !same {
            all.push(Field { name, said: None });
        }
    };
    let after = one.after.iter().map(|op| found.in_b[op.index()]);
    long("after", after.eq(other.after.iter().map(|&op| Some(op))));
    long("kernels", one.kernels == other.kernels);
    long("uses", uses(a, in_a).eq(uses(b, in_b)));
    let known = |trace: &Trace, op| -> Vec<Known> {
        trace.uses_of(op).iter().map(|one| one.known).collect()
    };
    long("known", known(a, in_a) == known(b, in_b));
    all
}

/// Uses with the names of their objects, but for how they are known.
fn uses(trace: &Trace, op: OpId) -> impl Iterator<Item = (&str, Use)> {
    let plain = |one: &Use| Use { object: ObjectId(0), known: Known::Seen, ..*one };
    let named = move |one: &Use| (trace.objects[one.object.index()].name.as_str(), plain(one));
    trace.uses_of(op).iter().map(named)
}

impl fmt::Display for OpsDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_same() && self.unheeded == 0 {
            return Ok(());
        }
        let OpsDiff { only_a, only_b, differing, unheeded: _, moved, names } = self;
        write!(
            f,
            "\nops: {only_a} in A only, {only_b} in B only, {differing} in both and not the "
        )?;
        writeln!(f, "same, {moved} in another order")?;
        for row in &names.rows {
            let NameDiff { name, ops, duration_ns, flops, bytes, .. } = row;
            let pairs = [("recorded", duration_ns), ("FLOPs", flops), ("bytes", bytes)];
            let changed = pairs.iter().filter(|(_, pair)| pair.a != pair.b);
            let changed = changed.map(|(what, pair)| format!(", {what} {}", change(**pair)));
            let changed: String = changed.collect();
            writeln!(f, "{:<40} {:>6} {:>6}{changed}", short(name), ops.a, ops.b)?;
            writeln!(f, "    {}", row.first)?;
        }
        more(f, names.left_out)
    }
}
