//! What `tiersim trace diff` finds: exactly what was changed, and nothing in equal traces.

use crate::trace_properties::any_rich_trace;
use proptest::prelude::*;
use tiersim_input::trace::diff::{TraceDiff, trace_diff};
use tiersim_input::trace::info;
use tiersim_models::ids::{ModuleId, ObjectId, OpId};
use tiersim_models::units::{Bytes, Span, Time};
use tiersim_models::workload::{
    Known, Mode, Object, ObjectKind, Op, Phase, Recorded, Statistics, Trace, TraceMeta, Unit, Use,
};

/// All that runs may depend on, spelled out: modules by name, nothing of what a trace says of
/// itself and of how it was recorded.
fn spelled(trace: &Trace) -> String {
    let module = |id: Option<ModuleId>| id.map(|id| trace.modules[id.index()].clone());
    let objects = trace
        .objects
        .iter()
        .map(|one| (module(one.module), Object { module: None, ..one.clone() }));
    let plain = |op: &Op| Op { module: None, at: None, ..op.clone() };
    let ops = trace.ops.iter().map(|op| (module(op.module), plain(op)));
    let uses = trace.uses.iter().map(|one| Use { known: Known::Seen, ..*one });
    let (objects, ops): (Vec<_>, Vec<_>) = (objects.collect(), ops.collect());
    let (batch, sequence, uses) = (trace.meta.batch, trace.meta.sequence, uses.collect::<Vec<_>>());
    format!("{batch} {sequence} {objects:?} {ops:?} {uses:?}")
}

/// Changes something, or nothing where there is no such thing to change.
fn edit(trace: &mut Trace, which: usize, at: usize) {
    let ops = trace.ops.len();
    let op = &mut trace.ops[at % ops];
    match which {
        0 => op.flops ^= 1,
        1 => op.bytes = Bytes::new(op.bytes.get() ^ 1),
        2 => op.duration = op.duration.map_or(Some(Span::ZERO), |_| None),
        3 => op.at = Some(Time::from_ps(7)),
        4 => op.release = None,
        5 => op.stream ^= 1,
        6 => op.phase = Phase::ALL[at % 6],
        7 => op.unit = Unit::Cpu,
        8 => op.after.clear(),
        9 => op.kernels = None,
        10 => op.name = "another".into(),
        11 => trace.ops.iter_mut().for_each(|op| op.step += 1),
        12 => trace.meta.batch += 1,
        13 => trace.meta.sequence += 1,
        14 => trace.meta.about.push('!'),
        15 => trace.meta.recorded = Recorded::default(),
        16 => trace.modules.push("of nothing".into()),
        17..=19 if trace.uses.is_empty() => {}
        17..=19 => {
            let uses = trace.uses.len();
            let one = &mut trace.uses[at % uses];
            match which {
                17 => one.known = Known::Unknown,
                18 => one.part = None,
                _ => one.mode = Mode::Write,
            }
        }
        20 if !trace.modules.is_empty() => {
            trace.modules[0] = format!("{}?", trace.modules[0]).into()
        }
        _ if trace.objects.is_empty() => {}
        _ => {
            let objects = trace.objects.len();
            let one = &mut trace.objects[at % objects];
            match which {
                20 => {}
                21 => one.kind = ObjectKind::State,
                22 => one.bytes = Bytes::new(one.bytes.get() + 1),
                23 => one.dtype.push('x'),
                24 => one.statistics = Statistics::default(),
                25 => one.history = None,
                26 => one.freed_after = None,
                27 => one.name = format!("{}x", one.name).into(),
                28 => one.persistent = !one.persistent,
                _ => trace.objects.swap(0, at % objects),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn traces_are_called_equal_exactly_where_they_run_alike(
        first in any_rich_trace(),
        which in 0..30usize,
        at in 0..100usize,
        top in 0..3usize,
    ) {
        let mut second = first.clone();
        edit(&mut second, which, at);
        let diff = trace_diff(&first, &second, top);
        prop_assert_eq!(diff.equal, spelled(&first) == spelled(&second), "{}\n{}", which, diff);
        let (ops, objects) = (&diff.ops, &diff.objects);
        prop_assert!(ops.names.rows.len() <= top && objects.names.rows.len() <= top);
        let others = objects.only_a + objects.only_b + objects.differing;
        prop_assert_eq!((objects.names.rows.len() + objects.names.left_out) as u64, others);
        prop_assert_eq!(diff.said.is_empty(), first.meta.about == second.meta.about && first.meta.recorded == second.meta.recorded);
        // The other way round it is the same, with the sides changed.
        let back = trace_diff(&second, &first, top);
        prop_assert_eq!((back.equal, back.ops.only_a, back.ops.only_b), (diff.equal, ops.only_b, ops.only_a));
        prop_assert_eq!((back.ops.moved, back.objects.moved), (ops.moved, objects.moved));
        for (one, other) in diff.figures.iter().zip(&back.figures) {
            prop_assert_eq!((&one.of, one.what, one.pair.a, one.pair.b), (&other.of, other.what, other.pair.b, other.pair.a));
        }
    }
}

/// A step of a forward and a backward op, twice; the weight is read by both.
fn steps() -> Trace {
    let meta = TraceMeta { batch: 1, sequence: 8, ..TraceMeta::default() };
    let object = |name: &str, bytes, persistent| Object {
        persistent,
        ..Object::new(
            name,
            if persistent { ObjectKind::Weight } else { ObjectKind::Activation },
            Bytes::new(bytes),
        )
    };
    let mut trace = Trace {
        meta,
        modules: Vec::new(),
        objects: vec![object("w", 100, true), object("x0", 10, false), object("x1", 10, false)],
        ops: Vec::new(),
        uses: Vec::new(),
    };
    for step in 0..2 {
        let [w, x] = [0, 1 + step].map(ObjectId);
        for (phase, name, uses) in [
            (Phase::Forward, "mul", [Use::whole(w, Mode::Read), Use::whole(x, Mode::Write)]),
            (Phase::Backward, "mul", [Use::whole(w, Mode::ReadWrite), Use::whole(x, Mode::Read)]),
        ] {
            let start = trace.uses.len() as u32;
            trace.uses.extend(uses);
            let op = Op::new(step, phase, name, start..start + 2);
            trace.ops.push(Op { flops: 1000, duration: Some(Span::from_ps(5_000)), ..op });
        }
    }
    assert_eq!(trace.problems(), []);
    trace
}

fn figure(diff: &TraceDiff, of: &str, what: &str) -> Option<(u128, u128)> {
    let found = diff.figures.iter().find(|one| one.of == of && one.what == what);
    found.map(|one| (one.pair.a, one.pair.b))
}

#[test]
fn what_was_changed_is_what_is_listed() {
    let first = steps();
    let mut second = first.clone();
    // The backward pass of step 1 does more, an activation is larger, and an op comes behind.
    second.ops[3].flops = 3000;
    second.objects[2].bytes = Bytes::new(25);
    let start = second.uses.len() as u32;
    second.uses.push(Use::whole(ObjectId(0), Mode::ReadWrite));
    let op = Op::new(1, Phase::Optimizer, "sgd", start..start + 1);
    second.ops.push(Op { flops: 7, duration: Some(Span::from_ps(2_000)), ..op });
    let diff = trace_diff(&first, &second, 10);
    assert!(!diff.equal);
    assert_eq!(
        diff.verdict,
        "they differ in 2 of 5 ops and 2 of 3 objects; recorded time +10.0 %; FLOPs +50.2 %; peak +13.6 %"
    );
    let (ops, objects) = (&diff.ops, &diff.objects);
    assert_eq!((ops.only_a, ops.only_b, ops.differing, ops.moved), (0, 1, 1, 0));
    let names: Vec<_> =
        ops.names.rows.iter().map(|row| (row.name.as_str(), row.first.as_str())).collect();
    assert_eq!(
        names,
        [
            ("sgd", "op 4 (step 1, optimizer), in B only"),
            ("mul", "op 3 (step 1, backward): flops 1000 -> 3000"),
        ]
    );
    let rows: Vec<_> =
        objects.names.rows.iter().map(|row| (row.name.as_str(), &row.fields[..])).collect();
    assert_eq!(rows, [("x1", &["bytes"][..]), ("w", &["last_use"][..])]);
    // Reads 100 + 10 forward and backward; an update reads and writes the weight once more.
    assert_eq!(figure(&diff, "optimizer", "bytes of objects read"), Some((0, 100)));
    assert_eq!(figure(&diff, "optimizer", "bytes of objects written"), Some((0, 100)));
    assert_eq!(figure(&diff, "forward", "bytes of objects written"), Some((20, 35)));
    assert_eq!(figure(&diff, "backward", "bytes of objects read"), Some((220, 235)));
    assert_eq!(figure(&diff, "backward", "FLOPs"), Some((2000, 4000)));
    assert_eq!(figure(&diff, "activation", "bytes"), Some((20, 35)));
    assert_eq!(figure(&diff, "weight", "bytes"), None);
    assert_eq!(figure(&diff, "", "bytes at the peak"), Some((110, 125)));
    let steps: Vec<_> =
        diff.steps.rows.iter().map(|row| (row.step, row.flops.a, row.flops.b)).collect();
    assert_eq!(steps, [(1, 2000, 4007)]);
    // The figures are those of `trace info`.
    for (trace, side) in [(&first, 0), (&second, 1)] {
        let told = info(trace);
        let of = |what| figure(&diff, "", what).map(|(a, b)| [a, b][side]);
        assert_eq!(of("uses"), Some(told.uses as u128));
        assert_eq!(of("bytes at the peak"), Some(told.peak.bytes.into()));
        assert_eq!(of("FLOPs"), Some(told.phases.iter().map(|one| one.all.flops).sum()));
    }
    // As short as it is asked for.
    let one = trace_diff(&first, &second, 1);
    assert_eq!((one.ops.names.left_out, one.objects.names.left_out), (1, 1));
    assert!(one.to_string().contains("and 1 more (--top)"));
}

#[test]
fn an_op_in_another_place_is_moved_and_all_others_are_found() {
    let first = steps();
    let mut second = first.clone();
    second.ops[0].name = "first".into();
    let mut third = second.clone();
    // Both have the same uses of an object that persists only.
    for trace in [&mut second, &mut third] {
        for op in &mut trace.ops {
            op.uses = 0..0;
        }
        trace.uses.clear();
        trace.objects.clear();
    }
    third.ops.swap(0, 1);
    let diff = trace_diff(&second, &third, 10);
    assert!(!diff.equal);
    let ops = &diff.ops;
    assert_eq!((ops.only_a, ops.only_b, ops.differing, ops.moved), (0, 0, 0, 1));
    let mut named = third.clone();
    named.ops[3].after = vec![OpId(0)];
    assert_eq!(
        trace_diff(&third, &named, 10).ops.names.rows[0].first,
        "op 3 (step 1, backward): after"
    );
}

#[test]
fn what_no_run_heeds_is_listed_and_is_no_difference() {
    let first = steps();
    let mut second = first.clone();
    second.ops[1].at = Some(Time::from_ps(7_000));
    second.uses[0].known = Known::Inferred;
    let diff = trace_diff(&first, &second, 10);
    assert!(diff.equal);
    assert_eq!(
        diff.verdict,
        "the same: 4 ops, 3 objects, 8 uses; ops that differ in nothing that a run heeds: 2"
    );
    assert_eq!((diff.ops.differing, diff.ops.unheeded), (2, 2));
    let row = &diff.ops.names.rows[0];
    assert_eq!(row.fields.iter().copied().collect::<Vec<_>>(), ["at_ns", "known"]);
    assert!(diff.to_string().contains("op 0 (step 0, forward): known"), "{diff}");
    // What runs heed counts, whatever else an op says.
    second.ops[1].flops += 1;
    second.objects[0].dtype = "float16".to_owned();
    let diff = trace_diff(&first, &second, 10);
    assert!(!diff.equal);
    let begin = "they differ in 1 of 4 ops and 1 of 3 objects";
    assert!(diff.verdict.starts_with(begin), "{}", diff.verdict);
    assert!(diff.verdict.ends_with("; ops that differ in nothing that a run heeds: 1"));
}
