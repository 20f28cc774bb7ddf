//! What must hold of a trace before anything may run it.
//!
//! [`Trace::problems`] looks at everything in one pass and names the row of each problem, so that
//! a reader can turn rows into lines and report a whole file at once. The rules exist so that the
//! code behind them needs no checks of its own: every id is in range, every object is born before
//! it is read, and every total fits 64 bits.
//! Invariant: no trace, however broken, makes this module panic or take more than linear time.

mod order;

use crate::collective::{Collective, MAX_COLLECTIVE, MAX_GROUP};
use crate::ids::{ModuleId, RankId};
use crate::printed::is_printable;
use crate::workload::{Mode, Object, Op, Statistics, Table, Trace, TraceProblem, Unit};
use std::collections::BTreeMap;

/// How many problems are listed one by one; the rest are counted.
pub const MAX_PROBLEMS: usize = 50;

/// The longest name of an object, op, module or element type.
pub const MAX_NAME_BYTES: usize = 256;

impl Trace {
    /// Every rule that this trace breaks, in table order; empty for a trace that can be run.
    ///
    /// At most [`MAX_PROBLEMS`] are listed; one more entry then counts the others.
    pub fn problems(&self) -> Vec<TraceProblem> {
        let mut found = Problems::default();
        if self.objects.len().max(self.ops.len()).max(self.uses.len()) >= u32::MAX as usize {
            found.add(Table::Ops, 0, "a table of 2^32 rows or more".into(), "split the trace");
            return found.list;
        }
        object_rules(self, &mut found);
        op_rules(self, &mut found);
        use_rules(self, &mut found);
        order::order_rules(self, &mut found);
        found.finish()
    }
}

/// The problems found so far, with a bound on how many are kept.
#[derive(Default)]
struct Problems {
    list: Vec<TraceProblem>,
    unlisted: usize,
    last: Option<(Table, usize)>,
}

impl Problems {
    fn add(&mut self, table: Table, row: usize, found: String, remedy: &'static str) {
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(TraceProblem { table, row, found, remedy });
        } else {
            self.unlisted += 1;
            self.last = Some((table, row));
        }
    }

    fn finish(mut self) -> Vec<TraceProblem> {
        if let Some((table, row)) = self.last {
            let found = format!("and {} more problems, the last one here", self.unlisted);
            self.list.push(TraceProblem {
                table,
                row,
                found,
                remedy: "mend the listed ones first",
            });
        }
        self.list
    }
}

fn object_rules(trace: &Trace, found: &mut Problems) {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut total = 0u128;
    let mut steps = None;
    for (row, object) in trace.objects.iter().enumerate() {
        let mut add = |text: String, remedy| found.add(Table::Objects, row, text, remedy);
        text_rule("name", &object.name, &mut add);
        if !object.dtype.is_empty() {
            text_rule("dtype", &object.dtype, &mut add);
        }
        if let Some(&first) = by_name.get(object.name.as_str()) {
            let text = format!("the name {:?} of object {first} again", shown(&object.name));
            add(text, "give every object a name of its own");
        } else {
            by_name.insert(&object.name, row);
        }
        if object.bytes.get() == 0 {
            let text = format!("object {:?} of 0 bytes", shown(&object.name));
            add(text, "leave out objects without memory");
        }
        module_rule(trace, object.module, &mut add);
        statistics_rule(&object.statistics, "", &mut add);
        if let Some(history) = &object.history {
            for (step, statistics) in history.iter().enumerate() {
                statistics_rule(statistics, &format!(" of step {step}"), &mut add);
            }
            let of = *steps.get_or_insert(history.len());
            if history.len() != of || of == 0 {
                let text = format!("statistics of {} steps, where others have {of}", history.len());
                add(text, "give every object that has any those of every step");
            }
        }
        freed_rule(trace, object, &mut add);
        let before = total;
        total += u128::from(object.bytes.get());
        if total > u128::from(u64::MAX) && before <= u128::from(u64::MAX) {
            add("objects that sum to 2^64 bytes or more".into(), "check the sizes: they are bytes");
        }
    }
}

fn statistics_rule(
    statistics: &Statistics,
    when: &str,
    add: &mut impl FnMut(String, &'static str),
) {
    let columns = [
        ("adam_m", statistics.adam_m),
        ("adam_v", statistics.adam_v),
        ("grad_norm", statistics.grad_norm),
    ];
    for (column, value) in columns {
        // Means of absolute values, of roots, and a norm: none of them can be negative.
        if let Some(value) = value.filter(|value| !value.is_finite() || *value < 0.0) {
            add(
                format!("{column} {value}{when}"),
                "write a finite number from 0 up, or leave it empty",
            );
        }
    }
}

fn freed_rule(trace: &Trace, object: &Object, add: &mut impl FnMut(String, &'static str)) {
    let Some(op) = object.freed_after else { return };
    if op.index() >= trace.ops.len() {
        let text = format!("freed_after {} of {} ops", op.0, trace.ops.len());
        add(text, "name an op of this trace");
    }
    if object.persistent {
        let text = format!("persistent object {:?} with freed_after", shown(&object.name));
        add(text, "leave freed_after empty: a persistent object outlives the trace");
    }
}

fn module_rule(trace: &Trace, id: Option<ModuleId>, add: &mut impl FnMut(String, &'static str)) {
    let Some(id) = id else { return };
    match trace.modules.get(id.index()) {
        Some(name) => text_rule("module", name, add),
        None => {
            let text = format!("module {} of {}", id.0, trace.modules.len());
            add(text, "name a module of this trace");
        }
    }
}

/// Names are printed on one line and quoted in tables, so they are short and hold no line breaks.
fn text_rule(what: &str, text: &str, add: &mut impl FnMut(String, &'static str)) {
    if text.is_empty() {
        add(format!("an empty {what}"), "write a name");
    } else if text.len() > MAX_NAME_BYTES {
        let found = format!("a {what} of {} bytes, {:?}...", text.len(), shown(text));
        add(found, "shorten it to 256 bytes");
    } else if !is_printable(text) {
        let control = text.chars().any(char::is_control);
        let found = if control { "a control character" } else { "an invisible character" };
        add(format!("{found} in {what} {text:?}"), "use printable characters");
    }
}

/// As much of a name as fits in a message.
fn shown(name: &str) -> &str {
    let end = name.char_indices().nth(80).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

fn op_rules(trace: &Trace, found: &mut Problems) {
    let mut sums = [
        ("duration_ns", 0u128, "durations that sum to 2^64 picoseconds (213 days) or more"),
        ("bytes", 0, "bytes that sum to 2^64 or more"),
    ];
    let (mut step, mut next_use) = (0, 0u32);
    for (row, op) in trace.ops.iter().enumerate() {
        let mut add = |text: String, remedy| found.add(Table::Ops, row, text, remedy);
        text_rule("name", &op.name, &mut add);
        module_rule(trace, op.module, &mut add);
        if op.step < step {
            let text = format!("step {} after step {step}", op.step);
            add(text, "list ops in the order in which they were issued; steps never decrease");
        }
        step = step.max(op.step);
        if op.rank != RankId(0) {
            let text = format!("rank {}", op.rank.0);
            add(text, "keep rank 0 only: a scenario says how many ranks run the trace");
        }
        if op.uses.start != next_use || op.uses.end < op.uses.start {
            let text = format!("uses {}..{} where {next_use} is next", op.uses.start, op.uses.end);
            add(text, "group the uses by op, in the order of ops");
        } else if op.uses.end as usize > trace.uses.len() {
            let text = format!("uses up to {} of {}", op.uses.end, trace.uses.len());
            add(text, "group the uses by op, in the order of ops");
        }
        next_use = op.uses.end;
        unit_rule(op, &mut add);
        add_up(op, &mut sums, &mut add);
    }
    if (next_use as usize) < trace.uses.len() {
        let text = format!("{} uses that belong to no op", trace.uses.len() - next_use as usize);
        found.add(Table::Uses, next_use as usize, text, "group the uses by op");
    }
}

/// A collective sends something, among ranks that can be numbered.
fn unit_rule(op: &Op, add: &mut impl FnMut(String, &'static str)) {
    let Unit::Network(collective) = op.unit else { return };
    let Collective { bytes, within, servers, times, .. } = collective;
    if bytes.get() == 0 || bytes > MAX_COLLECTIVE {
        let text = format!("a collective of {} bytes", bytes.get());
        add(text, "write the bytes of its whole buffer, 1 to 2^60");
    }
    let sent = u128::from(bytes.get()) * u128::from(times);
    if times == 0 || bytes <= MAX_COLLECTIVE && sent > u128::from(MAX_COLLECTIVE.get()) {
        let text = format!("{times} collectives of {} bytes in a row", bytes.get());
        add(text, "write how many follow one another, 1 or more, with 2^60 bytes in all at most");
    }
    if collective.ranks() == 0 || collective.ranks() > MAX_GROUP {
        let text = format!("a group of {within} ranks in each of {servers} servers");
        add(text, "write at least one of each, and at most 2^20 ranks");
    }
}

fn add_up(
    op: &Op,
    sums: &mut [(&str, u128, &'static str); 2],
    add: &mut impl FnMut(String, &'static str),
) {
    let values = [op.duration.map_or(0, |span| span.ps()), op.bytes.get()];
    for ((column, sum, text), value) in sums.iter_mut().zip(values) {
        let before = *sum;
        *sum += u128::from(value);
        if *sum > u128::from(u64::MAX) && before <= u128::from(u64::MAX) {
            add(format!("{column}: {text}"), "check the unit of the column, or split the trace");
        }
    }
}

fn use_rules(trace: &Trace, found: &mut Problems) {
    // Per object: one more than the op that used it last, 0 before its first use.
    let mut last_use = vec![0usize; trace.objects.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        let rows = op.uses.start as usize..op.uses.end as usize;
        let Some(uses) = trace.uses.get(rows.clone()) else { continue };
        for (row, one) in rows.zip(uses) {
            let mut add = |text: String, remedy| found.add(Table::Uses, row, text, remedy);
            let Some(object) = trace.objects.get(one.object.index()) else {
                let text = format!("object {} of {}", one.object.0, trace.objects.len());
                add(text, "name an object of objects.csv");
                continue;
            };
            let last = &mut last_use[one.object.index()];
            let name = shown(&object.name);
            if *last == index + 1 {
                let text = format!("op {index} names object {name:?} twice");
                add(text, "write one row with the mode that covers both, such as rw");
            } else if *last == 0 && !object.persistent && one.mode != Mode::Write {
                let text = format!(
                    "op {index} uses object {name:?} with mode {} before it is written",
                    one.mode.word()
                );
                add(text, "make its first use w, or mark it persistent if it exists before");
            }
            if let Some(part) = one.part {
                if one.mode == Mode::Write {
                    let text = format!("op {index} writes object {name:?} new, in pieces");
                    add(text, "write rw if the rest stays, or leave the pieces out");
                } else if part.bytes() > object.bytes {
                    let (pieces, size) = (part.bytes(), object.bytes);
                    let text =
                        format!("op {index} uses {pieces} of object {name:?}, which has {size}");
                    add(text, "count what is used, each byte once");
                }
            }
            if let Some(freed) = object.freed_after.filter(|freed| freed.index() < index) {
                let text = format!("op {index} uses object {name:?}, freed after op {}", freed.0);
                add(text, "move freed_after to its last use or later");
            }
            *last = index + 1;
        }
    }
}
