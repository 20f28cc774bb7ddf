//! Activations kept, offloaded or recomputed: hand-worked times, contents, counts and the choice.

use std::collections::BTreeMap;
use std::sync::Arc;
use tiersim_models::hardware::{HBM, Hardware};
use tiersim_models::ids::{ModuleId, ObjectId, OpId, TierId};
use tiersim_models::layered::{Family, Layered, Mode as ShapeMode, Precision};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Mode, ObjectKind, Phase, Trace};
use tiersim_policies::recipe::{PolicyConfig, Recipe, Rewrite};
use tiersim_policies::zoo::activation_offload::{ActivationOffloadConfig, Choice, Way};
use tiersim_sim::durations::Durations;
use tiersim_sim::record::{CaseRecord, Figures, Outcome};
use tiersim_sim::run::{Options, run};
use tiersim_sim::scenario::{Budget, Case, OpTime, Scenario, TraceSource, WorkloadSpec};
use tiersim_tests::build::{Traced, law, two_tiers};
use tiersim_tests::setting::with_setting;
use tiersim_tests::soak::{Chosen, Trial, seed_of};

/// One byte per picosecond.
const RATE: u64 = 1_000_000_000_000;
const DRAM: TierId = TierId(1);

/// Two layers between an input and a head: each makes an activation of 20 and hands on one of 10.
fn two_layers() -> Trace {
    use Mode::{Read, Write};
    use Phase::{Backward, Forward};
    let mut traced = Traced::new();
    traced.0.modules = ["in", "h.0", "h.1", "out"].map(str::to_owned).to_vec();
    let [x0, a0, x1, a1, x2] = [10, 20, 10, 20, 10].map(|bytes| traced.object(bytes, false));
    let [d2, d1, d0] = [10; 3].map(|bytes| traced.object(bytes, false));
    for gradient in [d2, d1, d0] {
        traced.0.objects[gradient.index()].kind = ObjectKind::Buffer;
    }
    let mut op = |phase, module, ps, uses: &[_]| {
        let id = traced.op(0, 0, Span::from_ps(ps), uses);
        let op = &mut traced.0.ops[id.index()];
        (op.phase, op.module) = (phase, Some(ModuleId::at(module)));
    };
    op(Forward, 0, 10, &[(x0, Write)]);
    op(Forward, 1, 10, &[(x0, Read), (a0, Write)]);
    op(Forward, 1, 10, &[(a0, Read), (x1, Write)]);
    op(Forward, 2, 10, &[(x1, Read), (a1, Write)]);
    op(Forward, 2, 10, &[(a1, Read), (x2, Write)]);
    op(Backward, 3, 40, &[(x2, Read), (d2, Write)]);
    op(Backward, 2, 20, &[(a1, Read), (x1, Read), (d2, Read), (d1, Write)]);
    op(Backward, 1, 20, &[(a0, Read), (x0, Read), (d1, Read), (d0, Write)]);
    assert_eq!(traced.0.problems(), []);
    traced.0
}

fn config(choice: Choice) -> ActivationOffloadConfig {
    ActivationOffloadConfig::new(choice, vec![DRAM])
}

/// How a scenario is run in these tests.
#[derive(Clone, Copy)]
struct How {
    repeat: u32,
    jitter: f64,
    chunk: Option<u64>,
    audit: bool,
}

const ONCE: How = How { repeat: 1, jitter: 0.0, chunk: None, audit: true };

/// The record of one case, audited after every event.
fn record(hardware: Hardware, trace: &Trace, policy: PolicyConfig, how: How) -> CaseRecord {
    let case = Case {
        label: "case".to_owned(),
        policy,
        hbm: Budget::Hardware,
        allocators: Vec::new(),
        hidden: Vec::new(),
        numa: Default::default(),
        chunk: how.chunk.map(Bytes::new),
        micro_batch: None,
        pressure: None,
        params: Vec::new(),
    };
    let workload = WorkloadSpec {
        trace: TraceSource::Folder("test".into()),
        repeat: how.repeat,
        warmup: 0,
        time: OpTime::Recorded { scale: 1.0 },
        jitter: how.jitter,
    };
    let scenario = Scenario {
        name: "test".to_owned(),
        about: String::new(),
        hardware: Arc::new(hardware),
        workload,
        cases: vec![case],
        seed: 7,
        expect: Vec::new(),
    };
    let options = Options { audit: how.audit, timeline: how.audit, ..Options::default() };
    let workload = Workload::new(trace.clone());
    let record = run(&scenario, &workload, String::new(), options, || ());
    record.expect("no fault").results.remove(0)
}

fn figures(record: &CaseRecord) -> Option<&Figures> {
    match &record.outcome {
        Outcome::Done(figures) => Some(figures),
        Outcome::OutOfMemory(_) => None,
    }
}

/// Picoseconds of a step; `None` if it does not fit.
fn step(hbm: u64, trace: &Trace, choice: Choice) -> Option<u64> {
    let hardware = two_tiers(Bytes::new(hbm), law(0, RATE));
    let record = record(hardware, trace, config(choice).into(), ONCE);
    figures(&record).map(|figures| figures.mean_step().ps())
}

/// The same trace with every layer recomputed that can be.
fn recomputed(trace: &Trace) -> Rewrite {
    let (choice, hardware) = (Choice::All(Way::Recompute), two_tiers(Bytes::MAX, law(0, RATE)));
    let workload = Workload::new(trace.clone());
    let rewrite = with_setting(&workload, &hardware, 1, |setting| config(choice).rewrite(setting));
    rewrite.expect("it can be rewritten").expect("it is")
}

#[test]
fn times_are_those_worked_out_by_hand() {
    let trace = two_layers();
    let each = |ways: [Way; 3]| Choice::Each(ways.into());
    let (keep, offload, recompute) = (Way::Keep, Way::Offload, Way::Recompute);
    // All of it is 80 at most, and takes the sum of its ops.
    assert_eq!(step(80, &trace, Choice::All(keep)), Some(130));
    // On demand: x0 leaves before op 4 (10), a0 before op 5 (20), and both come back for op 7 (30).
    assert_eq!(step(60, &trace, Choice::All(keep)), Some(190));
    // a0 and x1 leave under op 3 and later; op 4 waits for a0 until 50. x1 is back under op 5, and a0
    // has no room before op 7 (20).
    assert_eq!(step(60, &trace, each([keep, offload, keep])), Some(160));
    // Without a0 between, the rest is 60; op 1 runs again.
    assert_eq!(step(60, &trace, each([keep, recompute, keep])), Some(140));
    // So does op 3.
    assert_eq!(step(60, &trace, Choice::All(recompute)), Some(150));
    assert_eq!(step(60, &trace, Choice::Best), Some(140));
    assert_eq!(step(80, &trace, Choice::Best), Some(130));
}

/// What every use of an op finds, where contents are numbers made of what the op is and what it reads.
/// Ops are known by their source, objects by what was written.
fn found(trace: &Trace, source: &[OpId]) -> Vec<Vec<u64>> {
    let mix = |a: u64, b: u64| seed_of(a, b);
    let mut contents: BTreeMap<u32, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for (op, source) in source.iter().enumerate() {
        let uses = trace.uses_of(OpId::at(op));
        let reads = uses.iter().map(|touched| match touched.mode.reads() {
            true => *contents.get(&touched.object.0).unwrap_or(&u64::from(touched.object.0)),
            false => 0,
        });
        let reads: Vec<u64> = reads.collect();
        let value = reads.iter().fold(u64::from(source.0), |value, &read| mix(value, read));
        for (at, touched) in uses.iter().enumerate() {
            if touched.mode.writes() {
                contents.insert(touched.object.0, mix(value, at as u64));
            }
        }
        all.push(reads);
    }
    all
}

/// Whether every op of a rewritten trace, repeated or not, finds what its source finds; how many
/// are repeated.
fn check_contents(old: &Trace, new: &Rewrite) -> usize {
    let trace = &new.workload.trace;
    assert_eq!(trace.problems(), []);
    let all: Vec<OpId> = (0..old.ops.len()).map(OpId::at).collect();
    let (before, after) = (found(old, &all), found(trace, &new.source));
    let mut seen = vec![false; old.ops.len()];
    let mut repeated = 0;
    let mut next = 0;
    for (at, &source) in new.source.iter().enumerate() {
        assert_eq!(after[at], before[source.index()], "op {at} finds other contents");
        let (op, original) = (&trace.ops[at], &old.ops[source.index()]);
        let same = (op.duration, op.flops, op.bytes, op.module);
        assert_eq!(same, (original.duration, original.flops, original.bytes, original.module));
        if std::mem::replace(&mut seen[source.index()], true) {
            repeated += 1;
            assert_eq!(op.name, format!("recompute {}", original.name));
            assert_eq!(op.phase, Phase::Backward);
        } else {
            // In their order, none left out.
            assert_eq!(source.index(), next);
            assert_eq!(
                (&op.name, op.step, op.phase),
                (&original.name, original.step, original.phase)
            );
            next += 1;
        }
    }
    assert_eq!(next, old.ops.len());
    let workload = Workload::new(old.clone());
    let ends = |ends: &[OpId], source: &dyn Fn(OpId) -> OpId| -> Vec<OpId> {
        ends.iter().map(|&end| source(end)).collect()
    };
    let new_ends = ends(new.workload.step_ends(), &|end| new.source[end.index()]);
    assert_eq!(new_ends, ends(workload.step_ends(), &|end| end));
    assert_eq!(trace.tokens_per_step(), old.tokens_per_step());
    repeated
}

/// The same ops and uses as one step of training: the first half forward, layer by layer.
fn as_training(mut trace: Trace) -> Trace {
    let (ops, modules) = (trace.ops.len(), trace.modules.len());
    for (index, op) in trace.ops.iter_mut().enumerate() {
        let forward = index < ops / 2;
        let layer = index.min(ops - index) * 2 * modules / ops;
        op.phase = if forward { Phase::Forward } else { Phase::Backward };
        (op.step, op.module) = (0, Some(ModuleId::at(layer.min(modules - 1))));
    }
    for object in trace.objects.iter_mut().filter(|object| !object.persistent) {
        object.kind = ObjectKind::Activation;
    }
    assert_eq!(trace.problems(), []);
    trace
}

#[test]
fn every_op_finds_what_it_found_before() {
    assert_eq!(check_contents(&two_layers(), &recomputed(&two_layers())), 2);
    let mut repeating = 0;
    for index in 0..3000 {
        let trace = as_training(Trial::new(seed_of(20_261_121, index), 1000).workload.trace);
        repeating += usize::from(check_contents(&trace, &recomputed(&trace)) > 0);
    }
    eprintln!("{repeating} repeat");
    assert!(repeating >= 200, "{repeating} random traces have something to recompute");
}

/// Random worlds, rewritten for the policy, audited and watched: contents, rooms, orders.
#[test]
fn random_worlds_hold_their_rules_and_fit_where_paging_does() {
    let (mut ran, mut repeating) = (0, 0);
    for index in 0..1500 {
        let mut trial = Trial::new(seed_of(5, index), 120);
        let spill: Vec<TierId> = trial.hardware.tier_ids().skip(1).collect();
        if spill.is_empty() {
            continue;
        }
        let way = [Way::Keep, Way::Offload, Way::Recompute][index as usize % 3];
        let choice = if index % 5 == 0 { Choice::Best } else { Choice::All(way) };
        let lru = tiersim_policies::zoo::demand::DemandConfig::lru(spill.clone());
        trial.pressure = None;
        trial.hidden = Vec::new();
        trial.allocators = Vec::new();
        trial.workload = Workload::new(as_training(trial.workload.trace));
        let paged = trial.clone().under(Chosen::Config(lru.into())).run(None);
        let paged = paged.expect("paging breaks no rule");
        let config = ActivationOffloadConfig::new(choice, spill);
        let rewrite = with_setting(&trial.workload, &trial.hardware, trial.repeat, |setting| {
            config.rewrite(setting).expect("it can be rewritten").expect("it is")
        });
        repeating += usize::from(rewrite.repeats(&trial.workload));
        let ops = trial.workload.trace.ops.len();
        trial.durations = trial.durations.repeating(&rewrite.source, ops);
        trial.workload = rewrite.workload;
        let policy = rewrite.policy.expect("it knows what it decided");
        let done = trial.under(Chosen::Config(policy)).run(None);
        let done = done.unwrap_or_else(|breach| panic!("world {index}: {breach:?}"));
        assert!(done.is_some() || paged.is_none(), "world {index} fits under paging");
        ran += usize::from(done.is_some());
    }
    eprintln!("{ran} ran, {repeating} repeat");
    assert!(ran > 500 && repeating > 50, "{ran} ran, {repeating} with ops that run again");
}

fn shape(layers: u32) -> Layered {
    Layered {
        family: Family::Gpt2,
        layers,
        hidden: 64,
        ffn: 256,
        heads: 4,
        kv_heads: 4,
        vocab: 16,
        positions: 128,
        tied: true,
        precision: Precision::Bf16,
        batch: 2,
        mode: ShapeMode::Train { sequence: 128 },
    }
}

/// The most bytes of activations that are alive at once.
fn peak_of_activations(trace: &Trace) -> u64 {
    let workload = Workload::new(trace.clone());
    let sum = |objects: &[ObjectId]| -> u64 {
        let all = objects.iter().map(|object| &trace.objects[object.index()]);
        let own = all.filter(|object| object.kind == ObjectKind::Activation);
        own.map(|object| object.bytes.get()).sum()
    };
    let (mut held, mut most) = (0, 0);
    for op in (0..trace.ops.len()).map(OpId::at) {
        held += sum(workload.births(op));
        most = most.max(held);
        held -= sum(workload.releases(op));
    }
    most
}

/// Korthikanti et al. 2023, section 5: with full recomputation a layer keeps its input, 2 s b h, and
/// the layer whose backward runs has all that it keeps, here 32 s b h with fused attention and the
/// logarithms of its sums.
#[test]
fn recompute_of_all_layers_leaves_the_checkpoints_and_one_layer() {
    for layers in [2, 5] {
        let trace = shape(layers).trace();
        let new = recomputed(&trace);
        let (tokens, hidden, layers) = (2 * 128, 64, u64::from(layers));
        let unit = tokens * hidden;
        let inner = 30 * unit + 4 * tokens * 4;
        assert_eq!(peak_of_activations(&new.workload.trace), 2 * unit * layers + inner);
        // Kept, all layers have theirs, and the last hands on its output to the norm and the head.
        let head = 2 * unit + 2 * unit + 4 * tokens * 16;
        assert_eq!(peak_of_activations(&trace), layers * (2 * unit + inner) + head);
        // All of the layers' forward but the last product of each, whose result is a checkpoint.
        let flops = |trace: &Trace| trace.ops.iter().map(|op| op.flops).sum::<u64>();
        let pairs = 2 * 128 * 129 / 2;
        let product = |from: u64, to: u64| 2 * tokens * from * to;
        let again = product(hidden, 3 * hidden)
            + 4 * hidden * pairs
            + product(hidden, hidden)
            + product(hidden, 4 * hidden);
        assert_eq!(flops(&new.workload.trace) - flops(&trace), layers * again);
        assert_eq!(check_contents(&trace, &new), 7 * layers as usize);
    }
}

#[test]
fn repeated_ops_take_their_sources_time_with_jitter_and_in_every_replay() {
    let trace = two_layers();
    let how = How { repeat: 2, jitter: 0.3, ..ONCE };
    let hardware = two_tiers(Bytes::new(1000), law(0, RATE));
    let record = record(hardware, &trace, config(Choice::All(Way::Recompute)).into(), how);
    let figures = figures(&record).expect("it fits");
    let spec = WorkloadSpec {
        trace: TraceSource::Folder("test".into()),
        repeat: 2,
        warmup: 0,
        time: OpTime::Recorded { scale: 1.0 },
        jitter: 0.3,
    };
    let durations = Durations::new(&trace, &spec, 7).expect("all ops have a time");
    let run: u64 = (0..16).map(|op| durations.of(op).ps()).sum();
    let again: u64 = [1, 3, 9, 11].map(|op| durations.of(op).ps()).iter().sum();
    assert_eq!(figures.mean_step().ps(), (run + again).div_ceil(2));
    assert_eq!(record.baseline_step.ps(), run.div_ceil(2), "the baseline is the original");
    assert_eq!(record.bound_step.ps(), (run + again) / 2, "the bound is of what runs");
    assert_eq!(record.details, "recompute: 0 layers kept, 0 offloaded, 3 recomputed");
}

#[test]
fn chunks_come_first_and_the_pieces_are_recomputed() {
    let trace = two_layers();
    for (hbm, chunk) in [(60, 7), (60, 10), (1000, 3)] {
        let how = How { chunk: Some(chunk), ..ONCE };
        let hardware = two_tiers(Bytes::new(hbm), law(0, RATE));
        let record = record(hardware, &trace, config(Choice::All(Way::Recompute)).into(), how);
        let figures = figures(&record).expect("it fits");
        assert_eq!(figures.mean_step().ps(), 150);
        assert_eq!(figures.peak[HBM.index()], Bytes::new(60));
    }
}

/// The same layers with a dear op 1: 30 ps instead of 10.
fn dear() -> Trace {
    let mut trace = two_layers();
    trace.ops[1].duration = Some(Span::from_ps(30));
    trace
}

#[test]
fn offload_wins_on_a_fast_link_and_recompute_on_a_slow_one() {
    let time = |rate, ways: [Way; 3]| {
        let hardware = two_tiers(Bytes::new(60), law(0, rate));
        let policy = config(Choice::Each(ways.into())).into();
        let record = record(hardware, &dear(), policy, ONCE);
        figures(&record).expect("it fits").mean_step().ps()
    };
    let best = |rate| {
        let hardware = two_tiers(Bytes::new(60), law(0, rate));
        let record = record(hardware, &dear(), config(Choice::Best).into(), ONCE);
        figures(&record).expect("it fits").mean_step().ps()
    };
    let (keep, offload, recompute) = (Way::Keep, Way::Offload, Way::Recompute);
    // 150, and op 1 again: the link does not matter.
    let again = [keep, recompute, keep];
    assert_eq!([time(20 * RATE, again), time(RATE / 4, again)], [180; 2]);
    // 150, and what does not hide: a0 comes back before op 7, 1 ps or 80 ps.
    let away = [keep, offload, keep];
    assert_eq!(time(20 * RATE, away), 151);
    assert!(time(RATE / 4, away) >= 150 + 80);
    assert!(best(20 * RATE) <= 151);
    assert!(best(RATE / 4) <= 180);
}

/// Layers of two inner activations and an output each, sizes and times by a rule without pattern.
fn uneven(layers: usize) -> Trace {
    use Mode::{Read, Write};
    let mut traced = Traced::new();
    traced.0.modules = (0..layers).map(|layer| format!("h.{layer}")).collect();
    let mut number = 0;
    let mut draw = |least: u64, most: u64| {
        number += 1;
        least + seed_of(11, number) % (most - least)
    };
    let op = |traced: &mut Traced, phase, layer, ps, uses: &[_]| {
        let id = traced.op(0, 0, Span::from_ps(ps), uses);
        let op = &mut traced.0.ops[id.index()];
        (op.phase, op.module) = (phase, Some(ModuleId::at(layer)));
    };
    let mut handed = Vec::new();
    let mut made = Vec::new();
    for layer in 0..layers {
        let [a, b, out] = [draw(5, 60), draw(5, 60), 10].map(|bytes| traced.object(bytes, false));
        let mut uses: Vec<_> = handed.iter().map(|&x| (x, Read)).collect();
        let inputs = uses.clone();
        uses.push((a, Write));
        op(&mut traced, Phase::Forward, layer, draw(5, 60), &uses);
        op(&mut traced, Phase::Forward, layer, draw(5, 60), &[(a, Read), (b, Write)]);
        op(&mut traced, Phase::Forward, layer, draw(5, 60), &[(b, Read), (out, Write)]);
        made.push(inputs.into_iter().chain([(a, Read), (b, Read)]).collect::<Vec<_>>());
        handed = vec![out];
    }
    let mut gradient = handed[0];
    for (layer, uses) in made.iter().enumerate().rev() {
        let new = traced.object(10, false);
        let mut uses = uses.clone();
        uses.extend([(gradient, Read), (new, Write)]);
        op(&mut traced, Phase::Backward, layer, draw(20, 120), &uses);
        gradient = new;
    }
    assert_eq!(traced.0.problems(), []);
    traced.0
}

/// Through the simulator, against every choice by layer.
#[test]
fn the_best_choice_is_close_to_that_of_all_choices_run() {
    let trace = uneven(6);
    let how = How { audit: false, ..ONCE };
    let ways = [Way::Keep, Way::Offload, Way::Recompute];
    let (mut found, mut least) = (0, 0);
    for (hbm, rate) in
        [(160, RATE / 4), (160, RATE), (180, RATE / 4), (180, RATE / 2), (220, RATE / 4)]
    {
        let time = |choice| {
            let hardware = two_tiers(Bytes::new(hbm), law(0, rate));
            let record = record(hardware, &trace, config(choice).into(), how);
            figures(&record).expect("it fits").mean_step().ps()
        };
        let all = (0..729usize).map(|number| {
            let way = |at: u32| ways[number / 3usize.pow(at) % 3];
            time(Choice::Each((0..6).map(way).collect()))
        });
        let optimum = all.min().expect("there are choices");
        let best = time(Choice::Best);
        eprintln!("{hbm} bytes, {rate} B/s: {best} where {optimum} is possible");
        assert!(best * 100 <= optimum * 105, "{best} where {optimum} is possible");
        (found, least) = (found + best, least + optimum);
    }
    assert!(found * 100 <= least * 103, "{found} in all where {least} is possible");
}
