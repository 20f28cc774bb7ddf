//! The attributes of nodes: those that other programs read, and those that are our own.
//!
//! Invariant: what an attribute of others says exactly is in none of ours.

use super::order::Side;
use crate::import::chakra::said::{self, names, text};
use crate::import::chakra::wire::{Attribute, Value, Values};
use crate::trace::group_text;
use std::collections::BTreeMap;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::ids::OpId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Object, Op, Trace, Unit};

/// Attributes that other programs read, of the types that they expect.
pub(super) fn public(op: &Op, host: bool, groups: &BTreeMap<(u32, u32), String>) -> Vec<Attribute> {
    let number = |name, value: u64| {
        Attribute::new(name, Value::Int64(i64::try_from(value).unwrap_or(i64::MAX)))
    };
    let size = Value::Uint64(op.bytes.get());
    let mut attr = vec![
        on_host(host),
        number("num_ops", num_ops(op)),
        Attribute::new("tensor_size", size),
        number("tid", op.stream.into()),
    ];
    let Unit::Network(of) = op.unit else { return attr };
    if of.kind != CollectiveKind::SendRecv {
        attr.push(number("comm_type", comm_type(of.kind)));
    }
    attr.push(number("comm_size", comm_size(of)));
    attr.push(number("group_size", of.ranks()));
    attr.push(text("pg_name", &groups[&(of.within, of.servers)]));
    attr
}

/// FLOPs; 1 for an op that has bytes alone, since readers divide by it for a roofline.
fn num_ops(op: &Op) -> u64 {
    let least = u64::from(op.bytes > Bytes::ZERO);
    op.flops.max(least).min(i64::MAX as u64)
}

/// `CollectiveCommType`.
fn comm_type(kind: CollectiveKind) -> u64 {
    match kind {
        CollectiveKind::AllReduce => 0,
        CollectiveKind::AllGather => 2,
        CollectiveKind::Broadcast | CollectiveKind::SendRecv => 5,
        CollectiveKind::AllToAll => 6,
        CollectiveKind::ReduceScatter => 7,
    }
}

/// What goes in on one rank, of all that follow one another.
fn comm_size(of: Collective) -> u64 {
    let one = match of.kind {
        CollectiveKind::AllGather => of.bytes.get().div_ceil(of.ranks()),
        _ => of.bytes.get(),
    };
    one.saturating_mul(of.times.into())
}

pub(super) fn on_host(yes: bool) -> Attribute {
    Attribute::new("is_cpu_op", Value::Bool(yes))
}

/// An id or another number of 32 bits.
pub(super) fn small(name: &str, number: usize) -> Attribute {
    // A table has fewer than 2^32 rows.
    Attribute::new(name, Value::Uint32(number as u32))
}

/// What an object is.
pub(super) fn of_object(id: usize, object: &Object) -> Vec<Attribute> {
    let mut attr = vec![
        small(names::OBJECT_ID, id),
        text(names::KIND, object.kind.word()),
        Attribute::new(names::BYTES, Value::Uint64(object.bytes.get())),
    ];
    if !object.dtype.is_empty() {
        attr.push(text(names::DTYPE, &object.dtype));
    }
    if object.persistent {
        attr.push(Attribute::new(names::PERSISTENT, Value::Bool(true)));
    }
    attr.extend(object.module.map(|module| small(names::MODULE, module.index())));
    attr.extend(object.freed_after.map(|op| small(names::FREED_AFTER, op.index())));
    let statistics = &object.statistics;
    let reals = [
        (names::ADAM_M, statistics.adam_m),
        (names::ADAM_V, statistics.adam_v),
        (names::GRAD_NORM, statistics.grad_norm),
    ];
    let known = reals.into_iter().filter_map(|(name, value)| Some((name, value?)));
    attr.extend(known.map(|(name, value)| Attribute::new(name, Value::Double(value))));
    attr
}

/// What of an op its other attributes do not say.
pub(super) fn private(trace: &Trace, id: OpId, micros: u64) -> Vec<Attribute> {
    let op = &trace.ops[id.index()];
    let large = |name, number| Attribute::new(name, Value::Uint64(number));
    let mut attr = vec![
        small(names::OP_ID, id.index()),
        small(names::STEP, op.step as usize),
        text(names::PHASE, op.phase.word()),
    ];
    attr.extend(op.module.map(|module| small(names::MODULE, module.index())));
    if let Some(span) = op.duration {
        // Less than a microsecond, or one, as stretches of a stream are rounded.
        let rest = i128::from(span.ps()) - i128::from(micros) * 1_000_000;
        attr.push(Attribute::new(names::REST_PS, Value::Sint64(rest as i64)));
    }
    if num_ops(op) != op.flops {
        attr.push(large(names::FLOPS, op.flops));
    }
    attr.extend(op.at.map(|time| large(names::AT_PS, time.ps())));
    attr.extend(op.release.map(|time| large(names::RELEASE_PS, time.ps())));
    if !op.after.is_empty() {
        attr.push(text(names::AFTER, said::after_text(&op.after)));
    }
    match op.unit {
        Unit::Idle => attr.push(text(names::UNIT, said::IDLE)),
        Unit::Network(of) => {
            attr.push(large(names::COLLECTIVE_BYTES, of.bytes.get()));
            attr.push(text(names::GROUP, group_text(of)));
        }
        Unit::Device | Unit::Cpu => {}
    }
    if let Some(kernels) = &op.kernels {
        attr.push(text(names::KERNELS, said::kernels_text(kernels)));
    }
    let uses = trace.uses_of(id);
    if !uses.is_empty() {
        attr.push(text(names::USES, said::uses_text(uses)));
    }
    attr
}

/// What an op reads and what it writes, as PyTorch's converter lists tensors: `[tensor, storage,
/// offset, numbers, bytes of a number, device]`.
pub(super) fn tensors(trace: &Trace, id: OpId, side: Side) -> (Option<Values>, Option<Values>) {
    let device = if side == Side::Host { "cpu" } else { "cuda:0" };
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for one in trace.uses_of(id) {
        let object = &trace.objects[one.object.index()];
        let (number, bytes) = (u64::from(one.object.0) + 1, object.bytes.get());
        let of = number_bytes(object);
        let tensor = format!("[{number}, {number}, 0, {}, {of}, '{device}']", bytes / of);
        if one.mode.reads() {
            read.push(tensor.clone());
        }
        if one.mode.writes() {
            written.push(tensor);
        }
    }
    let values = |all: Vec<String>| {
        (!all.is_empty()).then(|| Values { values: format!("[{}]", all.join(", ")) })
    };
    (values(read), values(written))
}

/// Bytes of a number, by the digits of the type's name, if so many make up the object; else 1.
fn number_bytes(object: &Object) -> u64 {
    let name = object.dtype.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let bytes = match name {
        "16" => 2,
        "32" => 4,
        "64" => 8,
        _ => 1,
    };
    if object.bytes.get().is_multiple_of(bytes) { bytes } else { 1 }
}
