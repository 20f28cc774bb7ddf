//! The trace, of all that was worked out.
//!
//! Invariant: what is returned has passed `Trace::problems`; its persistent objects are as large as
//! what the allocator had given before the file begins.

use super::account::Account;
use super::host::{Host, Sequences};
use super::items::{Items, device_items, host_items};
use super::join::{Joined, join};
use super::memory::Memory;
use super::meta::meta;
use super::modules::Modules;
use super::order::{Order, order};
use super::profile::profile;
use super::state::{Of, State};
use super::steps::Steps;
use super::tables::{Tables, Work};
use super::{Built, Gaps, Imported};
use crate::import::execution::Tensors;
use crate::trace::tables::Findings;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Known, Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta, Unit, Use,
};

/// What nothing is known of is cut into pieces of this size, so that policies may move some of it.
const STATE_PIECE: u64 = 64 << 20;

/// Makes the trace, of `device` or else of the one that did the most.
///
/// # Errors
/// That nothing ran, or that the trace would break a rule.
pub(super) fn build(
    path: &Path,
    tables: &Tables,
    gaps: Gaps,
    (mended, tensors): (u64, Option<&Tensors>),
    device: Option<i64>,
) -> Result<Built, Diagnostics> {
    let host = Host::new(tables);
    let sequences = Sequences::new(tables, &host);
    let items = match tables.activities.is_empty() {
        true => host_items(tables, &host),
        false => device_items(tables, &host, device),
    };
    if items.list.is_empty() {
        let rule = "a trace of the PyTorch profiler holds kernels, copies or ops that ran";
        return Err(match nothing(tables) {
            Some(found) => Diagnostics::one(path, None, rule, found, "check what wrote the file"),
            None => {
                let found = format!("{} events, none of which is any of these", tables.events);
                let remedy =
                    "profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]";
                Diagnostics::one(path, None, rule, found, remedy)
            }
        });
    }
    let steps = Steps::new(tables, &host, &items.list);
    let order = order(tables, &items.list, gaps)
        .map_err(|rule| Diagnostics::one(path, None, rule, "", "check what the file is"))?;
    let memory = Memory::new(tables, &items);
    let state = State::new((tables, &host, &sequences), &items, &steps, &memory);
    let modules = Modules::new(tables, &host, &sequences, &items.list);
    let mut account = count((tables, &host), &items, &memory, mended);
    account.order(&order, tables.source);
    account.steps(&steps, tables.source);
    account.modules(modules.from);
    let mut made = Made::new(&items, &order, &steps, &modules);
    let mut asked = Vec::new();
    let of = (tables, &host);
    match tensors.map(|tensors| join(path, of, &items.list, tensors)).transpose()? {
        Some(mut joined) => {
            asked = std::mem::take(&mut joined.asked);
            made.tensors(joined, &mut account);
        }
        None => {
            let of_several = device.is_some() && items.elsewhere > 0;
            made.persistent(&memory, (&state, of_several), &modules, &mut account);
            made.pieces(tables, &host, &memory, &steps, &state);
            made.state_uses(&state, &memory);
        }
    }
    let meta = meta(path, tables, gaps, &account);
    let (trace, op_of) = made.finish(tables, &modules, meta, &mut account);
    let mut findings = Findings::default();
    findings.unsound(path, &trace);
    if !findings.is_empty() {
        return Err(findings.finish());
    }
    Ok(Built { imported: Imported { trace, account }, host, items, op_of, asked })
}

/// What a file holds of which everything that would make a trace was left out, and why.
fn nothing(tables: &Tables) -> Option<String> {
    let why = [
        (tables.timeless, "have no usable time"),
        (tables.sizeless, "are copies and fills whose bytes cannot be read"),
    ];
    let why = why.iter().filter(|(count, _)| *count > 0);
    let why: Vec<String> = why.map(|(count, why)| format!("{count} {why}")).collect();
    let left = format!("{} events, of which {}: these are left out", tables.events, why.join(", "));
    (!why.is_empty()).then_some(left)
}

fn count((tables, host): (&Tables, &Host), items: &Items, memory: &Memory, mended: u64) -> Account {
    let device = items.device.map(|number| match tables.devices.get(&number) {
        Some((name, _)) => format!("device {number} ({name})"),
        None => format!("device {number}"),
    });
    let sum = |sum: u64, bytes: u64| sum.saturating_add(bytes);
    let mut account = Account {
        events: tables.events,
        missing: tables.missing.clone(),
        processes: tables.elsewhere,
        mended,
        timeless: tables.timeless,
        sizeless: tables.sizeless,
        device,
        lost: items.lost,
        elsewhere: items.elsewhere,
        objects: (
            memory.pieces.len() as u64,
            memory.pieces.iter().map(|piece| piece.bytes).fold(0, sum),
        ),
        from_before: memory.pieces.iter().filter(|piece| piece.given.is_none()).count() as u64,
        between: memory.between,
        peak: memory.peak,
        before: memory.before,
        sum_gaps: memory.gaps,
        other_memory: memory.elsewhere,
        profile: profile(tables, host, items),
        ..Account::default()
    };
    for item in &items.list {
        if item.work == Work::Kernel {
            account.kernels.0 += 1;
            account.kernels.1 = sum(account.kernels.1, item.span);
        } else {
            let name = tables.names.get(item.name).to_owned();
            let of = account.copies.entry(name).or_default();
            *of = (of.0 + 1, sum(of.1, item.bytes), sum(of.2, item.span));
        }
    }
    account
}

/// Objects and uses of the trace to be.
struct Made<'a> {
    items: &'a Items,
    order: &'a Order,
    steps: &'a Steps,
    modules: &'a Modules,
    objects: Vec<Object>,
    /// By object: the item after which it is freed.
    deaths: Vec<Option<u32>>,
    /// Item, object, how, and how that is known.
    uses: Vec<(u32, u32, Mode, Known)>,
    /// By parameter: the objects of the parameter, of its gradient, of its optimizer state.
    of_parameter: Vec<[Option<u32>; 3]>,
    /// The object of the first piece.
    first_piece: u32,
}

impl<'a> Made<'a> {
    fn new(items: &'a Items, order: &'a Order, steps: &'a Steps, modules: &'a Modules) -> Made<'a> {
        let (objects, deaths, uses) = (Vec::new(), Vec::new(), Vec::new());
        let (of_parameter, first_piece) = (Vec::new(), 0);
        Made { items, order, steps, modules, objects, deaths, uses, of_parameter, first_piece }
    }

    fn object(&mut self, object: Object, death: Option<u32>) -> u32 {
        self.objects.push(object);
        self.deaths.push(death);
        self.objects.len() as u32 - 1
    }

    /// Objects and uses of an execution trace.
    fn tensors(&mut self, joined: Joined, account: &mut Account) {
        account.joined = Some((joined.found.0, joined.found.1, joined.by));
        account.tensors.0 = joined.objects.len() as u64;
        for object in joined.objects {
            account.tensors.1 = account.tensors.1.saturating_add(object.bytes.get());
            self.object(object, None);
        }
        let seen = joined.uses.into_iter();
        self.uses.extend(seen.map(|(item, object, mode)| (item, object, mode, Known::Seen)));
    }

    fn persistent(
        &mut self,
        memory: &Memory,
        (state, of_several): (&State, bool),
        modules: &Modules,
        account: &mut Account,
    ) {
        // A device's allocator counts from its start, the host's from that of the profiler.
        let counted = self.items.device.is_some() && memory.peak > 0;
        let mut left = if counted { memory.before } else { u64::MAX };
        account.parameters_by = match state.from_memory {
            true => "gradients that were added or kept",
            false => "shapes of gradients",
        };
        let mut fit = |bytes: u64| {
            let fits = bytes <= left;
            left -= if fits { bytes } else { 0 };
            fits
        };
        for (index, parameter) in state.parameters.iter().enumerate() {
            let module = parameter.read.or(parameter.made);
            let module = module.and_then(|item| modules.of[item as usize]);
            let object = |name: String, kind, bytes| Object {
                persistent: true,
                module,
                ..Object::new(name, kind, Bytes::new(bytes))
            };
            self.of_parameter.push([None; 3]);
            // What nothing here reads forward and made no gradient of is another device's.
            if of_several && parameter.read.or(parameter.made).is_none() {
                continue;
            }
            if !fit(parameter.bytes) {
                account.parameters_left_out += 1;
                continue;
            }
            account.parameters.0 += 1;
            account.parameters.1 += parameter.bytes;
            let name = format!("parameter {index}");
            let weight = object(name.clone(), ObjectKind::Weight, parameter.bytes);
            self.of_parameter[index][0] = Some(self.object(weight, None));
            if state.gradients_stay && fit(parameter.bytes) {
                account.gradients += parameter.bytes;
                let name = format!("{name}.grad");
                let gradient = object(name, ObjectKind::Gradient, parameter.bytes);
                self.of_parameter[index][1] = Some(self.object(gradient, None));
            }
            let moments = parameter.bytes.saturating_mul(state.moments);
            if moments > 0 && fit(moments) {
                account.optimizer.0 += moments;
                let moments = object(format!("{name}.state"), ObjectKind::Optimizer, moments);
                self.of_parameter[index][2] = Some(self.object(moments, None));
            }
        }
        account.optimizer.1 = state.optimizer.clone().unwrap_or_default();
        if counted {
            account.unknown = left;
            for index in 0..left.div_ceil(STATE_PIECE) {
                let bytes = Bytes::new((left - index * STATE_PIECE).min(STATE_PIECE));
                let name = format!("state before the recording, part {index}");
                let object = Object::new(name, ObjectKind::State, bytes);
                self.object(Object { persistent: true, ..object }, None);
            }
        }
    }

    fn pieces(
        &mut self,
        tables: &Tables,
        host: &Host,
        memory: &Memory,
        steps: &Steps,
        state: &State,
    ) {
        self.first_piece = self.objects.len() as u32;
        let moments: Vec<(u32, i64)> = memory
            .pieces
            .iter()
            .map(|piece| piece.given.or(piece.taken).expect("an event made it"))
            .map(|change| &memory.changes[change as usize])
            .map(|change| (change.thread, change.at))
            .collect();
        let mut gradients = vec![false; memory.pieces.len()];
        for &piece in state.gradients.values().flatten() {
            gradients[piece as usize] = true;
        }
        let givers = host.innermost(tables, &moments);
        for (index, (piece, giver)) in memory.pieces.iter().zip(givers).enumerate() {
            let (birth, death) = (piece.birth as usize, piece.death as usize);
            let kind = match (steps.phase[birth], steps.phase[death]) {
                _ if gradients[index] => ObjectKind::Gradient,
                (Phase::Forward, Phase::Backward) => ObjectKind::Activation,
                _ => ObjectKind::Buffer,
            };
            let op = giver_name(tables, host, giver);
            let mut name = format!("{op} {index}");
            if name.len() > 256 {
                name = format!("object {index}");
            }
            let object = Object {
                module: self.modules.of[birth],
                ..Object::new(name, kind, Bytes::new(piece.bytes))
            };
            let id = self.object(object, Some(piece.death));
            let known = if piece.given.is_some() { Known::Inferred } else { Known::Unknown };
            self.uses.push((piece.birth, id, Mode::Write, known));
            if death > birth && piece.taken.is_some() {
                self.uses.push((piece.death, id, Mode::Read, Known::Inferred));
            }
        }
    }

    fn state_uses(&mut self, state: &State, memory: &Memory) {
        for &(item, of, mode) in &state.uses {
            let (parameter, role) = match of {
                Of::Weight(parameter) => (parameter, 0),
                Of::Gradient(parameter) => (parameter, 1),
                Of::Optimizer(parameter) => (parameter, 2),
            };
            let object = self.of_parameter[parameter as usize][role].or_else(|| {
                let pieces = state.gradients.get(&parameter).filter(|_| role == 1)?;
                let lives = |&&piece: &&u32| {
                    let piece = &memory.pieces[piece as usize];
                    piece.birth < item && item <= piece.death
                };
                pieces.iter().rev().find(lives).map(|piece| self.first_piece + piece)
            });
            if let Some(object) = object {
                self.uses.push((item, object, mode, Known::Inferred));
            }
        }
    }

    /// Uses by item and object, each object once per item; without those that recorded times
    /// contradict.
    fn settled(&mut self, account: &mut Account) -> Vec<(u32, u32, Mode, Known)> {
        let mut uses = std::mem::take(&mut self.uses);
        uses.sort_by_key(|&(item, object, ..)| (item, object));
        uses.dedup_by(|next, first| {
            let same = (next.0, next.1) == (first.0, first.1);
            if same && next.2 != first.2 {
                first.2 = Mode::ReadWrite;
            }
            same
        });
        // By object: when it was last written, and last used, by the recorded times.
        let mut written = vec![i64::MIN; self.objects.len()];
        let mut used = vec![i64::MIN; self.objects.len()];
        uses.retain(|&(item, object, mode, _)| {
            let item = &self.items.list[item as usize];
            let object = object as usize;
            let since = if mode.writes() { used[object] } else { written[object] };
            if item.start < since {
                account.contradicted += 1;
                return false;
            }
            used[object] = used[object].max(item.end());
            if mode.writes() {
                written[object] = item.end();
            }
            true
        });
        uses
    }

    fn finish(
        mut self,
        tables: &Tables,
        modules: &Modules,
        meta: TraceMeta,
        account: &mut Account,
    ) -> (Trace, Vec<OpId>) {
        let settled = self.settled(account);
        let mut next = settled.iter().peekable();
        let mut ops: Vec<Op> = Vec::with_capacity(self.items.list.len());
        let mut uses: Vec<Use> = Vec::with_capacity(settled.len());
        let mut op_of: Vec<OpId> = Vec::with_capacity(self.items.list.len());
        for (index, item) in self.items.list.iter().enumerate() {
            let place = &self.order.places[index];
            let (step, phase) = (self.steps.step[index], self.steps.phase[index]);
            let mut after: Vec<OpId> = place.after.iter().map(|&id| op_of[id as usize]).collect();
            if place.idle > 0 {
                let end = uses.len() as u32;
                let idle = Span::from_ps(place.idle);
                account.idle_ops += 1;
                ops.push(Op {
                    stream: place.lane,
                    duration: Some(idle),
                    at: Some(Time::from_ps(place.at - place.idle)),
                    after: std::mem::take(&mut after),
                    unit: Unit::Idle,
                    ..Op::new(step, phase, "gap", end..end)
                });
            }
            let start = uses.len() as u32;
            while let Some(&(_, object, mode, known)) = next.next_if(|one| one.0 == index as u32) {
                account.uses[known as usize] += 1;
                uses.push(Use { known, ..Use::whole(ObjectId(object), mode) });
            }
            op_of.push(OpId::at(ops.len()));
            ops.push(Op {
                module: modules.of[index],
                stream: place.lane,
                duration: Some(Span::from_ps(item.span)),
                flops: item.flops,
                bytes: Bytes::new(item.bytes),
                at: Some(Time::from_ps(place.at)),
                after,
                ..Op::new(step, phase, tables.names.get(item.name), start..uses.len() as u32)
            });
        }
        for (object, death) in self.objects.iter_mut().zip(&self.deaths) {
            object.freed_after = death.map(|item| op_of[item as usize]);
        }
        let (modules, objects) = (modules.names.clone(), self.objects);
        let mut trace = Trace { meta, modules, objects, ops, uses };
        // Ranges that only hold others are the module of nothing.
        trace.number_modules();
        (trace, op_of)
    }
}

/// The op that asked for memory: the innermost that does more than that.
fn giver_name<'a>(tables: &'a Tables, host: &Host, range: u32) -> &'a str {
    const ONLY_ASK: [&str; 5] =
        ["aten::empty", "aten::resize_", "aten::new_empty", "aten::zeros", "aten::ones"];
    let (mut at, mut name) = (range, "object");
    for _ in 0..4 {
        let Some(range) = tables.ranges.get(at as usize) else { break };
        name = tables.names.get(range.name);
        if !ONLY_ASK.iter().any(|begin| name.starts_with(begin)) {
            break;
        }
        at = host.of(at).parent;
    }
    name
}
