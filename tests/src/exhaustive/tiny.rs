//! Random tiny traces on random stars, and the policies that run on them.

use super::state::{HBM_SLOTS, Machine, OBJECTS};
use crate::prelude::*;
use crate::setting::turning;
use crate::soak::drawn;
use crate::world::uses;
use tiersim_policies::bound::{Bound, Horizon, Question, fluid, least_time};

/// A tiny world.
pub struct Tiny {
    /// As the search has it.
    pub machine: Machine,
    /// As the simulator has it.
    pub hardware: Hardware,
    /// What runs.
    pub workload: Workload,
    /// How long its ops take.
    pub durations: Durations,
}

impl Tiny {
    /// The world of a seed.
    pub fn new(seed: u64) -> Tiny {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut trace = trace(&mut rng);
        // Drawn apart: a draw more would make every other world another one.
        let mut host = ChaCha12Rng::seed_from_u64(!seed);
        for op in trace.ops.iter_mut().filter(|_| seed % 4 == 3) {
            op.unit = if host.random_bool(0.4) { Unit::Cpu } else { Unit::Device };
        }
        let all: u64 = trace.objects.iter().map(|object| object.bytes.get() / UNIT).sum();
        let hbm = rng.random_range(1..=all as usize).min(HBM_SLOTS);
        let mut slow = |least: u64, most: u64| {
            let rate = ONE * 10 / rng.random_range(least..=most);
            law(rng.random_range(0..3) * 10, rate)
        };
        let outside = if seed.is_multiple_of(5) { 2 } else { 1 };
        let tiers: Vec<[Law; 3]> =
            (0..outside).map(|_| [slow(5, 20), slow(5, 20), slow(5, 80)]).collect();
        Tiny::of(trace, (hbm, UNIT), tiers)
    }

    /// A world written out by a test: units of HBM, bytes of a unit, and the tiers outside.
    pub fn of(trace: Trace, (hbm, unit): (usize, u64), outside: Vec<[Law; 3]>) -> Tiny {
        let mut tiers =
            vec![(TierKind::Hbm, Bytes::new(hbm as u64 * unit).into(), law(0, u64::MAX))];
        let mut links = Vec::new();
        for (index, laws) in outside.iter().enumerate() {
            let kind = [TierKind::Dram, TierKind::Cxl][index];
            tiers.push((kind, Capacity::Unlimited, laws[2]));
            links.push((0, index + 1, laws[0]));
        }
        let mut hardware = hardware(&tiers, &links);
        for (link, laws) in hardware.links.iter_mut().zip(&outside) {
            link.write = laws[1];
        }
        let units =
            trace.objects.iter().map(|object| (object.bytes.get() / unit) as usize).collect();
        let spans: Vec<Span> =
            trace.ops.iter().map(|op| op.duration.unwrap_or(Span::ZERO)).collect();
        let durations = spans.iter().map(|span| span.ps() as u32).collect();
        let machine = Machine { hbm, unit, units, tiers: outside, durations };
        let durations = Durations::fixed(spans);
        Tiny { machine, hardware, workload: Workload::new(trace), durations }
    }

    /// When the last op ends under a policy, and how long all replays but the first take; `None`
    /// if it runs out of memory.
    pub fn run(&self, policy: Box<dyn Policy>, repeat: u32) -> Option<(u32, u32)> {
        let routes = self.hardware.routes().expect("a star is joined");
        let mut planner =
            match Planner::new(&self.workload, policy, &self.hardware.memory(), repeat) {
                Ok(planner) => planner,
                Err(PlanError::OutOfMemory { .. }) => return None,
                Err(refused) => panic!("{refused}"),
            };
        let start = planner.start();
        planner.fetch_the_quickest(CopyTimes::new(&self.hardware, &routes));
        let mut machine =
            SimMachine::new(&self.hardware, routes, &self.workload, &self.durations, &start);
        let first = self.workload.trace.ops.len() as u64 - 1;
        let (mut end, mut warm) = (0, 0);
        let driven = drive(&mut planner, &mut machine, 256, |occurrence, at, _| {
            end = at.ps();
            warm = if occurrence == first { at.ps() } else { warm };
        });
        match driven {
            Ok(()) => {}
            Err(DriveError::Plan(PlanError::OutOfMemory { .. })) => return None,
            Err(other) => panic!("{other}"),
        }
        let tiny = |ps: u64| u32::try_from(ps).expect("tiny times");
        Some((tiny(end), tiny(end - warm)))
    }

    /// The bound of one replay by linear program, or the quick one if that is later.
    pub fn fluid(&self, warm: bool) -> Bound {
        let quick = self.bound(warm);
        let found =
            self.asked(warm, |question| fluid(question, Horizon::Any).map(|found| found.bound));
        found.filter(|found| found.ps > quick.ps).unwrap_or(quick)
    }

    /// The bound of one replay; of a later one if `warm`.
    pub fn bound(&self, warm: bool) -> Bound {
        self.asked(warm, least_time)
    }

    fn asked<T>(&self, warm: bool, ask: impl FnOnce(&Question<'_>) -> T) -> T {
        let ops = self.workload.trace.ops.len() as u64;
        let from = if warm { ops } else { 0 };
        ask(&Question {
            workload: &self.workload,
            hardware: &self.hardware,
            memory: &self.hardware.memory(),
            from,
            to: from + ops,
            duration: &|occurrence| self.durations.of(occurrence),
        })
    }
}

/// The policies that a world is judged with, by name: each of the registry with parameters drawn
/// from `seed`, unless it is an emulation or lacks what it needs; and fixed placements of every
/// access.
pub fn policies(tiny: &Tiny, seed: u64, repeat: u32) -> Vec<(String, Box<dyn Policy>)> {
    let trace = &tiny.workload.trace;
    let mut policies: Vec<(String, Box<dyn Policy>)> = Vec::new();
    for (index, entry) in (0u64..).zip(zoo::ALL) {
        let seed = seed.wrapping_mul(31).wrapping_add(index);
        let drawn = drawn(entry, seed, trace, &tiny.hardware);
        let Some(config) = drawn.filter(|config| !config.is_emulated()) else { continue };
        let built = with_setting(&tiny.workload, &tiny.hardware, repeat, |setting| {
            cpu_ops::build(setting, |setting| config.build(setting))
        });
        if let Ok(policy) = built {
            policies.push((format!("{config:?}"), policy));
        }
    }
    let mut rng = ChaCha12Rng::seed_from_u64(seed ^ 0x5eed);
    for access in [
        Access::InPlace(Charge::EveryUse),
        Access::Migrate { prefetch_ops: 0 },
        Access::Migrate { prefetch_ops: 1 },
        Access::Migrate { prefetch_ops: 4 },
    ] {
        let tiers = tiny.hardware.tiers.len();
        let home = |_| TierId::at(rng.random_range(0..tiers));
        let homes: Vec<TierId> = (0..trace.modules.len()).map(home).collect();
        let placed = StaticPlacement::new("placed", trace, homes, &ObjectKind::ALL, access);
        let placed = cpu_ops::around(Box::new(placed), &tiny.workload, &tiny.hardware);
        policies.push((format!("placed, {access}"), placed));
    }
    policies
}

/// Bytes of a unit.
const UNIT: u64 = 100;

fn trace(rng: &mut ChaCha12Rng) -> Trace {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = (0..rng.random_range(1..=OBJECTS))
        .map(|_| traced.object(UNIT * rng.random_range(1..=2), rng.random_bool(0.7)))
        .collect();
    for (index, object) in objects.iter().enumerate() {
        traced.0.modules.push(format!("m{index}").into());
        let mut score = || Some(f64::from(rng.random_range(0..5)));
        let statistics = Statistics { adam_m: score(), adam_v: score(), grad_norm: score() };
        let record = &mut traced.0.objects[object.index()];
        (record.module, record.statistics) = (Some(ModuleId::at(index)), statistics);
        record.history = turning(statistics);
    }
    let mut exists: Vec<bool> = traced.0.objects.iter().map(|object| object.persistent).collect();
    for _ in 0..rng.random_range(2..=5) {
        let (draws, modes) =
            (rng.random_range(1..=2), [Mode::Read, Mode::Read, Mode::ReadWrite, Mode::Write]);
        let uses = uses(rng, draws, &mut exists, &modes);
        let span = Span::from_ps(rng.random_range(0..6) * 60);
        traced.op(0, 0, span, &uses);
    }
    traced.0
}
