//! In what two traces differ: the table behind `tiersim trace diff`.
//!
//! Figures are those of `tiersim trace info`, so both commands have one answer. Ops are found again
//! by step, name and module, or else by step and name, the first of that name as the first, the
//! second as the second; objects by name. What no run depends on (name, description,
//! circumstances, the label of a precision, when ops started, how uses are known) is said and is no
//! difference.
//! Invariant: traces without a difference run alike: all of their tables are the same, but for
//! those words and columns and for modules that nothing belongs to.

mod figures;
mod objects;
mod ops;

use super::info::info;
use figures::{Figure, StepDiff, figures, steps};
use objects::{ObjectsDiff, objects};
use ops::{OpsDiff, ops};
use serde::Serialize;
use std::fmt;
use tiersim_models::printed::clean;
use tiersim_models::workload::{Trace, TraceMeta};

/// In what two traces, A and B, differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceDiff {
    /// Whether they run alike.
    pub equal: bool,
    /// The same in a sentence.
    pub verdict: String,
    /// What they say of themselves, where it is not the same.
    pub said: Vec<SaidDiff>,
    /// Figures that are not the same.
    pub figures: Vec<Figure>,
    /// Steps with other figures.
    pub steps: Listed<StepDiff>,
    /// Ops.
    pub ops: OpsDiff,
    /// Objects.
    pub objects: ObjectsDiff,
}

/// A difference as it is printed for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Printed<'a> {
    /// Version of this form.
    pub schema: u32,
    /// Version of the command.
    pub tiersim: &'a str,
    /// What was named first.
    pub a: String,
    /// What was named second.
    pub b: String,
    /// The difference.
    #[serde(flatten)]
    pub diff: &'a TraceDiff,
}

impl<'a> Printed<'a> {
    /// By a command of this version, of two traces with these names.
    pub fn of(tiersim: &'a str, a: String, b: String, diff: &'a TraceDiff) -> Printed<'a> {
        Printed { schema: 1, tiersim, a, b, diff }
    }
}

/// Words on which no run depends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SaidDiff {
    /// Which.
    pub field: &'static str,
    /// In A.
    pub a: String,
    /// In B.
    pub b: String,
}

/// The first rows of a list, the largest differences first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// How many more there are.
    pub left_out: usize,
}

impl<T> Listed<T> {
    fn of(mut rows: Vec<T>, top: usize) -> Listed<T> {
        let left_out = rows.len().saturating_sub(top);
        rows.truncate(top);
        Listed { rows, left_out }
    }
}

/// A number of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair<T> {
    /// In A.
    pub a: T,
    /// In B.
    pub b: T,
}

impl Pair<u128> {
    /// How far apart they are.
    pub fn apart(self) -> u128 {
        self.a.abs_diff(self.b)
    }
}

/// How B is to A: `+3.2 %`, or `-` where A is nothing.
fn change(Pair { a, b }: Pair<u128>) -> String {
    match a {
        _ if a == b => "0 %".to_owned(),
        0 => "-".to_owned(),
        _ => match format!("{:+.1} %", (b as f64 / a as f64 - 1.0) * 100.0) {
            none if none.ends_with("0.0 %") && none.len() == 6 => "less than 0.1 %".to_owned(),
            change => change,
        },
    }
}

/// As much of a name as a column of a table has.
fn short(name: &str) -> String {
    let name = clean(name);
    if name.chars().count() <= 40 {
        return name;
    }
    name.chars().take(37).chain("...".chars()).collect()
}

/// How many of a sequence can stay so that it rises.
fn rising(all: impl IntoIterator<Item = u32>) -> usize {
    // By length the least last number of a rising part of that length.
    let mut least: Vec<u32> = Vec::new();
    for one in all {
        match least.partition_point(|&last| last < one) {
            at if at == least.len() => least.push(one),
            at => least[at] = one,
        }
    }
    least.len()
}

/// Compares two traces, which must have passed [`Trace::problems`], and lists the `top` largest
/// differences of each kind.
pub fn trace_diff(a: &Trace, b: &Trace, top: usize) -> TraceDiff {
    let (of_a, of_b) = (info(a), info(b));
    let figures = figures(&of_a, &of_b);
    let (ops, found) = ops(a, b, top);
    let objects = objects(a, b, &found, top);
    let per_step = a.meta.batch == b.meta.batch && a.meta.sequence == b.meta.sequence;
    let equal = per_step && ops.are_same() && objects.are_same();
    let said = said(&a.meta, &b.meta);
    let mut verdict = match equal {
        true => {
            let (ops, objects, uses) = (a.ops.len(), a.objects.len(), a.uses.len());
            let other = if said.is_empty() { "" } else { "; they say other things of themselves" };
            format!("the same: {ops} ops, {objects} objects, {uses} uses{other}")
        }
        false => {
            let mut text = format!(
                "they differ in {} of {} ops and {} of {} objects",
                ops.others(),
                a.ops.len() as u64 + ops.only_b,
                objects.others(),
                a.objects.len() as u64 + objects.only_b,
            );
            for (what, word) in figures::MAIN {
                let of = figures.iter().find(|one| one.of.is_empty() && one.what == *what);
                text +=
                    &of.map_or_else(String::new, |one| format!("; {word} {}", change(one.pair)));
            }
            text
        }
    };
    if ops.unheeded > 0 {
        let ops = ops.unheeded;
        verdict += &format!("; ops that differ in nothing that a run heeds: {ops}");
    }
    TraceDiff { equal, verdict, said, figures, steps: steps(&of_a, &of_b, top), ops, objects }
}

fn said(a: &TraceMeta, b: &TraceMeta) -> Vec<SaidDiff> {
    let of = |meta: &TraceMeta| {
        let TraceMeta { name, about, precision, recorded, .. } = meta.clone();
        [name, about, precision, recorded.how, recorded.when, recorded.on]
    };
    let fields = ["name", "about", "precision", "recorded how", "recorded when", "recorded on"];
    let all = fields.into_iter().zip(of(a).into_iter().zip(of(b)));
    let others = all.filter(|(_, (a, b))| a != b);
    others.map(|(field, (a, b))| SaidDiff { field, a, b }).collect()
}

impl fmt::Display for TraceDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.verdict)?;
        if !self.said.is_empty() {
            let fields: Vec<&str> = self.said.iter().map(|one| one.field).collect();
            writeln!(f, "said of themselves, and not the same: {}", fields.join(", "))?;
        }
        if !self.figures.is_empty() {
            writeln!(f, "\n{:<46} {:>20} {:>20}   change", "figure", "A", "B")?;
        }
        for Figure { of, what, pair } in &self.figures {
            let name = format!("{of} {what}");
            let (a, b) = (pair.a, pair.b);
            writeln!(f, "{:<46} {a:>20} {b:>20}   {}", name.trim_start(), change(*pair))?;
        }
        self.steps_text(f)?;
        write!(f, "{}{}", self.ops, self.objects)
    }
}

impl TraceDiff {
    fn steps_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.rows.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nstep   ops A, B             recorded ms A, B              GFLOP A, B")?;
        for StepDiff { step, ops, duration_ns, flops, .. } in &self.steps.rows {
            let [ms_a, ms_b] = [duration_ns.a, duration_ns.b].map(|ns| ns as f64 / 1e6);
            let [flop_a, flop_b] = [flops.a, flops.b].map(|flops| flops as f64 / 1e9);
            write!(f, "{step:<6} {:>7} {:>7} {ms_a:>16.3} {ms_b:>12.3}", ops.a, ops.b)?;
            writeln!(f, " {flop_a:>15.3} {flop_b:>12.3}")?;
        }
        more(f, self.steps.left_out)
    }
}

fn more(f: &mut fmt::Formatter<'_>, left_out: usize) -> fmt::Result {
    if left_out > 0 { writeln!(f, "and {left_out} more (--top)") } else { Ok(()) }
}
