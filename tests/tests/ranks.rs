//! Several ranks in runs that repeat themselves: what is left out changes nothing.

use tiersim_models::workload::Unit;
use tiersim_sim::run::{self, Options};
use tiersim_tests::soak::{Trial, seed_of};

/// Replays of each world.
const REPEAT: u32 = 40;

#[test]
fn ranks_that_repeat_themselves_end_as_if_every_replay_was_simulated() {
    let (mut left_out, mut compared) = (0, 0);
    for index in 0..600 {
        let mut trial = Trial::new(seed_of(77, index), usize::MAX);
        let ops = &trial.workload.trace.ops;
        let together = ops.iter().any(|op| matches!(op.unit, Unit::Network(_)));
        if trial.spec.ranks < 2 || !together || ops.len() > 40 {
            continue;
        }
        (trial.spec.repeat, trial.spec.warmup, trial.spec.jitter) = (REPEAT, 1, 0.0);
        trial.pressure = None;
        let Some(scenario) = trial.scenario() else { continue };
        let outcome = |extend: bool| {
            let options = Options { audit: true, timeline: false, window: trial.window, extend };
            let record = run::run(&scenario, &trial.workload, String::new(), options, || ());
            let mut record = record.expect("no rule is broken");
            let case = record.results.remove(0);
            (case.left_out, format!("{:?} {:?}", case.outcome, record.baseline))
        };
        let (short, whole) = (outcome(true), outcome(false));
        assert_eq!(short.1, whole.1, "world {index}");
        assert_eq!(whole.0, 0);
        left_out += u32::from(short.0 > 0);
        compared += 1;
    }
    assert!(compared > 50 && left_out > 20, "{left_out} of {compared} were shortened");
}
