//! Small random workloads and machines, and plans of them that nobody runs.

use tiersim_models::hardware::{Hardware, Law, Link, Tier, TierKind};
use tiersim_models::ids::{ModuleId, NodeId, ObjectId};
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bandwidth, Bytes, Span};
use tiersim_models::workload::{
    Mode, Object, ObjectKind, Op, Phase, Statistics, Trace, TraceMeta, Use,
};
use tiersim_policies::command::{Command, Work};
use tiersim_policies::planner::Planner;
use tiersim_policies::policy::Policy;
use tiersim_policies::recipe::Setting;

/// A sequence of numbers from a seed (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }
}

pub(crate) fn trace() -> Trace {
    let meta =
        TraceMeta { name: "test".to_owned(), precision: "fp32".to_owned(), ..TraceMeta::default() };
    Trace { meta, modules: Vec::new(), objects: Vec::new(), ops: Vec::new(), uses: Vec::new() }
}

/// Adds an object of a module that is named so.
pub(crate) fn object(
    trace: &mut Trace,
    module: &str,
    kind: ObjectKind,
    bytes: u64,
    persistent: bool,
) -> ObjectId {
    let id = ObjectId::at(trace.objects.len());
    let known = trace.modules.iter().position(|name| name == module);
    let at = known.unwrap_or_else(|| {
        trace.modules.push(module.into());
        trace.modules.len() - 1
    });
    trace.objects.push(Object {
        dtype: "uint8".to_owned(),
        persistent,
        module: Some(ModuleId::at(at)),
        ..Object::new(format!("{module}.{}", id.0), kind, Bytes::new(bytes))
    });
    id
}

pub(crate) fn op(trace: &mut Trace, uses: &[(ObjectId, Mode)]) {
    let start = trace.uses.len() as u32;
    trace.uses.extend(uses.iter().map(|&(object, mode)| Use::whole(object, mode)));
    let end = trace.uses.len() as u32;
    let duration = Some(Span::from_ps(10));
    trace.ops.push(Op { duration, ..Op::new(0, Phase::Forward, "op", start..end) });
}

/// Some objects of any kind, and ops that use up to four of them.
pub(crate) fn random_trace(dice: &mut Dice, most_objects: u64) -> Trace {
    let mut trace = trace();
    for index in 0..2 + dice.below(most_objects - 1) {
        let kind = ObjectKind::ALL[dice.below(7) as usize];
        let persistent = dice.below(2) == 0;
        let module = format!("h.{}.{}", index % 3, ["a", "b"][dice.below(2) as usize]);
        let id = object(&mut trace, &module, kind, 1 + dice.below(100), persistent);
        let mut number = || Some(dice.below(1000) as f64 / 1000.0);
        trace.objects[id.index()].statistics =
            Statistics { adam_m: number(), adam_v: number(), grad_norm: number() };
    }
    let mut born: Vec<bool> = trace.objects.iter().map(|object| object.persistent).collect();
    for _ in 0..3 + dice.below(20) {
        let mut uses: Vec<(ObjectId, Mode)> = Vec::new();
        for _ in 0..1 + dice.below(4) {
            let id = ObjectId::at(dice.below(trace.objects.len() as u64) as usize);
            let mode = [Mode::Read, Mode::Write, Mode::ReadWrite][dice.below(3) as usize];
            // What is created is written first.
            let mode = if born[id.index()] { mode } else { Mode::Write };
            if uses.iter().all(|(other, _)| *other != id) {
                uses.push((id, mode));
            }
        }
        uses.iter().for_each(|(id, _)| born[id.index()] = true);
        op(&mut trace, &uses);
    }
    trace
}

/// HBM and the tiers of these kinds and sizes, each behind a link of its own.
pub(crate) fn hardware(hbm: u64, others: &[(TierKind, u64)]) -> Hardware {
    let law =
        |rate| Law { setup: Span::from_ps(5), rate: Bandwidth::new(rate).expect("above zero") };
    let tier = |(index, &(kind, bytes)): (usize, &(TierKind, u64))| Tier {
        name: format!("t{index}"),
        kind,
        capacity: Bytes::new(bytes).into(),
        access: law(1_000_000_000_000 >> index),
        loaded: None,
        requests: Default::default(),
    };
    let tiers: Vec<(TierKind, u64)> =
        [(TierKind::Hbm, hbm)].into_iter().chain(others.iter().copied()).collect();
    let link = |far: usize| {
        let ends = (NodeId::at(0), NodeId::at(far));
        Link::new(format!("l{far}"), ends, [law(1_000_000_000_000 >> far); 2])
    };
    Hardware {
        name: "test".to_owned(),
        about: String::new().into(),
        tiers: tiers.iter().enumerate().map(tier).collect(),
        nodes: Vec::new(),
        links: (1..tiers.len()).map(link).collect(),
        routes: Vec::new(),
        compute: None,
        chunk: Bytes::mib(4),
        hidden: Vec::new(),
        facts: Default::default(),
        economics: Default::default(),
        server: Default::default(),
        cpu: None,
        pressure: None,
    }
}

/// Answers `ask` for a workload on a machine.
pub(crate) fn with_setting<T>(
    workload: &Workload,
    hardware: &Hardware,
    ask: impl FnOnce(&Setting<'_>) -> T,
) -> T {
    let memory = hardware.memory();
    let spans: Vec<Span> =
        workload.trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
    let routes = hardware.routes().expect("every tier is joined");
    let copies = CopyTimes::new(hardware, &routes);
    let (memory, spans, copies) = (&memory, &spans, &copies);
    ask(&Setting { workload, hardware, memory, spans, copies, repeat: 1 })
}

/// All commands of a plan; `None` if it is out of memory.
pub(crate) fn plan(
    workload: &Workload,
    hardware: &Hardware,
    policy: Box<dyn Policy>,
    repeat: u32,
) -> Option<Vec<Command>> {
    use tiersim_policies::planner::PlanError::OutOfMemory;
    let mut planner = match Planner::new(workload, policy, &hardware.memory(), repeat) {
        Ok(planner) => planner,
        Err(OutOfMemory { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    let mut commands = Vec::new();
    loop {
        match planner.plan_next(&mut commands) {
            Ok(true) => {}
            Ok(false) => return Some(commands),
            Err(OutOfMemory { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Copies of each object: to the first tier, and from it.
pub(crate) fn copies(commands: &[Command], objects: usize) -> Vec<[u64; 2]> {
    let mut counts = vec![[0; 2]; objects];
    for command in commands {
        if let Work::Copy { object, to, .. } = command.work {
            counts[object.index()][usize::from(to != tiersim_models::hardware::HBM)] += 1;
        }
    }
    counts
}
