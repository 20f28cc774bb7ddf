//! Random tiny traces on random stars, and the policies that run on them.

use super::state::{HBM_SLOTS, Machine, OBJECTS};
use crate::build::{Traced, hardware, law};
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::hardware::{HBM, Hardware, Law, TierKind};
use tiersim_models::ids::{ModuleId, ObjectId, TierId};
use tiersim_models::lifetime::Workload;
use tiersim_models::routes::CopyTimes;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Mode, ObjectKind, Trace};
use tiersim_policies::access::{Access, Charge};
use tiersim_policies::bound::{Bound, Question, least_time};
use tiersim_policies::drive::{DriveError, drive};
use tiersim_policies::ledger::Memory;
use tiersim_policies::lru::{Lru, LruConfig};
use tiersim_policies::placed::Placed;
use tiersim_policies::planner::{PlanError, Planner};
use tiersim_policies::policy::Policy;
use tiersim_sim::durations::Durations;
use tiersim_sim::machine::SimMachine;

/// A tiny world.
pub struct Tiny {
    /// As the search has it.
    pub machine: Machine,
    /// As the simulator has it.
    pub hardware: Hardware,
    /// What runs.
    pub workload: Workload,
    durations: Durations,
}

/// A picosecond per byte.
const RATE: u64 = 1_000_000_000_000;

impl Tiny {
    /// The world of a seed.
    pub fn new(seed: u64) -> Tiny {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let trace = trace(&mut rng);
        let units: Vec<usize> =
            trace.objects.iter().map(|object| (object.bytes.get() / UNIT) as usize).collect();
        let all: usize = units.iter().sum();
        let hbm = rng.random_range(1..=all).min(HBM_SLOTS);
        let mut slow = |least: u64, most: u64| {
            let rate = RATE * 10 / rng.random_range(least..=most);
            law(rng.random_range(0..3) * 10, rate)
        };
        let outside = if seed % 5 == 0 { 2 } else { 1 };
        let tiers: Vec<[Law; 3]> =
            (0..outside).map(|_| [slow(5, 20), slow(5, 20), slow(5, 80)]).collect();
        let durations: Vec<u32> =
            trace.ops.iter().map(|_| rng.random_range(0..6) * 60).collect();
        Tiny::of(trace, Machine { hbm, unit: UNIT, units, tiers, durations })
    }

    /// A world written out by a test.
    pub fn of(trace: Trace, machine: Machine) -> Tiny {
        let free = law(0, u64::MAX);
        let hbm = Bytes::new(machine.hbm as u64 * machine.unit);
        let mut tiers = vec![(TierKind::Hbm, hbm, free)];
        let mut links = Vec::new();
        for (index, laws) in machine.tiers.iter().enumerate() {
            let kind = [TierKind::Dram, TierKind::Cxl][index];
            tiers.push((kind, Bytes::MAX, laws[2]));
            links.push((0, index + 1, laws[0]));
        }
        let mut hardware = hardware(&tiers, &links);
        for (link, laws) in hardware.links.iter_mut().zip(&machine.tiers) {
            link.evict = laws[1];
        }
        let spans = machine.durations.iter().map(|&ps| Span::from_ps(ps.into())).collect();
        let durations = Durations::fixed(spans);
        Tiny { machine, hardware, workload: Workload::new(trace), durations }
    }

    /// When the last op ends under a policy, and how long all replays but the first take; `None`
    /// if it runs out of memory.
    pub fn run(&self, policy: Box<dyn Policy>, repeat: u32) -> Option<(u32, u32)> {
        let routes = self.hardware.routes().expect("a star is joined");
        let capacities: Vec<Bytes> = self.hardware.tiers.iter().map(|t| t.capacity).collect();
        let memory = Memory { capacities: &capacities, hidden: &[], allocators: &[] };
        let planner = Planner::over(&self.workload, policy, memory, repeat);
        let mut planner = match planner {
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

    /// The bound of one replay; of a later one if `warm`.
    pub fn bound(&self, warm: bool) -> Bound {
        let ops = self.workload.trace.ops.len() as u64;
        let capacities: Vec<Bytes> = self.hardware.tiers.iter().map(|t| t.capacity).collect();
        let from = if warm { ops } else { 0 };
        least_time(&Question {
            workload: &self.workload,
            hardware: &self.hardware,
            capacities: &capacities,
            from,
            to: from + ops,
            duration: &|occurrence| self.durations.of(occurrence),
        })
    }
}

/// The policies that a world is judged with, by name.
pub fn policies(tiny: &Tiny, seed: u64) -> Vec<(String, Box<dyn Policy>)> {
    let trace = &tiny.workload.trace;
    let outside: Vec<TierId> = tiny.hardware.tier_ids().filter(|&tier| tier != HBM).collect();
    let mut policies: Vec<(String, Box<dyn Policy>)> = Vec::new();
    let mut add = |name: String, policy: Box<dyn Policy>| policies.push((name, policy));
    add("all-hbm".to_owned(), Box::new(Placed::all_in_hbm(trace)));
    let spill = LruConfig { spill: outside.clone() };
    add("lru".to_owned(), Box::new(Lru::new(&spill, trace.objects.len())));
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
        let placed = Placed::new("placed", trace, homes, &ObjectKind::ALL, access);
        add(format!("placed, {access}"), Box::new(placed));
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
        traced.0.modules.push(format!("m{index}"));
        traced.0.objects[object.index()].module = Some(ModuleId::at(index));
    }
    let mut exists: Vec<bool> = traced.0.objects.iter().map(|object| object.persistent).collect();
    for _ in 0..rng.random_range(2..=5) {
        let mut uses: Vec<(ObjectId, Mode)> = Vec::new();
        for _ in 0..rng.random_range(1..=2) {
            let object = objects[rng.random_range(0..objects.len())];
            if uses.iter().any(|&(other, _)| other == object) {
                continue;
            }
            let mode = match std::mem::replace(&mut exists[object.index()], true) {
                false => Mode::Write,
                true => [Mode::Read, Mode::Read, Mode::ReadWrite, Mode::Write][rng.random_range(0..4)],
            };
            uses.push((object, mode));
        }
        traced.op(0, 0, Span::ZERO, &uses);
    }
    traced.0
}
