//! Plans over tiers whose allocators are not exact: safe under any timing, independent of how far
//! they run ahead, and short of room where bytes are free but in pieces.

use tiersim_models::allocator::{AllocatorBlock, Model};
use tiersim_policies::pressure::{HYSTERESIS, PressureConfig, Response, Thresholds};
use tiersim_policies::state::State;
use tiersim_tests::prelude::*;
use tiersim_tests::world::{Careless, commands};

const WORLDS: u64 = 600;
const POOL: AllocatorSpec = AllocatorSpec { model: Model::Pool, compaction: None };

fn spec(rng: &mut ChaCha12Rng) -> AllocatorSpec {
    let at_once = [None, Some(Bytes::mib(1))][rng.random_range(0..2)];
    let compaction = rng.random_bool(0.6).then_some(Compaction {
        above: 0.2,
        by: Fragmentation::External,
        at_once,
    });
    match rng.random_range(0..6) {
        0 | 1 => AllocatorSpec { model: Model::Pool, compaction },
        2 => {
            let config = BucketsConfig { adaptive: rng.random_bool(0.5) };
            AllocatorSpec { model: Model::Buckets(config), compaction }
        }
        3 => AllocatorSpec { model: Model::Buddy(BuddyConfig::default()), compaction },
        _ => {
            let expandable_segments = rng.random_bool(0.5);
            let config = CachingConfig { expandable_segments, ..CachingConfig::default() };
            AllocatorSpec { model: Model::Caching(config), compaction: None }
        }
    }
}

/// A world with objects of up to 8 MB, an allocator for its HBM and perhaps for the tier below.
fn world(seed: u64) -> (World, Vec<AllocatorSpec>) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut world = World::scaled(seed, 8000, 1);
    let specs = vec![spec(&mut rng), AllocatorSpec::default()];
    // What is rounded up needs more room than its bytes.
    let hbm = &mut world.hardware.tiers[HBM.index()].capacity;
    *hbm = hbm.map(|bytes| bytes + (16 << 20));
    (world, specs)
}

fn policy(world: &World, seed: u64) -> Box<dyn Policy> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed ^ 77);
    let tiers = world.hardware.tiers.len();
    if rng.random_bool(0.5) {
        let spill: Vec<TierId> = (1..tiers).map(TierId::at).collect();
        return policy_of(world, &DemandConfig::lru(spill).into()).expect("it is built");
    }
    let mut trace = world.workload.trace.clone();
    trace.modules = vec!["a".into(), "b".into()];
    for object in &mut trace.objects {
        object.module = Some(ModuleId::at(rng.random_range(0..2)));
    }
    let homes = vec![HBM, TierId::at(rng.random_range(1..tiers))];
    let kinds = [ObjectKind::Weight, ObjectKind::Activation];
    let access = Access::Migrate { prefetch_ops: rng.random_range(0..6) };
    Box::new(StaticPlacement::new("placed", &trace, homes, &kinds, access))
}

struct Ran {
    ends: Vec<Time>,
    compactions: u64,
    forced: u64,
    given_up: u64,
}

/// Runs a world under audit; `None` if it does not fit.
fn run(seed: u64, window: u64, without: Option<Hazard>) -> Result<Option<Ran>, String> {
    let (world, specs) = world(seed);
    let Ok(mut planner) = world.allocating(policy(&world, seed), &specs) else { return Ok(None) };
    let mut machine = Careless { machine: world.audited(&planner), without };
    let mut ends = vec![Time::ZERO; world.workload.trace.ops.len() * world.repeat as usize];
    match drive(&mut planner, &mut machine, window, |op, at, _| ends[op as usize] = at) {
        Ok(()) => {
            let memory = planner.ledger().memory_use(HBM).expect("it is not exact");
            let (compactions, forced) = (memory.compactions, memory.forced);
            Ok(Some(Ran { ends, compactions, forced, given_up: memory.given_up }))
        }
        Err(DriveError::Plan(PlanError::OutOfMemory { .. })) => Ok(None),
        Err(other) => Err(other.to_string()),
    }
}

#[test]
fn plans_over_fragmented_tiers_break_no_rule() {
    let (mut ran, mut compacted, mut forced, mut given_up) = (0, 0, 0, 0);
    for seed in 0..WORLDS {
        match run(seed, 64, None) {
            Ok(Some(done)) => {
                ran += 1;
                compacted += u64::from(done.compactions > 0);
                forced += u64::from(done.forced > 0);
                given_up += u64::from(done.given_up > 0);
            }
            Ok(None) => {}
            Err(fault) => panic!("seed {seed}: {fault}"),
        }
    }
    assert_eq!((ran, compacted, forced, given_up), (446, 113, 55, 14));
}

#[test]
fn a_missing_room_edge_is_caught_in_arenas_too() {
    let caught = (0..WORLDS).filter(|&seed| run(seed, 64, Some(Hazard::Capacity)).is_err());
    assert_eq!(caught.count(), 144);
}

#[test]
fn how_far_the_plan_runs_ahead_changes_nothing_on_one_stream() {
    let mut compared = 0;
    for seed in (0..WORLDS / 2).filter(|&seed| world(seed).0.streams() == 1) {
        let near = run(seed, 4, None).expect("no rule is broken").map(|ran| ran.ends);
        let far = run(seed, 1000, None).expect("no rule is broken").map(|ran| ran.ends);
        assert_eq!(near, far, "seed {seed}");
        compared += u64::from(near.is_some());
    }
    assert_eq!(compared, 80);
}

/// Three objects of 4 MiB fill the tier; the middle one is given back, then the others in turn.
fn pieces(last: u64) -> Traced {
    let mut traced = Traced::new();
    let objects: Vec<ObjectId> = (0..3).map(|_| traced.object(4 << 20, false)).collect();
    let large = traced.object(last, false);
    let ns = Span::from_ns;
    for &object in &objects {
        traced.op(0, 0, ns(1), &[(object, Mode::Write)]);
    }
    // The first and the last live on, the second ends here.
    traced.op(0, 0, ns(1), &[(objects[1], Mode::Read)]);
    traced.op(0, 0, ns(1), &[(large, Mode::Write)]);
    traced.op(0, 0, ns(1), &[(objects[0], Mode::Read), (objects[2], Mode::Read)]);
    traced
}

/// A world of two tiers, so many times; HBM has 14 MiB.
fn world_of(traced: Traced, repeat: u32) -> World {
    World::recorded(two_tiers(Bytes::mib(14), law(0, 1_000_000_000)), traced.0, repeat)
}

/// All of a world in HBM, with an allocator.
fn planner<'a>(world: &'a World, specs: &[AllocatorSpec]) -> Planner<'a> {
    let policy = Box::new(StaticPlacement::all_in_hbm(&world.workload.trace));
    world.allocating(policy, specs).expect("nothing is there at the start, or it fits")
}

fn plan(traced: Traced, spec: AllocatorSpec) -> (Vec<Command>, Option<PlanError>) {
    commands(planner(&world_of(traced, 1), &[spec]))
}

#[test]
fn free_bytes_in_pieces_are_out_of_memory_and_the_message_says_so() {
    let error = plan(pieces(5 << 20), POOL).1.expect("6 MiB are free, 4 of them in one piece");
    let words = "5.0 MiB needed, 6.0 MiB free of 14.0 MiB in pieces of at most 4.0 MiB";
    assert!(error.to_string().contains(words), "{error}");
    let exact = plan(pieces(5 << 20), AllocatorSpec::default());
    assert_eq!(exact.1, None, "exact counts bytes only");
    assert_eq!(plan(pieces(4 << 20), POOL).1, None, "4 MiB fit into the piece");
}

/// The compactions of a plan: ticket, objects, bytes and edges; and the op that each comes before.
fn compactions(commands: &[Command]) -> Vec<(Ticket, Vec<ObjectId>, Bytes, Option<u64>)> {
    let op = |command: &Command| match command.work {
        Work::Compute { occurrence, .. } => Some(occurrence),
        _ => None,
    };
    let one = |(at, command): (usize, &Command)| match &command.work {
        Work::Compact { tier: HBM, bytes, objects } => {
            let next = commands[at..].iter().find_map(op);
            Some((command.ticket, objects.to_vec(), *bytes, next))
        }
        _ => None,
    };
    commands.iter().enumerate().filter_map(one).collect()
}

#[test]
fn an_object_that_fits_into_no_piece_waits_for_what_moves_out_of_its_way() {
    for at_once in [None, Some(Bytes::mib(1))] {
        let compaction = Some(Compaction { above: 1.0, by: Fragmentation::External, at_once });
        let spec = AllocatorSpec { model: Model::Pool, compaction };
        let (commands, error) = plan(pieces(5 << 20), spec);
        assert_eq!(error, None, "moved together it fits");
        let found = compactions(&commands);
        // Op 4 creates the large object: the third of 4 MiB moves down before it.
        let [(mover, objects, bytes, Some(4))] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((objects.as_slice(), *bytes), ([ObjectId(2)].as_slice(), Bytes::mib(4)));
        let waits = |command: &&Command| command.after.iter().any(|edge| edge.ticket == *mover);
        let later: Vec<_> = commands.iter().filter(waits).map(|command| command.ticket).collect();
        assert!(later.contains(&Ticket(mover.0 + 1)), "op 4 waits for it: {later:?}");
        let own = commands.iter().find(|command| command.ticket == *mover).expect("it is there");
        // It moves what op 2 wrote into what op 3 gave back.
        assert!(own.after.iter().any(|edge| edge.ticket.0 == 3), "{:?}", own.after);
    }
}

/// Which commands have certainly ended when another starts: those that it waits for, and those
/// before it on its stream, and theirs.
#[derive(Default)]
struct Before {
    ancestors: Vec<Vec<bool>>,
    last: BTreeMap<u16, Ticket>,
}

impl Before {
    fn add(&mut self, command: &Command) {
        let mut own = vec![false; command.ticket.0 as usize];
        let mut earlier: Vec<Ticket> = command.after.iter().map(|edge| edge.ticket).collect();
        if let Work::Compute { stream, .. } = command.work {
            earlier.extend(self.last.insert(stream, command.ticket));
        }
        for Ticket(ticket) in earlier {
            own[ticket as usize] = true;
            let theirs = self.ancestors[ticket as usize].iter().enumerate();
            theirs.filter(|(_, is)| **is).for_each(|(index, _)| own[index] = true);
        }
        self.ancestors.push(own);
    }

    fn holds(&self, first: Ticket, second: Ticket) -> bool {
        first == second || self.ancestors[second.0 as usize].get(first.0 as usize) == Some(&true)
    }
}

/// Who lies where in a plan, and who lay there before and left with which command.
#[derive(Default)]
struct Addresses {
    now: BTreeMap<ObjectId, AllocatorBlock>,
    left: Vec<(AllocatorBlock, Ticket)>,
    handed_over: u64,
}

impl Addresses {
    /// `by` one of these commands.
    fn enter(
        &mut self,
        object: ObjectId,
        block: AllocatorBlock,
        by: &[Ticket],
        before: &Before,
        seed: u64,
    ) {
        for &(old, leaver) in &self.left {
            if old.at < block.end() && block.at < old.end() {
                self.handed_over += 1;
                let safe = by.iter().any(|&by| before.holds(leaver, by));
                assert!(safe, "seed {seed}: {object:?} enters with {by:?} before {leaver:?} left");
            }
        }
        self.now.insert(object, block);
    }

    fn leave(&mut self, object: ObjectId, by: Ticket) {
        let block = self.now.remove(&object);
        self.left.extend(block.map(|block| (block, by)));
    }
}

/// Plans a whole world without running it, so that no edge is left out because a command ended.
fn addresses(seed: u64) -> (u64, u64) {
    let (world, specs) = world(seed);
    let Ok(mut planner) = world.allocating(policy(&world, seed), &specs) else { return (0, 0) };
    let block = |planner: &Planner<'_>, object| planner.ledger().block(object, HBM);
    let mut at = Addresses::default();
    let objects = (0..world.workload.trace.objects.len()).map(ObjectId::at);
    at.now = objects.filter_map(|o| Some((o, block(&planner, o)?))).collect();
    let (mut before, mut moves) = (Before::default(), 0);
    let mut commands = Vec::new();
    while let Ok(true) = planner.plan_next(&mut commands) {
        commands.iter().for_each(|command| before.add(command));
        let op = commands.iter().find(|c| matches!(c.work, Work::Compute { .. }));
        let op = op.expect("every op has a command").ticket;
        for command in &commands {
            let freed = command.frees.iter().filter(|room| room.tier == HBM);
            freed.for_each(|room| at.leave(room.object, command.ticket));
        }
        let mut entered = Vec::new();
        for command in &commands {
            for room in command.allocates.iter().filter(|room| room.tier == HBM) {
                entered
                    .extend(block(&planner, room.object).map(|b| (room.object, b, command.ticket)));
            }
        }
        // Whoever lies elsewhere now was moved; all leave before anybody enters.
        let stay = at.now.iter().map(|(&object, &was)| (object, was, block(&planner, object)));
        let moved: Vec<_> = stay.filter(|(_, was, is)| Some(*was) != *is).collect();
        // What lies elsewhere before it has any contents is not moved, but waits for who is.
        let movers: Vec<Ticket> = commands
            .iter()
            .filter(|command| matches!(command.work, Work::Compact { .. }))
            .map(|command| command.ticket)
            .collect();
        let first = movers.first().copied().unwrap_or(op);
        moved.iter().for_each(|(object, ..)| at.leave(*object, first));
        moves += moved.len() as u64;
        entered.extend(moved.into_iter().filter_map(|(object, _, is)| Some((object, is?, first))));
        // An object that entered may have been moved at once; which, cannot be seen here.
        for (object, block, by) in entered {
            let by: Vec<Ticket> = movers.iter().copied().chain([by]).collect();
            at.enter(object, block, &by, &before, seed);
        }
        commands.clear();
    }
    (at.handed_over, moves)
}

#[test]
fn an_address_is_used_again_only_after_its_last_user_has_certainly_left() {
    let (mut handed_over, mut moves) = (0, 0);
    for seed in 0..WORLDS {
        let found = addresses(seed);
        handed_over += found.0;
        moves += found.1;
    }
    assert_eq!((handed_over, moves), (20679, 604), "handed over, and moved");
}

#[test]
fn what_is_said_of_memory_is_of_the_steps_of_the_run() {
    let mut traced = Traced::new();
    for step in 0..2 {
        let object = traced.object((1 + u64::from(step)) << 20, false);
        traced.op(step, 0, Span::from_ns(1), &[(object, Mode::Write)]);
        traced.op(step, 0, Span::from_ns(1), &[(object, Mode::Read)]);
    }
    let kept = traced.object(3 << 20, true);
    traced.op(1, 0, Span::from_ns(1), &[(kept, Mode::Read)]);
    let world = world_of(traced, 3);
    let mut planner = planner(&world, &[POOL]);
    while planner.plan_next(&mut Vec::new()).expect("it fits") {}
    let memory = planner.ledger().memory_use(HBM).expect("it is not exact");
    assert_eq!(memory.allocator, "pool");
    assert_eq!(memory.buckets, []);
    // 11 MiB behind the 3 that are left: one piece of at least 2^23 bytes.
    let pieces: Vec<usize> =
        (0..).zip(&memory.free_pieces).filter(|(_, n)| **n > 0).map(|(i, _)| i).collect();
    assert_eq!((pieces, memory.free_pieces.iter().sum::<u64>()), (vec![23], 1));
    assert_eq!((memory.end.capacity, memory.end.allocated), (Bytes::mib(14), Bytes::mib(3)));
    let ends: Vec<(u64, u64)> = memory.series.iter().map(|p| (p.step, p.occurrence)).collect();
    for (step, last) in [(0, 1), (1, 4), (2, 6), (3, 9), (4, 11), (5, 14)] {
        assert!(ends.contains(&(step, last)), "step {step} ends with op {last}: {ends:?}");
    }
    assert!(ends.is_sorted(), "{ends:?}");
    let model = Model::Buckets(BucketsConfig { adaptive: false });
    let buckets = AllocatorSpec { model, compaction: None };
    let mut planner = self::planner(&world, &[buckets]);
    while planner.plan_next(&mut Vec::new()).expect("it fits") {}
    let memory = planner.ledger().memory_use(HBM).expect("it is not exact");
    assert_eq!(memory.buckets.len(), 8, "one for each size, 64 B to 1 MiB");
}

#[test]
fn what_lives_within_one_op_is_part_of_the_most_that_is_held() {
    let mut traced = Traced::new();
    let kept = traced.object(1 << 20, true);
    let scratch = traced.object(2 << 20, false);
    traced.op(0, 0, Span::from_ns(1), &[(kept, Mode::Read)]);
    traced.op(0, 0, Span::from_ns(1), &[(scratch, Mode::Write)]);
    traced.op(0, 0, Span::from_ns(1), &[(kept, Mode::Read)]);
    let world = world_of(traced, 1);
    for spec in
        [POOL, AllocatorSpec { model: Model::Buddy(BuddyConfig::default()), compaction: None }]
    {
        let mut planner = planner(&world, &[spec]);
        while planner.plan_next(&mut Vec::new()).expect("it fits") {}
        let memory = planner.ledger().memory_use(HBM).expect("it is not exact");
        assert_eq!((memory.peak_allocated, memory.end.allocated), (Bytes::mib(3), Bytes::mib(1)));
        assert!(memory.peak_reserved >= memory.peak_allocated);
        let series: Vec<u64> = memory.series.iter().map(|p| p.allocated.get() >> 20).collect();
        assert_eq!(series, [1, 3, 1]);
    }
}

#[test]
fn an_op_that_the_trace_states_to_come_later_waits_for_that_op_of_its_replay() {
    let mut traced = Traced::new();
    for stream in [0, 0, 0, 1] {
        let object = traced.object(1 << 20, false);
        traced.op(0, stream, Span::from_ns(1), &[(object, Mode::Write)]);
    }
    // Two ops before the last one on the other stream.
    traced.0.ops[3].after.push(OpId(1));
    let (commands, error) = commands(planner(&world_of(traced, 2), &[]));
    assert_eq!(error, None);
    let ops: Vec<&Command> =
        commands.iter().filter(|c| matches!(c.work, Work::Compute { .. })).collect();
    assert_eq!(ops.len(), 8);
    for replay in [0, 4] {
        let waits: Vec<Ticket> = ops[replay + 3].after.iter().map(|edge| edge.ticket).collect();
        assert!(waits.contains(&ops[replay + 1].ticket), "replay {replay}: {waits:?}");
        assert!(!waits.contains(&ops[replay + 2].ticket), "no longer than stated: {waits:?}");
    }
}

/// Fetches object 0 for the first op, and makes room in either tier by what moves to the other.
struct Swaps {
    start: Vec<TierId>,
    asked: u32,
}

impl Policy for Swaps {
    fn name(&self) -> &'static str {
        "swaps"
    }

    fn lookahead(&self) -> Lookahead {
        Lookahead::Past
    }

    fn initial_tier(&mut self, object: ObjectId, _: &View<'_>) -> TierId {
        self.start[object.index()]
    }

    fn allocate_in(&mut self, _: ObjectId, _: &View<'_>) -> TierId {
        HBM
    }

    fn plan_op(&mut self, step: &mut Step<'_>) {
        step.fetch(ObjectId(0), HBM);
    }

    fn make_room(&mut self, view: &View<'_>, tier: TierId) -> Option<Action> {
        self.asked += 1;
        assert!(self.asked < 100, "it is asked without end");
        let others = (1..self.start.len()).map(ObjectId::at);
        let object = others.into_iter().find(|&object| view.is_allocated(object, tier))?;
        Some(Action::Evict { object, from: tier, to: if tier == HBM { FAR } else { HBM } })
    }
}

#[test]
fn nothing_moves_into_a_tier_while_room_is_made_there() {
    // Object 0 needs 6 MiB where six of 2 MiB lie in 14, and the tier below it is full with it and
    // one of 2 MiB: what leaves either way only makes room for the next one to come back.
    let mut traced = Traced::new();
    let wanted = traced.object(6 << 20, true);
    for _ in 0..7 {
        traced.object(2 << 20, true);
    }
    traced.op(0, 0, Span::from_ns(1), &[(wanted, Mode::Read)]);
    let mut world = world_of(traced, 1);
    world.hardware.tiers[FAR.index()].capacity = Bytes::mib(8).into();
    let mut start = vec![HBM; 8];
    (start[0], start[7]) = (FAR, FAR);
    let watched = PressureConfig {
        tier: FAR,
        thresholds: Thresholds::BALANCED,
        hysteresis: HYSTERESIS,
        responses: [vec![], vec![], vec![], vec![Response::Evict]],
        spill: vec![HBM],
        micro_batch: None,
        clear_cache_frequency: None,
    };
    // By the monitor of the tier below, and by the policy itself.
    for (far, pressure) in [(AllocatorSpec::default(), Some(watched)), (POOL, None)] {
        let policy = Box::new(Swaps { start: start.clone(), asked: 0 });
        let mut planner = world.allocating(policy, &[POOL, far]).expect("the start fits");
        pressure.into_iter().for_each(|config| planner.watch(config, Vec::new()));
        let error = planner.plan_next(&mut Vec::new()).expect_err("there is no room at all");
        assert!(matches!(error, PlanError::OutOfMemory { tier: FAR, .. }), "{error}");
    }
}

#[test]
fn a_policy_is_not_asked_for_room_where_only_bytes_count() {
    let mut traced = Traced::new();
    let wanted = traced.object(6 << 20, true);
    let kept = traced.object(12 << 20, true);
    traced.op(0, 0, Span::from_ns(1), &[(wanted, Mode::Read), (kept, Mode::Read)]);
    let world = world_of(traced, 1);
    // One more question would be one too many.
    let policy = Box::new(Swaps { start: vec![FAR, HBM], asked: 99 });
    let error = world.commands(policy).1.expect("18 of 14");
    assert!(matches!(error, PlanError::OutOfMemory { tier: HBM, .. }), "{error}");
}

#[test]
fn a_copy_into_a_tier_waits_for_every_copy_that_still_leaves_it() {
    let mut traced = Traced::new();
    let object = traced.object(1 << 20, true);
    for _ in 0..2 {
        traced.op(0, 0, Span::from_ns(1), &[]);
    }
    let law = law(0, 1_000_000_000);
    let tiers =
        [TierKind::Hbm, TierKind::Dram, TierKind::Cxl].map(|kind| (kind, Bytes::mib(14), law));
    let machine = hardware(&tiers, &[(0, 1, law), (0, 2, law)]);
    let world = World::of(machine, traced.0, vec![Span::from_ns(1); 2]);
    let third = TierId(2);
    // It leaves HBM and then the tier below, and comes back to HBM while both are under way.
    let script = vec![
        vec![
            Action::Fetch { object, to: FAR },
            Action::Fetch { object, to: third },
            Action::Drop { object, tier: HBM },
            Action::Drop { object, tier: FAR },
        ],
        vec![fetch(object)],
    ];
    let (commands, error) = world.commands(Scripted::of(vec![HBM], script));
    assert_eq!(error, None);
    let of = |wanted: fn(&Work) -> bool| commands.iter().filter(move |c| wanted(&c.work));
    let left = of(|work| matches!(work, Work::Release)).next().expect("it leaves HBM").ticket;
    let back = of(|work| matches!(work, Work::Copy { to: HBM, .. })).next().expect("it comes back");
    assert!(back.after.iter().any(|edge| edge.ticket == left), "{:?}", back.after);
}

/// The words of a plan's state after its first op, whose commands have ended or not.
fn state(world: &World, start: TierId, first: &[Action], ended: bool) -> State {
    let policy = Scripted::of(vec![start; 2], vec![first.to_vec()]);
    let mut planner = world.planner(policy).expect("it fits");
    let mut commands = Vec::new();
    planner.plan_next(&mut commands).expect("it fits");
    for command in commands.iter().filter(|_| ended) {
        planner.ended(command.ticket);
    }
    let mut state = State::new(planner.planned());
    planner.state(&mut state);
    state
}

#[test]
fn the_state_of_a_plan_is_where_things_are_and_what_is_under_way_and_no_more() {
    let mut traced = Traced::new();
    let object = traced.object(1 << 20, true);
    traced.object(1 << 20, true);
    for _ in 0..2 {
        traced.op(0, 0, Span::from_ns(1), &[]);
    }
    let world = world_of(traced, 1);
    let of = |first: &[Action], ended| state(&world, HBM, first, ended);
    // A copy that came and went leaves nothing behind once all of it has ended.
    let copy = Action::Fetch { object, to: FAR };
    let there_and_back = [copy, Action::Drop { object, tier: FAR }];
    assert_eq!(of(&there_and_back, true), of(&[], true));
    assert_ne!(of(&there_and_back, false), of(&[], false));
    assert_ne!(of(&[copy], true), of(&[], true));
    assert_ne!(of(&[], true), state(&world, FAR, &[], true));
}

#[test]
fn an_op_that_ends_last_gives_the_room_back_itself() {
    let mut traced = Traced::new();
    let object = traced.object(1 << 20, false);
    traced.op(0, 0, Span::from_ns(1), &[(object, Mode::Write)]);
    traced.op(0, 0, Span::from_ns(1), &[(object, Mode::Read)]);
    let (commands, error) = commands(planner(&world_of(traced, 1), &[]));
    assert_eq!(error, None);
    let works: Vec<&Work> = commands.iter().map(|command| &command.work).collect();
    assert!(matches!(works[..], [Work::Compute { .. }, Work::Compute { .. }]), "{works:?}");
    assert_eq!(commands[1].frees.len(), 1, "the last op, and no command of its own");
}
