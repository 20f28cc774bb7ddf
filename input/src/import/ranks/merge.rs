//! The ops of all ranks as one list, with streams, objects and modules of each.
//!
//! Ops go by step, by phase and by time, each rank's in its own order; a collective comes when all
//! ranks that take part have come to it. It runs on the stream of the first of them, behind what the
//! streams of the others ran before it, and what these run next waits for it.
//! Invariant: an op of a rank has the place in its stream that it has in the import of that rank.

use super::tie::Ties;
use super::{Account, Gaps, Rank};
use std::collections::{BTreeMap, BTreeSet};
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::units::Span;
use tiersim_models::workload::{Object, Op, Phase, Recorded, Trace, TraceMeta, Unit, Use};

/// What a name may have.
const LONGEST: usize = 256;

/// Makes the trace.
///
/// # Errors
/// That there are too many streams.
pub(super) fn merge(
    ranks: &[Rank<'_>],
    ties: &Ties,
    gaps: Gaps,
    account: &mut Account,
) -> Result<Trace, Diagnostics> {
    let mut places = Vec::with_capacity(ranks.len());
    let (mut lanes, mut objects, mut modules) = (0, 0, 0);
    for (index, rank) in ranks.iter().enumerate() {
        let trace = &rank.of.imported.trace;
        places.push(Of {
            next: 0,
            lanes,
            objects,
            modules,
            ops: Vec::with_capacity(trace.ops.len()),
            tied: 0,
            waits: false,
            late: if gaps == Gaps::Keep { ties.shift[index] } else { 0 },
        });
        lanes += trace.ops.iter().map(|op| u32::from(op.stream) + 1).max().unwrap_or(0);
        objects += trace.objects.len() as u32;
        modules += trace.modules.len() as u32;
    }
    if lanes > 1 << 16 {
        let rule = "a trace has at most 65536 streams";
        let remedy = "give fewer ranks";
        return Err(Diagnostics::one(ranks[0].path, None, rule, lanes.to_string(), remedy));
    }
    account.streams = lanes;
    let (ops, uses) = (Vec::new(), Vec::new());
    let (last, behind) = (BTreeMap::new(), BTreeMap::new());
    let (arrived, ready) = (vec![0; ties.list.len()], BTreeSet::new());
    let mut merging = Merging { ranks, ties, places, ops, uses, arrived, ready, last, behind };
    merging.all();
    Ok(merging.finish())
}

/// Where one rank is.
struct Of {
    /// Its next op, and its next collective.
    next: usize,
    tied: usize,
    /// Whether it waits for others at that collective.
    waits: bool,
    /// Its first stream, object and module in the trace.
    lanes: u32,
    objects: u32,
    modules: u32,
    /// By op of its own: the op of the trace.
    ops: Vec<OpId>,
    /// What passes before its first op.
    late: u64,
}

struct Merging<'a> {
    ranks: &'a [Rank<'a>],
    ties: &'a Ties,
    places: Vec<Of>,
    ops: Vec<Op>,
    uses: Vec<Use>,
    /// By collective: how many ranks have come to it; those that all have come to.
    arrived: Vec<usize>,
    ready: BTreeSet<usize>,
    /// The last op of each stream.
    last: BTreeMap<u16, OpId>,
    /// The collective that the next op of a stream waits for.
    behind: BTreeMap<u16, OpId>,
}

impl<'a> Merging<'a> {
    fn head(&self, rank: usize) -> Option<&'a Op> {
        self.ranks[rank].of.imported.trace.ops.get(self.places[rank].next)
    }

    /// Notes that a rank has come to a collective, if its next op is one.
    fn arrive(&mut self, rank: usize) {
        let of = &mut self.places[rank];
        let next = self.ties.of[rank].get(of.tied);
        let Some(&(id, _)) = next.filter(|(_, op)| op.index() == of.next) else { return };
        of.waits = true;
        self.arrived[id] += 1;
        if self.arrived[id] == self.ties.list[id].ops.len() {
            self.ready.insert(id);
        }
    }

    fn all(&mut self) {
        let mut now = None;
        (0..self.ranks.len()).for_each(|rank| self.arrive(rank));
        loop {
            while let Some(id) = self.ready.pop_first() {
                now = Some(self.collective(id));
            }
            let waiting = |&rank: &usize| self.head(rank).is_some() && !self.places[rank].waits;
            let key = |&rank: &usize| {
                let op = self.head(rank).expect("it has one");
                let at = op.at.map_or(0, |at| at.ps()).saturating_add(self.ties.shift[rank]);
                (op.step, Some((op.step, op.phase)) != now, at, rank)
            };
            let next = (0..self.ranks.len()).filter(waiting).min_by_key(key);
            // Collectives are in an order that all can come to them in: all are done.
            let Some(rank) = next else { return };
            now = Some(self.one(rank));
        }
    }

    /// The op of a rank, on its own stream.
    fn moved(&mut self, rank: usize, op: &Op) -> Op {
        let of = &self.places[rank];
        let start = self.uses.len() as u32;
        let uses = &self.ranks[rank].of.imported.trace.uses;
        let uses = &uses[op.uses.start as usize..op.uses.end as usize];
        let objects = of.objects;
        let moved = |one: &Use| Use { object: ObjectId(one.object.0 + objects), ..*one };
        self.uses.extend(uses.iter().map(moved));
        Op {
            // Recordings of one run are in the same step at each collective.
            step: self.ops.last().map_or(op.step, |last: &Op| last.step.max(op.step)),
            module: op.module.map(|module| ModuleId(module.0 + of.modules)),
            stream: (of.lanes + u32::from(op.stream)) as u16,
            after: op.after.iter().map(|id| of.ops[id.index()]).collect(),
            uses: start..self.uses.len() as u32,
            ..op.clone()
        }
    }

    fn push(&mut self, op: Op) -> OpId {
        let id = OpId::at(self.ops.len());
        self.last.insert(op.stream, id);
        self.ops.push(op);
        id
    }

    fn one(&mut self, rank: usize) -> (u32, Phase) {
        let op = self.head(rank).expect("it has one");
        let mut moved = self.moved(rank, op);
        moved.after.extend(self.behind.remove(&moved.stream));
        let late = self.places[rank].late;
        if late > 0 && moved.after.is_empty() && !self.last.contains_key(&moved.stream) {
            let end = moved.uses.start;
            self.push(Op {
                stream: moved.stream,
                duration: Some(Span::from_ps(late)),
                at: None,
                unit: Unit::Idle,
                ..Op::new(moved.step, moved.phase, "gap", end..end)
            });
        }
        let id = self.push(moved);
        self.places[rank].ops.push(id);
        self.places[rank].next += 1;
        self.arrive(rank);
        (op.step, op.phase)
    }

    fn collective(&mut self, id: usize) -> (u32, Phase) {
        let ties = self.ties;
        let tie = &ties.list[id];
        let (first, _) = tie.ops[0];
        let op = self.head(first).expect("it meets");
        let mut whole = self.moved(first, op);
        let mut after: BTreeSet<OpId> = whole.after.drain(..).collect();
        after.extend(self.behind.remove(&whole.stream));
        let mut others = Vec::new();
        for &(rank, _) in &tie.ops[1..] {
            let op = self.head(rank).expect("it meets");
            let part = self.moved(rank, op);
            after.extend(part.after);
            after.extend(self.behind.remove(&part.stream));
            after.extend(self.last.get(&part.stream));
            whole.step = whole.step.max(part.step);
            others.push(part.stream);
        }
        whole.uses.end = self.uses.len() as u32;
        (whole.duration, whole.unit) = (Some(tie.span), tie.unit);
        whole.after = after.into_iter().collect();
        let id = self.push(whole);
        self.behind.extend(others.into_iter().map(|stream| (stream, id)));
        for &(rank, _) in &tie.ops {
            let place = &mut self.places[rank];
            place.ops.push(id);
            (place.next, place.tied, place.waits) = (place.next + 1, place.tied + 1, false);
            self.arrive(rank);
        }
        (op.step, op.phase)
    }

    fn finish(self) -> Trace {
        let (mut objects, mut modules) = (Vec::new(), Vec::new());
        for (rank, of) in self.ranks.iter().zip(&self.places) {
            let trace = &rank.of.imported.trace;
            let number = rank.number;
            for (index, object) in trace.objects.iter().enumerate() {
                objects.push(Object {
                    name: named(number, &object.name, index, "object").into(),
                    module: object.module.map(|module| ModuleId(module.0 + of.modules)),
                    freed_after: object.freed_after.map(|op| of.ops[op.index()]),
                    ..object.clone()
                });
            }
            let names = trace.modules.iter().enumerate();
            modules.extend(names.map(|(index, name)| named(number, name, index, "module").into()));
        }
        let meta = meta(self.ranks);
        let mut trace = Trace { meta, modules, objects, ops: self.ops, uses: self.uses };
        trace.number_modules();
        trace
    }
}

fn named(rank: i64, name: &str, index: usize, what: &str) -> String {
    let named = format!("rank {rank}: {name}");
    if named.len() <= LONGEST { named } else { format!("rank {rank}: {what} {index}") }
}

fn meta(ranks: &[Rank<'_>]) -> TraceMeta {
    let first = &ranks[0].of.imported.trace.meta;
    let numbers: Vec<String> = ranks.iter().map(|rank| rank.number.to_string()).collect();
    let numbers = numbers.join(", ");
    let of = ranks[0].of.ranks.map_or(String::new(), |ranks| format!(" of {ranks}"));
    let about = format!(
        "Ranks {numbers}{of}, each as imported alone on streams of its own; a collective is one op \
         of all. One device stands for those of all ranks. Of the first: {}",
        first.about
    );
    let mut on: Vec<&str> = Vec::new();
    for rank in ranks {
        on.push(&rank.of.imported.trace.meta.recorded.on);
    }
    let recorded = Recorded { on: on.join(", "), ..first.recorded.clone() };
    TraceMeta { name: format!("{} and others", first.name), about, recorded, ..first.clone() }
}
