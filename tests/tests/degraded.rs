//! What an import does not know: a recorded trace of which only first and last uses are left.
//!
//! A profiler says when memory is taken and given back, and hardly ever which kernels use it in
//! between; of what persists it shows the phases that use it. The order of policies must not hang
//! on the rest, but where a policy counts uses.

use tiersim_tests::files::{shipped_scenario, traces};
use tiersim_tests::prelude::*;

/// Policies that go by how often something is used, by the beginnings of their cases' names.
const COUNTING: [&str; 4] = ["correlation", "S3-FIFO", "hot-cold", "density"];

/// The trace with the first and the last use of each object: in every phase of every step of one
/// that persists.
fn first_and_last(trace: &Trace) -> Trace {
    let mut ends = BTreeMap::new();
    let of = |at: usize, object: ObjectId| {
        let (op, persists) = (&trace.ops[at], trace.objects[object.index()].persistent);
        (object, persists.then_some((op.step, op.phase as u32)))
    };
    let uses = |at: usize| trace.uses_of(OpId::at(at)).iter().copied();
    for at in 0..trace.ops.len() {
        for one in uses(at) {
            ends.entry(of(at, one.object)).or_insert([at; 2])[1] = at;
        }
    }
    let mut thinned = Trace { uses: Vec::new(), ..trace.clone() };
    for at in 0..trace.ops.len() {
        let from = thinned.uses.len() as u32;
        thinned.uses.extend(uses(at).filter(|one| ends[&of(at, one.object)].contains(&at)));
        thinned.ops[at].uses = from..thinned.uses.len() as u32;
    }
    thinned
}

/// Mean steps of all cases, in picoseconds.
fn steps(scenario: &Scenario, workload: &Workload) -> Vec<(String, u64)> {
    let record = run(scenario, workload, String::new(), Options::default(), || ());
    let cases = record.unwrap_or_else(|error| panic!("{error}")).results;
    let step = |case: CaseRecord| {
        let figures = case.outcome.figures().expect("every case of the contest fits");
        (case.label.clone(), figures.mean_step().ps())
    };
    cases.into_iter().map(step).collect()
}

#[test]
fn policies_that_do_not_count_uses_rank_alike_where_first_and_last_ones_alone_are_known() {
    let scenario = shipped_scenario("policy-contest", &[]);
    let known = traces(&scenario);
    let whole = known.of(&scenario);
    let thinned = Workload::new(first_and_last(&whole.trace));
    let left = [whole, &thinned].map(|workload| workload.trace.uses.len());
    assert_eq!(left, [7908, 6328], "uses");
    let both = steps(&scenario, whole).into_iter().zip(steps(&scenario, &thinned));
    let (counting, others): (Vec<_>, Vec<_>) = both
        .map(|((label, before), (_, after))| (label, before, after))
        .partition(|(label, ..)| COUNTING.iter().any(|name| label.starts_with(name)));
    for (label, before, after) in counting.iter().chain(&others) {
        println!("{label}: {:+.1} %", 100.0 * (*after as f64 / *before as f64 - 1.0));
    }
    let budget = |label: &str| label.ends_with(" 40 %");
    let mut pairs = 0;
    for (at, (one, before, after)) in others.iter().enumerate() {
        assert!(after.abs_diff(*before) * 100 <= 3 * before, "{one}: {before} {after}");
        for (other, others_before, others_after) in &others[at + 1..] {
            if budget(one) == budget(other) {
                pairs += 1;
                assert_eq!(before < others_before, after < others_after, "{one} / {other}");
            }
        }
    }
    assert_eq!(pairs, 49);
}
