//! Random traces: objects and ops that a recorder could have written.
//!
//! Invariant: what is drawn breaks no rule of a trace ([`Trace::problems`]).

use super::dice::Dice;
use crate::prelude::*;
use crate::setting::turning;
use crate::world::uses;

/// Few worlds are large: they take as long as a hundred small ones.
fn counts(dice: &mut Dice) -> (u64, u64) {
    match dice.below(1000) {
        0..2 => (dice.log(20..=200), dice.log(100..=1000)),
        2..100 => (dice.log(2..=40), dice.log(20..=80)),
        _ => (dice.log(1..=16), dice.log(1..=31)),
    }
}

/// A trace of one to three streams (rarely more).
pub(super) fn trace(dice: &mut Dice) -> Trace {
    let (objects, ops) = counts(dice);
    let mut traced = Traced::new();
    let modules = dice.within(1..=5);
    traced.0.modules = (0..modules).map(|module| format!("m{module}").into()).collect();
    add_objects(dice, &mut traced, objects);
    let streams = if dice.chance(10) { dice.within(4..=8) } else { dice.within(1..=3) } as usize;
    let mut born: Vec<bool> = traced.0.objects.iter().map(|object| object.persistent).collect();
    let longest = dice.pick(&[0, 100, 1_000_000, 100_000_000, 10_000_000_000]);
    let (mut step, mut phase) = (0, dice.pick(&Phase::ALL));
    for _ in 0..ops {
        step += u32::from(dice.chance(7));
        if dice.chance(25) {
            phase = dice.pick(&Phase::ALL);
        }
        let draws = dice.pick(&[0, 1, 1, 2, 2, 3, 5]);
        let modes = [Mode::Read, Mode::Read, Mode::Write, Mode::ReadWrite];
        let uses = uses(&mut dice.0, draws, &mut born, &modes);
        let span = if longest == 0 { Span::ZERO } else { dice.span(longest) };
        let id = traced.op(step, dice.below(streams) as u16, span, &uses);
        let op = &mut traced.0.ops[id.index()];
        op.phase = phase;
        op.module = dice.chance(70).then(|| ModuleId::at(dice.below(modules as usize)));
        op.flops = dice.log(1..=1 << 40);
        op.bytes = dice.bytes(1..=1 << 32);
        if id.0 > 0 && dice.chance(10) {
            op.after.push(OpId(dice.below(id.index()) as u32));
        }
    }
    free_late(dice, &mut traced.0);
    traced.0
}

fn add_objects(dice: &mut Dice, traced: &mut Traced, count: u64) {
    let most = dice.pick(&[1, 1000, 1 << 16, 1 << 20, 32 << 20, 1 << 30]);
    let ties = dice.chance(25).then(|| dice.log(1..=most));
    let persistent = dice.pick(&[0, 30, 60, 100]);
    let modules = traced.0.modules.len();
    for _ in 0..count {
        let bytes = ties.filter(|_| dice.chance(70)).unwrap_or_else(|| dice.log(1..=most));
        let persists = dice.chance(persistent);
        let id = traced.object(bytes, persists);
        let object = &mut traced.0.objects[id.index()];
        object.kind = dice.pick(&ObjectKind::ALL);
        object.module = dice.chance(80).then(|| ModuleId::at(dice.below(modules)));
        if object.kind == ObjectKind::Weight {
            let mut score = || Some(dice.below(4) as f64 / 4.0);
            object.statistics = Statistics { adam_m: score(), adam_v: score(), grad_norm: score() };
            object.history = turning(object.statistics);
        }
    }
}

/// Some memory is given back later than it is used last.
fn free_late(dice: &mut Dice, trace: &mut Trace) {
    if !dice.chance(30) {
        return;
    }
    let mut last = vec![None; trace.objects.len()];
    for op in 0..trace.ops.len() {
        let uses = trace.uses_of(OpId::at(op));
        uses.iter().for_each(|touched| last[touched.object.index()] = Some(op));
    }
    for (object, last) in trace.objects.iter_mut().zip(last) {
        if let Some(last) = last.filter(|_| !object.persistent && dice.chance(40)) {
            let op = dice.within(last as u64..=trace.ops.len() as u64 - 1);
            object.freed_after = Some(OpId(op as u32));
        }
    }
}

/// Some ops may not start before a moment, in a run of one replay; in any order, as nothing says
/// that what comes first in a stream is released first. Drawn last, so that a world without is as
/// it was.
pub(super) fn release(dice: &mut Dice, trace: &mut Trace, repeat: u32) {
    if repeat > 1 || !dice.chance(20) {
        return;
    }
    let share = dice.pick(&[5, 30, 100]);
    let latest = dice.pick(&[1_000, 1_000_000, 100_000_000, 10_000_000_000]);
    for op in &mut trace.ops {
        op.release = dice.chance(share).then(|| Time::ZERO + dice.span(latest));
    }
}

/// The first `ops` ops of a trace, as a trace.
pub(super) fn first(trace: &mut Trace, ops: usize) {
    trace.ops.truncate(ops);
    let uses = trace.ops.last().map_or(0, |op| op.uses.end);
    trace.uses.truncate(uses as usize);
    for object in &mut trace.objects {
        object.freed_after = object.freed_after.filter(|freed| freed.index() < ops);
    }
}

/// Bytes of all objects, and the most that one op uses.
pub(super) fn sums(trace: &Trace) -> (Bytes, Bytes) {
    let bytes = |object: ObjectId| trace.objects[object.index()].bytes;
    let all = trace.objects.iter().map(|object| object.bytes).sum();
    let of_op = |op| trace.uses_of(OpId::at(op)).iter().map(|used| bytes(used.object)).sum();
    (all, (0..trace.ops.len()).map(of_op).max().unwrap_or(Bytes::ZERO))
}
