//! Answers about traces of the profiler that nothing else would find wrong: what is joined with what,
//! how much products on the host are, which steps there are.
//!
//! Real files lie in `../shared/data` beside the checkout; where they are not there, the test says so
//! and has passed.

use crate::import_profiler::{document, kernel, of_text, real};
use tiersim_input::import::profiler::{Gaps, Imported, import_joined, import_profiler};
use tiersim_input::trace::info;

#[test]
fn an_execution_trace_of_another_run_is_refused() {
    let at = |name: &str| real(&format!("execution-trace/{name}"));
    let (Some(linear), Some(resnet), Some(right), Some(other)) = (
        at("linear_kineto.json.gz"),
        at("resnet_kineto.json.gz"),
        at("linear_et.json.gz"),
        at("resnet_1gpu_et.json.tar.gz"),
    ) else {
        return;
    };
    // One iteration of many.
    let joined = import_joined(&linear, &right, Gaps::Keep).unwrap().account.joined;
    assert_eq!(joined, Some((770, 931, "order and name")));
    for (profile, execution, found, rows) in
        [(&linear, &other, "1627", "14392"), (&resnet, &right, "22", "931")]
    {
        let error = import_joined(profile, execution, Gaps::Keep).unwrap_err().to_string();
        assert!(error.contains("an execution trace is of the same steps"), "{error}");
        assert!(error.contains(&format!("{found} rows are in both")), "{error}");
        assert!(error.contains(&format!("{rows} nodes of the execution trace")), "{error}");
    }
}

/// An op of the host, with the shapes of its inputs if they are given.
fn op(name: &str, at: f64, span: f64, shapes: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":7,"ts":{at},"dur":{span},"args":{{"Input Dims":[{shapes}],"Input type":["float","float","float"]}}}}"#
    )
}

#[test]
fn a_product_on_the_host_counts_once_whatever_it_lies_in() {
    let events = [
        op("aten::linear", 0.0, 30.0, "[3,5],[7,5],[7]"),
        op("aten::addmm", 2.0, 20.0, "[7],[3,5],[5,7]"),
        // Within the product, once as a part of it and once as something else.
        op("aten::mm", 4.0, 6.0, "[3,5],[5,7]"),
        op("aten::copy_", 12.0, 9.0, "[3,7],[3,7]"),
        op("aten::mm", 40.0, 4.0, "[2,4],[4,8]"),
        op("aten::add", 50.0, 4.0, "[2,4],[2,4]"),
    ];
    let Imported { trace, .. } = of_text("host-products", &document(&events)).unwrap();
    let priced: Vec<(&str, u64)> =
        trace.ops.iter().filter(|op| op.flops > 0).map(|op| (op.name.as_str(), op.flops)).collect();
    assert_eq!(priced, [("aten::mm", 2 * 3 * 5 * 7), ("aten::mm", 2 * 2 * 4 * 8)]);
}

#[test]
fn products_of_a_real_training_on_a_cpu_are_as_counted() {
    // Counted in Python from `Input Dims`: 253 GFLOP forward and twice that backward.
    let Some(path) = real("gpt2-train-cpu/kineto.pt.trace.json.gz") else { return };
    let Imported { trace, .. } = import_profiler(&path, Gaps::Keep).unwrap();
    let flops: u128 = info(&trace).phases.iter().map(|phase| phase.all.flops).sum();
    assert_eq!(flops / 10_000_000, 75_898);
}

/// A step's mark.
fn step(number: u32, thread: u32, at: f64, span: f64) -> String {
    format!(
        r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{number}","pid":1,"tid":{thread},"ts":{at},"dur":{span},"args":{{}}}}"#
    )
}

#[test]
fn steps_whose_numbers_come_again_are_steps_of_their_own() {
    let steps = |events: &[String]| {
        let Imported { trace, account } = of_text("steps", &document(events)).unwrap();
        (account.steps, trace.ops.iter().map(|op| op.step).collect::<Vec<u32>>())
    };
    let at = |index: u32| f64::from(index) * 100.0;
    let run = |index: u32| kernel(index + 1, 7, at(index) + 10.0, 20, at(index) + 20.0, 80.0);
    let marked = |numbers: [u32; 4]| -> Vec<String> {
        let each = (0..4).zip(numbers);
        each.flat_map(|(index, number)| [step(number, 7, at(index), 95.0), run(index)]).collect()
    };
    let (count, of) = steps(&marked([3, 4, 3, 4]));
    assert_eq!(count, 4);
    assert!(of.is_sorted() && of.first() == Some(&3) && of.last() == Some(&6), "{of:?}");
    assert_eq!(steps(&marked([5, 1, 2, 3])).0, 4);
    // Two threads that mark one step mark no other.
    let mut both = marked([3, 4, 5, 6]);
    both.extend((0..4).map(|index| step(index + 3, 8, at(index) + 2.0, 95.0)));
    assert_eq!(steps(&both).0, 4);
}
