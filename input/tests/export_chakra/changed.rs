//! Files of ours that were changed: by other programs, on the way, or not as a reader takes them.

use super::messages::{Held, file, messages, without};
use super::{exported, imported, object, op, tiny, written};
use std::path::Path;
use tiersim_input::export::chakra::{Detail, export_chakra};
use tiersim_input::import::chakra::import_chakra;
use tiersim_models::units::{Bytes, Span};
use tiersim_models::workload::{Gaps, Trace, Unit};

/// Another program may scale times and sizes: our own attributes do not hold on to the old ones.
#[test]
fn what_another_program_changes_is_changed_for_us() {
    let mut trace = tiny(Vec::new());
    op(&mut trace, "one", Unit::Device, &[]);
    trace.ops[0].duration = Some(Span::from_ps(2_600_000));
    let mut all = messages(&exported(&trace, Detail::Whole).bytes);
    for (field, held) in &mut all[1] {
        if *field == 7 {
            assert_eq!(*held, Held::Number(3));
            *held = Held::Number(13);
        }
    }
    let changed = imported(&file(&all)).trace;
    assert_eq!(changed.ops[0].duration, Some(Span::from_ps(12_600_000)));
}

#[test]
fn gaps_of_the_host_take_no_time_if_they_are_dropped() {
    let mut trace = tiny(Vec::new());
    op(&mut trace, "gap", Unit::Idle, &[]);
    op(&mut trace, "bubble", Unit::Idle, &[]);
    trace.ops[0].duration = Some(Span::from_ps(5_000_000));
    let path = written(&exported(&trace, Detail::Whole).bytes);
    assert_eq!(import_chakra(&path, Gaps::Keep).unwrap().trace, trace);
    let dropped = import_chakra(&path, Gaps::Drop).unwrap().trace;
    let durations: Vec<_> = dropped.ops.iter().map(|op| op.duration).collect();
    assert_eq!(durations, [Some(Span::ZERO), None]);
}

#[test]
fn what_is_missing_or_put_in_is_said() {
    let mut trace = tiny(vec![object("a", true), object("b", true)]);
    op(&mut trace, "one", Unit::Device, &[]);
    op(&mut trace, "two", Unit::Device, &[]);
    let bytes = exported(&trace, Detail::Whole).bytes;
    let all = messages(&bytes);
    let lacking = |at: usize| {
        let mut all = all.clone();
        all.remove(at);
        file(&all)
    };
    let again = [&all[..], &all[4..]].concat();
    let put_in = [&all[..], &[vec![(1, Held::Number(99)), (3, Held::Number(4))]]].concat();
    for (bytes, wanted) in [
        (lacking(4), "the head counts 2 ops, and the file has 1"),
        (lacking(3), "tiersim_op_id 0 comes next; node 4 says 1"),
        (lacking(2), "the head counts 2 objects, and the file has 1"),
        (file(&again), "tiersim_op_id 2 comes next; node 4 says 1"),
        (
            file(&put_in),
            "nodes say what they are to tiersim where the head has tiersim_schema; node 99 does not",
        ),
        (
            without(&bytes, |name| name == "tiersim_phase"),
            "tiersim_phase is as `tiersim trace export` writes it; node 3 says \"\"",
        ),
        (
            without(&bytes, |name| name == "tid"),
            "tid is as `tiersim trace export` writes it; node 3 says \"nothing\"",
        ),
    ] {
        let error = import_chakra(&written(&bytes), Gaps::Keep).expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
        assert!(error.contains("take tiersim_schema out of the head"), "{error}");
    }
    // As it says: the rest is then read as a file of another program.
    let other = without(&lacking(4), |name| name == "tiersim_schema");
    assert_eq!(imported(&other).trace.problems(), []);
}

#[test]
fn a_trace_that_cannot_be_read_back_is_not_written() {
    let refused = |trace: &Trace| {
        let error = export_chakra(trace, Path::new("T"), Detail::Whole).expect_err("it is refused");
        error.to_string()
    };
    let mut trace = tiny(vec![object("a", true)]);
    assert!(refused(&trace).contains("T: a Chakra trace has nodes, and this trace has no op"));
    op(&mut trace, "one", Unit::Device, &[]);
    trace.meta.about = "a".repeat(1 << 20);
    assert!(refused(&trace).contains("the description of the trace is longer than 1 MiB"));
    trace.meta.about.clear();
    trace.objects[0].bytes = Bytes::ZERO;
    assert!(refused(&trace).contains("objects.csv, row 0: object \"a\" of 0 bytes"));
}
