//! What is in a trace, in numbers: the table behind `tiersim trace info`.
//!
//! Everything here is counted straight from the tables, by a scan of its own, so that it can serve
//! as a check of what the planner and the ledger count in their way.
//! Invariant: reads the trace only; two calls give the same text.

mod reuse;
pub(crate) mod shape;
mod text;

pub use reuse::ReuseInfo;
pub use shape::shape;

use serde::Serialize;
use std::collections::BTreeMap;
use tiersim_models::ids::OpId;
use tiersim_models::units::Bytes;
use tiersim_models::workload::{
    Collective, Known, Name, Object, ObjectKind, Op, Phase, Trace, Unit, Use,
};

/// A trace in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceInfo {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub about: String,
    /// With which program it was recorded.
    pub how: String,
    /// When.
    pub when: String,
    /// On which machine.
    pub on: String,
    /// Numeric format.
    pub precision: String,
    /// Sequences per step.
    pub batch: u32,
    /// Tokens per sequence.
    pub sequence: u32,
    /// Rows of `ops.csv`.
    pub ops: usize,
    /// Rows of `objects.csv`.
    pub objects: usize,
    /// Rows of `uses.csv`.
    pub uses: usize,
    /// Of these, such that an import inferred.
    #[serde(skip_serializing_if = "is_zero")]
    pub inferred_uses: u64,
    /// Of these, such that stand in for what an import cannot know.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_uses: u64,
    /// Ops by phase; phases without ops are left out.
    pub phases: Vec<PhaseInfo>,
    /// Ops that do not run on the device, by unit and group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitInfo>,
    /// Objects by kind; kinds without objects are left out.
    pub kinds: Vec<KindInfo>,
    /// What each step does.
    pub steps: Vec<StepInfo>,
    /// The most memory that is in use at once.
    pub peak: PeakInfo,
    /// How much is used between two uses of the same object.
    pub reuse: ReuseInfo,
    /// Modules by bytes of their objects, largest first.
    pub modules: Vec<ModuleInfo>,
}

/// What ops do together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OpsInfo {
    /// How many ops.
    pub ops: u64,
    /// Their recorded durations together.
    pub duration_ns: u64,
    /// Their floating-point operations together.
    pub flops: u128,
    /// The bytes that they read and write.
    pub bytes: u64,
}

/// The ops of one phase, over all steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseInfo {
    /// The phase's word.
    pub phase: &'static str,
    /// Its ops.
    #[serde(flatten)]
    pub all: OpsInfo,
    /// Bytes of objects that its uses read; an op's `bytes` are those that it says itself.
    pub read_bytes: u128,
    /// Bytes of objects that they write.
    pub written_bytes: u128,
}

/// Ops of one unit and, of collectives, one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitInfo {
    /// The word of `unit` in `ops.csv`.
    pub unit: &'static str,
    /// Ranks within a server x servers, such as `8x64`; empty where it is no collective.
    pub group: String,
    /// How many ops.
    pub ops: u64,
    /// The buffers of collectives together.
    pub collective_bytes: u128,
}

/// The objects of one kind, over all steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KindInfo {
    /// The kind's word.
    pub kind: &'static str,
    /// How many objects.
    pub objects: u64,
    /// Their sizes together, as if all were alive at once.
    pub bytes: u64,
    /// Of these, in objects that persist.
    pub persistent_bytes: u64,
    /// Of the peak, in objects of this kind.
    pub bytes_at_peak: u64,
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepInfo {
    /// Its number in the recording.
    pub step: u32,
    /// Its ops.
    #[serde(flatten)]
    pub all: OpsInfo,
    /// Sizes of the objects that it uses, each counted once.
    pub touched_bytes: u64,
}

/// The moment of the most memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeakInfo {
    /// Bytes alive, each object from its first use to its recorded release.
    pub bytes: u64,
    /// The first op during which that is so.
    pub op: u32,
    /// The op's name.
    pub name: String,
    /// The op's step.
    pub step: u32,
    /// The op's phase.
    pub phase: &'static str,
}

/// One module.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModuleInfo {
    /// Its name.
    pub module: String,
    /// Bytes of its objects that persist.
    pub persistent_bytes: u64,
    /// Bytes of its other objects, over all steps.
    pub passing_bytes: u64,
}

/// Counts what is in `trace`, which must have passed [`Trace::problems`].
pub fn info(trace: &Trace) -> TraceInfo {
    let lives = lives(trace);
    let (peak, alive) = peak(trace, &lives);
    let meta = trace.meta.clone();
    TraceInfo {
        name: meta.name,
        about: meta.about,
        how: meta.recorded.how,
        when: meta.recorded.when,
        on: meta.recorded.on,
        precision: meta.precision,
        batch: meta.batch,
        sequence: meta.sequence,
        ops: trace.ops.len(),
        objects: trace.objects.len(),
        uses: trace.uses.len(),
        inferred_uses: known(trace, Known::Inferred),
        unknown_uses: known(trace, Known::Unknown),
        phases: phases(trace),
        units: units(trace),
        kinds: kinds(trace, &alive),
        steps: steps(trace),
        peak,
        reuse: reuse::reuse(trace),
        modules: modules(trace),
    }
}

/// Takes a reference, as serde asks.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn known(trace: &Trace, how: Known) -> u64 {
    trace.uses.iter().filter(|one| one.known == how).count() as u64
}

/// First and last op during which each object is alive; nothing for one that is never used.
fn lives(trace: &Trace) -> Vec<Option<(usize, usize)>> {
    let last_op = trace.ops.len().saturating_sub(1);
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; trace.objects.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        for one in &trace.uses[op.uses.start as usize..op.uses.end as usize] {
            lives[one.object.index()].get_or_insert((index, index)).1 = index;
        }
    }
    for (life, object) in lives.iter_mut().zip(&trace.objects) {
        if object.persistent {
            *life = Some((0, last_op));
        } else if let (Some(life), Some(freed)) = (life, object.freed_after) {
            life.1 = freed.index();
        }
    }
    lives
}

/// The peak, and which objects are alive then.
fn peak(trace: &Trace, lives: &[Option<(usize, usize)>]) -> (PeakInfo, Vec<bool>) {
    let mut change = vec![0i128; trace.ops.len() + 1];
    for (object, life) in trace.objects.iter().zip(lives) {
        if let Some((from, to)) = life.filter(|_| !trace.ops.is_empty()) {
            change[from] += i128::from(object.bytes.get());
            change[to + 1] -= i128::from(object.bytes.get());
        }
    }
    let (mut alive, mut most, mut at) = (0i128, 0i128, 0usize);
    for (index, change) in change.iter().enumerate() {
        alive += change;
        if alive > most {
            (most, at) = (alive, index);
        }
    }
    let within = |life: &Option<(usize, usize)>| life.is_some_and(|(a, b)| a <= at && at <= b);
    let Some(op) = trace.ops.get(at) else {
        return (PeakInfo::default(), vec![false; lives.len()]);
    };
    let peak = PeakInfo {
        bytes: u64::try_from(most).unwrap_or(u64::MAX),
        op: at as u32,
        name: op.name.to_string(),
        step: op.step,
        phase: op.phase.word(),
    };
    (peak, lives.iter().map(within).collect())
}

impl OpsInfo {
    fn of<'a>(all: impl IntoIterator<Item = &'a Op>) -> OpsInfo {
        let (mut sum, mut ps) = (OpsInfo::default(), 0);
        for op in all {
            sum.ops += 1;
            ps += op.duration.map_or(0, |span| span.ps());
            sum.flops += u128::from(op.flops);
            sum.bytes += op.bytes.get();
        }
        OpsInfo { duration_ns: ps / 1000, ..sum }
    }
}

fn phases(trace: &Trace) -> Vec<PhaseInfo> {
    let info = |phase: Phase| {
        let all = OpsInfo::of(trace.ops.iter().filter(|op| op.phase == phase));
        let uses = |of: fn(&Use, Bytes) -> Bytes| {
            let ids = (0..trace.ops.len())
                .map(OpId::at)
                .filter(|&id| trace.ops[id.index()].phase == phase);
            let size = |one: &Use| trace.objects[one.object.index()].bytes;
            let uses = ids.flat_map(|id| trace.uses_of(id));
            uses.map(|one| u128::from(of(one, size(one)).get())).sum()
        };
        let (read_bytes, written_bytes) = (uses(Use::read), uses(Use::written));
        (all.ops > 0).then(|| PhaseInfo { phase: phase.word(), all, read_bytes, written_bytes })
    };
    Phase::ALL.into_iter().filter_map(info).collect()
}

/// By unit and group; empty where all is on the device.
fn units(trace: &Trace) -> Vec<UnitInfo> {
    let mut all: BTreeMap<(&'static str, u32, u32), (u64, u128)> = BTreeMap::new();
    for op in &trace.ops {
        let (name, bytes) = match op.unit {
            Unit::Device => continue,
            Unit::Cpu => (("cpu", 0, 0), 0),
            Unit::Idle => (("idle", 0, 0), 0),
            Unit::Network(Collective { kind, bytes, within, servers, times }) => {
                let all = u128::from(bytes.get()) * u128::from(times);
                ((kind.word(), within, servers), all)
            }
        };
        let (ops, sum) = all.entry(name).or_default();
        *ops += 1;
        *sum += bytes;
    }
    let info = |((unit, within, servers), (ops, collective_bytes))| {
        let group = if within == 0 { String::new() } else { format!("{within}x{servers}") };
        UnitInfo { unit, group, ops, collective_bytes }
    };
    all.into_iter().map(info).collect()
}

fn kinds(trace: &Trace, alive: &[bool]) -> Vec<KindInfo> {
    let info = |kind: ObjectKind| {
        let all = || trace.objects.iter().zip(alive).filter(move |(one, _)| one.kind == kind);
        let bytes = |of: fn(&Object, bool) -> bool| {
            all().filter(|(one, alive)| of(one, **alive)).map(|(one, _)| one.bytes.get()).sum()
        };
        (all().count() > 0).then(|| KindInfo {
            kind: kind.word(),
            objects: all().count() as u64,
            bytes: bytes(|_, _| true),
            persistent_bytes: bytes(|object, _| object.persistent),
            bytes_at_peak: bytes(|_, alive| alive),
        })
    };
    ObjectKind::ALL.into_iter().filter_map(info).collect()
}

fn steps(trace: &Trace) -> Vec<StepInfo> {
    // Per object: one more than the index of the step that touched it last.
    let mut touched = vec![0usize; trace.objects.len()];
    let info = |(index, ops): (usize, &[Op])| {
        let mut first = |object: usize| std::mem::replace(&mut touched[object], index + 1) <= index;
        let uses = &trace.uses[ops[0].uses.start as usize..ops[ops.len() - 1].uses.end as usize];
        let objects = uses.iter().map(|one| one.object.index()).filter(|&object| first(object));
        let touched_bytes = objects.map(|object| trace.objects[object].bytes.get()).sum();
        StepInfo { step: ops[0].step, all: OpsInfo::of(ops), touched_bytes }
    };
    trace.ops.chunk_by(|one, next| one.step == next.step).enumerate().map(info).collect()
}

fn modules(trace: &Trace) -> Vec<ModuleInfo> {
    let new = |name: &Name| ModuleInfo { module: name.to_string(), ..ModuleInfo::default() };
    let mut all: Vec<ModuleInfo> = trace.modules.iter().map(new).collect();
    for object in &trace.objects {
        let Some(module) = object.module else { continue };
        let sum = &mut all[module.index()];
        let bytes = object.bytes.get();
        match object.persistent {
            true => sum.persistent_bytes += bytes,
            false => sum.passing_bytes += bytes,
        }
    }
    // A stable sort: modules of equal size stay in the order of the trace.
    all.sort_by_key(|sum| std::cmp::Reverse(sum.persistent_bytes + sum.passing_bytes));
    all
}

/// What a trace of a test says of itself.
#[cfg(test)]
fn unnamed() -> tiersim_models::workload::TraceMeta {
    tiersim_models::workload::TraceMeta {
        name: String::new(),
        about: String::new(),
        precision: String::new(),
        batch: 1,
        sequence: 1,
        recorded: Default::default(),
    }
}
