//! Random worlds: a machine, a trace and durations from one seed, and a run of them.

use crate::chaos::Chaos;
use crate::prelude::*;
use tiersim_models::allocator::AllocatorSpec;
use tiersim_sim::audit::Audit;
use tiersim_sim::machine::Fault;
use tiersim_sim::machine::meters::Meters;

/// Everything that a run needs.
pub struct World {
    /// The machine.
    pub hardware: Hardware,
    /// What runs on it.
    pub workload: Workload,
    /// How long each op takes.
    pub durations: Durations,
    /// How often the trace is replayed.
    pub repeat: u32,
    seed: u64,
}

impl World {
    /// Plans this world under a policy.
    pub fn planner(&self, policy: Box<dyn Policy>) -> Result<Planner<'_>, PlanError> {
        Planner::new(&self.workload, policy, &self.hardware.memory(), self.repeat)
    }

    /// The same over tiers with these allocators, the first of the first tier.
    pub fn allocating(
        &self,
        policy: Box<dyn Policy>,
        specs: &[AllocatorSpec],
    ) -> Result<Planner<'_>, PlanError> {
        Planner::new(&self.workload, policy, &self.hardware.memory().with(specs), self.repeat)
    }

    /// The simulated machine for a plan of this world, on so many devices.
    pub fn simulated(&self, planner: &Planner<'_>, ranks: u32) -> SimMachine<'_> {
        let World { hardware, workload, durations, .. } = self;
        let routes = hardware.routes().expect("every tier is joined");
        SimMachine::of_ranks(ranks, hardware, routes, workload, durations, &planner.start())
    }

    /// The simulated machine with nothing in it, for commands of no plan.
    pub fn unplanned(&self) -> SimMachine<'_> {
        let routes = self.hardware.routes().expect("every tier is joined");
        SimMachine::new(&self.hardware, routes, &self.workload, &self.durations, &[])
    }

    /// The same on several devices, audited after every event.
    pub fn audited_ranks(&self, planner: &Planner<'_>, ranks: u32) -> SimMachine<'_> {
        let (objects, memory) = (self.workload.trace.objects.len(), self.hardware.memory());
        let audit = Audit::of_ranks(ranks, &self.hardware, &memory, objects, &planner.start());
        let mut machine = self.simulated(planner, ranks);
        machine.audit(audit.expect("the start fits"));
        machine
    }

    /// The simulated machine for a plan of this world, audited after every event.
    pub fn audited(&self, planner: &Planner<'_>) -> SimMachine<'_> {
        self.audited_ranks(planner, 1)
    }

    /// The world of a seed: objects of up to 1000 bytes, ops of up to 200 ps.
    pub fn new(seed: u64) -> World {
        World::scaled(seed, 1, 1)
    }

    /// The world of a seed with objects, chunks and ops that many times as large: for machines
    /// that are real.
    pub fn scaled(seed: u64, bytes: u64, time: u64) -> World {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut trace = trace(&mut rng);
        for object in &mut trace.objects {
            object.bytes = Bytes::new(object.bytes.get() * bytes);
        }
        let workload = Workload::new(trace);
        let repeat = rng.random_range(1..=2);
        let ops = workload.trace.ops.len() * repeat as usize;
        let spans = (0..ops).map(|_| Span::from_ps(rng.random_range(0..200) * time)).collect();
        let durations = Durations::fixed(spans);
        let mut hardware = machine(&mut rng, &workload);
        hardware.chunk = Bytes::new(hardware.chunk.get() * bytes);
        World { hardware, workload, durations, repeat, seed }
    }

    /// A world written out by a test.
    pub fn of(hardware: Hardware, trace: Trace, spans: Vec<Span>) -> World {
        let durations = Durations::fixed(spans);
        World { hardware, workload: Workload::new(trace), durations, repeat: 1, seed: 0 }
    }

    /// A world whose ops take as long as they were recorded.
    pub fn recorded(hardware: Hardware, trace: Trace, repeat: u32) -> World {
        let spans = trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
        World { repeat, ..World::of(hardware, trace, spans) }
    }

    /// The same world with its trace replayed so often.
    pub fn repeated(self, repeat: u32) -> World {
        World { repeat, ..self }
    }

    /// Makes each object a module of its own.
    pub fn name_modules(&mut self) {
        let mut trace = self.workload.trace.clone();
        for (index, object) in trace.objects.iter_mut().enumerate() {
            trace.modules.push(object.name.clone());
            object.module = Some(ModuleId::at(index));
        }
        self.workload = Workload::new(trace);
    }

    /// How many streams its ops run on.
    pub fn streams(&self) -> u16 {
        self.workload.trace.ops.iter().map(|op| op.stream + 1).max().unwrap_or(0)
    }

    /// The policy of this world that tries everything.
    pub fn chaos(&self) -> Box<dyn Policy> {
        let in_place = self.seed % 2 == 1;
        let (tiers, objects) = (self.hardware.tiers.len(), self.workload.trace.objects.len());
        Box::new(Chaos::new(self.seed, tiers, objects, in_place))
    }

    /// Runs the world under audit, with all edges of one kind left out if asked.
    ///
    /// `Ok(None)` if it does not fit; otherwise when every op ended.
    pub fn run(
        &self,
        policy: Box<dyn Policy>,
        without: Option<Hazard>,
        window: u64,
    ) -> Result<Option<Vec<Time>>, Fault> {
        let Ok(mut planner) = self.planner(policy) else { return Ok(None) };
        let mut machine = Careless { machine: self.audited(&planner), without };
        let mut ends = vec![Time::ZERO; self.workload.trace.ops.len() * self.repeat as usize];
        let driven = drive(&mut planner, &mut machine, window, |op, at, _| ends[op as usize] = at);
        match driven {
            Ok(()) => Ok(Some(ends)),
            Err(DriveError::Machine(fault)) => Err(fault),
            Err(DriveError::Plan(error)) => match error {
                PlanError::OutOfMemory { .. } => Ok(None),
                refused => panic!("seed {}: {refused}", self.seed),
            },
        }
    }

    /// When every op ended on the first of so many devices, in picoseconds, and what was measured,
    /// of a plan that breaks no rule and fits.
    pub fn measured(&self, mut planner: Planner<'_>, ranks: u32) -> (Vec<u64>, Meters) {
        let mut machine = self.audited_ranks(&planner, ranks);
        let mut ends = vec![0; self.workload.trace.ops.len() * self.repeat as usize];
        drive(&mut planner, &mut machine, 256, |op, at, _| ends[op as usize] = at.ps())
            .expect("no rule is broken");
        (ends, machine.meters().clone())
    }

    /// The same for a script: where objects start, and the actions before each op.
    pub fn scripted_on(
        &self,
        ranks: u32,
        start: Vec<TierId>,
        script: Vec<Vec<Action>>,
    ) -> (Vec<u64>, Meters) {
        let planner = self.planner(Scripted::of(start, script));
        self.measured(planner.expect("it fits"), ranks)
    }

    /// When every op ended, in picoseconds, under a policy that breaks no rule; `None` if the
    /// world does not fit.
    pub fn ends(&self, policy: Box<dyn Policy>) -> Option<Vec<u64>> {
        let ends = self.run(policy, None, 64).unwrap_or_else(|fault| {
            panic!("seed {}: {fault}", self.seed);
        });
        Some(ends?.into_iter().map(Time::ps).collect())
    }

    /// The same for a script on one device.
    pub fn scripted(&self, start: Vec<TierId>, script: Vec<Vec<Action>>) -> Vec<u64> {
        self.scripted_on(1, start, script).0
    }

    /// Every command of the plan of a policy, and the error that ended it, if one did.
    pub fn commands(&self, policy: Box<dyn Policy>) -> (Vec<Command>, Option<PlanError>) {
        match self.planner(policy) {
            Ok(planner) => commands(planner),
            Err(error) => (Vec::new(), Some(error)),
        }
    }
}

/// Every command that is left of a plan, and the error that ended it, if one did.
pub fn commands(mut planner: Planner<'_>) -> (Vec<Command>, Option<PlanError>) {
    let mut commands = Vec::new();
    loop {
        match planner.plan_next(&mut commands) {
            Ok(true) => {}
            Ok(false) => return (commands, None),
            Err(error) => return (commands, Some(error)),
        }
    }
}

/// A machine that ignores one kind of edge: a planner with one mistake.
pub struct Careless<M> {
    /// The machine.
    pub machine: M,
    /// What it ignores.
    pub without: Option<Hazard>,
}

impl<M: Machine> Machine for Careless<M> {
    type Fault = M::Fault;

    fn submit(&mut self, mut command: Command) -> Result<(), M::Fault> {
        command.after.retain(|edge| Some(edge.hazard) != self.without);
        self.machine.submit(command)
    }

    fn next(&mut self) -> Result<Option<(Time, Ticket)>, M::Fault> {
        self.machine.next()
    }
}

/// Draws what an op uses: so many times an object, none twice. One that exists is used in one of
/// `modes`, one that does not is made.
pub fn uses(
    rng: &mut ChaCha12Rng,
    draws: i32,
    exist: &mut [bool],
    modes: &[Mode],
) -> Vec<(ObjectId, Mode)> {
    let mut uses: Vec<(ObjectId, Mode)> = Vec::new();
    for _ in 0..draws {
        let object = ObjectId::at(rng.random_range(0..exist.len()));
        if uses.iter().all(|&(other, _)| other != object) {
            let known = std::mem::replace(&mut exist[object.index()], true);
            let mode = if known { modes[rng.random_range(0..modes.len())] } else { Mode::Write };
            uses.push((object, mode));
        }
    }
    uses
}

fn trace(rng: &mut ChaCha12Rng) -> Trace {
    let mut traced = Traced::new();
    for _ in 0..rng.random_range(2..10) {
        traced.object(rng.random_range(1..1000), rng.random_bool(0.6));
    }
    let streams = rng.random_range(1..=3u16);
    let mut born: Vec<bool> = traced.0.objects.iter().map(|object| object.persistent).collect();
    let ops = rng.random_range(3..40);
    for op in 0..ops {
        let draws = rng.random_range(1..=3);
        let uses = uses(rng, draws, &mut born, &[Mode::Read, Mode::Write, Mode::ReadWrite]);
        let stream = rng.random_range(0..streams);
        let id = traced.op(op / 10, stream, Span::ZERO, &uses);
        if op > 0 && rng.random_bool(0.1) {
            let before = OpId(rng.random_range(0..id.0));
            traced.0.ops[id.index()].after.push(before);
        }
    }
    traced.0
}

fn machine(rng: &mut ChaCha12Rng, workload: &Workload) -> Hardware {
    let objects = &workload.trace.objects;
    let total: u64 = objects.iter().map(|object| object.bytes.get()).sum();
    let hbm = Bytes::new(rng.random_range(total / 4..=total));
    let mut law = || law(rng.random_range(0..100), rng.random_range(1..50) * 1_000_000_000_000);
    let far = |kind| (kind, Capacity::Unlimited);
    let kinds = [far(TierKind::Dram), far(TierKind::Cxl), far(TierKind::Nvme)];
    let mut tiers = vec![(TierKind::Hbm, hbm.into(), law())];
    tiers.extend(kinds.map(|(kind, capacity)| (kind, capacity, law())));
    // A chain, so that some copies go over several links.
    let links = [(0, 1, law()), (0, 2, law()), (1, 3, law())];
    let count = rng.random_range(2..=4);
    tiers.truncate(count);
    let mut machine = hardware(&tiers, &links[..count - 1]);
    machine.chunk = Bytes::new(rng.random_range(50..2000));
    machine
}
