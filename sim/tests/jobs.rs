//! What a sweep runs: no case twice.

use std::fs;
use std::path::Path;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_sim::sweep::count;

/// Points of a sweep over one axis, and what it runs.
fn points(values: &str, path: &str) -> (usize, usize) {
    let text = format!(
        "Scenario(schema: 2, about: \"a small model\", hardware: \"h100-sxm-pcie5\", \
         workload: Model(card: (family: gpt2, layers: 3, hidden: 128, ffn: 512, heads: 4, vocab: 500, \
         positions: 128), precision: bf16, mode: train(batch: 8, sequence: 64), \
         time: roofline(precision: \"bf16\"), repeat: 1, warmup: 0), policies: [\
         (name: \"all\", policy: AllHbm), (name: \"lru\", policy: Lru(), hbm: gib(1)), \
         (name: \"swept\", policy: Lru(), hbm: gib(2))], \
         sweep: (axes: [(name: \"axis\", path: \"{path}\", values: {values})]))"
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jobs-{path}.ron"));
    fs::write(&file, text).expect("it can be written");
    let sweep = read_sweep(&file, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    (sweep.points.len(), count(&sweep))
}

#[test]
fn a_case_that_no_axis_touches_runs_once() {
    // Four budgets of one case, and each of the two others once.
    let budgets = "choices([(\"1\", \"gib(1)\"), (\"2\", \"gib(2)\"), (\"3\", \"gib(3)\"), (\"4\", \"gib(4)\")])";
    assert_eq!(points(budgets, "policies.2.hbm"), (4, 4 + 2));
    // A machine and a batch touch every case.
    let machines = "choices([(\"shared\", \"\\\"h100-pcie5-shared\\\"\"), (\"separate\", \"\\\"h100-sxm-pcie5\\\"\")])";
    assert_eq!(points(machines, "hardware"), (2, 2 * 3));
    assert_eq!(points("list([8, 16])", "workload.mode.batch"), (2, 2 * 3));
}
