//! From a recording to a native trace.
//!
//! In four passes: which ops stay, how the objects are used by these, what the objects are, what
//! the ops are. Modules are numbered as a reader of the written trace would number them.
//! Invariant: rows of `ops` and `objects` keep the recorded order, and every bound that cannot be
//! met is a finding.

use super::Counts;
use super::cost::{bytes, flops};
use super::modules::modules;
use super::raw::{RawKind, RawObject, RawOp, Recording};
use super::words::short_name;
use crate::trace::read::Names;
use crate::trace::tables::Findings;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;
use tiersim_models::diagnostic::Place;
use tiersim_models::ids::{ObjectId, OpId, RankId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, Phase, Recorded, Trace, TraceMeta, Unit, Use,
};

/// Makes the trace; problems of single rows go to `findings`.
pub(super) fn build(recording: &Recording, findings: &mut Findings) -> (Trace, Counts) {
    let mut counts = Counts {
        recorded_ops: recording.ops.len() as u64,
        recorded_objects: recording.objects.len() as u64,
        ..Counts::default()
    };
    let kept = keep(recording, &mut counts);
    let lives = lives(recording, &kept);
    let op_modules = modules(recording, &kept);
    let mut names = Names::default();
    let mut objects = Vec::new();
    let mut ids: Vec<Option<ObjectId>> = vec![None; recording.objects.len()];
    let mut used = BTreeSet::new();
    for (raw, life) in lives.iter().enumerate() {
        let Some(life) = life else {
            match is_step_counter(&recording.objects[raw]) {
                true => counts.step_counters += 1,
                false => counts.unused_objects += 1,
            }
            continue;
        };
        ids[raw] = Some(ObjectId(objects.len() as u32));
        let maker = TraceBuilder { recording, kept: &kept, op_modules: &op_modules };
        objects.push(maker.object(raw, life, &mut used, &mut names, &mut counts));
    }
    counts.kept_ops = kept.len() as u64;
    counts.kept_objects = objects.len() as u64;
    let mut uses = Vec::new();
    let mut ops = Vec::new();
    let start = kept.first().map_or(0, |&first| recording.ops[first].t);
    for (&position, module) in kept.iter().zip(&op_modules) {
        let raw = &recording.ops[position];
        let from = uses.len() as u32;
        push_uses(raw, &ids, &mut uses);
        let mut problem = |(rule, found): (&str, String)| {
            let place = Place { line: position as u64 + 1, column: 0 };
            let remedy = "correct the row, or leave the op out of the recording";
            findings.push(&recording.ops_file, Some(place), rule, found, remedy);
            0
        };
        let at = raw.t.checked_sub(start).and_then(|ns| ns.checked_mul(1000));
        let at = at.unwrap_or_else(|| problem(("t is from the first op on", raw.t.to_string())));
        let span = raw.c.checked_mul(1000);
        let span = span.unwrap_or_else(|| problem(("c is up to 213 days", raw.c.to_string())));
        ops.push(Op {
            step: raw.step,
            phase: raw.phase,
            name: raw.op.as_str().into(),
            module: module.as_deref().and_then(|module| names.id(module)),
            stream: 0,
            rank: RankId(0),
            duration: Some(Span::from_ps(span)),
            flops: flops(raw, &recording.objects).unwrap_or_else(&mut problem),
            bytes: Bytes::new(bytes(raw, &recording.objects).unwrap_or_else(&mut problem)),
            at: Some(Time::from_ps(at)),
            release: None,
            after: Vec::new(),
            unit: Unit::Device,
            kernels: None,
            uses: from..uses.len() as u32,
        });
    }
    let meta = meta(recording, &counts);
    (Trace { meta, modules: names.into_list(), objects, ops, uses }, counts)
}

/// The positions of the ops that touch memory of the model.
fn keep(recording: &Recording, counts: &mut Counts) -> Vec<usize> {
    let counter = |&id: &u32| is_step_counter(&recording.objects[id as usize]);
    let mut kept = Vec::new();
    for (position, op) in recording.ops.iter().enumerate() {
        let name = short_name(&op.op);
        let dropped = if op.view != 0 || name == "_unsafe_view" {
            &mut counts.views
        } else if op.r.is_empty() && op.w.is_empty() {
            &mut counts.marks
        } else if op.r.iter().chain(&op.w).all(counter) {
            &mut counts.step_counter_ops
        } else if name == "_local_scalar_dense" {
            &mut counts.scalar_reads
        } else {
            kept.push(position);
            continue;
        };
        *dropped += 1;
    }
    kept
}

/// One number on the host that counts the optimizer's steps of a parameter.
fn is_step_counter(object: &RawObject) -> bool {
    object.kind == RawKind::OptState && object.name.ends_with(".step") && object.bytes <= 8
}

/// How the kept ops use an object; positions are those in the list of kept ops.
struct Life {
    first: usize,
    last: usize,
    /// Whether the first use overwrites it.
    born: bool,
}

fn lives(recording: &Recording, kept: &[usize]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = Vec::new();
    lives.resize_with(recording.objects.len(), || None);
    for (index, &position) in kept.iter().enumerate() {
        let op = &recording.ops[position];
        let read: BTreeSet<u32> = op.r.iter().copied().collect();
        let with_memory = |id: &&u32| recording.objects[**id as usize].bytes > 0;
        for &id in op.r.iter().chain(&op.w).filter(with_memory) {
            let new = || Life { first: index, last: index, born: !read.contains(&id) };
            lives[id as usize].get_or_insert_with(new).last = index;
        }
    }
    lives
}

fn push_uses(raw: &RawOp, ids: &[Option<ObjectId>], uses: &mut Vec<Use>) {
    let mut modes: BTreeMap<u32, Mode> = raw.r.iter().map(|&id| (id, Mode::Read)).collect();
    for &id in &raw.w {
        modes.entry(id).and_modify(|mode| *mode = Mode::ReadWrite).or_insert(Mode::Write);
    }
    for (id, mode) in modes {
        if let Some(object) = ids[id as usize] {
            uses.push(Use::whole(object, mode));
        }
    }
}

struct TraceBuilder<'a> {
    recording: &'a Recording,
    kept: &'a [usize],
    op_modules: &'a [Option<Rc<str>>],
}

impl TraceBuilder<'_> {
    fn object(
        &self,
        id: usize,
        life: &Life,
        used: &mut BTreeSet<u64>,
        names: &mut Names,
        counts: &mut Counts,
    ) -> Object {
        let raw = &self.recording.objects[id];
        let first = &self.recording.ops[self.kept[life.first]];
        let outlives =
            !matches!(raw.kind, RawKind::Tmp | RawKind::Grad | RawKind::Kv) && raw.death.is_none();
        let persistent = outlives || !life.born;
        counts.made_persistent += u64::from(persistent && !outlives);
        counts.never_freed += u64::from(!persistent && raw.death.is_none());
        let mut name = match raw.kind {
            RawKind::Tmp => format!("{}.{id}", short_name(&first.op)),
            RawKind::Kv => format!("{}.step{}", raw.name, first.step),
            RawKind::Grad => format!("{}.grad.step{}", raw.name, first.step),
            _ if raw.name.is_empty() => format!("object.{id}"),
            _ => raw.name.clone(),
        };
        // Hashes, for there may be millions; two names of one hash cost one of them a number more.
        if !used.insert(hash(&name)) {
            name = format!("{name}.{id}");
            used.insert(hash(&name));
        }
        let module = match raw.kind {
            RawKind::Param | RawKind::Grad | RawKind::OptState => {
                raw.owner.as_deref().filter(|owner| !owner.is_empty())
            }
            RawKind::Tmp | RawKind::Kv => self.op_modules[life.first].as_deref(),
            RawKind::Input | RawKind::Buffer => None,
        };
        Object {
            name: name.into(),
            kind: match raw.kind {
                RawKind::Param => ObjectKind::Weight,
                RawKind::Grad => ObjectKind::Gradient,
                RawKind::OptState => ObjectKind::Optimizer,
                RawKind::Kv => ObjectKind::Kv,
                RawKind::Tmp if first.phase.is_forward() => ObjectKind::Activation,
                RawKind::Tmp | RawKind::Input | RawKind::Buffer => ObjectKind::Buffer,
            },
            bytes: Bytes::new(raw.bytes),
            dtype: raw.dtype.to_owned(),
            persistent,
            module: module.and_then(|module| names.id(module)),
            statistics: raw.statistics.as_ref().map(|known| known.last).unwrap_or_default(),
            history: raw.statistics.as_ref().and_then(|known| known.history.clone()),
            freed_after: if persistent { None } else { Some(self.freed_after(raw, life)) },
        }
    }

    /// The last kept op that ran before the object was freed.
    fn freed_after(&self, raw: &RawObject, life: &Life) -> OpId {
        let death = raw.death.unwrap_or(u64::MAX);
        let before = self.kept.partition_point(|&position| (position as u64) < death);
        OpId(before.saturating_sub(1).max(life.last) as u32)
    }
}

/// The same on every run: the hasher has no key.
fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// Whether nothing is trained.
fn is_inference(recording: &Recording) -> bool {
    recording.ops.iter().all(|op| matches!(op.phase, Phase::Prefill | Phase::Decode))
}

fn meta(recording: &Recording, counts: &Counts) -> TraceMeta {
    let run = &recording.run;
    let or = |text: &str, instead: &str| {
        if text.is_empty() { instead.to_owned() } else { text.to_owned() }
    };
    let precision = match run.dtype.as_str() {
        "float32" => "fp32",
        "float16" => "fp16",
        "bfloat16" => "bf16",
        "float64" => "fp64",
        other => other,
    };
    let mut known = recording.objects.iter().filter_map(|object| object.statistics.as_ref());
    let norms = match known.any(|known| known.last.grad_norm.is_some()) {
        true => " Gradient norms are derived from Adam's second moment.",
        false => "",
    };
    let about = format!(
        "{}, {}; one row per aten op, durations are CPU time of the recording's thread. {counts}.{norms}",
        or(&run.model, "a model"),
        or(&run.optimizer, if is_inference(recording) { "inference" } else { "an optimizer" })
    );
    let threads =
        if run.threads > 0 { format!(", threads: {}", run.threads) } else { String::new() };
    TraceMeta {
        name: run.name.clone(),
        about,
        precision: precision.to_owned(),
        batch: run.batch,
        sequence: run.seq,
        recorded: Recorded {
            how: format!("op recorder on PyTorch {}", or(&run.torch, "of unknown version")),
            when: or(&run.date, "not stated"),
            on: format!("{}{threads}; {}", or(&run.cpu.join(", "), "unknown CPU"), run.device),
        },
    }
}
