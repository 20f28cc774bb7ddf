//! What a sweep runs: no case twice.

use std::path::Path;
use tiersim_input::scenario::sweep::read_sweep;
use tiersim_policies::scenario::sweep::Sweep;
use tiersim_sim::sweep::count;

fn shipped(name: &str) -> Sweep {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("scenarios").join(name).with_extension("ron");
    read_sweep(&path, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_case_that_no_axis_touches_runs_once() {
    // The axes are of one policy: its points (21 shares of each, no more than 1 in sum, two accesses),
    // and each of the others once.
    let sweep = shipped("gpt2-threshold-sweep");
    let (points, others) = (2 * 21 * 22 / 2, sweep.base.cases.len() - 1);
    assert!(others > 0);
    assert_eq!((sweep.points.len(), count(&sweep)), (points, points + others));
    // An axis of the machine touches every case.
    let sweep = shipped("gpt2-shared-pcie");
    assert_eq!(count(&sweep), sweep.points.len() * sweep.base.cases.len());
}
