//! Each rule of a trace, broken alone, is named with its row and value.

use tiersim_models::ids::{ModuleId, ObjectId, OpId, RankId};
use tiersim_models::trace_rules::MAX_PROBLEMS;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::*;

/// Two ops: the first writes object 1 from object 0, the second reads both.
fn valid() -> Trace {
    let object = |name: &str, persistent| Object {
        dtype: "float32".into(),
        persistent,
        module: Some(ModuleId(0)),
        ..Object::new(
            name,
            if persistent { ObjectKind::Weight } else { ObjectKind::Activation },
            Bytes::new(16),
        )
    };
    let op = |uses| Op {
        module: Some(ModuleId(0)),
        duration: Some(Span::from_ns(5)),
        flops: 1,
        bytes: Bytes::new(32),
        ..Op::new(0, Phase::Forward, "mm", uses)
    };
    let row = |object, mode| Use::whole(ObjectId(object), mode);
    Trace {
        meta: TraceMeta {
            name: "t".into(),
            about: String::new(),
            precision: "fp32".into(),
            batch: 1,
            sequence: 1,
            recorded: Recorded::default(),
        },
        modules: vec!["m".into()],
        objects: vec![object("w", true), object("a", false)],
        ops: vec![op(0..2), op(2..4)],
        uses: vec![
            row(0, Mode::Read),
            row(1, Mode::Write),
            row(0, Mode::Read),
            row(1, Mode::ReadWrite),
        ],
    }
}

/// `change` must break exactly one rule, at this place, with `text` in the message.
fn check(change: impl Fn(&mut Trace), table: Table, row: usize, text: &str) {
    let mut trace = valid();
    change(&mut trace);
    let problems = trace.problems();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    let problem = &problems[0];
    assert_eq!((problem.table, problem.row), (table, row), "{problem:?}");
    assert!(problem.found.contains(text), "{problem:?}");
}

/// A trace of `streams.len()` ops without uses, one per stream number.
fn ops(streams: &[u16], after: &[(usize, u32)]) -> Trace {
    let mut trace = valid();
    trace.uses.clear();
    trace.ops = streams.iter().map(|&stream| Op { stream, ..trace.ops[0].clone() }).collect();
    trace.ops.iter_mut().for_each(|op| op.uses = 0..0);
    for &(op, awaited) in after {
        trace.ops[op].after.push(OpId(awaited));
    }
    trace
}

#[test]
fn a_valid_trace_has_no_problems() {
    assert_eq!(valid().problems(), []);
}

#[test]
fn object_names_are_unique() {
    check(|t| t.objects[1].name = "w".into(), Table::Objects, 1, "\"w\" of object 0 again");
}

#[test]
fn names_are_short_printable_and_not_empty() {
    check(|t| t.objects[0].name = "".into(), Table::Objects, 0, "an empty name");
    check(|t| t.ops[1].name = "x".repeat(257).into(), Table::Ops, 1, "257 bytes");
    check(|t| t.objects[0].name = "a\nb".into(), Table::Objects, 0, "control character");
}

#[test]
fn an_object_has_bytes() {
    check(|t| t.objects[1].bytes = Bytes::ZERO, Table::Objects, 1, "0 bytes");
}

#[test]
fn objects_fit_64_bits_together() {
    check(|t| t.objects[1].bytes = Bytes::MAX, Table::Objects, 1, "2^64 bytes");
}

#[test]
fn modules_exist() {
    check(|t| t.objects[0].module = Some(ModuleId(7)), Table::Objects, 0, "module 7 of 1");
    check(|t| t.ops[1].module = Some(ModuleId(7)), Table::Ops, 1, "module 7 of 1");
}

#[test]
fn statistics_are_finite_and_not_negative() {
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        check(|t| t.objects[0].statistics.adam_m = Some(bad), Table::Objects, 0, "adam_m");
        check(|t| t.objects[0].statistics.grad_norm = Some(bad), Table::Objects, 0, "grad_norm");
        let later = Statistics { adam_v: Some(bad), ..Statistics::default() };
        let history = |t: &mut Trace| {
            t.objects[0].history = Some([Statistics::default(), later].into());
        };
        check(history, Table::Objects, 0, "of step 1");
    }
}

#[test]
fn statistics_of_steps_are_of_the_same_steps() {
    let of = |steps: usize| Some(vec![Statistics::default(); steps].into());
    check(|t| t.objects[1].history = of(0), Table::Objects, 1, "statistics of 0 steps");
    let differ = |t: &mut Trace| {
        (t.objects[0].history, t.objects[1].history) = (of(2), of(3));
    };
    check(differ, Table::Objects, 1, "of 3 steps, where others have 2");
}

#[test]
fn an_op_names_an_object_once() {
    check(|t| t.uses[2].object = ObjectId(1), Table::Uses, 3, "\"a\" twice");
}

#[test]
fn uses_name_objects_that_exist() {
    check(|t| t.uses[2].object = ObjectId(9), Table::Uses, 2, "object 9 of 2");
}

#[test]
fn uses_are_grouped_by_op() {
    check(|t| t.ops[1].uses = 3..4, Table::Ops, 1, "uses 3..4 where 2 is next");
    check(|t| t.ops[1].uses = 2..9, Table::Ops, 1, "uses up to 9 of 4");
    check(|t| t.ops[1].uses = 2..3, Table::Uses, 3, "belong to no op");
}

#[test]
fn the_first_use_of_an_object_that_does_not_persist_writes_it() {
    check(|t| t.uses[1].mode = Mode::Read, Table::Uses, 1, "mode r before it is written");
    check(|t| t.uses[1].mode = Mode::ReadWrite, Table::Uses, 1, "mode rw before it is written");
}

#[test]
fn no_use_after_freed_after() {
    check(|t| t.objects[1].freed_after = Some(OpId(0)), Table::Uses, 3, "freed after op 0");
    check(|t| t.objects[1].freed_after = Some(OpId(5)), Table::Objects, 1, "5 of 2 ops");
    check(|t| t.objects[0].freed_after = Some(OpId(1)), Table::Objects, 0, "persistent object");
}

#[test]
fn steps_never_decrease() {
    check(|t| t.ops[0].step = 3, Table::Ops, 1, "step 0 after step 3");
}

#[test]
fn only_rank_0_for_now() {
    check(|t| t.ops[1].rank = RankId(1), Table::Ops, 1, "rank 1");
}

#[test]
fn a_collective_sends_something_among_somebody() {
    let collective = |bytes, within, servers| {
        let (kind, bytes) = (CollectiveKind::AllGather, Bytes::new(bytes));
        move |t: &mut Trace| {
            t.ops[1].unit = Unit::Network(Collective { kind, bytes, within, servers, times: 1 })
        }
    };
    check(collective(0, 8, 1), Table::Ops, 1, "a collective of 0 bytes");
    check(collective((1 << 60) + 1, 8, 1), Table::Ops, 1, "a collective of");
    check(collective(1, 0, 1), Table::Ops, 1, "a group of 0 ranks in each of 1 servers");
    check(collective(1, 8, 0), Table::Ops, 1, "a group of 8 ranks in each of 0 servers");
    check(collective(1, u32::MAX, u32::MAX), Table::Ops, 1, "a group of");
    let mut trace = valid();
    collective(1 << 60, 1 << 10, 1 << 10)(&mut trace);
    assert_eq!(trace.problems(), []);
}

#[test]
fn totals_fit_64_bits() {
    check(|t| t.ops[1].duration = Some(Span::from_ps(u64::MAX)), Table::Ops, 1, "213 days");
    check(|t| t.ops[1].bytes = Bytes::MAX, Table::Ops, 1, "bytes");
}

#[test]
fn floating_point_operations_may_add_up_to_more() {
    let mut trace = ops(&[0, 0], &[]);
    trace.ops.iter_mut().for_each(|op| op.flops = u64::MAX);
    assert_eq!(trace.problems(), []);
}

#[test]
fn after_names_an_op_of_the_trace() {
    check(|t| t.ops[1].after = vec![OpId(2)], Table::Ops, 1, "after 2 of 2 ops");
}

#[test]
fn after_an_earlier_op_is_allowed() {
    assert_eq!(ops(&[0, 1, 0], &[(1, 0), (2, 1), (2, 0)]).problems(), []);
}

#[test]
fn a_cycle_is_printed() {
    let found = |trace: Trace| trace.problems().into_iter().map(|p| p.found).collect::<Vec<_>>();
    // Across streams: 1 waits for 2 and 2 for 1.
    assert_eq!(
        found(ops(&[0, 1, 2], &[(1, 2), (2, 1)])),
        ["a dependency cycle: op 1 -> op 2 -> op 1"]
    );
    // In one stream the row order closes the cycle; the ops in between are not printed.
    assert_eq!(found(ops(&[0; 12], &[(3, 9)])), ["a dependency cycle: op 3 -> op 9 -> op 3"]);
    assert_eq!(found(ops(&[0, 1], &[(1, 1)])), ["a dependency cycle: op 1 -> op 1"]);
    // 0 waits for 3 of stream 1, which waits for 2 in its stream, which waits for 0.
    assert_eq!(
        found(ops(&[0, 0, 1, 1], &[(0, 3), (2, 0)])),
        ["a dependency cycle: op 0 -> op 3 -> op 2 -> op 0"]
    );
}

#[test]
fn a_forward_reference_without_a_cycle_is_refused_with_its_remedy() {
    let problems = ops(&[0, 1], &[(0, 1)]).problems();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].found, "op 0 waits for op 1, which is listed later");
    assert_eq!(problems[0].remedy, "list the op before the op that waits for it");
}

#[test]
fn a_long_cycle_exhausts_neither_the_stack_nor_the_message() {
    let count = 200_000;
    let problems = ops(&vec![0; count], &[(0, count as u32 - 1)]).problems();
    assert_eq!(problems[0].found, "a dependency cycle: op 0 -> op 199999 -> op 0");
}

#[test]
fn all_problems_are_reported_and_the_list_is_capped() {
    let mut trace = valid();
    trace.objects[0].bytes = Bytes::ZERO;
    trace.ops[1].rank = RankId(2);
    trace.uses[1].mode = Mode::Read;
    assert_eq!(trace.problems().len(), 3);

    let problems = ops(&vec![0; 200], &vec![(5, 999); 200]).problems();
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert!(problems[MAX_PROBLEMS].found.contains("150 more"), "{:?}", problems[MAX_PROBLEMS]);
}
