//! The bound by linear program: no schedule beats it, and it is what a step is known to need.

use super::judged::{ENDLESS, all, at};
use std::sync::Arc;
use tiersim_policies::zoo::hints::HintsConfig;
use tiersim_sim::run::BoundMethod;
use tiersim_tests::exhaustive::{Tiny, search};
use tiersim_tests::files;
use tiersim_tests::prelude::*;
use tiersim_tests::setting::scenario;

/// On every tiny trace, from the beginning of a run and from any state, the best schedule takes no
/// less; and the bound is nowhere earlier than the quick one.
#[test]
fn no_schedule_beats_the_linear_program() {
    let ratios = all(|seed| {
        let tiny = Tiny::new(seed);
        let judge = |warm: bool| {
            let best = search(&tiny.machine, &tiny.workload, ENDLESS, warm).ps;
            let [quick, fluid] = [tiny.bound(warm).ps, tiny.fluid(warm).ps];
            assert!(quick <= fluid, "seed {seed}: {fluid} ps is earlier than {quick}");
            assert!(fluid <= u128::from(best), "seed {seed}: bound {fluid} ps, best {best}");
            if best == 0 { 1.0 } else { fluid as f64 / f64::from(best) }
        };
        judge(true);
        judge(false)
    });
    let [fifth, half] = [5, 50].map(|percent| at(&ratios, percent));
    println!("bound by linear program over best: {fifth} at the 5th percentile, {half} at half");
    assert!(fifth > 0.91 && half > 0.999, "{fifth} {half}");
}

/// The bound of the contest's clairvoyant case, in ms, with this share of the peak.
fn contest(share: f64, pcie: u64, bound: BoundMethod) -> (f64, String) {
    let hbm = format!("share_of_peak({share})");
    let set = [("policies.clairvoyant 70 %.hbm", hbm.as_str()), ("expect", "[]")];
    let mut scenario = files::shipped_scenario("policy-contest", &set);
    scenario.cases.retain(|case| case.label == "clairvoyant 70 %");
    for link in &mut Arc::make_mut(&mut scenario.hardware).links {
        for law in [&mut link.read, &mut link.write] {
            let rate = law.rate.get() / 100 * pcie;
            law.rate = Bandwidth::new(rate).expect("above zero");
        }
    }
    let options = Options { bound, bound_curve: false, audit: false, ..Options::default() };
    let case = &files::record(&scenario, options).results[0];
    let step = case.outcome.figures().expect("it fits").mean_step();
    assert!(case.bound_step <= step);
    (case.bound_step.ps() as f64 / 1e9, case.bound_by.clone())
}

/// GPT-2 training on an H100: later than the quick bound wherever memory is short, in the order in
/// which memory and links are taken away.
#[test]
fn the_linear_program_sees_what_the_quick_bound_does_not() {
    let quick = [0.9, 0.7, 0.5, 0.4].map(|share| contest(share, 100, BoundMethod::Quick).0);
    let fluid = [0.9, 0.7, 0.5, 0.4].map(|share| contest(share, 100, BoundMethod::Lp));
    for ((quick, (fluid, by)), least) in quick.iter().zip(&fluid).zip([1.0, 1.14, 1.14, 1.14]) {
        assert!(fluid / quick >= least, "{fluid} ms is no more than {least} x {quick} ms");
        assert_eq!(by.ends_with("by linear program"), fluid > quick, "{by}");
    }
    assert!(fluid.windows(2).all(|pair| pair[0].0 < pair[1].0), "{fluid:?}");
    let slower = contest(0.5, 80, BoundMethod::Lp).0;
    assert!(slower > fluid[2].0, "{slower} ms with links of 80 %");
}

/// What a policy comes to on a trace that repeats, with the bound by linear program, and its step.
fn judged(
    hardware: Hardware,
    traced: Traced,
    policy: impl Into<PolicyConfig>,
) -> (CaseRecord, Span) {
    let spec = WorkloadSpec { warmup: 3, ..replays(6) };
    let scenario = scenario(hardware, spec, vec![case("judged", policy.into())]);
    let options = Options { bound: BoundMethod::Lp, ..Options::default() };
    let record = run(&scenario, &Workload::new(traced.0), String::new(), options, || {});
    let case = record.expect("no rule is broken").results.remove(0);
    let step = case.outcome.figures().expect("it fits").mean_step();
    (case, step)
}

/// Two weights take turns in room for one, over links that share their rate among any number of
/// copies: a copy that is alone has all of it, and the program says no more than that.
#[test]
fn one_copy_has_all_of_a_shared_link() {
    const BYTES: u64 = 100_000_000;
    let mut traced = Traced::new();
    let weights: Vec<ObjectId> = (0..2).map(|_| traced.object(BYTES, true)).collect();
    for &weight in &weights {
        traced.op(0, 0, Span::from_ns(100_000), &[(weight, Mode::Read)]);
    }
    let mut hardware = two_tiers(Bytes::new(BYTES), law(0, 50_000_000_000));
    hardware.tiers[1].access = law(0, 10_000_000_000);
    let shared = Service { discipline: Discipline::FairShare, ..Service::default() };
    hardware.links.iter_mut().for_each(|link| link.service = Some(shared.clone()));
    let lru = DemandConfig::lru(vec![FAR]);
    let (case, step) = judged(hardware, traced, lru);
    assert!(case.bound_step <= step, "bound {}, step {step}", case.bound_step);
    assert!(case.bound_by.ends_with("by linear program"), "{}", case.bound_by);
}

/// Three weights take turns in room for two. Belady's MIN brings three of them in two steps, so in
/// the mean one and a half of a step are whole, and none less.
#[test]
fn steps_that_do_not_repeat_each_other_do_not_beat_the_bound() {
    const BYTES: u64 = 100_000_000;
    const RATE: u64 = 50_000_000_000;
    let span = Span::from_ns(100_000);
    let mut traced = Traced::new();
    let weights: Vec<ObjectId> = (0..3).map(|_| traced.object(BYTES, true)).collect();
    for step in 0..2 {
        for &weight in &weights {
            traced.op(step, 0, span, &[(weight, Mode::Read)]);
        }
    }
    let mut hardware = two_tiers(Bytes::new(2 * BYTES), law(0, RATE));
    // Use in place is slower than to copy all of them.
    hardware.tiers[1].access = law(0, RATE / 5);
    let belady = DemandConfig { algorithm: Algorithm::Belady, ..DemandConfig::lru(vec![FAR]) };
    let (case, step) = judged(hardware, traced, belady);
    let copy = law(0, RATE).span_of(Bytes::new(BYTES)).ps();
    assert_eq!(step.ps(), copy * 3 / 2 + 3 * span.ps());
    assert!(case.bound_step <= step, "bound {}, step {step}", case.bound_step);
    assert!(case.bound_step.ps() > copy, "{} is said to be possible", case.bound_step);
}

/// A few ops whose objects are used in place over a shared link that is slower than their tier: an
/// op lasts as long as the link takes, and a copy beside it makes it last longer.
#[test]
fn a_few_ops_last_as_long_as_links_that_are_slower_than_their_tier() {
    let in_place = |spans: &[u64], sizes: &[u64], (hbm, tier, link): (u64, u64, u64)| {
        let mut traced = Traced::new();
        let objects: Vec<ObjectId> = sizes.iter().map(|&size| traced.object(size, true)).collect();
        for &object in &objects {
            traced.0.modules.push(format!("m{}", object.index()).into());
            traced.0.objects[object.index()].module = Some(ModuleId::at(object.index()));
        }
        for (op, &span) in spans.iter().enumerate() {
            let mode = if op % 3 == 0 { Mode::ReadWrite } else { Mode::Read };
            let uses = [(objects[op % objects.len()], mode)];
            traced.op(0, 0, Span::from_ns(span), &uses);
        }
        let mut hardware = two_tiers(Bytes::new(hbm), law(0, link));
        hardware.tiers[1].access = law(0, tier);
        hardware.links[0].service = fair(None, None);
        let far = hardware.tiers[1].kind;
        let hints = traced.0.modules.iter().map(|module| (module.to_string(), far)).collect();
        let access = Access::InPlace(Charge::EveryUse);
        judged(hardware, traced, HintsConfig { hints, kinds: ObjectKind::ALL.to_vec(), access })
    };
    // 1 MB over 5 GB/s, though the tier has 10: 200 us and the 10 us that the op computes.
    let (case, step) = in_place(&[10_000], &[1_000_000], (100_000, 10_000_000_000, 5_000_000_000));
    assert_eq!(step, Span::from_us(210));
    assert!(case.bound_step <= step && step.ps() - case.bound_step.ps() < 1000, "{case:?}");
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    let mut longer = 0;
    for trial in 0..300 {
        let mut draw = |most: u64| rng.random_range(1..=most);
        let spans: Vec<u64> = (0..draw(12)).map(|_| draw(100_000)).collect();
        let sizes: Vec<u64> = (0..draw(6)).map(|_| 100_000 * draw(10)).collect();
        let rates = (100_000 * draw(20), 1_000_000_000 * draw(20), 1_000_000_000 * draw(20));
        let (case, step) = in_place(&spans, &sizes, rates);
        let bound = case.bound_step;
        assert!(
            bound <= step,
            "{trial}: bound {bound}, step {step}, {spans:?} {sizes:?} {rates:?}"
        );
        longer += u32::from(case.bound_by.ends_with("by linear program"));
    }
    println!("the program says more than the quick bound in {longer} of 300");
    assert!(longer > 50, "{longer} of 300");
}
