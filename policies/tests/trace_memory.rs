//! What a trace asks of memory, against heaps that are known by hand and capacities tried one by
//! one.

use tiersim_models::allocator::{
    AllocatorSpec, BuddyConfig, CachingConfig, Compaction, Fragmentation, Model,
};
use tiersim_models::hardware::Memory;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::lifetime::Workload;
use tiersim_models::results::memory_use::Share;
use tiersim_models::results::trace_memory::{Leak, Proof, Served};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Mode, Object, ObjectKind, Op, Phase, Trace, TraceMeta, Use};
use tiersim_policies::planner::Planner;
use tiersim_policies::static_placement::StaticPlacement;
use tiersim_policies::trace_memory::{ahead, leaks, least_pool, serve, trace_memory};

/// A block of the pool.
const U: u64 = 512;

struct Built(Trace);

impl Built {
    fn new() -> Built {
        let meta = TraceMeta { batch: 1, sequence: 1, ..TraceMeta::default() };
        let (modules, objects, ops, uses) = Default::default();
        Built(Trace { meta, modules, objects, ops, uses })
    }

    fn object(&mut self, bytes: u64) -> ObjectId {
        let id = ObjectId::at(self.0.objects.len());
        let name = format!("t{}", id.index());
        self.0.objects.push(Object::new(name, ObjectKind::Activation, Bytes::new(bytes)));
        id
    }

    /// An op that makes some objects and reads others; its id.
    fn op(&mut self, step: u32, name: &str, makes: &[ObjectId], reads: &[ObjectId]) -> OpId {
        let start = self.0.uses.len() as u32;
        let made = makes.iter().map(|&object| Use::whole(object, Mode::Write));
        let read = reads.iter().map(|&object| Use::whole(object, Mode::Read));
        self.0.uses.extend(made.chain(read));
        let uses = start..self.0.uses.len() as u32;
        self.0.ops.push(Op::new(step, Phase::Other, name, uses));
        OpId::at(self.0.ops.len() - 1)
    }

    fn workload(self) -> Workload {
        assert_eq!(self.0.problems(), [], "the trace keeps the rules");
        Workload::new(self.0)
    }

    /// A step that leaves holes of two blocks in front of and behind one, and then asks for `last`.
    fn two_holes(&mut self, step: u32, small: u64, last: Option<u64>) {
        let [a, b, c, d] = [2 * U, small, 2 * U, U].map(|bytes| self.object(bytes));
        for (name, object) in [("a", a), ("b", b), ("c", c), ("d", d)] {
            self.op(step, name, &[object], &[]);
        }
        self.op(step, "free", &[], &[a, c]);
        let last = last.map(|bytes| self.object(bytes));
        self.op(step, "last", last.as_slice(), &[b, d]);
    }
}

fn two_holes(small: u64, last: Option<u64>) -> Workload {
    let mut built = Built::new();
    built.two_holes(0, small, last);
    built.workload()
}

const fn pool(compaction: Option<Compaction>) -> AllocatorSpec {
    AllocatorSpec { model: Model::Pool, compaction }
}

const fn above(above: f64, by: Fragmentation) -> AllocatorSpec {
    pool(Some(Compaction { above, by, at_once: None }))
}

#[test]
fn a_heap_with_two_holes_is_as_fragmented_as_it_is_by_hand() {
    let workload = two_holes(384, None);
    let found = serve(&workload, &pool(None), Bytes::new(6 * U)).expect("it fits");
    // Two holes of two blocks each, and 384 + 512 bytes in two blocks.
    assert_eq!((found.external.highest, found.internal.highest), (0.5, 0.125));
    assert_eq!(found.total.highest, (0.5 + 0.125) / 2.0);
    assert!((found.external.mean - 0.5 / 6.0).abs() < 1e-15, "after one op of six");
    assert_eq!((found.total.end, found.compactions, found.moved), (0.0, 0, Bytes::ZERO));
}

#[test]
fn total_fragmentation_above_the_threshold_moves_the_blocks_behind_the_first_hole() {
    let workload = two_holes(384, None);
    let serve = |spec| serve(&workload, &spec, Bytes::new(6 * U)).expect("it fits");
    // 0.3125 in total: two blocks move, and half of 0.125 is left.
    let Served { compactions, moved, external, total, .. } =
        serve(above(0.3, Fragmentation::Total));
    assert_eq!((compactions, moved.get(), external.highest), (1, 2 * U, 0.0));
    assert_eq!(total.highest, 0.0625);
    for quiet in [above(0.32, Fragmentation::Total), above(0.5, Fragmentation::External)] {
        let Served { compactions, moved, external, .. } = serve(quiet);
        assert_eq!((compactions, moved.get(), external.highest), (0, 0, 0.5));
    }
    assert_eq!(serve(above(0.49, Fragmentation::External)).moved.get(), 2 * U);
}

#[test]
fn the_least_pool_of_two_holes_needs_room_behind_them_and_none_where_blocks_move() {
    let workload = two_holes(U, Some(3 * U));
    let least = least_pool(&workload, &pool(None), Bytes::new(9 * U));
    assert_eq!((least.bytes.get(), least.proof, least.fails_above), (9 * U, Proof::All, None));
    let moving = least_pool(&workload, &above(1.0, Fragmentation::Total), Bytes::new(9 * U));
    assert_eq!((moving.bytes.get(), moving.proof, moving.replays), (6 * U, Proof::Floor, 1));
    let exact = least_pool(&workload, &AllocatorSpec::default(), Bytes::new(6 * U));
    assert_eq!((exact.bytes.get(), exact.granule.get(), exact.proof), (6 * U, 1, Proof::Floor));
    let refused = serve(&workload, &pool(None), Bytes::new(8 * U)).expect_err("one block less");
    assert_eq!((refused.need.get(), refused.largest.get()), (3 * U, 2 * U));
    assert_eq!((refused.object.as_str(), refused.op), ("t4", Some(5)));
}

/// A draw; the same on every run.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

fn random(seed: &mut u64) -> Workload {
    let mut built = Built::new();
    let mut live = Vec::new();
    for _ in 0..60 {
        if live.len() > 2 && draw(seed, 100) < 48 {
            let gone = live.swap_remove(draw(seed, live.len() as u64) as usize);
            built.op(0, "free", &[], &[gone]);
        } else {
            let bytes = 1 + draw(seed, 12 * U);
            let object = built.object(bytes);
            built.op(0, "take", &[object], &[]);
            live.push(object);
        }
    }
    built.op(0, "rest", &[], &live);
    built.workload()
}

#[test]
fn the_least_pool_is_the_first_that_serves_of_all_that_are_tried_one_by_one() {
    let (mut seed, mut uneven) = (7, 0);
    let buddy = AllocatorSpec { model: Model::Buddy(BuddyConfig::default()), compaction: None };
    for world in 0..120 {
        let workload = random(&mut seed);
        let spec = if world % 3 == 2 { buddy.clone() } else { pool(None) };
        let serves = |blocks: u64| serve(&workload, &spec, Bytes::new(blocks * U)).is_ok();
        let first = (1..).find(|&blocks| serves(blocks)).expect("some capacity serves");
        let ample = serve(&workload, &spec, Bytes::mib(64)).expect("plenty").reserved;
        let least = least_pool(&workload, &spec, ample);
        assert_eq!(least.bytes.get(), first * U, "world {world}");
        assert!(matches!(least.proof, Proof::Floor | Proof::All), "world {world}: {least:?}");
        if let Some(fails) = least.fails_above {
            uneven += 1;
            assert!(fails > least.bytes && !serves(fails.get() / U), "world {world}: {least:?}");
        }
        runs(&workload, &spec, first * U);
    }
    assert!(uneven > 0, "more memory is not always enough, and some world shows it");
}

/// A plan that keeps everything in the tier runs in `capacity`, and in one block less it does not.
fn runs(workload: &Workload, spec: &AllocatorSpec, capacity: u64) {
    for (bytes, fits) in [(capacity, true), (capacity - U, false)] {
        let memory = Memory::of([Bytes::new(bytes)]).with(std::slice::from_ref(spec));
        let policy = Box::new(StaticPlacement::all_in_hbm(&workload.trace));
        let mut planner = Planner::new(workload, policy, &memory, 1).expect("nothing persists");
        let mut out = Vec::new();
        let planned = (0..workload.trace.ops.len()).all(|_| planner.plan_next(&mut out).is_ok());
        assert_eq!(planned, fits, "{bytes} bytes");
    }
}

/// `steps` steps with something that is never given back in every `every`th, beside what is not a
/// leak: a workspace made once, what each step uses again, and what goes one step later.
fn leaking(steps: u32, every: Option<u32>) -> Workload {
    let mut built = Built::new();
    let (workspace, state) = (built.object(4096), built.object(64));
    let (mut held, mut cache, mut loss) = (vec![workspace], vec![state], None);
    built.op(0, "workspace", &[workspace, state], &[]);
    for step in 0..steps {
        let (out, key, now) = (built.object(300), built.object(128), built.object(4));
        built.op(step, "forward", &[out], &cache);
        built.op(step, "append", &[key], &[out]);
        cache.push(key);
        if every.is_some_and(|every| step % every == 0) {
            let left = built.object(1000);
            built.op(step, "clone", &[left], &[out]);
            held.push(left);
        }
        let before: Vec<ObjectId> = loss.replace(now).into_iter().collect();
        built.op(step, "loss", &[now], &before);
    }
    let end = built.op(steps - 1, "end", &[], &cache);
    for object in held {
        built.0.objects[object.index()].freed_after = Some(end);
    }
    built.workload()
}

#[test]
fn a_tensor_left_behind_in_every_step_is_found_and_nothing_else() {
    let found = leaks(&leaking(6, Some(1)));
    let leak = Leak {
        op: "clone".to_owned(),
        module: None,
        first: "t5".to_owned(),
        objects: 5,
        bytes: Bytes::new(5000),
        since: 0,
        per_step: Bytes::new(1000),
    };
    assert_eq!((found.steps, found.sites), (6, vec![leak]), "the last step's may still go");
    let rare = leaks(&leaking(10, Some(2)));
    assert_eq!(rare.sites.len(), 1);
    assert_eq!(rare.sites[0].per_step, Bytes::new(500), "one in two steps");
    assert_eq!(leaks(&leaking(6, None)).sites, []);
    let few = leaks(&leaking(3, Some(1)));
    assert_eq!((few.can_tell(), few.sites), (false, vec![]));
}

#[test]
fn offsets_ahead_close_the_holes_of_steps_that_ask_the_same() {
    let mut built = Built::new();
    (0..3).for_each(|step| built.two_holes(step, U, Some(3 * U)));
    let found = ahead(&built.workload(), &pool(None));
    assert_eq!((found.planned, found.outliving, found.hits), (5, 0, 10));
    assert_eq!((found.plan.get(), found.plan_floor.get()), (6 * U, 6 * U));
    assert_eq!((found.alone.get(), found.beside.get()), (9 * U, 0));
    assert_eq!((found.saved(), found.wasted()), (i128::from(3 * U), Bytes::ZERO));
}

#[test]
fn what_the_observed_step_did_not_ask_is_served_beside_the_plan_and_paid() {
    let mut built = Built::new();
    built.two_holes(0, U, Some(3 * U));
    built.two_holes(1, U, Some(4 * U));
    let more = built.object(U);
    built.op(1, "more", &[more], &[]);
    let found = ahead(&built.workload(), &pool(None));
    assert_eq!((found.hits, found.larger, found.unknown, found.in_use), (4, 1, 1, 0));
    assert_eq!((found.plan.get(), found.beside.get()), (6 * U, 4 * U));
    assert_eq!(found.alone.get(), 10 * U);
    assert_eq!((found.saved(), found.wasted().get()), (0, 4 * U));
}

#[test]
fn all_of_it_is_of_one_trace_and_one_allocator() {
    let mut built = Built::new();
    (0..4).for_each(|step| built.two_holes(step, U, Some(3 * U)));
    let workload = built.workload();
    let found = trace_memory(&workload, &pool(None), None).expect("it is small");
    assert_eq!((found.floor.get(), found.ample.get()), (6 * U, 9 * U));
    assert_eq!((found.capacity, found.least.bytes.get()), (found.least.bytes, 9 * U));
    assert_eq!(found.requests, (0, 20));
    let served = found.served.expect("the least pool serves");
    assert!(matches!(served.external, Share { end: 0.0, .. }), "all is free at the end");
    let none = trace_memory(&workload, &pool(None), Some(Bytes::new(U))).expect("it is small");
    assert_eq!(none.served.expect_err("one block is too little").op, Some(0));
    let caching = Model::Caching(CachingConfig::default());
    let caching = AllocatorSpec { model: caching, compaction: None };
    let found = trace_memory(&workload, &caching, None).expect("it is small");
    assert_eq!(found.least.bytes, Bytes::mib(2), "one small segment holds it");
}
