//! Nodes of host memory: which one an object gets, worked out by hand and by brute force, what the
//! far one costs by the laws, and random worlds under audit (`worlds.rs`).

mod worlds;

use tiersim_policies::numa::{NumaConfig, Pin, Placement};
use tiersim_policies::zoo::hints::HintsConfig;
use tiersim_tests::prelude::*;

const DRAM0: TierId = TierId(1);
const DRAM1: TierId = TierId(2);
const NVME: TierId = TierId(3);

/// The GPU at a socket of two, each with a node of so many bytes, and a drive at the first. Links:
/// PCIe, the two memories, the one between the sockets, the drive's.
fn dual(gpu_at: usize, bytes: [u64; 2]) -> Hardware {
    let free = law(0, u64::MAX);
    let dram = |bytes| (TierKind::Dram, Bytes::new(bytes).into(), law(5, ONE));
    let tiers = [
        (TierKind::Hbm, Capacity::Unlimited, free),
        dram(bytes[0]),
        dram(bytes[1]),
        (TierKind::Nvme, Capacity::Unlimited, law(100, ONE)),
    ];
    let (sockets, upi) = ([4, 5], law(7, 4 * ONE));
    let mut machine = hardware(
        &tiers,
        &[
            (0, sockets[gpu_at], law(30, 6 * ONE)),
            (sockets[0], 1, law(0, 20 * ONE)),
            (sockets[1], 2, law(0, 20 * ONE)),
            (sockets[0], sockets[1], upi),
            (sockets[0], 3, law(100, ONE)),
        ],
    );
    let socket = |name: &str| Node { name: name.to_owned(), kind: NodeKind::Socket };
    machine.nodes = vec![socket("socket0"), socket("socket1")];
    for link in &mut machine.links {
        let shared = Service { discipline: Discipline::FairShare, ..Service::default() };
        link.service = Some(shared);
    }
    machine
}

fn says(placement: Placement) -> NumaConfig {
    NumaConfig { placement: Some(placement), pins: Vec::new() }
}

fn pin(kinds: &[ObjectKind], module: Option<&str>, node: TierId) -> Pin {
    Pin { kinds: kinds.to_vec(), module: module.map(str::to_owned), node }
}

/// Persistent objects of these sizes, each in a module `m0`, `m1`, ..., and one op that uses none.
fn at_rest(sizes: &[u64]) -> Trace {
    let mut traced = Traced::new();
    for (index, &bytes) in sizes.iter().enumerate() {
        let object = traced.object(bytes, true);
        traced.0.modules.push(format!("m{index}").into());
        traced.0.objects[object.index()].module = Some(ModuleId(index as u32));
    }
    traced.op(0, 0, Span::ZERO, &[]);
    traced.0
}

/// Every module of a trace in DRAM.
fn hinted(trace: &Trace, access: Access) -> PolicyConfig {
    let hints = trace.modules.iter().map(|module| (module.to_string(), TierKind::Dram)).collect();
    let kinds = vec![ObjectKind::Weight, ObjectKind::Optimizer, ObjectKind::Activation];
    HintsConfig { hints, kinds, access }.into()
}

/// The policy of a world, on the nodes that `config` says.
fn built(
    config: &NumaConfig,
    policy: &PolicyConfig,
    world: &World,
) -> Result<Box<dyn Policy>, String> {
    let build = |setting: &Setting<'_>| config.build(policy, setting);
    with_setting(&world.workload, &world.hardware, world.repeat, build)
}

/// Where every object starts, by id.
fn starts(
    config: &NumaConfig,
    policy: &PolicyConfig,
    trace: &Trace,
    machine: &Hardware,
) -> Result<Vec<TierId>, PlanError> {
    let world = World::recorded(machine.clone(), trace.clone(), 1);
    let policy = built(config, policy, &world).expect("the trace has all that is named");
    Ok(world.planner(policy)?.start().into_iter().map(|room| room.tier).collect())
}

/// The same for objects at rest with these sizes.
fn placed(config: &NumaConfig, sizes: &[u64], machine: &Hardware) -> Vec<TierId> {
    let trace = at_rest(sizes);
    let policy = hinted(&trace, Access::Migrate { prefetch_ops: 0 });
    starts(config, &policy, &trace, machine).expect("it fits")
}

#[test]
fn near_means_near_the_gpu_and_then_the_next() {
    let near = says(Placement::NearGpu);
    assert_eq!(
        placed(&near, &[40, 40, 40, 20], &dual(0, [100, 100])),
        [DRAM0, DRAM0, DRAM1, DRAM0]
    );
    assert_eq!(
        placed(&near, &[40, 40, 40, 20], &dual(1, [100, 100])),
        [DRAM1, DRAM1, DRAM0, DRAM1]
    );
    let unlimited = u64::MAX >> 1;
    assert_eq!(placed(&near, &[40, 40], &dual(1, [unlimited; 2])), [DRAM1, DRAM1]);
}

#[test]
fn first_touch_is_where_the_thread_runs_whatever_the_gpu_is_at() {
    for gpu_at in [0, 1] {
        let machine = dual(gpu_at, [100, 100]);
        let at = |node| placed(&says(Placement::FirstTouch(node)), &[60, 60, 40], &machine);
        assert_eq!(at(DRAM0), [DRAM0, DRAM1, DRAM0]);
        assert_eq!(at(DRAM1), [DRAM1, DRAM0, DRAM1]);
    }
}

#[test]
fn interleaving_is_round_robin_by_bytes() {
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    let interleaved = says(Placement::Interleave);
    for _ in 0..200 {
        let sizes: Vec<u64> =
            (0..rng.random_range(1..30)).map(|_| rng.random_range(1..1000)).collect();
        let gpu_at = rng.random_range(0..2);
        let found = placed(&interleaved, &sizes, &dual(gpu_at, [1 << 40; 2]));
        let mut given = [0, 0];
        for (&bytes, tier) in sizes.iter().zip(&found) {
            // On a tie the node near the GPU.
            let expected = if given[gpu_at] <= given[1 - gpu_at] { gpu_at } else { 1 - gpu_at };
            assert_eq!(tier.index(), 1 + expected, "{sizes:?}");
            given[expected] += bytes;
        }
        let largest = sizes.iter().max().expect("there is one");
        assert!(given[0].abs_diff(given[1]) <= *largest, "{given:?}");
    }
    assert_eq!(placed(&interleaved, &[60, 60, 60, 60], &dual(0, [70, 200]))[2..], [DRAM1; 2]);
}

#[test]
fn pins_win_and_bind() {
    let trace = {
        let mut trace = at_rest(&[10, 10, 10, 10]);
        trace.objects[1].kind = ObjectKind::Optimizer;
        trace.objects[3].kind = ObjectKind::Optimizer;
        trace.modules = ["h.0.attn", "h.0.mlp", "lm_head", "h.1.mlp"].map(Into::into).to_vec();
        trace
    };
    let machine = dual(0, [100, 100]);
    let policy = hinted(&trace, Access::Migrate { prefetch_ops: 0 });
    let with = |placement, pins: &[Pin]| {
        let config = NumaConfig { placement, pins: pins.to_vec() };
        starts(&config, &policy, &trace, &machine).expect("it fits")
    };
    let near = Some(Placement::NearGpu);
    let far = |kinds: &[ObjectKind], module| pin(kinds, module, DRAM1);
    assert_eq!(with(near, &[far(&[ObjectKind::Optimizer], None)]), [DRAM0, DRAM1, DRAM0, DRAM1]);
    for (pattern, expected) in [
        ("lm_head", [0, 0, 1, 0]),
        ("lm_*", [0, 0, 1, 0]),
        ("*", [1, 1, 1, 1]),
        ("h.*.mlp", [0, 1, 0, 1]),
        ("*mlp*", [0, 1, 0, 1]),
        ("*.0.*", [1, 1, 0, 0]),
    ] {
        let config = NumaConfig { placement: near, pins: vec![far(&[], Some(pattern))] };
        let found = starts(&config, &policy, &trace, &machine).expect("it fits");
        assert_eq!(found, expected.map(|far| if far == 1 { DRAM1 } else { DRAM0 }), "{pattern}");
    }
    // The first that matches counts, and what nobody pins is where the policy put it.
    let both = [far(&[ObjectKind::Optimizer], Some("h.1*")), pin(&[], Some("h.1*"), DRAM0)];
    assert_eq!(with(None, &both), [DRAM0, DRAM0, DRAM0, DRAM1]);
    // A pin is no wish: a full node does not spill.
    let small = dual(0, [100, 15]);
    let config = NumaConfig { placement: near, pins: vec![far(&[ObjectKind::Optimizer], None)] };
    let full = starts(&config, &policy, &trace, &small);
    assert!(matches!(full, Err(PlanError::OutOfMemory { tier: DRAM1, .. })), "{full:?}");
}

#[test]
fn a_pin_for_modules_that_the_trace_lacks_is_an_error_in_words() {
    let mut trace = at_rest(&[10, 10]);
    trace.modules = ["h.0.attn", "h.0.mlp"].map(Into::into).to_vec();
    let policy = hinted(&trace, Access::Migrate { prefetch_ops: 0 });
    for pattern in ["lm_head*", "mlp", "h.0.attn.*", "h*h*l*p", "*.0.*.*", "h.0.mlp*p"] {
        let config = NumaConfig { placement: None, pins: vec![pin(&[], Some(pattern), DRAM1)] };
        let world = World::recorded(dual(0, [100; 2]), trace.clone(), 1);
        let refused = built(&config, &policy, &world).err();
        let refused = refused.unwrap_or_else(|| panic!("{pattern} is accepted"));
        assert!(refused.contains(pattern), "{refused}");
    }
}

/// Copies of a run: (object, from, to).
fn copies(commands: &[Command]) -> Vec<(ObjectId, TierId, TierId)> {
    let copy = |command: &Command| match command.work {
        Work::Copy { object, from, to, .. } => Some((object, from, to)),
        _ => None,
    };
    commands.iter().filter_map(copy).collect()
}

#[test]
fn an_object_keeps_its_node_until_it_is_freed() {
    let mut traced = Traced::new();
    let kept = traced.object(10, true);
    let freed = traced.object(10, false);
    for _ in 0..2 {
        traced.op(0, 0, Span::ZERO, &[(kept, Mode::ReadWrite)]);
        traced.op(0, 0, Span::ZERO, &[(freed, Mode::Write)]);
        traced.op(0, 0, Span::ZERO, &[(kept, Mode::ReadWrite)]);
    }
    traced.op(0, 0, Span::ZERO, &[(freed, Mode::Read)]);
    let mut machine = dual(0, [1000, 1000]);
    machine.tiers[HBM.index()].capacity = Bytes::new(10).into();
    let world = World::recorded(machine, traced.0, 3);
    let lru: PolicyConfig = DemandConfig::lru(vec![DRAM0, DRAM1, NVME]).into();
    let policy = built(&says(Placement::Interleave), &lru, &world).expect("it can be");
    let (commands, error) = world.commands(policy);
    assert_eq!(error, None);
    let mut homes: BTreeMap<ObjectId, Vec<TierId>> = BTreeMap::new();
    for (object, from, to) in copies(&commands) {
        homes.entry(object).or_default().push(if from == HBM { to } else { from });
    }
    assert!(homes[&kept].len() > 6 && homes[&kept].iter().all(|&node| node == DRAM0), "{homes:?}");
    // A life of the other: written, out, in, out, in. Lives take turns, as the bytes given do.
    let lives = homes[&freed].clone();
    let mut turns = lives.clone();
    turns.dedup();
    assert_eq!(turns, [DRAM1, DRAM0, DRAM1], "{lives:?}");
}

#[test]
fn lru_takes_one_node_for_all_and_then_what_comes_behind_dram() {
    let trace = at_rest(&[60, 60, 60]);
    let machine = dual(0, [100, 100]);
    for spill in [vec![DRAM0, NVME], vec![DRAM1, NVME], vec![DRAM0, DRAM1, NVME]] {
        let lru: PolicyConfig = DemandConfig::lru(spill).into();
        let at = |placement| starts(&says(placement), &lru, &trace, &machine).expect("it fits");
        assert_eq!(at(Placement::NearGpu), [DRAM0, DRAM1, NVME]);
        assert_eq!(at(Placement::FirstTouch(DRAM1)), [DRAM1, DRAM0, NVME]);
    }
    // What is pinned to a full node goes on to the drive, not to the other node.
    let lru: PolicyConfig = DemandConfig::lru(vec![DRAM0, NVME]).into();
    let pins = vec![pin(&[ObjectKind::Weight], None, DRAM1)];
    let config = NumaConfig { placement: Some(Placement::NearGpu), pins };
    assert_eq!(starts(&config, &lru, &trace, &machine), Ok(vec![DRAM1, NVME, NVME]));
    // Nothing behind DRAM: the case is out of memory.
    let lru: PolicyConfig = DemandConfig::lru(vec![DRAM0]).into();
    let full = starts(&says(Placement::NearGpu), &lru, &trace, &machine);
    assert!(matches!(full, Err(PlanError::OutOfMemory { .. })));
}

/// When an op ends that waits for the objects of these sizes, all fetched from one node at once.
fn fetched(from: TierId, sizes: &[u64]) -> u64 {
    let machine = dual(0, [1 << 40; 2]);
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = sizes.iter().map(|&bytes| traced.object(bytes, true)).collect();
    let uses: Vec<_> = objects.iter().map(|&object| (object, Mode::Read)).collect();
    traced.op(0, 0, Span::ZERO, &uses);
    let world = World::of(machine, traced.0, vec![Span::ZERO]);
    let script = vec![objects.iter().copied().map(fetch).collect()];
    // Scripted for the first node; the wrapper knows better.
    let scripted = Scripted::of(vec![DRAM0; sizes.len()], script);
    let config = says(Placement::FirstTouch(from));
    let trace = &world.workload.trace;
    let policy = config.around(scripted, Vec::new(), trace, &world.hardware).expect("two nodes");
    world.ends(policy).expect("it fits")[0]
}

#[test]
fn the_far_node_costs_what_the_links_say() {
    // One flow over all links: the set-ups add up, the slowest link gives the rate.
    assert_eq!(fetched(DRAM0, &[1200]), 30 + 1200 / 6);
    assert_eq!(fetched(DRAM1, &[1200]), 30 + 7 + 1200 / 4);
    assert_eq!(fetched(DRAM1, &[1201]), 30 + 7 + 1201_u64.div_ceil(4));
    // Four at once share PCIe from the near node, the link between the sockets from the far one.
    assert_eq!(fetched(DRAM0, &[1200; 4]), 30 + 4 * 1200 / 6);
    assert_eq!(fetched(DRAM1, &[1200; 4]), 30 + 7 + 4 * 1200 / 4);
}
