//! Activations kept, offloaded or recomputed: hand-worked times, contents, counts and the choice.

mod choice;
mod contents;
mod saved;

use tiersim_policies::recipe::Rewrite;
use tiersim_policies::zoo::activation_offload::{ActivationOffloadConfig, Choice, Treatment};
use tiersim_tests::prelude::*;
use tiersim_tests::setting::scenario;

const DRAM: TierId = TierId(1);

/// Two layers between an input and a head: each makes an activation of 20 and hands on one of 10.
fn two_layers() -> Trace {
    use Mode::{Read, Write};
    use Phase::{Backward, Forward};
    let mut traced = Traced::new();
    traced.0.modules = ["in", "h.0", "h.1", "out"].map(Into::into).to_vec();
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
    let mut case = case("case", policy);
    case.chunk = how.chunk.map(Bytes::new);
    let spec = WorkloadSpec { jitter: how.jitter, ..replays(how.repeat) };
    let scenario = Scenario { seed: 7, ..scenario(hardware, spec, vec![case]) };
    let options = Options { audit: how.audit, timeline: how.audit, ..Options::default() };
    let workload = Workload::new(trace.clone());
    let record = run(&scenario, &workload, String::new(), options, || ());
    record.expect("no fault").results.remove(0)
}

/// Picoseconds of a step with so many bytes of HBM behind a link of this rate; `None` if it does
/// not fit.
fn step((hbm, rate): (u64, u64), trace: &Trace, choice: Choice, how: How) -> Option<u64> {
    let hardware = two_tiers(Bytes::new(hbm), law(0, rate));
    let record = record(hardware, trace, config(choice).into(), how);
    record.outcome.figures().map(|figures| figures.mean_step().ps())
}

/// The same trace with every layer recomputed that can be.
fn recomputed(trace: &Trace) -> Rewrite {
    let (choice, hardware) =
        (Choice::All(Treatment::Recompute), two_tiers(Capacity::Unlimited, law(0, ONE)));
    let workload = Workload::new(trace.clone());
    let rewrite = with_setting(&workload, &hardware, 1, |setting| config(choice).rewrite(setting));
    rewrite.expect("it can be rewritten").expect("it is")
}

#[test]
fn times_are_those_worked_out_by_hand() {
    let step = |hbm, choice| step((hbm, ONE), &two_layers(), choice, ONCE);
    let each = |treatments: [Treatment; 3]| Choice::Each(treatments.into());
    let (keep, offload, recompute) = (Treatment::Keep, Treatment::Offload, Treatment::Recompute);
    // All of it is 80 at most, and takes the sum of its ops.
    assert_eq!(step(80, Choice::All(keep)), Some(130));
    // On demand: x0 leaves before op 4 (10), a0 before op 5 (20), and both come back for op 7 (30).
    assert_eq!(step(60, Choice::All(keep)), Some(190));
    // a0 and x1 leave under op 3 and later; op 4 waits for a0 until 50. x1 is back under op 5, and
    // a0 has no room before op 7 (20).
    assert_eq!(step(60, each([keep, offload, keep])), Some(160));
    // Without a0 between, the rest is 60; op 1 runs again.
    assert_eq!(step(60, each([keep, recompute, keep])), Some(140));
    // So does op 3.
    assert_eq!(step(60, Choice::All(recompute)), Some(150));
    assert_eq!(step(60, Choice::Best), Some(140));
    assert_eq!(step(80, Choice::Best), Some(130));
}

#[test]
fn repeated_ops_take_their_sources_time_with_jitter_and_in_every_replay() {
    let trace = two_layers();
    let how = How { repeat: 2, jitter: 0.3, ..ONCE };
    let hardware = two_tiers(Bytes::new(1000), law(0, ONE));
    let record = record(hardware, &trace, config(Choice::All(Treatment::Recompute)).into(), how);
    let figures = record.outcome.figures().expect("it fits");
    let spec = WorkloadSpec { jitter: 0.3, ..replays(2) };
    let durations = Durations::new(&trace, &spec, None, 7).expect("all ops have a time");
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
        let hardware = two_tiers(Bytes::new(hbm), law(0, ONE));
        let record =
            record(hardware, &trace, config(Choice::All(Treatment::Recompute)).into(), how);
        let figures = record.outcome.figures().expect("it fits");
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
    let step = |rate, choice| step((60, rate), &dear(), choice, ONCE).expect("it fits");
    let time = |rate, treatments: [Treatment; 3]| step(rate, Choice::Each(treatments.into()));
    let best = |rate| step(rate, Choice::Best);
    let (keep, offload, recompute) = (Treatment::Keep, Treatment::Offload, Treatment::Recompute);
    // 150, and op 1 again: the link does not matter.
    let again = [keep, recompute, keep];
    assert_eq!([time(20 * ONE, again), time(ONE / 4, again)], [180; 2]);
    // 150, and what does not hide: a0 comes back before op 7, 1 ps or 80 ps.
    let away = [keep, offload, keep];
    assert_eq!(time(20 * ONE, away), 151);
    assert!(time(ONE / 4, away) >= 150 + 80);
    assert!(best(20 * ONE) <= 151);
    assert!(best(ONE / 4) <= 180);
}
